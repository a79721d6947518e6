"""Drives a race's rounds, one after the other, until all that was asked is decided or the budget is spent.

Each round is committed before the next begins, so that nothing measured is lost.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from dragstrip import analysis, validity
from dragstrip.contender import Entry
from dragstrip.racing import environment, schedule
from dragstrip.racing.progress import Progress
from dragstrip.racing.round import run_round
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import Event, Plan, Race
from dragstrip.store.database import Store

#: A void round is run again; so many in a row end the race: what can't be true in five rounds will not be in the sixth.
MOST_VOID_ROUNDS = 5

#: By so large a share of its budget a race may go beyond it to reach the round that can first decide anything.
OVERTIME = 0.5


class RaceLoop:
    """Drives the rounds of one race and keeps its record up to date."""

    def __init__(
        self,
        track: RaceSetup,
        store: Store,
        progress: Progress,
        race: Race,
        *,
        ready: Mapping[str, Entry],
        p50_ns: Mapping[str, int],
    ) -> None:
        self.track, self.store, self.progress, self.race = track, store, progress, race
        self.entries, self.p50_ns = dict(ready), p50_ns
        self.watch = environment.Watch(track.lanes.all)
        self.spent_s = sum((r.ended_ns - r.started_ns) / 1e9 for r in race.rounds)
        self.void_in_a_row = 0

    def drive(self) -> Race:
        """Runs rounds until the race is over; an interruption is recorded and passed on."""
        how = "interrupted"
        try:
            how = self._rounds()
        finally:
            # Also on the way out of an error: what was measured stays readable, and says how it ended.
            self.store.finish(self.race.id, how)
        self.race = replace(self.race, finished=how)
        return self.race

    def _rounds(self) -> str:
        needed = frozenset(self.entries)
        while True:
            if len(self.entries) < 2:
                return "too few contenders"
            over = self._over(needed)
            if over:
                return over
            self._one(needed)
            judged = analysis.judge(self.race)
            self.progress.round_done(self.race, judged)
            needed = analysis.still_needed(judged, self.race) & frozenset(self.entries)

    def _over(self, needed: frozenset[str]) -> str:
        plan, done = self.race.plan, sum(1 for r in self.race.rounds if not r.void)
        if self.void_in_a_row >= MOST_VOID_ROUNDS:
            return "void"
        if plan.rounds_fixed:
            return "rounds" if done >= plan.planned_rounds else ""
        typical_s = self.spent_s / max(len(self.race.rounds), 1)
        left = plan.planned_rounds - done
        if typical_s > 0:
            over_s = OVERTIME * plan.budget_s if done < schedule.ROUNDS_LEAST else 0.0
            left = min(left, round((plan.budget_s + over_s - self.spent_s) / typical_s))
        if not needed and not (done < validity.KINDS_ROUNDS and validity.of_two_kinds(self.race)):
            return "decided"
        return "budget" if left <= 0 else ""

    def _one(self, needed: frozenset[str]) -> None:
        index = len(self.race.rounds)
        # Nobody is needed, and yet a round: launches of two kinds, of which more must be met by all.
        names = sorted(needed or self.entries) if not self.race.plan.rounds_fixed else sorted(self.entries)
        began = time.monotonic()
        # A race that an earlier version began goes on as it began.
        alternate = self.race.method >= 3
        plan = self._plan()
        order = schedule.order_of(plan, self.race.seed, index, names, alternate=alternate)
        self.watch.before()
        outcome = run_round(self.track, plan, order, index, self.entries, self.p50_ns)
        seen = (*outcome.events, *self.watch.after())
        self.spent_s += time.monotonic() - began
        self.store.append_round(self.race.id, outcome.round)
        self.void_in_a_row = self.void_in_a_row + 1 if outcome.round.void else 0
        self.race = replace(self.race, rounds=(*self.race.rounds, outcome.round))
        for event in seen:
            self._note(event)
        self.let_out(outcome.out, index)

    def _plan(self) -> Plan:
        """The race's plan; with fewer blocks a round where its budget would else not pay for the ten that decide."""
        plan, done = self.race.plan, sum(1 for r in self.race.rounds if not r.void)
        missing = schedule.ROUNDS_LEAST - done
        if plan.rounds_fixed or missing <= 0 or not self.race.rounds:
            return plan
        typical_s = self.spent_s / len(self.race.rounds)
        share = (plan.budget_s - self.spent_s) / (missing * typical_s)
        return plan if share >= 1 else schedule.thinned(plan, max(share, 0.0))

    def _note(self, event: Event) -> None:
        self.store.append_event(self.race.id, event)
        self.race = replace(self.race, events=(*self.race.events, event))

    def let_out(self, fallen: Mapping[str, str], index: int) -> None:
        """Takes contenders out of the race, by name with the reason; ``index``: the round in which they fell out."""
        for name, reason in fallen.items():
            self.store.entrant_out(self.race.id, name, reason, index)
            self.entries.pop(name, None)
            self.progress.entrant(name, f"out: {reason}")
        entrants = tuple(
            replace(entrant, out=fallen[entrant.name], out_round=index) if entrant.name in fallen else entrant
            for entrant in self.race.entrants
        )
        self.race = replace(self.race, entrants=entrants)
