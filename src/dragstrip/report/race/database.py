"""What a race's servers and their database took of the processor, as two numbers."""

from __future__ import annotations

from collections.abc import Sequence

from dragstrip.analysis import ColumnVerdict
from dragstrip.analysis.fitness import database_use
from dragstrip.quantities import as_percent
from dragstrip.record import Race
from dragstrip.report import figures
from dragstrip.store.json_values import JsonObject


def cpu_us_per_answer(race: Race) -> dict[str, float]:
    """CPU time of each contender's own database backends per response, in microseconds, if it is known."""
    used = database_use(race)
    return {name: use.cpu_ns / 1000 / use.answered for name, use in used.items() if use.cpu_ns and use.answered}


def as_json(race: Race, name: str) -> JsonObject:
    """A contender's use of the database, under one key; nothing if it used none."""
    use = database_use(race).get(name)
    if use is None:
        return {}
    content = {
        "statements": use.executed,
        "wanted_statements": use.wanted,
        "cpu_us_per_request": figures.finite(cpu_us_per_answer(race).get(name)),
        "busy": use.busy,
    }
    return {"database": content}


def text(race: Race, verdict: ColumnVerdict, names: Sequence[str]) -> str:
    """Which database it was, where it ran, and both numbers of each contender; "" without one."""
    facts, used = race.machine.database, database_use(race)
    if not facts or not used:
        return ""
    cores = ", ".join(map(str, facts.cores))
    where = f"on core {cores}{', shared with the servers' if facts.shared else ', not shared'}"
    busiest = max(use.busy for use in used.values())
    theirs, costs = cpu_us_per_answer(race), list[str]()
    for name in names:
        estimate = verdict.estimates.get(name)
        server = estimate.server_cpu_us_per_request if estimate else None
        if server is not None and name in theirs:
            costs.append(f"{name} {figures.microseconds(server.estimate)} + {figures.microseconds(theirs[name])}")
    both = f". CPU µs per request, server + its own database processes: {', '.join(costs)}" if costs else ""
    return f"{facts.title} {facts.version} {where}, at most {as_percent(busiest)} busy{both}."
