"""Latency histograms as HdrHistogram's own files: ``.hgrm`` (percentiles) and ``.hlog`` (every block, lossless)."""

from __future__ import annotations

import base64
import io
import re

from hdrh.histogram import HdrHistogram

from dragstrip.record import Race
from dragstrip.report import figures
from dragstrip.report.race import chart_data, latency


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
    histogram = latency.histograms(race).get(name)
    return None if histogram is None else percentiles_text(histogram)


def hlog(race: Race) -> str:
    """Every block that counts as one interval of a histogram log (version 1.2), tagged with its contender.

    Written by hand: the Python library's writer knows no tags. Values are nanoseconds; the maximum beside each interval
    is in milliseconds, times are seconds since the race's start.
    """
    lines = ["#[Histogram log format version 1.2]", "#[StartTime: 0.000 (seconds since the race's start)]"]
    lines.append('"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"')
    void = {round_.index for round_ in race.rounds if round_.void}
    column_of = {round_.index: round_.column for round_ in race.rounds}
    for seen in chart_data.blocks(race):
        block = seen.block
        if block.void or block.round in void or not block.requests:
            continue
        at_s = (block.started_ns + block.lead_ns - race.started_ns) / 1e9
        held = base64.b64encode(block.latency_hdr).decode()
        # Of several columns the tag says which; a comma would end it.
        at = f"{race.columns[column_of[block.round]].name}/" if len(race.columns) > 1 else ""
        tag = re.sub(r"[\s,]+", "_", figures.visible(at + block.contender))
        lines.append(f"Tag={tag},{at_s:.3f},{block.counted_ns / 1e9:.3f},{block.max_ns / 1e6:.3f},{held}")
    return "\n".join(lines) + "\n"
