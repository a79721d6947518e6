"""The race at a glance: its badge, and its sentence or two, of one workload or of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragstrip.record import Race
from dragstrip.report.race import badge as of_one
from dragstrip.report.race import columns, summary
from dragstrip.report.race.badge import Badge

if TYPE_CHECKING:
    from dragstrip.analysis import Verdict
    from dragstrip.validity import Check


def badge(race: Race, verdict: Verdict, checks: Sequence[Check]) -> Badge:
    """The race's badge."""
    return columns.badge(race, verdict, checks) if race.columns else of_one.badge(race, verdict, checks)


def headline(race: Race, verdict: Verdict, checks: Sequence[Check]) -> str:
    """The race in a sentence or two."""
    return columns.headline(race, verdict, checks) if race.columns else summary.headline(race, verdict, checks)
