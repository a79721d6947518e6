"""Runs of ``dragstrip load`` for tests without a server."""

from __future__ import annotations

import base64
from dataclasses import MISSING, fields
from typing import Any

from hdrh.histogram import HdrHistogram

from dragstrip.loading.learn import Learned
from dragstrip.loading.request import LoadRequest, target
from dragstrip.loading.result import LoadResult, Slice
from dragstrip.record import LoadEnding

SECOND_NS = 1_000_000_000


def part(**known: Any) -> Slice:
    """A slice of 1 s in which 1000 requests over 10 connections were answered right."""
    whole = {field.name: 0 for field in fields(Slice) if field.default is MISSING} | {
        "counted_ns": SECOND_NS,
        "duration_ns": SECOND_NS,
        "requests": 1000,
        "answered": 1000,
        "sent": 1000,
        "errors": {},
        "statuses": {},
        "samples": {},
        "bytes_in": 100_000,
        "bytes_out": 50_000,
        "latency_hdr": b"",
        "latency_sum_ns": 10 * SECOND_NS,
        "p50_ns": 10_000_000,
        "p99_ns": 10_000_000,
        "max_ns": 10_000_000,
        "engine_cpu_ns": SECOND_NS // 2,
        "gave_up": False,
    }
    return Slice(**(whole | known))


def result(*slices: Slice, **known: Any) -> LoadResult:
    """A run of these slices, whose latencies lie at 10 ms."""
    latencies = HdrHistogram(1, 60_000_000_000, 3)
    for one in slices:
        if one.requests:
            latencies.record_value(10_000_000, one.requests)
    whole = {
        "request": LoadRequest(url="http://127.0.0.1/"),
        "target": target("http://127.0.0.1/"),
        "learned": Learned(status=200, reason="OK", body=b"hello", server="", closes=False),
        "started": "2026-01-01T00:00:00+00:00",
        "software": "0",
        "cores": (0,),
        "connections": 10,
        "slices": slices,
        "latency_hdr": base64.b64decode(latencies.encode()),
        "finished": LoadEnding.DURATION,
    }
    return LoadResult(**(whole | known))
