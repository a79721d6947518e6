"""Intervals of pairs and of single contenders: against closed forms and scipy."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import normal, only, race_of
from scipy import stats

from dragstrip import analysis
from dragstrip.analysis import factor_within
from dragstrip.analysis.group_sequential import FIRST_SHARE
from dragstrip.analysis.interval import quantile

ALPHAS = st.floats(1e-5, 0.2)


@given(st.integers(2, 3000), ALPHAS)
def test_the_quantile_is_scipys_two_sided_one(n: int, alpha: float) -> None:
    """Half of alpha beyond either end."""
    assert quantile(n, alpha) == pytest.approx(stats.t.isf(alpha / 2, n - 1))


def test_a_fixed_number_of_rounds_gets_the_plain_t_with_all_of_alpha_at_its_end_only() -> None:
    """--rounds 30: before, no interval at all; then scipy's at 95 %."""
    a = normal(2, 30, mean=0.05)
    race = race_of({"a": a, "b": [0.0] * 30}, planned=30, rounds_fixed=True)
    before, last = only(replace(race, rounds=race.rounds[:29])), only(race)
    assert before.verdict == "undecided"
    assert math.isnan(before.low)
    interval = stats.ttest_1samp(a, 0).confidence_interval(0.95)
    assert (math.log(last.low), math.log(last.high)) == pytest.approx(tuple(interval), abs=1e-6)
    assert last.verdict == "faster"


def test_own_intervals_are_the_ordinary_ones_on_the_log_scale() -> None:
    """Geometric mean and scipy's t interval; they describe one contender and decide nothing."""
    logs = normal(4, 16)
    estimate = analysis.judge(race_of({"a": logs, "b": [0.0] * 16})).column.estimates["a"].throughput_per_s
    assert estimate is not None
    rates = np.exp(logs) * 1e8 / 0.025
    assert estimate.estimate == pytest.approx(stats.gmean(rates))
    interval = stats.ttest_1samp(np.log(rates), 0).confidence_interval(0.95)
    assert (estimate.low, estimate.high) == pytest.approx(tuple(np.exp(interval)))


def test_the_forecast_is_where_the_same_mean_and_scatter_would_decide() -> None:
    """Repeating the rounds so often decides; a few repetitions fewer do not."""
    once = normal(3, 20, 0.02, 0.004)
    pair = only(race_of({"a": once, "b": [0.0] * 20}))
    assert pair.more_rounds is not None
    assert pair.more_s == pytest.approx(pair.more_rounds * 1.0, rel=1e-6)
    scatter, aim = np.std(once, ddof=1), abs(np.mean(once))
    aim = max(aim, math.log(1.01) - aim)
    enough = 20 + pair.more_rounds
    for n, does in ((enough, True), (enough - 1, False)):
        assert (factor_within(n, 0.05 * FIRST_SHARE, 10_000) * scatter / math.sqrt(n) < aim) == does
