"""What shows a race as it runs, and what shows nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dragstrip import analysis
from dragstrip.record import Race


class Progress(Protocol):
    """What shows a race as it runs; called between measurements only.

    ``phase`` says what is done now; ``waiting``: it is said again and again while something lasts. The others say how
    the contender ``name`` stands: built by ``command`` within ``limit_s`` seconds; scrutineered; ready, where proofs
    are reused by those of the time ``proved_at``; or out, with the reason.
    """

    def phase(self, text: str, *, waiting: bool = False) -> None: ...
    def building(self, name: str, command: Sequence[str], limit_s: float) -> None: ...
    def scrutineering(self, name: str) -> None: ...
    def ready(self, name: str, proved_at: str | None = None) -> None: ...
    def out(self, name: str, reason: str) -> None: ...
    def round_done(self, race: Race, judged: analysis.Verdict) -> None: ...


class Silent:
    """A progress display that shows nothing."""

    def phase(self, *_: object, **__: object) -> None:
        """Shows nothing."""

    building = scrutineering = ready = out = round_done = phase


class ColumnProgress:
    """A progress display of one column: who is out is out there, and races on elsewhere.

    Args:
        column: its name, or its workload's.
    """

    def __init__(self, progress: Progress, column: str) -> None:
        self._progress, self._column = progress, column
        self.phase, self.building, self.scrutineering = progress.phase, progress.building, progress.scrutineering
        self.ready, self.round_done = progress.ready, progress.round_done

    def out(self, name: str, reason: str) -> None:
        """A contender is out of this column."""
        self._progress.out(name, f"at {self._column}: {reason}")
