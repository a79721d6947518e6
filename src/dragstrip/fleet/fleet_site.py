"""A fleet as the site of a race: what ``racing`` asks of its machines before and after, asked of their agents."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dragstrip.contender import Entry, Missing, Ready
from dragstrip.errors import BadUsage, EngineFailure, MachineLost
from dragstrip.fleet.channel import Channel, EngineRefusal
from dragstrip.fleet.duties import Duties
from dragstrip.fleet.generator_duties import GeneratorDuties
from dragstrip.fleet.machines import Connected, Machines
from dragstrip.fleet.messages import CoreSets, Opened, SentEntry
from dragstrip.fleet.remote_engine import SERVER_S, RemoteEngine
from dragstrip.fleet.server_duties import ServerDuties
from dragstrip.fleet.setup import EXCHANGES, FleetAwake, FleetSetup, refuse_database
from dragstrip.machine import Lanes
from dragstrip.machine_facts import Facts, FleetMachine, Inventory
from dragstrip.process.keep_awake import OFF
from dragstrip.racing.launching import Launching
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import Load
from dragstrip.workload import Workload

if TYPE_CHECKING:
    from dragstrip._engine import Engine

#: After the last generator's mark a block begins so much later than an answer takes: four of the longest round trips.
AHEAD_TRIPS, MIN_AHEAD_NS, MAX_AHEAD_NS = 4, 300_000, 50_000_000

#: Seconds that a contender's build may take; that a machine may take to open a race, and to close it.
BUILD_S, OPEN_S = 960.0, 60.0


class FleetSite:
    """All machines of a fleet, as ``racing.site.Site`` has it."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    def machines(self) -> dict[str, str]:
        """Name and identity of each."""
        return {one.name: one.identity for one in self._machines.all}

    def facts(self) -> Facts:
        """The servers' machine's, and below ``machines`` those of all."""
        found = dict(self._machines.on_all(lambda one: (one.name, one.channel.ask(Duties.facts))))
        machines = {
            one.name: FleetMachine(
                **{field.name: getattr(found[one.name], field.name) for field in fields(Inventory)},
                role=one.machine.role, address=one.machine.address, control_round_trip_ns=one.clock.round_trip_ns,
            )
            for one in self._machines.all
        }  # fmt: skip
        return replace(found[self._machines.server.name], fleet=self.machines(), machines=machines)

    def with_profile(self, facts: Facts, store: Path, lanes: Lanes) -> Facts:
        """The same facts: these machines were not examined here."""
        return facts

    def lanes(self, server: str | None, engine: str | None) -> Lanes:
        """Each machine's cores; those of the first generator stand for all."""
        own, first = self._machines.server, self._machines.generators[0]
        return Lanes(self._cores(own).server, self._cores(first).engine, shared=False, note="")

    def check(self, entry: Entry) -> Ready | Missing:
        """Whether a contender is installed on the servers' machine."""
        if entry.url is not None:
            return Ready("running", {})
        state = self._server.begin(ServerDuties.check, SentEntry.of(entry))(60.0)
        if isinstance(state, Missing):
            return Missing(f"on {self._server.name}: {state.reason}", state.remedy)
        return state

    def pending_build(self, entry: Entry) -> tuple[str, ...] | None:
        """What is to be built of it there."""
        if entry.url is not None:
            return None
        return self._server.begin(ServerDuties.pending_build, SentEntry.of(entry))(60.0)

    def build(self, entry: Entry) -> Path | None:
        """Builds it there."""
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
        """Keeps observer and engines open; yields each machine's reply, and a function that opens all again.

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
        """Opens the race on every machine: the observer first, to which every generator's marks go."""
        token, server = secrets.token_hex(16), self._machines.server
        address = server.machine.address
        opening = server.channel.begin(
            ServerDuties.open, seed=seed, cores=self._cores(server).server, address=address, token=token,
            keep_cores_awake=keep_cores_awake,
        )  # fmt: skip
        opened = {server.name: opening(OPEN_S)}

        def begin(one: Connected) -> tuple[str, Opened]:
            opening = one.channel.begin(
                GeneratorDuties.open, load=load, seed=seed, cores=self._cores(one).engine, io=io, wait=wait,
                keep_cores_awake=keep_cores_awake,
            )  # fmt: skip
            return one.name, opening(OPEN_S)

        opened |= dict(self._machines.on_all(begin, self._machines.generators))
        self._mark(opened[server.name].port, address, token)
        return opened

    def _mark(self, port: int, address: str, token: str) -> None:
        """Has every generator send its sync messages there; their round trips set how early a begin is announced."""
        trips_ns = self._marked(port, address, token, ahead_ns=0)
        ahead_ns = min(max(AHEAD_TRIPS * max(trips_ns), MIN_AHEAD_NS), MAX_AHEAD_NS)
        self._marked(port, address, token, ahead_ns=ahead_ns)

    def _marked(self, port: int, address: str, token: str, ahead_ns: int) -> list[int]:
        """Has each send its marks there, and says how long its quickest exchange took.

        Raises:
            MachineLost: the observer does not answer one of them.
        """
        trips_ns = list[int]()
        for at, one in enumerate(self._machines.generators):
            one.channel.ask(
                GeneratorDuties.mark, host=address, port=port, token=token, generator=at,
                generators=len(self._machines.generators), ahead_ns=ahead_ns,
            )  # fmt: skip
            offset = one.channel.ask(GeneratorDuties.clock_offset, EXCHANGES)
            if offset.offset_ns is None:
                self._server.begin(Duties.beat)(SERVER_S)  # raises if it is that one that is gone
                raise MachineLost(
                    one.name, f"the observer at {address}, UDP port {port}, does not answer it; is the way there free?"
                )
            trips_ns.append(offset.round_trip_ns)
        return trips_ns

    def _closed(self) -> None:
        def end(one: Connected) -> None:
            with contextlib.suppress(MachineLost):
                one.channel.begin(Duties.close)(OPEN_S)

        self._machines.on_all(end)

    def _cores(self, one: Connected) -> CoreSets:
        try:
            return one.channel.ask(Duties.core_sets, one.machine.cores)
        except BadUsage as error:
            raise BadUsage(f"{self._machines.fleet.file}: {one.name}: {error}") from error

    @property
    def _server(self) -> Channel:
        return self._machines.server.channel
