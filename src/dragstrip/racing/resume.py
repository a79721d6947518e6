"""Resumes a race that was cut off, or that gets more budget."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from dragstrip import analysis
from dragstrip.analysis import Gate
from dragstrip.analysis.group_sequential import stages_until
from dragstrip.contender import Entry, Ready
from dragstrip.errors import BadUsage
from dragstrip.machine_facts import Facts
from dragstrip.process import keep_awake, machine_lock
from dragstrip.racing import schedule
from dragstrip.racing.machine_events import event
from dragstrip.racing.progress import Progress
from dragstrip.racing.qualification import qualify_all
from dragstrip.racing.race_loop import RaceLoop
from dragstrip.racing.request import Request, database_lane, refuse_elsewhere
from dragstrip.racing.setup import RaceSetup, Site
from dragstrip.record import METHOD_VERSION, Ending, EventKind, Race
from dragstrip.requested import again_words
from dragstrip.store.database import Store
from dragstrip.workload import Workload


def resume(race_id: str, request: Request, *, store: Store, progress: Progress, extra_s: float | None = None) -> Race:
    """Resumes a race with the same seed, plan and lanes; rounds are numbered on from the last recorded round.

    Args:
        request: ``request_of`` the race; its contenders, workloads, site, pause and thresholds count.
        extra_s: seconds of further budget, also for a race that has spent its budget.

    Raises:
        BadUsage: the race has ended by its own rule, another process is running it, or a contender's definition has
            changed since.
    """
    own_id = store.load(race_id).id
    with store.writing(own_id), ExitStack() as resources:
        race = store.load(own_id)  # read again: another process may have added to it before
        _refuse_other_method(race)
        _refuse_ended(race, extra_s, request.gate)
        site = request.site
        refuse_other_machine(race, site)
        by_name = _by_name(race, request.workloads)
        racing_on = unchanged(race, {entry.name: entry for entry in request.entries})
        budget_s = extra_s or race.plan.budget_s
        refuse_elsewhere(list(racing_on.values()), request.allowed, race.load.connections, budget_s)
        lanes = site.lanes(_cores(race.server_cores), _cores(race.engine_cores))
        lanes = database_lane(lanes, request.workloads, divisible=False)
        first = by_name[analysis.by_column(race)[0].workload]
        if request.exclusive:
            resources.enter_context(machine_lock.held(machine_lock.of_cores(lanes.all), progress.phase))
        with site.race_setup(first, race.load, lanes, race.seed, race.backend, *awake_and_wait_of(race)) as setup:
            setup.learning = schedule.learning_share(request.budget_s, request.rounds)
            if extra_s is not None:
                race = _extended(race, extra_s, store)
            loop = _loop(replace(race, finished=Ending.NONE), racing_on, by_name, setup, store, progress, site)
            loop.pause_after = request.pause_after
            loop.gate_by(request.gate)
            loop.drive()
            return store.load(own_id)


def _loop(
    race: Race,
    entries: Mapping[str, Entry],
    workloads: Mapping[str, Workload],
    setup: RaceSetup,
    store: Store,
    progress: Progress,
    site: Site,
) -> RaceLoop:
    """The race's loop, with every contender qualified again; contenders that fail now are out."""
    states = {name: Ready(entrant.version, {}) for entrant in race.entrants if (name := entrant.name) in entries}
    entered, rejected = [], []
    for column in analysis.by_column(race):
        still_in = [entries[entrant.name] for entrant in column.entrants if not entrant.out]
        workload = workloads[column.workload]
        qualification = qualify_all(setup.for_workload(workload, 0.0), still_in, states, progress, site=site)
        entered.append((setup.for_workload(workload, column.load.rate_per_s), qualification.ready))
        rejected.append(qualification.rejected)
    store.append_event(race.id, event(EventKind.RESUMED))
    loop = RaceLoop(store, progress, race, entered)
    for column_loop, out in zip(loop.columns, rejected, strict=True):
        column_loop.take_out_contenders(out, len(race.rounds))
    return loop


def _refuse_other_method(race: Race) -> None:
    """Rounds of two methods are never one race.

    Raises:
        BadUsage: the race was begun by an older one.
    """
    if race.method != METHOD_VERSION:
        raise BadUsage(
            f"race {race.id} was raced by method {race.method}, and this Dragstrip races by method {METHOD_VERSION}: "
            f"it can't add rounds to it; `{_rerun(race)}` races the same again"
        )


def _by_name(race: Race, workloads: Sequence[Workload]) -> dict[str, Workload]:
    """The race's workloads, by name.

    Raises:
        BadUsage: they are not the race's.
    """
    by_name = {workload.name: workload for workload in workloads}
    raced = dict.fromkeys(column.workload for column in race.columns)
    if by_name.keys() != raced.keys():
        raise BadUsage(
            f"race {race.id} has workload {', '.join(raced)}, not {', '.join(by_name)}; --workload FILE names its file"
        )
    return by_name


def unchanged(race: Race, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """The entries of contenders still in the race, by name, if their definitions are unchanged.

    Raises:
        BadUsage: a definition has changed since.
    """
    for entrant in race.entrants:
        if not entrant.out and entries[entrant.name].definition_hash != entrant.definition_hash:
            what = "command or its program" if entrant.kind == "serve" else "definition"
            raise BadUsage(
                f"{entrant.name}: its {what} has changed since race {race.id} began "
                f"({entrant.definition_hash[:12]} then, {entries[entrant.name].definition_hash[:12]} now); "
                "start a new race instead"
            )
    return {entrant.name: entries[entrant.name] for entrant in race.entrants if not entrant.out}


def refuse_other_machine(race: Race, site: Site) -> None:
    """All rounds of a race must run on the same machine or machines.

    Raises:
        BadUsage: the race ran on others.
    """
    then, now = race.machine.fleet, site.machines()
    if then == now:
        if now is None:
            _refuse_other_facts(race, site.facts())
        return
    if then is None:
        raise BadUsage(f"race {race.id} was raced on one machine; leave out --fleet, or start a new race")
    names = ", ".join(str(name) for name in then)
    given = f"{', '.join(now)} given" if now else "no fleet given"
    raise BadUsage(f"race {race.id} was raced on the machines {names}; {given}: use --fleet with the same file")


def _refuse_other_facts(race: Race, facts: Facts) -> None:
    """The machine must be the one in the record; for an imported race, since the same boot.

    Raises:
        BadUsage: it is another machine.
    """
    then, now = (
        (*machine.identity, machine.boot) if race.imported else machine.identity for machine in (race.machine, facts)
    )
    if any(before not in (None, after) for before, after in zip(then, now, strict=True)):
        imported = "was imported and " if race.imported else ""
        raise BadUsage(
            f"race {race.id} {imported}ran on another machine ({_listed(then)}; this one: {_listed(now)}), so its "
            f"rounds would be from two machines; race it again here instead: `{_rerun(race)}`"
        )


def _rerun(race: Race) -> str:
    return shlex.join(["dragstrip", "rerun", race.id, *again_words(race)])


def _listed(facts: Sequence[str | None]) -> str:
    return ", ".join(map(str, facts))


def _refuse_ended(race: Race, extra_s: float | None, gate: Gate) -> None:
    """A race that has settled all that it had to settle, or has spent its rounds or its budget, can't go on.

    What settles it is the record: an earlier version called races decided that were not.
    """
    if extra_s is not None and race.plan.rounds_fixed:
        raise BadUsage(
            f"race {race.id} has its number of rounds fixed (--rounds {race.plan.planned_rounds}), which more budget "
            "can't change; start a new race with more rounds instead"
        )
    out_of_budget = race.finished is Ending.BUDGET
    settled = race.finished is Ending.DECIDED and _settled(race, gate)
    if settled or race.finished is Ending.ROUNDS or (out_of_budget and extra_s is None):
        more = "; `--budget +2m` continues it for two minutes" if out_of_budget else ""
        raise BadUsage(
            f"race {race.id} has ended ({race.finished}): there is nothing to resume{more or '; start a new race'}"
        )


def _settled(race: Race, gate: Gate) -> bool:
    """Whether each pair and each threshold is."""
    verdict, first = analysis.judge(race), race.entrants[0].name
    return verdict.all_decided and not any(gate.open_pairs(column, first) for column in verdict.columns)


def _extended(race: Race, extra_s: float, store: Store) -> Race:
    """The race with more budget, recorded; its planned last round moves by what that pays for at the pace so far."""
    spent_s = race.spent_s
    done = max(sum(not round_.void for round_ in column.rounds) for column in analysis.by_column(race))
    budget_s = max(race.plan.budget_s, spent_s) + extra_s
    # Only open columns need a round each; this counts as if all were open.
    turn_s = len(race.columns) * spent_s / max(len(race.rounds), 1)
    pays_for = schedule.planned_rounds(budget_s - spent_s, turn_s) if race.rounds else 0
    # The stages that it went through beyond its planned last round keep the levels that their looks had.
    *passed, last = stages_until(done, (race.plan.planned_rounds,))
    stages = (*passed, last, max(last, done + pays_for))
    for planned in stages[1:]:
        store.extend(race.id, budget_s=budget_s, planned_rounds=planned)
    extensions = (*race.plan.extensions, *stages[:-1])
    columns = (
        replace(c, plan=replace(c.plan, budget_s=budget_s, planned_rounds=stages[-1], extensions=extensions))
        for c in race.columns
    )
    return replace(race, columns=tuple(columns))


def awake_and_wait_of(race: Race) -> tuple[str, str]:
    """Whether cores were kept awake, and how the engine waited, as the race began."""
    kept = race.machine.awake or keep_awake.OFF
    return keep_awake.OFF if kept == keep_awake.OFF else "auto", race.machine.engine_wait or "sleep"


def _cores(cores: Sequence[int]) -> str:
    return ",".join(str(core) for core in cores)
