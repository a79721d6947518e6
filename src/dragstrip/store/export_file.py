"""One race in a file of its own: written with a seal, and checked before it is taken in."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dragstrip.errors import StoreError
from dragstrip.store.messages import AGAIN
from dragstrip.store.schema import migrate, roll_back, version_of

TABLES = ("race", "contender", "round", "launch", "block", "event")

#: An export holds one race; the longest that were seen take some 30 MB.
MOST_BYTES = 2 * 2**30


@contextmanager
def attached(db: sqlite3.Connection, path: Path, name: str) -> Iterator[None]:
    """Another file's tables under a name, for as long as the block lasts."""
    db.execute(f"ATTACH DATABASE ? AS {name}", (str(path),))
    try:
        yield
    finally:
        db.execute(f"DETACH DATABASE {name}")


def copy_race(db: sqlite3.Connection, race_id: str, source: str, target: str) -> None:
    """Copies a race's rows between two attached stores of the same version; events get new numbers."""
    for table in TABLES:
        names = [row[1] for row in db.execute(f"PRAGMA {source}.table_info({table})")]
        columns = ", ".join(f'"{name}"' for name in names if (table, name) != ("event", "id"))
        key = "id" if table == "race" else "race"
        db.execute(
            f"INSERT INTO {target}.{table} ({columns})"
            f" SELECT {columns} FROM {source}.{table} WHERE {key} = ? ORDER BY rowid",
            (race_id,),
        )


def write_export(db: sqlite3.Connection, race_id: str, path: Path) -> None:
    """Writes one race, and the seal over it, into a new file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        migrate(made, path)
    with attached(db, path, "outgoing"):
        db.execute("BEGIN")
        try:
            copy_race(db, race_id, "main", "outgoing")
            db.execute("COMMIT")
        except BaseException:
            roll_back(db)
            raise
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        # SQLite's own check sees broken pages, not a changed digit: hence a seal over the contents.
        made.execute("CREATE TABLE seal (race TEXT NOT NULL, sha256 TEXT NOT NULL)")
        made.execute("INSERT INTO seal VALUES (?, ?)", (race_id, _digest(made, race_id)))


def _digest(db: sqlite3.Connection, race_id: str) -> str:
    total = hashlib.sha256()
    for table in TABLES:
        key = "id" if table == "race" else "race"
        for row in db.execute(f"SELECT * FROM {table} WHERE {key} = ? ORDER BY rowid", (race_id,)):
            total.update(repr(row).encode())
    return total.hexdigest()


def checked_export(copy: Path, path: Path) -> str:
    """The id of the race in an export, after every check; brings the copy to the present schema version."""
    try:
        with closing(sqlite3.connect(copy, isolation_level=None)) as db:
            version_of(db, path)
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'seal'").fetchone():
                raise StoreError(f"import of {path}: it is not one exported race; `dragstrip export` makes one")
            (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
            (race_id, sealed), *more = db.execute("SELECT race, sha256 FROM seal").fetchall()
            if found != "ok" or more or _digest(db, race_id) != sealed:
                raise StoreError(f"import of {path}: it is damaged (its contents don't match its seal); {AGAIN}")
            migrate(db, path)
            return str(race_id)
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise StoreError(f"import of {path}: it is damaged or no exported race ({error}); {AGAIN}") from error
