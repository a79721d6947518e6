"""Which commit made a server slower: a search by races, whose answers are noisy.

Each race gives a commit's speed relative to GOOD, or to its parent, with an interval. Before the commit that is sought
the ratio to GOOD is 1; from that commit on it is BAD's. So each commit has a probability by Bayes' rule, starting from
equal ones, and the next race is at the commit that tells most. Races of one commit share its build, whose memory
layout has an effect of its own, and all races against GOOD share GOOD's. Sources: Horstein 1963, "Sequential
transmission using noiseless feedback"; Waeber, Frazier & Henderson 2013, "Bisection search with noisy responses".
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import TypeAdapter

from dragstrip import paths
from dragstrip.analysis.comparison import BETWEEN_RACES
from dragstrip.analysis.interval import FloatArray, error_of_log

#: What a build's layout may do to its speed, and what a race may do to a ratio: standard deviations of logarithms.
#: Each has a weight, the more the more usual it is; the races themselves show which of them fit.
SPREADS = tuple(
    (build, race, usual * more)
    for build, usual in ((0.001, 3.0), (0.004, 1.0), (0.01, 0.5))
    for race, more in ((BETWEEN_RACES, 1.2), (0.01, 1.0))
)

#: The share of races that may be off by any amount, up to a factor of e; it keeps one wrong race from deciding alone.
OUTLIERS, OFF = 0.02, 1.0

#: How far BAD's speed may be from GOOD's before it is measured: a standard deviation of the logarithm.
ANY_LEVEL = 0.5

#: The probability at which the search ends.
SURE = 0.98

#: A race that is expected to tell less than this is not run; at most it tells a quarter, if it halves the probability.
LEAST_GAIN = 0.0004


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A commit's speed over another's, by one race.

    Args:
        ratio, low, high: the estimate and its interval. workload: at which it is. race: the race's id.
    """

    ratio: float
    low: float
    high: float
    workload: str
    race: str

    @property
    def logs(self) -> tuple[float, float]:
        """The natural logarithm of the ratio, and its standard deviation within the race."""
        return math.log(self.ratio), error_of_log(self.low, self.high)

    def is_slower(self, threshold: float) -> bool:
        """Whether it is slower, by the whole interval, and by more than a share, by the estimate."""
        return self.high < 1 and self.ratio < 1 / (1 + threshold)


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectStep:
    """One race of the search, or a commit that could not be raced.

    Args:
        commit: that was raced. against: the other commit; "" for GOOD.
        measured: None if it could not be built, started or compared. why: the reason; "" if it was raced.
        seconds: that it took, with the build.
    """

    commit: str
    against: str = ""
    measured: Measured | None = None
    why: str = ""
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class Search:
    """A search and what it has found out so far.

    Args:
        good: the commit before all others. commits: those after it up to BAD, oldest first.
        threshold: the least slowdown that is sought, as a share.
        steps: all races so far, BAD's among them.
    """

    good: str
    commits: tuple[str, ...]
    threshold: float
    steps: list[BisectStep] = field(default_factory=list)

    @property
    def bad(self) -> str:
        """The last commit."""
        return self.commits[-1]

    def of_bad(self) -> Measured | None:
        """BAD's first race that measured something; None before it."""
        return next((step.measured for step in self.steps if step.commit == self.bad and step.measured), None)

    def probabilities(self) -> list[float]:
        """For each commit, the probability that it is the one that made the server slower."""
        return self._known()[0]

    def _known(self) -> tuple[list[float], float, float]:
        """The commits' probabilities, and the likely spreads of builds and of races."""
        raced = [(step, step.measured) for step in self.steps if step.measured]
        if self.of_bad() is None:
            return [1 / len(self.commits)] * len(self.commits), 0.0, 0.0
        place = {self.good: -1} | {commit: number for number, commit in enumerate(self.commits)}
        sides = np.array([(place[step.commit], place[step.against or self.good]) for step, _ in raced])
        logs = np.array([measured.logs for _, measured in raced])
        # A row for each commit: if it is the one, the slowdown is in one side of a race, or in both.
        culprits = np.arange(len(self.commits))[:, None]
        slowed = (sides[:, 0] >= culprits).astype(float) - (sides[:, 1] >= culprits)
        builds = np.zeros((len(raced), len(self.commits) + 1))
        builds[range(len(raced)), sides[:, 0]], builds[range(len(raced)), sides[:, 1]] = 1.0, -1.0
        joint = _log_likelihoods(logs[:, 0], logs[:, 1], slowed, builds @ builds.T)
        weights = np.exp(joint - joint.max())
        weights /= weights.sum()
        build, race, _ = np.array(SPREADS).T
        of_spreads = weights.sum(axis=1)
        return (
            list(map(float, weights.sum(axis=0))),
            math.sqrt(float(of_spreads @ build**2)),
            math.sqrt(float(of_spreads @ race**2)),
        )

    def next(self) -> Asked | None:
        """The next race; None if no other race can tell more.

        A race at a commit separates those up to it from those after it; skipped commits can't be raced. The last race
        is of the suspect against its parent.
        """
        known = self.of_bad()
        if known is None:
            return Asked(self.bad)
        chances, build, race = self._known()
        if max(chances) >= SURE:
            suspect = chances.index(max(chances))
            parent = self.commits[suspect - 1] if suspect else ""
            done = {(step.commit, step.against) for step in self.steps}
            return None if (self.commits[suspect], parent) in done else Asked(self.commits[suspect], parent)
        level, error = known.logs
        skipped = {step.commit for step in self.steps if step.measured is None and not step.against}
        best: Asked | None = None
        most, up_to = LEAST_GAIN, 0.0
        for chance, commit in zip(chances[:-1], self.commits, strict=False):
            up_to += chance
            raced = sum(step.commit == commit for step in self.steps)
            # More races of one build tell what that build is, and less and less of the commit.
            unclear = [
                math.exp(-(level**2) / 8 / (build**2 + (error**2 + race**2) / times)) if times else 1.0
                for times in (raced, raced + 1)
            ]
            gain = up_to * (1 - up_to) * (unclear[0] - unclear[1])
            if commit not in skipped and gain > most:
                best, most = Asked(commit), gain
        return best

    def suspects(self) -> list[tuple[str, float]]:
        """The commits with their probabilities, the likeliest first: as few as make up ``SURE`` together."""
        ranked = sorted(zip(self.commits, self.probabilities(), strict=True), key=lambda pair: -pair[1])
        total, chosen = 0.0, []
        for commit, chance in ranked:
            chosen.append((commit, chance))
            total += chance
            if total >= SURE:
                break
        return chosen

    @property
    def most_steps(self) -> int:
        """The races after which the search gives up: four times as many as without noise, and eight more."""
        return 4 * math.ceil(math.log2(len(self.commits) + 1)) + 8


class Asked(NamedTuple):
    """A race to run: of a commit against another; "" for GOOD."""

    commit: str
    against: str = ""


def _log_likelihoods(logs: FloatArray, errors: FloatArray, slowed: FloatArray, shared: FloatArray) -> FloatArray:
    """How probable these log ratios are: a row for each of ``SPREADS``, a column for each row of ``slowed``.

    All is normal: the slowdown itself, which has any size, each build's effect, each race's, and the error within it.
    Summed over no race or any one of them being off.

    Args:
        slowed: which races have the slowdown. shared: for two races, how many of their builds are the same.
    """
    count = len(logs)
    total = []
    for build, race, weight in SPREADS:
        inside = np.tile(np.diag(errors**2 + race**2) + build**2 * shared, (count + 1, 1, 1))
        inside[range(count), range(count), range(count)] += OFF**2
        inverse, size = np.linalg.inv(inside), np.linalg.slogdet(inside)[1]
        weighed = inverse @ logs
        seen = weighed @ slowed.T
        known = 1 + ANY_LEVEL**2 * ((slowed @ inverse) * slowed).sum(axis=2)
        plain = weighed @ logs + size
        chance = np.array([math.log(OUTLIERS)] * count + [math.log1p(-OUTLIERS)])
        each = chance[:, None] - (plain[:, None] - ANY_LEVEL**2 * seen**2 / known + np.log(known)) / 2
        total.append(np.logaddexp.reduce(each, axis=0) + math.log(weight))
    return np.array(total)


_STEPS = TypeAdapter(list[BisectStep])


def save(file: Path, search: Search) -> None:
    """Writes a search, so that the same command goes on with it.

    Raises:
        BadUsage: the file can't be written. DiskFull: no space is left.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    paths.write(file, json.dumps(asdict(search)))


def resumed(file: Path, search: Search) -> Search:
    """A search with the steps of an earlier one of the same commits and threshold; as it is without one."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        same = (stored["good"], tuple(stored["commits"]), stored["threshold"])
        steps = _STEPS.validate_python(stored["steps"])
    except (OSError, ValueError, TypeError, KeyError):
        return search
    if same == (search.good, search.commits, search.threshold):
        search.steps.extend(steps)
    return search
