"""Reads the small text files of the kernel; the result is None if a file cannot be read."""

from __future__ import annotations

from pathlib import Path

#: The kernel's folders with the processor's cores, and with processes.
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
    """The value of the first ``key: value`` in a file like /proc/cpuinfo."""
    for line in (read(path) or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None
