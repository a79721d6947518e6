"""Folders in the cache that are made once, kept, listed, and removed when others came.

Each has a note next to its content, which is written last: a folder without one is unfinished. Its lock is held shared
while it is used, and exclusively while it is made or removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def locked(place: Path) -> Iterator[int]:
    """The lock of a kept folder; the descriptor is still unlocked."""
    place.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(place.with_name(f"{place.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield lock
    finally:
        os.close(lock)


def last_used(place: Path, note: str) -> float:
    """When a folder was last used, in seconds since 1970; 0 if it is unfinished.

    Args:
        note: the name of its note, whose time is set at each use.
    """
    file = place / note
    return file.stat().st_mtime if file.is_file() else 0.0


def remove_old(parent: Path, note: str, most: int, remove: Callable[[Path], None] = shutil.rmtree) -> int:
    """Removes folders beyond ``most`` that no process uses, and what interrupted processes left; returns how many.

    The folder that was used longest ago is removed first.

    Args:
        remove: removes one folder's content.
    """
    listed = sorted(parent.glob("*/"), key=lambda place: -last_used(place, note))
    removed = 0
    for place in listed[most:] + [place for place in listed[:most] if not (place / note).is_file()]:
        with suppress(BlockingIOError), locked(place) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (place / note).unlink(missing_ok=True)
            remove(place)
            shutil.rmtree(place, ignore_errors=True)
            removed += 1
    return removed


def content_of(folder: Path) -> tuple[int, int]:
    """Files below a folder, folders and links included, and the bytes of all files."""
    files = size = 0
    for at, folders, names in os.walk(folder):
        files += len(folders) + len(names)
        size += sum(os.lstat(f"{at}/{name}").st_size for name in names)
    return files, size
