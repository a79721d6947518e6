"""How strong one pair's evidence is: critical values, e-values, p-values, and Holm's step-down over all pairs.

Method: ``docs/METHOD.md``, "The interval". Numbers in, numbers out; each is checked against closed forms, scipy,
statsmodels or simulation in ``tests/statistics/test_analysis.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from scipy.special import stdtr, stdtrit

#: Fewest rounds of both that decide anything: below, a rare slow launch breaks any t interval.
FLOOR = 10

#: The shares of alpha spent on looking at every round, and on the one planned last round.
ANYTIME_SHARE, FINAL_SHARE = 0.6, 0.4

#: Variance of the mixture over the standardised effect.
TAU2 = 1.0


@cache
def critical(n: int, alpha: float) -> float:
    """Critical value of the anytime-valid t-test: ``|t_n| >= critical`` at *any* n happens in at most alpha of nulls.

    Mixture N(0, TAU2) over the standardised effect, right-Haar prior on the scale (Lai 1976; Wang & Ramdas 2024);
    infinite where n is too small for that alpha. ``n``: rounds, from 2.
    """
    if n < 2:
        return math.inf
    g = 1 + n * TAU2
    excess = math.expm1((math.log(g) - 2 * math.log(alpha)) / n)
    left = 1 - (1 + excess) / g
    return math.sqrt((n - 1) * excess / left) if left > 0 else math.inf


def e_value(n: int, t: float) -> float:
    """The same test's evidence against "no difference": ``e_value(n, critical(n, alpha)) == 1 / alpha``.

    The likelihood ratio of the t statistic: ``g^-1/2 ((1 + x) / (1 + x / g))^(n/2)`` with ``x = t²/(n-1)`` and
    ``g = 1 + n TAU2``. Its expectation is at most 1 at any stopping time where there is no difference.
    ``t`` may be infinite.
    """
    if n < 2 or math.isnan(t):
        return 0.0
    g, x = 1 + n * TAU2, t * t / (n - 1)
    gain = math.log(g) if math.isinf(x) else math.log1p(x) - math.log1p(x / g)
    exponent = n / 2 * gain - math.log(g) / 2
    return math.exp(min(exponent, 700.0))


def p_value(n: int, t: float, *, last: bool, fixed: bool) -> float:
    """The smallest alpha at which the pair's interval would exclude 1; 1 where there is no interval yet.

    Args:
        last: this is the planned last round, at which the ordinary t-test may be used.
        fixed: the number of rounds was fixed before the race: only the last round counts, with all of alpha.
    """
    if n < FLOOR or math.isnan(t):
        return 1.0
    plain = 2 * float(stdtr(n - 1, -abs(t))) if last else 1.0
    if fixed:
        return plain
    e = e_value(n, t)
    return min(1.0, 1 / (ANYTIME_SHARE * e) if e > 0 else 1.0, plain / FINAL_SHARE)


def factor(n: int, alpha: float, *, last: bool, fixed: bool) -> float:
    """Half-width of the interval in standard errors; infinite where there is none yet. Arguments as ``p_value``."""
    if n < FLOOR:
        return math.inf
    if fixed:
        return quantile(n, alpha) if last else math.inf
    anytime = critical(n, ANYTIME_SHARE * alpha)
    return min(anytime, quantile(n, FINAL_SHARE * alpha)) if last else anytime


@cache
def quantile(n: int, alpha: float) -> float:
    """Two-sided quantile of Student's t over ``n`` rounds, ``n`` from 2."""
    return -float(stdtrit(n - 1, alpha / 2))


def holm(p: Sequence[float], alpha: float) -> tuple[bool, ...]:
    """Which hypotheses fall (Holm 1979): at most ``alpha`` of such families lose a true one, however they depend."""
    fallen = [False] * len(p)
    for step, index in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if p[index] > alpha / (len(p) - step):
            break
        fallen[index] = True
    return tuple(fallen)
