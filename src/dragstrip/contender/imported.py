"""Definitions of imported entries: where they are kept, and how the command line names them (``tfb:NAME``)."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

from dragstrip.contender.fields import FILE_NAME, NAME, SUITES
from dragstrip.errors import BadUsage
from dragstrip.paths import is_file


def folder() -> Path:
    """The folder of all imported definitions: dragstrip/imported below $XDG_DATA_HOME (~/.local/share)."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "dragstrip" / "imported"


def place_of(name: str) -> Path:
    """The file of an entry's definition, which may be missing."""
    suite, _, rest = name.partition(":")
    return folder() / suite / rest / FILE_NAME


def names() -> list[str]:
    """The names of all imported entries."""
    files = (file for suite in SUITES for file in folder().glob(f"{suite}/*/{FILE_NAME}"))
    return sorted(f"{file.parent.parent.name}:{file.parent.name}" for file in files)


def definition(name: str) -> Path:
    """The file of an entry's definition.

    Raises:
        BadUsage: it is not imported; the message has the nearest names.
    """
    if NAME.fullmatch(name) and is_file(place_of(name)):
        return place_of(name)
    known = names()
    close = get_close_matches(name, known, n=3)
    if close:
        raise BadUsage(f"{name} is not imported; did you mean {' or '.join(close)}?")
    raise BadUsage(
        f"{name} is not imported; `dragstrip import FOLDER` imports it from a checkout of its suite"
        + (f" ({len(known)} entries are imported)" if known else "")
    )
