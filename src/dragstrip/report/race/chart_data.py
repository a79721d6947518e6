"""What charts and tables are drawn from: every block and its fate, each round's number, latency by percentile."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from dragstrip.analysis import RoundNumbers
from dragstrip.analysis.numbers import read
from dragstrip.record import Block, Race


class Fate(StrEnum):
    """What became of a block."""

    USED = "used"
    DROPPED = "dropped"  #: valid, but its round is void, or too few blocks of its contender's round are valid
    VOID = "void"


@dataclass(frozen=True, slots=True)
class BlockFate:
    """One block and its fate."""

    kind: Fate
    block: Block


def blocks(race: Race) -> Iterator[BlockFate]:
    """Every block in the order in which it ran."""
    tables = read(race)
    used = {
        (tables.rounds[row], int(pass_index), tables.names[column])
        for row, pass_index, column in zip(*tables.used.nonzero(), strict=True)
    }
    for round_ in race.rounds:
        for block in sorted(round_.blocks, key=lambda block: block.position):
            counts = (round_.index, block.pass_index, block.contender) in used
            yield BlockFate(Fate.VOID if block.void else Fate.USED if counts else Fate.DROPPED, block)


def value(block: Block, metric: str) -> float | None:
    """A block's own number: responses per second, or CPU microseconds per response; None if it has none."""
    if metric == "cpu":
        return block.server_cpu_ns / block.answered / 1000 if block.server_cpu_ns and block.answered else None
    return 1e9 * block.requests / block.counted_ns if block.counted_ns else None


def edges(values: Sequence[float]) -> tuple[float, float]:
    """The middle 98 % with room on both sides: one stalled block must not flatten all others."""
    if not values:
        return 0.0, 1.0
    first, last = (float(edge) for edge in np.quantile(values, (0.01, 0.99)))
    room = max(0.35 * (last - first), 0.01 * last, 1e-9)
    return max(first - room, 0.0), last + room


def levels(race: Race, numbers: RoundNumbers, name: str) -> list[tuple[float, float, float]]:
    """A contender's rounds that count: begin and end in seconds of the race, and the number that decides."""
    if name not in numbers.names or not race.rounds:
        return []
    column, start_ns = numbers.names.index(name), race.rounds[0].started_ns
    by_index = {round_.index: round_ for round_ in race.rounds}
    spans = []
    for row, index in enumerate(numbers.rounds):
        number = float(numbers.totals[row, column])
        starts_ns = [block.started_ns for block in by_index[index].blocks if block.contender == name]
        if math.isfinite(number) and starts_ns:
            spans.append(((min(starts_ns) - start_ns) / 1e9, (max(starts_ns) - start_ns) / 1e9, number))
    return spans
