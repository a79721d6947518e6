"""Reasons that void one block or one round, in words; the words before the colon are the reason's kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dragstrip.analysis.cpu_shares import engine_share, engine_wait, server_busy, taken_by_others, usual_taken
from dragstrip.analysis.fitness import ENGINE_FULL, SERVER_IDLE
from dragstrip.record import Block, Round

#: Run-queue wait above this share of a block: others were on that core.
MOST_WAIT = 0.15

#: Failed requests above this share; a wrong answer voids at once.
MOST_FAILED = 0.001
WRONG_KINDS = ("wrong_status", "wrong_length", "wrong_body")

#: A contender's round stands with this share of its blocks valid; a round in which fewer than two stand is run again.
ROUND_BLOCKS_LEFT = 1 / 3


def failures(block: Block) -> int:
    """Failed requests and failed connects, which are no requests yet."""
    return max(block.failed, sum(block.errors.values()))


def percent(share: float) -> str:
    """A share in words: two digits, with a space as the page writes it."""
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def block_reasons(
    block: Block,
    *,
    connections: int,
    server_cores: int,
    single_threaded: bool,
    typical_wait: float | None,
    shared_lanes: bool = False,
    by_cpu: bool = False,
    waits: bool = False,
) -> tuple[str, ...]:
    """Why this block must never be used; empty if it counts.

    In a race only what can't be true voids a block; what others took from the cores is measured, told and carried by
    the interval (from method version 5 on).

    Args:
        connections: of the load, the most that can be in flight.
        server_cores: how many cores the server may use.
        single_threaded: the server's tree has one thread, so that it can only ever wait for others.
        typical_wait: a server of several threads waits for itself; only what exceeds this, its own median of
            ``taken_by_others`` in this round, is evidence of others. None: unknown, its wait says nothing.
        shared_lanes: engine and server share cores and wait for each other: waits say nothing.
        by_cpu: CPU time per request may decide, which a generator at its limit does not change.
        waits: void a block in which others had the cores (of a sweep, whose quantiles carry no interval for that).
    """
    cores = 1 if single_threaded else server_cores
    usual = 0.0 if single_threaded else typical_wait
    waited = _waits(block, cores, usual) if waits and not shared_lanes else ()
    limit = () if by_cpu else _generator(block, cores)
    return (*_accounting(block, connections), *_answers(block, waits), *_clock(block), *waited, *limit)


def accounting_faults(block: Block, connections: int) -> tuple[str, ...]:
    """What does not add up in a block: an engine fault, whoever was loaded."""
    return tuple(_accounting(block, connections))


def _accounting(block: Block, connections: int) -> Iterable[str]:
    if block.sent != block.answered + block.failed + block.in_flight:
        yield (
            f"accounting: {block.sent} sent, but {block.answered} answered, {block.failed} failed "
            f"and {block.in_flight} in flight"
        )
    if not 0 <= block.in_flight <= connections:
        yield f"accounting: {block.in_flight} in flight on {connections} connections"
    if block.requests > block.answered:
        yield f"accounting: {block.requests} answers counted of {block.answered} answered"
    if block.failed > sum(block.errors.values()):
        yield f"accounting: {block.failed} failed, but {sum(block.errors.values())} errors by kind"
    # A block whose connections are all lost ends early, before anything is counted.
    if (block.counted_ns <= 0 and not block.gave_up) or block.counted_ns > block.duration_ns:
        yield f"accounting: {block.counted_ns} ns counted of a block of {block.duration_ns} ns"
    quantiles = (block.p50_ns, block.p90_ns, block.p99_ns, block.p999_ns, block.max_ns)
    if list(quantiles) != sorted(quantiles):
        yield f"accounting: latency quantiles p50, p90, p99, p99.9, max out of order: {quantiles} ns"


def _clock(block: Block) -> Iterable[str]:
    if block.clock_step_ns:
        yield f"clock: it was set by {block.clock_step_ns / 1000:.0f} µs under way, and arrivals are stamped by it"
    if block.early_stamps:
        yield f"clock: {block.early_stamps} answers were stamped before their requests had left"


def _answers(block: Block, empty: bool) -> Iterable[str]:
    wrong = {kind: block.errors[kind] for kind in WRONG_KINDS if block.errors.get(kind)}
    if wrong:
        yield f"wrong answers: {_kinds(wrong)}"
    elif failures(block) > MOST_FAILED * block.sent:
        yield f"errors: {failures(block)} to {block.sent} requests ({_kinds(block.errors)})"
    if block.gave_up:
        yield "gave up: every connection was lost for good before the block's end"
    elif empty and block.requests == 0:
        yield "no answer: not one right answer within the counted part"


def _kinds(errors: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(errors.items(), key=lambda item: -item[1]) if count)


def _waits(block: Block, cores: int, usual: float | None) -> Iterable[str]:
    if engine_wait(block) > MOST_WAIT:
        yield f"engine waited: {percent(engine_wait(block))} of the block for its core, taken by others"
    taken = taken_by_others(block, cores)
    if taken is not None and usual is not None and taken - usual > MOST_WAIT:
        beside = f" (usual for it in this round: {percent(usual)})" if usual else ""
        yield f"server waited: {percent(taken)} of the block for its core, taken by others{beside}"


def _generator(block: Block, cores: int) -> Iterable[str]:
    busy = server_busy(block, cores)
    if busy is not None and engine_share(block) >= ENGINE_FULL and busy < SERVER_IDLE:
        yield (
            f"generator the limit: the engine used {percent(engine_share(block))} of its cores, "
            f"the server {percent(busy)} of its own"
        )


def with_reasons(
    blocks: Sequence[Block],
    *,
    connections: int,
    server_cores: int,
    single_threaded: Mapping[str, bool],
    shared_lanes: bool = False,
    by_cpu: bool = False,
    waits: bool = False,
) -> tuple[Block, ...]:
    """A round's blocks with the reasons that void them filled in, in the same order.

    Args:
        blocks: of one round.
        single_threaded: by contender; one that is missing counts as having several threads.
        shared_lanes: engine and servers share cores. by_cpu, waits: as ``block_reasons``.
    """
    typical = usual_taken(blocks, server_cores)
    return tuple(
        replace(
            block,
            void=block_reasons(
                block,
                connections=connections,
                server_cores=server_cores,
                single_threaded=single_threaded.get(block.contender, False),
                typical_wait=typical.get(block.contender),
                shared_lanes=shared_lanes,
                by_cpu=by_cpu,
                waits=waits,
            ),
        )
        for block in blocks
    )


def wrong_under_load(blocks: Sequence[Block]) -> str:
    """Why a contender is out of the race by what it answered under load, in words; "" if it is not.

    One wrong answer is enough: what it serves is not the work that the others do. Failed requests are if they exceed
    0.1 % in all and come in more than half of its blocks (else those blocks are void and it goes on).

    Args:
        blocks: of one contender in one round.
    """
    errors: Counter[str] = Counter()
    for block in blocks:
        errors.update(block.errors)
    sent, failed = sum(block.sent for block in blocks), sum(failures(block) for block in blocks)
    sample = next((f"; the first: {block.sample}" for block in blocks if block.sample), "")
    wrong = {kind: errors[kind] for kind in WRONG_KINDS if errors[kind]}
    if wrong:
        return f"gave wrong answers under load ({_kinds(wrong)}, of {sent} requests){sample}"
    often = sum(failures(block) > 0 for block in blocks) > len(blocks) / 2
    if often and failed > MOST_FAILED * sent:
        return f"failed under load: {failed} errors to {sent} requests ({_kinds(errors)}){sample}"
    if blocks and not any(block.answered for block in blocks):
        return f"gave no right answer under load in any block{sample}"
    return ""


def round_reasons(record: Round) -> tuple[str, ...]:
    """Why a round as a whole is void and has to be run again: fewer than two contenders have enough valid blocks."""
    return tuple(_round_reasons(record))


def _round_reasons(record: Round) -> Iterable[str]:
    # A contender that died or answered wrong leaves the race; that does not make the others' round void.
    fallen = _fallen(record)
    blocks = [block for block in record.blocks if block.contender not in fallen]
    of = Counter(block.contender for block in blocks)
    left = Counter(block.contender for block in blocks if not block.void)
    standing = [name for name, count in of.items() if left[name] >= ROUND_BLOCKS_LEFT * count]
    if of and len(standing) < min(len(of), 2):
        kinds = Counter(why.split(":")[0] for block in blocks for why in block.void)
        told = f"{sum(left.values())} of {len(blocks)} are valid ({kinds.most_common(1)[0][0]})"
        yield f"too few blocks: {told}"


def _fallen(record: Round) -> set[str]:
    mine: dict[str, list[Block]] = {}
    for block in record.blocks:
        mine.setdefault(block.contender, []).append(block)
    died = {launch.contender for launch in record.launches if launch.died}
    return died | {
        name for name, blocks in mine.items() if all(block.gave_up for block in blocks) or wrong_under_load(blocks)
    }
