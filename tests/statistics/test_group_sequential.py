"""What looks at every round cost, up to a planned last round: against simulation by importance, and itself."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from dragstrip.analysis import EARLY, FLOOR, factor_within
from dragstrip.analysis.group_sequential import EARLY_SHARE, LATE_SHARE, SPENT, weight

ALPHAS = st.floats(1e-4, 0.2)


#: Effects that the simulated races are drawn with have this variance: nearly all of them cross.
TAU2 = 0.3


@cache
def statistics_of_races(planned: int, paths: int = 20_000) -> np.ndarray:
    """The t statistic of many races at each of their rounds: one simulation for all levels."""
    rng, n = np.random.default_rng(5), np.arange(1, planned + 1)
    rounds = rng.normal(size=(paths, planned)) + rng.normal(0, math.sqrt(TAU2), (paths, 1))
    mean = np.cumsum(rounds, axis=1) / n
    squares = np.maximum(np.cumsum(rounds**2, axis=1) - n * mean**2, 1e-12)
    t: np.ndarray = np.abs(mean) * np.sqrt(n * np.maximum(n - 1, 1) / squares)
    return t


def ratio_of(n: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The density of the t statistic without a difference over that with effects from N(0, TAU2)."""
    g, x = 1 + n * TAU2, t**2 / np.maximum(n - 1, 1)
    ratio: np.ndarray = np.exp(np.log(g) / 2 - n / 2 * (np.log1p(x) - np.log1p(x / g)))
    return ratio


def crossed(alpha: float, planned: int) -> tuple[float, float]:
    """The chance, for equal normal rounds, that some look's interval excludes 1, and its standard error.

    Races are drawn with effects from N(0, TAU2), of which nearly all cross, and weighed by the likelihood ratio of
    the t statistic at the crossing (``ratio_of``): exact for any alpha.
    """
    t = statistics_of_races(planned)
    out = t >= np.array([factor_within(k, alpha, planned) for k in range(1, planned + 1)])
    at = out.argmax(axis=1)
    weighed = np.where(out.any(axis=1), ratio_of(at + 1, t[np.arange(len(t)), at]), 0.0)
    return float(weighed.mean()), float(weighed.std() / math.sqrt(len(t)))


@pytest.mark.parametrize("planned", [FLOOR, 11, 20, 60, 250])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 6, 0.05 / 66])
def test_all_looks_together_spend_the_share_of_alpha_that_they_may(alpha: float, planned: int) -> None:
    """From a race of two to one of twelve; the approximation errs by less than a sixth, and to the safe side.

    Before the tenth round any interval that excludes 1 is counted, although a verdict needs more there.
    """
    spent, error = crossed(alpha, planned)
    assert spent <= SPENT * alpha + 3 * error
    assert spent >= 0.85 * SPENT * alpha - 3 * error


@pytest.mark.parametrize(("n", "t"), [(10, 0.3), (10, 2.5), (25, 3.7), (60, 1.0), (200, 5.0)])
def test_the_weights_of_the_simulation_are_ratios_of_densities(n: int, t: float) -> None:
    """The central t density over the noncentral one, mixed over the effects by numerical integration."""
    effects = np.linspace(-8, 8, 16001)
    mixed = stats.nct.pdf(t, n - 1, effects * math.sqrt(n)) * stats.norm.pdf(effects, scale=math.sqrt(TAU2))
    ratio = stats.t.pdf(t, n - 1) / integrate.trapezoid(np.nan_to_num(mixed), effects)
    assert float(ratio_of(np.array(n), np.array(t))) == pytest.approx(ratio, rel=1e-4)


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
    """A race planned for ten rounds looks once from the tenth on; at the share of alpha that these looks spend."""
    late = stats.t.isf(SPENT * LATE_SHARE * alpha / 2, FLOOR - 1)
    assert factor_within(FLOOR, alpha, FLOOR) == pytest.approx(late, rel=1e-3)


@pytest.mark.parametrize("n", range(EARLY, FLOOR))
def test_looks_before_the_tenth_round_have_a_small_share_each(n: int) -> None:
    """Of alpha, for each of two metrics; the later looks have the rest, so that no look is paid for twice."""
    assert factor_within(n, 0.05, 60) == pytest.approx(stats.t.isf(EARLY_SHARE * 0.05 / 2, n - 1), rel=1e-6)
    assert pytest.approx(1) == 2 * (FLOOR - EARLY) * EARLY_SHARE + LATE_SHARE


@pytest.mark.parametrize("n", [0, EARLY - 1, 61])
def test_there_is_nothing_before_the_fifth_round_and_beyond_the_planned_one(n: int) -> None:
    """Looks outside are not paid for."""
    assert factor_within(n, 0.05, 60) == math.inf


def test_extremes_are_numbers() -> None:
    """An alpha of no use, and the last round before the first look."""
    assert factor_within(60, 0.999, 60) >= 0
    assert float(weight(FLOOR - 1)) == 0
