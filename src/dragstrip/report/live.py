"""A race as it runs: redrawn between measurements only, by the caller's own thread.

rich's refresh thread would take CPU time in the middle of a block, so it is never started.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from dragstrip.record import Race
from dragstrip.report import marks, rows, terminal, words

if TYPE_CHECKING:
    from dragstrip.verdict import Verdict


class Progress:
    """Shows phases, contenders and, after each round, the standings; a context manager.

    On a terminal it redraws in place and leaves nothing behind; elsewhere it writes plain lines, few of
    them; ``quiet`` writes nothing at all.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console, self._quiet = console, quiet
        self._began_s = time.monotonic()
        self._phase, self._status = "", dict[str, str]()
        self._standings: RenderableType | None = None
        self._decided = -1
        drawn = console.is_terminal and not console.options.ascii_only and not quiet
        self._live = Live(console=console, auto_refresh=False, transient=True) if drawn else None

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

    def phase(self, text: str) -> None:
        """What the race is doing now."""
        self._phase = text
        self._show(text)

    def entrant(self, name: str, status: str) -> None:
        """How a contender stands: being scrutineered, ready, out and why."""
        self._status[name] = status
        # One line each suffices where lines stay: how scrutineering ended, not that it began.
        self._show(f"{name}: {status}" if status != "scrutineering" else "")

    def round_done(self, race: Race, verdict: Verdict) -> None:
        """The standings after a round."""
        done, pairs = len(race.rounds), len(verdict.pairs)
        decided = sum(pair.decided for pair in verdict.pairs)
        spent_s = time.monotonic() - self._began_s
        self._phase = (
            f"round {done} of at most {race.plan.planned_rounds}, {spent_s:.0f} s, {decided} of {pairs} pairs decided"
        )
        found = rows.ranked(race, verdict, with_latency=False) if self._live else []
        self._standings = terminal.ranking(verdict, found, beside=False) if found else None
        # Plain lines: often at first, then now and then, and whenever something was decided.
        telling = done in (1, 2, 5) or done % 10 == 0 or decided != self._decided
        self._decided = decided
        self._show(self._phase if telling else "")

    def _show(self, line: str) -> None:
        if self._live:
            self._live.update(marks.Harmless(self._picture()), refresh=True)
        elif line and not self._quiet:
            marks.emit(self._console, Text(line))

    def _picture(self) -> RenderableType:
        parts: list[RenderableType] = [Text(self._phase, style="bold")] if self._phase else []
        running = {name: status for name, status in self._status.items() if status.startswith("out")}
        for name, status in (running if self._standings else self._status).items():
            mark, style = ("■", "magenta") if status.startswith("out") else ("●", "blue")
            parts.append(Text.assemble((f"{mark} ", style), (name, "bold"), f" {_first_line(status)}"))
        if self._standings:
            parts.append(self._standings)
        return Group(*parts)


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text.strip() else words.NONE
