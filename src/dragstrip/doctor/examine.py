"""Whether this machine is fit for races: limits, cores, clock, neighbours, and the load generator's own ceiling.

Each examination gives findings; one more is one more function in ``EXAMINATIONS``, with its sentence in
``report.doctor``. The last report is kept next to the store (``doctor.json``), so that a race on the same machine knows
the ceiling: a contender near it is measured against the generator, not against its rivals.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from dragstrip import machine, paths
from dragstrip.doctor import containers, noise_floor
from dragstrip.doctor.finding import (
    AwakeEffect,
    Ceiling,
    Clock,
    Cores,
    Finding,
    Limit,
    Note,
    NotMeasured,
    Report,
    Status,
    Subject,
    TimeShare,
)
from dragstrip.doctor.reference_load import connect, engine_on
from dragstrip.errors import BadUsage
from dragstrip.machine import Lanes
from dragstrip.machine_facts import CeilingPoint, Facts, GeneratorCeiling, Limits, NullRace
from dragstrip.paths import is_file
from dragstrip.process import keep_awake
from dragstrip.racing.setup import waits
from dragstrip.store import machine_profile
from dragstrip.store.json_values import JsonObject
from dragstrip.store.messages import ELSEWHERE
from dragstrip.version import __version__

#: (connections, keep-alive) at which the ceiling is measured; a race is compared with the nearest point.
POINTS = ((1, True), (10, True), (32, True), (100, True), (1000, True), (32, False))

#: Tries for a point, each twice as long as the previous one, before it counts as not measured: other programs may keep
#: the engine or its server from running during a whole short load.
MAX_TRIES = 3

#: Connections that a race may sensibly ask for, and descriptors and ports that it then needs.
CONNECTIONS_WANTED = 10_000
SOMAXCONN_WANTED = 1024

#: Shares of the lanes' time above which other programs, or the hypervisor, are in the way.
BUSY, STOLEN = 0.12, 0.01

#: If a race of two can't find a difference of this share within a minute, the machine is too noisy.
SEES_ENOUGH = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the examinations look at; ``seconds``: duration of the load at each measured point."""

    lanes: Lanes
    facts: Facts
    io: str
    seconds: float
    show: Callable[[str], None]


def examine(lanes: Lanes, *, io: str, seconds: float, show: Callable[[str], None]) -> Report:
    """Examines this machine, one subject after the other.

    Args:
        io: the engine's back end, as races name it.
        seconds: of load at each point of the ceiling.
        show: gets the name of what is being examined.
    """
    situation = Situation(lanes=lanes, facts=machine.facts(), io=io, seconds=seconds, show=show)
    return Report(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        software=__version__,
        machine=situation.facts,
        server_cores=lanes.server,
        engine_cores=lanes.engine,
        findings=tuple(finding for examination in EXAMINATIONS for finding in examination(situation)),
    )


def with_null_race(report: Report, store_path: Path, lanes: Lanes, race: NullRace | None) -> Report:
    """The report with a null race: the given one, otherwise this machine's last one that was kept."""
    race = race or machine_profile.with_profile(report.machine, store_path, lanes).null_race
    if race is None:
        return report
    return replace(report, findings=(*report.findings, null_race_finding(race)))


def null_race_finding(race: NullRace) -> Finding:
    """What a race of a server against itself shows about this machine."""
    status = _status(race.verdict in ("same", "undecided"))
    return Finding(Subject.NULL_RACE, status, noise_floor.with_forecast(race))


def _status(passed: bool) -> Status:
    return Status.PASS if passed else Status.WARN


def refuse_place(store_path: Path) -> Path:
    """The path of the report, next to the store.

    Raises:
        BadUsage: it can't be written there, or another program's file has this name.
    """
    path = paths.own_folder(store_path.parent, ELSEWHERE) / "doctor.json"
    if (problem := paths.refusal(path)) is not None:
        raise BadUsage(f"{problem}, or {ELSEWHERE}")
    if is_file(path) and path.stat().st_size:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            content = None
        if not isinstance(content, dict) or "findings" not in content:
            raise BadUsage(f"{path} is not a report of `dragstrip doctor`; move it, or {ELSEWHERE}")
    return path


def keep(content: JsonObject, store_path: Path) -> Path:
    """Writes a report next to the store, in place of the previous one; returns its path.

    Args:
        content: as ``report.doctor.as_json`` gives it.

    Raises:
        BadUsage: it can't be written there. DiskFull: no space is left.
    """
    path = refuse_place(store_path)
    paths.write(path, json.dumps(content, indent=1))
    return path


def _cores(situation: Situation) -> Iterable[Finding]:
    lanes = situation.lanes
    cores = Cores(lanes.server, lanes.engine, situation.facts.cores_usable)
    yield Finding(Subject.CORES, _status(not lanes.shared), cores)
    if lanes.note and not lanes.shared:
        yield Finding(Subject.HARDWARE_THREADS, Status.WARN, Note(lanes.note))


def _clocks(situation: Situation) -> Iterable[Finding]:
    source = situation.facts.clock_source
    began = time.perf_counter_ns()
    for _ in range(10_000):
        time.monotonic_ns()
    reading_ns = round((time.perf_counter_ns() - began) / 10_000)
    passed = source in ("tsc", "kvm-clock", "arch_sys_counter", None)
    yield Finding(Subject.CLOCK, _status(passed), Clock(source, reading_ns))
    governor = situation.facts.governor
    if governor not in (None, "performance"):
        yield Finding(Subject.GOVERNOR, Status.WARN, Note(governor))


def _limits(situation: Situation) -> Iterable[Finding]:
    limits = situation.facts.limits or Limits()
    hard, backlog = limits.nofile_hard, limits.somaxconn
    enough = hard is None or hard >= CONNECTIONS_WANTED + 100
    yield Finding(Subject.DESCRIPTORS, _status(enough), Limit(hard))
    low, high = limits.local_ports or (32768, 60999)
    ports = high - low + 1
    yield Finding(Subject.PORTS, _status(ports >= CONNECTIONS_WANTED), Limit(ports))
    yield Finding(Subject.BACKLOG, _status(backlog is None or backlog >= SOMAXCONN_WANTED), Limit(backlog))


def _backend(situation: Situation) -> Iterable[Finding]:
    with engine_on(situation.lanes.engine, "auto") as engine:
        yield Finding(Subject.IO_URING, _status(engine.io != "epoll"), Note(engine.backend))


def _neighbours(situation: Situation) -> Iterable[Finding]:
    situation.show("other programs, and the hypervisor")
    cores, window_s = situation.lanes.all, max(situation.seconds, 0.2)
    busy_ns, stolen_ns = machine.busy_ns(cores), machine.steal_ns(cores)
    time.sleep(window_s)
    whole_ns = window_s * 1e9 * len(cores)
    stolen_ns = machine.steal_ns(cores) - stolen_ns
    busy = (machine.busy_ns(cores) - busy_ns - stolen_ns) / whole_ns
    stolen = stolen_ns / whole_ns
    yield Finding(Subject.OTHER_PROGRAMS, _status(busy < BUSY), TimeShare(busy))
    yield Finding(Subject.STEAL, _status(stolen < STOLEN), TimeShare(stolen))


def _ceiling(situation: Situation) -> Iterable[Finding]:
    """What the generator could send if the server took no time: its cores over its CPU time per request."""
    from dragstrip._engine import EngineError

    points: list[CeilingPoint] = []
    unsound: list[CeilingPoint] = []
    refused = ""
    for connections, keepalive in POINTS:
        situation.show(f"the generator's ceiling, {connections} connections{'' if keepalive else ', each used once'}")
        try:
            for attempt in range(MAX_TRIES):
                point = _point(situation, connections, keepalive, situation.seconds * 2**attempt)
                if point.sound:
                    break
            (points if point.sound else unsound).append(point)
        except EngineError as error:
            refused = str(error)
    if not points and refused:
        yield Finding(Subject.CEILING, Status.FAIL, NotMeasured(refused))
        return
    ceiling = GeneratorCeiling(threads=len(situation.lanes.engine), points=tuple(points))
    status = _status(not refused and not unsound) if points else Status.FAIL
    yield Finding(Subject.CEILING, status, Ceiling(ceiling, refused, tuple(unsound)))


def _point(situation: Situation, connections: int, keepalive: bool, seconds: float) -> CeilingPoint:
    from dragstrip._engine import BlockPlan, ReferenceServer

    cores = situation.lanes.engine
    server = ReferenceServer(situation.lanes.server)
    try:
        with engine_on(cores, situation.io) as engine:
            session = connect(engine, server.port, max(connections, len(cores)), keepalive=keepalive)
            (tally,) = engine.run([BlockPlan(session, lead_ns=100_000_000, counted_ns=int(seconds * 1e9))])
            engine.close(session)
    finally:
        server.stop()
    rate_per_s = tally.requests * 1e9 / max(tally.counted_ns, 1)
    share = tally.engine_cpu_ns / max(tally.counted_ns * tally.engine_threads, 1)
    return CeilingPoint(
        connections=connections,
        keepalive=keepalive,
        reached_per_s=round(rate_per_s),
        engine_share=round(share, 3),
        ceiling_per_s=round(rate_per_s / max(share, 0.01)),
        errors=sum(tally.errors.values()),
    )


def _noise(situation: Situation) -> Iterable[Finding]:
    """A server against itself: how much equal servers differ on this machine, with and without awake cores."""
    from dragstrip._engine import EngineError

    situation.show("the noise floor: equal servers in short blocks, with cores kept awake and without, in turn")
    lanes = situation.lanes
    wait, against = waits(lanes.all, "auto", shared=lanes.shared)
    sleepers = lanes.server if wait == "poll" else lanes.all
    try:
        with keep_awake.hold(sleepers, against=against) as awake, engine_on(lanes.engine, situation.io, wait) as engine:
            ways = (awake.held, nullcontext) if awake.way else (nullcontext,)
            noise, *without = noise_floor.pilot(engine, lanes, ways)
    except EngineError as error:
        yield Finding(Subject.NOISE, Status.FAIL, NotMeasured(str(error)))
        return
    yield Finding(Subject.NOISE, _status(noise.smallest(60) <= SEES_ENOUGH), noise.forecast())
    for off in without:
        effect = AwakeEffect(awake.text, awake.way, noise.steal, noise.sd, off.steal, off.sd)
        yield Finding(Subject.AWAKE, Status.PASS, effect)
    if not without:
        yield Finding(Subject.AWAKE, Status.WARN, Note(awake.text))


def _containers(situation: Situation) -> Iterable[Finding]:
    situation.show("what containers need")
    yield from containers.findings()


#: All examinations in the order of the report. ``report.doctor`` has the sentences of their findings.
EXAMINATIONS: tuple[Callable[[Situation], Iterable[Finding]], ...] = (
    _cores,
    _clocks,
    _limits,
    _backend,
    _containers,
    _neighbours,
    _noise,
    _ceiling,
)
