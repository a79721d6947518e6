"""What looks at every round cost, up to a planned last round: against simulation by importance, and itself."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dragstrip.analysis import FLOOR, e_value, factor_within, p_within
from dragstrip.analysis.group_sequential import SPENT, weight

ALPHAS = st.floats(1e-4, 0.2)


#: Effects that the simulated races are drawn with have this variance: nearly all of them cross.
TAU2 = 0.3


@cache
def statistics_of_races(planned: int, paths: int = 20_000) -> np.ndarray:
    """The t statistic of so many races at each of their rounds: one simulation for all levels."""
    rng, n = np.random.default_rng(5), np.arange(1, planned + 1)
    rounds = rng.normal(size=(paths, planned)) + rng.normal(0, math.sqrt(TAU2), (paths, 1))
    mean = np.cumsum(rounds, axis=1) / n
    squares = np.maximum(np.cumsum(rounds**2, axis=1) - n * mean**2, 1e-12)
    t: np.ndarray = np.abs(mean) * np.sqrt(n * np.maximum(n - 1, 1) / squares)
    return t


def crossed(alpha: float, planned: int) -> tuple[float, float]:
    """The chance, for equal normal rounds, that some look's interval excludes 1, and its standard error.

    Races are drawn with effects from N(0, TAU2), of which nearly all cross, and weighed by the likelihood ratio of
    the t statistic at the crossing, which is the e-value's closed form for that TAU2: exact for any alpha.
    """
    t = statistics_of_races(planned)
    out = t >= np.array([factor_within(k, alpha, planned) for k in range(1, planned + 1)])
    at = out.argmax(axis=1)
    x = t[np.arange(len(t)), at] ** 2 / np.maximum(at, 1)
    g = 1 + (at + 1) * TAU2
    ratio = np.exp(np.log(g) / 2 - (at + 1) / 2 * (np.log1p(x) - np.log1p(x / g)))
    weighed = np.where(out.any(axis=1), ratio, 0.0)
    return float(weighed.mean()), float(weighed.std() / math.sqrt(len(t)))


@pytest.mark.parametrize("planned", [FLOOR, 11, 20, 60, 250])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 6, 0.05 / 66])
def test_all_looks_together_spend_the_share_of_alpha_that_they_may(alpha: float, planned: int) -> None:
    """From a race of two to one of twelve; the approximation errs by less than a sixth, and to the safe side."""
    spent, error = crossed(alpha, planned)
    assert spent <= SPENT * alpha + 3 * error
    assert spent >= 0.85 * SPENT * alpha - 3 * error


def test_the_weights_of_the_simulation_are_the_e_value() -> None:
    """With effects of variance 1 the same ratio is ``e_value``, which is held against numerical integration."""
    n, t = 25, 3.1
    g, x = 1 + n * 1.0, t * t / (n - 1)
    assert math.exp(n / 2 * (math.log1p(x) - math.log1p(x / g)) - math.log(g) / 2) == pytest.approx(e_value(n, t))


@given(st.integers(0, 300), st.floats(0, 30), ALPHAS, st.integers(FLOOR, 400))
def test_a_pairs_p_value_is_the_level_at_which_its_interval_excludes_1(n, t, alpha, planned) -> None:
    """So that Holm's decisions and the intervals come from one and the same test."""
    p = p_within(n, t, planned)
    if abs(p / alpha - 1) > 1e-6 and p < 1:
        assert (p < alpha) == (t > factor_within(n, alpha, planned))


@given(st.integers(FLOOR, 3000), ALPHAS)
def test_more_rounds_less_confidence_and_fewer_looks_make_the_interval_narrower(n: int, alpha: float) -> None:
    """The half-width falls with n, with alpha and with the looks paid for; it is wider than one unpeeked t interval."""
    half = factor_within(n, alpha, 3001) / math.sqrt(n)
    assert half >= factor_within(n + 1, alpha, 3001) / math.sqrt(n + 1)
    assert half >= factor_within(n, alpha * 1.5, 3001) / math.sqrt(n)
    assert half >= factor_within(n, alpha, n) / math.sqrt(n)
    assert factor_within(n, alpha, 3001) > stats.t.isf(alpha / 2, n - 1)


@given(ALPHAS)
def test_one_look_is_the_ordinary_t_test(alpha: float) -> None:
    """A race planned for ten rounds looks once; at the share of alpha that is spent."""
    assert factor_within(FLOOR, alpha, FLOOR) == pytest.approx(stats.t.isf(SPENT * alpha / 2, FLOOR - 1), rel=1e-3)


@pytest.mark.parametrize("n", [0, FLOOR - 1, 61])
def test_there_is_nothing_before_the_tenth_round_and_beyond_the_planned_one(n: int) -> None:
    """Looks outside are not paid for."""
    assert factor_within(n, 0.05, 60) == math.inf
    assert p_within(n, math.inf, 60) == 1.0


def test_extremes_are_numbers() -> None:
    """No scatter at all, no statistic, alphas of no use."""
    assert 0 < p_within(60, math.inf, 60) < 1e-200
    assert p_within(60, math.nan, 60) == 1.0
    assert p_within(60, 0.0, 60) == 1.0
    assert factor_within(60, 0.999, 60) >= 0
    assert float(weight(FLOOR - 1)) == 0
