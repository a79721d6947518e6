"""Latency merged from the blocks' own histograms, of all requests and of each kind: shown, never tested.

Histograms may be merged, percentiles may not; and pooled requests are not independent (the median of a thousand
requests in one launch shows nothing about the next launch), so nothing here enters a verdict. Only blocks that count
are merged: a void block, or one in a void round, is not.
"""

from __future__ import annotations

import base64
import io
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hdrh.histogram import HdrHistogram

from dragstrip.record import Race, Round
from dragstrip.report import figures

#: Percentile axes go no further than this: six nines.
MAX_NINES = 6.0

QUANTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}


#: The last race's rounds and histograms: decoding takes about 0.2 ms a block; terminal, page and JSON need the same.
_kept: tuple[Sequence[Round], dict[str, HdrHistogram]] | None = None


def merged(race: Race) -> dict[str, dict[str, float]]:
    """Quantiles in microseconds, by contender; a contender without a valid response is left out."""
    return {name: _quantiles_us(total) for name, total in histograms(race).items()}


def quantiles_us(race: Race, name: str) -> dict[str, float]:
    """One contender's quantiles in microseconds; empty if it has no valid response."""
    total = histograms(race).get(name)
    return {} if total is None else _quantiles_us(total)


def _quantiles_us(latency: HdrHistogram) -> dict[str, float]:
    values = latency.get_percentile_to_value_dict(list(QUANTILES.values()))  # all of them in one pass
    return {label: values.get(q, 0) / 1000 for label, q in QUANTILES.items()}


def histograms(race: Race) -> dict[str, HdrHistogram]:
    """The merged histograms of nanoseconds themselves, by contender; not to be changed."""
    global _kept
    if _kept is None or _kept[0] is not race.rounds:
        totals: dict[str, HdrHistogram] = {}
        for round_ in race.rounds:
            for block in () if round_.void else round_.blocks:
                if block.requests and not block.void:
                    totals[block.contender] = _added(totals.get(block.contender), block.latency_hdr)
        _kept = (race.rounds, totals)
    return _kept[1]


def _added(total: HdrHistogram | None, latency_hdr: bytes) -> HdrHistogram:
    """The total, which may be changed, and a record's histogram of nanoseconds as one."""
    # The library's decode needs the base64 text of the V2 format, header included.
    more = HdrHistogram.decode(base64.b64encode(latency_hdr))
    if total is None:
        return more
    if more.highest_trackable_value > total.highest_trackable_value:
        total, more = more, total
    total.add(more)
    return total


def curve(race: Race, name: str, points: int = 80) -> list[tuple[float, float]]:
    """Latency in microseconds by percentile, even steps in nines as far as the count of responses allows."""
    histogram = histograms(race).get(name)
    return [] if histogram is None or not histogram.total_count else curve_of(histogram, points)


def curve_of(histogram: HdrHistogram, points: int = 80) -> list[tuple[float, float]]:
    """The same of a histogram of nanoseconds that is not empty."""
    nines = min(math.log10(max(histogram.total_count, 10)), MAX_NINES)
    percentiles = [100 * (1 - 10 ** (-nines * step / (points - 1))) for step in range(points)]
    values = histogram.get_percentile_to_value_dict(percentiles)  # all of them in one pass
    return [(percentile, values[percentile] / 1000) for percentile in percentiles]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRow:
    """One contender's responses to one kind of request.

    Args:
        share: of its correct responses, 0 to 1. requests: correct ones. failed: all others, also in void blocks.
        latency_us: by quantile, microseconds; empty if no response was correct.
    """

    contender: str
    kind: str
    share: float
    requests: int
    failed: int
    latency_us: Mapping[str, float]


def kind_rows(race: Race) -> list[KindRow]:
    """Each kind of request in the workload's order, by contender that is not out; none if there is one kind."""
    requests, failed = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    totals: dict[tuple[str, str], HdrHistogram] = {}
    for round_ in race.rounds:
        for block in round_.blocks:
            for kind, counted in block.kinds.items():
                key = block.contender, kind
                failed[key] += counted.failed
                if round_.void or block.void:
                    continue
                requests[key] += counted.requests
                if counted.latency_hdr:
                    totals[key] = _added(totals.get(key), counted.latency_hdr)
    out = {entrant.name for entrant in race.entrants if entrant.out}
    correct = Counter[str]()
    for (contender, _), count in requests.items():
        correct[contender] += count
    return [
        KindRow(
            contender=key[0],
            kind=key[1],
            share=requests[key] / correct[key[0]] if correct[key[0]] else 0.0,
            requests=requests[key],
            failed=failures,
            latency_us=_quantiles_us(totals[key]) if key in totals else {},
        )
        for key, failures in failed.items()
        if key[0] not in out
    ]


def percentiles_text(histogram: HdrHistogram) -> str:
    """HdrHistogram's percentile distribution in milliseconds, as its plotter and wrk2's readers take it."""
    out = io.BytesIO()
    histogram.output_percentile_distribution(out, 1e6)
    # The library scales the mean in this line and forgets the deviation.
    moments = (
        f"#[Mean    = {histogram.get_mean_value() / 1e6:12.3f}, StdDeviation   = {histogram.get_stddev() / 1e6:14.3f}]"
    )
    return re.sub(r"^#\[Mean .*$", moments, out.getvalue().decode("ascii"), flags=re.MULTILINE)


def hgrm(race: Race, name: str) -> str | None:
    """One contender's latencies, all blocks that count merged; None if it has none."""
    histogram = histograms(race).get(name)
    return None if histogram is None else percentiles_text(histogram)


def hlog(race: Race) -> str:
    """Every block that counts as one interval of a histogram log (version 1.2), tagged with its contender.

    Written by hand: the Python library's writer knows no tags. Values are nanoseconds; the maximum with each interval
    is in milliseconds, times are seconds since the race's start.
    """
    lines = ["#[Histogram log format version 1.2]", "#[StartTime: 0.000 (seconds since the race's start)]"]
    lines.append('"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"')
    column_of = {round_.index: round_.column for round_ in race.rounds if not round_.void}
    blocks = (block for round_ in race.rounds for block in sorted(round_.blocks, key=lambda block: block.position))
    for block in blocks:
        if block.void or block.round not in column_of or not block.requests:
            continue
        at_s = (block.started_ns + block.lead_ns - race.started_ns) / 1e9
        histogram = base64.b64encode(block.latency_hdr).decode()
        # With several columns the tag names the column; a comma would end the tag.
        at = f"{race.columns[column_of[block.round]].name}/" if len(race.columns) > 1 else ""
        tag = re.sub(r"[\s,]+", "_", figures.visible(at + block.contender))
        lines.append(f"Tag={tag},{at_s:.3f},{block.counted_ns / 1e9:.3f},{block.max_ns / 1e6:.3f},{histogram}")
    return "\n".join(lines) + "\n"
