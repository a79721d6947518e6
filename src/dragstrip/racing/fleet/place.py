"""A fleet as the place of a race: what ``racing`` asks of its machines, asked of their agents."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dragstrip import parity
from dragstrip.contender import Entry, Missing, Ready
from dragstrip.errors import BadUsage, EngineFailure, MachineLost, StageError
from dragstrip.machine import Lanes
from dragstrip.process.keep_awake import OFF, Awake
from dragstrip.process.running import AtAddress, Running
from dragstrip.racing.fleet.channel import Channel, EngineRefusal
from dragstrip.racing.fleet.machines import Connected, Machines
from dragstrip.racing.fleet.messages import (
    AllSeen,
    Command,
    Counted,
    Divided,
    Facts,
    Nothing,
    Offset,
    Opened,
    Proof,
    State,
    Tally,
    Traffic,
    Up,
)
from dragstrip.racing.fleet.meter import summed
from dragstrip.racing.fleet.opening import asking_values, load_values, workload_values
from dragstrip.racing.fleet.remote_engine import SERVER_S, RemoteEngine
from dragstrip.racing.fleet.remote_engine import Place as At
from dragstrip.racing.fleet.remote_server import RemoteServer
from dragstrip.racing.fleet.server_duties import entry_values
from dragstrip.racing.launched import Launched
from dragstrip.racing.launching import Launching
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import Event, EventKind, Load, Round, Void, VoidKind
from dragstrip.scrutiny import CORRECTNESS_S, Findings
from dragstrip.workload import Workload

if TYPE_CHECKING:
    from dragstrip._engine import Engine

#: Exchanges by which a generator's clock is held against the observer's: the quickest of them counts.
EXCHANGES = 100

#: A generator's clock may drift so far from the observer's in one round: blocks then begin at one instant still.
MOST_DRIFT_NS = 50_000

#: After the last generator's mark a block begins so much later than an answer takes: four of the longest round trips.
AHEAD_TRIPS, AHEAD_LEAST_NS, AHEAD_MOST_NS = 4, 300_000, 50_000_000

#: Seconds beyond its own limit that a contender's launch, proof or build may take to be told here.
MORE_S = 30.0
BUILD_S = 960.0


def refuse_database(workload: Workload) -> None:
    """No machine of a fleet has the role of a database.

    Raises:
        BadUsage: the workload asks one.
    """
    if workload.asks_database:
        raise BadUsage(f"workload {workload.name} asks a database, which a fleet has not; race it without --fleet")


class FleetAwake(Awake):
    """What keeps all machines' cores awake; off where nothing was found to do on any of them."""

    def __init__(self, machines: Machines, opened: Mapping[str, Opened]) -> None:
        told = {f"{name}: {one.awake}" for name, one in opened.items()}
        way = next((one.way for one in opened.values() if one.way), None)
        super().__init__("; ".join(sorted(told)) if way else OFF, way)
        self._machines = machines

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """The cores stay awake for as long as this lasts."""
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
        server = self._machines.server

        def order(one: Connected) -> None:
            one.channel.ask("server_awake" if one is server else "generator_awake", Nothing, on=on)

        self._machines.on_all(order)


@dataclass
class FleetSurroundings:
    """Compares every machine before and after each round."""

    machines: Machines

    def before(self) -> None:
        """A round is about to begin."""
        self.machines.on_all(lambda one: one.channel.ask(f"{self._role(one)}_before", Nothing))

    def after(self) -> list[Event]:
        """What all machines did meanwhile; whose it was stands before what is named."""
        found = self.machines.on_all(lambda one: (one.name, one.channel.ask(f"{self._role(one)}_after", AllSeen)))
        events = list[Event]()
        for name, seen in found:
            for one in seen.events:
                kind = EventKind(one.kind) if one.kind in set(EventKind) else EventKind.OTHER
                subject = f"{one.subject} on {name}" if one.subject else name
                at_ns = time.monotonic_ns()
                events.append(Event(at_ns=at_ns, kind=kind, subject=subject, numbers=one.numbers))
        return events

    def _role(self, one: Connected) -> str:
        return "server" if one is self.machines.server else "generator"


@dataclass
class FleetSetup(RaceSetup):
    """What rounds share, where each part of it is another machine's affair.

    Args:
        reopen: opens the race on all machines anew, after one was lost.
    """

    machines: Machines = field(kw_only=True)
    reopen: Callable[[], None] = field(kw_only=True)

    def __post_init__(self) -> None:
        #: Each generator's, as they were when the round began.
        self.offsets: dict[str, Offset] = {}
        #: Of each run of the round: the tallies of its blocks, by generator.
        self.parts: list[Sequence[Sequence[Tally]]] = []
        #: Of the same runs, each machine's traffic.
        self.traffic: dict[str, list[Traffic]] = defaultdict(list)

    def at(self, workload: Workload, rate_per_s: float) -> RaceSetup:
        """The same machines for another workload, or another rate.

        Raises:
            BadUsage: it asks a database, which no machine of a fleet has.
        """
        refuse_database(workload)
        return super().at(workload, rate_per_s)

    def saw(self, parts: Sequence[Sequence[Tally]], traffic: Mapping[str, Traffic]) -> None:
        """A run's tallies by generator, and each machine's traffic; those of a round are kept for its record."""
        if any(tally.lead_ns for part in parts for tally in part):  # those of warm-ups have no lead-in
            self.parts.append(parts)
            for name, own in traffic.items():
                self.traffic[name].append(own)

    def stand_by(self, entries: Iterable[Entry]) -> None:
        """Starts the supervisors of contenders that will be launched."""
        told = [entry_values(entry) for entry in entries if entry.url is None]
        self.machines.server.channel.ask("stand_by", Nothing, entries=told)

    def launch(self, entry: Entry) -> Launched:
        """Starts a contender on the servers' machine and waits for its first right answer."""
        if entry.url is not None:
            at = AtAddress(entry.url.host, entry.url.port)
            return Launched(entry=entry, running=at, own_count=None)
        wake_s = entry.contender.fields.start.wake_s if entry.contender is not None else 10.0
        channel = self.machines.server.channel
        up = channel.ask(
            "launch", Up, 2 * wake_s + MORE_S, entry=entry_values(entry), workload=workload_values(self.workload)
        )
        return Launched(entry=entry, running=RemoteServer(channel, up), own_count=None, drawn_by=up.drawn_by)

    def connect(self, launched: Launched) -> int:
        """Opens the round's connections from all generators; returns the session."""
        running = launched.running
        number = running.number if isinstance(running, RemoteServer) else None
        at = At(running.host, running.port, number, self._asking(launched))
        try:
            return cast("RemoteEngine", self.engine).open_place(at)
        except EngineRefusal as error:
            if error.kind == "descriptors":
                raise EngineFailure(str(error)) from error  # a generator's are too few: no fault of this contender's
            words = launched.last_words()
            raise StageError(f"{launched.name}: {error}; its last words: {words}") from error

    def prove(self, launched: Launched) -> Findings:
        """Has a contender prove its answers to the first generator."""
        proof = self._asked("prove", launched, 2 * CORRECTNESS_S + MORE_S)
        return Findings(problems=tuple(proof.problems), facts=dict(proof.facts))

    def connection_facts(self, launched: Launched) -> dict[str, parity.Fact]:
        """What it does with connections."""
        return dict(self._asked("connection_facts", launched, 120.0 + MORE_S).facts)

    def _asked(self, what: str, launched: Launched, within_s: float) -> Proof:
        at = launched.running
        channel = self.machines.generators[0].channel
        return channel.ask(what, Proof, within_s, asking=self._asking(launched), host=at.host, port=at.port)

    def _asking(self, launched: Launched) -> dict[str, Any]:
        cacert = launched.running.cacert if isinstance(launched.running, RemoteServer) else ""
        return asking_values(self.workload, launched.entry, launched.drawn_by, cacert)

    def count_from_now(self, launched: Launched) -> Callable[[], int | None]:
        """What it counts itself, asked on its own machine."""
        running, channel = launched.running, self.machines.server.channel
        if not isinstance(running, RemoteServer):
            return lambda: None
        channel.ask("count_begin", Nothing, number=running.number)
        return lambda: channel.ask("count_end", Counted, number=running.number).requests

    def watch(self, running: Running, session: int) -> None:
        """Has the observer read its CPU time; the session's marks name it."""
        if isinstance(running, RemoteServer):
            try:
                running.watch()
            except EngineRefusal:
                if running.alive():
                    raise

    def surroundings(self) -> FleetSurroundings:
        """Every machine."""
        return FleetSurroundings(self.machines)

    def wait_for_quiet(self, *, busy_below: float, at_most_s: float) -> None:
        """Not waited for: nobody else races on a fleet's machines."""

    def begin_round(self) -> None:
        """Holds every generator's clock against the observer's."""
        self.parts.clear()
        self.traffic.clear()
        self.offsets.clear()
        self.offsets.update(self._measured())

    def end_round(self, record: Round) -> tuple[Round, Sequence[Event]]:
        """The round, void where clocks have drifted apart; and each generator's share of it."""
        after = self._measured()
        events, drifts = list[Event](), [0]
        for at, one in enumerate(self.machines.generators):
            first, last = self.offsets[one.name], after[one.name]
            drift_ns = abs((last.offset_ns or 0) - (first.offset_ns or 0))
            # Half of the round trip is what an exchange itself may be wrong by.
            unsure_ns = (first.round_trip_ns + last.round_trip_ns) // 2
            drifts.append(max(drift_ns - unsure_ns, 0) if unsure_ns > MOST_DRIFT_NS else drift_ns)
            numbers = _share([tally for parts in self.parts for tally in parts[at]])
            numbers |= {"offset_ns": last.offset_ns or 0, "drift_ns": drift_ns, "round_trip_ns": last.round_trip_ns}
            events.append(Event(at_ns=time.monotonic_ns(), kind=EventKind.GENERATOR, subject=one.name, numbers=numbers))
        events += self._links()
        if len(self.machines.generators) > 1 and max(drifts) > MOST_DRIFT_NS:
            apart = Void(kind=VoidKind.CLOCKS_APART, numbers={"drift_ns": max(drifts), "most_ns": MOST_DRIFT_NS})
            record = replace(record, void=(*record.void, apart))
        return record, events

    def _links(self) -> Iterator[Event]:
        """What each machine's link did in the round's runs, with the blocks' own bytes and requests beside it."""
        tallies = [tally for parts in self.parts for part in parts for tally in part]
        loaded = {"bytes_in": sum(one.bytes_in for one in tallies), "requests": sum(one.sent for one in tallies)}
        for one in self.machines.all:
            numbers = summed(self.traffic[one.name]) | loaded | {"serves": float(one is self.machines.server)}
            yield Event(at_ns=time.monotonic_ns(), kind=EventKind.LINK, subject=one.name, numbers=numbers)

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
        def exchange(one: Connected) -> Offset:
            offset = one.channel.ask("clock_offset", Offset, exchanges=EXCHANGES)
            if offset.offset_ns is None:
                server = self.machines.server
                server.channel.ask("beat", Nothing, SERVER_S)  # raises if it is that one that is gone
                raise MachineLost(one.name, f"the observer on {server.name} does not answer it; see the data link")
            return offset

        # One after the other: exchanges of two at once would wait for each other.
        return {one.name: exchange(one) for one in self.machines.generators}


def _share(tallies: Sequence[Tally]) -> dict[str, float]:
    """What one generator did in a round's blocks."""
    from dragstrip._engine import merge, quantiles

    numbers: dict[str, float] = {
        name: sum(getattr(tally, name) for tally in tallies) for name in ("requests", "answered", "sent")
    }
    late = [tally.lag_hdr for tally in tallies if tally.lag_hdr is not None]
    if late:
        numbers |= {name: sum(getattr(tally, name) or 0 for tally in tallies) for name in ("offered", "unsent")}
        numbers["lag_p99_ns"] = quantiles(bytes(merge(late)))[2]
    return numbers


class FleetPlace:
    """All machines of a fleet, as ``racing.place.Place`` has it."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    def machines(self) -> dict[str, str]:
        """Name and identity of each."""
        return {one.name: one.identity for one in self._machines.all}

    def facts(self) -> dict[str, Any]:
        """The servers' machine's, and below ``machines`` those of all."""
        found = dict(self._machines.on_all(lambda one: (one.name, one.channel.ask("facts", Facts).facts)))
        beside = {
            one.name: found[one.name]
            | {
                "role": one.machine.role,
                "address": one.machine.address,
                "control_round_trip_ns": one.clock.round_trip_ns,
            }
            for one in self._machines.all
        }
        return found[self._machines.server.name] | {"fleet": self.machines(), "machines": beside}

    def profile(self, store: Path, facts: Mapping[str, Any], lanes: Lanes) -> dict[str, Any]:
        """None: these machines were not examined here."""
        return {}

    def lanes(self, server: str | None, engine: str | None) -> Lanes:
        """Each machine's cores; those of the first generator stand for all."""
        own, first = self._machines.server, self._machines.generators[0]
        return Lanes(tuple(self._cores(own).server), tuple(self._cores(first).engine), shared=False, note="")

    def check(self, entry: Entry) -> Ready | Missing:
        """Whether a contender is installed on the servers' machine."""
        if entry.url is not None:
            return Ready("running", {})
        state = self._server.ask("check", State, 60.0, entry=entry_values(entry))
        if state.ready:
            return Ready(state.version, {})
        return Missing(f"on {self._server.name}: {state.reason}", state.remedy)

    def pending_build(self, entry: Entry) -> tuple[str, ...] | None:
        """What is to be built of it there."""
        if entry.url is not None:
            return None
        return tuple(self._server.ask("pending_build", Command, 60.0, entry=entry_values(entry)).words) or None

    def build(self, entry: Entry) -> Path | None:
        """Builds it there."""
        if entry.url is None:
            self._server.ask("build", Nothing, BUILD_S, entry=entry_values(entry))
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
            first = opened[self._machines.generators[0].name]
            threads = [opened[one.name].threads for one in self._machines.generators]
            seen: list[FleetSetup] = []
            engine = RemoteEngine(
                self._machines, load, threads, io=first.io, backend=first.backend, wait=first.wait,
                stamps=first.stamps, observed=lambda *run: seen[0].saw(*run),
            )  # fmt: skip
            # Never launched from here: the agent on the servers' machine has its own.
            none = Launching(lanes.server, Path("/nonexistent"), contextlib.ExitStack(), seed)
            setup = FleetSetup(
                cast("Engine", engine), lanes, load, workload, none, seed,
                awake=FleetAwake(self._machines, opened), observed=True, machines=self._machines, reopen=reopen,
            )  # fmt: skip
            seen.append(setup)
            yield setup

    @contextlib.contextmanager
    def open_race(
        self, load: Load, *, seed: int, io: str, keep: str, wait: str
    ) -> Iterator[tuple[Mapping[str, Opened], Callable[[], None]]]:
        """Observer and engines are there for as long as this lasts; what each machine said, and what opens all anew.

        Raises:
            BadUsage: more generators than connections. EngineFailure: a generator's engine can't run.
        """
        count = len(self._machines.generators)
        if load.connections < count:
            raise BadUsage(f"--connections {load.connections}: {count} generators want one each at least; give {count}")
        asked = {"seed": seed, "keep_cores_awake": keep != OFF}
        opened: dict[str, Opened] = {}

        def reopen() -> None:
            opened.clear()
            opened.update(self._opened(asked, load_values(load), io, wait))

        try:
            reopen()
            yield opened, reopen
        except EngineRefusal as error:
            raise EngineFailure(f"the load engine: {error}") from error
        finally:
            self._closed()

    def _opened(self, asked: Mapping[str, Any], load: Mapping[str, Any], io: str, wait: str) -> dict[str, Opened]:
        """Opens the race on every machine: the observer first, to which every generator's marks go."""
        token, server = secrets.token_hex(16), self._machines.server
        address = server.machine.address
        opened = {
            server.name: server.channel.ask(
                "open_server", Opened, 60.0, cores=self._cores(server).server, address=address, token=token, **asked
            )
        }

        def begin(one: Connected) -> tuple[str, Opened]:
            cores = self._cores(one).engine
            engine = {
                "cores": cores,
                "io": io,
                "wait": wait,
                "load": {**load, "threads": min(load["threads"], len(cores))},
            }
            return one.name, one.channel.ask("open_generator", Opened, 60.0, **engine, **asked)

        opened |= dict(self._machines.on_all(begin, self._machines.generators))
        self._mark(opened[server.name].port, address, token)
        return opened

    def _mark(self, port: int, address: str, token: str) -> None:
        """Has every generator send its marks there; how early a common begin is told, their round trips say."""
        generators = self._machines.generators
        trips = list[int]()
        for ahead_ns in (0, -1):
            for at, one in enumerate(generators):
                ahead = ahead_ns if ahead_ns == 0 else min(max(AHEAD_TRIPS * max(trips), AHEAD_LEAST_NS), AHEAD_MOST_NS)
                one.channel.ask(
                    "marker", Nothing, ahead_ns=ahead, host=address, port=port, token=token, generator=at,
                    generators=len(generators),
                )  # fmt: skip
                offset = one.channel.ask("clock_offset", Offset, exchanges=EXCHANGES)
                if offset.offset_ns is None:
                    self._server.ask("beat", Nothing, SERVER_S)  # raises if it is that one that is gone
                    raise MachineLost(
                        one.name,
                        f"the observer at {address}, UDP port {port}, does not answer it; is the way there free?",
                    )
                trips.append(offset.round_trip_ns)

    def _closed(self) -> None:
        def end(one: Connected) -> None:
            with contextlib.suppress(MachineLost):
                one.channel.ask("close_server" if one is self._machines.server else "close_generator", Nothing, 60.0)

        self._machines.on_all(end)

    def _cores(self, one: Connected) -> Divided:
        return one.channel.ask("lanes", Divided, cores=one.machine.cores)

    @property
    def _server(self) -> Channel:
        return self._machines.server.channel
