"""Percentiles of latency, and the histogram from which they are read."""

from __future__ import annotations

import base64

from hdrh.histogram import HdrHistogram

QUANTILES = {"p50": 50.0, "p75": 75.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
QUANTILES |= {"p99.9": 99.9, "p99.99": 99.99, "p99.999": 99.999}


def decoded(hdr: bytes) -> HdrHistogram | None:
    """A histogram of nanoseconds; None if it is empty."""
    if not hdr:
        return None
    # The library decodes the base64 text of the V2 format, header included.
    histogram = HdrHistogram.decode(base64.b64encode(hdr))
    return histogram if histogram.get_total_count() else None
