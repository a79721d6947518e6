"""Other tools' results for a race: single figures without an interval, kept as events and never compared."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass

from dragstrip.compat.outputs import ForeignRun
from dragstrip.record import EventKind, Race
from dragstrip.store.json_values import JsonObject, decode

#: The kind of event that holds one.
KIND = EventKind.FOREIGN

NOTE = "Counted by another tool, without intervals or response checks: shown for reference and never compared."


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
