"""Runs rounds one after the other, for a race's column and for a sweep.

Each round is committed before the next begins, so that nothing measured is lost.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dragstrip import machine
from dragstrip.errors import MachineLost
from dragstrip.racing import machine_events
from dragstrip.racing.progress import Progress
from dragstrip.racing.qualification import Qualified
from dragstrip.racing.round import RoundOutcome, RoundPlan, run_round
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import Event, EventKind, Round, Void, VoidKind

#: A loop that waits for a quiet machine waits until other programs keep less than this share of the cores busy.
QUIET = 0.12


class RoundLoop(ABC):
    """Runs one round after another; subclasses choose who runs next, and when to finish.

    Args:
        contenders: the contenders still taking part, by name.
    """

    #: Whether a machine was lost for good.
    lost = False

    #: Rounds that were run since it began or was resumed, void ones among them.
    steps = 0

    #: Seconds that it may still wait, in all, for a quiet machine before rounds.
    patience_s = 0.0

    #: When the round before its next one ended, whoever ran it; what is between the two belongs to the next one.
    since_s: float | None = None

    def __init__(self, setup: RaceSetup, progress: Progress, contenders: Mapping[str, Qualified]) -> None:
        self.setup, self.progress, self.contenders, self.spent_s = setup, progress, dict(contenders), 0.0
        self.watch = setup.surroundings()

    def step(self) -> None:
        """Runs the next round and records it."""
        outcome, events = self._run(self.next_round())
        self.steps += 1
        self.commit_round(outcome, events)

    @abstractmethod
    def next_round(self) -> RoundPlan:
        """Plans the next round."""

    @abstractmethod
    def commit_round(self, outcome: RoundOutcome, events: Sequence[Event]) -> None:
        """Adds a round and its events to the record, and removes contenders that were taken out."""

    def _run(self, plan: RoundPlan) -> tuple[RoundOutcome, Sequence[Event]]:
        began_s = time.monotonic() if self.since_s is None else self.since_s
        if self.patience_s > 0:
            began_s = time.monotonic()
            self.setup.wait_for_quiet(busy_below=QUIET, at_most_s=self.patience_s)
            self.patience_s -= time.monotonic() - began_s - machine.WINDOW_S
            began_s = time.monotonic()
        contenders = {name: self.contenders[name] for name in plan.launches}
        try:
            self.watch.before()
            self.setup.begin_round()
            outcome = run_round(self.setup, plan, contenders)
            record, more = self.setup.end_round(outcome.round)
            outcome = replace(outcome, round=record)
            events: Sequence[Event] = (*outcome.events, *more, *self.watch.after())
        except MachineLost as lost:
            outcome, events = self._without_a_machine(plan, lost, began_s)
        # As long as its budget is charged for: a race's time is that of its rounds.
        self.since_s = time.monotonic()
        self.spent_s += self.since_s - began_s
        record = replace(outcome.round, started_ns=round(began_s * 1e9), ended_ns=round(self.since_s * 1e9))
        return replace(outcome, round=record), events

    def _without_a_machine(
        self, plan: RoundPlan, lost: MachineLost, began_s: float
    ) -> tuple[RoundOutcome, Sequence[Event]]:
        """The round in which a machine was lost: void, with nothing in it. Waits for the machine to come back."""
        record = Round(
            index=plan.index,
            started_ns=round(began_s * 1e9),
            ended_ns=time.monotonic_ns(),
            launches=(),
            blocks=(),
            void=(Void(kind=VoidKind.MACHINE_LOST),),
        )
        events = [machine_events.event(EventKind.MACHINE_LOST, lost.machine, text=str(lost))]
        self.progress.phase(f"{lost}; waiting for it", waiting=True)
        if self.setup.recover(lost):
            events.append(machine_events.event(EventKind.MACHINE_BACK, lost.machine))
        else:
            self.lost = True
        return RoundOutcome(round=record, planned=(), out={}), events
