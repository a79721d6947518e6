"""Drives a lab: each strip has one slice at a time, and what it leaves is imported and noted.

Strips are waited for by one thread each, which sleeps. Only the main thread writes the ledger and the store. After a
crash the same command settles the attempts that are open: it waits while one still lives, then looks into its outbox.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from dragstrip import analysis, paths
from dragstrip.errors import BadDefinition, BadUsage, DiskFull, DragstripError, MachineLost, StoreError
from dragstrip.extras.lab import choice, matrix, planning
from dragstrip.extras.lab.carrier import Carrier, Children
from dragstrip.extras.lab.choice import CellProgress, Spending
from dragstrip.extras.lab.ledger import STORE_NAME, Attempt, CellRow, Ledger, Stored, only_client
from dragstrip.extras.lab.matrix import Matrix
from dragstrip.extras.lab.planning import PlannedCell, Planner
from dragstrip.extras.lab.strips import StripLink
from dragstrip.extras.lab.task import Inquiry, Taken, TaskEnding, TaskOutcome, TaskReply, from_json
from dragstrip.paths import own_folder
from dragstrip.process.scratch import sweep_stale
from dragstrip.record import EventKind, Race
from dragstrip.store.database import Store

#: Lost attempts in a row after which a strip rests until it replies again, and how long it rests before.
LOST_IN_A_ROW, REST_S = 3, 60.0

#: Seconds for which a client waits for all strips before it begins with those that have replied.
FIRST_S = 20.0

#: A slice is ended after this many times its plan, but not before ``LEAST_S``.
TIMES_PLAN, LEAST_S = 3.0, 1800.0

#: Threads that wait for strips.
MOST_STRIPS = 256

#: Attempts whose files one call on a strip removes: it names each on its command line.
CLEARED = 1000

PAUSE = "pause"


@dataclass(slots=True)
class _StripState:
    """What the client knows of a strip.

    Args:
        lost: its losses in a row. rests_until_s: monotonic seconds. asked: whether it can be used again.
    """

    lost: int = 0
    rests_until_s: float = 0.0
    asked: Future[TaskReply] | None = None


@dataclass(kw_only=True)
class Runner:
    """A lab that runs.

    Args:
        file: the matrix. folder: the lab's. say: shows a line.
        only: cells that are run; the others wait. carrier: reaches the strips.
        digest: what reports show of a race; kept in the ledger, so that they need not read 1,000 records.
    """

    file: Path
    folder: Path
    say: Callable[[str], None]
    only: Callable[[CellRow], bool] = lambda _cell: True
    carrier: Carrier = field(default_factory=Children)
    digest: Callable[[Race], str] = lambda _race: ""
    _running: dict[Future[tuple[bytes, bytes]], tuple[Attempt, StripLink]] = field(default_factory=dict)
    _strips: dict[str, _StripState] = field(default_factory=lambda: defaultdict(_StripState))
    _taken: dict[str, list[Taken]] = field(default_factory=lambda: defaultdict(list))
    _planned: dict[str, PlannedCell] = field(default_factory=dict)
    #: Attempts of an earlier client.
    _earlier: set[tuple[str, int]] = field(default_factory=set)
    _began_s: dict[tuple[str, int], float] = field(default_factory=dict)
    _read_ns: int = -1
    _joined: frozenset[str] = frozenset()
    _planned_s: float = 0.0

    def run(self) -> bool:
        """Runs until nothing is left to do, or until ``pause``; returns whether no cell has failed.

        Raises:
            BadUsage, BadDefinition: the matrix is refused, or another client runs this lab. DiskFull: no disk space.
            KeyboardInterrupt: passed on; the races that were running have ended, and the same command continues them.
        """
        own_folder(self.folder, "give another --folder")
        with ExitStack() as resources:
            resources.enter_context(only_client(self.folder))
            (self.folder / PAUSE).unlink(missing_ok=True)
            sweep_stale()  # what earlier clients and races left that were killed
            self._ledger = Ledger(self.folder)
            resources.callback(self._ledger.close)
            self._store = resources.enter_context(Store(self.folder / STORE_NAME))
            self._planner = Planner(folder=self.folder, resources=resources, say=self.say, carrier=self.carrier)
            self._read()
            pool = resources.enter_context(ThreadPoolExecutor(MOST_STRIPS, thread_name_prefix="strip"))
            try:
                self._settle(pool)
                self._drive(pool)
                self._clear(pool)
            except BaseException:
                self.carrier.interrupt()
                raise
            return all(progress is not CellProgress.FAILED for progress in self._progress().values())

    def _read(self) -> None:
        """Reads the matrix and plans it, if it was changed, if a strip has joined, or to try strips that were away."""
        changed_ns, now_s = self.file.stat().st_mtime_ns, time.monotonic()
        again = self._planner.away and now_s > self._planned_s + REST_S
        again = again or any(reply.done() for reply in self._planner.unheard.values())
        if changed_ns == self._read_ns and self._reachable() <= self._joined and not again:
            return
        before, self._planned_s = dict(self._planner.away), now_s
        try:
            self._matrix: Matrix = matrix.load(self.file)
            planned = self._planner.plan(self._matrix, FIRST_S if self._read_ns < 0 else 0.0)
        except (BadDefinition, BadUsage) as error:
            if self._read_ns < 0:
                raise
            self._read_ns = changed_ns
            self.say(f"the changed matrix is refused, and the former one still counts: {error}")
            return
        self._read_ns = changed_ns
        self._joined |= self._reachable()
        self._planned = {cell.name: cell for cell in planned}
        self._ledger.plan([cell.row(place) for place, cell in enumerate(planned)])
        for name, why in self._planner.away.items():
            if before.get(name) != why:
                self.say(f"strip {name} is left out: {why}")

    def _reachable(self) -> frozenset[str]:
        """The strips that the carrier reaches now."""
        return frozenset(name for name, link in self._planner.links.items() if not self.carrier.missing(link))

    def _settle(self, pool: ThreadPoolExecutor) -> None:
        """Looks for what open attempts of an earlier client have left; waits for those that still live."""
        for attempt in self._ledger.attempts():
            if attempt.outcome:
                continue
            link = self._planner.links.get(attempt.strip)
            if link is None:
                self._ledger.end(attempt, TaskEnding.LOST, f"strip {attempt.strip} has left the matrix", most_s=0.0)
                continue
            self._earlier.add((attempt.cell, attempt.n))
            self._running[pool.submit(self.carrier.collect, link, attempt.cell, attempt.n)] = (attempt, link)

    def _clear(self, pool: ThreadPoolExecutor) -> None:
        """Removes all that attempts have left in outboxes: a client may have been killed, or Slurm ran one again."""
        stored, ended = self._ledger.stored(), defaultdict[str, list[Taken]](list)
        for attempt in self._ledger.attempts():
            ended[attempt.strip].append(_taken(attempt, stored))
        cleared = [
            pool.submit(self.carrier.clear, link, ended[name][first : first + CLEARED])
            for name, link in self._planner.links.items()
            if name not in self._planner.away
            for first in range(0, len(ended[name]), CLEARED)
        ]
        for future in cleared:
            future.result()

    def _drive(self, pool: ThreadPoolExecutor) -> None:
        while True:
            paused = (self.folder / PAUSE).exists()
            if not paused:
                self._read()
                self._start(pool)
            awaited, asked = self._awaited_s(), set[Future[TaskReply]]() if paused else self._asked()
            if not self._running:
                if paused or not self._left(asked) or (awaited is None and not asked):
                    return
                if not asked:
                    time.sleep(awaited or 0.0)
                    continue
            awaiting: set[Future[Any]] = {*self._running, *asked}
            done, _ = wait(awaiting, timeout=awaited, return_when=FIRST_COMPLETED)
            for future in self._running.keys() & done:
                self._finished(future, *self._running.pop(future))

    def _asked(self) -> set[Future[TaskReply]]:
        """Replies that are awaited."""
        usable = self._planner.links.keys() - self._planner.away.keys()
        resting = {self._strips[name].asked for name in usable if name in self._strips}
        return {reply for reply in (*resting, *self._planner.unheard.values()) if reply is not None}

    def _awaited_s(self) -> float | None:
        """Seconds until a strip may be usable that is not now; None if all are."""
        now_s = time.monotonic()
        awaited = [state.rests_until_s - now_s for state in self._strips.values() if state.rests_until_s > now_s]
        if self.carrier.look_s is not None and (self._running or self._reachable() < self._planner.links.keys()):
            awaited.append(self.carrier.look_s)
        if self._running and self._planner.away:
            awaited.append(max(self._planned_s + REST_S - now_s, 0.0) + 0.1)
        return min(awaited, default=None)

    def _left(self, asked: AbstractSet[Future[TaskReply]]) -> bool:
        """Whether a cell still waits for its first rounds, on a strip that can't be used now.

        Args:
            asked: replies that are awaited; with them, a cell may run that can't now.
        """
        progress, left = self._progress(), {CellProgress.WAITING, *([CellProgress.CANT_RUN] if asked else [])}
        return any(progress[cell.name] in left for cell in self._ledger.cells() if self.only(cell))

    def _progress(self) -> dict[str, CellProgress]:
        return self._progress_of(self._by_cell(), self._ledger.stored())

    def _progress_of(
        self, attempts: Mapping[str, Sequence[Attempt]], stored: Mapping[str, Stored]
    ) -> dict[str, CellProgress]:
        return {
            cell.name: choice.progress_of(cell, attempts.get(cell.name, ()), stored.get(cell.name))
            for cell in self._ledger.cells()
        }

    def _by_cell(self) -> dict[str, list[Attempt]]:
        attempts: dict[str, list[Attempt]] = {}
        for attempt in self._ledger.attempts():
            attempts.setdefault(attempt.cell, []).append(attempt)
        return attempts

    def _spending(self) -> Spending:
        lab, budget_s = self._matrix.fields.lab, self._matrix.budget_s
        spent_s = sum(map(self._spent_s, self._ledger.attempts()))
        return Spending(
            lab.first_rounds,
            lab.most_rounds,
            lab.slice_rounds,
            lab.spend == "even",
            None if budget_s is None else budget_s - spent_s,
        )

    def _spent_s(self, attempt: Attempt) -> float:
        """The machine time of an attempt so far; of one that runs, without the wall clock."""
        if attempt.ended is not None:
            return max(attempt.ended - attempt.begun, 0.0)
        return self._took_s(attempt) or max(time.time() - attempt.begun, 0.0)

    def _took_s(self, attempt: Attempt) -> float | None:
        """How long ago this client began an attempt; None if an earlier client did."""
        began_s = self._began_s.get((attempt.cell, attempt.n))
        return None if began_s is None else time.monotonic() - began_s

    def _start(self, pool: ThreadPoolExecutor) -> None:
        """Gives each free strip its next slice; the attempt is on the disk before it starts."""
        busy = {attempt.strip for attempt, _ in self._running.values()}
        cells = [cell for cell in self._ledger.cells() if self.only(cell)]
        able = {name: planned.able for name, planned in self._planned.items()}
        for name, link in self._planner.links.items():
            state = self._strips[name]
            if name in busy or name in self._planner.away or state.rests_until_s > time.monotonic():
                continue
            if state.rests_until_s and not self._replies(link, state):
                continue
            if self.carrier.missing(link):
                continue
            attempts, stored = self._by_cell(), self._ledger.stored()
            progress = self._progress_of(attempts, stored)
            found = choice.next_cell(name, cells, able, progress, attempts, stored, self._spending())
            if found is not None:
                self._begin(pool, link, *found)

    def _replies(self, link: StripLink, state: _StripState) -> bool:
        """Whether a strip that has rested can be used again; the inquiry's reply is not waited for."""
        if state.asked is None:
            state.asked = self._planner.ask(link, Inquiry(contestants=(), workloads=()))
        if not state.asked.done():
            return False
        reply, state.asked = state.asked, None
        try:
            reply.result()
        except DragstripError as error:
            self.say(f"strip {link.fields.name} still rests: {error}")
            state.rests_until_s = time.monotonic() + REST_S
            return False
        state.rests_until_s, state.lost = 0.0, 0
        return True

    def _begin(self, pool: ThreadPoolExecutor, link: StripLink, cell: str, rounds: int) -> None:
        planned = self._planned[cell]
        attempt = self._ledger.begin(cell, link.fields.name, rounds)
        self._began_s[attempt.cell, attempt.n] = time.monotonic()
        taken = self._taken[link.fields.name]
        try:
            task = planning.task_of(self._matrix, planned, link, attempt.n, rounds, len(self._planned), taken)
        except BadUsage as error:
            self._ledger.end(attempt, TaskEnding.CANT_RUN, str(error))
            return
        known = self._ledger.stored().get(cell)
        limit_s = max(LEAST_S, TIMES_PLAN * planned.seconds(rounds - (known.rounds if known else 0)))
        self._running[pool.submit(self.carrier.race, link, task, limit_s)] = (attempt, link)

    def _finished(self, future: Future[tuple[bytes, bytes]], attempt: Attempt, link: StripLink) -> None:
        """Imports what an attempt has left, then notes it."""
        try:
            outcome, record = future.result()
        except MachineLost as error:
            outcome, record, why = b"", b"", error.why
        else:
            why = "it left no record"
        if not outcome:
            self._lost(attempt, why)
            return
        if (full := _full(outcome)) is not None:
            self._ledger.end(attempt, TaskEnding.FULL, full, took_s=self._took_s(attempt))
            self._strips[attempt.strip].rests_until_s = time.monotonic() + REST_S
            self._taken[attempt.strip].append(_taken(attempt, self._ledger.stored()))
            self.say(f"strip {attempt.strip} rests, and continues by itself: {full}")
            return
        self._strips[attempt.strip].lost = 0
        if (attempt.cell, attempt.n) not in self._earlier:
            self._taken[attempt.strip].clear()  # its task has removed them
        try:
            said = from_json(TaskOutcome, outcome, "its outcome")
            stored, digest = self._taken_in(attempt, said, record)
            self._ledger.end(attempt, said.kind, said.why, stored, digest, **self._times(attempt, said.seconds))
        except DiskFull:
            raise
        except (BadUsage, StoreError) as error:
            stored = None
            self.say(f"cell {attempt.cell}: its record from strip {attempt.strip} is refused: {error}")
            self._ledger.refuse(attempt.cell, attempt.strip, str(error))
            self._ledger.end(attempt, TaskEnding.LOST, f"its record was refused: {error}", **self._times(attempt, 0.0))
        else:
            self.say(self._line(attempt, said.kind, said.why, stored))
        self._taken[attempt.strip].append(_taken(attempt, self._ledger.stored()))

    def _times(self, attempt: Attempt, seconds: float) -> _Times:
        """The machine time that an attempt took, so that the budget does not pay for hours without a client.

        Args:
            seconds: that it took by its own outcome.
        """
        if (attempt.cell, attempt.n) in self._earlier:
            return {"most_s": max(seconds, 0.0), "took_s": None}
        return {"most_s": math.inf, "took_s": self._took_s(attempt)}

    def _lost(self, attempt: Attempt, why: str) -> None:
        planned = self._planned.get(attempt.cell)
        self._ledger.end(
            attempt, TaskEnding.LOST, why, **self._times(attempt, planned.seconds(attempt.rounds) if planned else 0.0)
        )
        state = self._strips[attempt.strip]
        state.lost += 1
        if state.lost >= LOST_IN_A_ROW:
            state.rests_until_s = time.monotonic() + REST_S * (state.lost > LOST_IN_A_ROW)
        self.say(f"cell {attempt.cell}: attempt {attempt.n} on strip {attempt.strip} was lost: {why}")

    def _taken_in(self, attempt: Attempt, said: TaskOutcome, record: bytes) -> tuple[Stored | None, str]:
        """Imports a record; what the ledger keeps of it, and its digest.

        Raises:
            StoreError: it is not valid, or not this cell's.
        """
        if said.kind not in (TaskEnding.STORED, TaskEnding.VOID) or not record:
            return None, ""
        with paths.temporary() as folder:
            place = paths.write_durably(folder / f"{attempt.cell}.race", record)
            race = self._checked(place, attempt)
            try:
                stored, digest = stored_of(race, attempt, void=said.kind is TaskEnding.VOID), self.digest(race)
            except (
                ValueError,
                ArithmeticError,
                LookupError,
                TypeError,
            ) as error:  # a sealed record may have any content
                raise StoreError(f"race {race.id} can't be judged ({type(error).__name__}: {error})") from error
            self._store.import_race(place)
        return stored, digest

    def _checked(self, place: Path, attempt: Attempt) -> Race:
        """A record's race; refused if its own event names another cell, before it reaches the lab's store."""
        with Store(place.with_name("one.sqlite")) as alone:
            race = alone.load(alone.import_race(place))
        cells = [event.subject for event in race.events if event.kind is EventKind.LAB]
        if cells != [attempt.cell]:
            raise StoreError(f"race {race.id} is of {cells or 'no cell'}, not of cell {attempt.cell}")
        return race

    def _line(self, attempt: Attempt, kind: TaskEnding, why: str, stored: Stored | None) -> str:
        planned = self._planned.get(attempt.cell)
        label = planned.cell.label if planned else attempt.cell
        if stored is None:
            return f"{label}: {kind}: {why.splitlines()[-1] if why else ''}"
        how = "void" if stored.void else "decided" if stored.decided else "open"
        return f"{label}: {stored.rounds} rounds on {attempt.strip}, {how}"


class _Times(TypedDict):
    """As in ``Ledger.end``."""

    most_s: float
    took_s: float | None


def _full(outcome: bytes) -> str | None:
    """What a strip says of its full disk; None if it has room."""
    with suppress(BadUsage):
        said = from_json(TaskOutcome, outcome, "its outcome")
        return said.why if said.kind is TaskEnding.FULL else None
    return None


def _taken(attempt: Attempt, stored: Mapping[str, Stored]) -> Taken:
    """A settled attempt, for its strip."""
    known = stored.get(attempt.cell)
    return Taken(cell=attempt.cell, attempt=attempt.n, whole=known is not None and known.over)


def stored_of(race: Race, attempt: Attempt, *, void: bool) -> Stored:
    """What the ledger keeps of a cell's race.

    Raises:
        StoreError: no cell has such a race.
    """
    columns = analysis.judge(race).columns
    if len(columns) != 1:
        raise StoreError(f"race {race.id} has {len(columns)} columns; a cell has one")
    if not race.rounds:
        raise StoreError(f"race {race.id} has no round")
    column = columns[0]
    open_ = [pair for pair in column.pairs if not pair.decided]
    more = [pair.more_rounds for pair in open_ if pair.more_rounds is not None]
    return Stored(
        cell=attempt.cell,
        race=race.id,
        strip=attempt.strip,
        rounds=sum(not round_.void for round_ in race.rounds),
        decided=bool(column.pairs) and not open_,
        over=not race.finished.goes_on,
        void=void,
        more=min(more) if more else None,
    )


def pause(folder: Path) -> None:
    """Has a running client end after the slices that run now."""
    with suppress(FileNotFoundError):
        (folder / PAUSE).touch()
