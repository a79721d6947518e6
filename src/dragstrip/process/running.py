"""A contender that is up, and how its launch ended."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from dragstrip.store.masking import hide

#: Seconds from the stop signal to SIGKILL: healthy servers take up to 10 s.
GRACE_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEnd:
    """How a launch ended.

    Args:
        exit_status: as ``subprocess`` gives it (negative: ended by that signal); None if unknown.
        died: it ended before Dragstrip stopped it.
        how: how it was ended, in words.
        left_over: processes that outlived the main process, like "4711 (nginx)".
        hidden_ns: CPU time by its processes' own clocks that its cgroup did not count.
        log_tail: last lines of its output.
        counts: numbers of the whole launch by ``record.LaunchCount``, as far as they are known.
    """

    exit_status: int | None
    died: bool
    how: str
    log_tail: str
    left_over: tuple[str, ...] = ()
    hidden_ns: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "log_tail", hide(self.log_tail))

    def __str__(self) -> str:
        if self.daemonized:
            return (
                f"its start command ended with exit status 0 while process {', '.join(self.left_over)}, which it "
                "started, lived on; start the server in the foreground"
            )
        if self.exit_status is None:
            return self.how
        if self.exit_status >= 0:
            return f"exit status {self.exit_status}"
        try:
            number = signal.Signals(-self.exit_status)
            return f"killed by {number.name} ({signal.strsignal(number)})"
        except ValueError:  # a real-time signal has no name
            return f"killed by signal {-self.exit_status}"

    @property
    def daemonized(self) -> bool:
        """Whether the start command left a server in the background and ended well."""
        return self.died and self.exit_status == 0 and bool(self.left_over)


@dataclass
class Running:
    """A contender that is up. This base class only has its address, and never stops it.

    Args:
        namespace: of the network that has its address, like ``/proc/PID/ns/net``; None: this process's own.
    """

    #: Whether ``freeze`` freezes it.
    freezes: ClassVar[bool] = True

    host: str
    port: int
    ready_ns: int = 0
    cpu_source: str = "none"
    note: str = ""
    namespace: Path | None = None

    def pids(self) -> tuple[int, ...]:
        """Its living processes on this machine; none if Dragstrip did not start them here."""
        return ()

    def schedstats(self) -> tuple[str, ...]:
        """``/proc/PID/task/TID/schedstat`` of every thread on this machine now."""
        return ()

    def thread_cpu_ns(self) -> dict[str, int]:
        """CPU time of each thread so far, by its ``schedstat``."""
        return {}

    def users(self) -> tuple[str, ...]:
        """Names of the users that its processes run as."""
        return ()

    def outside(self) -> tuple[str, ...]:
        """Its processes that have left the cgroup in which their CPU time is counted, like "4711 (nginx)"."""
        return ()

    def cpu_stat(self) -> str | None:
        """Path of its cgroup's ``cpu.stat`` (usage_usec) on this machine; None without a cgroup."""
        return None

    def alive(self) -> bool:
        """Whether its main process runs; assumed if unknown, since refused connections would show its death."""
        return True

    def counts(self) -> tuple[int, int]:
        """Processes and threads now; zero if unknown."""
        return (0, 0)

    def log_tail(self, lines: int = 20) -> str:
        """Its last lines of output, also after its stop."""
        return ""

    def usable_cores(self) -> int:
        """How many cores its processes may run on, if that is not the servers' lane; 0: the lane, or unknown."""
        return 0

    def facts(self) -> dict[str, str]:
        """What the parity sheet says of its processes, apart from the notes."""
        return {}

    def resident_bytes(self) -> int:
        """Memory now, a shared page counted in each process; 0 if unknown."""
        return 0

    def freeze(self) -> None:
        """Freezes its processes, if Dragstrip started them; ``stop`` thaws them first."""

    def thaw(self) -> None:
        """Lets its processes continue."""

    def begin_stop(self, *, grace_s: float = GRACE_S) -> None:
        """Sends its stop signal without waiting; ``stop`` then waits for its end."""

    def stop(self, *, grace_s: float = GRACE_S) -> ServerEnd:
        """Ends its processes, if Dragstrip started them; a second call returns the same value.

        Args:
            grace_s: seconds from its stop signal to SIGKILL.
        """
        return ServerEnd(exit_status=None, died=False, how="left running", log_tail="")


@dataclass
class AtAddress(Running):
    """A server that was already running: Dragstrip does not start, freeze or stop it."""

    freezes: ClassVar[bool] = False
    note: str = "already running: not launched afresh, so its launch-to-launch variation is not in the interval"


@contextlib.contextmanager
def frozen(running: Iterable[Running]) -> Iterator[None]:
    """Freezes these contenders; they are always thawed at the end."""
    servers = list(running)
    for server in servers:
        server.freeze()
    try:
        yield
    finally:
        for server in servers:
            server.thaw()


@contextlib.contextmanager
def awake(server: Running | None) -> Iterator[None]:
    """Lets a frozen contender run during its own block; None: it is not frozen."""
    if server is not None:
        server.thaw()
    try:
        yield
    finally:
        if server is not None:
            server.freeze()
