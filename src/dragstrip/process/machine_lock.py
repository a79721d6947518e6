"""One exclusive race at a time on a core of this machine, whatever started it: by flock(2) on a file for each core.

The kernel releases a lock when its process ends, by whatever signal. Locks are for races that ask for them: they
keep the races of a lab apart, also races whose starter is gone. The folder belongs to the machine, so containers with
a ``/run/lock`` of their own don't see each other's locks.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dragstrip.errors import BadUsage

#: Folders for the locks of a machine; the first that can be written is used.
FOLDERS = (Path("/run/lock"), Path("/tmp"))

#: Seconds between two looks while another race has a lock; each is one system call.
LOOK_S = 0.2


@contextmanager
def held(names: Iterable[str], say: Callable[[str], None], folders: Sequence[Path] = FOLDERS) -> Iterator[None]:
    """Holds locks while the block lasts; waits until all are free.

    Args:
        names: what is locked, like ``core-1``. say: shows a line if it has to wait.
        folders: where the locks may be.

    Raises:
        BadUsage: no lock can be created.
    """
    with ExitStack() as opened:
        for name in sorted(set(names)):  # in this order for all, so that no two races wait for each other
            number = _open(f"dragstrip-{name}.lock", folders)
            opened.callback(os.close, number)
            _lock(number, name, say)
        yield


def of_cores(cores: Iterable[int]) -> tuple[str, ...]:
    """The names of cores' locks."""
    return tuple(f"core-{core:04}" for core in cores)


def _lock(number: int, name: str, say: Callable[[str], None]) -> None:
    waits = False
    while True:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not waits:
                say(f"waits until another exclusive race has left {name}")
            waits = True
            time.sleep(LOOK_S)
        else:
            return


def _open(name: str, folders: Sequence[Path]) -> int:
    """A lock's file, open for reading, which is enough for flock(2): another user may have created it."""
    why = "no such folder"
    for folder in folders:
        for flags in (os.O_RDONLY, os.O_RDONLY | os.O_CREAT):
            try:
                return os.open(folder / name, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            except OSError as error:
                why = error.strerror or str(error)
    raise BadUsage(f"{folders[-1] / name}: the machine's lock can't be created ({why}); make the folder writable")
