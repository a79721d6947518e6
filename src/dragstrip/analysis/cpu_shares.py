"""Which programs had the cores during a block, by its counters: shares of its time. Pure arithmetic on one record.

Shared by the judgement, which widens intervals by what the machine took unequally, and by the checks, which warn of
it (``docs/METHOD.md``, "The round's one number" and "What voids or warns").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import quantiles
from typing import Protocol

from dragstrip.record import Block


class Counters(Protocol):
    """What a stretch of load left behind: a block's record, or what the engine returns for one (``Block``)."""

    @property
    def duration_ns(self) -> int: ...
    @property
    def counted_ns(self) -> int: ...
    @property
    def requests(self) -> int: ...
    @property
    def answered(self) -> int: ...
    @property
    def server_cpu_ns(self) -> int | None: ...
    @property
    def server_wait_ns(self) -> int | None: ...
    @property
    def engine_wait_ns(self) -> int: ...
    @property
    def engine_threads(self) -> int: ...


def engine_share(block: Block) -> float:
    """How busy the engine's threads were, as a share of the counted part."""
    return block.engine_cpu_ns / max(block.counted_ns * block.engine_threads, 1)


def server_busy(block: Counters, cores: int) -> float | None:
    """How busy the server kept ``cores`` cores, as a share of the block; None if its CPU time is unreadable."""
    return None if block.server_cpu_ns is None else block.server_cpu_ns / max(block.duration_ns * cores, 1)


def engine_wait(block: Counters) -> float:
    """The engine threads' run-queue wait as a share of the block."""
    return block.engine_wait_ns / max(block.duration_ns * block.engine_threads, 1)


def server_wait(block: Counters) -> float | None:
    """The server threads' run-queue wait, summed, as a share of the block; None if unreadable."""
    return None if block.server_wait_ns is None else block.server_wait_ns / max(block.duration_ns, 1)


def taken_by_others(block: Counters, cores: int) -> float | None:
    """At most this share of the block others took from the server's cores; None if unreadable.

    Its threads' run-queue wait alone does not say so: they also wait for each other (a collector's helpers and the
    main thread), and dropping such blocks would drop a server's own pauses. While others run, the tree does not: so no
    more than the share of the time in which it did not.
    """
    waited, busy = server_wait(block), server_busy(block, cores)
    return None if waited is None or busy is None else max(min(waited, 1 - busy), 0.0)


def lower_quartile(shares: Sequence[float]) -> float:
    """The quieter blocks' share.

    Threads of one server wait for each other in every block; other programs come and go. So over a whole race what a
    server's quieter blocks show is its own, and what exceeds that is the machine's.
    """
    return quantiles(shares, n=4)[0] if len(shares) > 1 else shares[0]


def usual_waits(
    blocks: Iterable[Block], cores: int, usual: Callable[[Sequence[float]], float] = lower_quartile
) -> dict[str, float]:
    """Each contender's usual ``taken_by_others`` in these blocks, if it can be read.

    Args:
        usual: of a whole race the lower quartile, of one round the median.
    """
    shares: dict[str, list[float]] = {}
    for block in blocks:
        taken = taken_by_others(block, cores)
        if taken is not None:
            shares.setdefault(block.contender, []).append(taken)
    return {name: usual(values) for name, values in shares.items()}


def lost_to_machine(block: Block, *, cores: int, single_threaded: bool, usual: Mapping[str, float]) -> float:
    """The share of the block in which others had the engine's core, or the server's: 0 to 1.

    Args:
        cores: of the servers' lane; a server of one thread can only use one.
        single_threaded: it can only wait for others; of any other server only what exceeds its usual counts.
        usual: by contender, its ``usual_waits``.
    """
    taken = taken_by_others(block, 1 if single_threaded else cores) or 0.0
    own_wait = 0.0 if single_threaded else usual.get(block.contender, 0.0)
    return min(engine_wait(block) + max(taken - own_wait, 0.0), 1.0)


def speed_of(load: Counters) -> float:
    """Responses per nanosecond of the server's CPU time, or of the counted part if CPU time can't be read."""
    return load.answered / load.server_cpu_ns if load.server_cpu_ns else load.requests / max(load.counted_ns, 1)


def left_ns(load: Counters, cores: int) -> float:
    """Nanoseconds that others left to the server and the engine, by the kernel's run-queue waits."""
    return load.duration_ns * max(1 - engine_wait(load) - (taken_by_others(load, cores) or 0.0), 0.0)


#: Waits of a server's own threads overlap and add up; and while it waits for something other than its core, other
#: programs made less of its latency. So the share that they left is never taken for less than this.
MIN_LEFT = 0.25


def own_p50_ns(load: Counters, p50_ns: int, cores: int) -> int:
    """A median latency less what others made of it: a queue takes as much longer as its core is taken.

    A server that waits for something else has no such queue. So what others took counts in so far as the server itself
    was at work in the rest: blocks of a server that slept were a third too short while other programs ran.
    """
    left = left_ns(load, cores) / max(load.duration_ns, 1)
    busy = server_busy(load, cores)
    queued = 1.0 if busy is None or not left else min(busy / left, 1.0)
    return int(p50_ns * max(1 - (1 - left) * queued, MIN_LEFT))
