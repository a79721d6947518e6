"""The store's tables, step by step: what a file must be to be ours, and what brings it up to date."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from dragstrip.errors import StoreError
from dragstrip.store.messages import ELSEWHERE

#: "DRAG": tells our files from other programs' databases.
APPLICATION_ID = 0x44524147

#: Step n takes a store from version n - 1 to n; steps are only ever added.
MIGRATIONS = tuple(f"store_{step}.sql" for step in range(1, 15))


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Brings a store up to date, step by step; each step is one transaction.

    Raises:
        StoreError: the file is another program's, or newer than this Dragstrip.
    """
    newest = len(MIGRATIONS)
    while version_of(db, path) < newest:
        db.execute("BEGIN IMMEDIATE")
        try:
            # Asked again under the lock: another process may have been quicker.
            version = version_of(db, path)
            if version < newest:
                for statement in _statements(MIGRATIONS[version]):
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {version + 1}")
            db.execute("COMMIT")
        except BaseException:
            roll_back(db)
            raise


def roll_back(db: sqlite3.Connection) -> None:
    """Undoes what was begun; SQLite has done so itself where the disk was full, and would hide that by an error."""
    if db.in_transaction:
        db.execute("ROLLBACK")


def _statements(name: str) -> Iterator[str]:
    """The statements of a step's file, one by one: ``executescript`` would commit between them."""
    held = ""
    for line in (
        (Path(__file__).parents[1] / "data" / "schema" / name).read_text(encoding="utf-8").splitlines(keepends=True)
    ):
        held += line
        if sqlite3.complete_statement(held):
            yield held
            held = ""


@lru_cache(maxsize=2)
def _made_by_us(version: int) -> frozenset[tuple[str, str, str]]:
    """Every table and trigger of a schema version, as SQLite keeps them."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for step in MIGRATIONS[:version]:
            for statement in _statements(step):
                db.execute(statement)
        return frozenset(_objects(db))


def _objects(db: sqlite3.Connection) -> Iterator[tuple[str, str, str]]:
    for kind, name, sql in db.execute("SELECT type, name, sql FROM sqlite_master"):
        if sql is not None and not str(name).startswith("sqlite_"):
            yield str(kind), str(name), " ".join(str(sql).split())


def refuse_foreign(db: sqlite3.Connection, path: Path, ours: Sequence[str]) -> None:
    """Refuses a file with a view, trigger or table that Dragstrip did not make: reading one may run anything of SQL.

    Args:
        ours: tables that belong to the file beside those of a store.

    Raises:
        StoreError: names the first of them.
    """
    known = _made_by_us(version_of(db, path))
    for kind, name, sql in _objects(db):
        if (kind, name, sql) not in known and not (kind == "table" and sql in ours):
            raise StoreError(
                f"import of {path}: it has a {kind} {name!r} that Dragstrip did not make; have the race exported again"
            )


def version_of(db: sqlite3.Connection, path: Path) -> int:
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
