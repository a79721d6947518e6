"""A contender that is up: what a race may ask of it, and how its launch ended."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: Seconds from the stop signal to SIGKILL: healthy servers take up to 10 s.
GRACE_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a launch ended.

    Args:
        exit_status: as ``subprocess`` gives it (negative: ended by that signal); None if unknown.
        died: it ended before Dragstrip stopped it.
        cpu_ns: whole tree, whole life, what it takes to stop included; None if unreadable.
        peak_memory_bytes: sum of each living process's VmHWM just before the stop; None once it has died.
        how: what it took to end it, in words.
        left_over: processes that lived on after its main one, like "4711 (nginx)".
        log_tail: last lines of its output.
    """

    exit_status: int | None
    died: bool
    cpu_ns: int | None
    peak_memory_bytes: int | None
    how: str
    log_tail: str
    left_over: tuple[str, ...] = ()

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
    """A contender that is up. As it is here, nothing is known of it but its address, and it is never stopped."""

    host: str
    port: int
    ready_ns: int = 0
    cpu_source: str = "none"
    note: str = ""

    def schedstats(self) -> tuple[str, ...]:
        """``/proc/PID/task/TID/schedstat`` of every thread on this machine now."""
        return ()

    def thread_cpu_ns(self) -> dict[str, int]:
        """CPU time of each thread so far, by its ``schedstat``."""
        return {}

    def users(self) -> tuple[str, ...]:
        """Names of the users that its processes run as."""
        return ()

    def cpu_stat(self) -> str | None:
        """Path of its cgroup's ``cpu.stat`` (usage_usec) on this machine; None without a cgroup."""
        return None

    def alive(self) -> bool:
        """Whether its main process is there; assumed if unknown: refused connections show otherwise."""
        return True

    def counts(self) -> tuple[int, int]:
        """Processes and threads now; zero if unknown."""
        return (0, 0)

    def log_tail(self, lines: int = 20) -> str:
        """Its last lines of output, also after it has been stopped."""
        return ""

    def resident_bytes(self) -> int:
        """Memory now, pages shared counted in each process; 0 if unknown."""
        return 0

    def freeze(self) -> None:
        """Lets every process of it stand still, if it is ours; ``stop`` lets it go first."""

    def thaw(self) -> None:
        """Lets it go on."""

    def begin_stop(self, *, grace_s: float = GRACE_S) -> None:
        """Sends its stop signal and waits for nothing; ``stop`` then waits for its end."""

    def stop(self, *, grace_s: float = GRACE_S) -> Ended:
        """Ends every process of it, if it is ours; again: the same answer.

        Args:
            grace_s: seconds from its stop signal to SIGKILL.
        """
        return Ended(exit_status=None, died=False, cpu_ns=None, peak_memory_bytes=None, how="left running", log_tail="")


@dataclass
class AtAddress(Running):
    """A server that was already running: never started, measured for CPU or stopped by us."""

    note: str = "already running: not launched afresh, so its launch-to-launch variation is not in the interval"


@contextlib.contextmanager
def frozen(running: Iterable[Running]) -> Iterator[None]:
    """These contenders stand still; whatever happens they are let go again."""
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
