"""A recorded race as a request to race again, here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields

from dragstrip import contender
from dragstrip.machine import show_cores
from dragstrip.racing.request import Request
from dragstrip.record import Load, Race
from dragstrip.workload import Workload
from dragstrip.workload import load as load_workload


def request_of(race: Race, workloads: Sequence[Workload] = ()) -> Request:
    """The same contenders, plan, load and seed; cores where this machine has them, else its own choice.

    Those that were out before the first round are tried again; one that is missing here is left out and named.

    Args:
        workloads: needed where one of the race's own was a file.

    Raises:
        BadUsage: a definition, or the workload, is no longer there.
    """
    plan, own = race.plan, {field.name for field in fields(Request)}
    # Whatever describes the load is asked for again by its own name, what a later version adds too.
    load = {field.name: getattr(race.load, field.name) for field in fields(Load) if field.name in own}
    engine_cores = _here(race.engine_cores)
    load["threads"] = race.load.threads if engine_cores else None
    load["rate_per_s"] = next((column.load.rate_per_s for column in race.columns if column.load.rate_per_s), None)
    first, *also = workloads or map(load_workload, dict.fromkeys(column.workload for column in race.columns))
    rates: dict[str, tuple[float, ...]] = {}
    for column in race.columns:
        rates[column.workload] = (*rates.get(column.workload, ()), column.load.rate_per_s)
    return Request(
        entries=tuple(contender.entry_of(entrant.name, entrant.kind, entrant.parameters) for entrant in race.entrants),
        workload=first,
        also=tuple(also),
        offered=rates,
        **load,
        timeout_s=race.load.timeout_ns / 1e9,
        budget_s=plan.budget_s,
        margin=plan.margin,
        metric=plan.metric,
        alpha=plan.alpha,
        seed=race.seed,
        rounds=plan.planned_rounds if plan.rounds_fixed else None,
        server_cores=_here(race.server_cores),
        engine_cores=engine_cores,
        io=race.backend,
        explicit=False,
    )


def _here(cores: Sequence[int]) -> str | None:
    """A core list for this machine; None if it has not all of them."""
    return show_cores(cores) if cores and set(cores) <= os.sched_getaffinity(0) else None
