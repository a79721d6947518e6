"""Drives the rounds of a race: its columns take turns, each until nothing is open or the budget is spent.

Every round launches a column's contenders afresh, so a number at one workload does not depend on another workload's
load. Which column has the next round depends on the seed and on how many rounds each column has, never on a ratio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from dragstrip import analysis, validity
from dragstrip.metrics import MetricChoice
from dragstrip.racing import options, schedule
from dragstrip.racing.loop import RoundLoop
from dragstrip.racing.progress import ColumnProgress, Progress
from dragstrip.racing.qualification import Qualified
from dragstrip.racing.round import PlannedBlock, RoundOutcome, RoundPlan
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import Block, Ending, Event, Plan, Race
from dragstrip.store.database import Store

#: A last round is begun if half of it is paid for, and it will exceed the budget by no more than this share of it.
OVERTIME = 0.05

#: How long a column's next round takes is foreseen from this many of its last ones, by how many contenders each had.
RECENT = 3

#: How a race ended if its columns ended differently: the first of these that any column has.
_ENDS = (Ending.MACHINE_LOST, Ending.BUDGET, Ending.ROUNDS, Ending.NOT_COMPARABLE, Ending.DECIDED, Ending.VOID)


class RaceLoop:
    """Drives the rounds of all columns and keeps the race's record up to date.

    Args:
        entered: each column's setup and contenders, in the order of the race's columns.
        pause_after: the race pauses after this many further rounds of each open column; None: never.
        gate: thresholds that it has to settle as well.
        last_round: its planned last round ends it, and not the budget alone.
        grows: its budget is the default, which grows if rounds take longer than calibration foresaw.
    """

    gate = analysis.NO_GATE
    last_round = grows = False

    def __init__(
        self,
        store: Store,
        progress: Progress,
        race: Race,
        entered: Sequence[tuple[RaceSetup, Mapping[str, Qualified]]],
        pause_after: int | None = None,
        gate: analysis.Gate = analysis.NO_GATE,
        *,
        last_round: bool = False,
        grows: bool = False,
    ) -> None:
        self.store, self.progress, self.race, self.pause_after = store, progress, race, pause_after
        self.grows = grows
        self.gate, self.last_round = gate, last_round or race.plan.budget_s >= 0.99 * options.MAX_BUDGET_S
        names = [column.name for column in race.columns]
        shown = [ColumnProgress(progress, name) for name in names] if len(names) > 1 else [progress]
        self.columns = [
            ColumnLoop(self, index, names[index], setup, shown[index], contenders)
            for index, (setup, contenders) in enumerate(entered)
        ]

    def gate_by(self, gate: analysis.Gate) -> None:
        """Has the race settle these thresholds as well."""
        self.gate = gate
        for column in self.columns:
            column.judge()

    def drive(self) -> Race:
        """Runs rounds until every column has finished, or until the race pauses, which counts as interrupted.

        An interruption is recorded and passed on.
        """
        how = Ending.INTERRUPTED
        try:
            how = self._run_rounds()
        finally:
            # Also after an error: what was measured stays readable, and the record shows how the race ended.
            self.store.finish(self.race.id, how)
        self.race = replace(self.race, finished=how)
        return self.race

    def left_s(self) -> float:
        """Seconds of the race's budget that are left; below 0 if it is overspent."""
        return self.race.plan.budget_s - sum(column.spent_s for column in self.columns)

    def part(self, column: ColumnLoop) -> float:
        """A column's share of the remaining budget, in proportion to how long its rounds take."""
        open_ = [other for other in self.columns if other.finished is None]
        known_s = [other.typical_s for other in open_ if other.typical_s]
        usual_s = sum(known_s) / len(known_s) if known_s else 1.0
        return (column.typical_s or usual_s) / sum(other.typical_s or usual_s for other in open_)

    def _run_rounds(self) -> Ending:
        since_s: float | None = None
        while open_ := self._open():
            if self.pause_after is not None and all(column.steps >= self.pause_after for column in open_):
                return Ending.INTERRUPTED
            column = self._next(open_)
            column.since_s = since_s
            column.step()
            since_s = column.since_s
            self._grow(open_)
            self.progress.round_done(self.race, analysis.Verdict(tuple(column.judged for column in self.columns)))
        ends = {column.finished for column in self.columns}
        if {Ending.DECIDED, Ending.VOID} <= ends:  # the race is not void, but what is void is not decided
            ends.add(Ending.NOT_COMPARABLE)
        return next((end for end in _ENDS if end in ends), Ending.TOO_FEW)

    def _grow(self, open_: Sequence[ColumnLoop]) -> None:
        """Raises a default budget to what the ten rounds that a close verdict needs take, five minutes at most.

        It depends on the clock only, and leaves the planned last round, and so the levels of all looks, as they were.
        """
        missing_s = sum(max(schedule.MIN_ROUNDS - column.done, 0) * column.coming_s() for column in open_)
        needed_s = sum(column.spent_s for column in self.columns) + missing_s
        budget_s = schedule.grown_budget_s(needed_s)
        if not self.grows or not missing_s or budget_s <= self.race.plan.budget_s:
            return
        self.store.extend(self.race.id, budget_s=budget_s)
        columns = (replace(c, plan=replace(c.plan, budget_s=budget_s)) for c in self.race.columns)
        self.race = replace(self.race, columns=tuple(columns))
        self.progress.phase(f"the budget is {budget_s:.0f} s now: rounds take longer than the calibration")

    def _open(self) -> list[ColumnLoop]:
        """The columns that have not finished; none after a machine was lost for good, because all columns need it.

        A column whose part of the budget was spent goes on if others left something of theirs.
        """
        for column in self.columns if any(column.lost for column in self.columns) else ():
            column.finished = Ending.MACHINE_LOST
        for column in self.columns:
            if column.finished in (None, Ending.BUDGET):
                column.finished = None
                column.finished = column.finish_reason()
        return [column for column in self.columns if column.finished is None]

    def _next(self, open_: Sequence[ColumnLoop]) -> ColumnLoop:
        """The column with the fewest rounds; of equals, the first in the order that is drawn for that turn."""
        turn = min(column.done for column in open_)
        waiting = {column.name: column for column in open_ if column.done == turn}
        drawn = schedule.order_of_columns(self.race.seed, turn, [column.name for column in self.columns])
        return next(waiting[name] for name in drawn if name in waiting)


class ColumnLoop(RoundLoop):
    """Runs the rounds of one column.

    Args:
        whole: the loop of all columns; it shares out the budget and holds the whole race's record.
        column: the column's index in the race; name: its name.
    """

    def __init__(
        self,
        whole: RaceLoop,
        column: int,
        name: str,
        setup: RaceSetup,
        progress: Progress,
        contenders: Mapping[str, Qualified],
    ) -> None:
        super().__init__(setup, progress, contenders)
        self.whole, self.column, self.name = whole, column, name
        self.spent_s = self.race.spent_s
        self.void_in_a_row = 0
        #: None while it goes on.
        self.finished: Ending | None = None
        self.had = self.done
        self.judge()

    #: How many valid rounds it had when it was resumed.
    had = 0

    #: The whole race's record when ``race`` was read, and this column of it.
    _read: tuple[Race, Race] | None = None

    @property
    def race(self) -> Race:
        """The column as a race, from the whole race's record."""
        if self._read is None or self._read[0] is not self.whole.race:
            self._read = (self.whole.race, analysis.by_column(self.whole.race)[self.column])
        return self._read[1]

    def judge(self) -> None:
        """Judges the column so far: contenders that can still decide something are needed, all before a first round.

        Pairs that more rounds would not make comparable rest; in a resumed race only after as many rounds as show it.
        """
        self.judged = analysis.judge_column(self.race)
        needed = frozenset(self.contenders)
        if self.race.rounds:
            asked = self.whole.gate.open_pairs(self.judged, self.whole.race.entrants[0].name)
            resting = self.done - self.had >= schedule.MIN_ROUNDS
            needed &= analysis.still_needed(self.judged, self.race, asked, resting=resting)
        #: Contenders of pairs or rulings that are open.
        self.open = needed
        #: And those of close pairs, which may not have met each kind of launch yet.
        self.needed = needed | (validity.held(self.race, self.judged.pairs) & frozenset(self.contenders))

    @property
    def done(self) -> int:
        """How many of its rounds count."""
        return sum(not round_.void for round_ in self.race.rounds)

    @property
    def typical_s(self) -> float:
        """How long one of its rounds takes; 0 before the first."""
        return self.spent_s / max(len(self.race.rounds), 1)

    def budget_s(self) -> float:
        """The seconds that it has spent, and its part of those that are left."""
        return self.spent_s + self.whole.part(self) * self.whole.left_s()

    def coming_s(self) -> float:
        """How long its next round will take, by its last ones; 0 before the first."""
        rounds = self.race.rounds
        if not rounds:
            return 0.0
        each_s = fmean(round_.lasted_s / max(len(round_.launches), 1) for round_ in rounds[-RECENT:])
        # Times by its own clock over those of the record: the two are the same but in a round that is lost.
        return each_s * len(self.needed or self.contenders) * self.spent_s / max(self.race.spent_s, 1e-9)

    def affordable(self) -> bool:
        """Whether its part of the budget pays for another round of those that are needed; a first is always run."""
        if not self.race.rounds:
            return True
        next_s = self.coming_s()
        over_s = min(next_s / 2, OVERTIME * self.race.plan.budget_s)
        return next_s <= self.whole.part(self) * self.whole.left_s() + over_s

    def finish_reason(self) -> Ending | None:
        """How the column finished; None while it goes on.

        While the budget pays for another round, it goes on until nothing is open that more rounds could change.
        """
        if self.lost:
            return Ending.MACHINE_LOST
        if len(self.contenders) < 2:
            return Ending.TOO_FEW
        plan = self.race.plan
        if self.void_in_a_row >= analysis.MAX_VOID_ROUNDS and (plan.rounds_fixed or not self.done):
            return Ending.VOID
        if plan.rounds_fixed:
            return Ending.ROUNDS if self.done >= plan.planned_rounds else None
        over = not self.affordable() or (self.whole.last_round and self.done >= plan.planned_rounds)
        # A close pair that is decided runs on for launches that it might not have met, as far as the budget goes.
        settled = not (self.open if over else self.needed)
        if settled and (over or self.done >= validity.KINDS_ROUNDS or not validity.of_two_kinds(self.race)):
            return Ending.DECIDED if self.judged.all_decided else Ending.NOT_COMPARABLE
        return Ending.BUDGET if over else None

    def next_round(self) -> RoundPlan:
        """Plans the needed contenders; all if the number of rounds is fixed, or if no pair needs another round.

        Rounds are numbered through the whole race.
        """
        index, plan = len(self.whole.race.rounds), self.plan()
        names = sorted(self.contenders if self.race.plan.rounds_fixed else self.needed or self.contenders)
        order = schedule.order_of(plan, self.race.seed, index, names)
        drawn_phases = schedule.lead_in_phases(self.race.seed, index, order.blocks_of_each())
        phases = {name: iter(drawn) for name, drawn in drawn_phases.items()}
        blocks = tuple(
            self._block(plan, name, pass_index, next(phases[name]))
            for pass_index, drawn in enumerate(order.passes)
            for name in drawn
        )
        return RoundPlan(index=index, launches=order.launches, blocks=blocks, judge=self._judge)

    def _block(self, plan: Plan, name: str, pass_index: int, phase: float) -> PlannedBlock:
        lead_ns, counted_ns = schedule.block_of(plan, name)
        rate_per_s = self.setup.load.rate_per_s
        if not rate_per_s:  # an open loop has no waves: it counts requests by when they are meant to leave
            lead_ns += schedule.lead_in_delay_ns(phase, self.contenders[name].calibration.p50_ns)
        return PlannedBlock(
            contender=name, pass_index=pass_index, lead_ns=lead_ns, counted_ns=counted_ns, rate_per_s=rate_per_s
        )

    def _judge(self, blocks: Sequence[Block], single_threaded: Mapping[str, bool]) -> tuple[Block, ...]:
        return validity.with_reasons(
            blocks,
            validity.BlockRules(
                connections=self.setup.load.at_once,
                server_cores=len(self.setup.lanes.server),
                shared_lanes=self.setup.lanes.servers_share,
                law=not self.setup.load.rate_per_s and MetricChoice.of(self.race.plan.metric).name != "cpu",
                by_cpu=MetricChoice.of(self.race.plan.metric).name != "throughput",
                observed=self.setup.observed,
            ),
            single_threaded,
        )

    def plan(self) -> Plan:
        """The column's plan; with fewer blocks in a round if the budget would not pay for ten rounds."""
        plan, missing = self.race.plan, schedule.MIN_ROUNDS - self.done
        if plan.rounds_fixed or missing <= 0 or not self.race.rounds:
            return plan
        share = (self.budget_s() - self.spent_s) / (missing * self.typical_s)
        return plan if share >= 1 else schedule.with_fewer_blocks(plan, max(share, 0.0))

    def commit_round(self, outcome: RoundOutcome, events: Sequence[Event]) -> None:
        """Stores the round, and judges the column without the contenders that the round took out."""
        record = replace(outcome.round, column=self.column)
        self.whole.store.append_round(self.race.id, record)
        self.void_in_a_row = self.void_in_a_row + 1 if record.void else 0
        own_events = tuple(replace(event, column=self.column) for event in events)
        for event in own_events:
            self.whole.store.append_event(self.race.id, event)
        race = self.whole.race
        self.whole.race = replace(race, rounds=(*race.rounds, record), events=(*race.events, *own_events))
        self.take_out_contenders(outcome.out, record.index)

    def take_out_contenders(self, fallen: Mapping[str, str], index: int) -> None:
        """Takes contenders out of this column, by name with the reason, and judges it; they stay in other columns.

        Args:
            index: the round that took them out.
        """
        for name, reason in fallen.items():
            self.whole.store.entrant_out(self.race.id, name, reason, index, self.column)
            self.contenders.pop(name, None)
            self.progress.out(name, reason)
        entrants = tuple(
            replace(entrant, out=fallen[entrant.name], out_round=index) if entrant.name in fallen else entrant
            for entrant in self.race.entrants
        )
        self.whole.race = analysis.with_column(self.whole.race, self.column, entrants)
        self.judge()
