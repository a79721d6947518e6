"""One contender's server from its launch to its end, and several of them that are stopped together."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from dragstrip.contender import Entry, OwnCount
from dragstrip.process.database import Spent
from dragstrip.process.launcher import GRACE_S, INTERRUPTED_GRACE_S, Ended
from dragstrip.process.running import Running
from dragstrip.record import Launch
from dragstrip.scrutiny import Encryption
from dragstrip.workload import Data

if TYPE_CHECKING:
    from dragstrip._engine import Engine


#: Seconds until the end of a process whose connections broke is known here.
DYING_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """How a server warmed up.

    Args:
        lasted_ns: by the clock.
        settled: its last slices showed no rise.
        enough_s: seconds after which nothing was left to gain, as this one was seen.
        p50_ns: its typical latency, as its slices went by.
    """

    lasted_ns: int
    settled: bool
    enough_s: float
    p50_ns: int


@dataclass(kw_only=True)
class Launched:
    """One launch of one contender; what is known of it grows from its first answer to its end.

    Args:
        own_count: where it says how many requests it had; None: it can't say.
        data: what the workload put into its folder. drawn_by: from which it is drawn again.
        tls: how it is reached over TLS; None: in the clear.
        session: the engine's, while it is connected.
        warm_up: None until it is warm, or where it never became so.
        processes, threads: once it was warmed up; 0 until then, or where it can't be read.
        served: requests that it had over the round's blocks by its own count; None where it can't say.
        statements: that answers take in the database, by the requests in the order in which they are sent.
        spent: what it made of the database over the round's blocks; None where there is none, or it could not be asked.
        wanted: statements that its answers took.
        ended: how it ended; None while it runs.
    """

    entry: Entry
    running: Running
    own_count: OwnCount | None
    data: Data = field(default_factory=Data)
    tls: Encryption | None = None
    drawn_by: str = ""
    session: int | None = None
    warm_up: WarmUp | None = None
    processes: int = 0
    threads: int = 0
    served: int | None = None
    statements: tuple[int, ...] = ()
    spent: Spent | None = None
    wanted: float | None = None
    ended: Ended | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The contender's name."""
        return self.entry.name

    def connected(self) -> int:
        """The number of the engine's session with it.

        Raises:
            RuntimeError: it is not connected: a fault of the caller's.
        """
        if self.session is None:
            raise RuntimeError(f"{self.name} is loaded before it is connected")
        return self.session

    def disconnect(self, engine: Engine) -> None:
        """Closes its connections; again: does nothing."""
        if self.session is not None:
            engine.close(self.session)
            self.session = None

    def last_words(self) -> str:
        """The end of its output, for a message."""
        return self.running.log_tail(5) or "none"

    def death(self, when: str) -> str | None:
        """How it died and its last lines, if it is dead or dies in this moment; None where it lives."""
        until = time.monotonic() + DYING_S
        while self.running.alive():
            if time.monotonic() > until:
                return None
            time.sleep(DYING_S / 10)
        ended = self.running.stop(grace_s=INTERRUPTED_GRACE_S)
        how = str(ended) if ended.daemonized else f"died {when} ({ended})"
        return f"{how}; its last words: {self.last_words()}"

    def record(self, index: int, cores: tuple[int, ...]) -> Launch:
        """The record of a launch that has ended, in round ``index``."""
        running, ended, spent = self.running, self.ended, self.spent
        if ended is None:
            raise RuntimeError(f"{self.name} is recorded before it has ended")
        return Launch(
            contender=self.name,
            round=index,
            cores=cores,
            address=running.host if running.host.startswith("unix:") else f"{running.host}:{running.port}",
            ready_ns=running.ready_ns,
            warm_up_ns=self.warm_up.lasted_ns if self.warm_up else 0,
            settled=self.warm_up.settled if self.warm_up else False,
            exit_status=ended.exit_status,
            died=ended.died,
            cpu_ns=ended.cpu_ns,
            peak_memory_bytes=ended.peak_memory_bytes,
            cpu_source=running.cpu_source,
            processes=self.processes,
            threads=self.threads,
            log_tail=ended.log_tail,
            served=self.served,
            database_statements=spent.statements if spent else None,
            database_wanted=self.wanted if spent else None,
            database_cpu_ns=spent.cpu_ns if spent else None,
            database_exec_ns=spent.exec_ns if spent else None,
            database_connections=spent.connections if spent else None,
        )


class Servers:
    """Launched servers by name, in the order of their launch; leaving the ``with`` stops all that still run.

    An error or an interruption on the way out gives them little time to end: a person waits.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._launched: dict[str, Launched] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop(self, grace_s=GRACE_S if kind is None else INTERRUPTED_GRACE_S)

    def __iter__(self) -> Iterator[Launched]:
        return iter(list(self._launched.values()))

    def add(self, launched: Launched) -> Launched:
        """One more; safe from several threads."""
        self._launched[launched.name] = launched
        return launched

    def warm(self) -> Mapping[str, Launched]:
        """Those that are connected and warm."""
        return {one.name: one for one in self if one.warm_up is not None}

    def stop(self, some: Iterable[Launched], *, grace_s: float = GRACE_S) -> None:
        """Stops some, all at once: every one gets its signal before the first is waited for.

        Args:
            grace_s: seconds from the stop signal to SIGKILL.
        """
        stopping = [one for one in some if one.ended is None]
        for one in stopping:
            one.disconnect(self._engine)
        for one in stopping:
            one.running.begin_stop(grace_s=grace_s)
        for one in stopping:
            one.ended = one.running.stop(grace_s=grace_s)
