"""Reads the small text files of the kernel; what cannot be read is None."""

from __future__ import annotations

from pathlib import Path

#: Where the kernel describes the processor's cores, and processes.
CPU = Path("/sys/devices/system/cpu")
PROC = Path("/proc")


def read(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def number(path: Path) -> int | None:
    text = read(path)
    return int(text) if text else None


def field(path: Path, key: str) -> str | None:
    """The first ``key: value`` of a file such as /proc/cpuinfo."""
    for line in (read(path) or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None
