"""Runs the races that claims need, one after another within one budget, and assesses stored races."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from dragstrip.analysis import FLOOR
from dragstrip.contender import Entry, Ready
from dragstrip.errors import BadUsage, DragstripError
from dragstrip.extras.claims.assess import assess, covers, is_done
from dragstrip.extras.claims.contenders import contenders_of
from dragstrip.extras.claims.counted_run import run_to_count
from dragstrip.extras.claims.definition import FAIR, PUBLISHED, Claim
from dragstrip.extras.claims.finding import ClaimFinding, ClaimRow, CountedRun, Outcome
from dragstrip.extras.claims.grouping import Group
from dragstrip.racing import run as racing
from dragstrip.racing.progress import Progress
from dragstrip.racing.request import Request, request_of
from dragstrip.racing.resume import resume as resume_race
from dragstrip.racing.schedule import ROUNDS_WANTED
from dragstrip.racing.setup import LOCAL, Site
from dragstrip.record import Event, EventKind, Race
from dragstrip.store.database import Store
from dragstrip.store.json_values import encode
from dragstrip.workload import load as load_workload

#: Equivalence margin; the smallest difference in a shipped claim is 3 %.
MARGIN = 0.03

#: A race's shortest budget, and its longest as a multiple of the time that it is expected to need.
MIN_S, MAX_TIMES = 15.0, 3.0

#: If the budget allows, a race has a fixed number of rounds, at least the fewest that decide anything. Then the
#: ordinary t interval holds. After few rounds it is far narrower than an interval that holds at every look.
MIN_ROUNDS, MAX_ROUNDS = FLOOR, 16

Show = Callable[[Group], AbstractContextManager[Progress]]


def check(
    wanted: Sequence[Group],
    *,
    store: Store,
    budget_s: float,
    resume: bool,
    show: Show,
    say: Callable[[str | CountedRun], object],
    site: Site = LOCAL,
) -> None:
    """Runs every group's race, each with its share of the remaining budget.

    Args:
        resume: skips races that the store has already (see ``_stored``), and continues a race that was cut off.
        site: where races run; runs to a count need one machine only.
        show: a display for one race. say: gets a run to a count, or the reason why a race failed.
    """
    ends_s = time.monotonic() + budget_s
    known = [(group, _stored(group, store, site) if resume else None) for group in wanted]
    open_ = [(group, race) for group, race in known if race is None or race.finished.goes_on]
    with_race = [(group, race) for group, race in known if race is not None and not race.finished.goes_on]
    for group, race in with_race:
        with _reporting_failure(group, say):
            _counted(group, race, store, say, site)
    while open_:
        group, before = open_.pop(0)
        left_s = ends_s - time.monotonic()
        left = [group, *(other for other, _ in open_)]
        share = group.need_s / sum(other.need_s for other in left)
        waste_s = sum(other.before_s for other in left)
        own_s = min(max((left_s - waste_s) * share, MIN_S), MAX_TIMES * group.need_s + MIN_S)
        with _reporting_failure(group, say):
            _counted(group, _race(group, before, store, own_s, show, site), store, say, site)


@contextmanager
def _reporting_failure(group: Group, say: Callable[[str | CountedRun], object]) -> Iterator[None]:
    """Reports a race that fails, so that the next one can run."""
    try:
        yield
    except DragstripError as error:
        say(f"{group}: {error}")


def _race(group: Group, before: Race | None, store: Store, budget_s: float, show: Show, site: Site) -> Race:
    """Continues the race ``before``, which was cut off, or runs a new race."""
    workload = load_workload(group.workload)
    with show(group) as progress:
        if before is not None:
            again = replace(request_of(before, [workload], group.entries), site=site)
            return resume_race(before.id, again, store=store, progress=progress)
        request = Request(
            entries=group.entries,
            workload=workload,
            connections=group.load.connections,
            keepalive=group.load.keepalive,
            http=group.load.http,
            budget_s=budget_s,
            margin=MARGIN,
            rounds=_rounds(group, budget_s),
            # A connection for each request costs the client about as much as the server: if the client is
            # the limit, the CPU time per request still shows a difference.
            metric="throughput" if group.load.keepalive else "cpu",
            explicit=False,
            purpose=group.purpose,
            site=site,
        )
        return racing.run(request, store=store, progress=progress)


def _rounds(group: Group, budget_s: float) -> int | None:
    """A race's fixed number of rounds; None if the budget has less than half the time that they need."""
    if budget_s < group.need_s / 2:
        return None
    return min(max(int((ROUNDS_WANTED - 1) * budget_s / group.need_s), MIN_ROUNDS), MAX_ROUNDS)


def _stored(group: Group, store: Store, site: Site) -> Race | None:
    """The newest race of all a group's claims on these machines, as they are today, that can go on or is done.

    A race does not count, and is run again, if another race may show more (``Finding.again``): it was void because a
    clock was set, has too few rounds, or is undecided on a very disturbed machine. A race that would be void again
    (incorrect responses) is kept, so that a second run is cheap.
    """
    wanted = {claim.id for claim in group.claims}
    today = {entry.name: (entry.definition_hash, _version(entry, site)) for entry in group.entries}
    for race_id, event in store.noted(EventKind.CLAIMS):
        if event.subject == group.setting and wanted <= set(event.names):
            race = store.readable(race_id)
            if race is None or race.imported or race.machine.fleet != site.machines():
                continue
            known = {entrant.name: (entrant.definition_hash, entrant.version) for entrant in race.entrants}
            if any(known.get(name) != identity for name, identity in today.items()):
                continue
            if race.finished.goes_on or all(is_done(claim, group.setting, race) for claim in group.claims):
                return race
    return None


def _version(entry: Entry, site: Site) -> str:
    state = site.check(entry)
    return state.version if isinstance(state, Ready) else ""


def _counted(group: Group, race: Race, store: Store, say: Callable[[str | CountedRun], object], site: Site) -> None:
    """Makes the runs to a count that the group's claims need and the race's record lacks."""
    done = any(event.kind == EventKind.COUNTED_RUN for event in race.events)
    wanted: dict[str, tuple[Entry, Claim]] = {}
    for claim in group.claims:
        if claim.fields.kind == "ends":
            wanted |= {entry.name: (entry, claim) for entry in contenders_of(claim, group.setting).entries}
    if wanted and not done and site.machines():
        raise BadUsage("runs to a count are made on one machine only; leave out --fleet for them")
    for entry, claim in () if done else wanted.values():
        counted = run_to_count(entry, load_workload(group.workload), claim.fields.load)
        store.append_event(
            race.id, Event(at_ns=time.monotonic_ns(), kind=EventKind.COUNTED_RUN, text=json.dumps(encode(counted)))
        )
        say(counted)


def rows(claims: Iterable[Claim], store: Store) -> Iterator[ClaimRow]:
    """Each claim with its findings from the store; races nothing."""
    noted = store.noted(EventKind.CLAIMS)
    races: dict[str, Race] = {}
    for claim in claims:
        findings = {setting: _finding(claim, setting, noted, races, store) for setting in (PUBLISHED, FAIR)}
        yield ClaimRow(claim, findings[PUBLISHED], None if claim.fields.kind == "ends" else findings[FAIR])


def _finding(
    claim: Claim, setting: str, noted: Sequence[tuple[str, Event]], races: dict[str, Race], store: Store
) -> ClaimFinding:
    """The finding of the newest race that needs no further race, otherwise of the newest valid race."""
    best: ClaimFinding | None = None
    try:
        for race_id, event in noted:
            if event.subject != setting or claim.id not in event.names:
                continue
            race = races.get(race_id) or store.readable(race_id)
            if race is None:
                continue
            races[race_id] = race
            if covers(claim, setting, race):
                finding = assess(claim, setting, race)
                if _weight(finding) == 2:
                    return finding
                best = finding if best is None or _weight(finding) > _weight(best) else best
        play = contenders_of(claim, setting)
    except DragstripError as error:
        return ClaimFinding(claim=claim, outcome=Outcome.CANNOT, why=str(error))
    if best is not None:
        return best
    if play.missing:
        missing = "; ".join(f"{name} ({why})" for name, why in play.missing.items())
        return ClaimFinding(claim=claim, outcome=Outcome.CANNOT, why=f"missing {missing}")
    return ClaimFinding(claim=claim, outcome=Outcome.UNTRIED, why=f"`dragstrip claims check {claim.id}` does it")


def _weight(finding: ClaimFinding) -> int:
    """2 for a finding that needs no further race, 1 for another valid finding, 0 for none."""
    if finding.void or finding.outcome is Outcome.UNTRIED:
        return 0
    return 1 if finding.again else 2
