"""Races of a benchmark as lines of JSON, each on the disk as soon as it has ended.

A line has the ``state`` of the measuring code that it was raced by, and is read only while the code still has it.
``folders`` are other code that it rests on instead.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from measuring_code import FOLDERS, state


def read(path: Path, folders: tuple[str, ...] = FOLDERS) -> list[dict[str, Any]]:
    """The lines of today's measuring code, without their state; a line that was cut off is skipped."""
    lines = []
    for text in path.read_text("utf-8").splitlines() if path.exists() else []:
        with contextlib.suppress(ValueError):
            lines.append(json.loads(text))
    return [line for line in lines if line.pop("state", None) == state(folders)]


def append(path: Path, line: dict[str, Any], folders: tuple[str, ...] = FOLDERS) -> dict[str, Any]:
    """Adds a line with today's state, and gives it back. What was cut off before stays a line of its own."""
    line = line | {"state": state(folders)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        file.seek(0, os.SEEK_END)
        if file.tell():
            file.seek(-1, os.SEEK_END)
            torn = file.read(1) != b"\n"
            file.write(b"\n" if torn else b"")
        file.write(json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return line
