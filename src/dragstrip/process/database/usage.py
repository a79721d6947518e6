"""What each contender made of the database: counts that only grow, and their difference over a stretch of load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One contender's use of the database up to a moment.

    Args:
        statements: executions of statements that name the table.
        exec_ns: time within their execution, waits for a lock, a sleep or a core included.
        cpu_ns: CPU time of its backends, by process.
    """

    statements: int = 0
    exec_ns: int = 0
    cpu_ns: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a contender made of the database over a stretch.

    Args:
        cpu_ns: of its backends; None where one of them ended meanwhile and took its count with it.
        connections: how many it had at the end.
    """

    statements: int
    exec_ns: int
    cpu_ns: int | None
    connections: int


def spent(before: Usage, after: Usage) -> Spent:
    """The difference of two moments."""
    ended = before.cpu_ns.keys() - after.cpu_ns.keys()
    cpu_ns = sum(now - before.cpu_ns.get(pid, 0) for pid, now in after.cpu_ns.items())
    return Spent(
        statements=after.statements - before.statements,
        exec_ns=after.exec_ns - before.exec_ns,
        cpu_ns=None if ended else cpu_ns,
        connections=len(after.cpu_ns),
    )
