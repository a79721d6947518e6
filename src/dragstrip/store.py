"""Races on disk: append records, read them back, never rewrite.

One SQLite file in write-ahead mode. A race is begun once; each finished round is one transaction,
synced to the disk before it returns, so that a crash loses at most the round in flight. What is known
only later (a contender that went out, how the race ended) is an event, folded in when a race is read.
Triggers refuse every UPDATE and DELETE. ``PRAGMA user_version`` is the schema's version.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dragstrip.errors import StoreError
from dragstrip.record import Block, Entrant, Event, Launch, Load, Plan, Race, Round
from dragstrip.store_words import AGAIN, ELSEWHERE, few, in_words

#: "DRAG": tells our files from other programs' databases.
APPLICATION_ID = 0x44524147

#: How long another writer is waited for.
BUSY_S = 10.0

#: Event kinds that the store itself writes and folds in when reading.
OUT, FINISHED = "out", "finished"

#: The race begins to run again: whatever ended it before no longer holds.
RESUMED = "resumed"

#: A race got more budget: the event's detail is JSON of its new ``budget_s`` and ``planned_rounds``.
EXTENDED = "extended"

_TABLES = ("race", "contender", "round", "launch", "block", "event")

#: Step n takes a store from version n - 1 to n; steps are only ever added.
MIGRATIONS = ("store_1.sql", "store_2.sql", "store_3.sql", "store_4.sql", "store_5.sql", "store_6.sql")

#: Columns that hold JSON text: maps and lists, which have no column type of their own.
_TUPLES = frozenset({"server_cores", "engine_cores", "cores", "void"})
_JSON_COLUMNS = _TUPLES | {"machine", "parameters", "parity", "errors", "blocks"}
_FLAGS = frozenset({"keepalive", "rounds_fixed", "settled", "died", "gave_up"})

_LOAD = tuple(f.name for f in fields(Load))
_PLAN = tuple(f.name for f in fields(Plan) if f.name != "extensions")  # extensions are events
_RACE = tuple(
    f.name for f in fields(Race) if f.name not in ("load", "plan", "entrants", "rounds", "events", "finished")
)
_ENTRANT, _LAUNCH, _BLOCK = (tuple(f.name for f in fields(kind)) for kind in (Entrant, Launch, Block))


@dataclass(frozen=True, slots=True)
class RunLine:
    """One stored race in a listing; ``finished`` as in ``Race``."""

    race: str
    started: str
    workload: str
    contenders: tuple[str, ...]
    rounds: int
    finished: str


def default_path() -> Path:
    """$DRAGSTRIP_STORE, else races.sqlite in dragstrip's folder below $XDG_DATA_HOME (~/.local/share)."""
    if own := os.environ.get("DRAGSTRIP_STORE"):
        return Path(own)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "dragstrip" / "races.sqlite"


class Store:
    """An open store; a context manager. One thread at a time; several processes may share the file.

    Args:
        path: the SQLite file; it and its folder are made if they are not there.

    Raises:
        StoreError: the path can't be written, is no Dragstrip store, is newer than this Dragstrip, or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"store {self.path}: its folder can't be made ({error.strerror}); {ELSEWHERE}") from error
        with self._told("opened"):
            self._db = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        try:
            with self._told("opened"):
                self._db.execute("PRAGMA foreign_keys = ON")
                _migrate(self._db, self.path)
                # FULL: a round that append_round has returned from survives a power cut.
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = FULL")
        except BaseException:
            self._db.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; safe to call twice."""
        self._db.close()

    def begin(self, race: Race) -> None:
        """Records a race with all it holds already (its line-up; usually no rounds yet), in one transaction.

        Raises:
            StoreError: a race of this id is already here.
        """
        if self._has(race.id):
            raise StoreError(f"race {race.id} is already in {self.path}: its record is never rewritten")
        row = (
            {name: getattr(race, name) for name in _RACE}
            | {name: getattr(race.load, name) for name in _LOAD}
            | {name: getattr(race.plan, name) for name in _PLAN}
        )
        with self._transaction():
            _insert(self._db, "race", row)
            for seq, entrant in enumerate(race.entrants):
                _insert(self._db, "contender", {"race": race.id, "seq": seq} | _values(entrant, _ENTRANT))
            for round_ in race.rounds:
                self._put_round(race.id, round_)
            for event in race.events:
                self._put_event(race.id, event)
            if race.finished:
                self._put_event(race.id, Event(at_ns=time.monotonic_ns(), kind=FINISHED, detail=race.finished))

    def append_round(self, race_id: str, round: Round) -> None:
        """Commits one finished round: when this returns, it is on the disk."""
        with self._transaction():
            self._put_round(race_id, round)

    def entrant_out(self, race_id: str, name: str, reason: str, round_index: int | None) -> None:
        """Records that a contender went out in a round, and why."""
        with self._transaction():
            self._put_event(race_id, Event(at_ns=time.monotonic_ns(), kind=OUT, detail=reason), name, round_index)

    def append_event(self, race_id: str, event: Event) -> None:
        """Records something that is no measurement."""
        if event.kind in (OUT, FINISHED, EXTENDED):
            raise ValueError(f"event kind {event.kind!r} is the store's own; use entrant_out, extend or finish")
        with self._transaction():
            self._put_event(race_id, event)

    def extend(self, race_id: str, *, budget_s: float, planned_rounds: int) -> None:
        """Records that a race got more budget: in all so many seconds, and the planned last round that they pay for."""
        detail = json.dumps({"budget_s": budget_s, "planned_rounds": planned_rounds})
        with self._transaction():
            self._put_event(race_id, Event(at_ns=time.monotonic_ns(), kind=EXTENDED, detail=detail))

    def finish(self, race_id: str, how: str) -> None:
        """Records how the race ended; a later resumption, and its end, override it when read."""
        with self._transaction():
            self._put_event(race_id, Event(at_ns=time.monotonic_ns(), kind=FINISHED, detail=how))

    def _put_round(self, race_id: str, round_: Round) -> None:
        if ({p.round for p in round_.launches} | {p.round for p in round_.blocks}) - {round_.index}:
            raise ValueError(f"round {round_.index} holds parts of another round")
        own = {"index": round_.index, "started_ns": round_.started_ns, "ended_ns": round_.ended_ns, "void": round_.void}
        _insert(self._db, "round", {"race": race_id} | own)
        for seq, launch in enumerate(round_.launches):
            _insert(self._db, "launch", {"race": race_id, "seq": seq} | _values(launch, _LAUNCH))
        for seq, block in enumerate(round_.blocks):
            _insert(self._db, "block", {"race": race_id, "seq": seq} | _values(block, _BLOCK))

    def _put_event(self, race_id: str, event: Event, contender: str | None = None, round_: int | None = None) -> None:
        own = {"at_ns": event.at_ns, "kind": event.kind, "detail": event.detail}
        _insert(self._db, "event", {"race": race_id, **own, "contender": contender, "round": round_})

    def load(self, id_or_prefix: str) -> Race:
        """A race with every committed round.

        Args:
            id_or_prefix: an id, the unique beginning of one, or "last" for the newest.

        Raises:
            StoreError: none or several match; the message names those that come near.
        """
        race_id = self.resolve(id_or_prefix)
        # One read transaction: a writer may commit a round between two of our queries.
        with self._transaction("DEFERRED"):
            (row,) = _rows(self._db, "race", race_id, by="id")
            line_up = [Entrant(**_pick(r, _ENTRANT)) for r in _rows(self._db, "contender", race_id, order="seq")]
            rounds = self._rounds(race_id)
            events = _rows(self._db, "event", race_id, order="id")
        entrants, finished, kept = {entrant.name: entrant for entrant in line_up}, "", []
        plan = Plan(**_plan_values(row))
        for event in events:
            if event["kind"] == OUT and event["contender"] in entrants:
                name = event["contender"]
                entrants[name] = replace(entrants[name], out=event["detail"], out_round=event["round"])
            elif event["kind"] == FINISHED:
                finished = event["detail"]
            elif event["kind"] == EXTENDED:
                plan = replace(plan, extensions=(*plan.extensions, plan.planned_rounds), **json.loads(event["detail"]))
            else:
                finished = "" if event["kind"] == RESUMED else finished
                kept.append(Event(**_pick(event, ("at_ns", "kind", "detail"))))
        return Race(
            **_pick(row, _RACE),
            load=Load(**_pick(row, _LOAD)),
            plan=plan,
            entrants=tuple(entrants.values()),
            rounds=rounds,
            events=tuple(kept),
            finished=finished,
        )

    def _rounds(self, race_id: str) -> tuple[Round, ...]:
        launches: dict[int, list[Launch]] = {}
        for row in _rows(self._db, "launch", race_id, order="round, seq"):
            launches.setdefault(row["round"], []).append(Launch(**_pick(row, _LAUNCH)))
        blocks: dict[int, list[Block]] = {}
        for row in _rows(self._db, "block", race_id, order="round, seq"):
            blocks.setdefault(row["round"], []).append(Block(**_pick(row, _BLOCK)))
        return tuple(
            Round(
                **_pick(row, ("index", "started_ns", "ended_ns", "void")),
                launches=tuple(launches.get(row["index"], ())),
                blocks=tuple(blocks.get(row["index"], ())),
            )
            for row in _rows(self._db, "round", race_id, order='"index"')
        )

    def resolve(self, id_or_prefix: str) -> str:
        """The one race id that is meant; see ``load``."""
        with self._told("read"):
            ids = [id_ for (id_,) in self._db.execute("SELECT id FROM race ORDER BY started DESC, rowid DESC")]
        if not ids:
            raise StoreError(f"race {id_or_prefix!r}: {self.path} holds no race yet; `dragstrip race` runs one")
        if id_or_prefix == "last":
            return str(ids[0])
        matching = [id_ for id_ in ids if id_.startswith(id_or_prefix)] if id_or_prefix else []
        if id_or_prefix in matching:
            return id_or_prefix
        if len(matching) == 1:
            return str(matching[0])
        if matching:
            raise StoreError(f"race {id_or_prefix!r} could be {few(matching)}; give more digits")
        near = difflib.get_close_matches(id_or_prefix, ids, n=3, cutoff=0.5)
        told = f"the nearest are {few(near)}" if near else f"the newest are {few(ids)}"
        raise StoreError(f"race {id_or_prefix!r} is not in {self.path}; {told}; `last` is the newest of all")

    def runs(self) -> list[RunLine]:
        """All races, newest first, without reading their blocks."""
        with self._transaction("DEFERRED"):
            races = self._db.execute(
                "SELECT id, started, workload FROM race ORDER BY started DESC, rowid DESC"
            ).fetchall()
            names: dict[str, list[str]] = {}
            for race_id, name in self._db.execute("SELECT race, name FROM contender ORDER BY race, seq"):
                names.setdefault(race_id, []).append(name)
            rounds = dict(self._db.execute("SELECT race, count(*) FROM round GROUP BY race").fetchall())
            ends = self._db.execute(
                "SELECT race, kind, detail FROM event WHERE kind IN (?, ?) ORDER BY id", (FINISHED, RESUMED)
            ).fetchall()
        finished = {race_id: detail if kind == FINISHED else "" for race_id, kind, detail in ends}
        return [
            RunLine(id_, started, workload, tuple(names.get(id_, ())), rounds.get(id_, 0), finished.get(id_, ""))
            for id_, started, workload in races
        ]

    def noted(self, kind: str) -> list[tuple[str, str]]:
        """Every event of a kind as (race, detail), newest first."""
        query = "SELECT race, detail FROM event WHERE kind = ? ORDER BY id DESC"
        with self._told("read"):
            return self._db.execute(query, (kind,)).fetchall()

    def _has(self, race_id: str) -> bool:
        with self._told("read"):
            return self._db.execute("SELECT 1 FROM race WHERE id = ?", (race_id,)).fetchone() is not None

    def export_race(self, id_or_prefix: str, path: Path) -> str:
        """Writes one race into a file of its own and returns its id; ``import_race`` takes it in elsewhere.

        Raises:
            StoreError: no such race; the path exists already or can't be written.
        """
        race_id, path = self.resolve(id_or_prefix), Path(path)
        if path.exists():
            raise StoreError(f"export to {path}: it exists already; give a path that does not, or remove it first")
        try:
            # Beside its final place and renamed when whole: a half-written export never bears the name.
            with tempfile.TemporaryDirectory(prefix=".dragstrip-", dir=path.parent) as folder:
                part = Path(folder) / "race.sqlite"
                _write_export(self._db, race_id, part)
                part.rename(path)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"export to {path}: {error}; give a path that can be written") from error
        return race_id

    def import_race(self, path: Path) -> str:
        """Takes in the race of an exported file and returns its id.

        Raises:
            StoreError: the file is missing, damaged, newer than this Dragstrip or no export; the race is already here.
        """
        path = Path(path)
        if not path.is_file():
            raise StoreError(f"import of {path}: there is no such file")
        with tempfile.TemporaryDirectory(prefix="dragstrip-import-") as folder:
            copy = Path(folder) / "race.sqlite"
            try:
                copy.write_bytes(path.read_bytes())
            except OSError as error:
                raise StoreError(f"import of {path}: it can't be read ({error.strerror})") from error
            race_id = _checked_export(copy, path)
            if self._has(race_id):
                raise StoreError(f"import of {path}: race {race_id} is already in {self.path}; nothing was changed")
            with self._told("written"), _attached(self._db, copy, "incoming"), self._transaction():
                _copy_race(self._db, race_id, "incoming", "main")
        return race_id

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[None]:
        with self._told("written" if kind == "IMMEDIATE" else "read"):
            self._db.execute(f"BEGIN {kind}")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        """Turns SQLite's words into ours."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"store {self.path} can't be {done}: {in_words(error, BUSY_S)}") from error


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    """Brings a store up to date, step by step; each step is one transaction."""
    newest = len(MIGRATIONS)
    while _version(db, path) < newest:
        db.execute("BEGIN IMMEDIATE")
        try:
            # Asked again under the lock: another process may have been quicker.
            version = _version(db, path)
            if version < newest:
                for statement in _statements(MIGRATIONS[version]):
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {version + 1}")
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise


def _statements(name: str) -> Iterator[str]:
    """The statements of a step's file, one by one: ``executescript`` would commit between them."""
    held = ""
    for line in (Path(__file__).parent / "schema" / name).read_text(encoding="utf-8").splitlines(keepends=True):
        held += line
        if sqlite3.complete_statement(held):
            yield held
            held = ""


def _version(db: sqlite3.Connection, path: Path) -> int:
    """The schema version; refuses files that are not ours or newer than we are."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and (tables or version):
        raise StoreError(f"{path} is another program's database, not a Dragstrip store; {ELSEWHERE}")
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path} has schema version {version}, this Dragstrip knows up to {len(MIGRATIONS)}; "
            f"update Dragstrip, or {ELSEWHERE}"
        )
    return int(version)


def _values(part: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(part, name) for name in names}


def _insert(db: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> None:
    columns, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", [_column(*item) for item in row.items()])


def _column(name: str, value: Any) -> Any:
    """A field of the record as its column holds it."""
    if name in _JSON_COLUMNS:
        return json.dumps(dict(value) if isinstance(value, Mapping) else value, allow_nan=False)
    # A log's undecodable bytes may come as lone surrogates, which UTF-8 has no place for.
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _rows(
    db: sqlite3.Connection, table: str, race_id: str, *, by: str = "race", order: str = "rowid"
) -> list[dict[str, Any]]:
    cursor = db.execute(f"SELECT * FROM {table} WHERE {by} = ? ORDER BY {order}", (race_id,))
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _pick(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The named columns, as the record's types hold them."""
    return {name: _value(name, row[name]) for name in names}


def _plan_values(row: Mapping[str, Any]) -> dict[str, Any]:
    """A plan's columns; JSON has lists where the record has tuples."""
    values = _pick(row, _PLAN)
    return values | {"blocks": {name: tuple(lengths) for name, lengths in values["blocks"].items()}}


def _value(name: str, value: Any) -> Any:
    if name in _JSON_COLUMNS:
        made = json.loads(value)
        return tuple(made) if name in _TUPLES else made
    return bool(value) if name in _FLAGS else value


@contextmanager
def _attached(db: sqlite3.Connection, path: Path, name: str) -> Iterator[None]:
    db.execute(f"ATTACH DATABASE ? AS {name}", (str(path),))
    try:
        yield
    finally:
        db.execute(f"DETACH DATABASE {name}")


def _copy_race(db: sqlite3.Connection, race_id: str, source: str, target: str) -> None:
    """Copies a race's rows between two attached stores of the same version; events get new numbers."""
    for table in _TABLES:
        names = [row[1] for row in db.execute(f"PRAGMA {source}.table_info({table})")]
        columns = ", ".join(f'"{name}"' for name in names if (table, name) != ("event", "id"))
        key = "id" if table == "race" else "race"
        db.execute(
            f"INSERT INTO {target}.{table} ({columns})"
            f" SELECT {columns} FROM {source}.{table} WHERE {key} = ? ORDER BY rowid",
            (race_id,),
        )


def _write_export(db: sqlite3.Connection, race_id: str, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        _migrate(made, path)
    with _attached(db, path, "outgoing"):
        db.execute("BEGIN")
        try:
            _copy_race(db, race_id, "main", "outgoing")
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        # SQLite's own check sees broken pages, not a changed digit: hence a seal over the contents.
        made.execute("CREATE TABLE seal (race TEXT NOT NULL, sha256 TEXT NOT NULL)")
        made.execute("INSERT INTO seal VALUES (?, ?)", (race_id, _digest(made, race_id)))


def _digest(db: sqlite3.Connection, race_id: str) -> str:
    total = hashlib.sha256()
    for table in _TABLES:
        key = "id" if table == "race" else "race"
        for row in db.execute(f"SELECT * FROM {table} WHERE {key} = ? ORDER BY rowid", (race_id,)):
            total.update(repr(row).encode())
    return total.hexdigest()


def _checked_export(copy: Path, path: Path) -> str:
    """The id of the race in an export, after every check; brings the copy to the present schema version."""
    try:
        with closing(sqlite3.connect(copy, isolation_level=None)) as db:
            _version(db, path)
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'seal'").fetchone():
                raise StoreError(f"import of {path}: it is not one exported race; `dragstrip export` makes one")
            (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
            (race_id, sealed), *more = db.execute("SELECT race, sha256 FROM seal").fetchall()
            if found != "ok" or more or _digest(db, race_id) != sealed:
                raise StoreError(f"import of {path}: it is damaged (its contents don't match its seal); {AGAIN}")
            _migrate(db, path)
            return str(race_id)
    except (sqlite3.Error, ValueError) as error:
        raise StoreError(f"import of {path}: it is damaged or no exported race ({error}); {AGAIN}") from error
