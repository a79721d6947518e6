"""Races on disk: append records, read them back, never rewrite.

One SQLite file in write-ahead mode. A race is begun once. Each finished round is one transaction, synced to the disk
before the call returns, so that a crash loses at most the current round. Facts that are known only later (a contender
that went out, how the race ended) are events, folded in when a race is read. Triggers refuse every UPDATE and DELETE.
``PRAGMA user_version`` is the schema's version.
"""

# House: an edge: columns of the store.
from __future__ import annotations

import difflib
import fcntl
import json
import os
import shlex
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dragstrip import paths
from dragstrip.errors import BadUsage, StoreError, StoreFull, Unreadable
from dragstrip.paths import is_file
from dragstrip.record import (
    Block,
    Column,
    Ending,
    Entrant,
    Event,
    EventKind,
    Launch,
    Load,
    Plan,
    Profile,
    Race,
    Round,
)
from dragstrip.store.local_disk import refuse_network
from dragstrip.store.messages import ELSEWHERE, constraint_in_words, few, refused
from dragstrip.store.rows import (
    event_columns,
    event_of,
    field_value,
    insert,
    json_of,
    pick,
    refuse_newer_method,
    rows,
    values,
)
from dragstrip.store.schema import APPLICATION_ID as APPLICATION_ID
from dragstrip.store.schema import create, refuse_other_versions, roll_back

if TYPE_CHECKING:
    from dragstrip.store.loads import LoadLine, StoredLoad

#: How long to wait for another writer.
BUSY_S = 10.0

#: Event kinds that the store itself writes and folds in when reading. The text of an extension is JSON of the new
#: ``budget_s`` and ``planned_rounds``.
_OWN = frozenset({EventKind.OUT, EventKind.FINISHED, EventKind.EXTENDED, EventKind.IMPORTED})

#: The fields of each column in the store: of the column itself, of its load and of its plan.
_COLUMN = ("name", "workload", "absent", "waits", "definition")
_COLUMN_LOAD = ("rate_per_s", "pipelining")
_COLUMN_PLAN = ("lead_ns", "counted_ns", "passes", "blocks")

_LOAD = tuple(f.name for f in fields(Load) if f.name not in _COLUMN_LOAD)
_PLAN = tuple(f.name for f in fields(Plan) if f.name not in ("extensions", *_COLUMN_PLAN))  # extensions are events
_APART = ("columns", "rounds", "events", "finished", "family", "imported", "profiles")
_RACE = tuple(f.name for f in fields(Race) if f.name not in _APART)
_ROUND = ("index", "started_ns", "ended_ns", "void", "column")
_EVENT = ("at_ns", "kind", "detail", "facts")
_ENTRANT, _LAUNCH, _BLOCK, _PROFILE = (
    tuple(f.name for f in fields(kind)) for kind in (Entrant, Launch, Block, Profile)
)

#: Races and when they started. A race of this store is newer than those begun before it, also if the clock went back
#: since; an imported race is as old as it says.
_NEWEST_FIRST = f"""
WITH listed AS (
    SELECT id, started, rowid AS number, id IN (SELECT race FROM event WHERE kind = '{EventKind.IMPORTED}') AS imported
    FROM race
)
SELECT id, started FROM (
    SELECT *, max(CASE WHEN imported THEN '' ELSE started END) OVER (ORDER BY number) AS own FROM listed
) ORDER BY CASE WHEN imported THEN started ELSE own END DESC, number DESC
"""


@dataclass(frozen=True, slots=True)
class RunLine:
    """One stored race in a listing; ``finished`` as in ``Race``.

    Args:
        definitions: by workload, as in ``Column``.
    """

    race: str
    started: str
    workload: str
    contenders: tuple[str, ...]
    rounds: int
    finished: str
    definitions: Mapping[str, str]


def default_path() -> Path:
    """$DRAGSTRIP_STORE, otherwise dragstrip/races.sqlite below $XDG_DATA_HOME (~/.local/share)."""
    if path := os.environ.get("DRAGSTRIP_STORE"):
        return Path(path)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "dragstrip" / "races.sqlite"


class Store:
    """An open store; a context manager. One thread at a time; several processes may share the file.

    Args:
        path: the SQLite file; it and its folder are created if they are missing.
        write: False for a command that only shows: nothing is created, and a missing store counts as empty.

    Raises:
        StoreError: the path can't be written, is in a network folder, is not a Dragstrip store, has another schema
            version, or is damaged.
    """

    def __init__(self, path: Path, *, write: bool = True) -> None:
        self.path = Path(path)
        #: Races skipped because they can't be read, and why; a command shows them.
        self.passed_over: list[str] = []
        refuse_network(self.path, "store", ELSEWHERE)
        refuse_other_versions(self.path, self.path)
        with self._sqlite_errors("opened"):
            self._db = sqlite3.connect(self._place(write=write), timeout=BUSY_S, isolation_level=None)
        try:
            with self._sqlite_errors("opened"):
                self._db.execute("PRAGMA foreign_keys = ON")
                create(self._db, self.path)
                # FULL: a round that append_round has returned from survives a power cut.
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = FULL")
        except BaseException:
            self._db.close()
            raise

    def _place(self, *, write: bool) -> Path | str:
        """The path for SQLite to open; an empty store in memory replaces a missing one that is only read."""
        try:
            if self.path.exists() and not self.path.is_file():
                raise StoreError(f"store {self.path} is not a plain file; {ELSEWHERE}")
            if not write:
                return self.path if self.path.exists() else ":memory:"
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            kind = StoreFull if getattr(error, "errno", None) in paths.NO_SPACE else StoreError
            raise kind(f"store {self.path}: its folder can't be created or read ({why}); {ELSEWHERE}") from error
        return self.path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; safe to call twice."""
        self._db.close()

    def begin(self, race: Race) -> None:
        """Records a race as it is (its contenders; usually no rounds yet), in one transaction.

        Raises:
            StoreError: the store already has a race of this id.
        """
        if self._has(race.id):
            raise StoreError(f"race {race.id} is already in {self.path}: its record is never rewritten")
        with self._transaction():
            insert(self._db, "race", values(race, _RACE) | values(race.load, _LOAD) | values(race.plan, _PLAN))
            for index, column in enumerate(race.columns):
                self._put_column(race.id, index, column)
            for round_ in race.rounds:
                self._put_round(race.id, round_)
            for profile in race.profiles:
                self._put_profile(race.id, profile)
            for event in race.events:
                self._put_event(race.id, event)
            if race.finished:
                self._put_event(race.id, Event(at_ns=time.monotonic_ns(), kind=EventKind.FINISHED, text=race.finished))

    @contextmanager
    def writing(self, race_id: str) -> Iterator[None]:
        """Keeps a race for this process while the block lasts (flock(2) on a file next to the store).

        One process at a time adds rounds to a race; any may read it.

        Raises:
            BadUsage: another process has it, or no file can be created next to the store.
        """
        place = self.path.with_name(f"{self.path.name}.{race_id}.lock")
        with paths.failing(f"{place}: can't be created", ELSEWHERE):
            number = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        with os.fdopen(number, "r+b", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BadUsage(
                    f"race {race_id} is being raced by another process; wait until it has ended, or end it by Ctrl-C "
                    "there, then resume it"
                ) from None
            try:
                yield
            finally:
                # Removes only the locked file: if another process has put its own file there, that stays.
                with suppress(OSError):
                    if os.path.samestat(place.stat(), os.fstat(file.fileno())):
                        place.unlink()

    def append_round(self, race_id: str, round: Round) -> None:
        """Commits one finished round; it is on the disk when this returns."""
        with self._transaction():
            self._put_round(race_id, round)

    def append_profile(self, race_id: str, profile: Profile) -> None:
        """Commits one extra launch; it is on the disk when this returns."""
        with self._transaction():
            self._put_profile(race_id, profile)

    def entrant_out(self, race_id: str, name: str, reason: str, round_index: int | None, column: int) -> None:
        """Records that a contender went out of a column in a round, and why."""
        with self._transaction():
            event = Event(at_ns=time.monotonic_ns(), kind=EventKind.OUT, text=reason, column=column)
            self._put_event(race_id, event, name, round_index)

    def append_event(self, race_id: str, event: Event) -> None:
        """Records an event."""
        if event.kind in _OWN:
            raise ValueError(f"event kind {str(event.kind)!r} is the store's own; use entrant_out, extend or finish")
        with self._transaction():
            self._put_event(race_id, event)

    def extend(self, race_id: str, *, budget_s: float, planned_rounds: int | None = None) -> None:
        """Records a larger budget of a race: its new total, and the planned last round that it pays for.

        Args:
            planned_rounds: None: the planned last round stays.
        """
        planned = {} if planned_rounds is None else {"planned_rounds": planned_rounds}
        detail = json.dumps({"budget_s": budget_s, **planned})
        with self._transaction():
            self._put_event(race_id, Event(at_ns=time.monotonic_ns(), kind=EventKind.EXTENDED, text=detail))

    def finish(self, race_id: str, how: Ending) -> None:
        """Records how the race ended; a later resumption, and its end, override it when read."""
        with self._transaction():
            self._put_event(race_id, Event(at_ns=time.monotonic_ns(), kind=EventKind.FINISHED, text=how))

    def _put_column(self, race_id: str, index: int, column: Column) -> None:
        row = values(column, _COLUMN) | values(column.load, _COLUMN_LOAD) | values(column.plan, _COLUMN_PLAN)
        insert(self._db, "column", {"race": race_id, "index": index} | row)
        for seq, entrant in enumerate(column.entrants):
            place = {"race": race_id, "column": index, "seq": seq}
            insert(self._db, "contender", place | values(entrant, _ENTRANT))

    def _put_round(self, race_id: str, round_: Round) -> None:
        if ({p.round for p in round_.launches} | {p.round for p in round_.blocks}) - {round_.index}:
            raise ValueError(f"round {round_.index} holds parts of another round")
        insert(self._db, "round", {"race": race_id} | values(round_, _ROUND))
        for seq, launch in enumerate(round_.launches):
            insert(self._db, "launch", {"race": race_id, "seq": seq} | values(launch, _LAUNCH))
        for seq, block in enumerate(round_.blocks):
            insert(self._db, "block", {"race": race_id, "seq": seq} | values(block, _BLOCK))

    def _put_profile(self, race_id: str, profile: Profile) -> None:
        insert(self._db, "profile", {"race": race_id} | values(profile, _PROFILE))

    def _put_event(self, race_id: str, event: Event, contender: str | None = None, round_: int | None = None) -> None:
        place = {"race": race_id, "contender": contender, "round": round_}
        insert(self._db, "event", place | event_columns(event))

    def load(self, id_or_prefix: str) -> Race:
        """A race with every committed round.

        Args:
            id_or_prefix: an id, the unique beginning of one, or "last" for the newest.

        Raises:
            StoreError: none or several match; the message names the nearest ids.
            Unreadable: its record is not valid. "last" is the newest that can be read; newer ones are then in
                ``passed_over``.
        """
        if id_or_prefix == "last":
            return self._newest()
        return self._read(self.resolve(id_or_prefix))

    def readable(self, race_id: str) -> Race | None:
        """A race by its whole id; None if it can't be read; the reason is then in ``passed_over``."""
        try:
            return self._read(race_id)
        except Unreadable as error:
            self.passed_over.append(str(error))
            return None

    def _newest(self) -> Race:
        newest = self.resolve("last")
        for race_id in self._ids():
            if (race := self.readable(race_id)) is not None:
                return race
        first = self.passed_over[0]
        raise StoreError(f"none of the races in {self.path} can be read; of the newest, {newest}: {first}")

    def _read(self, race_id: str) -> Race:
        # One read transaction, because a writer may commit a round between two queries.
        with self._transaction("DEFERRED"):
            refuse_newer_method(self._db, race_id)
            (row,) = rows(self._db, "race", race_id, by="id")
            shared = pick(race_id, Race, row, _RACE)
            columns = self._columns(race_id, row)
            rounds = self._rounds(race_id, columns)
            profiles = rows(self._db, "profile", race_id, order='"index"')
            events = rows(self._db, "event", race_id, order="id")
        finished, kept = Ending.NONE, []
        for event in events:
            if event["kind"] == EventKind.OUT:
                columns = _with_out(columns, event_of(race_id, event).column, event)
            elif event["kind"] == EventKind.FINISHED:
                finished = field_value(race_id, "event.detail", Ending, event["detail"])
            elif event["kind"] == EventKind.EXTENDED:
                columns = _extended(columns, json_of(race_id, "extension", event["detail"]))
            elif event["kind"] != EventKind.IMPORTED:
                finished = Ending.NONE if event["kind"] == EventKind.RESUMED else finished
                kept.append(event_of(race_id, event))
        return Race(
            **shared,
            columns=columns,
            rounds=rounds,
            events=tuple(kept),
            finished=finished,
            imported=any(event["kind"] == EventKind.IMPORTED for event in events),
            profiles=tuple(_profile(race_id, row) for row in profiles),
        )

    def _columns(self, race_id: str, row: Mapping[str, Any]) -> tuple[Column, ...]:
        """A race's columns as they entered; ``row``: the race's, with what they share."""
        entrants: dict[int, list[Entrant]] = {}
        for entrant in rows(self._db, "contender", race_id, order='"column", seq'):
            entrants.setdefault(entrant["column"], []).append(Entrant(**pick(race_id, Entrant, entrant, _ENTRANT)))
        load, plan = pick(race_id, Load, row, _LOAD), pick(race_id, Plan, row, _PLAN)
        columns = tuple(
            Column(
                **pick(race_id, Column, column, _COLUMN),
                load=Load(**load, **pick(race_id, Load, column, _COLUMN_LOAD)),
                plan=Plan(**plan, **pick(race_id, Plan, column, _COLUMN_PLAN)),
                entrants=tuple(entrants.get(column["index"], ())),
            )
            for column in rows(self._db, "column", race_id, order='"index"')
        )
        if not columns:
            raise Unreadable(race_id, "it has no column")
        return columns

    def _rounds(self, race_id: str, columns: Sequence[Column]) -> tuple[Round, ...]:
        launches: dict[int, list[Launch]] = {}
        for row in rows(self._db, "launch", race_id, order="round, seq"):
            launches.setdefault(row["round"], []).append(Launch(**pick(race_id, Launch, row, _LAUNCH)))
        blocks: dict[int, list[Block]] = {}
        for row in rows(self._db, "block", race_id, order="round, seq"):
            blocks.setdefault(row["round"], []).append(Block(**pick(race_id, Block, row, _BLOCK)))
        rounds = tuple(
            Round(
                **pick(race_id, Round, row, _ROUND),
                launches=tuple(launches.get(row["index"], ())),
                blocks=tuple(blocks.get(row["index"], ())),
            )
            for row in rows(self._db, "round", race_id, order='"index"')
        )
        for round_ in rounds:
            if not 0 <= round_.column < len(columns):
                raise Unreadable(race_id, f"round {round_.index} is of column {round_.column}, of {len(columns)}")
            names = {entrant.name for entrant in columns[round_.column].entrants}
            for launch in round_.launches:
                if launch.contender not in names:
                    raise Unreadable(
                        race_id, f"round {round_.index} has a launch of {launch.contender!r:.40}, no contender"
                    )
        return rounds

    def resolve(self, id_or_prefix: str) -> str:
        """The race id that an id, a prefix or "last" means; see ``load``."""
        ids = self._ids()
        self._refuse_load(id_or_prefix, ids)
        if not ids:
            has = "has loads, but no race" if self.load_lines() else "is empty"
            raise StoreError(f"race {id_or_prefix!r}: {self.path} {has}; `dragstrip race` runs a race")
        if id_or_prefix == "last":
            return str(ids[0])
        matching = [id_ for id_ in ids if id_.startswith(id_or_prefix)] if id_or_prefix else []
        if id_or_prefix in matching:
            return id_or_prefix
        if len(matching) == 1:
            return str(matching[0])
        if matching:
            raise StoreError(f"race {id_or_prefix!r} is ambiguous: {few(matching)}; give more digits")
        near = difflib.get_close_matches(id_or_prefix, ids, n=3, cutoff=0.5)
        hint = f"the nearest are {few(near)}" if near else f"the newest are {few(ids)}"
        raise StoreError(f"race {id_or_prefix!r} is not in {self.path}; {hint}; `last` is the newest of all")

    def _refuse_load(self, id_or_prefix: str, races: Sequence[str]) -> None:
        """Refuses the id of a load for what only races have."""
        with self._sqlite_errors("read"):
            found = self._loads_matching(id_or_prefix)
        if found and not any(race.startswith(id_or_prefix) for race in races):
            raise StoreError(f"{id_or_prefix} is a load, not a race; show, export and runs accept loads")

    def _ids(self) -> list[str]:
        """Every race's id, newest first."""
        with self._sqlite_errors("read"):
            return [str(id_) for id_, _ in self._db.execute(_NEWEST_FIRST)]

    def runs(self) -> list[RunLine]:
        """All races, newest first, without reading their blocks."""
        with self._transaction("DEFERRED"):
            races = self._db.execute(_NEWEST_FIRST).fetchall()
            definitions: dict[str, dict[str, str]] = {}
            for race_id, *column in self._db.execute(
                'SELECT race, workload, definition FROM column ORDER BY race, "index"'
            ):
                name, definition = map(str, column)
                definitions.setdefault(race_id, {}).setdefault(name, definition)
            names = self._by_race('SELECT race, name FROM contender ORDER BY race, "column", seq')
            rounds = dict(self._db.execute("SELECT race, count(*) FROM round GROUP BY race").fetchall())
            ends = self._db.execute(
                "SELECT race, kind, detail FROM event WHERE kind IN (?, ?) ORDER BY id",
                (str(EventKind.FINISHED), str(EventKind.RESUMED)),
            ).fetchall()
        finished = {race_id: detail if kind == EventKind.FINISHED else "" for race_id, kind, detail in ends}
        return [
            RunLine(
                race=id_,
                started=started,
                workload=",".join(definitions.get(id_, ())),
                contenders=tuple(names.get(id_, ())),
                rounds=rounds.get(id_, 0),
                finished=finished.get(id_, ""),
                definitions=definitions.get(id_, {}),
            )
            for id_, started in (map(str, line) for line in races)
        ]

    def keep_load(self, load: StoredLoad) -> None:
        """Records a run of load; it is on the disk when this returns."""
        from dragstrip.store import loads  # loads alone need it

        with self._transaction():
            loads.keep(self._db, load)

    def load_lines(self) -> list[LoadLine]:
        """All runs of load, newest first."""
        from dragstrip.store import loads

        with self._sqlite_errors("read"):
            return loads.lines(self._db)

    def _loads_matching(self, beginning: str) -> list[str]:
        """Ids of loads that begin so, newest first; a whole id matches alone."""
        found = [str(id_) for (id_,) in self._db.execute("SELECT id FROM load ORDER BY rowid DESC")]
        return [beginning] if beginning in found else [id_ for id_ in found if beginning and id_.startswith(beginning)]

    def stored_load(self, id_or_prefix: str) -> StoredLoad | None:
        """A run of load by its id, or the beginning of one; "last" if the newest of all is a load. None: not a load.

        Raises:
            StoreError: several races and loads match, or the record is not valid.
        """
        from dragstrip.store import loads

        with self._sqlite_errors("read"):
            races = self._db.execute(_NEWEST_FIRST).fetchall()
            if id_or_prefix == "last":
                newest = loads.lines(self._db)[:1]
                found = [line.load for line in newest if not races or line.started >= races[0][1]]
            else:
                found = self._loads_matching(id_or_prefix)
                others = [race for race, _ in races if race.startswith(id_or_prefix)]
                if found and len(found) + len(others) > 1:
                    raise StoreError(f"{id_or_prefix!r} is ambiguous: {few([*found, *others])}; give more digits")
            return loads.read(self._db, found[0]) if found else None

    def _by_race(self, query: str) -> dict[str, dict[str, None]]:
        """The values of each race, without duplicates and in order, from a query for pairs of race and value."""
        values_by_race: dict[str, dict[str, None]] = {}
        for race_id, value in self._db.execute(query):
            values_by_race.setdefault(race_id, {})[str(value)] = None
        return values_by_race

    def noted(self, kind: EventKind) -> list[tuple[str, Event]]:
        """Every event of a kind as (race, event), newest first; skips events that can't be read."""
        query = "SELECT race, at_ns, kind, detail, facts FROM event WHERE kind = ? ORDER BY id DESC"
        events = []
        with self._sqlite_errors("read"):
            for race_id, *values_ in self._db.execute(query, (str(kind),)):
                try:
                    events.append((race_id, event_of(race_id, dict(zip(_EVENT, values_, strict=True)))))
                except Unreadable as error:
                    self.passed_over.append(str(error))
        return events

    def _has(self, race_id: str) -> bool:
        with self._sqlite_errors("read"):
            return self._db.execute("SELECT 1 FROM race WHERE id = ?", (race_id,)).fetchone() is not None

    def export_race(self, id_or_prefix: str, path: Path) -> str:
        """Writes one race into its own file and returns its id; ``import_race`` reads the file into another store.

        Raises:
            StoreError: no such race; the path exists already or can't be written.
        """
        race_id, path = self.resolve(id_or_prefix), Path(path)
        if path.is_file() and paths.descriptor(path) is None:
            raise StoreError(f"export to {path}: it already exists; give another path, or remove it first")
        paths.write(path, self._exported(race_id, path), new=True)
        return race_id

    def seal_into(self, id_or_prefix: str, folder: Path) -> Path:
        """Writes a race into a folder as ``ID.race``, on the disk and whole when this returns; a former one goes.

        Raises:
            StoreError: no such race; SQLite can't write the file. BadUsage: the folder can't be written.
            DiskFull: no space is left.
        """
        race_id = self.resolve(id_or_prefix)
        return paths.write_durably(folder / f"{race_id}.race", self._exported(race_id, folder))

    def _exported(self, race_id: str, target: Path) -> bytes:
        """A race in its own file; ``target``: where it goes, for messages."""
        from dragstrip.store.export_file import write_export  # exports alone need it

        with paths.temporary() as folder:
            part = folder / "race.sqlite"
            try:
                write_export(self._db, race_id, part)
            except sqlite3.Error as error:
                raise refused(error, f"export to {target}: {error} in {folder}", BUSY_S) from error
            return part.read_bytes()

    def import_race(self, path: Path) -> str:
        """Imports the race of an exported file and returns its id; importing it twice changes nothing.

        An imported race that went on elsewhere grows by the file's further rounds. The file may be compressed by xz.

        Raises:
            StoreError: the file is missing, damaged, not an export, of another schema version, or differs from the
                race of that id that the store already has.
        """
        from dragstrip.store import export_file  # imports alone need it

        path = Path(path)
        if not is_file(path):
            raise StoreError(f"import of {path}: no such file")
        if (size := path.stat().st_size) > export_file.MAX_BYTES:
            raise StoreError(f"import of {path}: it has {size:,} bytes; one race has up to {export_file.MAX_BYTES:,}")
        with paths.temporary() as folder:
            copy = folder / "race.sqlite"
            export_file.copied(path, copy)
            race_id = export_file.checked_export(copy, path)
            with self._sqlite_errors("written"), export_file.attached(self._db, copy, "incoming"):
                refuse_newer_method(self._db, race_id, "incoming")
                if self._has(race_id):
                    self._refuse_unlike_or_grow(race_id, path)
                    return race_id
                try:
                    with self._transaction():
                        export_file.copy_race(self._db, race_id, "incoming", "main")
                        mark = Event(at_ns=time.monotonic_ns(), kind=EventKind.IMPORTED, text=path.name)
                        self._put_event(race_id, mark)
                except StoreError as error:
                    if isinstance(error.__cause__, sqlite3.IntegrityError):  # the schema's own checks of each row
                        why = constraint_in_words(str(error.__cause__))
                        message = f"import of {path}: invalid data ({why}); nothing was imported"
                        raise StoreError(message) from error.__cause__
                    raise
        return race_id

    def _refuse_unlike_or_grow(self, race_id: str, path: Path) -> None:
        """Refuses a file whose race differs from the store's race of the same id; adds rounds if it continues that."""
        from dragstrip.store import export_file

        table = export_file.differing(self._db, race_id, "incoming", "main", (str(EventKind.IMPORTED),))
        if table is None:
            return
        query = "SELECT 1 FROM event WHERE race = ? AND kind = ?"
        imported = self._db.execute(query, (race_id, str(EventKind.IMPORTED))).fetchone()
        if imported and export_file.continues(self._db, race_id, "incoming", "main"):
            with self.writing(race_id), self._transaction():
                export_file.add_continuation(self._db, race_id, "incoming", "main")
        else:
            raise StoreError(
                f"import of {path}: another race {race_id} is already in {self.path} (their {table}s differ); "
                f"nothing was changed; `dragstrip import {shlex.quote(str(path))} --store FILE` keeps this one "
                "in another store"
            )

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[None]:
        with self._sqlite_errors("written" if kind == "IMMEDIATE" else "read"):
            # A signal may have ended the last transaction between BEGIN and its block, or during its rollback.
            roll_back(self._db)
            try:
                self._db.execute(f"BEGIN {kind}")
                yield
            except BaseException:
                roll_back(self._db)
                raise
            self._db.execute("COMMIT")

    @contextmanager
    def _sqlite_errors(self, done: str) -> Iterator[None]:
        """Turns SQLite's errors into messages that say what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise refused(error, f"store {self.path} can't be {done}", BUSY_S, self.path) from error


def _with_out(columns: Sequence[Column], index: int | None, event: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns with the contender of an event out of one of them."""

    def entrants(column: Column) -> Iterator[Entrant]:
        for entrant in column.entrants:
            gone = entrant.name == event["contender"]
            yield replace(entrant, out=event["detail"], out_round=event["round"]) if gone else entrant

    return tuple(
        replace(column, entrants=tuple(entrants(column))) if number == index else column
        for number, column in enumerate(columns)
    )


def _profile(race_id: str, row: Mapping[str, Any]) -> Profile:
    """A profile from its row.

    Raises:
        Unreadable: a stack has a frame that does not exist.
    """
    profile = Profile(**pick(race_id, Profile, row, _PROFILE))
    known = range(len(profile.frames))
    if any(frame not in known for stack in profile.stacks for frame in stack.frames):
        raise Unreadable(race_id, f"profile {profile.index} has a stack with a frame that is not among its frames")
    return profile


def _extended(columns: Sequence[Column], more: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns with more budget; if that moves the planned last round, with the one before."""

    def before(plan: Plan) -> tuple[int, ...]:
        return (*plan.extensions, plan.planned_rounds) if "planned_rounds" in more else plan.extensions

    plans = (replace(column.plan, extensions=before(column.plan), **more) for column in columns)
    return tuple(replace(column, plan=plan) for column, plan in zip(columns, plans, strict=True))
