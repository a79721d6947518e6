"""A race's columns for whoever shows them one after another: each as a race, with its verdict and its checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragstrip.record import Race

if TYPE_CHECKING:
    from dragstrip.analysis import ColumnVerdict, Verdict
    from dragstrip.validity import Check


@dataclass(frozen=True, slots=True)
class Part:
    """One column of a race.

    Args:
        name: of the column.
        race: the column as a race of its own.
        absent: contenders that don't have its workload.
    """

    name: str
    race: Race
    verdict: ColumnVerdict
    checks: Sequence[Check]
    absent: tuple[str, ...]


def parts(race: Race, verdict: Verdict, checks: Sequence[Check]) -> list[Part]:
    """Every column in order."""
    from dragstrip.analysis import by_column

    return [
        Part(column.name, as_race, judged, [check for check in checks if check.column == column.name], column.absent)
        for column, as_race, judged in zip(race.columns, by_column(race), verdict.columns, strict=True)
    ]


def of_rates(race: Race) -> bool:
    """Whether some of its columns are one workload at several rates."""
    return len({column.workload for column in race.columns}) < len(race.columns)
