"""The columns of a race before its first round: who enters which, proved and calibrated for its workload and rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dragstrip.contender import Missing, Ready
from dragstrip.racing import schedule
from dragstrip.racing.plan import plans_of
from dragstrip.racing.progress import ColumnProgress, Progress
from dragstrip.racing.qualification import Qualification, qualify_all
from dragstrip.racing.qualification_store import QualificationStore
from dragstrip.racing.request import Request
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedColumn:
    """One column as it enters the race.

    Args:
        setup: for its workload and rate.
        absent: contenders that don't have the workload.
    """

    setup: RaceSetup
    qualification: Qualification
    absent: tuple[str, ...]

    @property
    def workload(self) -> str:
        """The workload's name."""
        return self.setup.workload.name


def prepare_columns(
    request: Request,
    setup: RaceSetup,
    states: Mapping[str, Ready | Missing],
    progress: Progress,
    kept: Mapping[str, QualificationStore | None],
) -> list[PreparedColumn]:
    """Proves and calibrates every contender for each workload that it has; a column for each workload and rate.

    Args:
        states: by name, what ``contender.check`` said. kept: by workload, of the qualifications that may be reused.
    """
    found = []
    for workload in request.workloads:
        at = setup.for_workload(workload, 0.0)
        entries = [entry for entry in request.entries if entry.serves(workload.served_as)]
        absent = tuple(entry.name for entry in request.entries if not entry.serves(workload.served_as))
        told = progress
        if request.also:
            told = ColumnProgress(progress, workload.name)
            progress.phase(f"workload {workload.name}")
        for name in absent:
            told.out(name, "it doesn't have this workload, and races without it")
        qualification = qualify_all(at, entries, states, told, kept[workload.name], request.site)
        found += [
            PreparedColumn(setup=setup.for_workload(workload, rate_per_s), qualification=qualification, absent=absent)
            for rate_per_s in _rates(request, workload.name, qualification)
        ]
    return found


def _rates(request: Request, workload: str, qualification: Qualification) -> Iterator[float]:
    """The rates of a workload's columns; 0 for a closed loop."""
    capacity_per_s = {name: one.calibration.capacity_per_s for name, one in qualification.ready.items()}
    if workload in request.offered:
        yield from request.offered[workload]
    elif request.efficiency:
        yield from schedule.efficiency_rates(capacity_per_s)
    else:
        yield schedule.rate(request.rate_per_s, capacity_per_s)


def columns_of(request: Request, entered: Sequence[PreparedColumn]) -> tuple[Column, ...]:
    """The columns of the record."""
    plans = plans_of(request, [(one.qualification, one.setup.load) for one in entered])
    return tuple(
        Column(
            name=_name(one, entered),
            workload=one.workload,
            load=one.setup.load,
            plan=plan,
            entrants=one.qualification.entrants(),
            absent=one.absent,
            waits=one.setup.workload.waits,
        )
        for one, plan in zip(entered, plans, strict=True)
    )


def _name(one: PreparedColumn, entered: Sequence[PreparedColumn]) -> str:
    """Its workload, its rate, or both: whatever tells it from the others."""
    rate = f"{one.setup.load.rate_per_s:,g}/s"
    several = sum(other.workload == one.workload for other in entered) > 1
    if not several:
        return one.workload
    return rate if len({other.workload for other in entered}) == 1 else f"{one.workload}, {rate}"
