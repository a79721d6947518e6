"""Latencies of a run of load: their histogram, and a latency as text.

Latencies of a closed loop run from a request's departure to the kernel's stamp of its answer's last segment (to the
reading of its last byte, where there are no stamps). A server that stalls is asked less often meanwhile, so its tail
looks better than it is to users who don't wait for each other. Those of an open loop run from when the request was
meant to leave.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from hdrh.histogram import HdrHistogram

from dragstrip.report import figures

if TYPE_CHECKING:
    from dragstrip.loading.result import LoadResult


def histogram(result: LoadResult) -> HdrHistogram | None:
    """All latencies in nanoseconds; None where nothing was answered in time."""
    return recorded_histogram(result.latency_hdr) if result.in_time else None


def recorded_histogram(recorded: bytes) -> HdrHistogram | None:
    """A histogram as the engine hands it over, which may be empty; None where none was kept."""
    # The library's decode wants the base64 text of the V2 format, header included.
    return HdrHistogram.decode(base64.b64encode(recorded)) if recorded else None


def within_deviation(times: HdrHistogram, mean_ns: float) -> float:
    """The share of a histogram within one standard deviation of the mean, in percent, as wrk and h2load tell it."""
    sd = times.get_stddev()
    near = sum(
        item.count_added_in_this_iter_step
        for item in times.get_recorded_iterator()
        if mean_ns - sd <= item.value_iterated_to <= mean_ns + sd
    )
    return float(100 * near / times.get_total_count())


def latency_text(value_ns: float | None) -> str:
    """A latency with its unit."""
    value = figures.finite(value_ns)
    if value is None:
        return figures.NONE
    if value < 999_500:
        return f"{figures.microseconds(value / 1e3)} µs"
    return f"{figures.figure(value / 1e6)} ms" if value < 999_950_000 else f"{value / 1e9:.2f} s"
