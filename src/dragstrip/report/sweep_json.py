"""A sweep as JSON (schema 1): what ``--json`` writes and what is kept beside the store."""

from __future__ import annotations

import math
from dataclasses import asdict

from dragstrip.record import Entrant
from dragstrip.report.race.messages import event_text
from dragstrip.report.sweep import reason_text
from dragstrip.store.json_values import JSON_SCHEMA, JsonObject, encode
from dragstrip.sweep.capacity import ALPHA, STEPS, Capacity, Point, Sample, Span, capacity
from dragstrip.sweep.file import Sweep


def data(sweep: Sweep) -> JsonObject:
    """JSON-able: what was found, and every sample; numbers that there are none of are null."""
    return {
        "schema": JSON_SCHEMA,
        **encode(sweep),
        # What is unknown of an entrant or a sample is null.
        "entrants": list(map(asdict, sweep.entrants)),
        "samples": [dict.fromkeys(Sample.__slots__) | encode(sample) for sample in sweep.samples],
        "notes": list(dict.fromkeys(map(event_text, sweep.events))),
        "interval": {"alpha": ALPHA, "share_of_a_look": 1 / (1 + STEPS), "over": "launches"},
        "contenders": [_contender(sweep, entrant) for entrant in sweep.entrants],
    }


def _contender(sweep: Sweep, entrant: Entrant) -> JsonObject:
    found = sweep.points(entrant.name)
    return {
        "name": entrant.name,
        "version": entrant.version,
        "out": entrant.out,
        "capacity": _capacity(capacity(found)) if found else None,
        "points": list(map(_point, found)),
    }


def _capacity(found: Capacity) -> JsonObject:
    return {
        "found": found.met_per_s is not None,
        "met_per_s": found.met_per_s,
        "over_per_s": found.over_per_s,
        "why": reason_text(found.reason) if found.reason else "",
    }


def _point(point: Point) -> JsonObject:
    return {
        "rate_per_s": point.rate_per_s,
        "launches": point.launches,
        "reached": point.reached,
        "failed": point.failed,
        "latency_us": {quantile: _span(span) for quantile, span in point.latency_us.items()},
        "server_cpu_us": point.server_cpu_us,
        "verdict": point.outcome,
        "why": reason_text(point.reason) if point.reason else "",
        "noisy": point.noisy,
    }


def _span(span: Span) -> dict[str, float | None]:
    return {key: value if math.isfinite(value) else None for key, value in asdict(span).items()}
