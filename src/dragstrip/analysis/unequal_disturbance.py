"""Whether the machine disturbed one of a pair more than the other, and how much wider the interval is for it.

Method: ``docs/METHOD.md``, "Disturbed unequally". Rules fixed beforehand, by the kernel's account of
which programs had the cores; they never look at the pair's ratio.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dragstrip.analysis.interval import FloatArray
from dragstrip.quantities import as_percent

#: A difference of lost shares counts from this many of its standard errors on (paired, over rounds).
ERRORS = 3.0

#: Rounds from which on it is looked for.
MIN_ROUNDS = 4

#: How much of a difference in lost time may be left in a metric's log ratio: half as much again as the most seen when
#: a disturbance of one contender alone was injected (docs/evidence/verdicts.md).
#: Latencies as throughput; memory takes none.
KEPT = {"throughput": 1.5, "cpu": 0.4, "memory": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbed:
    """The machine disturbed one of a pair more than the other.

    Args:
        more, less: the contenders' names.
        lost_more, lost_less: the shares of their blocks' time that other programs and the hypervisor took.
        widened: what the interval is widened by at both ends, on the log scale.
    """

    more: str
    less: str
    lost_more: float
    lost_less: float
    widened: float

    @property
    def text(self) -> str:
        """Which contender the machine disturbed more, by how much, and what that does to the interval."""
        return (
            f"{self.more} was disturbed more than {self.less}: other programs and the hypervisor took "
            f"{as_percent(self.lost_more)} of its time, but {as_percent(self.lost_less)} of {self.less}'s; "
            f"both ends of the interval were moved out by {as_percent(math.expm1(self.widened))} to allow for this"
        )


def _cost(lost: FloatArray) -> FloatArray:
    """By how much a lost share lowers a log throughput."""
    return np.asarray(-np.log1p(-np.minimum(lost, 0.95)))


def unevenness(
    names: tuple[str, str], lost_a: FloatArray, lost_b: FloatArray, metric: str, margin: float
) -> Disturbed | None:
    """Whether it did, over the rounds of both; None if it did not, or too little to matter.

    Args:
        names: of the two.
        lost_a, lost_b: per round the share of each one's time that waits and steal took (``Tables.lost``).
        metric: that decides: what a lost share does to it.
        margin: a widening below a quarter of this is left out.
    """
    # A throughput falls with the share that is left; CPU per request rises with the share that is lost.
    apart = lost_a - lost_b if metric == "cpu" else _cost(lost_a) - _cost(lost_b)
    apart = apart[~np.isnan(apart)]
    n = len(apart)
    kept = KEPT.get(metric, KEPT["throughput"])
    if n < MIN_ROUNDS or not kept:
        return None
    mean, error = float(apart.mean()), float(apart.std(ddof=1)) / math.sqrt(n)
    widened = kept * (abs(mean) + error)
    if abs(mean) <= ERRORS * error or widened < margin / 4:
        return None
    shares = {name: float(np.nanmean(lost)) for name, lost in zip(names, (lost_a, lost_b), strict=True)}
    more, less = sorted(names, key=lambda name: shares[name], reverse=True)
    return Disturbed(more=more, less=less, lost_more=shares[more], lost_less=shares[less], widened=widened)
