"""Intervals for all pairs at once: against scipy's studentized range, closed forms, and simulation."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from dragstrip.analysis.group_sequential import FIRST_SHARE, level_within, stage_of
from dragstrip.analysis.simultaneous import pair_variances, range_factor


@pytest.mark.parametrize(("contenders", "freedom"), [(3, 9), (4, 30), (8, 10), (8, 16), (15, 63), (31, 20)])
@pytest.mark.parametrize("level", [0.05, 0.003, 1e-4])
def test_the_factor_is_scipys_quantile_of_the_studentized_range(contenders: int, freedom: int, level: float) -> None:
    """Over the square root of two, as a pair's own standard error is meant."""
    wanted = float(stats.studentized_range.ppf(1 - level, contenders, freedom)) / math.sqrt(2)
    assert range_factor(contenders, freedom, level) == pytest.approx(wanted, rel=2e-3)


def test_two_contenders_have_students_t() -> None:
    """Nothing else is compared beside them."""
    assert range_factor(2, 11.5, 0.01) == pytest.approx(-stats.t.ppf(0.005, 11.5))


def columns(contenders: int) -> list[tuple[int, int]]:
    """All pairs."""
    return list(combinations(range(contenders), 2))


def test_two_or_three_contenders_tell_no_more_of_a_pair_than_its_own_rounds() -> None:
    """There are as many pairs as contenders, or fewer: nothing is left over to pool."""
    for contenders in (2, 3):
        pairs = columns(contenders)
        found = pair_variances(pairs, [0.01, 0.02, 0.03][: len(pairs)], [12] * len(pairs), contenders)
        assert [(one.variance, one.freedom) for one in found] == [(v, 11.0) for v in (0.01, 0.02, 0.03)[: len(pairs)]]


def test_exact_variances_come_out_as_they_are_with_more_freedom() -> None:
    """With eight alike, nearly twice as many numbers estimate the pair's variance."""
    own = np.array([1.0, 1.0, 1.0, 2.0, 1.0, 0.5, 1.0, 1.0])
    pairs = columns(8)
    found = pair_variances(pairs, [own[a] + own[b] for a, b in pairs], [12] * 28, 8)
    assert [one.variance for one in found] == pytest.approx([own[a] + own[b] for a, b in pairs])
    assert all(11.0 <= one.freedom <= 22.0 for one in found)
    assert np.median([one.freedom for one in found]) > 14


def test_a_pair_with_too_few_rounds_keeps_its_own_variance() -> None:
    """And takes nothing from the others."""
    found = pair_variances(columns(4), [1.0, 1.0, 1.0, 1.0, 1.0, math.nan], [12, 12, 12, 12, 12, 1], 4)
    assert math.isnan(found[-1].variance)
    assert found[0].variance == pytest.approx(1.0)


@pytest.mark.parametrize("scatter", ["alike", "one five times", "half three times"])
def test_all_intervals_hold_at_once_whatever_each_ones_scatter(scatter: str) -> None:
    """1,200 races of eight, one look: the level is kept within 3 standard errors, and Bonferroni's are wider."""
    own = {"alike": [1] * 8, "one five times": [5] + [1] * 7, "half three times": [3] * 4 + [1] * 4}[scatter]
    rng, pairs, n, races, level = np.random.default_rng(5), columns(8), 12, 1200, 0.03
    first, second = np.array(pairs).T
    lost, widths = 0, []
    for _ in range(races):
        x = rng.normal(size=(n, 8)) * own
        d = x[:, first] - x[:, second]
        v = d.var(axis=0, ddof=1)
        found = pair_variances(pairs, list(v), [n] * 28, 8)
        half = np.array([range_factor(8, one.freedom, level) * math.sqrt(one.variance / n) for one in found])
        lost += bool((np.abs(d.mean(axis=0)) > half).any())
        widths.append(float(np.mean(half) / np.mean(-stats.t.ppf(level / 2 / 28, n - 1) * np.sqrt(v / n))))
    assert lost / races <= level + 3 * math.sqrt(level * (1 - level) / races)
    assert np.mean(widths) < 0.93


@pytest.mark.parametrize("contenders", [2, pytest.param(8, marks=pytest.mark.thorough)])
def test_all_looks_of_a_race_hold_together(contenders: int) -> None:
    """600 races of alike contenders, a look after every round from the tenth to the 30th, and ten of an extension."""
    rng, pairs, races = np.random.default_rng(8), columns(contenders), 600
    first, second = np.array(pairs).T
    levels = {n: level_within(n, *stage_of(n, 0.05, (30, 40))) for n in range(10, 41)}
    lost = 0
    for _ in range(races):
        x = rng.normal(size=(40, contenders))
        d = x[:, first] - x[:, second]
        means = d.cumsum(axis=0) / np.arange(1, 41)[:, None]
        for n in range(10, 41):
            v = d[:n].var(axis=0, ddof=1)
            # A quick look first: by pooled normal intervals far narrower than any of ours nothing is beyond.
            if np.max(np.abs(means[n - 1]) / np.sqrt(v / n)) < 2.2:
                continue
            found = pair_variances(pairs, list(v), [n] * len(pairs), contenders)
            half = [range_factor(contenders, o.freedom, levels[n]) * math.sqrt(o.variance / n) for o in found]
            if (np.abs(means[n - 1]) > half).any():
                lost += 1
                break
    assert lost / races <= 0.05


def test_an_extensions_looks_have_what_the_first_budget_left() -> None:
    """Four fifths, then half of the rest each time: never more than alpha in all."""
    stages = (20, 35, 60)
    shares = [stage_of(n, 1.0, stages)[0] for n in (20, 21, 60, 70)]
    assert shares == pytest.approx([FIRST_SHARE, 0.1, 0.05, 0.05])
    assert FIRST_SHARE + sum((1 - FIRST_SHARE) / 2**stage for stage in range(1, 60)) <= 1.0
    assert level_within(4, 0.05, 20) == level_within(21, 0.05, 20) == 0.0
    assert 0 < level_within(5, 0.05, 20) == level_within(9, 0.05, 20) < level_within(10, 0.05, 20)
    assert 0 < level_within(10, 0.05, 20) < level_within(20, 0.05, 20) < 0.05
