"""Prepares the columns of a race: checks and calibrates contenders for each workload and rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dragstrip.contender import Missing, Ready
from dragstrip.racing import options, schedule
from dragstrip.racing.progress import ColumnProgress, Progress
from dragstrip.racing.qualification import Qualification, qualify_all
from dragstrip.racing.qualification_store import QualificationStore
from dragstrip.racing.request import Request
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import Column, Load, Plan
from dragstrip.workload import Workload
from dragstrip.workload.recorded import recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedColumn:
    """One column as it enters the race.

    Args:
        setup: for its workload and rate.
        absent: contenders that don't support the workload.
    """

    setup: RaceSetup
    qualification: Qualification
    absent: tuple[str, ...]

    @property
    def workload(self) -> str:
        return self.setup.workload.name


def prepare_columns(
    request: Request,
    setup: RaceSetup,
    states: Mapping[str, Ready | Missing],
    progress: Progress,
    kept: Mapping[str, QualificationStore | None],
) -> list[PreparedColumn]:
    """Checks and calibrates every contender for each workload that it supports; a column for each workload and rate.

    Args:
        states: results of ``contender.check`` by name. kept: by workload, qualifications that may be reused.
    """
    columns, names = [], shown_names(request.workloads)
    for workload in request.workloads:
        closed = setup.for_workload(workload, 0.0)
        entries = [entry for entry in request.entries if entry.serves(workload.served_as)]
        absent = tuple(entry.name for entry in request.entries if not entry.serves(workload.served_as))
        shown = progress
        if request.also:
            shown = ColumnProgress(progress, names[workload.name])
            progress.phase(f"workload {names[workload.name]}")
        for name in absent:
            shown.out(name, "it doesn't support this workload, and races without it")
        qualification = qualify_all(closed, entries, states, shown, kept[workload.name], request.site)
        columns += [
            PreparedColumn(setup=setup.for_workload(workload, rate_per_s), qualification=qualification, absent=absent)
            for rate_per_s in _rates(request, workload.name, qualification)
        ]
    return columns


def _rates(request: Request, workload: str, qualification: Qualification) -> Iterator[float]:
    """The rates of a workload's columns; 0 for a closed loop."""
    capacity_per_s = {name: contender.calibration.capacity_per_s for name, contender in qualification.ready.items()}
    if workload in request.offered:
        yield from request.offered[workload]
    elif request.efficiency:
        yield from schedule.efficiency_rates(capacity_per_s)
    else:
        yield schedule.rate(request.rate_per_s, capacity_per_s)


def columns_of(request: Request, entered: Sequence[PreparedColumn]) -> tuple[Column, ...]:
    """The columns of the record."""
    definitions = {column.workload: recorded(column.setup.workload) for column in entered}
    names = shown_names(column.setup.workload for column in entered)
    plans = plans_of(request, [(column.qualification, column.setup.load) for column in entered])
    return tuple(
        Column(
            name=_name(column, entered, names[column.workload]),
            workload=column.workload,
            load=column.setup.load,
            plan=plan,
            entrants=column.qualification.entrants(),
            absent=column.absent,
            waits=column.setup.workload.waits,
            definition=definitions[column.workload],
        )
        for column, plan in zip(entered, plans, strict=True)
    )


def shown_names(workloads: Iterable[Workload]) -> dict[str, str]:
    """Workloads by their names, as a reader sees them: typed requests as typed, unless several have method and path."""
    shown = {workload.name: workload.shown for workload in workloads}
    alike = Counter(shown.values())
    return {name: text if alike[text] == 1 else name for name, text in shown.items()}


def _name(column: PreparedColumn, entered: Sequence[PreparedColumn], workload: str) -> str:
    """A column's workload, as a reader sees it, its rate, or both: whatever distinguishes it from the others."""
    rate = f"{column.setup.load.rate_per_s:,g}/s"
    several = sum(other.workload == column.workload for other in entered) > 1
    if not several:
        return workload
    return rate if len({other.workload for other in entered}) == 1 else f"{workload}, {rate}"


def plan_of(request: Request, qualification: Qualification, load: Load, *, columns: int = 1) -> Plan:
    """The plan from calibration: how long each contender's blocks are, and how many passes and rounds there are.

    Args:
        load: with the rate that is offered to all contenders in an open loop.
        columns: how many columns share the budget equally.
    """
    ready = qualification.ready
    factors = {name: contender.calibration.block_factor for name, contender in ready.items()}
    leads_ns = {name: contender.entry.lead_ns for name, contender in ready.items()}
    p50_ns = {name: contender.calibration.p50_ns for name, contender in ready.items()}
    launch_s = sum(contender.calibration.launch_s for contender in ready.values())
    lengths_ns = schedule.own_lengths(p50_ns, leads_ns, factors)
    if load.rate_per_s:
        # All blocks have the same length: a quantile is compared with a quantile of as many responses.
        longest = schedule.block_lengths(p50_ns, leads_ns.values())
        lead_ns, counted_ns = (max(factors.values(), default=1) * part for part in longest)
        counted_ns = schedule.long_enough(counted_ns, request.metric, load.rate_per_s)
        lengths_ns = dict.fromkeys(ready, (lead_ns, counted_ns))
    fewest = {name: (*length_ns, schedule.PASSES_FLOOR) for name, length_ns in lengths_ns.items()}
    budget_s = _budget_s(request, _round_s(qualification, fewest), columns)
    open_ended = request.rounds is None and request.last_round is None
    short = open_ended and schedule.far_apart(contender.calibration.capacity_per_s for contender in ready.values())
    passes = schedule.own_passes(lengths_ns, launch_s=launch_s, budget_s=budget_s, short=short)
    if load.rate_per_s:
        block_s = sum(next(iter(lengths_ns.values()), (0, 0))) / 1e9
        count = max(len(ready), 1)
        alike = schedule.passes(launch_s=launch_s, block_s=block_s, contenders=count, budget_s=budget_s)
        passes = dict.fromkeys(ready, alike)
    blocks = {name: (*length_ns, passes[name]) for name, length_ns in lengths_ns.items()}
    return Plan(
        lead_ns=max((lead for lead, _, _ in blocks.values()), default=schedule.LEAD_NS),
        counted_ns=max((counted for _, counted, _ in blocks.values()), default=schedule.block_lengths({})[1]),
        passes=max(passes.values(), default=schedule.PASSES),
        budget_s=budget_s,
        planned_rounds=request.rounds or schedule.planned_rounds(budget_s, _round_s(qualification, blocks)),
        metric=request.metric,
        margin=request.margin,
        alpha=request.alpha,
        rounds_fixed=request.rounds is not None,
        blocks={} if load.rate_per_s else blocks,
    )


def plans_of(request: Request, columns: Sequence[tuple[Qualification, Load]]) -> list[Plan]:
    """Each column's plan; all have the number of rounds that the race's budget pays for if every column runs them."""
    plans = [plan_of(request, qualification, load, columns=len(columns)) for qualification, load in columns]
    turn_s = sum(
        _round_s(qualification, _blocks(plan, qualification))
        for plan, (qualification, _) in zip(plans, columns, strict=True)
    )
    budget_s = sum(plan.budget_s for plan in plans) if request.budget_s is None else request.budget_s
    planned = request.rounds or request.last_round or schedule.planned_rounds(budget_s, turn_s)
    return [replace(plan, budget_s=budget_s, planned_rounds=planned) for plan in plans]


def _budget_s(request: Request, round_s: float, columns: int) -> float:
    """A column's share of the requested budget, or of the default; ``round_s``: its shortest round."""
    if request.budget_s is not None:
        return request.budget_s / columns
    if request.last_round is not None:
        return options.MAX_BUDGET_S / columns  # the last round ends the race, not the clock
    return schedule.USUAL_S / columns if request.rounds else schedule.usual_budget_s(round_s, columns)


def _blocks(plan: Plan, qualification: Qualification) -> Mapping[str, tuple[int, int, int]]:
    return plan.blocks or dict.fromkeys(qualification.ready, (plan.lead_ns, plan.counted_ns, plan.passes))


def _round_s(qualification: Qualification, blocks: Mapping[str, tuple[int, int, int]]) -> float:
    """Seconds to launch, warm up and load all contenders once."""
    return sum(contender.calibration.launch_s for contender in qualification.ready.values()) + schedule.loaded_s(blocks)
