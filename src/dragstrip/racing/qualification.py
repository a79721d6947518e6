"""Before the rounds: each contender is started once, has to prove its responses, and is calibrated on that launch.

Checks that mostly wait (for missing responses, for servers that don't close) run side by side; blocks of load run
alone. Nothing measured here is used in the verdict.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from dragstrip import parity
from dragstrip.contender import BUILD_S, Entry, Missing, Ready
from dragstrip.errors import NotReady, StageError
from dragstrip.machine import Lanes
from dragstrip.racing import schedule
from dragstrip.racing.calibration import Calibrated, Calibration, calibrate, idle_shares, with_equal_warm_ups
from dragstrip.racing.launching import LaunchedServer, Servers, left_text
from dragstrip.racing.progress import Progress
from dragstrip.racing.qualification_store import DISTURBED_S, GOOD_S, KeptQualification, QualificationStore
from dragstrip.racing.request import Request
from dragstrip.racing.setup import LOCAL, RaceSetup, Site
from dragstrip.record import Entrant, Load
from dragstrip.scrutiny import BEHAVIOUR_S, CORRECTNESS_S, Deadline

#: How many contenders are up and checked at once, and how many of them get requests at once.
AT_ONCE, CHECKED_AT_ONCE = 16, 4

#: Contenders start one after another, so that none slows another's start; after this time the next one starts anyway.
HELD_UP_S = 0.5

#: Number of awaited contenders that a progress line names.
NAMED = 3

#: Seconds between two progress lines that name what Dragstrip is waiting for.
SHOW_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """A contender that was checked.

    Args:
        entry: how to start it; for an ad hoc contender, with the learned warm-up.
        key: the result is kept under this key for the next race; None if Dragstrip can't tell whether it changes.
        facts: for the parity sheet.
        reason: why it is out, in words.
    """

    entry: Entry
    version: str
    key: str | None
    facts: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    @property
    def name(self) -> str:
        return self.entry.name

    def entrant(self) -> Entrant:
        """For the race's record."""
        return Entrant(
            name=self.name,
            title=self.entry.title,
            kind=self.entry.kind,
            version=self.version,
            language=self.entry.language,
            parameters=dict(self.entry.parameters),
            definition_hash=self.entry.definition_hash,
            parity=dict(self.facts),
            out=self.reason,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Qualified(_Tried):
    """A contender that passed its checks and was calibrated."""

    calibration: Calibration


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected(_Tried):
    """A contender that is missing, did not start, or was not correct."""


@dataclass(frozen=True, slots=True)
class Qualification:
    """All contenders after qualification, in the order in which they were named."""

    contenders: tuple[Qualified | Rejected, ...]

    @property
    def ready(self) -> dict[str, Qualified]:
        """The contenders that can race, by name."""
        return {tried.name: tried for tried in self.contenders if isinstance(tried, Qualified)}

    @property
    def rejected(self) -> dict[str, str]:
        """Why the other contenders can't race, by name."""
        return {tried.name: tried.reason for tried in self.contenders if isinstance(tried, Rejected)}

    def entrants(self) -> tuple[Entrant, ...]:
        return tuple(tried.entrant() for tried in self.contenders)


@contextmanager
def set_up(
    request: Request, load: Load, lanes: Lanes, seed: int, progress: Progress
) -> Iterator[tuple[RaceSetup, Mapping[str, Ready | Missing]]]:
    """What rounds share, and whether each contender is installed; everything is stopped at the end.

    Raises:
        NotReady: a contender named by hand is missing something.
    """
    progress.phase("checking what is installed", waiting=True)
    states = _installed(request)
    setting = request.site.race_setup(request.workload, load, lanes, seed, request.io, request.awake, request.wait)
    with setting as setup:
        setup.learning = schedule.learning_share(request.budget_s, request.rounds)
        setup.stand_by(entry for entry in request.entries if isinstance(states[entry.name], Ready))
        yield setup, states


def _installed(request: Request) -> dict[str, Ready | Missing]:
    states: dict[str, Ready | Missing] = {}
    for entry in request.entries:
        states[entry.name] = state = request.site.check(entry)
        if isinstance(state, Missing) and request.explicit:
            raise NotReady(f"{entry.name} is not ready: {state.reason}; {state.remedy}")
        for workload in request.workloads:
            if entry.serves(workload.served_as) and request.explicit:
                asking = request.site.check(
                    entry.for_workload(workload.served_as, asks_database=workload.asks_database)
                )
                if isinstance(asking, Missing):
                    raise NotReady(f"{entry.name} is not ready for {workload.shown}: {asking.reason}; {asking.remedy}")
    return states


def qualify_all(
    setup: RaceSetup,
    entries: Sequence[Entry],
    states: Mapping[str, Ready | Missing],
    progress: Progress,
    store: QualificationStore | None = None,
    site: Site = LOCAL,
) -> Qualification:
    """Checks and calibrates every contender, or takes its stored qualification; leaves none running.

    Args:
        states: results of ``contender.check``, by name.
        store: stored qualifications; None: all contenders are checked again, and nothing is stored.
        site: where contenders are built.
    """
    named, workload = entries, setup.workload
    entries = [entry.for_workload(workload.served_as, asks_database=workload.asks_database) for entry in named]
    states = {
        entry.name: states[entry.name] if entry is before else site.check(entry)
        for entry, before in zip(entries, named, strict=True)
    }
    candidates = [_candidate(entry, states[entry.name], progress, store, site) for entry in entries]
    to_try = [candidate for candidate in candidates if candidate.rejected is None and candidate.kept is None]
    firsts = _one_of_each(to_try)
    _try(setup, firsts, store, progress)
    others = [candidate for candidate in to_try if not any(candidate is first for first in firsts)]
    for candidate in others:
        candidate.kept = store.find(candidate.key) if store is not None else None
    _try(setup, [candidate for candidate in others if candidate.kept is None], store, progress)
    equal = with_equal_warm_ups({tried.name: tried.calibrated for tried in candidates if tried.calibrated is not None})
    for candidate in candidates:
        candidate.calibrated = equal.get(candidate.name)
    results = tuple(candidate.result() for candidate in candidates)
    for candidate in candidates:
        candidate.announce(progress)
    return Qualification(results)


def _one_of_each(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """The first of all that are the same server with the same settings, under different names."""
    seen: set[str] = set()
    firsts = []
    for candidate in candidates:
        if candidate.key is None or candidate.key not in seen:
            firsts.append(candidate)
        if candidate.key is not None:
            seen.add(candidate.key)
    return firsts


def _try(
    setup: RaceSetup, candidates: Sequence[_Candidate], store: QualificationStore | None, progress: Progress
) -> None:
    """Checks and calibrates contenders, some at once, and keeps what can be reused."""
    for first in range(0, len(candidates), AT_ONCE):
        _qualify(setup, candidates[first : first + AT_ONCE], progress)
    for candidate in candidates:
        result = candidate.result()
        if store is not None and candidate.calibrated is not None and isinstance(result, Qualified):
            good_s = DISTURBED_S if candidate.calibrated.disturbed else GOOD_S
            proof = KeptQualification(
                at_s=time.time(), good_s=good_s, parity=result.facts, calibration=result.calibration
            )
            store.keep(result.key, proof)


@dataclass
class _Candidate:
    """One contender during qualification.

    Args:
        version: as its program reports it; "" if it is missing.
        key, kept: its stored qualification, if one is still valid.
        rejected: why it is out; None while every check has passed.
        limit: time limit of its current check.
        wanted: statements that its responses need in the database.
    """

    entry: Entry
    version: str
    key: str | None = None
    kept: KeptQualification | None = None
    rejected: str | None = None
    launched: LaunchedServer | None = None
    facts: dict[str, parity.Fact] = field(default_factory=dict)
    calibrated: Calibrated | None = None
    started: threading.Event = field(default_factory=threading.Event)
    limit: Deadline | None = None
    wanted: int = 0

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def running(self) -> LaunchedServer | None:
        """Its launch, if it is up and every check has passed so far."""
        return self.launched if self.rejected is None else None

    @property
    def waited_for(self) -> str:
        """Its name, and how much of its time limit its current check has used."""
        if self.limit is None:
            return self.name
        spent_s, within_s = self.limit.spent_s, self.limit.within_s  # a second start, at another port, has its own time
        return f"{self.name}, {spent_s:.0f} s{f' of {within_s:.0f} s' if spent_s <= within_s else ''}"

    def announce(self, progress: Progress) -> None:
        """Shows the result on the display."""
        if self.rejected is not None:
            progress.out(self.name, self.rejected)
        else:
            own_note = self.calibrated.facts.get(parity.NOTE, "") if self.calibrated and self.entry.command else ""
            progress.ready(self.name, self.kept.when if self.kept else None, own_note)

    def result(self) -> Qualified | Rejected:
        """Its result: qualified by calibration, qualified by a stored qualification, or rejected."""
        if self.calibrated is not None and self.rejected is None:
            own = dict[str, str]()
            if self.entry.container is not None:
                from dragstrip.contender import boxes

                own = boxes.facts(self.entry)
            facts = {**parity.sheet_texts(self.facts), **own, **self.entry.parity, **self.calibrated.facts}
            entry, calibration = self.calibrated.entry, self.calibrated.calibration
        elif self.kept is not None:
            facts = {"scrutineering": f"of {self.kept.when} UTC, reused", **self.kept.parity}
            events = tuple(replace(event, at_ns=time.monotonic_ns()) for event in self.kept.calibration.events)
            entry, calibration = self.entry, replace(self.kept.calibration, events=events)
        else:
            reason = self.rejected or "it was not tried"
            return Rejected(entry=self.entry, version=self.version, key=self.key, reason=reason)
        return Qualified(entry=entry, version=self.version, key=self.key, facts=facts, calibration=calibration)


def _candidate(
    entry: Entry, state: Ready | Missing, progress: Progress, store: QualificationStore | None, site: Site
) -> _Candidate:
    """A contender before its checks: built, and with its stored qualification if there is one."""
    if isinstance(state, Missing):
        return _Candidate(entry, "", rejected=f"missing: {state.reason}; {state.remedy}")
    try:
        if command := site.pending_build(entry):
            progress.building(entry.name, command, BUILD_S)
        built = site.build(entry)
    except StageError as error:
        return _Candidate(entry, state.version, rejected=_why(error, entry))
    key = store.key(entry, state, built) if store is not None else None
    kept = store.find(key) if store is not None else None
    if kept is None:
        progress.scrutineering(entry.name)
    return _Candidate(entry, state.version, key, kept)


def _why(error: StageError, entry: Entry) -> str:
    """An error's message without the contender's name in front."""
    return str(error).removeprefix(f"{entry.name}: ")


def _qualify(setup: RaceSetup, candidates: Sequence[_Candidate], progress: Progress) -> None:
    """Qualifies some contenders at once: checks them side by side, loads them one by one, watches them while idle."""
    with setup.database_up(), Servers(setup.engine) as servers:
        checks = _SideBySide()
        for candidate in candidates:
            checks.begin(candidate, partial(_launch_and_check, setup, servers, candidate, checks.room))
            candidate.started.wait(HELD_UP_S)
            checks.show(progress)
        checks.end(progress)
        for candidate in _still_in_the_common_network(candidates):
            assert candidate.launched is not None
            servers.stop([candidate.launched])
            checks.begin(candidate, partial(_launch_and_check, setup, servers, candidate, checks.room))
        checks.end(progress)
        _prove_by_the_database(setup, candidates)
        rejected = [candidate for candidate in candidates if candidate.rejected is not None]
        servers.stop([candidate.launched for candidate in rejected if candidate.launched])
        for candidate in candidates:
            _calibrate(setup, servers, candidate, progress)
        _look_at_idle(candidates)
        # Calibration must see an ad hoc server's warm-up from its beginning: it gets these many requests only now.
        for candidate in candidates:
            if candidate.running and candidate.entry.contender is None:
                checks.begin(candidate, partial(_check_ad_hoc, setup, candidate, checks.room))
        checks.end(progress)


def _still_in_the_common_network(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Commands that were started before another one needed a network of its own: from then on each gets one."""
    commands = [candidate for candidate in candidates if candidate.entry.command and candidate.running]
    apart = [candidate for candidate in commands if candidate.launched and candidate.launched.apart]
    return [candidate for candidate in commands if candidate not in apart] if apart else []


def _launch_and_check(setup: RaceSetup, servers: Servers, candidate: _Candidate, room: threading.Semaphore) -> None:
    """Starts a contender and checks its responses; runs in its own thread."""
    candidate.limit = Deadline(max(candidate.entry.wake_s, candidate.entry.listening_s))
    try:
        candidate.launched = servers.add(setup.launch(candidate.entry))
    except StageError as error:
        candidate.rejected = _why(error, candidate.entry)
    finally:
        candidate.limit = None
        candidate.started.set()
    if launched := candidate.running:
        with room:
            candidate.limit = Deadline(CORRECTNESS_S)
            _check(setup, candidate, launched)


def _check(setup: RaceSetup, candidate: _Candidate, launched: LaunchedServer) -> None:
    """Checks a contender's responses, and what it does with connections; others are checked at the same time."""
    findings = setup.prove(launched)
    candidate.facts = dict(findings.facts)
    candidate.wanted = findings.statements
    if findings.problems:
        candidate.rejected = launched.death("in scrutineering") or "; ".join(findings.problems)
    # The checks of connections are for HTTP/1.
    elif candidate.entry.contender is not None and setup.asking(launched).plain:
        candidate.facts |= setup.connection_facts(launched)


def _prove_by_the_database(setup: RaceSetup, candidates: Sequence[_Candidate]) -> None:
    """Rejects contenders that responded without a query; all were sent requests, and none is under load."""
    if setup.instance is None:
        return
    from dragstrip.racing import database_proof

    running = {candidate.name: launched for candidate in candidates if (launched := candidate.running)}
    used = setup.database_use()
    stale = database_proof.stale_answers(setup, running.values())
    for candidate in candidates:
        if candidate.name in running and candidate.name in used:
            missing = database_proof.served_from_elsewhere(used[candidate.name].statements, candidate.wanted)
            candidate.rejected = missing or stale.get(candidate.name)


def _check_ad_hoc(setup: RaceSetup, candidate: _Candidate, room: threading.Semaphore) -> None:
    """Checks what an ad hoc contender does with connections; runs in its own thread."""
    if launched := candidate.running:
        with room:
            candidate.limit = Deadline(BEHAVIOUR_S)
            if setup.asking(launched).plain:
                candidate.facts |= setup.connection_facts(launched)
            if not launched.running.alive():
                candidate.rejected = launched.death("in scrutineering")


def _calibrate(setup: RaceSetup, servers: Servers, candidate: _Candidate, progress: Progress) -> None:
    """Loads a contender that is up, alone; stops and rejects it if it sends no correct response."""
    if launched := candidate.running:
        progress.phase(f"calibrating {candidate.name}")
        try:
            candidate.calibrated = calibrate(setup, launched)
            if outside := launched.running.outside():
                raise StageError(left_text(outside))
        except StageError as error:
            candidate.rejected = launched.death("under load") or _why(error, candidate.entry)
            servers.stop([launched])


def _look_at_idle(candidates: Sequence[_Candidate]) -> None:
    """Finds contenders that use CPU time without requests."""
    watched = [(candidate, launched.running) for candidate in candidates if (launched := candidate.running)]
    shares = idle_shares([running for _, running in watched])
    for (candidate, running), share in zip(watched, shares, strict=True):
        if candidate.calibrated:
            candidate.calibrated = candidate.calibrated.at_idle(share, freezes=running.freezes)


class _SideBySide:
    """Runs checks that mostly wait, each in its own thread; an interruption abandons them.

    The threads are daemons: their waits end with the servers. ``room`` limits what they do apart from waiting.
    """

    def __init__(self) -> None:
        self.room = threading.Semaphore(CHECKED_AT_ONCE)
        self._checks: list[tuple[Future[None], _Candidate]] = []
        self._show_at = time.monotonic() + SHOW_S

    def begin(self, candidate: _Candidate, call: Callable[[], None]) -> None:
        """Starts a contender's check in its own thread."""
        done = Future[None]()
        self._checks.append((done, candidate))

        def run() -> None:
            try:
                call()
                done.set_result(None)
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name=f"checking {candidate.name}", daemon=True).start()

    def show(self, progress: Progress) -> None:
        """Shows which contenders Dragstrip waits for, and for how long at most, unless it was just shown."""
        if time.monotonic() < self._show_at:
            return
        left = [candidate.waited_for for done, candidate in self._checks if not done.done()]
        more = f"; and {len(left) - NAMED} more" if len(left) > NAMED else ""
        if left:
            count = f"{len(left)} of {len(self._checks)}"
            progress.phase(f"checking {count}: {'; '.join(left[:NAMED])}{more}", waiting=True)
        self._show_at = time.monotonic() + SHOW_S

    def end(self, progress: Progress) -> None:
        """Waits for all checks, and shows now and then which are left.

        Raises:
            Exception: the first that a check raised.
        """
        results = [done for done, _ in self._checks]
        while wait(results, max(self._show_at - time.monotonic(), 0.01)).not_done:
            self.show(progress)
        self._checks.clear()
        for done in results:
            done.result()
