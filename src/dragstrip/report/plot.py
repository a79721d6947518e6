"""Geometry of the page's drawings: numbers in, coordinates out; the template writes the SVG."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dragstrip.record import Block, Race
from dragstrip.report import words
from dragstrip.report.rows import Row

if TYPE_CHECKING:
    from dragstrip.verdict import RoundNumbers, Verdict

#: A strip's own units; the browser stretches them to the page.
WIDTH, HEIGHT = 1000.0, 100.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One contender's estimate on the common scale, in per cent of the width; bounds are None where there are none."""

    at: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Strip:
    """Every block of one contender over time, as SVG paths in ``WIDTH`` x ``HEIGHT``.

    Args:
        used, dropped, void: one stroke per block: counted; not used because of its pass or round; void itself.
        rounds: a level stroke per round at the number that decides.
        low, high: what the strip's lower and upper edge stand for.
        beyond: how many blocks lie outside and are drawn on the edge.
    """

    name: str
    used: str
    dropped: str
    void: str
    rounds: str
    low: str
    high: str
    beyond: int
    counts: tuple[int, int, int]


def full(found: Sequence[Row]) -> float:
    """The value at the right edge: a little above the largest bound."""
    return 1.02 * max((words.finite(row.main.high) or row.main.estimate for row in found), default=1.0)


def bars(found: Sequence[Row]) -> list[Bar]:
    """One bar per row."""
    scale = 100 / full(found)

    def part(value: float | None) -> float | None:
        known = words.finite(value)
        return None if known is None else round(min(max(known * scale, 0), 100), 3)

    return [Bar(part(row.main.estimate) or 0.0, part(row.main.low), part(row.main.high)) for row in found]


def axis(found: Sequence[Row]) -> list[tuple[float, str]]:
    """Round numbers along the scale: place in per cent, and text."""
    most = full(found)
    step = 10 ** math.floor(math.log10(most / 3))
    step *= max(times for times in (1, 2, 5) if times * step <= most / 3)
    return [(round(100 * k * step / most, 3), _short(k * step)) for k in range(int(most / step) + 1)]


def _short(value: float) -> str:
    """20k, not 20.0k: these are round numbers."""
    return re.sub(r"\.0+(?=\D*$)|(?<=\.\d)0(?=\D*$)", "", words.brief(value))


def strips(race: Race, verdict: Verdict, found: Sequence[Row]) -> list[Strip]:
    """One strip per row, all over the same time."""
    if not race.rounds or not found:
        return []
    from dragstrip.verdict import round_numbers

    numbers = round_numbers(race, verdict.metric)
    start_ns, end_ns = race.rounds[0].started_ns, max(race.rounds[-1].ended_ns, race.rounds[0].started_ns + 1)
    return [_strip(race, row.name, verdict.metric, numbers, (start_ns, end_ns)) for row in found]


def _value(block: Block, metric: str) -> float | None:
    if metric == "cpu":
        return block.server_cpu_ns / block.answered / 1000 if block.server_cpu_ns and block.answered else None
    return 1e9 * block.requests / block.counted_ns if block.counted_ns else None


def _kinds(race: Race, name: str) -> list[tuple[str, Block]]:
    """This contender's blocks, each as used, dropped (with its pass or round) or void."""
    found = []
    for round_ in race.rounds:
        bad = {block.pass_index for block in round_.blocks if block.void}
        for block in round_.blocks:
            if block.contender == name:
                dropped = bool(round_.void) or block.pass_index in bad
                found.append(("void" if block.void else "dropped" if dropped else "used", block))
    return found


def _strip(race: Race, name: str, metric: str, numbers: RoundNumbers, time_ns: tuple[int, int]) -> Strip:
    valued = [(kind, block, _value(block, metric)) for kind, block in _kinds(race, name)]
    points = [(kind, block, value) for kind, block, value in valued if value is not None]
    low, high = _edges([value for kind, _, value in points if kind == "used"] or [value for *_, value in points])
    start_ns, end_ns = time_ns

    def x(at_ns: float) -> float:
        return round((at_ns - start_ns) / (end_ns - start_ns) * WIDTH, 1)

    def y(value: float) -> float:
        return round(HEIGHT * (1 - (min(max(value, low), high) - low) / (high - low)), 1)

    drawn: dict[str, list[str]] = {"used": [], "dropped": [], "void": []}
    for kind, block, value in points:
        # A point is a stroke of no length with round ends; a void block is a tick, told apart without colour.
        tail = "v8" if kind == "void" else "h.01"
        drawn[kind].append(f"M{x(block.started_ns):g} {max(y(value) - 4, 0) if kind == 'void' else y(value):g}{tail}")
    column = numbers.names.index(name) if name in numbers.names else None
    levels = []
    by_index = {round_.index: round_ for round_ in race.rounds}
    for row, index in enumerate(numbers.rounds if column is not None else ()):
        value = float(numbers.totals[row, column])
        mine = [block.started_ns for block in by_index[index].blocks if block.contender == name]
        if math.isfinite(value) and mine:
            levels.append(f"M{x(min(mine)):g} {y(value):g}H{x(max(mine)):g}")
    return Strip(
        name=name,
        used="".join(drawn["used"]),
        dropped="".join(drawn["dropped"]),
        void="".join(drawn["void"]),
        rounds="".join(levels),
        low=words.brief(low),
        high=words.brief(high),
        beyond=sum(not low <= value <= high for *_, value in points),
        counts=(len(drawn["used"]), len(drawn["dropped"]), len(drawn["void"])),
    )


def _edges(values: Sequence[float]) -> tuple[float, float]:
    """The middle 98 % with room on both sides: one stalled block must not flatten all others."""
    if not values:
        return 0.0, 1.0
    first, last = (float(edge) for edge in np.quantile(values, (0.01, 0.99)))
    room = max(0.35 * (last - first), 0.01 * last, 1e-9)
    return max(first - room, 0.0), last + room
