"""Whether this machine is fit for races: limits, cores, clock, neighbours, and the load generator's own ceiling.

Each examination gives findings; one more is one more function in ``EXAMINATIONS``, with its sentence in
``report.doctor``. The last report is kept beside the store (``doctor.json``), so that a race on the same machine knows
the ceiling: a contender near it is measured against the generator, not against its rivals.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragstrip import machine, paths
from dragstrip.doctor import noise_floor
from dragstrip.doctor.finding import FAIL, PASS, WARN, Finding, Report, Subject
from dragstrip.errors import BadUsage
from dragstrip.machine import Lanes
from dragstrip.machine_facts import Facts, Limits
from dragstrip.paths import is_file
from dragstrip.process import keep_awake
from dragstrip.store.machine_profile import NULL_RACE, stored_report
from dragstrip.store.messages import ELSEWHERE
from dragstrip.version import __version__

if TYPE_CHECKING:
    from dragstrip._engine import Engine  # in earnest only where it runs: old results are shown without it, too

#: (connections, keep-alive) at which the ceiling is measured; races are held against the nearest.
POINTS = ((1, True), (10, True), (32, True), (100, True), (1000, True), (32, False))

#: Connections that a race may sensibly ask for, and descriptors and ports that it then needs.
CONNECTIONS_WANTED = 10_000
SOMAXCONN_WANTED = 1024

#: Shares of the lanes' time above which other programs, or the hypervisor, are in the way.
BUSY, STOLEN = 0.12, 0.01

#: A machine on which a race of two sees no smaller difference than this within a minute is too noisy to be of use.
SEES_ENOUGH = 0.05

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
CLOSING = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
BODY = b"hello world\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the examinations look at; ``seconds`` is how long each measured point may take."""

    lanes: Lanes
    facts: Facts
    io: str
    seconds: float
    tell: Callable[[str], None]


def examine(lanes: Lanes, *, io: str, seconds: float, tell: Callable[[str], None]) -> Report:
    """Makes all examinations of this machine, one after the other.

    Args:
        io: the engine's back end, as races name it.
        seconds: of load at each point of the ceiling.
        tell: gets a word on what is being looked at.
    """
    situation = Situation(lanes=lanes, facts=machine.facts(), io=io, seconds=seconds, tell=tell)
    findings = [finding for look in EXAMINATIONS for finding in look(situation)]
    return Report(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        software=__version__,
        machine=situation.facts,
        server_cores=lanes.server,
        engine_cores=lanes.engine,
        findings=tuple(findings),
    )


def with_null_race(report: Report, store_path: Path, lanes: Lanes, found: Finding | None) -> Report:
    """The report with a null race: the one just run, else the last one of this machine that was kept."""
    if found is None:
        stored = stored_report(store_path, report.machine, lanes)
        kept = [finding["numbers"] for finding in stored.get("findings", ()) if finding["name"] == NULL_RACE]
        earlier = map(null_race_finding, kept)
        return replace(report, findings=(*report.findings, *earlier))
    return replace(report, findings=(*report.findings, found))


def null_race_finding(numbers: Mapping[str, Any]) -> Finding:
    """What a race of a server against itself says of this machine (``noise_floor.null_race``)."""
    good = numbers["verdict"] in ("same", "undecided")
    return Finding(subject=Subject.NULL_RACE, status=PASS if good else WARN, numbers=numbers)


def refuse_place(store_path: Path) -> Path:
    """Where a report is kept: beside the store.

    Raises:
        BadUsage: it can't be written there, or another program's file has its name.
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


def keep(content: Mapping[str, Any], store_path: Path) -> Path:
    """Writes a report beside the store, in place of the previous one; where to.

    Args:
        content: as ``report.doctor.as_json`` gives it.

    Raises:
        BadUsage: it can't be written there. DiskFull: no space is left.
    """
    path = refuse_place(store_path)
    paths.write(path, json.dumps(content, indent=1))
    return path


def _cores(situation: Situation) -> Iterable[Finding]:
    lanes, usable = situation.lanes, situation.facts.cores_usable
    values = {"server": lanes.server, "engine": lanes.engine, "usable": usable}
    yield Finding(subject=Subject.CORES, status=WARN if lanes.shared else PASS, values=values)
    if lanes.note and not lanes.shared:
        yield Finding(subject=Subject.HARDWARE_THREADS, status=WARN, values={"note": lanes.note})


def _clocks(situation: Situation) -> Iterable[Finding]:
    source = situation.facts.clock_source
    good = source in ("tsc", "kvm-clock", "arch_sys_counter", None)
    began = time.perf_counter_ns()
    for _ in range(10_000):
        time.monotonic_ns()
    step_ns = (time.perf_counter_ns() - began) / 10_000
    yield Finding(
        subject=Subject.CLOCK,
        status=PASS if good else WARN,
        numbers={"reading_ns": round(step_ns)},
        values={"source": source},
    )
    governor = situation.facts.governor
    if governor not in (None, "performance"):
        yield Finding(subject=Subject.GOVERNOR, status=WARN, values={"governor": governor})


def _limits(situation: Situation) -> Iterable[Finding]:
    limits = situation.facts.limits or Limits()
    hard = limits.nofile_hard
    enough = hard is None or hard >= CONNECTIONS_WANTED + 100
    yield Finding(subject=Subject.DESCRIPTORS, status=PASS if enough else WARN, values={"most": hard})
    low, high = limits.local_ports or (32768, 60999)
    ports = high - low + 1
    status = PASS if ports >= CONNECTIONS_WANTED else WARN
    yield Finding(subject=Subject.PORTS, status=status, numbers={"ports": ports})
    backlog = limits.somaxconn
    short = backlog is not None and backlog < SOMAXCONN_WANTED
    values = {"somaxconn": backlog, "would_do": SOMAXCONN_WANTED * 4}
    yield Finding(subject=Subject.BACKLOG, status=WARN if short else PASS, values=values)


def _backend(situation: Situation) -> Iterable[Finding]:
    with _engine(situation.lanes.engine, "auto") as engine:
        backend, there = engine.backend, engine.io != "epoll"
    yield Finding(subject=Subject.IO_URING, status=PASS if there else WARN, values={"backend": backend})


def _neighbours(situation: Situation) -> Iterable[Finding]:
    situation.tell("other programs, and the hypervisor")
    cores, window_s = situation.lanes.all, max(situation.seconds, 0.2)
    busy, stolen = machine.busy_ns(cores), machine.steal_ns(cores)
    time.sleep(window_s)
    whole_ns = window_s * 1e9 * len(cores)
    stolen = machine.steal_ns(cores) - stolen
    busy = machine.busy_ns(cores) - busy - stolen
    yield Finding(
        subject=Subject.OTHER_PROGRAMS,
        status=WARN if busy / whole_ns >= BUSY else PASS,
        numbers={"busy_share": busy / whole_ns},
    )
    yield Finding(
        subject=Subject.STEAL,
        status=WARN if stolen / whole_ns >= STOLEN else PASS,
        numbers={"steal_share": stolen / whole_ns},
    )


def _ceiling(situation: Situation) -> Iterable[Finding]:
    """What the generator could send if the server took no time: its cores over its CPU time per request."""
    from dragstrip._engine import EngineError

    points, refused = [], {}
    for connections, keepalive in POINTS:
        situation.tell(f"the generator's ceiling, {connections} connections{'' if keepalive else ', each used once'}")
        try:
            points.append(_point(situation, connections, keepalive))
        except EngineError as error:
            refused = {"refused": str(error)}
    if not points:
        yield Finding(subject=Subject.CEILING, status=FAIL, values=refused)
        return
    yield Finding(
        subject=Subject.CEILING,
        status=WARN if refused else PASS,
        numbers={"threads": len(situation.lanes.engine), "points": points},
        values=refused,
    )


def _point(situation: Situation, connections: int, keepalive: bool) -> dict[str, Any]:
    from dragstrip._engine import BlockPlan, Exchange, ReferenceServer, SessionPlan, Target

    server = ReferenceServer(situation.lanes.server)
    try:
        with _engine(situation.lanes.engine, situation.io) as engine:
            request = REQUEST if keepalive else CLOSING
            plan = SessionPlan(
                Target("127.0.0.1", server.port),
                [Exchange(request, 200, BODY)],
                connections=max(connections, len(situation.lanes.engine)),
                keepalive=keepalive,
                timeout_ns=5_000_000_000,
            )
            session = engine.open(plan)
            lead_ns, counted_ns = 100_000_000, int(situation.seconds * 1e9)
            (tally,) = engine.run([BlockPlan(session, lead_ns=lead_ns, counted_ns=counted_ns)])
            engine.close(session)
    finally:
        server.stop()
    rate_per_s = tally.requests * 1e9 / max(tally.counted_ns, 1)
    share = tally.engine_cpu_ns / max(tally.counted_ns * tally.engine_threads, 1)
    return {
        "connections": connections,
        "keepalive": keepalive,
        "reached_per_s": round(rate_per_s),
        "engine_share": round(share, 3),
        "ceiling_per_s": round(rate_per_s / max(share, 0.01)),
        "errors": sum(tally.errors.values()),
    }


def _noise(situation: Situation) -> Iterable[Finding]:
    """A server of ours against itself: what the machine alone makes of equal servers, cores kept awake and not."""
    from dragstrip._engine import EngineError, ReferenceServer

    situation.tell("the noise floor: equal servers in short blocks, with cores kept awake and without, in turn")
    lanes = situation.lanes
    against = keep_awake.against_spinning(lanes.all, [machine.siblings(core) for core in lanes.all])
    wait = keep_awake.usual_wait(against, shared=lanes.shared)
    sleepers = lanes.server if wait == "poll" else lanes.all
    try:
        with keep_awake.hold(sleepers, against=against) as awake, _engine(lanes.engine, situation.io, wait) as engine:
            ways = (awake.held, nullcontext) if awake.way else (nullcontext,)
            found, *without = noise_floor.pilot(
                engine, lambda: ReferenceServer(lanes.server), ways=ways, cores=lanes.all
            )
    except EngineError as error:
        yield Finding(subject=Subject.NOISE, status=FAIL, values={"refused": str(error)})
        return
    noisy = found.smallest(60) > SEES_ENOUGH
    yield Finding(
        subject=Subject.NOISE,
        status=WARN if noisy else PASS,
        numbers=found.numbers(),
        values={"smallest": {budget_s: found.smallest(budget_s) for budget_s in noise_floor.BUDGETS_S}},
    )
    yield _awake(awake, found, without)


def _awake(awake: keep_awake.Awake, found: noise_floor.Noise, without: Sequence[noise_floor.Noise]) -> Finding:
    """What keeping cores awake does here: the host's share and the scatter, with and without."""
    if not without:
        return Finding(subject=Subject.AWAKE, status=WARN, values={"way": awake.text})
    (plain,) = without
    return Finding(
        subject=Subject.AWAKE,
        status=PASS,
        numbers={
            "way": awake.way,
            "steal_share": found.steal,
            "round_sd": found.sd,
            "steal_share_off": plain.steal,
            "round_sd_off": plain.sd,
        },
        values={"way": awake.text},
    )


@contextmanager
def _engine(cores: Sequence[int], io: str, wait: str = "sleep") -> Iterator[Engine]:
    from dragstrip._engine import Engine

    engine = Engine(list(cores), io, wait)
    try:
        yield engine
    finally:
        engine.shutdown()


#: What is looked at, in the order of the report. Each gives findings, whose sentences ``report.doctor`` has.
EXAMINATIONS: tuple[Callable[[Situation], Iterable[Finding]], ...] = (
    _cores,
    _clocks,
    _limits,
    _backend,
    _neighbours,
    _noise,
    _ceiling,
)
