"""Intervals for all pairs of contenders at once: Games and Howell's, on numbers freed from what the rounds share.

Method: ``docs/METHOD.md``, "Several contenders". Model: a round's log number of contender k is its
own mean, plus an effect of the round that all share and that cancels in pairs, plus scatter of its own, variance s_k^2.
Numbers in, numbers out; ``tests/statistics/test_simultaneous.py`` holds it against scipy, closed forms and simulation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from dragstrip.analysis.interval import FloatArray, student_t

#: Grid of studentized ranges over which tail chances are worked out, and nodes of the two integrals.
_RANGES = np.concatenate([np.linspace(0.5, 12, 160), np.geomspace(12.2, 4000, 240)])
_NORMAL_NODES, _CHI_NODES = 400, 160

#: Passes of the weighted least-squares fit of the contenders' variances: weights are taken from the fit before.
FITS = 3

#: A fitted variance is never below this share of the pair's own: if two contenders disturb each other more than
#: their own scatter shows, the model is wrong for them.
MIN_OF_OWN = 0.5


@cache
def _normal_tail(contenders: int) -> tuple[FloatArray, FloatArray]:
    """Ranges w and the natural logarithm of P(range of ``contenders`` standard normals > w)."""
    from scipy.special import ndtr  # SciPy takes a quarter of a second to load

    z = np.linspace(-9.0, 9.0, _NORMAL_NODES)
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    w = np.linspace(0.0, 16.0, 800)
    # The range exceeds w unless all others lie within w below the largest: 1 - K * integral of phi * (Phi - Phi)^(K-1).
    top = ndtr(z)[None, :]
    inside = top - ndtr(z[None, :] - w[:, None])
    # As a difference of powers the tail keeps its digits if both powers are near 1.
    tail = contenders * ((top ** (contenders - 1) - inside ** (contenders - 1)) * density).sum(axis=1)
    return w, np.log(np.clip(tail, 1e-300, 1.0))


@cache
def _tail(contenders: int, freedom: int) -> tuple[FloatArray, FloatArray]:
    """Logarithms of the chances that the studentized range exceeds a grid's, ascending, and of the grid's ranges."""
    w, log_tail = _normal_tail(contenders)
    # s^2 is chi-square over its freedom; its quantiles at midpoints would lose the lower tail, so s itself is a grid.
    spread = 8.0 / math.sqrt(2 * freedom)
    s = np.linspace(max(1 - spread, 1e-3), 1 + spread, 4 * _CHI_NODES)
    log_density = freedom * np.log(s) - np.log(s) - freedom * s * s / 2
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    beyond = np.exp(np.interp(_RANGES[:, None] * s[None, :], w, log_tail, right=-700.0)) @ density
    kept = beyond > 1e-14
    return np.log(beyond[kept])[::-1], np.log(_RANGES[kept])[::-1]


def range_factor(contenders: int, freedom: float, level: float) -> float:
    """Half-width of one pair's interval in standard errors, so that all pairs' hold at once (Games & Howell 1976).

    The upper ``level`` quantile of the studentized range over the square root of 2; Student's t if there are two.

    Args:
        contenders: how many are compared with each other, from 2.
        freedom: degrees of freedom of the pair's variance, from 1; level: the family's, between 0 and 1.
    """
    if contenders == 2:
        return student_t(freedom, level)
    whole = max(math.floor(freedom), 1)
    logs, ranges = _tail(contenders, whole)
    return math.exp(float(np.interp(math.log(level), logs, ranges))) / math.sqrt(2)


@dataclass(frozen=True, slots=True)
class PairVariance:
    """The variance of one round's log ratio of a pair, and the degrees of freedom of that estimate."""

    variance: float
    freedom: float


def pair_variances(
    pairs: Sequence[tuple[int, int]], variances: Sequence[float], rounds: Sequence[int], contenders: int
) -> list[PairVariance]:
    """Each pair's variance from all pairs' together, if that determines it better than its own rounds alone.

    Every contender's own variance is fitted to the pairs' by weighted least squares (V_ab = s_a^2 + s_b^2). The fitted
    pair's degrees of freedom come from its own variance as a quadratic form (Satterthwaite 1946); if they do not
    exceed the pair's own rounds less one, the pair keeps its own variance.

    Args:
        pairs: columns of the two; variances: of each pair's log ratio over rounds, NaN with fewer than two.
        rounds: of each pair.
    """
    alone = [PairVariance(v, n - 1.0) for v, n in zip(variances, rounds, strict=True)]
    usable = [
        at for at, pair in enumerate(alone) if pair.freedom >= 2 and math.isfinite(pair.variance) and pair.variance > 0
    ]
    design = np.zeros((len(usable), contenders))
    for row, at in enumerate(usable):
        design[row, list(pairs[at])] = 1.0
    if len(usable) <= contenders or np.linalg.matrix_rank(design.T @ design) < contenders:
        return alone
    variance, freedom = np.array([alone[at].variance for at in usable]), np.array([alone[at].freedom for at in usable])
    weights, fitted = freedom / np.mean(variance) ** 2, variance
    for _ in range(FITS):
        root = np.sqrt(weights)[:, None]
        orthogonal, triangle = np.linalg.qr(design * root)
        inverse = np.linalg.solve(triangle, orthogonal.T) * root.T  # contenders from pairs
        single = np.maximum(inverse @ variance, 0.02 * float(np.median(variance)) / 2)
        fitted = design @ single
        weights = freedom / fitted**2
    shared = design @ (single[:, None] * design.T)  # covariance of two pairs' log ratios, but for its sign
    freedoms = np.minimum(freedom[:, None], freedom[None, :])
    # Of all contenders' variances first: of each pair's at once it would be the third power of many pairs.
    spread_of_singles = inverse @ (2 * shared**2 / freedoms) @ inverse.T
    spread = ((design @ spread_of_singles) * design).sum(axis=1)
    pooled = list(alone)
    for row, at in enumerate(usable):
        joint = 2 * fitted[row] ** 2 / spread[row] if spread[row] > 0 else 0.0
        if joint > alone[at].freedom:
            pooled[at] = PairVariance(float(max(fitted[row], alone[at].variance * MIN_OF_OWN)), float(joint))
    return pooled
