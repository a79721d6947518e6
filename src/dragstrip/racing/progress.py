"""Interfaces that show a race as it runs, and a display that shows nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dragstrip import analysis
from dragstrip.record import Race


class Progress(Protocol):
    """Shows a race as it runs; called between measurements only.

    ``phase`` shows the current step; with ``waiting`` it is called repeatedly while the step lasts. The other calls
    show what happens to the contender ``name``: it is built by ``command`` within ``limit_s`` seconds, scrutineered,
    ready (with the time ``proved_at`` of a proof that is reused), or out, with the reason. ``planned`` has the record
    before its first round.
    """

    def phase(self, text: str, *, waiting: bool = False) -> None: ...
    def building(self, name: str, command: Sequence[str], limit_s: float) -> None: ...
    def scrutineering(self, name: str) -> None: ...
    def ready(self, name: str, proved_at: str | None = None, note: str = "") -> None: ...
    def out(self, name: str, reason: str) -> None: ...
    def planned(self, race: Race) -> None: ...
    def round_done(self, race: Race, judged: analysis.Verdict) -> None: ...


class Silent:
    """A progress display that shows nothing."""

    def phase(self, *_: object, **__: object) -> None:
        """Shows nothing."""

    building = scrutineering = ready = out = planned = round_done = phase


class ColumnProgress:
    """A progress display of one column: a contender that is out there still races in other columns.

    Args:
        column: its name, or its workload's.
    """

    def __init__(self, progress: Progress, column: str) -> None:
        self._progress, self._column = progress, column
        self.phase, self.building, self.scrutineering = progress.phase, progress.building, progress.scrutineering
        self.ready, self.planned, self.round_done = progress.ready, progress.planned, progress.round_done

    def out(self, name: str, reason: str) -> None:
        """A contender is out of this column."""
        self._progress.out(name, f"at {self._column}: {reason}")
