"""Latency merged from the histograms of blocks."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest
import samples
from hdrh.histogram import HdrHistogram

from dragstrip.record import Race
from dragstrip.report.race import (
    latency,
)


def test_latency_is_merged_from_the_histograms_of_blocks_that_count() -> None:
    """Quantiles equal the quantiles of one histogram over all values; void blocks and void rounds add nothing."""
    values = [[1000 * k for k in range(1, 200)], [7_000_000] * 3, [50_000_000], [90_000_000]]
    blocks = [
        samples.block(
            "quick",
            position=k,
            pass_index=k,
            latency_hdr=samples.hdr(*these),
            void=samples.voided("errors") if k == 2 else (),
        )
        for k, these in enumerate(values)
    ]
    good = replace(samples.race(rounds=1).rounds[0], blocks=tuple(blocks[:3]))
    bad = replace(good, index=1, blocks=(blocks[3],), void=samples.voided("database"))
    direct = HdrHistogram(1, 60 * samples.S, 3)
    for value in values[0] + values[1]:
        direct.record_value(value)
    (merged,) = latency.merged(_with(good, bad)).values()
    assert merged == {label: direct.get_value_at_percentile(q) / 1000 for label, q in latency.QUANTILES.items()}


def _with(*rounds: Any) -> Race:
    return replace(samples.race(rounds=0), rounds=rounds)


def test_histograms_of_different_ranges_merge() -> None:
    """A later engine may widen its range; old and new blocks still add up."""
    narrow, wide = HdrHistogram(1, samples.S, 3), HdrHistogram(1, 3600 * samples.S, 3)
    narrow.record_value(1_000_000)
    wide.record_value(90 * samples.S)
    for order in ((narrow, wide), (wide, narrow)):
        blocks = tuple(
            samples.block("quick", position=k, pass_index=k, latency_hdr=base64.b64decode(histogram.encode()))
            for k, histogram in enumerate(order)
        )
        merged = latency.merged(_with(replace(samples.race(rounds=1).rounds[0], blocks=blocks)))["quick"]
        assert merged["p50"] == pytest.approx(1000, rel=0.001)
        assert merged["max"] == pytest.approx(90e6, rel=0.001)
