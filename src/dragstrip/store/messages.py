"""What the store says when it can't: each with what would do."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

ELSEWHERE = "name another with --store or DRAGSTRIP_STORE"
AGAIN = "export it again where it was run"


def in_words(error: sqlite3.Error, busy_s: float) -> str:
    """SQLite's error in our words, with what would do; ``busy_s``: how long another writer was waited for."""
    said, code = str(error), getattr(error, "sqlite_errorcode", None)
    told = {
        sqlite3.SQLITE_NOTADB: f"it is not a database; {ELSEWHERE}",
        sqlite3.SQLITE_CORRUPT: (
            f"it is damaged ({said}); `sqlite3 FILE .recover` may save what is left, and {ELSEWHERE} meanwhile"
        ),
        sqlite3.SQLITE_FULL: f"the disk is full ({said}); make room, then go on with `dragstrip race --resume`",
    }
    locked = f"another process has kept it locked for {busy_s:g} s; wait for it to end, or {ELSEWHERE}"
    told |= dict.fromkeys((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED), locked)
    no_place = f"this user can't write there ({said}); {ELSEWHERE}"
    told |= dict.fromkeys((sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM), no_place)
    # Python's own refusals have no code; an extended code holds the plain one in its lowest byte.
    return said if code is None else told.get(code & 0xFF, said)


def few(ids: Sequence[str]) -> str:
    """The first three of some ids."""
    return ", ".join(ids[:3]) + (" …" if len(ids) > 3 else "")
