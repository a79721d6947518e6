"""The store's error messages; each says what to do."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from dragstrip.errors import StoreError, StoreFull

ELSEWHERE = "name another with --store or DRAGSTRIP_STORE"
AGAIN = "export it again where it was run"

#: A STRICT column's types in words.
TYPES = {"INTEGER": "a whole number", "REAL": "a number", "TEXT": "text", "BLOB": "bytes"}

#: How SQLite words a value of another type, when it is written and in its integrity check.
_OTHER_TYPE = (
    re.compile(r"cannot store \w+ value in (?P<kind>\w+) column (?P<column>[\w.]+)"),
    re.compile(r"non-(?P<kind>\w+) value in (?P<column>[\w.]+)"),
)


def refused(error: sqlite3.Error, what: str, busy_s: float, path: Path | None = None) -> StoreError:
    """SQLite's error as a refusal that begins with ``what``.

    Args:
        busy_s: how long Dragstrip waited for another writer.
        path: the database, because SQLite does not always report that its disk is full.
    """
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    full = code == sqlite3.SQLITE_FULL or (
        code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and path is not None and _no_space(path)
    )
    if full:
        return StoreFull(
            f"{what}: no disk space left ({error}); free some, then continue with `dragstrip race --resume last`, "
            "or a lab with the same command. Everything stored so far is kept"
        )
    return StoreError(f"{what}: {_in_words(error, busy_s)}")


def _no_space(path: Path) -> bool:
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail == 0 or (disk.f_files > 0 and disk.f_favail == 0)


def _in_words(error: sqlite3.Error, busy_s: float) -> str:
    """SQLite's error in plain words, with what to do."""
    text, code = constraint_in_words(str(error)), getattr(error, "sqlite_errorcode", None)
    sentences = {
        sqlite3.SQLITE_NOTADB: f"it is not a database; {ELSEWHERE}",
        sqlite3.SQLITE_CORRUPT: (
            f"it is damaged ({text}); `sqlite3 FILE .recover` may save what is left, and {ELSEWHERE} meanwhile"
        ),
    }
    locked = f"another process has kept it locked for {busy_s:g} s; wait for it to end, or {ELSEWHERE}"
    sentences |= dict.fromkeys((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED), locked)
    no_place = f"this user can't write there ({text}); {ELSEWHERE}"
    sentences |= dict.fromkeys((sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM), no_place)
    # Python's own refusals have no code; an extended code has the plain code in its lowest byte.
    return text if code is None else sentences.get(code & 0xFF, text)


def constraint_in_words(text: str) -> str:
    """The schema's refusal, with table and column; a CHECK's name is its sentence. Other texts stay unchanged."""
    for pattern in _OTHER_TYPE:
        if match := pattern.search(text):
            return f"{match['column']} must be {TYPES[match['kind']]}"
    return text.removeprefix("CHECK constraint failed: ")


def few(ids: Sequence[str]) -> str:
    """The first three of some ids."""
    return ", ".join(ids[:3]) + (" …" if len(ids) > 3 else "")
