"""How much the machine disturbed a race as a whole: what it costs in the intervals' width. Pure.

Method: ``docs/METHOD.md``, "Noise". Steal, run-queue waits and other programs void nothing (method version 5):
what they cost is measured here and told beside the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from dragstrip.fitness import by_contender, choose, lost_shares, taken
from dragstrip.record import Block, Race
from dragstrip.shares import own_waits

Level = Literal["quiet", "disturbed", "very disturbed"]

#: Lost shares and factors from which on a machine counts as disturbed, and as very disturbed.
LOST, FACTOR = (0.02, 0.15), (1.5, 3.0)

#: A block in which others took less than this is as on a quiet machine; fewest of them that tell a scatter.
CALM, LEAST_CALM = 0.01, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How disturbed the machine was.

    Args:
        level: "quiet", "disturbed" or "very disturbed".
        lost: the share of the race's time on its cores that other programs and the hypervisor took, 0 to 1.
        factor: how many times as wide the intervals are as they would be on a quiet machine, from 1 on; None where
            that can't be told.
    """

    level: Level
    lost: float
    factor: float | None


def noise(race: Race) -> Noise:
    """How much the machine disturbed this race: by time lost, and by how much more blocks scatter than calm ones do."""
    rounds = [this for this in race.rounds if not this.void]
    shares = lost_shares(race, rounds)
    if not shares:
        return Noise(level="quiet", lost=0.0, factor=None)
    lost, factor = sum(shares.values()) / len(shares), _factor(race)
    grade = max(sum(lost > limit for limit in LOST), sum((factor or 1.0) > limit for limit in FACTOR))
    levels: tuple[Level, ...] = ("quiet", "disturbed", "very disturbed")
    return Noise(level=levels[grade], lost=lost, factor=factor)


def _factor(race: Race) -> float | None:
    """Scatter of all blocks over that of calm ones, each within its launch; the median over contenders."""
    metric = choose(race).metric
    rounds = [this for this in race.rounds if not this.void]
    own = own_waits((block for this in rounds for block in this.blocks), len(race.server_cores))
    every: dict[str, list[float]] = {}
    calm: dict[str, list[float]] = {}
    for this in rounds:
        share = taken(race, this, own)
        for name, blocks in by_contender(race, [this]).items():
            quiet = [block for block in blocks if share(block) < CALM and not block.steal_ns]
            every.setdefault(name, []).extend(_deviations(blocks, metric))
            calm.setdefault(name, []).extend(_deviations(quiet, metric))
    factors = [
        _spread(every[name]) / _spread(mine)
        for name, mine in calm.items()
        if len(mine) >= LEAST_CALM and _spread(mine) > 0
    ]
    return max(median(factors), 1.0) if factors else None


def _deviations(blocks: Sequence[Block], metric: str) -> list[float]:
    """Each block's log value less their mean; none of fewer than three."""
    told = [value for value in (_value(block, metric) for block in blocks) if math.isfinite(value)]
    return [value - sum(told) / len(told) for value in told] if len(told) >= 3 else []


def _value(block: Block, metric: str) -> float:
    """A block's log CPU time per answer, or else its log rate; NaN where there is none."""
    if metric == "cpu":
        return math.log(block.server_cpu_ns / block.answered) if block.server_cpu_ns and block.answered else math.nan
    return math.log(block.requests / block.counted_ns) if block.requests and block.counted_ns else math.nan


def _spread(values: Sequence[float]) -> float:
    """Standard deviation: what a mean over blocks scatters by goes with it, outliers and all."""
    return float(np.std(values))
