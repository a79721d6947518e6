"""wrk's Lua scripts, ``load -s script.lua``, as plain values: what is asked for, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragstrip.loading.request_pool import bounded

#: No script is longer; one that wants much data reads it from a file.
MOST_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptAsked:
    """A script as the command line names it.

    Args:
        name: the file's, as messages have it.
        source: its text.
        args: what stands behind ``--``, for ``init``.
    """

    name: str
    source: bytes
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptReport:
    """What came of a script.

    Args:
        name: the file's.
        hooks: of request, delay and response those that it has.
        fixed: its requests are proved to be always the same ones, and were made before the load.
        before, during, after: what it printed: until the load began, under load, and in ``done``.
        fault: why ``done`` failed, with file and line; "" where it did not.
    """

    name: str
    hooks: tuple[str, ...]
    fixed: bool
    before: str = ""
    during: str = ""
    after: str = ""
    fault: str = ""


def read_script(file: Path, args: Sequence[str]) -> ScriptAsked:
    """A script's file.

    Raises:
        BadUsage: it can't be read.
    """
    return ScriptAsked(name=str(file), source=bounded(file, f"-s {file}", MOST_BYTES), args=tuple(args))
