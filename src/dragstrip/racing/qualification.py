"""Before the rounds: each contender is started once, has to prove its answers, and is calibrated on that launch.

What mostly waits (answers that don't come, servers that don't close) is tried side by side; blocks of load run alone.
Nothing measured here is used in the verdict.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dragstrip import machine, parity
from dragstrip.analysis.cpu_shares import own_p50_ns
from dragstrip.contender import BUILD_S, Entry, Missing, Ready, build, check, pending_build
from dragstrip.errors import NotReady, StageError
from dragstrip.process.launcher import GRACE_S, INTERRUPTED_GRACE_S
from dragstrip.process.running import Running
from dragstrip.racing import calibration, environment, schedule
from dragstrip.racing.progress import Progress
from dragstrip.racing.qualification_store import DISTURBED_S, GOOD_S, KeptQualification, QualificationStore
from dragstrip.racing.request import Request
from dragstrip.racing.round import launch_twice, stop_all, warm_up
from dragstrip.racing.setup import RaceSetup, block_plan, race_setup
from dragstrip.record import Entrant, Load
from dragstrip.scrutiny import (
    HABITS_S,
    PROOF_S,
    Deadline,
    Findings,
    check_correctness,
    connection_behaviour,
    fairness,
    nothing_right,
)

if TYPE_CHECKING:
    from dragstrip._engine import Tally

#: Randomised probes put to each contender in scrutineering.
PROBES = 12

#: A calibration block: long enough to meet a slow server's median latency a few times; a quick one's is shorter.
CALIBRATION_NS, CALIBRATION_LEAST_NS, CALIBRATION_LATENCIES = 200_000_000, 100_000_000, 50

#: The shortest warm-up that is learned for an ad hoc contender; what a definition says otherwise.
LEARNED_LEAST_S = 0.05

#: So many contenders are up and tried at once; so many of them are asked at the same time.
AT_ONCE, ASKED_AT_ONCE = 16, 4

#: They start one after another, so that none slows another's start; one that takes longer holds up nobody.
HELD_UP_S = 0.5

#: Seconds that an ad hoc contender has to its first right answer: as many as a definition that says nothing of it.
AD_HOC_WAKE_S = 10.0

#: So many of those that are waited for are named at a time.
NAMED = 3

#: Seconds after which it is told who is waited for, and again after as many.
TELL_S = 1.0


@dataclass
class Qualified:
    """The contenders as they came out of scrutineering; ``ready`` and the figures only of those that came through."""

    entrants: list[Entrant] = field(default_factory=list)
    ready: dict[str, Entry] = field(default_factory=dict)
    p50_ns: dict[str, int] = field(default_factory=dict)
    launch_s: dict[str, float] = field(default_factory=dict)
    capacity_per_s: dict[str, float] = field(default_factory=dict)
    learned: dict[str, Entry] = field(default_factory=dict)
    habits: dict[str, calibration.BlockCalibration] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)


@dataclass
class _Candidate:
    """One contender on its way through: why it is out, or what was found so far."""

    entry: Entry
    state: Ready | Missing
    why: str = ""
    running: Running | None = None
    findings: Findings = field(default_factory=Findings)
    tried: dict[str, parity.Fact] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    tally: Tally | None = None
    proof: KeptQualification | None = None
    started: threading.Event = field(default_factory=threading.Event)
    limit: Deadline | None = None

    @property
    def name(self) -> str:
        """The entrant's."""
        return self.entry.name

    @property
    def through(self) -> bool:
        """Up, and nothing found against it so far."""
        return self.running is not None and not self.why

    @property
    def waited_for(self) -> str:
        """Its name, and how long what it does now has taken of how long it may."""
        if self.limit is None:
            return self.name
        return f"{self.name}, {self.limit.spent_s:.0f} s of {self.limit.within_s:.0f} s"


@contextmanager
def qualified(
    request: Request,
    load: Load,
    lanes: machine.Lanes,
    seed: int,
    progress: Progress,
    kept: QualificationStore | None = None,
) -> Iterator[tuple[RaceSetup, Qualified]]:
    """What rounds share, and every contender proved and calibrated once; all is stopped at the end.

    Args:
        kept: proofs that may be reused; None: every contender is proved anew.

    Raises:
        NotReady: a contender named by hand is missing something.
    """
    progress.phase("checking what is installed")
    states = _installed(request)
    with race_setup(request.workload, load, lanes, seed, request.io, request.awake, request.wait) as setup:
        setup.stand_by(entry for entry in request.entries if isinstance(states[entry.name], Ready))
        yield setup, qualify_all(setup, request.entries, states, progress, kept)


def _installed(request: Request) -> dict[str, Ready | Missing]:
    found: dict[str, Ready | Missing] = {}
    for entry in request.entries:
        found[entry.name] = state = check(entry)
        if isinstance(state, Missing) and request.explicit:
            raise NotReady(f"{entry.name} is not ready: {state.reason}; {state.remedy}")
    return found


def qualify_all(
    track: RaceSetup,
    entries: Sequence[Entry],
    states: Mapping[str, Ready | Missing],
    progress: Progress,
    proofs: QualificationStore | None = None,
) -> Qualified:
    """Every contender proved and calibrated, by a kept proof or anew; none is left running.

    Args:
        states: by name, what ``contender.check`` said.
        proofs: those kept; None: all are proved anew, and nothing is kept.
    """
    found = Qualified()
    candidates = [_candidate(entry, states[entry.name], found, progress, proofs) for entry in entries]
    fresh = [one for one in candidates if not one.why and one.proof is None]
    for at in range(0, len(fresh), AT_ONCE):
        _qualify(track, fresh[at : at + AT_ONCE], found, progress)
    for one in candidates:
        _enter(track, one, found, proofs)
        reused = one.proof is not None and not one.why and one not in fresh
        ready = f"ready, by its scrutineering of {one.proof.when}" if reused and one.proof else "ready"
        progress.entrant(one.name, f"out: {one.why}" if one.why else ready)
    return found


def _candidate(
    entry: Entry, state: Ready | Missing, found: Qualified, progress: Progress, proofs: QualificationStore | None
) -> _Candidate:
    one = _Candidate(entry, state)
    if isinstance(state, Missing):
        one.why = f"missing: {state.reason}; {state.remedy}"
        return one
    try:
        if command := pending_build(entry):
            progress.entrant(entry.name, f"building once, up to {BUILD_S / 60:.0f} min: {' '.join(command)}")
        built: Path | None = build(entry)
    except StageError as error:
        one.why = str(error)
        return one
    if proofs is not None:
        key = found.keys[entry.name] = proofs.key(entry, state, built)
        one.proof = proofs.find(key)
    if one.proof is None:
        progress.entrant(entry.name, "scrutineering")
    else:
        one.facts = {"scrutineering": f"of {one.proof.when} UTC, reused", **one.proof.parity}
    return one


def _qualify(track: RaceSetup, candidates: Sequence[_Candidate], found: Qualified, progress: Progress) -> None:
    """Some contenders at once: asked side by side, loaded one by one, watched while idle together, stopped together."""
    grace_s = INTERRUPTED_GRACE_S
    try:
        asked = _SideBySide()
        for one in candidates:
            asked.begin(one, lambda one=one: _launch_and_ask(track, one, asked.room))  # type: ignore[misc]
            one.started.wait(HELD_UP_S)
            asked.tell(progress)
        asked.end(progress)
        _stop([one for one in candidates if one.why])
        for one in candidates:
            if one.through:
                _calibrate(track, one, found, progress)
        through = [one for one in candidates if one.through]
        shares = calibration.idle_shares([one.running for one in through if one.running])
        for one, share in zip(through, shares, strict=True):
            found.habits[one.name] = found.habits[one.name].at_idle(share)
        # An ad hoc server's warm-up must be seen from its beginning: it is asked so much only now.
        for one in through:
            if one.entry.contender is None:
                asked.begin(one, lambda one=one: _try_habits(track, one, asked.room))  # type: ignore[misc]
        asked.end(progress)
        grace_s = GRACE_S
    finally:
        _stop(candidates, grace_s)


def _launch_and_ask(track: RaceSetup, one: _Candidate, room: threading.Semaphore) -> None:
    one.limit = Deadline(one.entry.contender.fields.start.wake_s if one.entry.contender else AD_HOC_WAKE_S)
    try:
        one.running = launch_twice(track, one.entry)
    except StageError as error:
        one.why = str(error)
    finally:
        one.limit = None
        one.started.set()
    if one.through:
        with room:
            one.limit = Deadline(PROOF_S)
            _ask(track, one)


def _stop(candidates: Iterable[_Candidate], grace_s: float = GRACE_S) -> None:
    up = {one.name: one.running for one in candidates if one.running is not None}
    for one in candidates:
        one.running = None
    stop_all(up, grace_s=grace_s)


class _SideBySide:
    """Runs calls that mostly wait in threads of their own; an interruption abandons them.

    Daemons: what they wait for ends with the servers that they ask. ``room`` is for what they do besides waiting.
    """

    def __init__(self) -> None:
        self.room = threading.Semaphore(ASKED_AT_ONCE)
        self._waiting: dict[str, tuple[threading.Thread, _Candidate]] = {}
        self._raised: list[BaseException] = []
        self._of = 0
        self._tell_at = time.monotonic() + TELL_S

    def begin(self, one: _Candidate, call: Callable[[], None]) -> None:
        """One more."""
        thread = threading.Thread(target=self._run, args=(call,), name=f"asking {one.name}", daemon=True)
        self._of += 1
        self._waiting[one.name] = (thread, one)
        thread.start()

    def _run(self, call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:  # told to the caller, in whose thread it belongs
            self._raised.append(error)

    def tell(self, progress: Progress) -> None:
        """Says who is waited for, and for how long at most, if it was not said just now."""
        if time.monotonic() < self._tell_at:
            return
        left = [one.waited_for for thread, one in self._waiting.values() if thread.is_alive()]
        more = f"; and {len(left) - NAMED} more" if len(left) > NAMED else ""
        if left:
            progress.phase(f"checking {len(left)} of {self._of}: {'; '.join(left[:NAMED])}{more}")
        self._tell_at = time.monotonic() + TELL_S

    def end(self, progress: Progress) -> None:
        """Waits for all of them, and now and then tells for whom.

        Raises:
            Exception: what one of them raised.
        """
        while self._waiting:
            name, (thread, _) = next(iter(self._waiting.items()))
            thread.join(max(self._tell_at - time.monotonic(), 0.01))
            if not thread.is_alive():
                del self._waiting[name]
            self.tell(progress)
        self._of = 0
        if self._raised:
            raise self._raised[0]


def _ask(track: RaceSetup, one: _Candidate) -> None:
    """Has a contender prove its answers, and tries what it does with connections. Runs beside others' asking."""
    assert one.running is not None
    running, entry, workload, load = one.running, one.entry, track.workload, track.load
    both = [
        (
            *workload.exchanges(mark=entry.mark, keepalive=keep, http=load.http, seed=track.seed),
            *workload.probes(mark=entry.mark, keepalive=keep, http=load.http, seed=track.seed, count=PROBES),
        )
        for keep in (True, False)
    ]
    findings = check_correctness(running.host, running.port, keepalive=both[0], closing=both[1])
    if not findings.problems and load.keepalive:
        fair = fairness(running.host, running.port, both[0][0], connections=load.connections)
        findings = Findings(problems=fair.problems, facts={**findings.facts, **fair.facts})
    one.findings = findings
    one.why = "; ".join(findings.problems)
    if not one.why and entry.contender is not None:
        one.tried = _habits(track, one)


def _try_habits(track: RaceSetup, one: _Candidate, room: threading.Semaphore) -> None:
    with room:
        one.limit = Deadline(HABITS_S)
        one.tried = _habits(track, one)


def _habits(track: RaceSetup, one: _Candidate) -> dict[str, parity.Fact]:
    assert one.running is not None
    exchange = track.workload.exchanges(mark=one.entry.mark, seed=track.seed)[0]
    return connection_behaviour(one.running.host, one.running.port, exchange)


def _calibrate(track: RaceSetup, one: _Candidate, found: Qualified, progress: Progress) -> None:
    """Warms a contender up and loads it, alone: its typical latency, its capacity, how it takes short blocks."""
    progress.phase(f"calibrating {one.name}")
    running, entry, name = one.running, one.entry, one.name
    assert running is not None
    try:
        warm = warm_up(track, entry, running, 0)
    except StageError as error:
        one.why = str(error)
        _stop([one])
        return
    before = machine.thread_cpu_ns(running.schedstats())
    length_ns = min(max(CALIBRATION_LATENCIES * warm.p50_ns, CALIBRATION_LEAST_NS), CALIBRATION_NS)
    with track.awake.held():
        (tally,) = track.engine.run([block_plan(warm.session, counted_ns=length_ns)])
    worked = machine.who_worked(before, machine.thread_cpu_ns(running.schedstats()))
    counts = running.counts()
    if tally.requests:
        lengths_ns = schedule.block_lengths(
            {name: own_p50_ns(tally, tally.p50_ns, len(track.lanes.server))}, [entry.lead_ns]
        )
        found.habits[name] = calibration.calibrate_blocks(track.engine, warm.session, name, lengths_ns)
    track.engine.close(warm.session)
    if tally.requests == 0 or not running.alive():
        one.why = nothing_right(tally.errors, tally.sample, running.log_tail(5))
        _stop([one])
        return
    one.tally = tally
    found.p50_ns[name] = own_p50_ns(tally, tally.p50_ns, len(track.lanes.server))
    found.capacity_per_s[name] = tally.requests * 1e9 / max(tally.counted_ns, 1)
    warm_up_s = warm.warm_up_ns / 1e9
    if entry.contender is None:
        # Nobody says what runs an ad hoc server, so it was watched as long as a just-in-time runtime; where that
        # showed no rise, the rounds need not wait so long. Their own warm-ups still end by evidence.
        least_s = min(max(LEARNED_LEAST_S, warm.enough_s), entry.warm_up_least_s)
        found.learned[name] = replace(entry, warm_up_least_s=least_s)
        warm_up_s = min(warm_up_s, max(least_s, LEARNED_LEAST_S))
    found.launch_s[name] = running.ready_ns / 1e9 + warm_up_s
    one.facts = _seen_under_load(track, running, tally, worked, counts)


def _seen_under_load(
    track: RaceSetup, running: Running, tally: Tally, worked: str, counts: tuple[int, int]
) -> dict[str, str]:
    """Facts for the parity sheet from the calibration block."""
    facts = {"processes, threads": f"{counts[0]}, {counts[1]}" if counts[0] else "unknown"}
    facts |= {"worked under load": worked} if worked else {}
    if tally.server_cpu_ns is not None:
        used = parity.CoresUsed(tally.server_cpu_ns / max(tally.duration_ns, 1), len(track.lanes.server))
        facts[parity.CORES_USED] = str(used)
    facts["connections opened per 1000 answers"] = f"{1000 * tally.connects / max(tally.answered, 1):.1f}"
    facts["CPU read from"] = running.cpu_source
    if running.users():
        facts[parity.RUNS_AS] = str(parity.RunsAs(tuple(running.users())))
    if running.note:
        facts[parity.NOTE] = running.note
    return facts


def _enter(track: RaceSetup, one: _Candidate, found: Qualified, proofs: QualificationStore | None) -> None:
    """Writes a candidate into the field; a new proof is kept."""
    entry, name = one.entry, one.name
    if not one.why and one.tally is not None:
        seen = found.habits[name]
        asked = parity.sheet_texts({**one.findings.facts, **one.tried})
        one.facts = {**asked, **entry.parity, **one.facts, **seen.facts}
        if proofs is not None:
            proofs.keep(found.keys.get(name, ""), _made(one.facts, one.tally, seen, found, name))
    elif not one.why and one.proof is not None:
        proof = one.proof
        found.p50_ns[name], found.launch_s[name] = proof.p50_ns, proof.launch_s
        found.capacity_per_s[name] = proof.capacity_per_s
        events = tuple(environment.event(kind, detail) for kind, detail in proof.events)
        found.habits[name] = calibration.BlockCalibration(proof.factor, proof.restless, {}, events)
    if not one.why:
        found.ready[name] = found.learned.get(name, entry)
        if found.habits[name].restless:
            track.restless.add(name)
    else:
        for figures in (found.p50_ns, found.launch_s, found.capacity_per_s, found.habits):
            figures.pop(name, None)
    found.entrants.append(
        Entrant(
            name=name,
            title=entry.title,
            kind=entry.kind,
            version="" if isinstance(one.state, Missing) else one.state.version,
            language=entry.language,
            parameters=dict(entry.parameters),
            definition_hash=entry.definition_hash,
            parity={} if one.why else one.facts,
            out=one.why,
        )
    )


def _made(
    facts: Mapping[str, str], tally: Tally, seen: calibration.BlockCalibration, found: Qualified, name: str
) -> KeptQualification:
    return KeptQualification(
        at_s=time.time(),
        good_s=DISTURBED_S if calibration.disturbed(tally) or seen.unclear else GOOD_S,
        parity=facts,
        p50_ns=found.p50_ns[name],
        capacity_per_s=found.capacity_per_s[name],
        launch_s=found.launch_s[name],
        factor=seen.factor,
        restless=seen.restless,
        events=tuple((event.kind, event.detail) for event in seen.events),
    )
