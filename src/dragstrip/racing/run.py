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
from typing import Any

from dragstrip import analysis, machine
from dragstrip.contender import Entry, Missing, Ready, check, serving
from dragstrip.errors import BadUsage, EngineFailure, NotReady
from dragstrip.metrics import AUTO
from dragstrip.process import keep_awake, launcher
from dragstrip.racing import environment, options, qualification_store, schedule
from dragstrip.racing.loop import Progress, RaceLoop
from dragstrip.racing.qualification import Qualified, qualify_all
from dragstrip.racing.qualification_store import QualificationStore
from dragstrip.racing.round import RaceSetup
from dragstrip.record import METHOD_VERSION, Event, Load, Plan, Race
from dragstrip.store import machine_profile
from dragstrip.store.database import Store
from dragstrip.version import __version__
from dragstrip.workload import Workload
from dragstrip.workload import load as load_workload

#: The highest rate of an open loop, of the engine.
MOST_PER_S = 10_000_000.0


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
        fresh_scrutiny: every contender is proved and calibrated anew, also where nothing has changed since it was.
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
    fresh_scrutiny: bool = False

    def __post_init__(self) -> None:
        """Refuses what no race can be run with, before anything is started or stored.

        Raises:
            BadUsage: says which field, what was given and what would do.
        """
        for name in options.BOUNDS:
            object.__setattr__(self, name, options.taken(name, getattr(self, name)))
        rate = options.Number(most=MOST_PER_S, or_none=True, also=(schedule.AUTO_RATE,))
        object.__setattr__(self, "rate_per_s", options.taken("rate_per_s", self.rate_per_s, rate))


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
    kept = kept_proofs(request, store, load, lanes, facts)
    with stand(request, load, lanes, seed, progress, kept) as (track, field_):
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
            software=__version__,
            method=METHOD_VERSION,
            machine=facts | io_facts(track) | machine_profile.known(store.path, facts, lanes),
            server_cores=lanes.server,
            engine_cores=lanes.engine,
            entrants=tuple(field_.entrants),
            events=(
                *([environment.event(*noted)] if noted else []),
                *(seen for found in field_.habits.values() for seen in found.events),
            ),
        )
        store.begin(race)
        raced = _director(track, store, progress, race, field_).drive()
    for entrant in raced.entrants:
        if entrant.out:
            kept.forget(field_.keys.get(entrant.name, ""))
    return raced


def kept_proofs(
    request: Request, store: Store, load: Load, lanes: machine.Lanes, facts: Mapping[str, Any]
) -> QualificationStore:
    """Scrutineering's results that lie beside the store, of races as this one."""
    depends_on = qualification_store.context(
        request.workload, load, lanes, request.io, facts, request.awake, request.wait
    )
    return QualificationStore(store.path.with_suffix(".scrutiny"), depends_on, fresh=request.fresh_scrutiny)


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
    request: Request,
    load: Load,
    lanes: machine.Lanes,
    seed: int,
    progress: Progress,
    kept: QualificationStore | None = None,
) -> Iterator[tuple[RaceSetup, Qualified]]:
    """A track, and on it every contender proved and calibrated once; all is stopped at the end.

    Args:
        kept: proofs that may be reused; None: every contender is proved anew.

    Raises:
        NotReady: a contender named by hand is missing something.
    """
    progress.phase("checking what is installed")
    states = _states(request)
    with _track(request.workload, load, lanes, seed, request.io, request.awake, request.wait) as track:
        track.stand_by(entry for entry in request.entries if isinstance(states[entry.name], Ready))
        yield track, qualify_all(track, request.entries, states, progress, kept)


def resume(
    race_id: str,
    entries: Sequence[Entry],
    workload: Workload,
    *,
    store: Store,
    progress: Progress,
    extra_s: float | None = None,
) -> Race:
    """Goes on with a race that was cut off: same seed, plan and lanes; the rounds count on from the last recorded.

    Args:
        extra_s: seconds of further budget, also for a race that has spent its own.

    Raises:
        BadUsage: the race has ended by its own rule, or a contender's definition has changed since.
    """
    race = store.load(race_id)
    _refuse_resume(race, extra_s)
    if workload.name != race.workload:
        raise BadUsage(
            f"race {race.id} is of workload {race.workload}, not {workload.name}; --workload FILE names its file"
        )
    lanes = machine.lanes(_cores(race.server_cores), _cores(race.engine_cores))
    by_name, states = {entry.name: entry for entry in entries}, dict[str, Ready | Missing]()
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
            states[entrant.name] = Ready(entrant.version, {})
        if extra_s is not None:
            race = _extended(race, extra_s, store)
        field_ = qualify_all(track, [by_name[name] for name in states], states, progress)
        store.append_event(race.id, Event(at_ns=time.monotonic_ns(), kind="resumed", detail=""))
        director = _director(track, store, progress, replace(race, finished=""), field_)
        director.let_out({entrant.name: entrant.out for entrant in field_.entrants if entrant.out}, len(race.rounds))
        return director.drive()


def _refuse_resume(race: Race, extra_s: float | None) -> None:
    if race.method != METHOD_VERSION:
        raise BadUsage(
            f"race {race.id} was begun by method version {race.method}, this Dragstrip races by {METHOD_VERSION}: its "
            f"rounds would be of two kinds; start a new race instead (`dragstrip rerun {race.id}`)"
        )
    if extra_s is not None and race.plan.rounds_fixed:
        raise BadUsage(
            f"race {race.id} has its number of rounds fixed (--rounds {race.plan.planned_rounds}), which more budget "
            "can't change; start a new race with more rounds instead"
        )
    over = ("decided", "rounds") if extra_s is not None else ("decided", "budget", "rounds")
    if race.finished in over:
        more = "; `--budget +2m` goes on with it for two minutes" if race.finished == "budget" else ""
        raise BadUsage(
            f"race {race.id} has ended ({race.finished}): there is nothing to resume{more or '; start a new race'}"
        )


def _extended(race: Race, extra_s: float, store: Store) -> Race:
    """The race with more budget, recorded: the last round counts on by what it pays for at the pace so far."""
    spent_s = sum((this.ended_ns - this.started_ns) / 1e9 for this in race.rounds)
    done = sum(not this.void for this in race.rounds)
    budget_s = max(race.plan.budget_s, spent_s) + extra_s
    pays_for = schedule.planned_rounds(budget_s - spent_s, spent_s / len(race.rounds)) if race.rounds else 0
    planned = max(race.plan.planned_rounds, done + pays_for)
    store.extend(race.id, budget_s=budget_s, planned_rounds=planned)
    extensions = (*race.plan.extensions, race.plan.planned_rounds)
    return replace(race, plan=replace(race.plan, budget_s=budget_s, planned_rounds=planned, extensions=extensions))


def io_facts(track: RaceSetup) -> dict[str, str]:
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
    kept = str(race.machine.get("awake", keep_awake.OFF))
    return keep_awake.OFF if kept == keep_awake.OFF else "auto", str(race.machine.get("engine_wait", "sleep"))


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


def _states(request: Request) -> dict[str, Ready | Missing]:
    found: dict[str, Ready | Missing] = {}
    for entry in request.entries:
        found[entry.name] = state = check(entry)
        if isinstance(state, Missing) and request.explicit:
            raise NotReady(f"{entry.name} is not ready: {state.reason}; {state.remedy}")
    return found


@contextmanager
def _track(
    workload: Workload,
    load: Load,
    lanes: machine.Lanes,
    seed: int,
    io: str = "auto",
    keep: str = keep_awake.OFF,
    wait: str = "sleep",
) -> Iterator[RaceSetup]:
    from dragstrip._engine import Engine, EngineError  # old results must be readable where it can't load

    launcher.sweep_stale()
    before = os.sched_getaffinity(0)
    with ExitStack() as open_things:
        scratch = open_things.enter_context(launcher.scratch_root())
        if not lanes.shared:
            # The director and its keepers stay off the servers' lane.
            os.sched_setaffinity(0, lanes.engine)
            open_things.callback(os.sched_setaffinity, 0, before)
        if keep not in keep_awake.CHOICES:
            raise BadUsage(f"awake: {keep!r} given; use {' or '.join(keep_awake.CHOICES)}")
        against = keep_awake.against_spinning(lanes.all, [machine.siblings(core) for core in lanes.all])
        if wait == "auto":
            wait = keep_awake.usual_wait(against, shared=lanes.shared)
        sleepers = lanes.server if wait == "poll" else lanes.all
        against = keep_awake.beside(wait, against)
        kept = open_things.enter_context(keep_awake.hold(sleepers, on=keep != keep_awake.OFF, against=against))
        try:
            engine = Engine(list(lanes.engine[: load.threads]), io=io, wait=wait)
            open_things.callback(engine.shutdown)
            yield RaceSetup(engine, lanes, load, workload, scratch, open_things, seed, awake=kept)
        except EngineError as error:
            raise EngineFailure(f"the load engine: {error}") from error


def _plan(request: Request, field_: Qualified, load: Load) -> Plan:
    factors = {name: field_.habits[name].factor for name in field_.ready}
    leads_ns = {name: entry.lead_ns for name, entry in field_.ready.items()}
    launch_s = sum(field_.launch_s[name] for name in field_.ready)
    lengths_ns = schedule.own_lengths({name: field_.p50_ns[name] for name in field_.ready}, leads_ns, factors)
    passes = schedule.own_passes(lengths_ns, launch_s=launch_s, budget_s=request.budget_s)
    if load.rate_per_s:
        # One length for all: a quantile of so many answers is compared with one of as many.
        longest = schedule.block_lengths(field_.p50_ns, leads_ns.values())
        lead_ns, counted_ns = (max(factors.values(), default=1) * part for part in longest)
        both = lead_ns, schedule.long_enough(counted_ns, request.metric, load.rate_per_s)
        count = max(len(field_.ready), 1)
        alike = schedule.passes(launch_s=launch_s, block_s=sum(both) / 1e9, contenders=count, budget_s=request.budget_s)
        lengths_ns, passes = dict.fromkeys(field_.ready, both), dict.fromkeys(field_.ready, alike)
    blocks = {name: (*both, passes[name]) for name, both in lengths_ns.items()}
    round_s = launch_s + schedule.loaded_s(blocks)
    return Plan(
        lead_ns=max((lead for lead, _, _ in blocks.values()), default=schedule.LEAD_NS),
        counted_ns=max((counted for _, counted, _ in blocks.values()), default=schedule.block_lengths({})[1]),
        passes=max(passes.values(), default=schedule.PASSES),
        budget_s=request.budget_s,
        planned_rounds=request.rounds or schedule.planned_rounds(request.budget_s, round_s),
        metric=request.metric,
        margin=request.margin,
        alpha=request.alpha,
        rounds_fixed=request.rounds is not None,
        blocks={} if load.rate_per_s else blocks,
    )


def _director(track: RaceSetup, store: Store, progress: Progress, race: Race, field_: Qualified) -> RaceLoop:
    return RaceLoop(track, store, progress, race, ready=field_.ready, p50_ns=field_.p50_ns)


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
                found = qualify_all(track, [entry], {entry.name: state}, _Silent())
            (one,) = found.entrants
            status = "failed" if one.out else "passed"
            yield Proof(contender=entry.name, workload=name, status=status, reason=one.out, facts=one.parity)


class _Silent:
    """A progress display that shows nothing."""

    def phase(self, text: str) -> None:
        """Nothing."""

    def entrant(self, name: str, status: str) -> None:
        """Nothing."""

    def round_done(self, race: Race, judged: analysis.Verdict) -> None:
        """Nothing."""
