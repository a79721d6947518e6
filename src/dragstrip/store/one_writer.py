"""One process at a time adds rounds to a race; any may read it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dragstrip import paths
from dragstrip.errors import BadUsage
from dragstrip.store.messages import ELSEWHERE


@contextmanager
def writing(store: Path, race_id: str) -> Iterator[None]:
    """Keeps a race of a store for this process while the block lasts (flock(2) on a file next to the store).

    Raises:
        BadUsage: another process has it, or no file can be created next to the store.
    """
    place = store.with_name(f"{store.name}.{race_id}.lock")
    with paths.failing(f"{place}: can't be created", ELSEWHERE):
        number = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    with os.fdopen(number, "r+b", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadUsage(
                f"race {race_id} is being raced by another process; wait until it has ended, or end it by Ctrl-C "
                "there, then resume it"
            ) from None
        try:
            yield
        finally:
            # Removes only the locked file: if another process has put its own file there, that stays.
            with suppress(OSError):
                if os.path.samestat(place.stat(), os.fstat(file.fileno())):
                    place.unlink()
