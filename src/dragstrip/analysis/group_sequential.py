"""The cost of a look at every round: levels and intervals that hold at all looks up to a planned last round at once.

Method: ``docs/METHOD.md``, "The interval". A repeated significance test (Pocock 1977; Siegmund
1985) of the t statistic. Numbers in, numbers out; ``tests/statistics/test_group_sequential.py`` holds it against
simulation by importance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from dragstrip.analysis.interval import EARLY, FLOOR, FloatArray, quantile

#: The share of alpha that is spent. The rest is kept back for what normal theory does not see, above all launches of
#: two kinds, if the first rounds met only one of them: with 30 % of one side's 5 % slower it is all used up.
SPENT = 0.65

#: Correction for looks at whole rounds only. In theory the overshoot's mean, 0.583 standard deviations of a round
#: (Siegmund 1985); with so few rounds, and a scatter that is estimated, simulation asks for less.
OVERSHOOT = 0.4

#: The share of alpha that one look before FLOOR may use by one metric. Two metrics are allowed for, because these
#: rounds can still change the metric; the looks from FLOOR on have the rest.
EARLY_SHARE = 0.005
LATE_SHARE = 1 - 2 * (FLOOR - EARLY) * EARLY_SHARE

#: The share of alpha that a race's first budget has; extensions share the rest.
FIRST_SHARE = 0.8

#: A race that reaches its planned last round with budget left goes on to this multiple of it: rounds become that much
#: shorter if six of eight contenders rest.
FURTHER = 4

#: Looks are summed one by one up to this round, beyond it in steps of 2 %, which errs on the safe side.
ONE_BY_ONE, STEP = 200, 1.02

#: Levels at which the spent alpha is computed; between them it is interpolated on the log-log scale, in both
#: directions.
_LEVELS = np.concatenate([np.geomspace(1e-250, 1e-8, 300, endpoint=False), np.geomspace(1e-8, 10.0, 420)])


def weight(n: float | FloatArray) -> float | FloatArray:
    """How much of the full level a look at round ``n``, from FLOOR on, may use: little at the first ones.

    Ten numbers are few to trust a t interval by: rare slow launches, or launches of two kinds, may not have shown yet.
    """
    return 1 - ((FLOOR - 1) / n) ** 2


def factor_within(n: int, alpha: float, planned: int) -> float:
    """Half-width in standard errors of the interval at round ``n``; infinite before EARLY and beyond ``planned``.

    All intervals from EARLY to ``planned`` hold at once in at least ``1 - alpha`` of races.
    """
    level = level_within(n, alpha, planned)
    return quantile(n, level) if level else math.inf


def level_within(n: int, alpha: float, planned: int) -> float:
    """The nominal level of the look at round ``n``; all looks from EARLY to ``planned`` spend ``alpha`` together.

    0 before EARLY and beyond ``planned``. Looks before FLOOR have a fixed, small share each (Bonferroni).
    """
    if n < EARLY or n > planned:
        return 0.0
    if n < FLOOR:
        return EARLY_SHARE * alpha
    levels, spent = _table(planned)
    level = math.exp(float(np.interp(math.log(LATE_SHARE * alpha), spent, levels)))
    return min(level * float(weight(n)), 1.0)


def stage_of(n: int, alpha: float, planned: Sequence[int]) -> tuple[float, int]:
    """Alpha and last round of the stage that round ``n`` belongs to, of a race whose budget may be extended.

    The first budget has four fifths of alpha. Each extension has half of what is left, however many there will be, so
    that all looks of all stages together spend no more than alpha (alpha spending, Lan & DeMets 1983).

    Args:
        planned: the last round of each stage, ascending, at least one; a round beyond all belongs to the last stage.
    """
    stage = next((at for at, last in enumerate(planned) if n <= last), len(planned) - 1)
    return alpha * (FIRST_SHARE if stage == 0 else (1 - FIRST_SHARE) / 2**stage), planned[stage]


def stages_until(n: int, planned: Sequence[int]) -> tuple[int, ...]:
    """The last round of each stage, up to the one that round ``n`` is in.

    Args:
        planned: as ``stage_of`` has it; beyond its last round each further stage has ``FURTHER`` times the rounds.
    """
    stages = list(planned)
    while stages[-1] < n:
        stages.append(FURTHER * stages[-1])
    return tuple(stages)


@cache
def _table(planned: int) -> tuple[FloatArray, FloatArray]:
    """Logarithms of levels, and of the alphas that they cost: the chance that any look goes beyond its share of one.

    The last look's own chance, and for every look the chance of the first crossing there, by the approximation of
    Siegmund (1985, 4.40) with his correction for discrete time; b is the normal quantile of the look's level.
    """
    from scipy.special import ndtri  # SciPy takes a quarter of a second to load

    near = np.arange(FLOOR + 1, min(planned, ONE_BY_ONE) + 1, dtype=float)
    steps = max(math.ceil(math.log(planned / ONE_BY_ONE) / math.log(STEP)), 0)
    far = np.geomspace(ONE_BY_ONE, planned, steps + 1) if steps else np.zeros(0)
    looks = np.concatenate([near, far[1:]])
    share = np.concatenate([1 / near, np.log(far[1:] / far[:-1])])
    b = np.maximum(-ndtri(np.minimum(_LEVELS[:, None] * weight(looks), 1) / 2), 1.0)
    density = b * np.exp(-b * b / 2) / math.sqrt(2 * math.pi)
    crossed = (density * np.exp(-OVERSHOOT * b / np.sqrt(looks)) * share).sum(axis=1)
    spent = np.minimum((crossed + np.minimum(_LEVELS * weight(planned), 1)) / SPENT, 1.0)
    return np.log(_LEVELS), np.log(spent)
