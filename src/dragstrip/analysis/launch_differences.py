"""Differences between two contenders over their extra launches: the launch is the unit, and Holm guards a family.

Samples and counts of one launch are many, but launches scatter by more than counting explains. A test that pools them
found a difference in 95 % of comparisons of a program with itself. So each launch gives one number, and Welch's test
compares the numbers. A few launches may agree by chance better than counting allows. So the variance of counting is
the least variance that is used. Holm's method (1979) bounds the probability of any false alarm in a family.

Between versions of one server Student's test replaces Welch's: a function that did not change scatters alike in both,
so both sides together show its scatter. If one side lacks the function, Welch's test has half as many degrees of
freedom, and misses what Student's finds.

Numbers in, numbers out; ``tests/statistics/test_launch_differences.py`` checks them by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dragstrip.analysis.interval import FloatArray, Interval, student_t

#: The least scatter, per response, that is assumed of a call that belongs to each response: of exact counts a few
#: launches may agree by chance, and calls at the edges of a count belong to no response.
EXACT = 0.0005

#: Fewest launches of a side that can show a difference: with fewer, hardly any real difference was found.
LEAST_LAUNCHES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchNumbers:
    """One number for each launch of one contender.

    Args:
        values: one per launch.
        counting: variance of each value by counting alone; 0 for a value that is not a count.
    """

    values: FloatArray
    counting: FloatArray

    @property
    def mean(self) -> float:
        """NaN without a launch."""
        return float(self.values.mean()) if len(self.values) else math.nan

    @property
    def scatter(self) -> float:
        """Variance of a launch: by the scatter of launches, at least the variance of counting; infinite below two."""
        if len(self.values) < 2:
            return math.inf
        return max(float(self.values.var(ddof=1)), float(self.counting.mean()))

    @property
    def variance(self) -> float:
        """Variance of the mean."""
        return self.scatter / len(self.values) if len(self.values) else math.inf

    def interval(self, alpha: float) -> Interval:
        """The mean, and an interval that misses with ``alpha``."""
        launches = len(self.values)
        half = student_t(launches - 1, alpha) * math.sqrt(self.variance) if launches > 1 else math.nan
        return Interval(estimate=self.mean, low=self.mean - half, high=self.mean + half, level=1 - alpha)


def counts(total: Sequence[float], answered: Sequence[float]) -> LaunchNumbers:
    """A count per response; its variance by counting is a Poisson count's, of one event at least."""
    events, responses = np.asarray(total, dtype=float), np.asarray(answered, dtype=float)
    return LaunchNumbers(values=events / responses, counting=np.maximum(events, 1.0) / responses**2)


def exact_counts(total: Sequence[float], answered: Sequence[float]) -> LaunchNumbers:
    """A count per response of what comes with each response, such as a system call; rare ones scatter as ``counts``."""
    counted = counts(total, answered)
    return LaunchNumbers(values=counted.values, counting=np.minimum(counted.counting, EXACT**2))


def amounts(values: Sequence[float]) -> LaunchNumbers:
    """A number that is not a count."""
    return LaunchNumbers(values=np.asarray(values, dtype=float), counting=np.zeros(len(values)))


def shares(samples: Sequence[float], of_all: Sequence[float], whole: Sequence[float]) -> LaunchNumbers:
    """A part of each launch's whole, by its share of samples; its variance by counting is binomial.

    Args:
        samples: how many samples of each launch were of this part; of_all: how many there were.
        whole: the number that is divided, such as CPU time per response.
    """
    hits, all_ = np.asarray(samples, dtype=float), np.asarray(of_all, dtype=float)
    amount = np.asarray(whole, dtype=float)
    share = hits / all_
    # A part that no sample hit may still have a share of one sample.
    likely = np.clip(share, 1 / all_, 1.0)
    return LaunchNumbers(values=share * amount, counting=amount**2 * likely * (1 - likely) / all_)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchDifference:
    """By how much the second contender's number exceeds the first's.

    Args:
        interval: at the level of this difference's step in Holm's method.
        p: probability of a difference at least this large without any real one; 1 if it can't be tested.
        significant: the family's test found it.
    """

    interval: Interval
    p: float
    significant: bool


def differences(
    pairs: Sequence[tuple[LaunchNumbers, LaunchNumbers]], *, alpha: float = 0.05, scatter_alike: bool = False
) -> tuple[LaunchDifference, ...]:
    """Tests a family of differences, with a probability of at most ``alpha`` for any false alarm.

    Args:
        pairs: numbers of the first and of the second contender, for each member of the family.
        scatter_alike: what does not differ also scatters alike on both sides, as between versions of one server.
    """
    tests = [_test(first, second, scatter_alike=scatter_alike) for first, second in pairs]
    order = sorted(range(len(tests)), key=lambda at: tests[at].p)
    found: dict[int, LaunchDifference] = {}
    rejecting = True
    for step, at in enumerate(order):
        level = alpha / (len(order) - step)
        test = tests[at]
        rejecting = rejecting and test.p < level
        half = student_t(test.freedom, level) * test.error if math.isfinite(test.error) else math.nan
        interval = Interval(
            estimate=test.difference, low=test.difference - half, high=test.difference + half, level=1 - level
        )
        found[at] = LaunchDifference(interval=interval, p=test.p, significant=rejecting)
    return tuple(found[at] for at in range(len(tests)))


@dataclass(frozen=True, slots=True)
class _Tested:
    """Welch's or Student's test: the difference, its standard error, degrees of freedom, and two-sided p."""

    difference: float
    error: float
    freedom: float
    p: float


def _test(first: LaunchNumbers, second: LaunchNumbers, *, scatter_alike: bool) -> _Tested:
    from scipy.special import stdtr  # SciPy takes a quarter of a second to load

    difference = second.mean - first.mean
    if min(len(first.values), len(second.values)) < LEAST_LAUNCHES:
        return _Tested(difference, math.nan, math.nan, 1.0)
    freedoms = (len(first.values) - 1, len(second.values) - 1)
    variances = (first.variance, second.variance)
    if scatter_alike:
        both = sum(f * side.scatter for f, side in zip(freedoms, (first, second), strict=True)) / sum(freedoms)
        variances = (both / len(first.values), both / len(second.values))
    error = math.sqrt(sum(variances))
    if error == 0:  # two constants: equal, or surely different
        return _Tested(difference, 0.0, float(sum(freedoms)), 1.0 if difference == 0 else 0.0)
    # Welch and Satterthwaite: 2k - 2 if both scatter alike, k - 1 if only one of them does.
    welch = sum(variances) ** 2 / sum(v**2 / f for v, f in zip(variances, freedoms, strict=True))
    freedom = sum(freedoms) if scatter_alike else welch
    return _Tested(difference, error, freedom, 2 * float(stdtr(freedom, -abs(difference) / error)))
