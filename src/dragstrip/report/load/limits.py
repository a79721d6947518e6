"""Limits that a run of load was given (``--max-p99`` and others), and whether they were kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragstrip.metrics import SUSTAINED
from dragstrip.report import figures
from dragstrip.report.load.latency import histogram, latency_text

if TYPE_CHECKING:
    from dragstrip.loading.result import LoadResult


@dataclass(frozen=True, slots=True)
class LoadLimit:
    """One service level objective: what was allowed, what came out, and whether it holds."""

    name: str
    text: str
    limit: float
    value: float | None
    met: bool


def limits(
    result: LoadResult, *, max_p99_s: float | None, max_errors: float | None, min_reached: float | None = None
) -> list[LoadLimit]:
    """The limits that were set; a limit of latency is missed if no latency was measured."""
    objectives: list[LoadLimit] = []
    if max_p99_s is not None:
        latencies = histogram(result)
        p99_s = latencies.get_value_at_percentile(99.0) / 1e9 if latencies else None
        text = f"p99 {latency_text(p99_s * 1e9) if p99_s else figures.NONE}, at most {latency_text(max_p99_s * 1e9)}"
        objectives.append(LoadLimit("max-p99", text, max_p99_s, p99_s, p99_s is not None and p99_s <= max_p99_s))
    if max_errors is not None:
        share = result.error_share if result.answered or result.errors else 1.0
        text = f"errors {figures.percent(share)}, at most {figures.percent(max_errors)}"
        objectives.append(LoadLimit("max-errors", text, max_errors, share, share <= max_errors))
    if min_reached is not None:
        share = result.reached_share or 0.0
        reached = f"reached {figures.percent(share)} of the offered rate ({SUSTAINED:.0%} counts as sustained)"
        text = f"{reached}, at least {figures.percent(min_reached)}"
        objectives.append(LoadLimit("min-reached", text, min_reached, share, share >= min_reached))
    return objectives
