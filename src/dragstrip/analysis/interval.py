"""An estimate and the interval around it: one type for pairs, changes between races and single contenders.

Method: ``docs/METHOD.md``, "The interval". Numbers in, numbers out; ``tests/statistics/test_intervals.py`` checks them
against scipy and simulation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dragstrip.metrics import PairVerdict

FloatArray = NDArray[np.float64]

#: Fewest rounds of both that decide small differences: below, a rare slow launch breaks any t interval.
FLOOR = 10

#: Fewest rounds of both that decide anything. Before ``FLOOR``, an interval must show a difference of ``LEAST_APART``.
EARLY, LEAST_APART = 5, 0.1

#: The least and the largest half-width of an interval before ``FLOOR``, on the log scale. Three of ten launches that
#: are up to 15 % slower move a mean by less than the first. A wider interval than the second says too little to end a
#: race.
EARLY_HALF, WIDEST_HALF = math.log(1.05), math.log(1.15)


def early_half(mean: float, half: float) -> float:
    """Half the width of an interval before ``FLOOR``, on the log scale; infinite if that would not decide.

    Args:
        mean: of the log ratios; half: by the look's own level.
    """
    wide = max(half, EARLY_HALF)
    return wide if wide <= WIDEST_HALF and abs(mean) - wide > math.log1p(LEAST_APART) else math.inf


def student_t(freedom: float, level: float) -> float:
    """Two-sided quantile of Student's t: half-width, in standard errors, of an interval that misses with ``level``."""
    from scipy.special import stdtrit  # SciPy takes a quarter of a second to load

    return -float(stdtrit(freedom, level / 2))


@cache
def quantile(n: int, alpha: float) -> float:
    """Two-sided quantile of Student's t over ``n`` rounds, ``n`` from 2."""
    return student_t(n - 1, alpha)


def error_of_log(low: float, high: float) -> float:
    """The standard error of a ratio's natural logarithm, from an interval of 95 % that is taken as a normal one."""
    return (math.log(high) - math.log(low)) / (2 * 1.959964)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate and what it may be; ``low`` and ``high`` are NaN if there is too little for an interval.

    Args:
        level: the confidence with which it holds, such as 0.95. Of pairs and changes: the confidence that all of them
            hold at once.
    """

    estimate: float
    low: float
    high: float
    level: float

    @property
    def bounded(self) -> bool:
        """Whether there is an interval at all."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def inverted(self) -> Interval:
        """Of a ratio: the same, seen from the other side."""
        return Interval(
            estimate=_inverse(self.estimate), low=_inverse(self.high), high=_inverse(self.low), level=self.level
        )

    @classmethod
    def of_logs(cls, middle: float, half: float, level: float) -> Interval:
        """From a mean and half a width on the log scale; no bounds if ``half`` is not finite."""
        bounds = (math.exp(middle - half), math.exp(middle + half)) if math.isfinite(half) else (math.nan, math.nan)
        return cls(estimate=math.exp(middle), low=bounds[0], high=bounds[1], level=level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A ratio of two speeds, above 1 if the first is better, with its interval and what that decides."""

    interval: Interval
    verdict: PairVerdict

    @property
    def ratio(self) -> float:
        """The first speed over the second; NaN without a number of both."""
        return self.interval.estimate

    @property
    def low(self) -> float:
        """The interval's lower end."""
        return self.interval.low

    @property
    def high(self) -> float:
        """The interval's upper end."""
        return self.interval.high

    @property
    def decided(self) -> bool:
        """Whether there is a verdict."""
        return self.verdict is not PairVerdict.UNDECIDED


def decide(mean: float, half: float, margin: float) -> tuple[PairVerdict, bool]:
    """The outcome by an interval on the log scale, and whether that lies within the margin."""
    low, high, limit = mean - half, mean + half, math.log1p(margin)
    within = -limit < low and high < limit
    if low > 0:
        return PairVerdict.FASTER, within
    if high < 0:
        return PairVerdict.SLOWER, within
    return PairVerdict.SAME if within else PairVerdict.UNDECIDED, within


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf
