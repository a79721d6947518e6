"""What shows a race as it runs, and what shows nothing."""

from __future__ import annotations

from typing import Protocol

from dragstrip import analysis
from dragstrip.record import Race


class Progress(Protocol):
    """What shows a race as it runs; called between measurements only."""

    def phase(self, text: str) -> None: ...
    def entrant(self, name: str, status: str) -> None: ...
    def round_done(self, race: Race, judged: analysis.Verdict) -> None: ...


class Silent:
    """A progress display that shows nothing."""

    def phase(self, text: str) -> None:
        """Nothing."""

    def entrant(self, name: str, status: str) -> None:
        """Nothing."""

    def round_done(self, race: Race, judged: analysis.Verdict) -> None:
        """Nothing."""
