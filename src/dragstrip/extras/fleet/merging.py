"""Merges several generators' parts of one block, or of one second of a load.

Counts and histograms are added; quantiles are read off the sum, never averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from dragstrip.extras.fleet.messages import Tally
from dragstrip.loading.result import Slice
from dragstrip.loading.run import merged
from dragstrip.record import KindCount

_Part = TypeVar("_Part", Tally, KindCount, Slice)

#: Fields taken from the first generator; the caller converts times of its clock.
_FIRST = ("session", "started_ns", "counted_start_ns")
#: Fields of which the longest is taken, because all generators measure the same thing.
_LONGEST = (
    "lead_ns", "counted_ns", "duration_ns", "clock_step_ns", "server_cpu_ns", "server_wait_ns", "server_runs",
)  # fmt: skip
_QUANTILES = ("p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")


def merge(parts: Sequence[_Part]) -> _Part:
    """All generators' parts as one; a value that is unknown to one of them is unknown."""
    first = parts[0]
    if len(parts) == 1:
        return first
    made = {field.name: _joined(field.name, [getattr(part, field.name) for part in parts]) for field in fields(first)}
    if not isinstance(first, KindCount):
        quantiles = dict(zip(_QUANTILES, _quantiles(made["latency_hdr"]), strict=True))
        made |= {name: quantiles[name] for name in _QUANTILES if name in made}
        made["lag_p99_ns"] = _quantiles(made["lag_hdr"])[2] if made["lag_hdr"] else None
    return replace(first, **made)


def _joined(name: str, values: Sequence[Any]) -> Any:
    if name in _FIRST:
        return values[0]
    if name == "gave_up":
        return all(values)
    if name == "sample":
        return next(filter(None, values), "")
    if name == "samples":
        return {kind: text for samples in reversed(values) for kind, text in samples.items()}
    if name in ("errors", "statuses"):
        kinds = sorted(set().union(*values))
        return {kind: sum(counts.get(kind, 0) for counts in values) for kind in kinds}
    if name == "kinds":
        return [merge(kinds) for kinds in zip(*values, strict=True)]
    if any(value is None for value in values):
        return None
    if name.endswith("_hdr"):
        return merged(values)
    return max(values) if name in _LONGEST else sum(values)


def _quantiles(histogram: bytes) -> Sequence[int]:
    from dragstrip._engine import quantiles

    return quantiles(histogram) if histogram else (0,) * len(_QUANTILES)
