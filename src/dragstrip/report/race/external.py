"""Other tools' results beside a race: single figures without an interval, kept as events, compared with nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from dragstrip.loading.other_tools import ForeignRun
from dragstrip.record import EventKind, Race

#: The kind of event that holds one.
KIND = EventKind.FOREIGN

NOTE = "Without interval, of another tool's counting, answers unchecked: beside this race, and compared with nothing."


@dataclass(frozen=True, slots=True)
class Figure:
    """One of them, under the name that the user gave it."""

    name: str
    run: ForeignRun


def as_event(name: str, run: ForeignRun) -> str:
    """The event's text."""
    return json.dumps({"name": name, **asdict(run)})


def figures(race: Race) -> list[Figure]:
    """Those kept with this race; an event that is none of ours is passed over."""
    found = []
    for event in race.events:
        recorded = _recorded(event.text) if event.kind == KIND else None
        if recorded:
            names = {field.name for field in fields(ForeignRun)}
            try:
                run = ForeignRun(**{key: value for key, value in recorded.items() if key in names})
                found.append(Figure(str(recorded["name"]), run))
            except (TypeError, KeyError):
                continue
    return found


def as_json(race: Race) -> list[dict[str, Any]]:
    """For the race's JSON."""
    return [{"name": figure.name, **asdict(figure.run)} for figure in figures(race)]


def _recorded(detail: str) -> dict[str, Any] | None:
    """A figure's fields, of the types that are shown; an imported file may hold anything."""
    try:
        recorded = json.loads(detail)
        tails = {str(name): float(us) for name, us in recorded.get("latency_us", {}).items()}
        counts = {name: recorded.get(name) for name in ("requests", "connections", "failed")}
        if any(not isinstance(count, int | None) for count in counts.values()):
            return None
        return {
            **recorded,
            "tool": str(recorded["tool"]),
            "rate_per_s": float(recorded["rate_per_s"]),
            "latency_us": tails,
        }
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
