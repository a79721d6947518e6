"""Whether this machine is fit for races: limits, cores, clock, neighbours, and the load generator's own ceiling.

Each examination gives findings, each with its status and what would mend it; one more is one more function in
``EXAMINATIONS``. The last report is kept beside the store (``doctor.json``), so that a race on the same machine knows
the ceiling: a contender near it is measured against the generator, not against its rivals.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragstrip import machine
from dragstrip.doctor import noise_floor
from dragstrip.machine import Lanes, show_cores
from dragstrip.process import keep_awake
from dragstrip.store.machine_profile import NULL_RACE, stored_report
from dragstrip.version import __version__

if TYPE_CHECKING:
    from dragstrip._engine import Engine  # in earnest only where it runs: old results are shown without it, too

PASS, WARN, FAIL = "pass", "warn", "fail"

#: (connections, keep-alive) at which the ceiling is measured; races are held against the nearest.
POINTS = ((1, True), (10, True), (32, True), (100, True), (1000, True), (32, False))

#: Connections that a race may sensibly ask for, and descriptors and ports that it then needs.
CONNECTIONS_WANTED = 10_000
SOMAXCONN_WANTED = 1024

#: Shares of the lanes' time above which other programs, or the hypervisor, are in the way.
BUSY, STOLEN = 0.12, 0.01

#: A machine on which a race of two sees no smaller difference than this within a minute is too noisy to be of use.
SEES_ENOUGH = 0.05

#: What lets cores be kept awake.
ALLOW_AWAKE = "root, or a container that allows SCHED_IDLE and does not limit CPU time"

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
CLOSING = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
BODY = b"hello world\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at: ``status`` is "pass", "warn" or "fail"; ``detail`` what was seen, ``remedy`` what would do.

    Args:
        numbers: what was measured, by name with its unit last; JSON-able.
    """

    name: str
    status: str
    detail: str
    remedy: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the examinations look at; ``seconds`` is how long each measured point may take."""

    lanes: Lanes
    facts: Mapping[str, Any]
    io: str
    seconds: float
    tell: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All findings, when and on what they were made."""

    at: str
    software: str
    machine: Mapping[str, Any]
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> bool:
        """Something keeps races from being worth anything here."""
        return any(finding.status == FAIL for finding in self.findings)

    def data(self) -> dict[str, Any]:
        """JSON-able, schema 1."""
        return {"schema": 1} | asdict(self)


def examine(lanes: Lanes, *, io: str, seconds: float, tell: Callable[[str], None]) -> Report:
    """Looks at everything.

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
        machine={**situation.facts, "engine_cores": list(lanes.engine), "server_cores": list(lanes.server)},
        findings=tuple(findings),
    )


def with_null_race(report: Report, store_path: Path, lanes: Lanes, found: Finding | None) -> Report:
    """The report with a null race: the one just run, else the last one of this machine that was kept."""
    if found is None:
        stored = stored_report(store_path, report.machine, lanes)
        earlier = [Finding(**finding) for finding in stored.get("findings", ()) if finding["name"] == NULL_RACE]
        return replace(report, findings=(*report.findings, *earlier))
    return replace(report, findings=(*report.findings, found))


def null_race_finding(numbers: Mapping[str, Any]) -> Finding:
    """What a race of a server against itself says of this machine (``noise_floor.null_race``)."""
    good = numbers["verdict"] in ("same", "undecided")
    span = "" if numbers["low"] is None else f", {numbers['low']:.4f} to {numbers['high']:.4f}"
    sees = f"; rounds scatter by {100 * numbers['round_sd']:.2g} %" if "round_sd" in numbers else ""
    return Finding(
        name=NULL_RACE,
        status=PASS if good else WARN,
        detail=f"{numbers['verdict']}{span}, after {numbers['spent_s']:.0f} s (race {numbers['race']}){sees}",
        remedy="" if good else "end other programs and repeat it; one in twenty calls a difference by chance",
        numbers=numbers,
    )


def keep(report: Report, store_path: Path) -> Path:
    """Writes the report beside the store, in place of the previous one; where to.

    Raises:
        OSError: the folder can't be written.
    """
    path = store_path.with_name("doctor.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(report.data(), indent=1))
    draft.replace(path)
    return path


def _cores(situation: Situation) -> Iterable[Finding]:
    lanes, usable = situation.lanes, situation.facts["cores_usable"]
    seen = f"servers on {show_cores(lanes.server)}, generator on {show_cores(lanes.engine)}, of {usable}"
    remedy = "a machine with two free physical cores or more"
    yield Finding(name="cores", status=WARN if lanes.shared else PASS, detail=seen, remedy=remedy * lanes.shared)
    if lanes.note and not lanes.shared:
        yield Finding(name="hardware threads", status=WARN, detail=lanes.note, remedy=remedy)


def _clocks(situation: Situation) -> Iterable[Finding]:
    source = situation.facts["clock_source"]
    good = source in ("tsc", "kvm-clock", "arch_sys_counter", None)
    began = time.perf_counter_ns()
    for _ in range(10_000):
        time.monotonic_ns()
    step_ns = (time.perf_counter_ns() - began) / 10_000
    yield Finding(
        name="clock",
        status=PASS if good else WARN,
        detail=f"{source or 'unknown'}, {step_ns:.0f} ns a reading (Python's call included)",
        remedy="" if good else "a clock source read without a system call (tsc), by the kernel's command line",
        numbers={"reading_ns": round(step_ns)},
    )
    governor = situation.facts["governor"]
    if governor not in (None, "performance"):
        yield Finding(
            name="governor",
            status=WARN,
            detail=f"the processor's frequency follows the load ({governor})",
            remedy="cpupower frequency-set -g performance",
        )


def _limits(situation: Situation) -> Iterable[Finding]:
    limits = situation.facts["limits"] or {}
    hard = limits.get("nofile_hard")
    enough = hard is None or hard >= CONNECTIONS_WANTED + 100
    yield Finding(
        name="descriptors",
        status=PASS if enough else WARN,
        detail=f"at most {hard or 'any number of'} files open at once, so about {max((hard or 10**6) - 100, 0)} "
        "connections",
        remedy="" if enough else "ulimit -Hn, or nofile in limits.conf",
    )
    low, high = limits.get("local_ports") or (32768, 60999)
    ports = high - low + 1
    yield Finding(
        name="ports",
        status=PASS if ports >= CONNECTIONS_WANTED else WARN,
        detail=f"{ports} ports for connections to one address; a new connection per request can use them up",
        remedy="" if ports >= CONNECTIONS_WANTED else "sysctl net.ipv4.ip_local_port_range='1024 65535'",
        numbers={"ports": ports},
    )
    backlog = limits.get("somaxconn")
    short = backlog is not None and backlog < SOMAXCONN_WANTED
    yield Finding(
        name="backlog",
        status=WARN if short else PASS,
        detail=f"at most {backlog or 'an unknown number of'} handshakes wait for a server (somaxconn)",
        remedy=f"sysctl net.core.somaxconn={SOMAXCONN_WANTED * 4}" if short else "",
    )


def _backend(situation: Situation) -> Iterable[Finding]:
    with _engine(situation.lanes.engine, "auto") as engine:
        backend, there = engine.backend, engine.io != "epoll"
    yield Finding(
        name="io_uring",
        status=PASS if there else WARN,
        detail=backend,
        remedy=""
        if there
        else "sysctl kernel.io_uring_disabled=0, or a container that allows it; epoll serves as well",
    )


def _neighbours(situation: Situation) -> Iterable[Finding]:
    situation.tell("other programs, and the hypervisor")
    cores, window_s = situation.lanes.all, max(situation.seconds, 0.2)
    busy, stolen = machine.busy_ns(cores), machine.steal_ns(cores)
    time.sleep(window_s)
    whole_ns = window_s * 1e9 * len(cores)
    stolen = machine.steal_ns(cores) - stolen
    busy = machine.busy_ns(cores) - busy - stolen
    yield Finding(
        name="other programs",
        status=WARN if busy / whole_ns >= BUSY else PASS,
        detail=f"they use {busy / whole_ns:.0%} of the cores' time now",
        remedy="end other programs" if busy / whole_ns >= BUSY else "",
        numbers={"busy_share": busy / whole_ns},
    )
    yield Finding(
        name="steal",
        status=WARN if stolen / whole_ns >= STOLEN else PASS,
        detail=f"the hypervisor takes {stolen / whole_ns:.0%} of the cores' time now",
        remedy="race on a machine whose cores are not shared, or at another time" if stolen else "",
        numbers={"steal_share": stolen / whole_ns},
    )


def _ceiling(situation: Situation) -> Iterable[Finding]:
    """What the generator could send if the server took no time: its cores over its CPU time per request."""
    from dragstrip._engine import EngineError

    points, refused = [], ""
    for connections, keepalive in POINTS:
        situation.tell(f"the generator's ceiling, {connections} connections{'' if keepalive else ', each used once'}")
        try:
            points.append(_point(situation, connections, keepalive))
        except EngineError as error:
            refused = str(error)
    if not points:
        yield Finding(name="ceiling", status=FAIL, detail=f"it could not be measured: {refused}", remedy="see there")
        return
    told = ", ".join(
        f"{point['ceiling_per_s']:,.0f}/s at {point['connections']}{'' if point['keepalive'] else ' (used once)'}"
        for point in points
    )
    yield Finding(
        name="ceiling",
        status=WARN if refused else PASS,
        detail=f"the generator can send {told} connections" + (f"; {refused}" if refused else ""),
        numbers={"threads": len(situation.lanes.engine), "points": points},
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
        yield Finding(name="noise", status=FAIL, detail=f"it could not be measured: {error}", remedy="see there")
        return
    noisy = found.smallest(60) > SEES_ENOUGH
    yield Finding(
        name="noise",
        status=WARN if noisy else PASS,
        detail=found.text(),
        remedy="end other programs; a machine of one's own sees more" if noisy else "",
        numbers=found.numbers(),
    )
    yield _awake(awake, found, without)


def _awake(awake: keep_awake.Awake, found: noise_floor.Noise, without: Sequence[noise_floor.Noise]) -> Finding:
    """What keeping cores awake does here: the host's share and the scatter, with and without."""
    if not without:
        return Finding(
            name="awake", status=WARN, detail=f"cores can't be kept awake ({awake.text})", remedy=ALLOW_AWAKE
        )
    (plain,) = without
    return Finding(
        name="awake",
        status=PASS,
        detail=f"{awake.text}: the hypervisor took {found.steal:.1%} of the cores' time, and a round's ratio scattered "
        f"by {100 * found.sd:.2g} %; with cores as they are {plain.steal:.1%} and {100 * plain.sd:.2g} %",
        numbers={
            "way": awake.way,
            "steal_share": found.steal,
            "round_sd": found.sd,
            "steal_share_off": plain.steal,
            "round_sd_off": plain.sd,
        },
    )


@contextmanager
def _engine(cores: Sequence[int], io: str, wait: str = "sleep") -> Iterator[Engine]:
    from dragstrip._engine import Engine

    engine = Engine(list(cores), io, wait)
    try:
        yield engine
    finally:
        engine.shutdown()


#: What is looked at, in the order of the report. Whoever adds one gives findings; nothing else is to be changed.
EXAMINATIONS: tuple[Callable[[Situation], Iterable[Finding]], ...] = (
    _cores,
    _clocks,
    _limits,
    _backend,
    _neighbours,
    _noise,
    _ceiling,
)
