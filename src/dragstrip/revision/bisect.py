"""Which commit made a server slower: a search by races, whose answers are noisy.

Each race gives a commit's speed relative to GOOD, with an interval. Before the commit that is sought the ratio is 1;
from that commit on it is BAD's ratio. So each commit has a probability by Bayes' rule, starting from equal ones, and
the next race is at the commit that halves the probability. Sources: Horstein 1963, "Sequential transmission using
noiseless feedback"; Waeber, Frazier & Henderson 2013, "Bisection search with noisy responses".
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from dragstrip import paths
from dragstrip.analysis.interval import error_of_log

#: Two races of the same servers differ by more than their intervals say: this much, as a standard deviation of the
#: ratio's natural logarithm.
BETWEEN_RACES = 0.004

#: The share of races that may be off by any amount; it keeps one wrong race from deciding alone.
OUTLIERS = 0.02

#: The probability at which the search ends.
SURE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A commit's speed over GOOD's, by one race.

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
        """The natural logarithm of the ratio, and its standard deviation."""
        return math.log(self.ratio), math.hypot(error_of_log(self.low, self.high), BETWEEN_RACES)

    def is_slower(self, threshold: float) -> bool:
        """Whether it is slower, by the whole interval, and by more than a share, by the estimate."""
        return self.high < 1 and self.ratio < 1 / (1 + threshold)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One race of the search, or a commit that could not be raced.

    Args:
        commit: that was raced against GOOD.
        measured: None if it could not be built, started or compared. why: the reason; "" if it was raced.
        seconds: that it took, with the build.
    """

    commit: str
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
    steps: list[Step] = field(default_factory=list)

    @property
    def bad(self) -> str:
        """The last commit."""
        return self.commits[-1]

    def of_bad(self) -> Measured | None:
        """BAD's race; None before it."""
        return next((step.measured for step in self.steps if step.commit == self.bad), None)

    def probabilities(self) -> list[float]:
        """For each commit, the probability that it is the one that made the server slower."""
        known = self.of_bad()
        if known is None:
            return [1 / len(self.commits)] * len(self.commits)
        level, unsure = known.logs
        place = {commit: number for number, commit in enumerate(self.commits)}
        logs = [0.0] * len(self.commits)
        for step in self.steps:
            if step.measured is None or step.measured is known:
                continue
            value, spread = step.measured.logs
            before, after = _density(value, 0.0, spread), _density(value, level, math.hypot(spread, unsure))
            for number in range(len(self.commits)):
                logs[number] += math.log(after if number <= place[step.commit] else before)
        most = max(logs)
        weights = [math.exp(value - most) for value in logs]
        return [weight / sum(weights) for weight in weights]

    def next(self) -> str | None:
        """The commit to race next: the one that halves the probability; None if no other race can tell more.

        A race at a commit separates those up to it from those after it; skipped commits can't be raced.
        """
        if self.of_bad() is None:
            return self.bad
        chances = self.probabilities()
        if max(chances) >= SURE:
            return None
        skipped = {step.commit for step in self.steps if step.measured is None}
        up_to, best, nearest = 0.0, None, 0.5
        for number, commit in enumerate(self.commits[:-1]):
            up_to += chances[number]
            if commit not in skipped and abs(up_to - 0.5) < nearest and min(up_to, 1 - up_to) > (1 - SURE) / 2:
                best, nearest = commit, abs(up_to - 0.5)
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
        """The races after which the search gives up: three times as many as without noise, and four more."""
        return 3 * math.ceil(math.log2(len(self.commits) + 1)) + 4


def _density(value: float, mean: float, spread: float) -> float:
    """A normal density, mixed with a flat one for outliers (over a factor of e to either side)."""
    normal = math.exp(-0.5 * ((value - mean) / spread) ** 2) / (spread * math.sqrt(2 * math.pi))
    return (1 - OUTLIERS) * normal + OUTLIERS / 2


_STEPS = TypeAdapter(list[Step])


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
