"""Whether this machine is fit for races: limits, cores, clock, neighbours, and the load generator's own ceiling.

Each examination gives findings; one more is one more function in ``EXAMINATIONS``. The last report is kept next to the
store (``doctor.json``), so that a race on the same machine knows the ceiling: a contender near it is measured against
the generator, not against its rivals.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from dragstrip import __version__, machine, paths
from dragstrip.doctor import containers, noise_floor
from dragstrip.doctor.finding import DoctorFinding, DoctorStatus, Report, Subject, judged, not_measured
from dragstrip.doctor.noise_floor import NoiseFloor
from dragstrip.doctor.reference_load import connect
from dragstrip.errors import BadUsage, EngineError
from dragstrip.machine import Lanes, show_cores
from dragstrip.machine_facts import CeilingPoint, Facts, GeneratorCeiling, Limits, NullRace
from dragstrip.paths import is_file
from dragstrip.process import keep_awake
from dragstrip.quantities import as_percent
from dragstrip.racing.setup import engine_on, waits
from dragstrip.store import machine_profile
from dragstrip.store.json_values import JsonObject, encode
from dragstrip.store.messages import ELSEWHERE

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


def null_race_finding(race: NullRace) -> DoctorFinding:
    """What a race of a server against itself shows about this machine."""
    span = "" if race.low is None else f", {race.low:.4f} to {race.high:.4f}"
    sees = "" if race.round_sd is None else f"; rounds scatter by {as_percent(race.round_sd)}"
    text = f"{race.verdict}{span}, after {race.spent_s:.0f} s (race {race.race}){sees}"
    numbers: JsonObject = encode(race) | {"low": race.low, "high": race.high}
    if race.round_sd is not None and race.round_s is not None and race.rounds is not None:
        numbers |= NoiseFloor(race.round_sd, race.round_s, race.rounds).numbers()
    remedy = "end other programs and repeat it; one in twenty calls a difference by chance"
    return judged(Subject.NULL_RACE, race.verdict in ("same", "undecided"), text, remedy, numbers)


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


def _cores(situation: Situation) -> Iterable[DoctorFinding]:
    lanes = situation.lanes
    text = f"servers on {show_cores(lanes.server)}, generator on {show_cores(lanes.engine)}"
    remedy = "a machine with two free physical cores or more"
    yield judged(Subject.CORES, not lanes.shared, f"{text}, of {situation.facts.cores_usable}", remedy)
    if lanes.note and not lanes.shared:
        yield DoctorFinding(Subject.HARDWARE_THREADS, DoctorStatus.WARN, lanes.note, remedy)


def _clocks(situation: Situation) -> Iterable[DoctorFinding]:
    source = situation.facts.clock_source
    began = time.perf_counter_ns()
    for _ in range(10_000):
        time.monotonic_ns()
    reading_ns = round((time.perf_counter_ns() - began) / 10_000)
    passed = source in ("tsc", "kvm-clock", "arch_sys_counter", None)
    text = f"{source or 'unknown'}, {reading_ns} ns a reading (Python's call included)"
    remedy = "a clock source read without a system call (tsc), by the kernel's command line"
    yield judged(Subject.CLOCK, passed, text, remedy, {"reading_ns": reading_ns})
    governor = situation.facts.governor
    if governor not in (None, "performance"):
        text = f"the processor's frequency follows the load ({governor})"
        yield DoctorFinding(Subject.GOVERNOR, DoctorStatus.WARN, text, "cpupower frequency-set -g performance")


def _limits(situation: Situation) -> Iterable[DoctorFinding]:
    limits = situation.facts.limits or Limits()
    hard, backlog = limits.nofile_hard, limits.somaxconn
    enough = hard is None or hard >= CONNECTIONS_WANTED + 100
    connections = max((hard or 10**6) - 100, 0)
    text = f"at most {hard or 'any number of'} files open at once, so about {connections} connections"
    yield judged(Subject.DESCRIPTORS, enough, text, "ulimit -Hn, or nofile in limits.conf")
    low, high = limits.local_ports or (32768, 60999)
    ports = high - low + 1
    text = f"{ports} ports for connections to one address; a new connection per request can use them up"
    remedy = "sysctl net.ipv4.ip_local_port_range='1024 65535'"
    yield judged(Subject.PORTS, ports >= CONNECTIONS_WANTED, text, remedy, {"ports": ports})
    enough = backlog is None or backlog >= SOMAXCONN_WANTED
    text = f"at most {backlog or 'an unknown number of'} handshakes wait for a server (somaxconn)"
    yield judged(Subject.BACKLOG, enough, text, "sysctl net.core.somaxconn=4096")


def _backend(situation: Situation) -> Iterable[DoctorFinding]:
    with engine_on(situation.lanes.engine, "auto") as engine:
        remedy = "sysctl kernel.io_uring_disabled=0, or a container that allows it; epoll serves as well"
        yield judged(Subject.IO_URING, engine.io != "epoll", engine.backend, remedy)


def _neighbours(situation: Situation) -> Iterable[DoctorFinding]:
    situation.show("other programs, and the hypervisor")
    cores, window_s = situation.lanes.all, max(situation.seconds, 0.2)
    busy_ns, stolen_ns = machine.busy_ns(cores), machine.steal_ns(cores)
    time.sleep(window_s)
    whole_ns = window_s * 1e9 * len(cores)
    stolen_ns = machine.steal_ns(cores) - stolen_ns
    busy = (machine.busy_ns(cores) - busy_ns - stolen_ns) / whole_ns
    stolen = stolen_ns / whole_ns
    text = f"they use {busy:.0%} of the cores' time now"
    yield judged(Subject.OTHER_PROGRAMS, busy < BUSY, text, "end other programs", {"busy_share": busy})
    yield steal_finding(stolen)


def steal_finding(share: float) -> DoctorFinding:
    """What the hypervisor takes of the cores' time; any share at all is worth advice."""
    text = f"the hypervisor takes {share:.0%} of the cores' time now"
    remedy = "race on a machine whose cores are not shared, or at another time" if share else ""
    status = DoctorStatus.PASS if share < STOLEN else DoctorStatus.WARN
    return DoctorFinding(Subject.STEAL, status, text, remedy, {"steal_share": share})


def _ceiling(situation: Situation) -> Iterable[DoctorFinding]:
    """What the generator could send if the server took no time: its cores over its CPU time per request."""

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
        yield not_measured(Subject.CEILING, refused)
        return
    yield ceiling_finding(GeneratorCeiling(threads=len(situation.lanes.engine), points=tuple(points)), refused, unsound)


def ceiling_finding(ceiling: GeneratorCeiling, refused: str, unsound: Sequence[CeilingPoint]) -> DoctorFinding:
    """What the generator can send.

    Args:
        refused: the engine's message about a point that it could not measure.
        unsound: measured points without any response, or with errors; not in ``ceiling``.
    """

    def at(point: CeilingPoint) -> str:
        return f"{point.connections}{'' if point.keepalive else ' (used once)'}"

    rates = ", ".join(f"{point.ceiling_per_s:,.0f}/s at {at(point)}" for point in ceiling.points)
    texts = [f"the generator can send {rates} connections" if rates else "", refused]
    texts += [
        f"at {at(point)} connections it had {point.reached_per_s:,.0f} responses per second and {point.errors:,} errors"
        for point in unsound
    ]
    status = DoctorStatus.FAIL if not ceiling.points else DoctorStatus.WARN if refused or unsound else DoctorStatus.PASS
    remedy = "" if status is DoctorStatus.PASS else "end other programs and repeat it"
    numbers: JsonObject = {"threads": ceiling.threads, "points": [encode(point) for point in ceiling.points]}
    return DoctorFinding(Subject.CEILING, status, "; ".join(filter(None, texts)), remedy, numbers)


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


def _noise(situation: Situation) -> Iterable[DoctorFinding]:
    """A server against itself: how much equal servers differ on this machine, with and without awake cores."""

    situation.show("the noise floor: equal servers in short blocks, with cores kept awake and without, in turn")
    lanes = situation.lanes
    wait, against = waits(lanes.all, "auto", shared=lanes.shared)
    sleepers = lanes.server if wait == "poll" else lanes.all
    try:
        with keep_awake.hold(sleepers, against=against) as awake, engine_on(lanes.engine, situation.io, wait) as engine:
            ways = (awake.held, nullcontext) if awake.way else (nullcontext,)
            noise, *without = noise_floor.pilot(engine, lanes, ways)
    except EngineError as error:
        yield not_measured(Subject.NOISE, str(error))
        return
    yield noise_finding(noise)
    for off in without:
        yield awake_finding(awake.text, awake.way, noise, off)
    if not without:
        remedy = "root, or a container that allows SCHED_IDLE and does not limit CPU time"
        yield DoctorFinding(Subject.AWAKE, DoctorStatus.WARN, f"cores can't be kept awake ({awake.text})", remedy)


def noise_finding(noise: NoiseFloor) -> DoctorFinding:
    """What a race can see on this machine."""
    budgets = ((noise.smallest(s), f"{s:.0f} s" if s < 120 else f"{s / 60:.0f} min") for s in noise_floor.BUDGETS_S)
    sees = ", ".join(f"{100 * share:.1f} % in {budget}" for share, budget in budgets)
    text = f"a round's ratio scatters by {as_percent(noise.sd)}; a race of two sees {sees}, in nine of ten"
    remedy = "end other programs; a machine of one's own sees more"
    return judged(Subject.NOISE, noise.smallest(60) <= SEES_ENOUGH, text, remedy, noise.numbers())


def awake_finding(how: str, way: str | None, awake: NoiseFloor, off: NoiseFloor) -> DoctorFinding:
    """What keeping cores awake does: the hypervisor's share and the rounds' scatter with it, and without.

    Args:
        how: what keeps them awake. way: its short name.
    """
    took = f"took {awake.steal:.1%} of the cores' time, and a round's ratio scattered by {as_percent(awake.sd)}"
    asleep = f"with cores as they are {off.steal:.1%} and {as_percent(off.sd)}"
    numbers: JsonObject = {"way": way} if way is not None else {}
    numbers |= {"steal_share": awake.steal, "round_sd": awake.sd}
    numbers |= {"steal_share_off": off.steal, "round_sd_off": off.sd}
    return judged(Subject.AWAKE, True, f"{how}: the hypervisor {took}; {asleep}", numbers=numbers)


def _containers(situation: Situation) -> Iterable[DoctorFinding]:
    situation.show("what containers need")
    yield from containers.findings()


#: All examinations in the order of the report.
EXAMINATIONS: tuple[Callable[[Situation], Iterable[DoctorFinding]], ...] = (
    _cores,
    _clocks,
    _limits,
    _backend,
    _containers,
    _neighbours,
    _noise,
    _ceiling,
)
