"""What a lab has tried and stored: one SQLite file, written by one client at a time.

An attempt is committed before it starts, and a cell has at most one stored race. The race itself is in the lab's store.
It is imported first and marked here afterwards; a client that was killed in between imports it again, which changes
nothing.
"""

from __future__ import annotations

import fcntl
import math
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragstrip.errors import BadUsage, StoreError, StoreFull
from dragstrip.extras.lab.task import TaskEnding
from dragstrip.store.local_disk import refuse_network
from dragstrip.store.messages import refused

FILE_NAME, STORE_NAME = "lab.sqlite", "races.sqlite"

_TABLES = """
CREATE TABLE IF NOT EXISTS cell (
    name TEXT PRIMARY KEY, line_up TEXT NOT NULL, workload TEXT NOT NULL, load TEXT NOT NULL, revision TEXT NOT NULL,
    machine TEXT NOT NULL, weight REAL NOT NULL, place INTEGER NOT NULL, planned INTEGER NOT NULL,
    why TEXT NOT NULL, dropped INTEGER NOT NULL DEFAULT 0, retried INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS attempt (
    cell TEXT NOT NULL REFERENCES cell (name), n INTEGER NOT NULL, strip TEXT NOT NULL, rounds INTEGER NOT NULL,
    begun REAL NOT NULL, ended REAL, outcome TEXT NOT NULL DEFAULT '', why TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (cell, n)
) STRICT;
CREATE TABLE IF NOT EXISTS stored (
    cell TEXT PRIMARY KEY REFERENCES cell (name), race TEXT NOT NULL UNIQUE, strip TEXT NOT NULL,
    rounds INTEGER NOT NULL, decided INTEGER NOT NULL, over INTEGER NOT NULL, void INTEGER NOT NULL, more INTEGER
) STRICT;
CREATE TABLE IF NOT EXISTS digest (
    cell TEXT PRIMARY KEY REFERENCES cell (name), race TEXT NOT NULL, rounds INTEGER NOT NULL, text TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS refused (
    at REAL NOT NULL, cell TEXT NOT NULL, strip TEXT NOT NULL, why TEXT NOT NULL
) STRICT;
"""

#: Seconds to wait for another program that has the file.
BUSY_S = 10.0

#: An application's number in the header ("DLAB"), so that no other database is taken for a ledger.
_APPLICATION = 0x444C4142


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRow:
    """A cell as it is planned.

    Args:
        name: the hash of its content. load: its label. place: in the matrix's order.
        why: the reason why no strip can run it; "" if one can. dropped: the user gave it up.
        retried: attempts before this number count no more.
    """

    name: str
    line_up: str
    workload: str
    load: str
    revision: str
    machine: str
    weight: float
    place: int
    why: str = ""
    dropped: bool = False
    retried: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt; ``outcome``: "" while it is open, otherwise a ``Kind``; begun, ended: seconds since 1970."""

    cell: str
    n: int
    strip: str
    rounds: int
    begun: float
    ended: float | None = None
    outcome: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A cell's race.

    Args:
        decided: every pair is. over: it can't be continued. void: nothing in it is valid.
        more: rounds until a decision, as forecast; None: unforeseeable, or decided.
    """

    cell: str
    race: str
    strip: str
    rounds: int
    decided: bool
    over: bool
    void: bool
    more: int | None


class Ledger:
    """An open ledger.

    Args:
        folder: the lab's. write: False: it is only read, and must exist.

    Raises:
        StoreError: it can't be opened, or is another program's. StoreFull: no disk space is left.
    """

    def __init__(self, folder: Path, *, write: bool = True) -> None:
        self.path = folder / FILE_NAME
        if not write and not self.path.is_file():
            raise StoreError(f"{self.path} does not exist; `dragstrip lab run` creates it")
        refuse_network(self.path, "the ledger", "give a --folder")
        try:
            self._db = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
            (application,) = self._db.execute("PRAGMA application_id").fetchone()
            if application not in (0, _APPLICATION):
                raise StoreError(f"{self.path} is another program's database; give another --folder")
            if write:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = FULL")
                self._db.executescript(_TABLES)
                self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
        except sqlite3.Error as error:
            raise self._refused(error, "opened") from error

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def plan(self, cells: Sequence[CellRow]) -> None:
        """Enters cells; those that the matrix no longer has stay, but are not planned any more."""
        with self._transaction():
            self._db.execute("UPDATE cell SET planned = 0")
            for cell in cells:
                values = (
                    *(cell.name, cell.line_up, cell.workload, cell.load, cell.revision, cell.machine),
                    *(cell.weight, cell.place, cell.why),
                )
                self._db.execute(
                    "INSERT INTO cell (name, line_up, workload, load, revision, machine, weight, place, why, planned)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT (name) DO UPDATE SET"
                    " line_up = excluded.line_up,"
                    " workload = excluded.workload, load = excluded.load, revision = excluded.revision,"
                    " machine = excluded.machine, weight = excluded.weight, place = excluded.place,"
                    " why = excluded.why, planned = 1",
                    values,
                )

    def cells(self) -> list[CellRow]:
        """Planned cells, in the matrix's order."""
        names = "name, line_up, workload, load, revision, machine, weight, place, why, dropped, retried"
        rows = self._rows(f"SELECT {names} FROM cell WHERE planned ORDER BY place")
        return [CellRow(**dict(zip(names.split(", "), row, strict=True))) for row in rows]

    def attempts(self) -> list[Attempt]:
        """All attempts, oldest first."""
        names = "cell, n, strip, rounds, begun, ended, outcome, why"
        rows = self._rows(f"SELECT {names} FROM attempt ORDER BY begun, n")
        return [Attempt(**dict(zip(names.split(", "), row, strict=True))) for row in rows]

    def stored(self) -> dict[str, Stored]:
        """The stored race of each cell."""
        rows = self._rows("SELECT cell, race, strip, rounds, more, decided, over, void FROM stored")
        return {
            row[0]: Stored(
                cell=row[0], race=row[1], strip=row[2], rounds=row[3], more=row[4], decided=bool(row[5]),
                over=bool(row[6]), void=bool(row[7]),
            )
            for row in rows
        }  # fmt: skip

    def refusals(self) -> list[tuple[str, str, str]]:
        """Records that were refused: cell, strip and reason."""
        return [(str(a), str(b), str(c)) for a, b, c in self._rows("SELECT cell, strip, why FROM refused")]

    def begin(self, cell: str, strip: str, rounds: int) -> Attempt:
        """Notes an attempt; it is on the disk when this returns."""
        with self._transaction():
            (last,) = self._db.execute("SELECT coalesce(max(n), 0) FROM attempt WHERE cell = ?", (cell,)).fetchone()
            made = Attempt(cell=cell, n=last + 1, strip=strip, rounds=rounds, begun=time.time())
            self._db.execute(
                "INSERT INTO attempt (cell, n, strip, rounds, begun) VALUES (?, ?, ?, ?, ?)",
                (made.cell, made.n, made.strip, made.rounds, made.begun),
            )
        return made

    def digests(self) -> dict[str, str]:
        """The digest of each stored race, by cell, where it is of the race's last round."""
        rows = self._rows("SELECT cell, text FROM digest JOIN stored USING (cell, race, rounds)")
        return {str(cell): str(text) for cell, text in rows}

    def end(
        self,
        attempt: Attempt,
        kind: TaskEnding,
        why: str = "",
        stored: Stored | None = None,
        digest: str = "",
        most_s: float = math.inf,
        took_s: float | None = None,
    ) -> None:
        """Notes an attempt's end, and the cell's race with it.

        Args:
            digest: what reports show of the race, so that they need not read it; "" without one.
            most_s: the machine time that it can have taken; it may have ended while no client ran.
            took_s: the time that it took, if it is known without the wall clock, which may be set.

        Raises:
            StoreError: the cell has another race already.
        """
        passed_s = max(time.time() - attempt.begun, 0.0) if took_s is None else took_s
        with self._transaction():
            self._db.execute(
                "UPDATE attempt SET outcome = ?, why = ?, ended = ? WHERE cell = ? AND n = ?",
                (str(kind), why[:2000], attempt.begun + min(passed_s, most_s), attempt.cell, attempt.n),
            )
            if stored is not None:
                self._store(stored)
                if digest:
                    of = (stored.cell, stored.race, stored.rounds, digest)
                    self._db.execute("INSERT OR REPLACE INTO digest VALUES (?, ?, ?, ?)", of)

    def _store(self, stored: Stored) -> None:
        known = self._db.execute("SELECT race, void FROM stored WHERE cell = ?", (stored.cell,)).fetchone()
        if known and known[0] != stored.race and not known[1]:
            raise StoreError(f"cell {stored.cell} already has race {known[0]}; race {stored.race} is left aside")
        self._db.execute("DELETE FROM stored WHERE cell = ?", (stored.cell,))
        self._db.execute(
            "INSERT INTO stored VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(stored.cell, stored.race, stored.strip, stored.rounds),
                *(int(stored.decided), int(stored.over), int(stored.void), stored.more),
            ),
        )

    def refuse(self, cell: str, strip: str, why: str) -> None:
        """Notes a record that was refused."""
        with self._transaction():
            self._db.execute("INSERT INTO refused VALUES (?, ?, ?, ?)", (time.time(), cell, strip, why[:2000]))

    def drop(self, cell: str) -> None:
        """Gives a cell up."""
        with self._transaction():
            self._db.execute("UPDATE cell SET dropped = 1 WHERE name = ?", (cell,))

    def retry(self, cell: str) -> None:
        """Tries a cell again: its attempts so far count no more."""
        with self._transaction():
            self._db.execute(
                "UPDATE cell SET dropped = 0,"
                " retried = (SELECT coalesce(max(n), 0) FROM attempt WHERE attempt.cell = cell.name) WHERE name = ?",
                (cell,),
            )

    def resolve(self, prefix: str) -> str:
        """The cell that a name or its beginning means.

        Raises:
            BadUsage: none or several do.
        """
        matching = [cell.name for cell in self.cells() if prefix and cell.name.startswith(prefix)]
        if len(matching) != 1:
            how = "unknown" if not matching else "ambiguous"
            raise BadUsage(f"cell {prefix!r} is {how}; `dragstrip lab status --cells` lists all")
        return matching[0]

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query).fetchall()
        except sqlite3.Error as error:
            raise self._refused(error, "read") from error

    def _refused(self, error: sqlite3.Error, how: str) -> StoreError:
        what = f"{self.path} can't be {how}"
        full = refused(error, what, BUSY_S, self.path)
        return full if isinstance(full, StoreFull) else StoreError(f"{what} ({error}); give another --folder")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):  # SQLite has done it itself if its disk is full
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise self._refused(error, "written") from error
            raise


@contextmanager
def only_client(folder: Path) -> Iterator[None]:
    """Keeps the lab for this client while the block lasts.

    Raises:
        BadUsage: another client has it.
    """
    number = os.open(folder / "client.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadUsage(
                f"another `dragstrip lab run` has {folder}; wait for it, or end it by Ctrl-C there"
            ) from None
        yield
    finally:
        os.close(number)
