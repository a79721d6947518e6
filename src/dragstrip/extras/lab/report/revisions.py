"""Ratios of a lab over the revisions of its matrix, with the changes that a history finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragstrip.analysis.change_points import ChangePoint, changes
from dragstrip.analysis.history import Environment, HistoryPoint
from dragstrip.extras.lab.report.heat import JudgedLab, Ratio
from dragstrip.record import METHOD_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionStep:
    """A pair at one revision; change: the level changed between the revision before and this one."""

    revision: str
    race: str
    ratio: Ratio
    change: ChangePoint | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionSeries:
    """A pair at one workload, load and class, by revision in the matrix's order."""

    line_up: str
    workload: str
    load: str
    machine: str
    a: str
    b: str
    steps: tuple[RevisionStep, ...]


def series(cells: Sequence[JudgedLab]) -> list[RevisionSeries]:
    """Every pair that was raced at two revisions or more."""
    found: dict[tuple[str, str, str, str, str, str], list[tuple[JudgedLab, Ratio]]] = {}
    for judged in cells:
        cell = judged.cell
        for ratio in judged.ratios if cell.revision else ():
            key = (cell.line_up, cell.workload, cell.load, cell.machine, ratio.a, ratio.b)
            found.setdefault(key, []).append((judged, ratio))
    return [
        RevisionSeries(
            line_up=line_up, workload=workload, load=load, machine=machine, a=a, b=b,
            steps=_steps(raced, machine),
        )
        for (line_up, workload, load, machine, a, b), raced in found.items()
        if len(raced) > 1
    ]  # fmt: skip


def _steps(raced: Sequence[tuple[JudgedLab, Ratio]], machine: str) -> tuple[RevisionStep, ...]:
    # Strips of a class are alike, and load, method and version are part of the cells' names.
    alike = Environment(
        machine=(machine,), kernel="", method=METHOD_VERSION, connections=0, keepalive=True, http="", server_cores=0
    )
    points = [
        HistoryPoint(
            race=judged.stored.race if judged.stored else "",
            started=judged.digest.started if judged.digest else "",
            ratio=ratio.estimate,
            low=ratio.low,
            high=ratio.high,
            version="",
            commit=judged.cell.revision,
            environment=alike,
        )
        for judged, ratio in raced
    ]
    by_place = {change.place: change for change in changes(points)}
    return tuple(
        RevisionStep(revision=point.commit, race=point.race, ratio=ratio, change=by_place.get(place))
        for place, (point, (_, ratio)) in enumerate(zip(points, raced, strict=True))
    )
