"""Converts values of the record to rows of the store and back; every row is checked when it is read.

The schema refuses values of another type when they are written, but a damaged file may contain them. Such a row is
refused by name, so that a bad record becomes one line instead of a traceback in every command that reads it.
"""

# House: an edge: columns of the store.
from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any

from dragstrip.errors import Unreadable
from dragstrip.record import METHOD_VERSION, Event
from dragstrip.store.json_values import decode, decoded, encode, field_types
from dragstrip.store.messages import TYPES

#: The Python type of each declared column type.
_HELD: Mapping[str, type] = {"INTEGER": int, "REAL": float, "TEXT": str, "BLOB": bytes}


def values(part: Any, names: Sequence[str]) -> dict[str, Any]:
    """Named fields of a part of a record."""
    return {name: getattr(part, name) for name in names}


def insert(db: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> None:
    """Adds one row."""
    columns, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", list(map(_column, row.values())))


def _column(value: Any) -> Any:
    """A field of the record for its column: maps, lists and dataclasses become JSON."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        # A log's undecodable bytes may be lone surrogates, which UTF-8 can't encode.
        return value.encode("utf-8", "backslashreplace").decode()
    if value is None or isinstance(value, int | float | bytes):
        return value
    return json.dumps(value, default=lambda part: dict(part) if isinstance(part, Mapping) else encode(part))


def event_columns(event: Event) -> dict[str, Any]:
    """An event's columns; its values are JSON."""
    facts = encode(event)
    columns = {column: facts.pop(field) for column, field in (("at_ns", "at_ns"), ("kind", "kind"), ("detail", "text"))}
    return columns | {"facts": facts}


def event_of(race_id: str, row: Mapping[str, Any]) -> Event:
    """An event from a row.

    Raises:
        Unreadable: its kind or its values are not valid.
    """
    facts = json_of(race_id, "facts", row["facts"])
    try:
        values_ = {name: facts[name] for name in ("subject", "names", "numbers")} | {"column": facts.get("column")}
        return decode(Event, values_ | {"at_ns": row["at_ns"], "kind": row["kind"], "text": row["detail"]})
    except (TypeError, KeyError, AttributeError) as error:
        what = f"event of kind {row['kind']!r:.30}, facts {row['facts']!r:.60}"
        raise Unreadable(race_id, f"{what}: {error}") from error


def rows(
    db: sqlite3.Connection, table: str, race_id: str, *, by: str = "race", order: str = "rowid"
) -> list[dict[str, Any]]:
    """A race's rows of a table.

    Raises:
        Unreadable: a column holds a value of another type.
    """
    declared = {name: (kind, needed) for _, name, kind, needed, *_ in db.execute(f"PRAGMA table_info({table})")}
    cursor = db.execute(f"SELECT * FROM {table} WHERE {by} = ? ORDER BY {order}", (race_id,))
    names = [column[0] for column in cursor.description]
    dicts, good_types = [], set()
    for row in cursor:
        types = tuple(map(type, row))
        if types not in good_types:  # a race has thousands of rows, but few combinations of types
            for name, value in zip(names, row, strict=True):
                type_, needed = declared[name]
                if not isinstance(value, _HELD[type_]) and (value is not None or needed):
                    raise Unreadable(race_id, f"{table}.{name} is {value!r:.60}, expected {TYPES[type_]}")
            good_types.add(types)
        dicts.append(dict(zip(names, row, strict=True)))
    return dicts


def refuse_newer_method(db: sqlite3.Connection, race_id: str, store: str = "main") -> None:
    """A race of a method that this Dragstrip does not know can't be judged, and isn't imported.

    Raises:
        Unreadable: it was raced by a newer one.
    """
    query = f"SELECT method, software FROM {store}.race WHERE id = ?"
    for method, software in db.execute(query, (race_id,)):
        if not isinstance(method, int) or method > METHOD_VERSION:
            raise Unreadable(
                race_id,
                f"it was raced by method {method!r:.20} and this Dragstrip knows methods up to {METHOD_VERSION}; "
                f"use the Dragstrip that raced it (version {software!s:.40})",
            )


def pick(race_id: str, kind: type, row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The named columns, converted to the fields of a part of the record.

    Raises:
        Unreadable: a column's JSON is not valid, or has another shape.
    """
    types = _types_to_convert(kind)
    return {name: field_value(race_id, name, types[name], row[name]) if name in types else row[name] for name in names}


@cache
def _types_to_convert(kind: type) -> Mapping[str, Any]:
    """Types of the fields that a column can't hold, by name: flags, enumerations, and values stored as JSON."""
    plain = [type_ for held in _HELD.values() for type_ in (held, held | None)]
    return {name: type_ for name, type_ in field_types(kind).items() if type_ not in plain}


def field_value(race_id: str, name: str, kind: Any, value: Any) -> Any:
    """A column's value as a field of this type.

    Raises:
        Unreadable: it has another type, is not JSON, or is unknown to an enumeration.
    """
    if kind is bool:
        return bool(value)
    is_json = not (isinstance(kind, type) and issubclass(kind, StrEnum))
    try:
        return decoded("a value", kind, json_of(race_id, name, value) if is_json else value)
    except TypeError as error:
        raise Unreadable(race_id, f"{name}: {error}") from error


def json_of(race_id: str, name: str, text: str) -> Any:
    """A JSON text of a record.

    Raises:
        Unreadable: it can't be read.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(race_id, f"{name} is {text!r:.60}, expected JSON ({error})") from error
