"""Where the level of a history changed, as far as the code can be the reason.

PELT finds the candidates with a squared-error cost (Killick, Fearnhead & Eckley 2012), by ``ruptures``. It has no
error rate, so each candidate must also pass Welch's t-test between its neighbouring segments, the least significant
one first, until all that are left pass. A series is cut wherever machine, kernel, method or load changed: no change is
looked for across a cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dragstrip.analysis.history import HistoryPoint

#: The significance of a change. Looked at after every race, it gives one false change in some 500 races.
SIGNIFICANCE = 0.003

#: Races that a level needs.
MIN_RACES = 3

#: The weight of PELT's penalty, in logarithms of the number of races (the Bayesian criterion has 2 to 3).
PENALTY = 3.0

#: Single races that are further from their neighbours than this many standard deviations count as if they were not.
CLIP = 4.0

#: The confidence of a change's interval.
CONFIDENCE = 0.95

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """A change of the level between two races that follow each other.

    Args:
        place: of the first race at the new level, in the series.
        ratio, low, high: the new level over the old one, and its interval.
        p_value: of Welch's test.
        before, after: the last race at the old level, and the first one at the new.
    """

    place: int
    ratio: float
    low: float
    high: float
    p_value: float
    before: HistoryPoint
    after: HistoryPoint


def cuts(points: Sequence[HistoryPoint]) -> dict[int, tuple[str, ...]]:
    """The places at which the environment differs from the race before, with the fields that differ."""
    return {
        place: new.environment.changed_from(old.environment)
        for place, (old, new) in enumerate(pairwise(points), 1)
        if old.environment != new.environment
    }


def changes(points: Sequence[HistoryPoint]) -> list[ChangePoint]:
    """The changes of a series, oldest first; none across a change of machine, kernel, method or load."""
    edges = [0, *cuts(points), len(points)]
    return [change for first, end in pairwise(edges) for change in _changes(points, first, end)]


def _changes(points: Sequence[HistoryPoint], first: int, end: int) -> Iterator[ChangePoint]:
    """The changes among races of one environment, from place ``first`` up to before ``end``."""
    part = points[first:end]
    if len(part) < 2 * MIN_RACES:
        return
    import ruptures

    values = np.array([point.log for point in part])
    scale = max(_noise(values), float(np.median([point.spread for point in part])), 1e-6)
    values = _clipped(values, scale)
    # With a linear kernel this is PELT with the squared error, compiled.
    search = ruptures.KernelCPD(kernel="linear", min_size=MIN_RACES).fit(values / scale)
    edges = [0, *search.predict(pen=PENALTY * math.log(len(values)))]
    while tests := list(_tests(values, edges, scale)):
        least = max(range(len(tests)), key=lambda number: tests[number].p_value)
        if tests[least].p_value <= SIGNIFICANCE:
            break
        del edges[least + 1]
    for edge, test in zip(edges[1:], tests, strict=False):
        place = first + edge
        yield ChangePoint(
            place=place,
            ratio=math.exp(test.mean),
            low=math.exp(test.mean - test.half),
            high=math.exp(test.mean + test.half),
            p_value=test.p_value,
            before=points[place - 1],
            after=points[place],
        )


def _tests(values: Values, edges: Sequence[int], scale: float) -> Iterator[_RankTest]:
    """The test of each edge between two segments."""
    for first, edge, end in zip(edges, edges[1:], edges[2:], strict=False):
        yield _welch(values[first:edge], values[edge:end], scale)


def _noise(values: Values) -> float:
    """The standard deviation between neighbouring races, by the median of differences: no change of level counts."""
    steps = np.diff(values)
    return float(np.median(np.abs(steps - np.median(steps))) / (0.6745 * math.sqrt(2)))


def _clipped(values: Values, scale: float) -> Values:
    """The values, each at most ``CLIP`` standard deviations away from the median of seven around it."""
    middles = np.array([np.median(values[max(0, at - 3) : at + 4]) for at in range(len(values))])
    return np.clip(values, middles - CLIP * scale, middles + CLIP * scale)


@dataclass(frozen=True, slots=True)
class _RankTest:
    """A test of two levels: its p-value, and the difference with half of its interval."""

    p_value: float
    mean: float
    half: float


def _welch(old: Values, new: Values, scale: float) -> _RankTest:
    """Welch's t-test of two levels.

    A few races may agree by chance, so no variance counts as less than half of what the races' own intervals say.
    """
    variances = [max(float(part.var(ddof=1)), scale**2 / 2) / len(part) for part in (old, new)]
    error = math.sqrt(sum(variances))
    freedom = sum(variances) ** 2 / sum(
        variance**2 / (len(part) - 1) for variance, part in zip(variances, (old, new), strict=True)
    )
    mean = float(new.mean() - old.mean())
    p_value = 2 * float(stats.t.sf(abs(mean) / error, freedom))
    return _RankTest(p_value, mean, error * float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)))
