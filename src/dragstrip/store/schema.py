"""The store's tables: how a store is recognised, and which schema versions this Dragstrip reads."""

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

#: ``PRAGMA user_version`` of the files that this Dragstrip writes and reads.
SCHEMA_VERSION = 4

#: The first SQLite with STRICT tables.
OLDEST_SQLITE = (3, 37, 0)

#: Where SQLite's file header, the first 100 bytes, has both numbers.
_USER_VERSION, _APPLICATION_ID = slice(60, 64), slice(68, 72)


def refuse_other_versions(file: Path, path: Path) -> None:
    """Refuses a store of another schema by its header alone, because SQLite would write files next to it.

    Args:
        file: the file that is read; path: its name in messages.

    Raises:
        StoreError: the file is a store of another schema version, or Python's SQLite is too old for stores.
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
    if int.from_bytes(head[_APPLICATION_ID]) == APPLICATION_ID and version != SCHEMA_VERSION:
        by = _written_by(file)
        raise StoreError(
            f"{path} has store schema {version}, this Dragstrip reads schema {SCHEMA_VERSION}; "
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
    """Creates the tables in an empty file, in one transaction; a store stays unchanged.

    Raises:
        StoreError: the file is another program's.
    """
    if _is_ours(db, path):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        if not _is_ours(db, path):  # checked again under the lock: another process may have been faster
            for statement in _statements():
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.execute("COMMIT")
    except BaseException:
        roll_back(db)
        raise


def _is_ours(db: sqlite3.Connection, path: Path) -> bool:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and (tables or version):
        raise StoreError(f"{path} is another program's database, not a Dragstrip store; {ELSEWHERE}")
    return bool(tables)


def roll_back(db: sqlite3.Connection) -> None:
    """Undoes an open transaction; if the disk was full, SQLite has done so, and a second rollback would hide that."""
    if db.in_transaction:
        db.execute("ROLLBACK")


@cache
def _statements() -> tuple[str, ...]:
    """The statements of the schema, one by one: ``executescript`` would commit between them."""
    path, held, whole = Path(__file__).parents[1] / "data" / "schema" / "store.sql", "", []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        held += line
        if sqlite3.complete_statement(held):
            whole.append(held)
            held = ""
    return tuple(whole)


@cache
def _made_by_us() -> frozenset[tuple[str, str, str]]:
    """Every table, index and trigger of the schema, as SQLite keeps them."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for statement in _statements():
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
    for kind, name, sql in _objects(db):
        if (kind, name, sql) not in _made_by_us() and not (kind == "table" and sql in ours):
            raise StoreError(
                f"import of {path}: it has a {kind} {name!r} that Dragstrip did not make; have the race exported again"
            )
