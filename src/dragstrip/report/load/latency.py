"""Latencies of a run of load: their histogram, which clocks they run by, and a latency as text.

Latencies of a closed loop run from a request's send time to the kernel's timestamp of its response's last segment
(without timestamps, to the reading of its last byte). A server gets fewer requests during a stall, so its tail
looks better than it is to users who don't wait for each other. Latencies of an open loop run from when the request was
meant to leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hdrh.histogram import HdrHistogram

from dragstrip.loading.percentiles import decoded
from dragstrip.report.figures import latency_text as latency_text

if TYPE_CHECKING:
    from dragstrip.loading.result import LoadResult

_STAMPS = {"kernel": "responses stamped by the kernel", "user": "user-space clock"}


def histogram(result: LoadResult) -> HdrHistogram | None:
    """All latencies in nanoseconds; None if no correct response came in time."""
    return decoded(result.latency_hdr) if result.in_time else None


def clock_text(result: LoadResult) -> str:
    """Which loop and which clock the latencies are of."""
    loop = "open loop, from when each request was meant to leave" if result.request.offer else "closed loop"
    return f"{loop}, {_STAMPS[result.stamps]}"
