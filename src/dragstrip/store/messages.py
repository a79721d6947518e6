"""What the store says when it can't: each with what would do."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

ELSEWHERE = "name another with --store or DRAGSTRIP_STORE"
AGAIN = "export it again where it was run"


def in_words(error: sqlite3.Error, busy_s: float) -> str:
    """SQLite's words in ours, with what would do; ``busy_s``: how long another writer was waited for."""
    said = str(error)
    if "not a database" in said:
        return f"it is not a database; {ELSEWHERE}"
    if "malformed" in said:
        return f"it is damaged ({said}); `sqlite3 FILE .recover` may save what is left, and {ELSEWHERE} meanwhile"
    if "locked" in said or "busy" in said:
        return f"another process has kept it locked for {busy_s:g} s; wait for it to end, or {ELSEWHERE}"
    if "unable to open" in said or "readonly" in said:
        return f"this user can't write there ({said}); {ELSEWHERE}"
    if "full" in said:
        return f"the disk is full ({said}); make room, then go on with `dragstrip race --resume`"
    return said


def few(ids: Sequence[str]) -> str:
    """The first three of some ids."""
    return ", ".join(ids[:3]) + (" …" if len(ids) > 3 else "")
