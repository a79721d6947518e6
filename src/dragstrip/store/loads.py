"""Runs of ``dragstrip load`` in the store: one row each, written once; ``database.Store`` has the connection."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, fields

from dragstrip.errors import StoreError, Unreadable
from dragstrip.record import LoadVerdict
from dragstrip.store.json_values import JsonObject
from dragstrip.store.rows import field_value, insert, json_of, rows, values


@dataclass(frozen=True, slots=True)
class StoredLoad:
    """One stored run of ``dragstrip load``.

    Args:
        id: 12 lower-case hex digits. started: wall clock, ISO 8601 UTC.
        url: as in ``result``, secret values masked. result: as ``load --json`` writes it (load.schema.json).
    """

    id: str
    started: str
    url: str
    verdict: LoadVerdict
    result: JsonObject


@dataclass(frozen=True, slots=True)
class LoadLine:
    """One stored run of load in a listing; its numbers are None if nothing was measured."""

    load: str
    started: str
    url: str
    verdict: str
    method: str
    rate_per_s: float | None
    p99_us: float | None


def keep(db: sqlite3.Connection, load: StoredLoad) -> None:
    """Adds a run."""
    insert(db, "load", values(load, [declared.name for declared in fields(load)]))


def lines(db: sqlite3.Connection) -> list[LoadLine]:
    """All runs, newest first."""
    names = ("method", "rate_per_s", "latency_us.p99")
    extracted = ", ".join(f"json_extract(result, '$.{name}')" for name in names)
    query = f"SELECT id, started, url, verdict, {extracted} FROM load ORDER BY rowid DESC"
    return [
        LoadLine(str(id_), str(started), str(url), str(verdict), str(method), _number(rate_per_s), _number(p99_us))
        for id_, started, url, verdict, method, rate_per_s, p99_us in db.execute(query)
    ]


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


def read(db: sqlite3.Connection, load_id: str) -> StoredLoad:
    """A run by its whole id.

    Raises:
        StoreError: its record is not valid.
    """
    try:
        (row,) = rows(db, "load", load_id, by="id")
        result = json_of(load_id, "result", row["result"])
        verdict = field_value(load_id, "verdict", LoadVerdict, row["verdict"])
        return StoredLoad(**row | {"result": result, "verdict": verdict})
    except Unreadable as error:
        raise unreadable(load_id, error.problem) from error


def unreadable(load_id: str, problem: object) -> StoreError:
    """The refusal of a run whose record is not valid."""
    return StoreError(f"load {load_id} can't be read: {problem}; what else the store has is not affected")
