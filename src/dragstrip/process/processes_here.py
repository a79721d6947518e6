"""What is read of a server's processes on this machine: CPU time, memory, threads and users."""

from __future__ import annotations

import contextlib
import os
import pwd
import threading
from collections.abc import Iterator, Sequence

import psutil

from dragstrip import machine
from dragstrip.process.running import Running
from dragstrip.process.supervisor import children


class _Looks(threading.local):
    """The machine's processes, while this thread looks at several servers together."""

    below: dict[int, list[tuple[int, int, str]]] | None = None


_looks = _Looks()


@contextlib.contextmanager
def one_look() -> Iterator[None]:
    """Reads the machine's processes once for all servers that this thread asks within it, instead of once for each."""
    _looks.below = children()
    try:
        yield
    finally:
        _looks.below = None


def looked_at() -> dict[int, list[tuple[int, int, str]]] | None:
    """The machine's processes as ``one_look`` read them (``supervisor.children``); None outside of it."""
    return _looks.below


class ProcessesHere(Running):
    """A server whose processes are on this machine; a subclass names them by ``pids``."""

    def own_pids(self) -> Sequence[int]:
        """Its processes without those that only hold it, like bubblewrap's."""
        return self.pids()

    def schedstats(self) -> tuple[str, ...]:
        return tuple(f"/proc/{pid}/task/{tid}/schedstat" for pid in self.pids() for tid in threads_of(pid))

    def thread_cpu_ns(self) -> dict[str, int]:
        return machine.thread_cpu_ns(self.schedstats())

    def users(self) -> tuple[str, ...]:
        names = set()
        for pid in self.own_pids():
            with contextlib.suppress(psutil.Error):
                names.add(user_name(psutil.Process(pid).uids().effective))
        return tuple(sorted(names))

    def counts(self) -> tuple[int, int]:
        pids = self.own_pids()
        return len(pids), sum(len(threads_of(pid)) for pid in pids)

    def resident_bytes(self) -> int:
        total = 0
        for pid in self.own_pids():
            with contextlib.suppress(psutil.Error):
                total += psutil.Process(pid).memory_info().rss
        return total


def user_name(uid: int) -> str:
    """A user's name; the number if it has none here."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def threads_of(pid: int) -> tuple[str, ...]:
    """The ids of a process's threads; none if it has ended."""
    try:
        return tuple(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 (names, not paths)
    except OSError:
        return ()
