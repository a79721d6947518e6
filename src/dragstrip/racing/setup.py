"""Sets up what every round of a race shares: engine, cores, load, scratch space, a supervisor for each contender."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dragstrip import contender, machine, parity
from dragstrip.contender import Entry, Missing, Ready
from dragstrip.errors import EngineError, EngineFailure, MachineLost, StageError
from dragstrip.machine import Lanes
from dragstrip.machine_facts import DatabaseFacts, Facts
from dragstrip.process import keep_awake, launcher
from dragstrip.process.keep_awake import Awake
from dragstrip.process.running import Running
from dragstrip.racing.launching import LaunchedServer, Launching
from dragstrip.racing.machine_events import MachineMonitor, Surroundings
from dragstrip.racing.proving import connection_facts, prove
from dragstrip.record import Event, Load, Round
from dragstrip.scrutiny import (
    TROUBLE,
    Findings,
    Head,
    Server,
    describe_error,
    difference,
    reference_heads,
    with_own_form,
)
from dragstrip.store import machine_profile
from dragstrip.workload import Asking, Exchange, Workload

if TYPE_CHECKING:
    from dragstrip._engine import BlockPlan, Engine, SessionPlan
    from dragstrip.process.database import Database, DatabaseUsage, Instance


@dataclass
class RaceSetup:
    """What every round of a race shares: engine, cores, load, and how servers are launched.

    A race over several machines has a subclass (``fleet``), so everything that depends on the machine is a method here.

    Args:
        awake: what keeps the cores awake while blocks run.
        database: creates instances of the database; None if no workload of the race queries one.
        instance: the instance that is up now.
        observed: servers' CPU time is read on another machine.
        heads: by workload and contender, the heads of its reference responses at its first launch.
        learning: share of the usual time in which an unknown server's warm-up is learned; ``schedule.learning_share``.
    """

    engine: Engine
    lanes: Lanes
    load: Load
    workload: Workload
    launching: Launching
    seed: int
    awake: Awake = field(default_factory=Awake)
    database: Database | None = None
    instance: Instance | None = None
    observed: bool = False
    heads: dict[tuple[str, str], list[list[Head]]] = field(default_factory=dict)
    learning: float = 1.0

    def for_workload(self, workload: Workload, rate_per_s: float) -> RaceSetup:
        """The same engine, cores and supervisors for another workload, or another rate (0: a closed loop)."""
        other = copy(self)
        other.workload = workload
        other.load = replace(self.load, rate_per_s=rate_per_s, pipelining=workload.traffic.pipelining)
        return other

    def stand_by(self, entries: Iterable[Entry]) -> None:
        """Starts the supervisors of contenders that will be launched, all at once."""
        self.launching.stand_by(entries)

    @contextmanager
    def database_up(self) -> Iterator[Instance | None]:
        """A fresh instance of the database while the block lasts; None if the workload queries none.

        Raises:
            StageError: it can't be started.
        """
        if self.database is None or not self.workload.asks_database:
            yield None
            return
        schema = self.workload.schema or "rows"
        with self.database.launch(schema, writes=self.workload.writes) as self.instance:
            try:
                yield self.instance
            finally:
                self.instance = None

    def database_use(self) -> Mapping[str, DatabaseUsage]:
        """What each contender has used of the database so far; empty without one.

        Raises:
            DatabaseGoneError: it can't be queried any more.
        """
        return self.instance.usage() if self.instance else {}

    def launch(self, entry: Entry) -> LaunchedServer:
        """Starts a contender and waits for its first correct response.

        Raises:
            StageError: it did not serve; the message has its name, the reason and its last log lines.
        """
        return self.launching.launch(entry, self.workload, self.workload.version(self.load.http), self.instance)

    def asking(self, launched: LaunchedServer) -> Asking:
        """The requests to a launched contender, and the correct responses."""
        return Asking.of(self.workload, self.seed, launched.entry, launched.data)

    def prove(self, launched: LaunchedServer) -> Findings:
        instance = self.instance if self.workload.writes else None
        own_numbers = partial(instance.own_numbers, launched.name) if instance else None
        return prove(self.asking(launched), self.load, launched.server, own_numbers)

    def connection_facts(self, launched: LaunchedServer) -> dict[str, parity.Fact]:
        """What a contender does with connections, for the parity sheet."""
        return connection_facts(self.asking(launched), launched.server)

    def difference(self, launched: LaunchedServer, sample: str) -> str:
        """How an incorrect response under load differs; "" if that is not known, as with several requests."""
        exchanges = self.asking(launched).exchanges(keepalive=self.load.keepalive, http=self.load.http)
        return difference(launched.server, exchanges[0], sample) if len(exchanges) == 1 else ""

    def count_from_now(self, launched: LaunchedServer) -> Callable[[], int | None]:
        """Starts a contender's own count of its requests; see ``scrutiny.server_count``."""
        if launched.own_count is None:
            return lambda: None
        from dragstrip.scrutiny.server_count import count_from_now  # few contenders have such a count

        return count_from_now(launched.own_count, launched.server)

    def watch(self, running: Running, session: int) -> None:
        """Has the contender's CPU time read around each of the session's blocks."""
        watch_cpu_time(self.engine, running, session)

    def surroundings(self) -> Surroundings:
        """Compares the race's machine before and after each round."""
        return MachineMonitor(self.lanes.all)

    def wait_for_quiet(self, *, busy_below: float, at_most_s: float) -> None:
        """Waits until the race's cores have been idle enough over one window, or for ``at_most_s``."""
        machine.wait_for_quiet(self.lanes.all, busy_below=busy_below, at_most_s=at_most_s)

    def with_facts(self, facts: Facts) -> Facts:
        """The machine's facts with how a race uses it: I/O and wait of the engine, awake cores, database."""
        return replace(
            facts,
            engine_io=f"{self.engine.backend}; latency by {self.engine.latency_stamps} stamps",
            engine_wait=self.engine.wait,
            awake=self.awake.text,
            kept_awake=self.awake.way is not None,
            database=self._database_facts(),
        )

    def _database_facts(self) -> DatabaseFacts | None:
        """Which database the contenders query, its settings and where it runs; None if they query none."""
        if self.database is None:
            return None
        from dragstrip.process import database  # races without one don't need it

        return DatabaseFacts(
            title=database.TITLE,
            version=self.database.programs.version,
            cores=self.lanes.database,
            shared=bool(set(self.lanes.database) & set(self.lanes.server)),
            data=self.database.place,
            connections=database.CONNECTIONS,
            settings=database.settings(),
        )

    def begin_round(self) -> None:
        """A round is about to begin."""

    def end_round(self, record: Round) -> tuple[Round, Sequence[Event]]:
        """The round as the store keeps it, and further events; its servers are stopped."""
        return record, ()

    def recover(self, lost: MachineLost) -> bool:
        """Whether the race can go on after one of its machines was lost; on a single machine it can't."""
        return False

    def connect(self, launched: LaunchedServer) -> int:
        """Opens the round's connections to a contender; returns the engine's session.

        Raises:
            StageError: it accepts no connections, though it just responded.
        """
        name, asking, load = launched.name, self.asking(launched), self.load
        exchanges = asking.exchanges(keepalive=load.keepalive, http=load.http)
        try:
            exchanges = with_own_form(launched.server, exchanges)
            # The heads come from its first launch, which was scrutineered.
            if (key := (self.workload.name, name)) not in self.heads:
                self.heads[key] = reference_heads(launched.server, exchanges)
        except TROUBLE as error:
            raise StageError(f"{name}: {describe_error(error)}") from error
        sequence = self.workload.sequence(exchanges, self.seed)
        sent = [exchanges[place] for place in sequence or range(len(exchanges))]
        launched.statements = tuple(exchange.statements for exchange in sent)
        launched.most_statements = tuple(exchange.statements + bool(exchange.cached_ms) for exchange in sent)
        plan = session_plan(launched.server, asking, load, exchanges, self.heads[key], load.connections)
        try:
            return self.engine.open(plan)
        except EngineError as error:
            if launched.running.alive() and error.kind == "descriptors":
                raise  # the engine has too few descriptors, which is not the contender's fault
            raise StageError(f"{name}: {error}; its last words: {launched.last_words()}") from error


def session_plan(
    server: Server,
    asking: Asking,
    load: Load,
    exchanges: Sequence[Exchange],
    heads: list[list[Head]],
    connections: int,
    turns: tuple[int, int] = (0, 0),
) -> SessionPlan:
    """A launch's connections and what goes over them, as the engine takes it.

    Args:
        exchanges: of ``asking``, in this contender's own form. heads: of its reference responses.
        turns: this generator's turns in an open loop that several generators share (``_engine.SessionPlan``).
    """
    from dragstrip._engine import SessionPlan, Target, Tls

    workload, tls = asking.workload, server.tls
    unix = server.host.startswith("unix:")
    inside = {"namespace": server.namespace} if server.namespace else {}
    resumes = workload.traffic.tls == "resumed"
    encrypted = Tls(tls.name, cacert=tls.cacert, insecure=tls.insecure, resume=resumes) if tls else None
    return SessionPlan(
        Target.unix(server.host.removeprefix("unix:")) if unix else Target(server.host, server.port, **inside),
        exchanges,
        connections=connections,
        keepalive=load.keepalive,
        timeout_ns=load.timeout_ns,
        tls=encrypted,
        pipelining=workload.traffic.pipelining,
        requests_per_connection=workload.traffic.requests_per_connection if load.keepalive else None,
        by_length=workload.by_length,
        sequence=workload.sequence(exchanges, asking.seed),
        heads=heads,
        streams=load.streams if asking.framed else None,
        turns=turns,
    )


def watch_cpu_time(engine: Engine, running: Running, session: int) -> None:
    """Tells the engine where the contender's CPU time can be read; its threads are all there once it is warm.

    If the contender has just died, there is nothing to read; its blocks will show that.
    """
    group = running.cpu_stat()
    processes = [] if group else list(running.pids())
    try:
        engine.watch(session, cgroup_cpu_stat=group, schedstats=list(running.schedstats()), processes=processes)
    except EngineError:
        if running.alive():
            raise


def block_plan(
    session: int, *, counted_ns: int, lead_ns: int = 0, rate_per_s: float = 0.0, pace: str = "precise", seed: int = 0
) -> BlockPlan:
    """A timed block, as the engine takes it.

    Args:
        rate_per_s: of an open loop, from the beginning of the lead-in to the end of the block; 0: a closed loop.
        pace: how precisely the rate is kept (``record.Load``).
    """
    from dragstrip._engine import BlockPlan, OpenLoop, RateStep

    steps = [RateStep(from_per_s=rate_per_s, to_per_s=rate_per_s, until_ns=lead_ns + counted_ns)]
    open_loop = OpenLoop(steps, precision=pace, seed=seed) if rate_per_s else None
    return BlockPlan(session, lead_ns=lead_ns, counted_ns=counted_ns, open_loop=open_loop)


def waits(cores: Sequence[int], wait: str, *, shared: bool) -> tuple[str, str | None]:
    """How an engine waits, and why its race's cores must not be kept busy, in words; None if they may be.

    Args:
        wait: as in ``Request``. shared: servers also run on the engine's cores.
    """
    against = keep_awake.against_spinning(cores, [machine.siblings(core) for core in cores])
    return (keep_awake.usual_wait(against, shared=shared) if wait == "auto" else wait), against


@contextmanager
def waiting_engine(
    cores: Sequence[int], servers: Sequence[int], wait: str, *, shared: bool, on: bool
) -> Iterator[tuple[str, Awake]]:
    """How an engine waits, and what keeps a race's cores awake while blocks run.

    Args:
        servers: the servers' cores, which a polling engine does not keep awake.
        wait, shared: as in ``waits``. on: False: nothing is kept awake.
    """
    wait, against = waits(cores, wait, shared=shared)
    sleepers, against = servers if wait == "poll" else cores, keep_awake.against_spinners(wait, against)
    with keep_awake.hold(sleepers, on=on, against=against) as awake:
        yield wait, awake


@contextmanager
def engine_on(cores: Sequence[int], io: str, wait: str = "sleep") -> Iterator[Engine]:
    """An engine with a thread on each of these cores, shut down at the end; ``io`` and ``wait`` as in ``Request``."""
    from dragstrip._engine import Engine  # old results must be readable if it can't load

    engine = Engine(list(cores), io=io, wait=wait)
    try:
        yield engine
    finally:
        engine.shutdown()


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
    """Sets up what rounds share, and releases it at the end, whatever happens.

    Args:
        keep: whether cores are kept awake while blocks run, "auto" or "off".
        io, wait: as in ``Request``.

    Raises:
        EngineFailure: the engine can't run.
    """
    launcher.sweep_stale()
    cores_before = os.sched_getaffinity(0)
    with ExitStack() as resources:
        scratch = resources.enter_context(launcher.scratch_root())
        if not lanes.shared:
            # Dragstrip and the supervisors stay off the servers' lane.
            os.sched_setaffinity(0, lanes.engine)
            resources.callback(os.sched_setaffinity, 0, cores_before)
        waiting = waiting_engine(lanes.all, lanes.server, wait, shared=lanes.shared, on=keep != keep_awake.OFF)
        wait, kept = resources.enter_context(waiting)
        try:
            engine = resources.enter_context(engine_on(lanes.engine[: load.threads], io, wait))
            stored = None
            if lanes.database:
                from dragstrip.process import database  # races without one don't need it

                stored = database.Database(
                    database.find(),
                    seed=seed,
                    cores=lanes.database,
                    scratch=scratch,
                    resources=resources,
                    room_bytes=database.room_of(workload.schema or "rows", writes=workload.writes),
                )
            launching = Launching(lanes.server, scratch, resources, seed)
            yield RaceSetup(engine, lanes, load, workload, launching, seed, awake=kept, database=stored)
        except EngineError as error:
            raise EngineFailure(f"the load engine: {error}") from error


class Site(Protocol):
    """The machine or machines of a race; each method raises what the function of that name in ``contender`` or
    ``machine`` raises.

    ``machines``: identity of each by name, because all rounds of a race need the same machines; None for one machine.
    """

    def machines(self) -> dict[str, str] | None: ...
    def facts(self) -> Facts: ...
    def with_profile(self, facts: Facts, store_path: Path, lanes: Lanes) -> Facts: ...
    def lanes(self, server: str | None, engine: str | None) -> Lanes: ...
    def check(self, entry: Entry) -> Ready | Missing: ...
    def pending_build(self, entry: Entry) -> tuple[str, ...] | None: ...
    def build(self, entry: Entry) -> Path | None: ...
    def race_setup(
        self, workload: Workload, load: Load, lanes: Lanes, seed: int, io: str, keep: str, wait: str
    ) -> AbstractContextManager[RaceSetup]: ...


class _Local:
    """This machine."""

    facts = staticmethod(machine.facts)
    with_profile = staticmethod(machine_profile.with_profile)
    lanes = staticmethod(machine.lanes)
    check = staticmethod(contender.check)
    pending_build = staticmethod(contender.pending_build)
    build = staticmethod(contender.build)
    race_setup = staticmethod(race_setup)

    def machines(self) -> None:
        """None, because this is a single machine."""


LOCAL: Site = _Local()
