"""A server's output: its last lines, for messages."""

from __future__ import annotations

import re
from pathlib import Path


def tail(log: Path) -> str:
    """The log's last 16 KiB as text."""
    try:
        return log.read_bytes()[-(1 << 14) :].decode("utf-8", "replace")
    except OSError:
        return ""


def without_repeats(text: str) -> str:
    """Lines of a log, of those in a row that differ in their digits only (an access log's) the last, and how many."""
    kept: list[tuple[str, str, int]] = []
    for line in text.splitlines():
        like = re.sub(r"\d+", "0", line)
        count = kept.pop()[2] if kept and kept[-1][0] == like else 0
        kept.append((like, line, count + 1))
    return "\n".join(f"{line} ({count} lines like it)" if count > 1 else line for _, line, count in kept)
