"""Runs rounds one after the other: a race's until all that was asked is decided or the budget is spent.

Each round is committed before the next begins, so that nothing measured is lost. A sweep has a loop of its own kind.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dragstrip import analysis, machine, validity
from dragstrip.errors import MachineLost
from dragstrip.metrics import known_or_auto
from dragstrip.racing import environment, schedule
from dragstrip.racing.blocks import PlannedBlock
from dragstrip.racing.progress import Progress
from dragstrip.racing.qualified import Qualified
from dragstrip.racing.round import Outcome, RoundPlan, run_round
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import MACHINE_LOST, TOO_FEW, Block, Event, EventKind, Plan, Race, Round, Void, VoidKind
from dragstrip.store.database import Store

#: By so large a share of its budget a race may go beyond it to reach the round that can first decide anything.
OVERTIME = 0.5

#: Where a loop waits for a quiet machine: the rest of it should keep less than this share of the cores busy.
QUIET = 0.12


class RoundLoop(ABC):
    """Runs rounds until it is told how that ended; who runs next, and when it is over, is its kind's affair.

    Args:
        contenders: those that take part, by name; who falls out leaves them.
        patience_s: so long it waits, in all, for a quiet machine before rounds.
    """

    #: How it ended where a machine was lost for good; "" as long as none was.
    lost = ""

    def __init__(
        self, setup: RaceSetup, progress: Progress, contenders: Mapping[str, Qualified], *, patience_s: float = 0.0
    ) -> None:
        self.setup, self.progress, self.contenders = setup, progress, dict(contenders)
        self.spent_s, self.patience_s = 0.0, patience_s
        self.watch = setup.surroundings()

    def run_rounds(self) -> str:
        """Runs rounds until it is over; returns how it ended."""
        while (how := self.over()) is None:
            self.step()
        return how

    def step(self) -> None:
        """Runs the next round and keeps what came of it."""
        outcome, events = self._run(self.next_round())
        self.keep(outcome, events)

    @abstractmethod
    def over(self) -> str | None:
        """How it ended; None: it goes on."""

    @abstractmethod
    def next_round(self) -> RoundPlan:
        """What the next round is to do."""

    @abstractmethod
    def keep(self, outcome: Outcome, events: Sequence[Event]) -> None:
        """Takes a round into the record, and lets out who fell; ``events``: all that was seen during it."""

    def _run(self, plan: RoundPlan) -> tuple[Outcome, Sequence[Event]]:
        if self.patience_s > 0:
            self._wait_for_quiet()
        began_s = time.monotonic()
        contenders = {name: self.contenders[name] for name in plan.launches}
        try:
            self.watch.before()
            self.setup.begin_round()
            outcome = run_round(self.setup, plan, contenders)
            record, seen = self.setup.end_round(outcome.round)
            outcome = replace(outcome, round=record)
            events = (*outcome.events, *seen, *self.watch.after())
        except MachineLost as lost:
            outcome, told = self._without_a_machine(plan, lost, began_s)
            events = tuple(told)
        self.spent_s += time.monotonic() - began_s
        return outcome, events

    def _without_a_machine(self, plan: RoundPlan, lost: MachineLost, began_s: float) -> tuple[Outcome, Sequence[Event]]:
        """The round in which a machine was lost: void, with nothing in it. Waits for the machine to come back."""
        record = Round(
            index=plan.index,
            started_ns=round(began_s * 1e9),
            ended_ns=time.monotonic_ns(),
            launches=(),
            blocks=(),
            void=(Void(kind=VoidKind.MACHINE_LOST),),
        )
        told = Event(at_ns=time.monotonic_ns(), kind=EventKind.MACHINE_LOST, subject=lost.machine, text=str(lost))
        events = [told]
        self.progress.phase(f"{lost}; waiting for it", waiting=True)
        if self.setup.recover(lost):
            events.append(environment.event(EventKind.MACHINE_BACK, lost.machine))
        else:
            self.lost = MACHINE_LOST
        return Outcome(round=record, planned=(), out={}), events

    def _wait_for_quiet(self) -> None:
        began_s = time.monotonic()
        self.setup.wait_for_quiet(busy_below=QUIET, at_most_s=self.patience_s)
        self.patience_s -= time.monotonic() - began_s - machine.WINDOW_S


class RaceLoop(RoundLoop):
    """Drives the rounds of one race and keeps its record up to date.

    Args:
        column: of a race of several columns: which one; ``race`` is then that column as a race (``ColumnLoop``).
    """

    column: int | None = None

    def __init__(
        self, setup: RaceSetup, store: Store, progress: Progress, race: Race, contenders: Mapping[str, Qualified]
    ) -> None:
        super().__init__(setup, progress, contenders)
        self.store, self.race = store, race
        self.spent_s = sum((r.ended_ns - r.started_ns) / 1e9 for r in race.rounds)
        self.void_in_a_row = 0
        #: Those without whom nothing more can be decided.
        self.needed = frozenset[str]()

    def by_column(self) -> Sequence[RaceLoop]:
        """The loop of each column: of a race of one workload this one."""
        return (self,)

    def drive(self) -> Race:
        """Runs rounds until the race is over; an interruption is recorded and passed on."""
        how = "interrupted"
        self.needed = frozenset(self.contenders)
        try:
            how = self.run_rounds()
        finally:
            # Also on the way out of an error: what was measured stays readable, and says how it ended.
            self.store.finish(self.race.id, how)
        self.race = replace(self.race, finished=how)
        return self.race

    def over(self) -> str | None:
        """How the race ended (``Race.finished``); None: it goes on."""
        if self.lost:
            return self.lost
        if len(self.contenders) < 2:
            return TOO_FEW
        plan, done = self.race.plan, sum(1 for r in self.race.rounds if not r.void)
        if self.void_in_a_row >= analysis.MOST_VOID_ROUNDS:
            return "void"
        if plan.rounds_fixed:
            return "rounds" if done >= plan.planned_rounds else None
        typical_s, budget_s = self.spent_s / max(len(self.race.rounds), 1), self.budget_s()
        left = plan.planned_rounds - done
        if typical_s > 0:
            over_s = self.overtime_s() if done < schedule.ROUNDS_LEAST else 0.0
            left = min(left, round((budget_s + over_s - self.spent_s) / typical_s))
        if not self.needed and not (done < validity.KINDS_ROUNDS and validity.of_two_kinds(self.race)):
            return "decided"
        return "budget" if left <= 0 else None

    def budget_s(self) -> float:
        """Seconds for all its rounds."""
        return self.race.plan.budget_s

    def overtime_s(self) -> float:
        """Seconds that it may take beyond these to reach the round that can first decide anything."""
        return OVERTIME * self.race.plan.budget_s

    def next_index(self) -> int:
        """The next round's number."""
        return len(self.race.rounds)

    def next_round(self) -> RoundPlan:
        """Those that are needed; all of them where the design is fixed, or more launches must be met by all."""
        index, plan = self.next_index(), self.plan()
        names = sorted(self.contenders if self.race.plan.rounds_fixed else self.needed or self.contenders)
        order = schedule.order_of(plan, self.race.seed, index, names)
        phases = {
            name: iter(drawn) for name, drawn in schedule.phases(self.race.seed, index, order.blocks_of_each()).items()
        }
        blocks = tuple(
            self._block(plan, name, pass_index, next(phases[name]))
            for pass_index, drawn in enumerate(order.passes)
            for name in drawn
        )
        return RoundPlan(index=index, launches=order.launches, blocks=blocks, judge=self._judge)

    def _block(self, plan: Plan, name: str, pass_index: int, phase: float) -> PlannedBlock:
        lead_ns, counted_ns = schedule.block_of(plan, name)
        rate_per_s = self.setup.load.rate_per_s
        if not rate_per_s:  # an open loop counts requests by when they are meant to leave: it has no waves
            lead_ns += schedule.lengthened_ns(phase, self.contenders[name].calibration.p50_ns)
        return PlannedBlock(
            contender=name, pass_index=pass_index, lead_ns=lead_ns, counted_ns=counted_ns, rate_per_s=rate_per_s
        )

    def _judge(self, blocks: Sequence[Block], single_threaded: Mapping[str, bool]) -> tuple[Block, ...]:
        return validity.with_reasons(
            blocks,
            connections=self.setup.load.at_once,
            server_cores=len(self.setup.lanes.server),
            single_threaded=single_threaded,
            shared_lanes=self.setup.lanes.servers_share,
            observed=self.setup.observed,
            by_cpu=known_or_auto(self.race.plan.metric) != "throughput",
        )

    def plan(self) -> Plan:
        """The race's plan; with fewer blocks a round where its budget would else not pay for the ten that decide."""
        plan, done = self.race.plan, sum(1 for r in self.race.rounds if not r.void)
        missing = schedule.ROUNDS_LEAST - done
        if plan.rounds_fixed or missing <= 0 or not self.race.rounds:
            return plan
        typical_s = self.spent_s / len(self.race.rounds)
        share = (self.budget_s() - self.spent_s) / (missing * typical_s)
        return plan if share >= 1 else schedule.thinned(plan, max(share, 0.0))

    def keep(self, outcome: Outcome, events: Sequence[Event]) -> None:
        """Stores the round, judges the race so far, shows it, and says who is still needed."""
        done = replace(outcome.round, column=self.column or 0)
        self.store.append_round(self.race.id, done)
        self.void_in_a_row = self.void_in_a_row + 1 if done.void else 0
        self.race = replace(self.race, rounds=(*self.race.rounds, done))
        seen = tuple(replace(event, column=self.column) for event in events)
        for event in seen:
            self.store.append_event(self.race.id, event)
        self.race = replace(self.race, events=(*self.race.events, *seen))
        self.let_out(outcome.out, done.index)
        judged = analysis.judge(self.race)
        self.tell(judged)
        self.needed = analysis.still_needed(judged, self.race) & frozenset(self.contenders)

    def tell(self, judged: analysis.Verdict) -> None:
        """Shows how the race stands."""
        self.progress.round_done(self.race, judged)

    def let_out(self, fallen: Mapping[str, str], index: int) -> None:
        """Takes contenders out of the race, by name with the reason; ``index``: the round in which they fell out."""
        for name, reason in fallen.items():
            self.store.entrant_out(self.race.id, name, reason, index, self.column)
            self.contenders.pop(name, None)
            self.progress.out(name, reason)
        entrants = tuple(
            replace(entrant, out=fallen[entrant.name], out_round=index) if entrant.name in fallen else entrant
            for entrant in self.race.entrants
        )
        self.race = replace(self.race, entrants=entrants)
