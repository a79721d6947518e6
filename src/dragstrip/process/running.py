"""A contender that is up, whoever started it: what every user of one may ask of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from dragstrip.process.launcher import GRACE_S, Ended


class Running(Protocol):
    """A contender that is up: launched by a supervisor, or the user's own at an address."""

    host: str
    port: int
    ready_ns: int
    cpu_source: str
    note: str

    def schedstats(self) -> tuple[str, ...]: ...
    def thread_cpu_ns(self) -> dict[str, int]: ...
    def users(self) -> tuple[str, ...]: ...
    def cpu_stat(self) -> str | None: ...
    def alive(self) -> bool: ...
    def counts(self) -> tuple[int, int]: ...
    def log_tail(self, lines: int = 20) -> str: ...
    def resident_bytes(self) -> int: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...
    def begin_stop(self, *, grace_s: float = GRACE_S) -> None: ...
    def stop(self, *, grace_s: float = GRACE_S) -> Ended: ...


@dataclass
class AtAddress:
    """A server that was already running: never started, measured for CPU or stopped by us."""

    host: str
    port: int
    ready_ns: int = 0
    cpu_source: str = "none"
    note: str = "already running: not launched afresh, so its launch-to-launch variation is not in the interval"

    def schedstats(self) -> tuple[str, ...]:
        """None: its processes are not ours to read."""
        return ()

    def thread_cpu_ns(self) -> dict[str, int]:
        """None, as above."""
        return {}

    def users(self) -> tuple[str, ...]:
        """Unknown: no names."""
        return ()

    def cpu_stat(self) -> str | None:
        """None, as above."""
        return None

    def alive(self) -> bool:
        """Assumed; refused connections say otherwise."""
        return True

    def counts(self) -> tuple[int, int]:
        """Unknown, told as zero."""
        return (0, 0)

    def log_tail(self, lines: int = 20) -> str:
        """Its output is not ours."""
        return ""

    def resident_bytes(self) -> int:
        """Unknown, told as zero."""
        return 0

    def freeze(self) -> None:
        """Never: others may be its clients."""

    def thaw(self) -> None:
        """Nothing to do."""

    def begin_stop(self, *, grace_s: float = GRACE_S) -> None:
        """Nothing to begin."""

    def stop(self, *, grace_s: float = GRACE_S) -> Ended:
        """Leaves it running."""
        return Ended(exit_status=None, died=False, cpu_ns=None, peak_memory_bytes=None, how="left running", log_tail="")


@contextlib.contextmanager
def frozen(running: Iterable[Running]) -> Iterator[None]:
    """These contenders stand still; whatever happens they are let go again."""
    still = list(running)
    for server in still:
        server.freeze()
    try:
        yield
    finally:
        for server in still:
            server.thaw()


@contextlib.contextmanager
def awake(server: Running | None) -> Iterator[None]:
    """A frozen contender moves for its own block; None: it is none of them."""
    if server is not None:
        server.thaw()
    try:
        yield
    finally:
        if server is not None:
            server.freeze()
