"""What an agent does on a generator's machine: runs blocks, marks idle points, asks contenders for proofs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragstrip import parity
from dragstrip.errors import StageError
from dragstrip.fleet import messages
from dragstrip.fleet.load_there import LoadThere
from dragstrip.fleet.messages import (
    LoadRan,
    LoadReady,
    LoadSlice,
    Nothing,
    Offset,
    Opened,
    Proof,
    Reply,
    Session,
    Tallies,
)
from dragstrip.fleet.meter import Meter
from dragstrip.fleet.round_duties import RoundDuties, keep
from dragstrip.fleet.sent import asking_of, encryption_of, load_of, request_of
from dragstrip.machine.link import device_towards
from dragstrip.process import launcher
from dragstrip.process.keep_awake import Awake
from dragstrip.racing.machine_events import MachineMonitor
from dragstrip.racing.proving import connection_facts, prove
from dragstrip.racing.setup import block_plan
from dragstrip.record import Load
from dragstrip.scrutiny import TROUBLE, Encryption, Server, describe_error, reference_heads, with_own_form
from dragstrip.workload import HOST, Asking

if TYPE_CHECKING:
    from dragstrip._engine import Engine, Marker

_TALLY, _KIND = tuple(messages.Tally.model_fields), tuple(messages.KindTally.model_fields)


@dataclass
class _Race:
    """What is open for one race."""

    resources: ExitStack
    engine: Engine
    folder: Path
    load: Load
    seed: int
    cores: tuple[int, ...]
    awake: Awake
    watch: MachineMonitor
    meter: Meter
    marker: Marker | None = None
    loading: LoadThere | None = None
    held: ExitStack = field(default_factory=ExitStack)


class GeneratorDuties(RoundDuties[_Race]):
    """Those of a generator's machine; one race at a time."""

    def __init__(self) -> None:
        self._race: _Race | None = None
        self._opening = threading.Lock()
        #: A run is under way; whoever asked for it waits in silence. When the last one ended, ``time.monotonic``.
        self.busy, self.silent, self.ended_s = False, False, 0.0

    def duties(self) -> dict[str, Callable[..., Reply]]:
        """By the word that asks for each."""
        return {
            "open_generator": self.open,
            "marker": self.marker,
            "clock_offset": self.clock_offset,
            "open_session": self.open_session,
            "close_session": self.close_session,
            "observe": self.observe,
            "run": self.run,
            "stop_run": self.stop_run,
            "load_ready": self.load_ready,
            "load_run": self.load_run,
            "prove": self.prove,
            "connection_facts": self.connection_facts,
            "generator_before": self.before,
            "generator_after": self.after,
            "generator_awake": self.awake,
            "close_generator": self.close,
        }

    def open(
        self,
        *,
        load: Mapping[str, Any],
        seed: int,
        cores: list[int],
        io: str,
        wait: str,
        keep_cores_awake: bool,
    ) -> Opened:
        """Starts the engine on these cores."""
        from dragstrip._engine import Engine

        with self._opening:
            self.end()
            resources = ExitStack()
            try:
                asked = load_of(load)
                lane = tuple(cores)[: asked.threads]
                others = os.sched_getaffinity(0) - set(lane)
                if others:
                    os.sched_setaffinity(0, others)  # Python's threads stay off the engine's cores
                folder = resources.enter_context(launcher.scratch_root())
                wait, kept = keep(lane, wait, keep_cores_awake, resources)
                engine = Engine(list(lane), io=io, wait=wait)
                resources.callback(engine.shutdown)
                resources.callback(engine.stop)
            except BaseException:
                resources.close()
                raise
            self._race = _Race(
                resources, engine, folder, asked, seed, lane, kept, MachineMonitor(lane), Meter("", lane)
            )
            return Opened(
                awake=kept.text, way=kept.way, io=engine.io, backend=engine.backend, wait=engine.wait,
                stamps=engine.latency_stamps, threads=len(lane),
            )  # fmt: skip

    def marker(self, *, host: str, port: int, token: str, generator: int, generators: int, ahead_ns: int) -> Nothing:
        """Marks go there from now on."""
        from dragstrip._engine import Marker

        race = self._open()
        race.marker = Marker(
            host, port, bytes.fromhex(token), generator=generator, generators=generators, ahead_ns=ahead_ns
        )
        race.meter = Meter(device_towards(host), race.cores)
        return Nothing()

    def clock_offset(self, exchanges: int) -> Offset:
        """How far the observer's clock is ahead of ours; common begins are told by it from now on."""
        marker = self._open().marker
        found = marker.clock(exchanges) if marker is not None else None
        return Offset(offset_ns=found[0] if found else None, round_trip_ns=found[1] if found else 0)

    def open_session(
        self, *, asking: Mapping[str, Any], host: str, port: int, connections: int, turns: tuple[int, int]
    ) -> Session:
        """Opens this generator's share of the connections."""
        from dragstrip._engine import SessionPlan, Target, Tls

        race, asked = self._open(), self._asking(asking)
        load, tls = race.load, self._encryption(asking)
        try:
            server = Server(host, port, tls)
            exchanges = with_own_form(server, asked.exchanges(keepalive=load.keepalive, http=load.http))
            heads = reference_heads(server, exchanges)
        except TROUBLE as error:
            raise StageError(describe_error(error)) from error
        plan = SessionPlan(
            Target(host, port),
            exchanges,
            connections=connections,
            keepalive=load.keepalive,
            timeout_ns=load.timeout_ns,
            tls=Tls(HOST, cacert=tls.cacert, resume=asked.workload.tls == "resumed") if tls else None,
            pipelining=asked.workload.pipelining,
            by_length=asked.workload.by_length,
            sequence=asked.workload.sequence(exchanges, race.seed),
            heads=heads,
            streams=load.streams if asked.framed else None,
            turns=(turns[0], turns[1]),
        )
        return Session(session=race.engine.open(plan))

    def close_session(self, session: int) -> Nothing:
        """Closes its connections."""
        self._open().engine.close(session)
        return Nothing()

    def observe(self, session: int, server: int) -> Nothing:
        """Has the server's CPU time asked for around each of the session's blocks."""
        race = self._open()
        if race.marker is not None:
            race.engine.observe(session, race.marker, server)
        return Nothing()

    def run(self, *, blocks: list[Mapping[str, Any]], run: int) -> Tallies:
        """Runs blocks in one call of the engine."""
        race = self._open()
        if race.marker is not None:
            race.marker.begin(run)
        race.meter.begin()
        with self._running(silent=True):
            done = race.engine.run([block_plan(**block) for block in blocks], steal_cores=list(race.cores))
        return Tallies(tallies=[_tally(tally) for tally in done], traffic=race.meter.end())

    def stop_run(self) -> Nothing:
        """Ends a run that is under way."""
        self._open().engine.stop()
        return Nothing()

    def load_ready(
        self,
        *,
        request: Mapping[str, Any],
        cacert: str | None,
        turns: tuple[int, int],
        script_threads: tuple[int, int],
    ) -> LoadReady:
        """Learns the right answers to what ``dragstrip load`` asks, and opens this generator's connections."""
        race = self._open()
        asked = request_of(request)
        if cacert is not None:
            (race.folder / "cacert.pem").write_text(cacert, encoding="utf-8")
            asked = replace(asked, cacert=str(race.folder / "cacert.pem"))
        share, numbers = (turns[0], turns[1]), (script_threads[0], script_threads[1])
        race.loading = LoadThere(race.engine, race.marker, asked, race.cores, share, numbers)
        return race.loading.ready()

    def load_run(self, *, shown: bool, show: Callable[[LoadSlice], None]) -> LoadRan:
        """Loads, for as long as was asked; ``shown``: each second is told when it is over, as somebody looks."""
        loading = self._open().loading
        if loading is None:
            raise StageError("no load was made ready on this machine")
        with self._running(silent=False):
            return loading.run(show if shown else None)

    @contextmanager
    def _running(self, *, silent: bool) -> Iterator[None]:
        """A run; ``silent``: whoever asked for it says nothing until it is over."""
        self.busy, self.silent = True, silent
        try:
            yield
        finally:
            self.ended_s, self.busy, self.silent = time.monotonic(), False, False

    def prove(self, *, asking: Mapping[str, Any], host: str, port: int) -> Proof:
        """Has a contender prove its answers."""
        asked = self._asking(asking)
        load = replace(self._open().load, pipelining=asked.workload.pipelining)
        findings = prove(asked, load, Server(host, port, self._encryption(asking)))
        return Proof(problems=list(findings.problems), facts=parity.sheet_texts(findings.facts))

    def connection_facts(self, *, asking: Mapping[str, Any], host: str, port: int) -> Proof:
        """What a contender does with connections."""
        facts = connection_facts(self._asking(asking), Server(host, port, self._encryption(asking)))
        return Proof(problems=[], facts=parity.sheet_texts(facts))

    def _asking(self, values: Mapping[str, Any]) -> Asking:
        race = self._open()
        return asking_of(values, race.seed, race.folder)

    def _encryption(self, values: Mapping[str, Any]) -> Encryption | None:
        return encryption_of(values, self._open().folder)

    def close(self) -> Nothing:
        """The race is over."""
        self.end()
        return Nothing()

    def end(self) -> None:
        """Stops a run that is under way, and the engine."""
        race, self._race = self._race, None
        if race is not None:
            race.engine.stop()
            race.held.close()
            until = time.monotonic() + 2.0
            while self.busy and time.monotonic() < until:
                time.sleep(0.02)
            race.resources.close()


def _tally(tally: Any) -> messages.Tally:
    """A block's tally as it is sent."""
    made = {name: getattr(tally, name) for name in _TALLY}
    made["kinds"] = [
        messages.KindTally.model_construct(**{name: getattr(kind, name) for name in _KIND}) for kind in tally.kinds
    ]
    return messages.Tally.model_construct(**made)
