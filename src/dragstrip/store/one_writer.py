"""One process at a time adds rounds to a race; any may read it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dragstrip.errors import BadUsage


@contextmanager
def writing(store: Path, race_id: str) -> Iterator[None]:
    """Keeps a race of a store for this process (flock(2) on a file beside the store), until left or until it ends.

    Raises:
        BadUsage: another process is at it.
        OSError: no file can be made beside the store.
    """
    place = store.with_name(f"{store.name}.{race_id}.lock")
    with place.open("w") as file:
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
            # Only the file that is locked: where another process has put one of its own there, it stays.
            with suppress(OSError):
                if os.path.samestat(place.stat(), os.fstat(file.fileno())):
                    place.unlink()
