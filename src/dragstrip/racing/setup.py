"""What every round of a race shares: engine, cores, load, scratch space, a supervisor for each contender."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dragstrip import machine
from dragstrip.contender import Entry, prepare
from dragstrip.errors import BadUsage, EngineFailure, PortTaken, StageError
from dragstrip.machine import Lanes
from dragstrip.process import database, keep_awake, launcher
from dragstrip.process.certificate import Certificates
from dragstrip.process.database import Database, Instance
from dragstrip.process.keep_awake import Awake
from dragstrip.process.launcher import Launcher
from dragstrip.process.ports import free_port
from dragstrip.process.running import AtAddress
from dragstrip.racing.launched import Launched
from dragstrip.record import Load
from dragstrip.scrutiny import TROUBLE, Encryption, describe_error, is_right, plainest, with_own_form
from dragstrip.workload import HOST, HTTP2, Data, Exchange, Workload

if TYPE_CHECKING:
    from dragstrip._engine import BlockPlan, Engine, Tls


@dataclass
class RaceSetup:
    """What every round of a race shares: engine, cores, load, scratch space and one supervisor per contender.

    Args:
        supervisors: ends the supervisors with the race.
        awake: what keeps the cores awake while blocks run.
        database: what instances of it are made of; None where no workload of the race asks one.
        instance: the one that is up now.
    """

    engine: Engine
    lanes: Lanes
    load: Load
    workload: Workload
    scratch: Path
    supervisors: ExitStack
    seed: int
    awake: Awake = field(default_factory=Awake)
    database: Database | None = None
    instance: Instance | None = None

    def __post_init__(self) -> None:
        self._supervisors: dict[str, Launcher] = {}
        self._data: dict[tuple[str, str], Data] = {}
        self._certificates = Certificates(self.scratch)

    def at(self, workload: Workload, rate_per_s: float) -> RaceSetup:
        """The same engine, cores and supervisors for another workload, or another rate (0: a closed loop)."""
        other = copy(self)
        other.workload = workload
        other.load = replace(self.load, rate_per_s=rate_per_s, pipelining=workload.pipelining)
        return other

    def stand_by(self, entries: Iterable[Entry]) -> None:
        """Starts the supervisors of contenders that will be launched, all at once: each takes a moment to be there."""
        for entry in entries:
            if entry.url is None and entry.name not in self._supervisors:
                started = Launcher(name=entry.name, scratch_root=self.scratch)
                self._supervisors[entry.name] = self.supervisors.enter_context(started)

    @contextmanager
    def database_up(self) -> Iterator[Instance | None]:
        """A fresh instance of the database for as long; None where the workload asks none.

        Raises:
            StageError: it can't be started.
        """
        if self.database is None or not self.workload.asks_database:
            yield None
            return
        with self.database.launch() as self.instance:
            try:
                yield self.instance
            finally:
                self.instance = None

    def launch(self, entry: Entry) -> Launched:
        """Starts a contender and waits for its first right answer.

        Once more where somebody took the kernel's free port before the server could bind it.

        Raises:
            StageError: it didn't come to serve; names it, the reason and its last log lines.
        """
        if entry.url is not None:
            return self._already_running(entry, entry.url.host, entry.url.port)
        try:
            return self._launch(entry)
        except PortTaken:
            return self._launch(entry)

    def _already_running(self, entry: Entry, host: str, port: int) -> Launched:
        reason = is_right(self._first_exchange(entry, Data(), None))(host, port)
        if reason:
            raise StageError(f"{entry.name}: the server at {host}:{port} is not right: {reason}")
        return Launched(entry=entry, running=AtAddress(host, port), own_count=None)

    def _launch(self, entry: Entry) -> Launched:
        self.stand_by([entry])
        scratch = self.scratch / f"{len(list(self.scratch.iterdir())):03d}-{time.monotonic_ns():x}"
        scratch.mkdir()
        workload = self.workload
        before = self._data.get((workload.name, entry.name))
        # By the moment, too: a race that goes on, or one more of the same seed, finds other files.
        data = workload.data(f"{self.seed} {entry.name} {time.time_ns()}")
        if self.instance is not None:
            data = replace(data, table=self.instance.rows)
        self._data[workload.name, entry.name] = data
        authority = self._certificates.authority() if entry.tls else None
        tls = Encryption(authority.file, entry.http(self.load.http)) if authority else None
        start = prepare(
            entry,
            scratch=scratch,
            port=free_port(),
            cores=self.lanes.server,
            workload=workload.served_as,
            data=data.files,
            database=self.instance.values(entry.name) if self.instance else {},
            identity=authority.identity if authority else None,
        )
        probe = is_right(self._first_exchange(entry, data, before), within_s=start.wake_s, tls=tls)
        running = self._supervisors[entry.name].launch(start, scratch=scratch, cores=self.lanes.server, is_right=probe)
        return Launched(entry=entry, running=running, own_count=start.own_count, data=data, tls=tls)

    def _first_exchange(self, entry: Entry, data: Data, before: Data | None) -> Exchange:
        asked = self.workload.exchanges(
            mark=entry.mark,
            keepalive=False,
            http=entry.http("1.1"),
            seed=self.seed,
            data=data,
            before=before,
            own_form=self.workload.name in entry.own_forms,
        )
        return plainest(asked)

    def exchanges(self, launched: Launched, *, keepalive: bool, http: str = "1.1") -> tuple[Exchange, ...]:
        """What a launch is loaded with; its JSON may have the form that its contender declares."""
        entry, workload = launched.entry, self.workload
        return workload.exchanges(
            mark=entry.mark,
            keepalive=keepalive,
            http=entry.http(http),
            seed=self.seed,
            data=launched.data,
            own_form=workload.name in entry.own_forms,
        )

    def probes(self, launched: Launched, *, keepalive: bool, http: str = "1.1", count: int) -> tuple[Exchange, ...]:
        """What a launch is asked besides, to prove that it computes its answers."""
        entry, workload = launched.entry, self.workload
        return workload.probes(
            mark=entry.mark,
            keepalive=keepalive,
            http=entry.http(http),
            seed=self.seed,
            count=count,
            data=launched.data,
            own_form=workload.name in entry.own_forms,
        )

    def _encryption(self, launched: Launched) -> Tls | None:
        """How the engine reaches a launch over TLS."""
        from dragstrip._engine import Tls

        if launched.tls is None:
            return None
        return Tls(HOST, cacert=launched.tls.cacert, resume=self.workload.tls == "resumed")

    def connect(self, launched: Launched) -> int:
        """Opens the round's connections to a contender; returns the engine's session.

        Raises:
            StageError: it takes no connections, though it just answered.
        """
        from dragstrip._engine import EngineError, SessionPlan, Target

        entry, running, load = launched.entry, launched.running, self.load
        unix = running.host.startswith("unix:")
        exchanges = self.exchanges(launched, keepalive=load.keepalive, http=load.http)
        try:
            exchanges = with_own_form(running.host, running.port, exchanges, launched.tls)
        except TROUBLE as error:
            raise StageError(f"{entry.name}: {describe_error(error)}") from error
        sequence = self.workload.sequence(exchanges, self.seed)
        launched.statements = tuple(exchanges[place].statements for place in sequence or range(len(exchanges)))
        plan = SessionPlan(
            Target.unix(running.host.removeprefix("unix:")) if unix else Target(running.host, running.port),
            exchanges,
            connections=load.connections,
            keepalive=load.keepalive,
            timeout_ns=load.timeout_ns,
            tls=self._encryption(launched),
            pipelining=load.pipelining,
            by_length=self.workload.by_length,
            sequence=sequence,
            streams=load.streams if entry.http(load.http) == HTTP2 else 0,
        )
        try:
            return self.engine.open(plan)
        except EngineError as error:
            if running.alive() and error.kind == "descriptors":
                raise  # ours are too few: that is no fault of this contender's
            raise StageError(f"{entry.name}: {error}; its last words: {launched.last_words()}") from error


def block_plan(
    session: int, *, counted_ns: int, lead_ns: int = 0, rate_per_s: float = 0.0, pace: str = "precise", seed: int = 0
) -> BlockPlan:
    """A timed block, as the engine takes it.

    Args:
        rate_per_s: of an open loop from the lead-in's begin to the block's end; 0: a closed loop.
        pace: how sharply that is kept (``record.Load``).
    """
    from dragstrip._engine import BlockPlan, OpenLoop, RateStep

    steps = [RateStep(from_per_s=rate_per_s, to_per_s=rate_per_s, until_ns=lead_ns + counted_ns)]
    open_loop = OpenLoop(steps, precision=pace, seed=seed) if rate_per_s else None
    return BlockPlan(session, lead_ns=lead_ns, counted_ns=counted_ns, open_loop=open_loop)


@contextmanager
def race_setup(
    workload: Workload,
    load: Load,
    lanes: machine.Lanes,
    seed: int,
    io: str = "auto",
    keep: str = keep_awake.OFF,
    wait: str = "sleep",
) -> Iterator[RaceSetup]:
    """Everything that is shared is there, and is put away at the end, whatever happens.

    Args:
        keep: whether cores are kept awake while blocks run, "auto" or "off".
        io, wait: as in ``Request``.

    Raises:
        EngineFailure: the engine can't run.
    """
    from dragstrip._engine import Engine, EngineError  # old results must be readable where it can't load

    launcher.sweep_stale()
    cores_before = os.sched_getaffinity(0)
    with ExitStack() as resources:
        scratch = resources.enter_context(launcher.scratch_root())
        if not lanes.shared:
            # We and the supervisors stay off the servers' lane.
            os.sched_setaffinity(0, lanes.engine)
            resources.callback(os.sched_setaffinity, 0, cores_before)
        if keep not in keep_awake.CHOICES:
            raise BadUsage(f"awake: {keep!r} given; use {' or '.join(keep_awake.CHOICES)}")
        against = keep_awake.against_spinning(lanes.all, [machine.siblings(core) for core in lanes.all])
        if wait == "auto":
            wait = keep_awake.usual_wait(against, shared=lanes.shared)
        sleepers = lanes.server if wait == "poll" else lanes.all
        against = keep_awake.against_spinners(wait, against)
        kept = resources.enter_context(keep_awake.hold(sleepers, on=keep != keep_awake.OFF, against=against))
        try:
            engine = Engine(list(lanes.engine[: load.threads]), io=io, wait=wait)
            resources.callback(engine.shutdown)
            stored = None
            if lanes.database:
                programs = database.find()
                stored = Database(programs, seed=seed, cores=lanes.database, scratch=scratch, resources=resources)
            yield RaceSetup(engine, lanes, load, workload, scratch, resources, seed, awake=kept, database=stored)
        except EngineError as error:
            raise EngineFailure(f"the load engine: {error}") from error
