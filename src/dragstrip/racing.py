"""One race from start to records: the only user of the compiled engine.

Order of events: lanes, scrutineering (each contender started once and proved right), calibration on
that same launch (never used in the verdict), plan, then rounds until everything asked for is decided
or the budget is spent. Each round is committed before the next begins, so that nothing measured is lost.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import dragstrip
from dragstrip import awake, conditions, doctor, machine, schedule, stage, verdict
from dragstrip.contender import Entry, Missing, build, check, serving
from dragstrip.director import Director, Progress
from dragstrip.errors import BadUsage, EngineFailure, NotReady, StageError
from dragstrip.metrics import AUTO
from dragstrip.record import METHOD_VERSION, Entrant, Event, Load, Plan, Race
from dragstrip.rounds import Running, Track, warm_up
from dragstrip.scrutiny import Findings, fairness, habits, scrutineer
from dragstrip.store import Store
from dragstrip.workload import Workload
from dragstrip.workload import load as load_workload

if TYPE_CHECKING:
    from dragstrip._engine import Tally

#: Randomised probes put to each contender in scrutineering.
PROBES = 12

#: A calibration block: long enough to meet a slow server's median latency a few times.
CALIBRATION_NS = 200_000_000

#: The shortest warm-up that is learned for an ad hoc contender; what a definition says otherwise.
LEARNED_LEAST_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be raced and how: the command line's words as one value.

    Args:
        entries: at least two, names distinct.
        budget_s: wall-clock seconds for the rounds.
        rounds: fixes the design to so many rounds, no early stop; None for the stopping rule.
        explicit: a contender that is not ready refuses the race (named by hand) instead of being left out (line-up).
        threads: engine threads; None for one per engine core.
        purpose: what the race is for, where a command runs it for something: an event's kind and detail in its record.
        http: "1.1", or "1.0" as ab speaks it, for write-ups of old.
        rate_per_s: of an open loop, the same for all; ``schedule.AUTO_RATE``; None: a closed loop.
        pace: how sharply an open loop's schedule is kept (``record.Load``).
        io: the engine's back end: "auto" (io_uring where it works, else epoll), "uring" or "epoll".
        awake: "auto": the cores are kept from sleeping while blocks run; "off": they do as the kernel wants.
        wait: how the engine waits for answers: "sleep", "poll", or "auto": polls where its cores are its own.
    """

    entries: tuple[Entry, ...]
    workload: Workload
    connections: int = 32
    threads: int | None = None
    keepalive: bool = True
    http: str = "1.1"
    rate_per_s: float | None = None
    pace: str = "precise"
    timeout_s: float = 2.0
    budget_s: float = 60.0
    margin: float = 0.01
    metric: str = AUTO
    alpha: float = 0.05
    seed: int | None = None
    rounds: int | None = None
    server_cores: str | None = None
    engine_cores: str | None = None
    io: str = "auto"
    awake: str = "auto"
    wait: str = "auto"
    explicit: bool = True
    purpose: tuple[str, str] | None = None


@dataclass
class Field:
    """The contenders as they came out of scrutineering; ``ready`` and the figures only of those that came through."""

    entrants: list[Entrant] = field(default_factory=list)
    ready: dict[str, Entry] = field(default_factory=dict)
    p50_ns: dict[str, int] = field(default_factory=dict)
    launch_s: dict[str, float] = field(default_factory=dict)
    capacity_per_s: dict[str, float] = field(default_factory=dict)
    learned: dict[str, Entry] = field(default_factory=dict)
    habits: dict[str, conditions.Habits] = field(default_factory=dict)


def run(request: Request, *, store: Store, progress: Progress) -> Race:
    """Runs a race to its end and returns it as recorded.

    Raises:
        BadUsage: fewer than two contenders, two of one name, cores that don't exist.
        NotReady: a contender named by hand is missing something.
        KeyboardInterrupt: passed on, after what was measured has been kept and every server stopped.
    """
    _refuse_few(request.entries)
    refuse_doubles(request.entries)
    serving(request.workload.name, request.entries)
    lanes = lanes_of(request)
    schedule.refuse_metric(request.metric, request.rate_per_s)
    seed = request.seed if request.seed is not None else secrets.randbits(32)
    noted = request.purpose
    started, started_ns = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic_ns()
    facts = machine.facts()
    load = load_of(request, lanes)
    with stand(request, load, lanes, seed, progress) as (track, field_):
        rate_per_s = schedule.rate(request.rate_per_s, field_.capacity_per_s)
        track.load = replace(load, rate_per_s=rate_per_s, pace=request.pace)
        race = Race(
            id=secrets.token_hex(6),
            seed=seed,
            started=started,
            started_ns=started_ns,
            workload=request.workload.name,
            load=track.load,
            plan=_plan(request, field_, track.load),
            software=dragstrip.__version__,
            method=METHOD_VERSION,
            machine=facts | io_facts(track) | doctor.known(store.path, facts, lanes),
            server_cores=lanes.server,
            engine_cores=lanes.engine,
            entrants=tuple(field_.entrants),
            events=(
                *([conditions.event(*noted)] if noted else []),
                *(seen for found in field_.habits.values() for seen in found.events),
            ),
        )
        store.begin(race)
        return _director(track, store, progress, race, field_).drive()


def lanes_of(request: Request) -> machine.Lanes:
    """The cores of engine and servers.

    Raises:
        BadUsage: there are no such cores, or fewer of the engine's than threads asked for.
    """
    lanes = machine.lanes(request.server_cores, request.engine_cores)
    if request.threads is not None and request.threads > len(lanes.engine):
        raise BadUsage(
            f"--threads {request.threads}: one thread runs on each core of the engine's lane, which is "
            f"{machine.show_cores(lanes.engine)}; --engine-cores gives it more"
        )
    return lanes


def load_of(request: Request, lanes: machine.Lanes) -> Load:
    """How blocks are loaded; a closed loop, as calibration has it."""
    return Load(
        connections=request.connections,
        threads=request.threads or len(lanes.engine),
        keepalive=request.keepalive,
        timeout_ns=int(request.timeout_s * 1e9),
        http=request.http,
        pace=request.pace,
    )


@contextmanager
def stand(
    request: Request, load: Load, lanes: machine.Lanes, seed: int, progress: Progress
) -> Iterator[tuple[Track, Field]]:
    """A track, and on it every contender proved and calibrated once; all is stopped at the end.

    Raises:
        NotReady: a contender named by hand is missing something.
    """
    progress.phase("checking what is installed")
    field_, versions = Field(), _ready_versions(request)
    with _track(request.workload, load, lanes, seed, request.io, request.awake, request.wait) as track:
        for entry in request.entries:
            _scrutineer(track, entry, versions[entry.name], field_, progress)
        yield track, field_


def resume(race_id: str, entries: Sequence[Entry], workload: Workload, *, store: Store, progress: Progress) -> Race:
    """Goes on with a race that was cut off: same seed, plan and lanes; the rounds count on from the last recorded.

    Raises:
        BadUsage: the race has ended by its own rule, or a contender's definition has changed since.
    """
    race = store.load(race_id)
    if race.finished in ("decided", "budget", "rounds"):
        raise BadUsage(
            f"race {race.id} has ended ({race.finished}): there is nothing to resume; start a new race instead"
        )
    if workload.name != race.workload:
        raise BadUsage(
            f"race {race.id} is of workload {race.workload}, not {workload.name}; --workload FILE names its file"
        )
    lanes = machine.lanes(_cores(race.server_cores), _cores(race.engine_cores))
    field_ = Field()
    by_name = {entry.name: entry for entry in entries}
    with _track(workload, race.load, lanes, race.seed, io_of(race), *_kept(race)) as track:
        for entrant in race.entrants:
            if entrant.out:
                continue
            entry = by_name[entrant.name]
            if entry.definition_hash != entrant.definition_hash:
                raise BadUsage(
                    f"{entrant.name}: its definition has changed since race {race.id} began "
                    f"({entrant.definition_hash[:12]} then, {entry.definition_hash[:12]} now); start a new race instead"
                )
            _scrutineer(track, entry, entrant.version, field_, progress)
        store.append_event(race.id, Event(at_ns=time.monotonic_ns(), kind="resumed", detail=""))
        director = _director(track, store, progress, replace(race, finished=""), field_)
        director.let_out({entrant.name: entrant.out for entrant in field_.entrants if entrant.out}, len(race.rounds))
        return director.drive()


def io_facts(track: Track) -> dict[str, str]:
    """How bytes get in and out, by which clock latencies run, how the engine waits, and what keeps the cores awake."""
    return {
        "engine_io": f"{track.engine.backend}; latency by {track.engine.latency_stamps} stamps",
        "engine_wait": track.engine.wait,
        "awake": track.awake.told,
    }


def io_of(race: Race) -> str:
    """The back end that a race began with: its rounds must not change theirs in the middle."""
    began = str(race.machine.get("engine_io", ""))
    if not began.startswith("io_uring"):
        return "epoll"
    # Chosen by the engine itself, it may take another way to wait where a worker has one connection.
    return "auto" if "one connection" in began else "uring"


def _kept(race: Race) -> tuple[str, str]:
    """Whether cores were kept awake, and how the engine waited, as the race began."""
    kept = str(race.machine.get("awake", awake.OFF))
    return awake.OFF if kept == awake.OFF else "auto", str(race.machine.get("engine_wait", "sleep"))


def _cores(cores: Sequence[int]) -> str:
    return ",".join(str(core) for core in cores)


def _refuse_few(entries: Sequence[Entry]) -> None:
    if len(entries) < 2:
        raise BadUsage(f"a race wants at least two contenders, {len(entries)} given; `dragstrip contenders` lists them")


def refuse_doubles(entries: Sequence[Entry]) -> None:
    """Names tell contenders apart.

    Raises:
        BadUsage: two have the same.
    """
    names = [entry.name for entry in entries]
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        raise BadUsage(
            f"{doubles[0]} is given twice under one name; to race a thing against itself say it differently, "
            f"for example {doubles[0]}:workers=1, or --serve with another name"
        )


def _ready_versions(request: Request) -> dict[str, str | Missing]:
    found: dict[str, str | Missing] = {}
    for entry in request.entries:
        state = check(entry)
        if isinstance(state, Missing) and request.explicit:
            raise NotReady(f"{entry.name} is not ready: {state.reason}; {state.remedy}")
        found[entry.name] = state if isinstance(state, Missing) else state.version
    return found


@contextmanager
def _track(
    workload: Workload,
    load: Load,
    lanes: machine.Lanes,
    seed: int,
    io: str = "auto",
    keep: str = awake.OFF,
    wait: str = "sleep",
) -> Iterator[Track]:
    from dragstrip._engine import Engine, EngineError  # old results must be readable where it can't load

    stage.sweep_stale()
    before = os.sched_getaffinity(0)
    with ExitStack() as open_things:
        scratch = open_things.enter_context(stage.scratch_root())
        if not lanes.shared:
            # The director and its keepers stay off the servers' lane.
            os.sched_setaffinity(0, lanes.engine)
            open_things.callback(os.sched_setaffinity, 0, before)
        against = awake.against_spinning(lanes.all, [machine.siblings(core) for core in lanes.all])
        if wait == "auto":
            wait = awake.usual_wait(against, shared=lanes.shared)
        sleepers = lanes.server if wait == "poll" else lanes.all
        kept = open_things.enter_context(awake.hold(sleepers, on=keep != awake.OFF, against=against))
        try:
            engine = Engine(list(lanes.engine[: load.threads]), io=io, wait=wait)
            open_things.callback(engine.shutdown)
            yield Track(engine, lanes, load, workload, scratch, open_things, seed, awake=kept)
        except EngineError as error:
            raise EngineFailure(f"the load engine: {error}") from error


def _scrutineer(track: Track, entry: Entry, version: str | Missing, field_: Field, progress: Progress) -> None:
    """Starts a contender once, has it prove its answers, and calibrates on that launch."""
    progress.entrant(entry.name, "scrutineering")
    parity: dict[str, str] = {}
    why = ""
    if isinstance(version, Missing):
        why, version = f"missing: {version.reason}; {version.remedy}", ""
    else:
        try:
            build(entry)
            running = track.launch(entry)
            try:
                why, parity = _prove(track, entry, field_, running)
            finally:
                running.stop()
        except StageError as error:
            why = str(error)
    progress.entrant(entry.name, f"out: {why}" if why else "ready")
    if not why:
        field_.ready[entry.name] = field_.learned.get(entry.name, entry)
    field_.entrants.append(
        Entrant(
            name=entry.name,
            title=entry.title,
            kind=entry.kind,
            version=version,
            language=entry.language,
            parameters=dict(entry.parameters),
            definition_hash=entry.definition_hash,
            parity=parity,
            out=why,
        )
    )


def _prove(track: Track, entry: Entry, field_: Field, running: Running) -> tuple[str, dict[str, str]]:
    workload, seed, http = track.workload, track.seed, track.load.http
    both = [
        (
            *workload.exchanges(mark=entry.mark, keepalive=keep, http=http, seed=seed),
            *workload.probes(mark=entry.mark, keepalive=keep, http=http, seed=seed, count=PROBES),
        )
        for keep in (True, False)
    ]
    findings = scrutineer(running.host, running.port, keepalive=both[0], closing=both[1])
    if not findings.problems and track.load.keepalive:
        fair = fairness(running.host, running.port, both[0][0], connections=track.load.connections)
        findings = Findings(problems=fair.problems, facts={**findings.facts, **fair.facts})
    if findings.problems:
        return "; ".join(findings.problems), {}
    warm = warm_up(track, entry, running, 0)
    before = machine.thread_cpu_ns(running.schedstats())
    with track.awake.held():
        (tally,) = track.engine.run([(warm.session, 0, CALIBRATION_NS, 0)])
    worked = machine.who_worked(before, machine.thread_cpu_ns(running.schedstats()))
    processes, threads = running.counts()
    if tally.requests:
        lengths_ns = schedule.block_lengths({entry.name: tally.p50_ns}, [entry.lead_ns])
        field_.habits[entry.name] = conditions.habits(track.engine, running, warm.session, entry.name, lengths_ns)
    track.engine.close(warm.session)
    if tally.requests == 0 or not running.alive():
        words = running.log_tail(5) or "none"
        return f"answered nothing right under load: {tally.sample or dict(tally.errors)}; its last words: {words}", {}
    if field_.habits[entry.name].restless:
        track.restless.add(entry.name)
    field_.p50_ns[entry.name] = tally.p50_ns
    field_.capacity_per_s[entry.name] = tally.requests * 1e9 / max(tally.counted_ns, 1)
    warm_up_s = warm.warm_up_ns / 1e9
    if entry.contender is None:
        # Nobody says what runs an ad hoc server, so it was watched as long as a just-in-time runtime; where that
        # showed no rise, the rounds need not wait so long. Their own warm-ups still end by evidence.
        least_s = min(max(LEARNED_LEAST_S, warm.enough_s), entry.warm_up_least_s)
        field_.learned[entry.name] = replace(entry, warm_up_least_s=least_s)
        warm_up_s = min(warm_up_s, max(least_s, LEARNED_LEAST_S))
    field_.launch_s[entry.name] = running.ready_ns / 1e9 + warm_up_s
    # After the calibration, so that an ad hoc server's warm-up was seen from its beginning.
    tried = habits(running.host, running.port, workload.exchanges(mark=entry.mark, seed=seed)[0])
    facts = {**findings.facts, **tried, **entry.parity}
    facts["processes, threads"] = f"{processes}, {threads}" if processes else "unknown"
    facts |= {**_seen_under_load(track, running, tally, worked), **field_.habits[entry.name].facts}
    return "", facts


def _seen_under_load(track: Track, running: Running, tally: Tally, worked: str) -> dict[str, str]:
    """Facts for the parity sheet from the calibration block."""
    facts = {"worked under load": worked} if worked else {}
    if tally.server_cpu_ns is not None:
        facts["cores used"] = f"{tally.server_cpu_ns / max(tally.duration_ns, 1):.2f} of {len(track.lanes.server)}"
    facts["connections opened per 1000 answers"] = f"{1000 * tally.connects / max(tally.answered, 1):.1f}"
    facts["CPU read from"] = running.cpu_source
    if running.users():
        facts["runs as"] = ", ".join(running.users())
    if running.note:
        facts["note"] = running.note
    return facts


def _plan(request: Request, field_: Field, load: Load) -> Plan:
    count = max(len(field_.ready), 1)
    factor = max((field_.habits[name].factor for name in field_.ready), default=1)
    lengths_ns = schedule.block_lengths(field_.p50_ns, [entry.lead_ns for entry in field_.ready.values()])
    lead_ns, counted_ns = (factor * part for part in lengths_ns)
    counted_ns = schedule.long_enough(counted_ns, request.metric, load.rate_per_s)
    launch_s, block_s = sum(field_.launch_s.values()), (lead_ns + counted_ns) / 1e9
    passes = schedule.passes(launch_s=launch_s, block_s=block_s, contenders=count, budget_s=request.budget_s)
    round_s = launch_s + passes * count * block_s
    return Plan(
        lead_ns=lead_ns,
        counted_ns=counted_ns,
        passes=passes,
        budget_s=request.budget_s,
        planned_rounds=request.rounds or schedule.planned_rounds(request.budget_s, round_s),
        metric=request.metric,
        margin=request.margin,
        alpha=request.alpha,
        rounds_fixed=request.rounds is not None,
    )


def _director(track: Track, store: Store, progress: Progress, race: Race, field_: Field) -> Director:
    return Director(track, store, progress, race, ready=field_.ready, p50_ns=field_.p50_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """How one contender fared in scrutineering at one workload.

    Args:
        status: "passed", "failed" or "missing" (then at no workload); reason: why not passed, else "".
        facts: its parity sheet.
    """

    contender: str
    workload: str = ""
    status: str
    reason: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


def verify(
    entries: Sequence[Entry], workload: str | None, *, server_cores: str | None = None, engine_cores: str | None = None
) -> Iterator[Proof]:
    """Scrutineering alone, for each contender and each of its workloads (or the one given)."""
    lanes = machine.lanes(server_cores, engine_cores)
    load = Load(connections=32, threads=len(lanes.engine), keepalive=True, timeout_ns=2_000_000_000)
    for entry in entries:
        state = check(entry)
        if isinstance(state, Missing):
            yield Proof(contender=entry.name, status="missing", reason=f"{state.reason}; {state.remedy}")
            continue
        for name in [workload] if workload else entry.workloads or ("hello",):
            with _track(load_workload(name), load, lanes, seed=secrets.randbits(32)) as track:
                _scrutineer(track, entry, state.version, found := Field(), _Silent())
            (one,) = found.entrants
            status = "failed" if one.out else "passed"
            yield Proof(contender=entry.name, workload=name, status=status, reason=one.out, facts=one.parity)


class _Silent:
    """A progress display that shows nothing."""

    def phase(self, text: str) -> None:
        """Nothing."""

    def entrant(self, name: str, status: str) -> None:
        """Nothing."""

    def round_done(self, race: Race, judged: verdict.Verdict) -> None:
        """Nothing."""
