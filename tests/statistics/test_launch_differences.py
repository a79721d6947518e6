"""Differences over launches: few false alarms however launches scatter, and real differences are found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dragstrip.analysis.launch_differences import LaunchNumbers, amounts, counts, differences, shares

#: A profile of 30 functions: the largest has a fifth of all samples.
_WEIGHTS = np.array([0.18, 0.12, 0.1, 0.08, *np.full(26, 0.02)])
PROFILE = _WEIGHTS / _WEIGHTS.sum()


def test_one_difference_is_welchs_test() -> None:
    """Against SciPy, with unequal variances and numbers of launches."""
    first, second = [5.1, 5.3, 4.9, 5.2, 5.0], [5.6, 5.1, 6.2, 5.9]
    (found,) = differences([(amounts(first), amounts(second))])
    known = stats.ttest_ind(second, first, equal_var=False)
    assert found.p == pytest.approx(known.pvalue)
    interval = known.confidence_interval(0.95)
    assert (found.interval.low, found.interval.high) == pytest.approx((interval.low, interval.high))


def test_versions_of_one_server_are_compared_by_students_test() -> None:
    """Against SciPy; if one side lacks a function, the other side's scatter counts with all degrees of freedom."""
    first, second = [5.1, 5.3, 4.9, 5.2, 5.0], [5.6, 5.1, 6.2, 5.9]
    (found,) = differences([(amounts(first), amounts(second))], scatter_alike=True)
    known = stats.ttest_ind(second, first)
    assert found.p == pytest.approx(known.pvalue)
    interval = known.confidence_interval(0.95)
    assert (found.interval.low, found.interval.high) == pytest.approx((interval.low, interval.high))
    lacking = (amounts([0.0] * 4), amounts([1.0, 1.3, 0.8, 1.1]))
    p_student, p_welch = (differences([lacking], scatter_alike=alike)[0].p for alike in (True, False))
    assert p_student < p_welch / 5


def test_a_family_is_tested_by_holm() -> None:
    """Each step has its own level, and nothing after a step that fails is found."""
    steady = amounts([1.0, 1.01, 0.99, 1.0])
    pairs = [(steady, amounts([1.0 + gap, 1.01 + gap, 0.99 + gap, 1.0 + gap])) for gap in (0.5, 0.0155, 0.0)]
    found = differences(pairs)
    assert found[0].p < 0.05 / 3
    assert 0.05 / 2 < found[1].p < 0.05
    assert [one.significant for one in found] == [True, False, False]
    assert [round(one.interval.level, 4) for one in found] == [0.9833, 0.975, 0.95]


def test_too_few_launches_show_nothing() -> None:
    """Three launches, however far apart; and the interval is unknown."""
    (found,) = differences([(amounts([1.0, 1.0, 1.0]), amounts([9.0, 9.0, 9.0]))])
    assert not found.significant
    assert not found.interval.bounded


def test_constants_are_equal_or_different() -> None:
    """A number that does not scatter at all needs no variance."""
    same, other = amounts([160.0] * 4), amounts([162.0] * 4)
    found = differences([(same, same), (same, other)])
    assert [one.significant for one in found] == [False, True]


def test_launches_that_agree_by_chance_have_at_least_the_variance_of_counting() -> None:
    """A count of 4 in 100 responses, the same in each launch by chance, is not known precisely."""
    four = counts([4, 4, 4, 4], [100, 100, 100, 100])
    assert four.variance == pytest.approx(0.0004 / 4)
    half = shares([50, 50, 50, 50], [100] * 4, [8.0] * 4)
    assert half.variance == pytest.approx(64 * 0.25 / 100 / 4)


def launches(rng: np.random.Generator, count: int, profile: np.ndarray, cpu_us: float) -> list[LaunchNumbers]:
    """Functions' CPU time per response over launches that scatter by 2.5 %, and functions by more than counting."""
    samples = []
    whole = cpu_us * np.exp(rng.normal(0, 0.025, count))
    for _ in range(count):
        drawn = profile * np.exp(rng.normal(0, 0.05, len(profile)))
        samples.append(rng.multinomial(1000, drawn / drawn.sum()))
    table = np.array(samples)
    return [shares(table[:, at], [1000] * count, whole) for at in range(len(profile))]


@pytest.mark.parametrize(("count", "alike"), [(4, True), (6, True), (4, False)])
def test_a_program_against_itself_gives_few_false_alarms(count: int, alike: bool) -> None:
    """Of 200 comparisons of the same program, at most 5 % have any alarm among 30 functions, within chance."""
    rng = np.random.default_rng(32 + count)
    alarms = 0
    for _ in range(200):
        first, second = (launches(rng, count, PROFILE, 5.2) for _ in range(2))
        found = differences(list(zip(first, second, strict=True)), scatter_alike=alike)
        alarms += any(one.significant for one in found)
    assert stats.binom.sf(alarms - 1, 200, 0.05) > 0.001


@pytest.mark.parametrize(("count", "planted", "least"), [(4, 0.10, 90), (4, 0.05, 70), (6, 0.05, 95)])
def test_a_planted_function_is_found(count: int, planted: float, least: int) -> None:
    """A new function of this share of all CPU time is named, in at least this many of 100 comparisons."""
    rng = np.random.default_rng(7)
    grown = np.append(PROFILE, planted)
    found = 0
    for _ in range(100):
        first = launches(rng, count, np.append(PROFILE, 0.0), 5.2)
        second = launches(rng, count, grown / grown.sum(), 5.2 * (1 + planted))
        found += differences(list(zip(first, second, strict=True)), scatter_alike=True)[-1].significant
    assert found >= least
