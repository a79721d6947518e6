"""The duties of an agent on a generator's machine: runs blocks, marks idle points, checks contenders, loads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dragstrip import parity
from dragstrip.errors import BadUsage, ScriptError, StageError
from dragstrip.extras.compat.wrk_script import WrkScript
from dragstrip.extras.fleet.duties import Duties, OpenRace, stay_off
from dragstrip.extras.fleet.messages import (
    LoadRan,
    LoadReady,
    LoadScript,
    LoadSlice,
    Offset,
    Opened,
    ProofReply,
    SentAsking,
    SentBlock,
    Tallies,
    Tally,
)
from dragstrip.extras.fleet.meter import Meter
from dragstrip.loading import run as loading
from dragstrip.loading.request import LoadRequest
from dragstrip.loading.result import Slice
from dragstrip.machine.link import device_towards
from dragstrip.process import launcher
from dragstrip.racing.machine_events import MachineMonitor
from dragstrip.racing.proving import connection_facts, prove
from dragstrip.racing.round import counted, kind_counts
from dragstrip.racing.setup import block_plan, engine_on, session_plan, waiting_engine
from dragstrip.record import Load
from dragstrip.scrutiny import TROUBLE, Server, describe_error, reference_heads, with_own_form

if TYPE_CHECKING:
    from dragstrip._engine import Engine, Marker, Script

#: No server of this number is watched: its marks show only when to begin.
UNWATCHED = 0


@dataclass(kw_only=True)
class _GeneratorsRace(OpenRace):
    """A race, or a load, of which this machine generates its share.

    Args:
        prepared, session: of ``dragstrip load``.
    """

    engine: Engine
    folder: Path
    load: Load
    seed: int
    cores: tuple[int, ...]
    marker: Marker | None = None
    session: int = 0
    prepared: loading.Prepared | None = None


class GeneratorDuties(Duties[_GeneratorsRace]):
    """Duties of a generator's machine."""

    def __init__(self) -> None:
        super().__init__()
        #: Whether a run goes on; whether the client sends nothing during it; when the last one ended (monotonic).
        self._busy, self._silent, self._ended_s = False, False, 0.0

    def last_sign_s(self) -> float:
        """When the last run ended; now, if the client waits for a run in silence."""
        return time.monotonic() if self._silent else self._ended_s

    def open(
        self, *, load: Load, seed: int, cores: tuple[int, ...], io: str, wait: str, keep_cores_awake: bool
    ) -> Opened:
        """Starts the engine on the first of these cores, at most one for each of the load's threads."""
        with self._opening() as resources:
            cores = cores[: load.threads]
            stay_off(cores)
            folder = resources.enter_context(launcher.scratch_root())
            waiting = waiting_engine(cores, cores, wait, shared=False, on=keep_cores_awake)
            wait, awake = resources.enter_context(waiting)
            engine = resources.enter_context(engine_on(cores, io, wait))
            resources.callback(self._await_end)
            resources.callback(engine.stop)
            self._race = _GeneratorsRace(
                resources=resources, awake=awake, monitor=MachineMonitor(cores), meter=Meter("", cores),
                engine=engine, folder=folder, load=load, seed=seed, cores=cores,
            )  # fmt: skip
            return Opened(
                awake=awake.text, way=awake.way, io=engine.io, backend=engine.backend, wait=engine.wait,
                stamps=engine.latency_stamps, threads=len(cores),
            )  # fmt: skip

    def mark(self, *, host: str, port: int, token: str, generator: int, generators: int, ahead_ns: int) -> None:
        """Sends marks to this observer from now on."""
        from dragstrip._engine import Marker

        race = self._open_race()
        race.marker = Marker(
            host, port, bytes.fromhex(token), generator=generator, generators=generators, ahead_ns=ahead_ns
        )
        race.meter = Meter(device_towards(host), race.cores)

    def clock_offset(self, exchanges: int) -> Offset:
        """How far the observer's clock is ahead of this machine's; common starts are by that clock from now on."""
        marker = self._open_race().marker
        reading = marker.clock(exchanges) if marker is not None else None
        return Offset(offset_ns=reading[0] if reading else None, round_trip_ns=reading[1] if reading else 0)

    def open_session(
        self, *, asking: SentAsking, host: str, port: int, connections: int, turns: tuple[int, int]
    ) -> int:
        """Opens this generator's share of the connections; returns the engine's session."""
        race = self._open_race()
        load, requests = race.load, asking.asking(race.seed, race.folder)
        server = Server(host, port, asking.encryption(race.folder))
        try:
            exchanges = with_own_form(server, requests.exchanges(keepalive=load.keepalive, http=load.http))
            heads = reference_heads(server, exchanges)
        except TROUBLE as error:
            raise StageError(describe_error(error)) from error
        return race.engine.open(session_plan(server, requests, load, exchanges, heads, connections, turns))

    def close_session(self, session: int) -> None:
        self._open_race().engine.close(session)

    def observe(self, session: int, server: int) -> None:
        """Reads the server's CPU time around each of the session's blocks."""
        race = self._open_race()
        if race.marker is not None:
            race.engine.observe(session, race.marker, server)

    def run(self, *, blocks: Sequence[SentBlock], run: int) -> Tallies:
        """Runs blocks in one call of the engine."""
        race = self._open_race()
        if race.marker is not None:
            race.marker.begin(run)
        race.meter.begin()
        with self._running(silent=True):
            done = race.engine.run([block_plan(**asdict(block)) for block in blocks], steal_cores=list(race.cores))
        tallies = [
            Tally(
                session=tally.session, counted_start_ns=tally.counted_start_ns, kinds=kind_counts(tally),
                **counted(tally),
            )
            for tally in done
        ]  # fmt: skip
        return Tallies(tallies=tallies, traffic=race.meter.end())

    def stop_run(self) -> None:
        self._open_race().engine.stop()

    def ready_load(
        self, *, request: LoadRequest, cacert: str | None, turns: tuple[int, int], script_threads: tuple[int, int]
    ) -> LoadReady:
        """Learns the reference responses of ``dragstrip load``, and opens this generator's connections.

        Args:
            request: with this generator's share of the connections. cacert: the text of its file.
            turns: in an open loop's schedule, which all generators share (``_engine.SessionPlan``).
            script_threads: how many threads of a script come before this generator's, and how many all generators have.

        Raises:
            BadUsage, DragstripError, EngineError: as ``loading.run.run``.
        """
        race = self._open_race()
        if cacert is not None:
            file = race.folder / "cacert.pem"
            file.write_text(cacert, encoding="utf-8")
            request = replace(request, cacert=str(file))
        load_script = partial(WrkScript, done_elsewhere=True, numbers=script_threads)
        prepared = loading.prepare(request, load_script, race.cores)
        session = race.session = race.engine.open(loading.session_plan(prepared, turns))
        race.prepared = prepared
        if race.marker is not None:
            race.marker.begin(1)
            race.engine.observe(session, race.marker, UNWATCHED)
        learned, script = prepared.learned, None
        if prepared.script is not None:
            state = prepared.script.state
            script = LoadScript(hooks=state.hooks, fixed=state.fixed, printed=prepared.printed)
        used = race.engine.used(session)
        return LoadReady(
            learned=replace(learned, body=b""),
            body_bytes=len(learned.body),
            connections=prepared.connections,
            cores=list(prepared.cores),
            by_length=prepared.by_length,
            any_body=prepared.any_body,
            plain_statuses=loading.plain_statuses(prepared),
            notes=list(prepared.notes),
            doubts=list(prepared.doubts),
            io=used.io,
            backend=used.backend,
            stamps=used.stamps,
            script=script,
        )

    def load(self, *, show: Callable[[LoadSlice], None] | None) -> LoadRan:
        """Loads until the time is up, or until the engine is stopped.

        Args:
            show: gets each second when it is over; None: nothing is sent while the load runs.

        Raises:
            DragstripError: the script failed; the message has file and line.
        """
        race, slices = self._open_race(), list[Slice]()
        prepared = race.prepared
        if prepared is None:
            raise StageError("no load is prepared on this machine")
        with self._running(silent=False):
            finished = loading.drive(race.engine, race.session, prepared, slices, show)
        script = prepared.script
        if script is not None:
            script.refuse_failure()
        return LoadRan(
            finished=finished,
            slices=slices,
            printed=script.printed() if script is not None else "",
            globals=_globals(script.state) if script is not None and script.state.sets_up else [],
        )

    @contextmanager
    def _running(self, *, silent: bool) -> Iterator[None]:
        """A run; ``silent``: the client sends nothing until it is over."""
        self._busy, self._silent = True, silent
        try:
            yield
        finally:
            self._ended_s, self._busy, self._silent = time.monotonic(), False, False

    def _await_end(self) -> None:
        """Waits for a stopped run, which ends within one turn of the engine."""
        until = time.monotonic() + 2.0
        while self._busy and time.monotonic() < until:
            time.sleep(0.02)

    def prove(self, *, asking: SentAsking, host: str, port: int) -> ProofReply:
        race = self._open_race()
        requests = asking.asking(race.seed, race.folder)
        load = replace(race.load, pipelining=requests.workload.traffic.pipelining)
        findings = prove(requests, load, Server(host, port, asking.encryption(race.folder)))
        return ProofReply(problems=findings.problems, facts=parity.sheet_texts(findings.facts))

    def connection_facts(self, *, asking: SentAsking, host: str, port: int) -> ProofReply:
        race = self._open_race()
        server = Server(host, port, asking.encryption(race.folder))
        facts = connection_facts(asking.asking(race.seed, race.folder), server)
        return ProofReply(problems=(), facts=parity.sheet_texts(facts))


def _globals(script: Script) -> list[bytes]:
    """The global variables of this machine's threads.

    Raises:
        BadUsage: they are too large; the message has the script's file.
    """
    try:
        return script.globals()
    except ScriptError as error:
        raise BadUsage(str(error)) from error
