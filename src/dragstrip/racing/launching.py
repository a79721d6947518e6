"""Starts contenders' servers, each under its own supervisor, and follows each launch from its start to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from dragstrip.contender import LOOPBACK, Address, Entry, OwnCount, bracketed, prepare
from dragstrip.errors import NeedsUserNamespace, PortTaken, StageError
from dragstrip.process.launcher import INTERRUPTED_GRACE_S, Launcher
from dragstrip.process.ports import free_port
from dragstrip.process.running import GRACE_S, Running, ServerEnd
from dragstrip.record import Launch, LaunchCount
from dragstrip.scrutiny import Encryption, Server, is_right, plainest
from dragstrip.workload import Asking, Data, Exchange, Workload

if TYPE_CHECKING:
    from dragstrip._engine import Engine
    from dragstrip.process.certificate import Authority
    from dragstrip.process.database import Instance

#: CPU time that a launch's two counts may differ by: what was used before it joined its cgroup, and a share.
HIDDEN_NS, HIDDEN_SHARE = 50_000_000, 0.05

#: Seconds after which the end of a process whose connections broke is known.
DYING_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """How a server warmed up.

    Args:
        lasted_ns: by the clock.
        settled: its last slices showed no rise.
        enough_s: seconds after which this warm-up had nothing left to gain.
        p50_ns: its typical latency, which set the length of a slice.
    """

    lasted_ns: int
    settled: bool
    enough_s: float
    p50_ns: int


@dataclass(kw_only=True)
class LaunchedServer:
    """One launch of one contender; its facts are filled in from its first response to its end.

    Args:
        own_count: where the server reports how many requests it had; None if it can't.
        data: the workload's files in its folder. drawn_by: the seed that draws the same data again.
        tls: how it is reached over TLS; None: without TLS.
        session: the engine's, while it is connected.
        warm_up: None until it is warm, or if it never became warm.
        counts: what was counted of it so far, by ``LaunchCount``.
        statements: how many each request needs in the database, in the order in which requests are sent.
        most_statements: the same if no response comes from the server's cache.
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
    counts: dict[str, float] = field(default_factory=dict)
    statements: tuple[int, ...] = ()
    most_statements: tuple[int, ...] = ()
    ended: ServerEnd | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def server(self) -> Server:
        return Server(self.running.host, self.running.port, self.tls, self.running.namespace)

    def connected(self) -> int:
        """The number of the engine's session with it.

        Raises:
            RuntimeError: it is not connected, which is the caller's fault.
        """
        if self.session is None:
            raise RuntimeError(f"{self.name} is loaded before it is connected")
        return self.session

    def disconnect(self, engine: Engine) -> None:
        """Closes its connections; closing them twice does nothing."""
        if self.session is not None:
            engine.close(self.session)
            self.session = None

    @property
    def apart(self) -> bool:
        """Whether it is a command of the user's that runs in a network of its own."""
        return bool(self.entry.command) and self.running.namespace is not None

    def count_threads(self) -> None:
        """Counts its processes and threads as they are now."""
        self.counts[LaunchCount.PROCESSES], self.counts[LaunchCount.THREADS] = self.running.counts()

    def last_words(self) -> str:
        """The end of its output, for a message."""
        return self.running.log_tail(5) or "none"

    def death(self, when: str) -> str | None:
        """How it died and its last lines, if it is dead or dies within ``DYING_S``; None if it lives."""
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
        running, ended = self.running, self.ended
        if ended is None:
            raise RuntimeError(f"{self.name} is recorded before it has ended")
        return Launch(
            contender=self.name,
            round=index,
            cores=cores,
            address=running.host if running.host.startswith("unix:") else f"{bracketed(running.host)}:{running.port}",
            ready_ns=running.ready_ns,
            warm_up_ns=self.warm_up.lasted_ns if self.warm_up else 0,
            settled=self.warm_up.settled if self.warm_up else False,
            exit_status=ended.exit_status,
            died=ended.died,
            cpu_source=running.cpu_source,
            log_tail=ended.log_tail,
            counts={**self.counts, **ended.counts},
        )


def left_text(outside: Sequence[str]) -> str:
    """Why a contender is out some of whose processes have left their cgroup."""
    names = ", ".join(outside[:3])
    return f"its processes {names} left the cgroup in which their CPU time is counted; expected them to stay in it"


def hidden_text(ended: ServerEnd) -> str | None:
    """Why a contender is out whose cgroup did not count all of its CPU time; None if it did."""
    if ended.hidden_ns <= HIDDEN_NS + HIDDEN_SHARE * ended.counts.get(LaunchCount.CPU_NS, 0):
        return None
    used = f"{ended.hidden_ns / 1e9:.2f} s of CPU time"
    return f"its processes used {used} that their cgroup did not count; expected them to stay in it"


class Servers:
    """Launched servers by name, in the order of their launch; leaving the ``with`` stops all that still run.

    After an error or an interruption they get little time to end, because a person waits.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._launched: dict[str, LaunchedServer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(self, grace_s=GRACE_S if kind is None else INTERRUPTED_GRACE_S)

    def __iter__(self) -> Iterator[LaunchedServer]:
        return iter(list(self._launched.values()))

    def add(self, launched: LaunchedServer) -> LaunchedServer:
        """Adds a server; safe from several threads."""
        self._launched[launched.name] = launched
        return launched

    def warm(self) -> Mapping[str, LaunchedServer]:
        """The servers that are connected and warm."""
        return {launched.name: launched for launched in self if launched.warm_up is not None}

    def stop(self, some: Iterable[LaunchedServer], *, grace_s: float = GRACE_S) -> None:
        """Stops some servers at once: each gets its signal before Dragstrip waits for the first.

        Args:
            grace_s: seconds from the stop signal to SIGKILL.
        """
        stopping = [launched for launched in some if launched.ended is None]
        for launched in stopping:
            launched.disconnect(self._engine)
        for launched in stopping:
            launched.running.begin_stop(grace_s=grace_s)
        for launched in stopping:
            launched.ended = launched.running.stop(grace_s=grace_s)


@dataclass
class Launching:
    """What all launches of a race share, on the servers' machine.

    Args:
        cores: the servers' lane. scratch: the race's folder.
        supervisors: ends the supervisors when the race ends.
        address: where servers listen.
    """

    cores: tuple[int, ...]
    scratch: Path
    supervisors: ExitStack
    seed: int
    address: str = LOOPBACK

    def __post_init__(self) -> None:
        self._supervisors: dict[str, Launcher] = {}
        self._data: dict[tuple[str, str], Data] = {}
        self._authority: Authority | None = None
        self._one_authority = threading.Lock()
        self._ports: dict[str, int] = {}
        self._apart = False

    def stand_by(self, entries: Iterable[Entry]) -> None:
        """Starts the supervisors of contenders that will be launched; they get ready while others start."""
        for entry in entries:
            if entry.url is None and entry.name not in self._supervisors:
                supervisor = Launcher(name=entry.name, scratch_root=self.scratch)
                self._supervisors[entry.name] = self.supervisors.enter_context(supervisor)

    def launch(self, entry: Entry, workload: Workload, http: str, instance: Instance | None = None) -> LaunchedServer:
        """Starts a contender and waits for its first correct response.

        Repeats the start if another program took the kernel's free port before the server could bind it. A command of
        the user's may want a port that another server has, as of a file that it reads; then it is started in a network
        of its own, and so is each such command from then on, so that all are raced in the same way.

        Args:
            http: the load's HTTP version, for contenders whose entry does not set one.
            instance: of the database that the workload queries.

        Raises:
            StageError: it did not serve; the message has its name, the reason and its last log lines.
            NeedsUserNamespace: it needs a network of its own, which this process may not enter.
        """
        if entry.url is not None:
            return self._already_running(entry, workload, entry.url, http)
        with suppress(PortTaken):
            return self._launch(entry, workload, http, instance, apart=self._apart)
        apart = self._apart
        try:
            return self._launch(entry, workload, http, instance, apart=apart)
        except PortTaken:
            if not entry.command or apart or self.address != LOOPBACK:
                raise
        from dragstrip.image import may_enter  # images alone need it otherwise

        if not may_enter():
            raise NeedsUserNamespace(entry.name)
        self._apart = True
        return self._launch(entry, workload, http, instance, apart=True)

    def _already_running(self, entry: Entry, workload: Workload, at: Address, http: str) -> LaunchedServer:
        from dragstrip.process.found_server import found_at  # running servers alone need it

        first = self._first_exchange(entry, workload, Data(), None)
        tls = Encryption.trusting(at, entry.http(http)) if at.secure else None
        reason = is_right(first, tls=tls, remedy=_remedy(entry, workload, first))(at.host, at.port)
        if reason:
            raise StageError(f"{entry.name}: the server at {at.host}:{at.port} failed its check: {reason}")
        return LaunchedServer(entry=entry, running=found_at(at.host, at.port), own_count=None, tls=tls)

    def _launch(
        self, entry: Entry, workload: Workload, http: str, instance: Instance | None, *, apart: bool
    ) -> LaunchedServer:
        self.stand_by([entry])
        scratch = self.scratch / f"{len(list(self.scratch.iterdir())):03d}-{time.monotonic_ns():x}"
        scratch.mkdir()
        before = self._data.get((workload.name, entry.name))
        # The time is part of it: a race that is resumed, or another of the same seed, gets other files.
        drawn_by = f"{self.seed} {entry.name} {time.time_ns()}"
        data = workload.data(drawn_by)
        if instance is not None:
            data = replace(data, tables=instance.tables)
        self._data[workload.name, entry.name] = data
        authority = self._certificates() if entry.tls or entry.mounts_certificate else None
        tls = Encryption(authority.file, entry.http(http)) if authority and entry.tls else None
        start = prepare(
            entry,
            scratch=scratch,
            port=free_port(self.address),
            cores=self.cores,
            workload=workload.served_as,
            data=data.files,
            database=instance.values(entry.name) if instance else {},
            network=instance.network_for(entry.name) if instance and entry.container else "",
            address=self.address,
            identity=authority.identity if authority else None,
        )
        if entry.command:
            start = replace(start, port=self._ports.get(entry.name, start.port), own_network=apart)
        first = self._first_exchange(entry, workload, data, before)
        within_s = max(start.wake_s, start.listening_s)  # the launcher ends sooner if the server listens
        probe = is_right(first, within_s=within_s, tls=tls, remedy=_remedy(entry, workload, first))
        running = self._supervisors[entry.name].launch(start, scratch=scratch, cores=self.cores, is_right=probe)
        if start.asked_port not in (0, running.port):
            self._ports[entry.name] = running.port
        return LaunchedServer(
            entry=entry, running=running, own_count=start.own_count, data=data, tls=tls, drawn_by=drawn_by
        )

    def _certificates(self) -> Authority:
        """The race's authority, made when it is first needed; safe from several threads."""
        from dragstrip.process import certificate  # races over TLS alone need it

        with self._one_authority:
            self._authority = self._authority or certificate.make(self.scratch)
            return self._authority

    def _first_exchange(self, entry: Entry, workload: Workload, data: Data, before: Data | None) -> Exchange:
        return plainest(Asking.of(workload, self.seed, entry, data, before).exchanges(keepalive=False))


def _remedy(entry: Entry, workload: Workload, first: Exchange) -> str:
    """What to do if a user's own server sends another response, as most do the first time."""
    if entry.contender is not None:
        return ""
    if workload.fields.anywhere:  # typed requests, whose response was learned
        return (
            "if that response is correct, compare less: --check status, --ignore a field of its JSON, or diff "
            "--accept-change"
        )
    return (
        f"if that response is correct, give its path in place of {workload.shown}, like --path {first.path}: what "
        "the first contender sends is then the correct response"
    )
