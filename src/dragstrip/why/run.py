"""Extra launches of a race's contenders, in random order, each stored when it ends; a later call adds what is missing.

They run after the verdict, by the race's own load, and never change it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dragstrip.contender import BUILD_S, Entry, Missing
from dragstrip.errors import BadUsage, NotReady, StageError
from dragstrip.racing import schedule
from dragstrip.racing.progress import Progress
from dragstrip.racing.request import database_lane
from dragstrip.racing.resume import awake_and_wait_of, refuse_other_machine, unchanged
from dragstrip.racing.setup import LOCAL, RaceSetup, Site
from dragstrip.record import Race
from dragstrip.store.database import Store
from dragstrip.why.launch import ProfilePlan, profile_launch
from dragstrip.workload import Workload

#: Launches of each contender, and the seconds that they may take: a minute for a pair.
LAUNCHES, BUDGET_S = 6, 30.0

#: If no other time is given, a busy machine may take this many times as long.
LONGEST = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRequest:
    """Which extra launches are wanted.

    Args:
        column: index in ``Race.columns``.
        contenders: names; empty: all that are still in the column.
        launches: of each contender, with those that the race has already.
        budget_s: no launch begins that would probably end later; None: ``BUDGET_S`` for each contender.
    """

    column: int = 0
    contenders: tuple[str, ...] = ()
    launches: int = LAUNCHES
    budget_s: float | None = None


def profile(
    race_id: str,
    entries: Sequence[Entry],
    workload: Workload,
    request: ProfileRequest,
    *,
    store: Store,
    progress: Progress,
    site: Site = LOCAL,
) -> Race:
    """Adds extra launches to a stored race until each contender has enough, or the time is spent.

    Args:
        entries: contenders of the race. workload: of the column.

    Raises:
        BadUsage: the race ran on several or on other machines, a definition has changed, or no contender can be
            launched. NotReady: a contender is missing something.
    """
    with store.writing(race_id):
        race = store.load(race_id)
        if race.machine.fleet:
            raise BadUsage(f"race {race.id} ran on several machines, and causes are measured on a single one")
        refuse_other_machine(race, site)
        chosen = _chosen(race, unchanged(race, {entry.name: entry for entry in entries}), request, workload)
        if not any(_left(race, tuple(chosen), request).values()):
            return race
        column = race.columns[request.column]
        lanes = site.lanes(*(",".join(map(str, cores)) for cores in (race.server_cores, race.engine_cores)))
        lanes = database_lane(lanes, [workload], divisible=False)
        ready = [_ready(entry, workload, progress, site) for entry in chosen.values()]
        setting = site.race_setup(workload, column.load, lanes, race.seed, race.backend, *awake_and_wait_of(race))
        with setting as setup:
            setup = setup.for_workload(workload, column.load.rate_per_s)
            setup.stand_by(ready)
            return _Launches(setup, request, store, progress).run(race, {entry.name: entry for entry in ready})


def _chosen(race: Race, entries: Mapping[str, Entry], request: ProfileRequest, workload: Workload) -> dict[str, Entry]:
    """The contenders to launch, by name, in the column's order.

    Raises:
        BadUsage: a name is not in the column; or none can be launched.
    """
    column = race.columns[request.column]
    still_in = [entrant.name for entrant in column.entrants if not entrant.out]
    for name in request.contenders:
        if name not in still_in:
            raise BadUsage(f"{name!r} is not a contender of race {race.id} that is still in; it has {still_in}")
    names = [name for name in still_in if not request.contenders or name in request.contenders]
    chosen = {name: entries[name] for name in names if entries[name].url is None}
    if not chosen:
        raise BadUsage(
            f"race {race.id} has no contender that Dragstrip can launch: servers that were already running show no "
            f"causes at {workload.shown}"
        )
    return chosen


def _ready(entry: Entry, workload: Workload, progress: Progress, site: Site) -> Entry:
    """The contender for the column's workload, built if that is needed.

    Raises:
        NotReady: it is missing something. StageError: it can't be built.
    """
    entry = replace(entry.for_workload(workload.served_as, asks_database=workload.asks_database), profiled=True)
    state = site.check(entry)
    if isinstance(state, Missing):
        raise NotReady(f"{entry.name} is not ready: {state.reason}; {state.remedy}")
    if command := site.pending_build(entry):
        progress.building(entry.name, command, BUILD_S)
    site.build(entry)
    return entry


def _left(race: Race, names: Sequence[str], request: ProfileRequest) -> dict[str, int]:
    """How many launches each contender still needs."""
    done = [profile.contender for profile in race.profiles if profile.column == request.column]
    return {name: max(request.launches - done.count(name), 0) for name in names}


def order_of_turn(seed: int, column: int, left: int, names: Sequence[str]) -> list[str]:
    """The order of one turn's launches, drawn from the race's seed.

    Args:
        left: how many launches each of these contenders still needs.
    """
    drawn = sorted(names)
    random.Random(f"why {seed} {column} {left}").shuffle(drawn)
    return drawn


@dataclass(frozen=True, slots=True)
class _Launches:
    """Runs launches turn by turn; in a turn every contender that lacks the most launches has one."""

    setup: RaceSetup
    request: ProfileRequest
    store: Store
    progress: Progress

    def run(self, race: Race, entries: Mapping[str, Entry]) -> Race:
        """The race with the launches that were added."""
        began_s, longest_s, names = time.monotonic(), 0.0, list(entries)
        budget_s = self.request.budget_s or BUDGET_S * LONGEST * len(entries)
        while left := {name: count for name, count in _left(race, names, self.request).items() if count}:
            most = max(left.values())
            turn = [name for name, count in left.items() if count == most]
            for name in order_of_turn(race.seed, self.request.column, most, turn):
                launch_s = time.monotonic()
                if launch_s - began_s + longest_s > budget_s:
                    return race
                to_go = sum(_left(race, names, self.request).values())
                spent = f"{launch_s - began_s:.0f} s of {budget_s:.0f} s spent"
                self.progress.phase(f"why: launching {name}, {to_go} launches to go, {spent}")
                try:
                    race = self._add(race, entries[name])
                except StageError as error:
                    self.progress.out(name, str(error))
                    names.remove(name)
                longest_s = max(longest_s, time.monotonic() - launch_s)
        return race

    def _add(self, race: Race, entry: Entry) -> Race:
        lead_ns, counted_ns = schedule.block_of(race.columns[self.request.column].plan, entry.name)
        plan = ProfilePlan(
            entry=entry,
            index=len(race.profiles),
            column=self.request.column,
            lead_ns=lead_ns,
            counted_ns=counted_ns,
        )
        made = profile_launch(self.setup, plan)
        self.store.append_profile(race.id, made)
        return replace(race, profiles=(*race.profiles, made))
