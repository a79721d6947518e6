"""Latency at saturation, merged from the blocks' own histograms: shown, never tested.

Histograms may be merged, percentiles may not; and pooled requests are not independent (the median of
a thousand requests in one launch says nothing of the next launch), so nothing here enters a verdict.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from hdrh.histogram import HdrHistogram

from dragstrip.record import Race, Round

QUANTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}


@dataclass(frozen=True, slots=True)
class _Kept:
    """Decoding takes about 0.2 ms a block; terminal, page and JSON of one race want the same answer."""

    rounds: Sequence[Round]
    totals: dict[str, HdrHistogram]


_kept: _Kept | None = None


def merged(race: Race) -> dict[str, dict[str, float]]:
    """Quantiles in microseconds, by contender; one without a valid answer is left out.

    Only blocks that count are merged: a void block, or one in a void round, is not.
    """
    return {name: quantiles_us(total) for name, total in histograms(race).items()}


def quantiles_us(latency: HdrHistogram) -> dict[str, float]:
    """A histogram's quantiles in microseconds."""
    return {label: latency.get_value_at_percentile(q) / 1000 for label, q in QUANTILES.items()}


def histograms(race: Race) -> dict[str, HdrHistogram]:
    """The merged histograms of nanoseconds themselves, by contender; not to be changed."""
    global _kept
    if _kept is None or _kept.rounds is not race.rounds:
        _kept = _Kept(race.rounds, _merge(race.rounds))
    return _kept.totals


def _merge(rounds: Sequence[Round]) -> dict[str, HdrHistogram]:
    totals: dict[str, HdrHistogram] = {}
    for round_ in rounds:
        for block in () if round_.void else round_.blocks:
            if block.requests and not block.void:
                totals[block.contender] = added(totals.get(block.contender), decoded(block.latency_hdr))
    return totals


def decoded(latency_hdr: bytes) -> HdrHistogram:
    """A record's histogram of nanoseconds."""
    # The library's decode wants the base64 text of the V2 format, header included.
    return HdrHistogram.decode(base64.b64encode(latency_hdr))


def added(total: HdrHistogram | None, more: HdrHistogram) -> HdrHistogram:
    """Two histograms as one; the first may be changed by that."""
    if total is None:
        return more
    if more.highest_trackable_value > total.highest_trackable_value:
        total, more = more, total
    total.add(more)
    return total
