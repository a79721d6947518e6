"""The store's tables: how a store is recognised, and how one of an older schema is brought up to date.

``store.sql`` has the tables of a new store. A store of an older schema is migrated in one transaction when it is
opened, by ``migrate-N.sql`` for each N above its own version. ``store-2.sql`` has the oldest tables that are read.
Schema 1 was written for two hours, before any release.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

from dragstrip.errors import StoreError
from dragstrip.store.messages import ELSEWHERE

#: "DRAG": distinguishes stores from other programs' databases.
APPLICATION_ID = 0x44524147

#: ``PRAGMA user_version`` of the files that this Dragstrip writes, and the oldest that it reads.
SCHEMA_VERSION, OLDEST_SCHEMA = 6, 2

#: The first SQLite with STRICT tables.
OLDEST_SQLITE = (3, 37, 0)

#: Where SQLite's file header, the first 100 bytes, has both numbers.
_USER_VERSION, _APPLICATION_ID = slice(60, 64), slice(68, 72)


def refuse_other_versions(file: Path, path: Path) -> None:
    """Refuses a store of a schema that can't be read, by its header alone: SQLite would write files next to it.

    Args:
        file: the file that is read; path: its name in messages.

    Raises:
        StoreError: a newer Dragstrip wrote the file, or one before any release; or Python's SQLite is too old.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE[:2]))
        raise StoreError(
            f"store {path}: Python's SQLite is {sqlite3.sqlite_version}, and stores need {needed} or later; "
            "run Dragstrip with a Python that has it"
        )
    head = b""
    if file.exists() and not file.is_file():
        return  # opening a pipe would wait for a writer; the store refuses it later
    with suppress(OSError, ValueError), file.open("rb") as opened:  # SQLite reports a file that can't be read
        head = opened.read(100)
    version = int.from_bytes(head[_USER_VERSION])
    ours = int.from_bytes(head[_APPLICATION_ID]) == APPLICATION_ID
    if ours and not OLDEST_SCHEMA <= version <= SCHEMA_VERSION:
        by = _written_by(file)
        raise StoreError(
            f"{path} has store schema {version}, this Dragstrip reads schemas {OLDEST_SCHEMA} to {SCHEMA_VERSION}; "
            f"use the Dragstrip that wrote it{f' ({by})' if by else ''}, or {ELSEWHERE}"
        )


def _written_by(file: Path) -> str:
    """The version of Dragstrip that ran a store's newest race, read without changing any file; "" if unknown."""
    uri = f"{file.absolute().as_uri()}?immutable=1"
    newest = "SELECT software FROM race ORDER BY rowid DESC LIMIT 1"
    with suppress(sqlite3.Error, ValueError), closing(sqlite3.connect(uri, uri=True)) as db:
        (software,) = db.execute(newest).fetchone() or ("",)
        return f"version {software:.40}" if isinstance(software, str) and software else ""
    return ""


def create(db: sqlite3.Connection, path: Path) -> None:
    """Creates the tables in an empty file, or migrates a store of an older schema, in one transaction.

    Raises:
        StoreError: the file is another program's.
    """
    if _is_ours(db, path) and version_of(db) == SCHEMA_VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # Checked again under the lock: another process may have been faster.
        new = not _is_ours(db, path)
        for name in ["store.sql"] if new else _migrations(version_of(db)):
            for statement in _statements(name):
                db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.execute("COMMIT")
    except BaseException:
        roll_back(db)
        raise


def version_of(db: sqlite3.Connection) -> int:
    """The schema version of a file; 0 if it is empty."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(version)


def _migrations(version: int) -> list[str]:
    """Names of the files that bring a store of this schema version up to date, in order."""
    return [f"migrate-{number}.sql" for number in range(version + 1, SCHEMA_VERSION + 1)]


def _is_ours(db: sqlite3.Connection, path: Path) -> bool:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and (tables or version_of(db)):
        raise StoreError(f"{path} is another program's database, not a Dragstrip store; {ELSEWHERE}")
    return bool(tables)


def roll_back(db: sqlite3.Connection) -> None:
    """Undoes an open transaction; if the disk was full, SQLite has done so, and a second rollback would hide that."""
    if db.in_transaction:
        db.execute("ROLLBACK")


@cache
def _statements(name: str) -> tuple[str, ...]:
    """The statements of a file of the schema, one by one: ``executescript`` would commit between them."""
    path, held, whole = Path(__file__).parents[1] / "data" / "schema" / name, "", []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        held += line
        if sqlite3.complete_statement(held):
            whole.append(held)
            held = ""
    return tuple(whole)


@cache
def made_by_us(version: int) -> frozenset[tuple[str, str, str]]:
    """Every table, index and trigger of a schema version, as SQLite keeps them."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for name in [f"store-{OLDEST_SCHEMA}.sql", *_migrations(OLDEST_SCHEMA)[: version - OLDEST_SCHEMA]]:
            for statement in _statements(name):
                db.execute(statement)
        return frozenset(_objects(db))


def _objects(db: sqlite3.Connection) -> Iterator[tuple[str, str, str]]:
    for kind, name, sql in db.execute("SELECT type, name, sql FROM sqlite_master"):
        if sql is not None and not str(name).startswith("sqlite_"):
            yield str(kind), str(name), " ".join(str(sql).split())


def refuse_foreign(db: sqlite3.Connection, path: Path, ours: Sequence[str]) -> None:
    """Refuses a file with a view, trigger or table that Dragstrip did not make: reading one may run anything of SQL.

    Args:
        ours: tables that belong to the file in addition to a store's tables.

    Raises:
        StoreError: names the first of them.
    """
    version = version_of(db)
    for kind, name, sql in _objects(db):
        if (kind, name, sql) not in made_by_us(version) and not (kind == "table" and sql in ours):
            raise StoreError(
                f"import of {path}: it has a {kind} {name!r} that Dragstrip did not make; have the race exported again"
            )
