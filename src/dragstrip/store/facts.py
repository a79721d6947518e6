"""Events, reasons that void, and back ends as the store holds them; sentences of earlier versions become values here.

Up to version 8 of the schema they were sentences. Each keeps its sentence as ``text``, so that it reads as it did.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dragstrip.errors import Unreadable
from dragstrip.machine_facts import Facts
from dragstrip.record import Backend, Event, EventKind, KindCount, Void, VoidKind

_VOID_KINDS = {kind.value: kind for kind in VoidKind}
_EVENT_KINDS = {kind.value: kind for kind in EventKind}
_BACKENDS = {backend.value: backend for backend in Backend}

#: Where the name of whom an event was about ends in an earlier version's sentence; searched from the end.
_SUBJECT_ENDS = {
    EventKind.INTRUDER: " (process ",
    EventKind.GROWING: ": its memory ",
    EventKind.UNEQUAL_BLOCKS: ": blocks of ",
}

#: Kinds whose text is what they hold, now as ever.
_TEXTS = frozenset(
    {
        EventKind.COUNTED_RUN, EventKind.FOREIGN, EventKind.VERDICT, EventKind.RESUMED, EventKind.OUT,
        EventKind.FINISHED, EventKind.EXTENDED, EventKind.IMPORTED,
    }
)  # fmt: skip


def void_values(void: Void) -> dict[str, Any]:
    """A reason as JSON; parts that it has not are left out."""
    parts = {"numbers": dict(void.numbers), "errors": dict(void.errors), "cause": void.cause, "text": void.text}
    return {"kind": void.kind, **{name: value for name, value in parts.items() if value}}


def void_of(race_id: str, stored: Any) -> Void:
    """A reason out of a row: a map of its values, or a sentence of before.

    Raises:
        Unreadable: it is neither.
    """
    if isinstance(stored, str):
        return void_of_text(stored)
    try:
        return Void(
            kind=VoidKind(stored["kind"]),
            numbers=_counts(stored.get("numbers", {})),
            errors=_counts(stored.get("errors", {})),
            cause=VoidKind(stored["cause"]) if "cause" in stored else None,
            text=_text(stored.get("text", "")),
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


def void_of_text(sentence: str) -> Void:
    """A reason of before: its kind was the words before the first colon."""
    return Void(kind=_VOID_KINDS.get(sentence.partition(":")[0], VoidKind.OTHER), text=sentence)


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
    at_ns, kind, text, facts = row["at_ns"], row["kind"], row["detail"], row["facts"]
    if facts is None or kind not in _EVENT_KINDS:
        return event_of_text(at_ns, kind, text)
    try:
        own = json.loads(facts)
        return Event(
            at_ns=at_ns,
            kind=EventKind(kind),
            subject=_text(own["subject"]),
            names=tuple(map(_text, own["names"])),
            numbers=_counts(own["numbers"]),
            text=text,
            column=column_of(own),
        )
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise Unreadable(race_id, f"event.facts is {facts!r:.60}, no event ({error})") from error


def event_of_text(at_ns: int, kind: str, sentence: str) -> Event:
    """An event of before, when it was a kind and a sentence."""
    if kind == "clock":
        known = EventKind.HEAT if sentence.startswith("heat") else EventKind.FREQUENCY
        return Event(at_ns=at_ns, kind=known, text=sentence)
    if kind not in _EVENT_KINDS:
        return Event(at_ns=at_ns, kind=EventKind.OTHER, subject=kind, text=sentence)
    known = EventKind(kind)
    if known in _TEXTS:
        return Event(at_ns=at_ns, kind=known, text=sentence)
    if known is EventKind.CLAIMS:
        setting, *ids = sentence.split() or [""]
        return Event(at_ns=at_ns, kind=known, subject=setting, names=tuple(ids))
    if known is EventKind.NULL_RACE:
        return Event(at_ns=at_ns, kind=known, subject=sentence)
    subject = sentence.rpartition(_SUBJECT_ENDS.get(known, ": "))[0]
    return Event(at_ns=at_ns, kind=known, subject=subject, text=sentence)


def backend_of(stored: str | None, machine: Facts) -> Backend:
    """The back end of a row; in one of before it stands in the machine's facts, as the engine showed it."""
    if stored is not None:
        return _BACKENDS.get(stored, Backend.EPOLL)
    shown = machine.engine_io or ""
    if not shown.startswith("io_uring"):
        return Backend.EPOLL
    return Backend.BEST if re.search(r"\bone connection\b", shown) else Backend.URING


def column_of(facts: Mapping[str, Any]) -> int | None:
    """Which of a race's columns an event belongs to; None: the whole race's.

    Raises:
        TypeError: it is no whole number.
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
        raise TypeError(f"{value!r:.20} is no text")
    return value
