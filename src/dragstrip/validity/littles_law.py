"""Little's law: every connection waits for a response or for the engine, so at any time the two add up to all of them.

Blocks in which they don't have a rate and latencies that contradict each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, TypeVar

from dragstrip.analysis.cpu_shares import engine_wait, lower_quartile, taken_by_others
from dragstrip.record import Block
from dragstrip.validity.check import Status

#: Little's law: warn above the first, void above the second, each beyond what a block's ends may hide.
LITTLE = (0.02, 0.10)

#: Little's law is judged by this many calm blocks at least (by all, if there are fewer), and by this many standard
#: errors: a pause that no counter shows makes a single block's sum too large by up to its lead-in, two fifths.
LITTLE_BLOCKS, LITTLE_ERRORS = 10, 4.0

#: A block had a pause if its longest latency or its drain exceeds the lower quartile over blocks by this factor.
PAUSED = 3.0

#: Others took less than this share of a calm block.
CALM = 0.02


class Waits(Protocol):
    """What Little's law needs of a block (``record.Block``)."""

    @property
    def requests(self) -> int: ...
    @property
    def lead_ns(self) -> int: ...
    @property
    def counted_ns(self) -> int: ...
    @property
    def duration_ns(self) -> int: ...
    @property
    def p99_ns(self) -> int: ...
    @property
    def max_ns(self) -> int: ...
    @property
    def latency_sum_ns(self) -> int: ...
    @property
    def turn_sum_ns(self) -> int: ...


_Waits = TypeVar("_Waits", bound=Waits)


def beyond(block: Block, at_once: int) -> bool:
    """Whether connections waited longer than there was time, however disturbed the machine was.

    A response of the counted part was requested in the lead-in at the earliest.
    """
    most_ns = at_once * (block.lead_ns + block.counted_ns) * (1 + LITTLE[0])
    return block.latency_sum_ns + block.turn_sum_ns > most_ns


def without_pauses(calm: Sequence[_Waits], used: Sequence[_Waits]) -> list[_Waits]:
    """The calm blocks without a pause that no counter shows, in comparison with all used blocks.

    A pause across the begin of the counted part shows in the longest latency, and across its end in the drain. Only
    ratios between blocks count, so latencies that are all wrong by one factor exclude no block.
    """
    seen = [block for block in used if block.requests]
    if not seen:
        return []

    def drain_ns(block: Waits) -> int:
        return block.duration_ns - block.lead_ns - block.counted_ns

    most_ns = PAUSED * lower_quartile([block.max_ns for block in seen])
    longest_ns = PAUSED * lower_quartile([drain_ns(block) for block in seen])
    whole = (block for block in calm if block.requests)  # in a block without a response the pause never ended
    return [block for block in whole if block.max_ns <= most_ns and drain_ns(block) <= longest_ns]


def little_level(calm: Sequence[Waits], used: int, at_once: int) -> tuple[Status, float, float] | None:
    """What Little's law says of a contender's calm blocks, of this many blocks; None if the law can't judge them.

    Returns: the status, connections at work on average, and by which share that is off.
    """
    law = _at_work(calm, at_once)
    if law is None or len(calm) < min(LITTLE_BLOCKS, used):
        return None
    busy, off, error = law
    if LITTLE[0] < off <= LITTLE_ERRORS * error:
        return None
    excess = off - _hidden_by_ends(calm)
    status = Status.VOID if excess > LITTLE[1] else Status.WARN if excess > LITTLE[0] else Status.PASS
    return status, busy, off


def _hidden_by_ends(blocks: Sequence[Waits]) -> float:
    """The share of a block that half of a slow response (99th percentile) is: its sum may be off by that at its ends.

    The counted part ends in the middle of a response, on average. All connections begin a block together. A server
    that lets some wait long (threads that share a lock) answers those after the counted part, block after block, so the
    ends of many blocks do not cancel out.
    """
    counted_ns = sum(block.counted_ns for block in blocks) / len(blocks)
    return 0.5 * lower_quartile([block.p99_ns for block in blocks]) / counted_ns


def _at_work(blocks: Sequence[Waits], at_once: int) -> tuple[float, float, float] | None:
    """Connections at work on average, how far that is off as a share, and the standard error of this share.

    Each block's sum is inexact at its ends: it has the part of a response's wait from before the counted part, and
    lacks the wait at its end. So a pause that begins in the lead-in makes a block's sum too large by up to the lead-in.
    Over many blocks the two cancel out, and the scatter between blocks shows how well. None for fewer than two blocks.
    """
    if len(blocks) < 2:
        return None
    counted_ns = sum(block.counted_ns for block in blocks)
    if not counted_ns:
        return None
    busy = sum(block.latency_sum_ns + block.turn_sum_ns for block in blocks) / counted_ns
    apart = (block.latency_sum_ns + block.turn_sum_ns - busy * block.counted_ns for block in blocks)
    scatter = math.sqrt(sum(one * one for one in apart) * len(blocks) / (len(blocks) - 1))
    return busy, abs(busy / at_once - 1), scatter / counted_ns / at_once


def undisturbed(blocks: Sequence[Block], cores: int) -> list[Block]:
    """Blocks in which hardly anything was taken from the cores, and no time by the hypervisor."""
    return [
        block
        for block in blocks
        if engine_wait(block) + (taken_by_others(block, cores) or 0.0) < CALM and not block.steal_ns
    ]


def reconnected(blocks: Sequence[Block], busy: float, at_once: int) -> bool:
    """Whether fewer connections are at work because some ended: before the next one time may be neither."""
    answered, connects = sum(block.answered for block in blocks), sum(block.connects for block in blocks)
    return connects > 0.001 * answered and busy < at_once
