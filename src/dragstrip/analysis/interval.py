"""An estimate and the interval around it: one type for pairs, changes between races and single contenders."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate and what it may be; ``low`` and ``high`` are NaN where there is too little for an interval.

    Args:
        level: the confidence with which it holds, such as 0.95. Of pairs and changes it is that of all of them at once.
    """

    estimate: float
    low: float
    high: float
    level: float

    @property
    def bounded(self) -> bool:
        """Whether there is an interval at all."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def inverted(self) -> Interval:
        """Of a ratio: the same, seen from the other side."""
        return Interval(
            estimate=_inverse(self.estimate), low=_inverse(self.high), high=_inverse(self.low), level=self.level
        )

    @classmethod
    def of_logs(cls, middle: float, half: float, level: float) -> Interval:
        """From a mean and half a width on the log scale; no bounds where that is not finite."""
        bounds = (math.exp(middle - half), math.exp(middle + half)) if math.isfinite(half) else (math.nan, math.nan)
        return cls(estimate=math.exp(middle), low=bounds[0], high=bounds[1], level=level)


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf
