"""Races of a benchmark as lines of JSON, each on the disk as soon as it has ended.

A line has the method and the release that it was raced by, and counts while both are today's, like a page's evidence.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from stamps import METHOD_VERSION, RELEASE

TODAY = {"method": METHOD_VERSION, "release": RELEASE}


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of today's method and release; a line that was cut off is skipped."""
    lines = []
    for text in path.read_text("utf-8").splitlines() if path.exists() else []:
        with contextlib.suppress(ValueError):
            lines.append(json.loads(text))
    return [line for line in lines if TODAY.items() <= line.items()]


def append(path: Path, line: dict[str, Any]) -> dict[str, Any]:
    """Adds a line with today's versions, and gives it back. What was cut off before stays a line of its own."""
    line = line | TODAY
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
