"""A key of what a contender really is: its definition, its parameters, and the bytes of its programs.

Two contenders with one key do the same work on machines of one kind. A definition's hash is not enough: it does not
cover the programs that the machine has installed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from dragstrip.contender.discovery import Ready
from dragstrip.contender.entries import Entry
from dragstrip.paths import is_file


def content_key(entry: Entry, ready: Ready) -> str:
    """SHA-256 over a contender's definition, parameters, version and programs.

    Args:
        ready: what ``check`` found of it on this machine.

    Raises:
        OSError: a program can't be read.
    """
    parts = [
        entry.kind,
        entry.definition_hash,
        json.dumps(dict(entry.parameters), sort_keys=True, default=str),
        ready.version,
        *sorted(f"{name}={_digest(place)}" for name, place in ready.programs.items()),
        *map(_digest, _named_files(entry)),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _named_files(entry: Entry) -> Iterator[Path]:
    """The program of an ad hoc command, and each file that its arguments name."""
    folder = entry.folder or Path()
    for at, word in enumerate(entry.command):
        place = folder / word
        if at == 0 and "/" not in word:
            place = Path(shutil.which(word) or place)
        if is_file(place):
            yield place


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
