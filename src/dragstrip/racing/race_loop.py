"""Drives the rounds of a race: its columns take turns, each until its pairs are decided or the budget is spent.

Every round launches a column's contenders afresh, so a number at one workload does not depend on another workload's
load. Which column has the next round depends on the seed and on how many rounds each column has, never on a ratio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dragstrip import analysis, validity
from dragstrip.metrics import MetricChoice
from dragstrip.racing import schedule
from dragstrip.racing.loop import RoundLoop
from dragstrip.racing.progress import ColumnProgress, Progress
from dragstrip.racing.qualification import Qualified
from dragstrip.racing.round import Outcome, PlannedBlock, RoundPlan
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import Block, Ending, Event, Plan, Race
from dragstrip.store.database import Store

#: A race may exceed its budget by this share to reach the first round that can decide anything.
OVERTIME = 0.5

#: How a race ended if its columns ended differently: the first of these that any column has.
_ENDS = (Ending.MACHINE_LOST, Ending.BUDGET, Ending.ROUNDS, Ending.DECIDED, Ending.VOID)


class RaceLoop:
    """Drives the rounds of all columns and keeps the race's record up to date.

    Args:
        entered: each column's setup and contenders, in the order of the race's columns.
        pause_after: the race pauses after this many further rounds of each open column; None: never.
    """

    def __init__(
        self,
        store: Store,
        progress: Progress,
        race: Race,
        entered: Sequence[tuple[RaceSetup, Mapping[str, Qualified]]],
        pause_after: int | None = None,
    ) -> None:
        self.store, self.progress, self.race, self.pause_after = store, progress, race, pause_after
        names = [column.name for column in race.columns]
        shown = [ColumnProgress(progress, name) for name in names] if len(names) > 1 else [progress]
        self.columns = [
            ColumnLoop(self, index, names[index], setup, shown[index], contenders)
            for index, (setup, contenders) in enumerate(entered)
        ]

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
        while open_ := self._open():
            if self.pause_after is not None and all(column.steps >= self.pause_after for column in open_):
                return Ending.INTERRUPTED
            self._next(open_).step()
            self.progress.round_done(self.race, analysis.Verdict(tuple(column.judged for column in self.columns)))
        ends = {column.finished for column in self.columns}
        return next((end for end in _ENDS if end in ends), Ending.TOO_FEW)

    def _open(self) -> list[ColumnLoop]:
        """The columns that have not finished; none after a machine was lost for good, because all columns need it."""
        for column in self.columns if any(column.lost for column in self.columns) else ():
            column.finished = Ending.MACHINE_LOST
        for column in self.columns:
            if column.finished is None:
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
        self.race = analysis.by_column(whole.race)[column]
        self.spent_s = sum((round_.ended_ns - round_.started_ns) / 1e9 for round_ in self.race.rounds)
        self.void_in_a_row = 0
        #: None while it goes on.
        self.finished: Ending | None = None
        self.judge()

    def judge(self) -> None:
        """Judges the column so far: contenders that can still decide something are needed, all before a first round."""
        self.judged = analysis.judge_column(self.race)
        needed = analysis.still_needed(self.judged, self.race) if self.race.rounds else frozenset(self.contenders)
        self.needed = (needed | validity.held(self.race, self.judged.pairs)) & frozenset(self.contenders)

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

    def overtime_s(self) -> float:
        """Its part of the seconds by which the race may exceed its budget to reach a round that decides."""
        return self.whole.part(self) * OVERTIME * self.race.plan.budget_s

    def finish_reason(self) -> Ending | None:
        """How the column finished; None while it goes on."""
        if self.lost:
            return Ending.MACHINE_LOST
        if len(self.contenders) < 2:
            return Ending.TOO_FEW
        plan = self.race.plan
        if self.void_in_a_row >= analysis.MAX_VOID_ROUNDS:
            return Ending.VOID
        if plan.rounds_fixed:
            return Ending.ROUNDS if self.done >= plan.planned_rounds else None
        left = plan.planned_rounds - self.done
        if self.typical_s > 0:
            over_s = self.overtime_s() if self.done < schedule.MIN_ROUNDS else 0.0
            left = min(left, round((self.budget_s() + over_s - self.spent_s) / self.typical_s))
        if not self.needed and not (self.done < validity.KINDS_ROUNDS and validity.of_two_kinds(self.race)):
            return Ending.DECIDED
        # Without a pair that is open, the budget was for launches that a decided pair might not have met.
        return None if left > 0 else Ending.DECIDED if self.judged.all_decided else Ending.BUDGET

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

    def commit_round(self, outcome: Outcome, events: Sequence[Event]) -> None:
        """Stores the round, and judges the column without the contenders that the round took out."""
        record = replace(outcome.round, column=self.column)
        self.whole.store.append_round(self.race.id, record)
        self.void_in_a_row = self.void_in_a_row + 1 if record.void else 0
        own_events = tuple(replace(event, column=self.column) for event in events)
        for event in own_events:
            self.whole.store.append_event(self.race.id, event)
        self.race, self.whole.race = (
            replace(race, rounds=(*race.rounds, record), events=(*race.events, *own_events))
            for race in (self.race, self.whole.race)
        )
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
        self.race = analysis.with_column(self.race, 0, entrants)
        self.whole.race = analysis.with_column(self.whole.race, self.column, entrants)
        self.judge()
