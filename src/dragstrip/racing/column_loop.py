"""Rounds of a race of several columns: one column's at a time, each by a loop as a race of one workload has it.

Every round launches a column's contenders afresh, so a number at one workload owes nothing to another workload's load.
Who has the next round depends on the seed and on how many rounds each column has, never on a ratio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dragstrip import analysis
from dragstrip.racing import schedule
from dragstrip.racing.loop import RaceLoop
from dragstrip.racing.progress import Progress, Within
from dragstrip.racing.qualified import Qualified
from dragstrip.racing.round import Outcome
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import MACHINE_LOST, TOO_FEW, Event, Race
from dragstrip.store.database import Store

#: How a race ended whose columns ended differently: the first of these that any of them has.
_ENDS = (MACHINE_LOST, "budget", "rounds", "decided", "void")


class ColumnLoop(RaceLoop):
    """The rounds of one column.

    Args:
        whole: the loop of all columns, which says how much of the budget is this one's.
        at: which of the race's columns it is.
    """

    def __init__(
        self, whole: ColumnsLoop, at: int, setup: RaceSetup, progress: Progress, contenders: Mapping[str, Qualified]
    ) -> None:
        super().__init__(setup, whole.store, progress, analysis.column_of(whole.race, at), contenders)
        self.whole, self.at, self.column, self.name = whole, at, at, whole.race.columns[at].name
        self.ended: str | None = None
        self.judged = analysis.judge(self.race)
        begun = bool(self.race.rounds)
        self.needed = analysis.still_needed(self.judged, self.race) if begun else frozenset(self.contenders)

    @property
    def done(self) -> int:
        """Its rounds that count."""
        return sum(not this.void for this in self.race.rounds)

    @property
    def typical_s(self) -> float:
        """How long one of its rounds takes; 0 before the first."""
        return self.spent_s / max(len(self.race.rounds), 1)

    def budget_s(self) -> float:
        """What it has spent, and its part of what is left."""
        return self.spent_s + self.whole.part(self) * self.whole.left_s()

    def overtime_s(self) -> float:
        """Its part of the whole race's."""
        return self.whole.part(self) * super().overtime_s()

    def next_index(self) -> int:
        """Rounds are numbered through the whole race."""
        return len(self.whole.race.rounds)

    def keep(self, outcome: Outcome, events: Sequence[Event]) -> None:
        """As a race of one workload does; the whole race has the round and its events, too."""
        rounds, seen = len(self.race.rounds), len(self.race.events)
        super().keep(outcome, events)
        whole = self.whole.race
        self.whole.race = replace(
            whole,
            rounds=(*whole.rounds, *self.race.rounds[rounds:]),
            events=(*whole.events, *self.race.events[seen:]),
        )

    def let_out(self, fallen: Mapping[str, str], index: int) -> None:
        """Out of this column: the others go on with them."""
        super().let_out(fallen, index)
        self.whole.race = analysis.with_column(self.whole.race, self.at, self.race.entrants)

    def tell(self, judged: analysis.Verdict) -> None:
        """Keeps the verdict: the whole race shows it."""
        self.judged = judged


class ColumnsLoop:
    """Drives the rounds of all columns and keeps the race's record up to date.

    Args:
        entered: each column's setup and contenders, in the order of the race's columns.
    """

    def __init__(
        self,
        store: Store,
        progress: Progress,
        race: Race,
        entered: Sequence[tuple[RaceSetup, Mapping[str, Qualified]]],
    ) -> None:
        self.store, self.progress, self.race = store, progress, race
        self.loops = [
            ColumnLoop(self, at, setup, Within(progress, race.columns[at].name), ready)
            for at, (setup, ready) in enumerate(entered)
        ]

    def by_column(self) -> Sequence[RaceLoop]:
        """The loop of each column."""
        return self.loops

    def drive(self) -> Race:
        """Runs rounds until every column is over; an interruption is recorded and passed on."""
        how = "interrupted"
        try:
            how = self._run_rounds()
        finally:
            self.store.finish(self.race.id, how)
        self.race = replace(self.race, finished=how)
        return self.race

    def left_s(self) -> float:
        """Seconds of the race's budget that are left; below 0 where it is overspent."""
        return self.race.plan.budget_s - sum(each.spent_s for each in self.loops)

    def part(self, loop: ColumnLoop) -> float:
        """A column's share of what is left: as long as its rounds are, among those of the columns that go on."""
        open_ = [each for each in self.loops if each.ended is None]
        known_s = [each.typical_s for each in open_ if each.typical_s]
        usual_s = sum(known_s) / len(known_s) if known_s else 1.0
        return (loop.typical_s or usual_s) / sum(each.typical_s or usual_s for each in open_)

    def _run_rounds(self) -> str:
        while open_ := self._open():
            self._next(open_).step()
            self.progress.round_done(self.race, analysis.together(self.race, tuple(one.judged for one in self.loops)))
        ends = {loop.ended for loop in self.loops}
        return next((end for end in _ENDS if end in ends), TOO_FEW)

    def _open(self) -> list[ColumnLoop]:
        """The columns that go on; none once a machine was lost for good: it is all columns' machine."""
        for loop in self.loops if any(one.lost for one in self.loops) else ():
            loop.ended = MACHINE_LOST
        for loop in self.loops:
            if loop.ended is None:
                loop.ended = loop.over()
        return [loop for loop in self.loops if loop.ended is None]

    def _next(self, open_: Sequence[ColumnLoop]) -> ColumnLoop:
        """The column with the fewest rounds; among equals by the order that was drawn for that turn."""
        turn = min(loop.done for loop in open_)
        waiting = {loop.name: loop for loop in open_ if loop.done == turn}
        drawn = schedule.order_of_columns(self.race.seed, turn, [column.name for column in self.race.columns])
        return next(waiting[name] for name in drawn if name in waiting)
