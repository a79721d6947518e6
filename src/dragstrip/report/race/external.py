"""Other tools' results for a race: single figures without an interval, kept as events and never compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field

from dragstrip.record import EventKind, Race
from dragstrip.store.json_values import JsonObject, decode

#: The kind of event that holds one.
KIND = EventKind.FOREIGN

NOTE = "Counted by another tool, without intervals or response checks: shown for reference and never compared."


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRun:
    """One run of another tool.

    Args:
        tool: "wrk", "ab", "hey", "oha", "h2load" or "k6".
        rate_per_s: responses per second as the tool counts them; few tools check that they are correct.
        requests, duration_s, connections, failed: as reported; None if not reported.
        keepalive: None if unknown. http: "1.0", "1.1" or "2"; None if unknown: hey, oha and k6 never print it.
        latency_us: percentiles by name ("p50"), in microseconds.
    """

    tool: str
    rate_per_s: float
    requests: int | None = None
    duration_s: float | None = None
    connections: int | None = None
    failed: int | None = None
    keepalive: bool | None = None
    http: str | None = None
    latency_us: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Figure:
    """Another tool's result, under the name that the user gave it."""

    name: str
    run: ForeignRun


def as_event(name: str, run: ForeignRun) -> str:
    """The event's text."""
    return json.dumps({"name": name, **asdict(run)})


def figures(race: Race) -> list[Figure]:
    """The results kept with this race; other texts are passed over, because an imported file may hold anything."""
    runs = []
    for event in race.events:
        if event.kind == KIND:
            with suppress(ValueError, TypeError, KeyError):
                recorded = json.loads(event.text)
                runs.append(Figure(str(recorded["name"]), decode(ForeignRun, recorded)))
    return runs


def as_json(race: Race) -> list[JsonObject]:
    """For the race's JSON."""
    return [{"name": figure.name, **asdict(figure.run)} for figure in figures(race)]
