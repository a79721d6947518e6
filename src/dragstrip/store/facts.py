"""Events and reasons that void as the store holds them: JSON of their values."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from dragstrip.errors import Unreadable
from dragstrip.record import Event, EventKind, KindCount, Void, VoidKind


def void_values(void: Void) -> dict[str, Any]:
    """A reason as JSON; parts that it has not are left out."""
    parts = {"numbers": dict(void.numbers), "errors": dict(void.errors), "cause": void.cause}
    return {"kind": void.kind, **{name: value for name, value in parts.items() if value}}


def void_of(race_id: str, stored: Any) -> Void:
    """A reason out of a row.

    Raises:
        Unreadable: it is not the JSON of one.
    """
    try:
        return Void(
            kind=VoidKind(stored["kind"]),
            numbers=_counts(stored.get("numbers", {})),
            errors=_counts(stored.get("errors", {})),
            cause=VoidKind(stored["cause"]) if "cause" in stored else None,
        )
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise Unreadable(race_id, f"void is {stored!r:.60}, no reason ({error})") from error


def kind_values(kind: KindCount) -> dict[str, Any]:
    """What a block left of one of its workload's requests, as JSON."""
    hdr = base64.b64encode(kind.latency_hdr).decode()
    counts = {"requests": kind.requests, "failed": kind.failed, "latency_sum_ns": kind.latency_sum_ns}
    return {**counts, "latency_hdr": hdr}


def kind_of(race_id: str, stored: Any) -> KindCount:
    """The same out of a row.

    Raises:
        Unreadable: it is none.
    """
    try:
        return KindCount(
            requests=int(stored["requests"]),
            failed=int(stored["failed"]),
            latency_sum_ns=int(stored["latency_sum_ns"]),
            latency_hdr=base64.b64decode(stored["latency_hdr"], validate=True),
        )
    except (TypeError, ValueError, KeyError) as error:
        raise Unreadable(race_id, f"kinds has {stored!r:.60}, no count ({error})") from error


def event_columns(event: Event) -> dict[str, Any]:
    """An event's kind, text and values as columns."""
    facts: dict[str, Any] = {"subject": event.subject, "names": list(event.names), "numbers": dict(event.numbers)}
    facts |= {} if event.column is None else {"column": event.column}
    return {"at_ns": event.at_ns, "kind": event.kind, "detail": event.text, "facts": json.dumps(facts, allow_nan=False)}


def event_of(race_id: str, row: Mapping[str, Any]) -> Event:
    """An event out of a row.

    Raises:
        Unreadable: its values are none.
    """
    facts = row["facts"]
    try:
        own = json.loads(facts)
        return Event(
            at_ns=row["at_ns"],
            kind=EventKind(row["kind"]),
            subject=_text(own["subject"]),
            names=tuple(map(_text, own["names"])),
            numbers=_counts(own["numbers"]),
            text=row["detail"],
            column=column_of(own),
        )
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise Unreadable(race_id, f"event of kind {row['kind']!r:.30}, facts {facts!r:.60}: {error}") from error


_Member = TypeVar("_Member", bound=StrEnum)


def member_of(race_id: str, kind: type[_Member], name: str, stored: str) -> _Member:
    """The member of an enum that a row has; ``name``: of its column.

    Raises:
        Unreadable: it is unknown.
    """
    try:
        return kind(stored)
    except ValueError as error:
        raise Unreadable(race_id, f"{name}: {error}") from error


def column_of(facts: Mapping[str, Any]) -> int | None:
    """Which of a race's columns an event belongs to; None: the whole race's.

    Raises:
        TypeError: it is not a whole number.
    """
    column = facts.get("column")
    if column is not None and (isinstance(column, bool) or not isinstance(column, int)):
        raise TypeError(f"column is {column!r:.20}, no whole number")
    return column


def _counts(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Numbers by name.

    Raises:
        TypeError: one is none.
    """
    return dict(_numbers(values))


def _numbers(values: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name} is {value!r:.20}, no number")
        yield str(name), value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.20}, expected a text")
    return value
