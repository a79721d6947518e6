"""A race as it runs: redrawn between measurements only, by the caller's own thread.

rich's refresh thread would take CPU time in the middle of a block, so it is never started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from dragstrip.analysis import EARLY, FLOOR, LEAST_APART, Verdict
from dragstrip.record import Race
from dragstrip.report import figures, glyphs
from dragstrip.report.race import terminal as race_terminal
from dragstrip.report.race.summary import JudgedRace
from dragstrip.validity import CheckName, Status, inspect

#: Maximum number of checks' sentences in a live display; the report has all.
MAX_TROUBLES = 4

#: Seconds between two plain lines that name what Dragstrip is waiting for.
WAITING_S = 5.0


class LiveProgress:
    """Shows phases, contenders and, after each round, the standings; a context manager.

    On a terminal it redraws in place and leaves nothing behind; elsewhere it writes plain lines, few of
    them. ``quiet`` writes nothing at all, and ``brief`` no more than the phase, in one line of a terminal.
    """

    def __init__(self, console: Console, *, quiet: bool = False, brief: bool = False) -> None:
        self._console, self._quiet, self._brief = console, quiet or brief, brief
        self._phase, self._phase_shown_s, self._phase_waits = "", 0.0, False
        self._contenders, self._out = dict[str, str](), set[str]()
        self._standings: RenderableType | None = None
        self._marks: list[RenderableType] = []
        self._decided = -1
        drawn = console.is_terminal and not console.options.ascii_only and not quiet
        self._live = Live(console=console, auto_refresh=False, transient=True) if drawn else None
        #: Called after each round; what it raises ends the race.
        self.after_round: Callable[[], None] = lambda: None
        #: Called with the race before its first round.
        self.when_planned: Callable[[Race], None] = lambda _: None

    def planned(self, race: Race) -> None:
        """The race is about to begin."""
        self.when_planned(race)

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Takes the display away; safe to call twice."""
        if self._live:
            self._live.stop()

    def phase(self, text: str, *, waiting: bool = False) -> None:
        """What the race is doing now; ``waiting``: repeated often, so without a terminal it is written only rarely."""
        again = waiting and self._phase_waits
        self._phase, self._phase_waits, now_s = text, waiting, time.monotonic()
        if again and not self._live and now_s - self._phase_shown_s < WAITING_S:
            return
        self._phase_shown_s = now_s
        self._show(text)

    def building(self, name: str, command: Sequence[str], limit_s: float) -> None:
        """Shows that a contender is being built by a command, which may take ``limit_s``."""
        self._contender(name, f"building once, up to {limit_s / 60:.0f} min: {' '.join(command)}")

    def scrutineering(self, name: str) -> None:
        """Shows that a contender is being checked; no line of its own: how that ended has one."""
        self._contenders[name] = "scrutineering"
        self._out.discard(name)
        self._show("")

    def ready(self, name: str, proved_at: str | None = None, note: str = "") -> None:
        """Shows that a contender passed; ``proved_at``: when, if an earlier result is used again."""
        passed = f"ready (passed scrutineering {proved_at})" if proved_at else "ready"
        self._contender(name, f"{passed}; it {note}" if note else passed)

    def out(self, name: str, reason: str) -> None:
        """Shows that a contender is out of the race."""
        self._out.add(name)
        self._contender(name, f"out: {reason}")

    def _contender(self, name: str, text: str) -> None:
        self._contenders[name] = text
        self._show(f"{name}: {text}")

    def round_done(self, race: Race, verdict: Verdict) -> None:
        """The standings after a round."""
        self.after_round()
        done, pairs = len(race.rounds), len(verdict.pairs)
        decided = sum(pair.decided for pair in verdict.pairs)
        fixed, count = race.plan.rounds_fixed, len(verdict.columns)
        budget = "" if fixed else f" of {race.plan.budget_s:.0f} s"
        most = f" of {race.plan.planned_rounds}{f' for each of {count} columns' if count > 1 else ''}" if fixed else ""
        void = sum(bool(round_.void) for round_ in race.rounds)
        self._phase = (
            f"round {done}{f' ({void} void)' if void else ''}{most}, "
            f"{decided} of {pairs} pairs decided, {race.spent_s:.0f} s{budget} spent"
        )
        self._phase_waits = False
        if left := time_left(race, verdict):
            self._phase += f", {left}"
        self._standings = self._table(JudgedRace(race, verdict)) if self._live else None
        self._marks = [*failures(verdict), *check_marks(race)] if self._live else []
        if done == len(verdict.columns) and (short := too_short(race)):
            self._show(short)
        # Plain lines: often at first, then now and then, and whenever something was decided.
        worth_a_line = done in (1, 2, 5) or done % 10 == 0 or decided != self._decided
        self._decided = decided
        self._show(self._phase if worth_a_line else "")

    def _table(self, judged: JudgedRace) -> RenderableType | None:
        """The ranking so far; of several columns contender by column."""
        if len(judged.parts) > 1:
            return Group(*race_terminal.columns_table(judged, self._console.width, legend=False))
        (part,) = judged.parts
        return race_terminal.ranking(part.verdict, part.rows, beside=False) if part.rows else None

    def _show(self, line: str) -> None:
        if self._live:
            self._live.update(glyphs.Harmless(self._picture()), refresh=True)
        elif line and not self._quiet:
            glyphs.emit(self._console, Text(line))

    def _picture(self) -> RenderableType:
        parts: list[RenderableType] = [Text(self._phase, style="bold")] if self._phase else []
        if self._brief:
            return Group(*parts)
        for name, text in self._contenders.items():
            if self._standings and name not in self._out:
                continue  # it has a row in the table
            mark, style = ("■", "magenta") if name in self._out else ("●", "blue")
            parts.append(Text.assemble((f"{mark} ", style), (name, "bold"), f" {_first_line(text)}"))
        if self._standings:
            parts.append(self._standings)
        return Group(*parts, *self._marks)


def time_left(race: Race, verdict: Verdict) -> str:
    """The longest time that the race can still take, and the likely time; "" before its first round."""
    if not race.rounds:
        return ""
    done = sum(not r.void for r in race.rounds)
    left = max(race.plan.planned_rounds * len(verdict.columns) - done, 0)
    fixed_s, left_s = left * race.spent_s / len(race.rounds), max(race.plan.budget_s - race.spent_s, 0.0)
    most_s = fixed_s if race.plan.rounds_fixed else left_s
    likely_s = None if race.plan.rounds_fixed else verdict.more_s
    if likely_s is not None and likely_s < most_s:
        return f"about {likely_s:.0f} s left, {most_s:.0f} s at most"
    return f"{most_s:.0f} s left at most"


def too_short(race: Race) -> str:
    """Said after each column's first round: that the budget pays for too few, and what would do; "" if it suffices."""
    if race.plan.rounds_fixed or not race.rounds:
        return ""
    turn_s = race.spent_s / len(race.rounds) * len(race.columns)
    pays_for = int(race.plan.budget_s / max(turn_s, 1e-9))
    if pays_for >= FLOOR:
        return ""
    told = f"the budget of {race.plan.budget_s:.0f} s pays for about {figures.rounds(max(pays_for, 1))} like the first"
    before = f"nothing is decided before the {EARLY}th, and " if pays_for < EARLY else ""
    small = f"differences below {figures.percent(LEAST_APART)} need {FLOOR}"
    return f"{told}; {before}{small} (--budget {figures.as_budget(FLOOR * turn_s)})"


def failures(verdict: Verdict) -> list[RenderableType]:
    """Requests that failed, by contender and kind; nothing if none did."""
    failed = [
        (name, estimate.errors)
        for column in verdict.columns
        for name, estimate in column.estimates.items()
        if any(estimate.errors.values())
    ]
    return [
        Text.assemble(("▲ errors ", "yellow"), (name, "bold"), f": {figures.errors(kinds)}") for name, kinds in failed
    ]


def check_marks(race: Race) -> list[RenderableType]:
    """The validity checks so far: one mark each, and the sentence of those that warn or void."""
    # Here and not above: a plain or quiet race never asks for it between its rounds.
    checks = inspect(race)
    row = Text()
    for check in checks:
        row.append(f"{glyphs.STATUS_MARK[check.status]} ", glyphs.STATUS_STYLE[check.status])
        row.append(f"{check.label}  ", "dim" if check.status is Status.PASS else "bold")
    # Too few rounds are expected while a race runs.
    troubled = [check for check in checks if check.status is not Status.PASS and check.name is not CheckName.ROUNDS]
    sentences = [
        Text.assemble((f"{check.status} ", glyphs.STATUS_STYLE[check.status]), _first_line(check.detail))
        for check in troubled[:MAX_TROUBLES]
    ]
    return [row, *sentences]


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text.strip() else figures.NONE
