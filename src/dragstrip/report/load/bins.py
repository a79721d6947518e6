"""Latencies sorted into few bins that a reader can take in: bounds of round numbers, finer for similar latencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hdrh.histogram import HdrHistogram

#: Bounds within a power of ten, from fine to coarse.
_LADDERS = (
    (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.2, 2.4, 2.7, 3, 3.3, 3.6, 4, 4.5, 5, 5.5, 6, 6.5, 7, 8, 9),
    (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8),
    (1, 1.5, 2, 3, 5, 7),
    (1, 2, 5),
    (1, 3),
    (1,),
)

#: Rows of the picture at most.
MOST = 15


@dataclass(frozen=True, slots=True)
class Bin:
    """Responses that took longer than the bin before allows, and at most this bin's limit."""

    to_ns: float
    count: int


def bins(latencies: HdrHistogram, most: int = MOST) -> list[Bin]:
    """The whole histogram in at most ``most`` bins, without gaps between the first and the last."""
    low, high = max(latencies.get_min_value(), 1), max(latencies.get_max_value(), 1)
    bounds = next(fitting for fitting in (_bounds(low, high, ladder) for ladder in _LADDERS) if len(fitting) <= most)
    counts = [0] * len(bounds)
    at = 0
    for item in latencies.get_recorded_iterator():
        # A recorded value is for a range of them; percentiles also report its highest.
        while item.value_iterated_to > bounds[at] and at < len(bounds) - 1:
            at += 1
        counts[at] += item.count_added_in_this_iter_step
    return [Bin(bound, count) for bound, count in zip(bounds, counts, strict=True)]


def _bounds(low: float, high: float, ladder: Sequence[float]) -> list[float]:
    """Round numbers from the first that is not below ``low`` to the first that is not below ``high``."""
    bounds: list[float] = []
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 2):
        for step in ladder:
            bound = step * 10**power
            if bound >= low:
                bounds.append(bound)
            if bound >= high:
                return bounds
    return bounds
