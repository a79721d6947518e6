"""Whether a word is a file: a question that any word may be asked, without a failure."""

from __future__ import annotations

from pathlib import Path


def is_file(path: Path) -> bool:
    """Whether there is a file of that name; False for what no path can be (too long, a NUL in it)."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
