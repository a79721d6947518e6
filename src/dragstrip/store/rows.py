"""Rows of the store as the record's values, and back; whatever a row holds is checked when it is read.

The schema refuses values of another type when they are written. A damaged file may hold them; such a row is refused by
name, so that one bad record is one line, and not a traceback in every command that comes across it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from dragstrip.errors import Unreadable
from dragstrip.machine_facts import Facts
from dragstrip.record import METHOD_VERSION
from dragstrip.store.facts import kind_of, kind_values, void_of, void_values
from dragstrip.store.json_values import decode, encode
from dragstrip.store.messages import TYPES

#: Columns that hold JSON text: maps and lists, which have no column type of their own.
TUPLES = frozenset({"server_cores", "engine_cores", "cores", "absent", "void"})
JSON_COLUMNS = TUPLES | {"machine", "parameters", "parity", "errors", "blocks", "kinds"}
#: What the elements of such a list, or the values of such a map, are.
_ELEMENTS: Mapping[str, type] = {
    **dict.fromkeys(("server_cores", "engine_cores", "cores", "errors"), int),
    **dict.fromkeys(("absent", "parity"), str),
}
FLAGS = frozenset({"keepalive", "rounds_fixed", "settled", "died", "gave_up", "waits"})

#: What a column of a declared type holds, as Python has it.
_HELD: Mapping[str, type] = {"INTEGER": int, "REAL": float, "TEXT": str, "BLOB": bytes}


def values(part: Any, names: Sequence[str]) -> dict[str, Any]:
    """Named fields of a part of a record."""
    return {name: getattr(part, name) for name in names}


def insert(db: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> None:
    """Adds one row."""
    columns, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", [_column(*item) for item in row.items()])


def _column(name: str, value: Any) -> Any:
    """A field of the record as its column holds it."""
    if name == "void":
        value = [void_values(one) for one in value]
    if name == "kinds":
        value = {kind: kind_values(one) for kind, one in value.items()}
    if name == "machine":
        value = encode(value)
    if name in JSON_COLUMNS:
        return json.dumps(dict(value) if isinstance(value, Mapping) else value, allow_nan=False)
    if name in FLAGS:
        return int(bool(value))
    # A log's undecodable bytes may come as lone surrogates, which UTF-8 has no place for.
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


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
    found, good = [], set()
    for row in cursor:
        kinds = tuple(map(type, row))
        if kinds not in good:  # a race has thousands of rows, and a handful of combinations
            for name, value in zip(names, row, strict=True):
                _refuse_odd(race_id, table, name, value, *declared[name])
            good.add(kinds)
        found.append(dict(zip(names, row, strict=True)))
    return found


def refuse_other_method(db: sqlite3.Connection, race_id: str, store: str = "main") -> None:
    """A race is judged, resumed and imported only by the method that it was raced by.

    Raises:
        Unreadable: it was raced by another one.
    """
    query = f"SELECT method, software FROM {store}.race WHERE id = ?"
    for method, software in db.execute(query, (race_id,)):
        if method != METHOD_VERSION:
            raise Unreadable(
                race_id,
                f"it was raced by method {method!r:.20} and this Dragstrip judges by method {METHOD_VERSION}; "
                f"use the Dragstrip that raced it (version {software!s:.40})",
            )


def _refuse_odd(race_id: str, table: str, name: str, value: Any, kind: str, needed: int) -> None:
    if not isinstance(value, _HELD[kind]) and (value is not None or needed):
        raise Unreadable(race_id, f"{table}.{name} is {value!r:.60}, expected {TYPES[kind]}")


def pick(race_id: str, row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The named columns, as the record's types hold them.

    Raises:
        Unreadable: a column of JSON holds none, or of another shape.
    """
    return {name: _value(race_id, name, row[name]) for name in names}


def _value(race_id: str, name: str, value: Any) -> Any:
    if name not in JSON_COLUMNS:
        return bool(value) if name in FLAGS else value
    made = json_of(race_id, name, value)
    if not isinstance(made, list if name in TUPLES else dict):
        shape = "array" if name in TUPLES else "object"
        raise Unreadable(race_id, f"{name} is {value!r:.60}, expected a JSON {shape}")
    element = _ELEMENTS.get(name)
    for held in made if isinstance(made, list) else made.values():
        if element is not None and type(held) is not element:
            expected = "whole numbers" if element is int else "texts"
            raise Unreadable(race_id, f"{name} has {held!r:.60}, expected {expected}")
    if isinstance(made, list):
        return tuple(void_of(race_id, reason) for reason in made) if name == "void" else tuple(made)
    if name == "machine":
        try:
            return decode(Facts, made)
        except TypeError as error:
            raise Unreadable(race_id, f"{name}: {error}") from error
    if name == "kinds":
        return {kind: kind_of(race_id, stored) for kind, stored in made.items()}
    if name == "blocks":
        return {contender: _lengths(race_id, stored) for contender, stored in made.items()}
    return made


def _lengths(race_id: str, stored: Any) -> tuple[int, ...]:
    if not isinstance(stored, list) or [type(length) for length in stored] != [int] * 3:
        raise Unreadable(race_id, f"column.blocks has {stored!r:.60}, expected three whole numbers")
    return tuple(stored)


def json_of(race_id: str, name: str, text: str) -> Any:
    """A JSON text of a record.

    Raises:
        Unreadable: it can't be read.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(race_id, f"{name} is {text!r:.60}, expected JSON ({error})") from error
