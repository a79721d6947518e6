"""A run of load in the shape of oha's report (version 1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hdrh.histogram import HdrHistogram

from dragstrip.report.load.bins import linear
from dragstrip.report.load.latency import recorded_histogram

if TYPE_CHECKING:
    from dragstrip.loading.result import LoadResult

#: oha's own words for what went wrong, where it has such.
_ERRORS = {
    "timeout": "timeout",
    "refused": "Connection refused (os error 111)",
    "reset": "connection error",
    "closed_early": "connection closed before message completed",
}

#: From the largest; oha takes the first that the slowest answer exceeds.
_UNITS = ((3600e9, "hr"), (60e9, "min"), (1e9, "sec"), (1e6, "ms"), (1e3, "us"))


def oha(result: LoadResult, latencies: HdrHistogram | None) -> str:
    """The report; times by the unit that suits the slowest answer, as oha chooses it."""
    least, most = (latencies.get_min_value(), latencies.get_max_value()) if latencies else (0, 0)
    scale_ns, unit = next((it for it in _UNITS if most > it[0]), (1.0, "ns")) if latencies else (1e9, "sec")
    tried = result.requests + sum(result.errors.values())
    lines = [
        "Summary:",
        f"  Success rate:\t{100 * result.requests / max(tried, 1):.2f}%",
        f"  Total:\t{result.duration_s * 1e9 / scale_ns:.4f} {unit}",
        f"  Slowest:\t{most / scale_ns:.4f} {unit}",
        f"  Fastest:\t{least / scale_ns:.4f} {unit}",
        f"  Average:\t{(result.mean_ns or 0.0) / scale_ns:.4f} {unit}",
        f"  Requests/sec:\t{result.rate_per_s:.4f}",
        "",
    ]
    if not result.any_body and len(set(result.request.pool)) < 2:
        size = len(result.learned.body)
        total = result.requests * size
        lines += [f"  Total data:\t{_bytes(total)}", f"  Size/request:\t{_bytes(size)}"]
        lines += [f"  Size/sec:\t{_bytes(total / result.duration_s if result.duration_s else 0.0)}", ""]
    if latencies:
        lines += ["Response time histogram:", *_histogram(latencies, scale_ns, unit), ""]
        lines += ["Response time distribution:"]
        for q in (10, 25, 50, 75, 90, 95, 99, 99.9, 99.99):
            lines.append(f"  {q:.2f}% in {latencies.get_value_at_percentile(q) / scale_ns:.4f} {unit}")
        lines += ["", ""]
    if times := recorded_histogram(result.connect_hdr):
        told = (times.get_mean_value(), times.get_min_value(), times.get_max_value())
        spans = ", ".join(f"{value / scale_ns:.4f} {unit}" for value in told)
        lines += ["Details (average, fastest, slowest):", f"  DNS+dialup:\t{spans}", ""]
    lines.append("Status code distribution:")
    lines += [f"  [{code}] {count} responses" for code, count in sorted(result.statuses.items(), key=lambda it: -it[1])]
    # Answers of a wrong status have had their line: as in oha, statuses and errors add up to all requests.
    errors = {kind: count for kind, count in result.errors.items() if kind != "wrong_status"}
    if errors:
        lines += ["", "Error distribution:"]
        most_first = sorted(errors.items(), key=lambda it: -it[1])
        lines += [f"  [{count}] {_ERRORS.get(kind, kind.replace('_', ' '))}" for kind, count in most_first]
    return "\n".join(lines) + "\n"


def _histogram(latencies: HdrHistogram, scale_ns: float, unit: str) -> list[str]:
    found = linear(latencies, 10)
    tallest = max(bin_.count for bin_ in found)
    width = max(len(f"{bin_.to_ns / scale_ns:.3f}") for bin_ in found)
    digits = max(len(f"[{bin_.count}]") for bin_ in found)
    return [
        f"  {bin_.to_ns / scale_ns:{width}.3f} {unit} {f'[{bin_.count}]':<{digits}} |"
        + "■" * math.floor(bin_.count * 32 / tallest)
        for bin_ in found
    ]


def _bytes(value: float) -> str:
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value >= 1 << power:
            return f"{value / (1 << power):.2f} {unit}"
    return f"{value:.0f} B"
