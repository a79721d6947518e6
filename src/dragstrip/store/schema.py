"""The store's tables, step by step: what a file must be to be ours, and what brings it up to date."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
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
