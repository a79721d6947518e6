"""A fleet as the site of a race: forwards to agents what ``racing`` does before a race and around its rounds."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dragstrip import parity
from dragstrip.contender import Entry, Missing, Ready
from dragstrip.errors import BadUsage, EngineFailure, MachineLost, StageError
from dragstrip.extras.fleet.channel import Channel, EngineRefusal
from dragstrip.extras.fleet.duties import Duties
from dragstrip.extras.fleet.generator_duties import GeneratorDuties
from dragstrip.extras.fleet.machines import Connected, Machines
from dragstrip.extras.fleet.messages import (
    CoreSets,
    Offset,
    Opened,
    ProofReply,
    SentAsking,
    SentEntry,
    SentWorkload,
    Tally,
    Traffic,
)
from dragstrip.extras.fleet.meter import summed
from dragstrip.extras.fleet.remote_engine import SERVER_S, RemoteEngine
from dragstrip.extras.fleet.remote_server import RemoteServer
from dragstrip.extras.fleet.server_duties import ServerDuties
from dragstrip.machine import Lanes
from dragstrip.machine_facts import Facts, FleetMachine, Inventory
from dragstrip.process.keep_awake import OFF, Awake
from dragstrip.process.running import AtAddress, Running
from dragstrip.racing.launching import LaunchedServer, Launching
from dragstrip.racing.machine_events import event
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import Event, EventKind, Load, Round, Void, VoidKind
from dragstrip.scrutiny import CORRECTNESS_S, Findings
from dragstrip.workload import Workload

if TYPE_CHECKING:
    from dragstrip._engine import Engine

#: Exchanges that compare a generator's clock with the observer's: the fastest of them counts.
EXCHANGES = 100

#: The largest drift of a generator's clock from the observer's in one round with which blocks still start together.
MAX_DRIFT_NS = 50_000

#: Seconds beyond its own limit that the reply about a contender's launch or proof may take.
REPLY_S = 30.0


def refuse_database(workload: Workload) -> None:
    """No machine of a fleet has the role of a database.

    Raises:
        BadUsage: the workload queries one.
    """
    if workload.asks_database:
        raise BadUsage(
            f"workload {workload.name} needs a database, which fleets don't support; race it without --fleet"
        )


class FleetAwake(Awake):
    """Keeps all machines' cores awake; off if no machine has a way to do so."""

    def __init__(self, machines: Machines, opened: Mapping[str, Opened]) -> None:
        texts = {f"{name}: {machine.awake}" for name, machine in opened.items()}
        way = next((machine.way for machine in opened.values() if machine.way), None)
        super().__init__("; ".join(sorted(texts)) if way else OFF, way)
        self._machines = machines

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        if self.way is None:
            yield
            return
        self._set(on=True)
        try:
            yield
        finally:
            with contextlib.suppress(MachineLost):
                self._set(on=False)

    def _set(self, *, on: bool) -> None:
        self._machines.on_all(lambda node: node.channel.ask(Duties.keep_awake, on))


@dataclass
class FleetSurroundings:
    """Compares every machine before and after each round."""

    machines: Machines

    def before(self) -> None:
        self.machines.on_all(lambda node: node.channel.ask(Duties.before_round))

    def after(self) -> list[Event]:
        """What all machines did during the round; each subject has its machine's name in front."""
        events_by_name = self.machines.on_all(lambda node: (node.name, node.channel.ask(Duties.after_round)))
        return [
            replace(event, at_ns=time.monotonic_ns(), subject=f"{event.subject} on {name}" if event.subject else name)
            for name, events in events_by_name
            for event in events
        ]


@dataclass
class FleetSetup(RaceSetup):
    """What rounds share if servers and generators are other machines.

    Args:
        reopen: opens the race on all machines again after one was lost.
    """

    machines: Machines = field(kw_only=True)
    reopen: Callable[[], None] = field(kw_only=True)

    def __post_init__(self) -> None:
        #: Each generator's clock offset when the round began.
        self.offsets: dict[str, Offset] = {}
        #: For each run of the round: the tallies of its blocks, by generator.
        self.parts: list[Sequence[Sequence[Tally]]] = []
        #: Each machine's traffic in the same runs.
        self.traffic: dict[str, list[Traffic]] = defaultdict(list)

    def for_workload(self, workload: Workload, rate_per_s: float) -> RaceSetup:
        """The same machines for another workload, or another rate.

        Raises:
            BadUsage: it queries a database, which no machine of a fleet has.
        """
        refuse_database(workload)
        return super().for_workload(workload, rate_per_s)

    def note_run(self, parts: Sequence[Sequence[Tally]], traffic: Mapping[str, Traffic]) -> None:
        """A run's tallies by generator, and each machine's traffic; the record keeps a round's."""
        if any(tally.lead_ns for part in parts for tally in part):  # tallies of warm-ups have no lead-in
            self.parts.append(parts)
            for name, reading in traffic.items():
                self.traffic[name].append(reading)

    def stand_by(self, entries: Iterable[Entry]) -> None:
        sent = [SentEntry.of(entry) for entry in entries if entry.url is None]
        self.machines.server.channel.ask(ServerDuties.stand_by, sent)

    def launch(self, entry: Entry) -> LaunchedServer:
        """Starts a contender on the servers' machine and waits for its first correct response."""
        if entry.url is not None:
            running = AtAddress(entry.url.host, entry.url.port)
            return LaunchedServer(entry=entry, running=running, own_count=None)
        channel = self.machines.server.channel
        launching = channel.begin(ServerDuties.launch, SentEntry.of(entry), SentWorkload.of(self.workload))
        started = launching(2 * entry.wake_s + REPLY_S)
        server = RemoteServer(channel, started)
        return LaunchedServer(entry=entry, running=server, own_count=None, drawn_by=started.drawn_by)

    def connect(self, launched: LaunchedServer) -> int:
        """Opens the round's connections from all generators; returns the session."""
        running = launched.running
        number = running.number if isinstance(running, RemoteServer) else None
        engine, asking = cast("RemoteEngine", self.engine), self._sent_asking(launched)
        try:
            return engine.open_at(running.host, running.port, number, asking)
        except EngineRefusal as error:
            if error.kind == "descriptors":
                raise EngineFailure(str(error)) from error  # too few on a generator: not the contender's fault
            words = launched.last_words()
            raise StageError(f"{launched.name}: {error}; its last words: {words}") from error

    def prove(self, launched: LaunchedServer) -> Findings:
        """Has the first generator check a contender's responses."""
        proof = self._proof(GeneratorDuties.prove, launched, 2 * CORRECTNESS_S + REPLY_S)
        return Findings(problems=proof.problems, facts=dict(proof.facts))

    def connection_facts(self, launched: LaunchedServer) -> dict[str, parity.Fact]:
        return dict(self._proof(GeneratorDuties.connection_facts, launched, 120.0 + REPLY_S).facts)

    def _proof(self, duty: Callable[..., ProofReply], launched: LaunchedServer, within_s: float) -> ProofReply:
        running, channel = launched.running, self.machines.generators[0].channel
        return channel.begin(duty, asking=self._sent_asking(launched), host=running.host, port=running.port)(within_s)

    def _sent_asking(self, launched: LaunchedServer) -> SentAsking:
        asked = self.asking(launched)
        return SentAsking(
            workload=SentWorkload.of(self.workload), mark=asked.mark, own_form=asked.own_form, framed=asked.framed,
            path=asked.path,
            drawn_by=launched.drawn_by,
            cacert=launched.running.cacert if isinstance(launched.running, RemoteServer) else "",
        )  # fmt: skip

    def count_from_now(self, launched: LaunchedServer) -> Callable[[], int | None]:
        """Starts a contender's own count, on its own machine."""
        running, channel = launched.running, self.machines.server.channel
        if not isinstance(running, RemoteServer):
            return lambda: None
        channel.ask(ServerDuties.begin_count, running.number)
        return lambda: channel.ask(ServerDuties.end_count, running.number)

    def watch(self, running: Running, session: int) -> None:
        """Has the observer read a contender's CPU time; the session's marks name the contender."""
        if isinstance(running, RemoteServer):
            try:
                running.watch()
            except EngineRefusal:
                if running.alive():
                    raise

    def surroundings(self) -> FleetSurroundings:
        return FleetSurroundings(self.machines)

    def wait_for_quiet(self, *, busy_below: float, at_most_s: float) -> None:
        """Does not wait: no other race runs on a fleet's machines."""

    def begin_round(self) -> None:
        """Compares every generator's clock with the observer's."""
        self.parts.clear()
        self.traffic.clear()
        self.offsets.clear()
        self.offsets.update(self._measured())

    def end_round(self, record: Round) -> tuple[Round, Sequence[Event]]:
        """The round, void if clocks have drifted apart; and each generator's share of it."""
        after = self._measured()
        events, drifts = list[Event](), [0]
        for index, generator in enumerate(self.machines.generators):
            first, last = self.offsets[generator.name], after[generator.name]
            drift_ns = abs((last.offset_ns or 0) - (first.offset_ns or 0))
            # An exchange itself may be wrong by half of its round trip.
            unsure_ns = (first.round_trip_ns + last.round_trip_ns) // 2
            drifts.append(max(drift_ns - unsure_ns, 0) if unsure_ns > MAX_DRIFT_NS else drift_ns)
            numbers = _share([tally for parts in self.parts for tally in parts[index]])
            numbers |= {"offset_ns": last.offset_ns or 0, "drift_ns": drift_ns, "round_trip_ns": last.round_trip_ns}
            events.append(event(EventKind.GENERATOR, generator.name, "", **numbers))
        events += self._links()
        if len(self.machines.generators) > 1 and max(drifts) > MAX_DRIFT_NS:
            apart = Void(kind=VoidKind.CLOCKS_APART, numbers={"drift_ns": max(drifts), "most_ns": MAX_DRIFT_NS})
            record = replace(record, void=(*record.void, apart))
        return record, events

    def _links(self) -> Iterator[Event]:
        """The traffic of each machine's link in the round's runs, and the bytes and requests of its blocks."""
        tallies = [tally for parts in self.parts for part in parts for tally in part]
        loaded = {
            "bytes_in": sum(tally.bytes_in for tally in tallies),
            "requests": sum(tally.sent for tally in tallies),
        }
        for node in self.machines.all:
            numbers = summed(self.traffic[node.name]) | loaded
            yield event(EventKind.LINK, node.name, "", **numbers, serves=float(node is self.machines.server))

    def recover(self, lost: MachineLost) -> bool:
        """Waits for the machine; whether the race can go on."""
        if not self.machines.recover():
            return False
        try:
            self.reopen()
        except MachineLost:
            return False
        return True

    def _measured(self) -> dict[str, Offset]:
        def exchange(node: Connected) -> Offset:
            offset = node.channel.ask(GeneratorDuties.clock_offset, EXCHANGES)
            if offset.offset_ns is None:
                server = self.machines.server
                server.channel.begin(Duties.beat)(SERVER_S)  # raises if the servers' machine is gone
                raise MachineLost(node.name, f"the observer on {server.name} does not answer it; check the data link")
            return offset

        # Generators take turns: simultaneous exchanges would wait for each other.
        return {generator.name: exchange(generator) for generator in self.machines.generators}


def _share(tallies: Sequence[Tally]) -> dict[str, float]:
    """The counts of one generator in a round's blocks."""
    from dragstrip._engine import merge, quantiles

    numbers: dict[str, float] = {
        name: sum(getattr(tally, name) for tally in tallies) for name in ("requests", "answered", "sent")
    }
    late = [tally.lag_hdr for tally in tallies if tally.lag_hdr is not None]
    if late:
        numbers |= {name: sum(getattr(tally, name) or 0 for tally in tallies) for name in ("offered", "unsent")}
        numbers["lag_p99_ns"] = quantiles(bytes(merge(late)))[2]
    return numbers


#: A block begins this long after the last generator's mark: four of the longest round trips, within these bounds.
AHEAD_TRIPS, MIN_AHEAD_NS, MAX_AHEAD_NS = 4, 300_000, 50_000_000

#: Seconds that a contender's build may take; seconds that a machine may take to open or close a race.
BUILD_S, OPEN_S = 3660.0, 60.0


class FleetSite:
    """All machines of a fleet, as a ``racing.setup.Site``."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    def machines(self) -> dict[str, str]:
        return {node.name: node.identity for node in self._machines.all}

    def facts(self) -> Facts:
        """Facts of the servers' machine; ``machines`` has the facts of every machine."""
        facts_of = dict(self._machines.on_all(lambda node: (node.name, node.channel.ask(Duties.facts))))
        machines = {
            node.name: FleetMachine(
                **{field.name: getattr(facts_of[node.name], field.name) for field in fields(Inventory)},
                role=node.machine.role, address=node.machine.address,
                control_round_trip_ns=node.clock.round_trip_ns,
            )
            for node in self._machines.all
        }  # fmt: skip
        return replace(facts_of[self._machines.server.name], fleet=self.machines(), machines=machines)

    def with_profile(self, facts: Facts, store: Path, lanes: Lanes) -> Facts:
        """The same facts, because these machines were not examined here."""
        return facts

    def lanes(self, server: str | None, engine: str | None) -> Lanes:
        """Each machine's cores; for generators, the first generator's."""
        servers, first = self._machines.server, self._machines.generators[0]
        return Lanes(self._cores(servers).server, self._cores(first).engine, shared=False, note="")

    def check(self, entry: Entry) -> Ready | Missing:
        """Whether a contender is installed on the servers' machine."""
        if entry.url is not None and (entry.url.secure or entry.url.authority):
            return Missing(f"{entry.url.url} has a certificate's or a site's own name", "leave --fleet out")
        if entry.url is not None:
            return Ready("running", {})
        if entry.container is not None:
            return Missing("a container's network can't be reached from another machine", "leave --fleet out")
        state = self._server.begin(ServerDuties.check, SentEntry.of(entry))(60.0)
        if isinstance(state, Missing):
            return Missing(f"on {self._server.name}: {state.reason}", state.remedy)
        return state

    def pending_build(self, entry: Entry) -> tuple[str, ...] | None:
        if entry.url is not None:
            return None
        return self._server.begin(ServerDuties.pending_build, SentEntry.of(entry))(60.0)

    def build(self, entry: Entry) -> Path | None:
        if entry.url is None:
            self._server.begin(ServerDuties.build, SentEntry.of(entry))(BUILD_S)
        return None

    @contextlib.contextmanager
    def race_setup(
        self, workload: Workload, load: Load, lanes: Lanes, seed: int, io: str, keep: str, wait: str
    ) -> Iterator[RaceSetup]:
        """Opens the race on every machine; closes it at the end, whatever happens.

        Raises:
            BadUsage: more generators than connections. EngineFailure: a generator's engine can't run.
        """
        refuse_database(workload)
        with self.open_race(load, seed=seed, io=io, keep=keep, wait=wait) as (opened, reopen):
            engine = RemoteEngine(
                self._machines, load, [opened[generator.name] for generator in self._machines.generators]
            )
            # Nothing is launched here: the agent on the servers' machine has its own.
            none = Launching(lanes.server, Path("/nonexistent"), contextlib.ExitStack(), seed)
            setup = FleetSetup(
                cast("Engine", engine), lanes, load, workload, none, seed,
                awake=FleetAwake(self._machines, opened), observed=True, machines=self._machines, reopen=reopen,
            )  # fmt: skip
            engine.observed = setup.note_run
            yield setup

    @contextlib.contextmanager
    def open_race(
        self, load: Load, *, seed: int, io: str, keep: str, wait: str
    ) -> Iterator[tuple[Mapping[str, Opened], Callable[[], None]]]:
        """Keeps observer and engines open; yields each machine's reply, and a function that opens them all again.

        Raises:
            BadUsage: more generators than connections. EngineFailure: a generator's engine can't run.
        """
        count = len(self._machines.generators)
        if load.connections < count:
            raise BadUsage(
                f"--connections {load.connections}: each of {count} generators needs at least one; give {count} or more"
            )
        opened: dict[str, Opened] = {}

        def reopen() -> None:
            opened.clear()
            opened.update(self._opened(load, seed, io, wait, keep_cores_awake=keep != OFF))

        try:
            reopen()
            yield opened, reopen
        except EngineRefusal as error:
            raise EngineFailure(f"the load engine: {error}") from error
        finally:
            self._closed()

    def _opened(self, load: Load, seed: int, io: str, wait: str, *, keep_cores_awake: bool) -> dict[str, Opened]:
        """Opens the race on every machine: first the observer, because every generator sends marks to it."""
        token, server = secrets.token_hex(16), self._machines.server
        address = server.machine.address
        opening = server.channel.begin(
            ServerDuties.open, seed=seed, cores=self._cores(server).server, address=address, token=token,
            keep_cores_awake=keep_cores_awake,
        )  # fmt: skip
        opened = {server.name: opening(OPEN_S)}

        def begin(node: Connected) -> tuple[str, Opened]:
            opening = node.channel.begin(
                GeneratorDuties.open, load=load, seed=seed, cores=self._cores(node).engine, io=io, wait=wait,
                keep_cores_awake=keep_cores_awake,
            )  # fmt: skip
            return node.name, opening(OPEN_S)

        opened |= dict(self._machines.on_all(begin, self._machines.generators))
        port = opened[server.name].port
        trips_ns = self._set_marks(port, address, token, ahead_ns=0)
        ahead_ns = min(max(AHEAD_TRIPS * max(trips_ns), MIN_AHEAD_NS), MAX_AHEAD_NS)
        self._set_marks(port, address, token, ahead_ns=ahead_ns)
        return opened

    def _set_marks(self, port: int, address: str, token: str, ahead_ns: int) -> list[int]:
        """Has each generator send its marks to the observer; returns how long its fastest exchange took.

        Raises:
            MachineLost: the observer does not answer one of them.
        """
        trips_ns = list[int]()
        for index, generator in enumerate(self._machines.generators):
            generator.channel.ask(
                GeneratorDuties.mark, host=address, port=port, token=token, generator=index,
                generators=len(self._machines.generators), ahead_ns=ahead_ns,
            )  # fmt: skip
            offset = generator.channel.ask(GeneratorDuties.clock_offset, EXCHANGES)
            if offset.offset_ns is None:
                self._server.begin(Duties.beat)(SERVER_S)  # raises if the servers' machine is gone
                raise MachineLost(
                    generator.name,
                    f"the observer at {address}, UDP port {port}, does not answer it; does a firewall block it?",
                )
            trips_ns.append(offset.round_trip_ns)
        return trips_ns

    def _closed(self) -> None:
        def end(node: Connected) -> None:
            with contextlib.suppress(MachineLost):
                node.channel.begin(Duties.close)(OPEN_S)

        self._machines.on_all(end)

    def _cores(self, node: Connected) -> CoreSets:
        try:
            return node.channel.ask(Duties.core_sets, node.machine.cores)
        except BadUsage as error:
            raise BadUsage(f"{self._machines.fleet.file}: {node.name}: {error}") from error

    @property
    def _server(self) -> Channel:
        return self._machines.server.channel
