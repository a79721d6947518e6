"""Reasons that void one block or one round, as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from statistics import median

from dragstrip.analysis.cpu_shares import engine_share, engine_wait, server_busy, taken_by_others, usual_waits
from dragstrip.analysis.fitness import ENGINE_FULL, SERVER_IDLE
from dragstrip.record import Block, Round, Void, VoidKind
from dragstrip.validity.check import Status
from dragstrip.validity.littles_law import beyond, little_level, reconnected, undisturbed, without_pauses

#: Run-queue wait above this share of a block: others were on that core.
MAX_WAIT = 0.15

#: Failed requests above this share; one incorrect response voids.
MAX_FAILED = 0.001
WRONG_KINDS = ("wrong_status", "wrong_head", "wrong_length", "wrong_body", "too_early", "request_cut")

#: A contender's round counts if this share of its blocks is valid; a round in which fewer than two count is run again.
ROUND_BLOCKS_LEFT = 1 / 3

#: Fewer blocks of a round than this are too few to find a contradiction between rate and latencies in them.
LAW_BLOCKS = 6


class LoadFaultKind(StrEnum):
    """Why a contender is taken out of the race under load."""

    WRONG_ANSWERS = "wrong answers"
    FAILED = "failed"
    NO_ANSWER = "no answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFault:
    """Responses under load, or their lack, for which a contender is taken out of the race.

    Args:
        sent, failed: requests, in all its blocks of a round.
        errors: failures by kind; if responses were incorrect, only these kinds.
        sample: the first one's excerpt, "" if there is none.
    """

    kind: LoadFaultKind
    sent: int
    failed: int
    errors: Mapping[str, int] = field(default_factory=dict)
    sample: str = ""


def failures(block: Block) -> int:
    """Failed requests, and failed connects, which are not requests yet."""
    return max(block.failed, sum(block.errors.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRules:
    """What the blocks of a race or sweep are judged by.

    Args:
        connections: of the load, multiplied by the pipelining depth: the most requests that can be in flight.
        server_cores: how many cores the servers may use.
        shared_lanes: engine and servers share cores and wait for each other: waits say nothing.
        by_cpu: CPU time per request may decide, which a generator at its limit does not change.
        waits: void a block in which others had the cores (of a sweep, whose quantiles carry no interval for that).
        law: Little's law holds for its load, and a contender's blocks of a round that contradict it are void.
        observed: the server's CPU time is read on another machine: a block without it lost a mark.
    """

    connections: int
    server_cores: int
    shared_lanes: bool = False
    by_cpu: bool = False
    waits: bool = False
    observed: bool = False
    law: bool = False


def block_reasons(
    block: Block, rules: BlockRules, *, single_threaded: bool, typical_wait: float | None
) -> tuple[Void, ...]:
    """Why this block must never be used; empty if it counts.

    In a race only what can't be true voids a block; what others took from the cores is measured, shown and included in
    the interval.

    Args:
        single_threaded: the server's tree has one thread, so that it can only ever wait for others.
        typical_wait: a server of several threads waits for itself; only what exceeds this, its own median of
            ``taken_by_others`` in this round, is evidence of others. None: unknown, so its wait is not evidence.
    """
    cores = 1 if single_threaded else rules.server_cores
    usual = 0.0 if single_threaded else typical_wait
    waited = _waits(block, cores, usual) if rules.waits and not rules.shared_lanes else ()
    limit = () if rules.by_cpu else _generator(block, cores)
    waited = (*waited, *(_beyond(block, rules.connections) if rules.law else ()))
    mark = (_void(VoidKind.MARK_LOST),) if rules.observed and block.server_cpu_ns is None else ()
    answers = _answers(block, rules.waits)
    return (*_accounting(block, rules.connections), *answers, *_clock(block), *waited, *limit, *mark)


def accounting_faults(block: Block, connections: int) -> tuple[Void, ...]:
    """What does not add up in a block: an engine fault, whichever server was loaded."""
    return tuple(_accounting(block, connections))


def _accounting(block: Block, connections: int) -> Iterator[Void]:
    by_kind = sum(block.errors.values())
    if block.sent != block.answered + block.failed + block.in_flight:
        yield _void(
            VoidKind.ACCOUNTING,
            sent=block.sent,
            answered=block.answered,
            failed=block.failed,
            in_flight=block.in_flight,
        )
    if not 0 <= block.in_flight <= connections:
        yield _void(VoidKind.ACCOUNTING, in_flight=block.in_flight, connections=connections)
    if block.requests > block.answered:
        yield _void(VoidKind.ACCOUNTING, requests=block.requests, answered=block.answered)
    if block.failed > by_kind:
        yield _void(VoidKind.ACCOUNTING, failed=block.failed, errors=by_kind)
    # A block whose connections are all lost ends early, before anything is counted.
    if (block.counted_ns <= 0 and not block.gave_up) or block.counted_ns > block.duration_ns:
        yield _void(VoidKind.ACCOUNTING, counted_ns=block.counted_ns, duration_ns=block.duration_ns)
    quantiles = (block.p50_ns, block.p90_ns, block.p99_ns, block.p999_ns, block.max_ns)
    if list(quantiles) != sorted(quantiles):
        names = ("p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")
        yield _void(VoidKind.ACCOUNTING, **dict(zip(names, quantiles, strict=True)))


def _void(kind: VoidKind, **numbers: float) -> Void:
    return Void(kind=kind, numbers=numbers)


def _clock(block: Block) -> Iterator[Void]:
    if block.clock_step_ns:
        yield _void(VoidKind.CLOCK, step_ns=block.clock_step_ns)
    if block.early_stamps:
        yield _void(VoidKind.CLOCK, early_stamps=block.early_stamps)


def _answers(block: Block, empty: bool) -> Iterator[Void]:
    wrong = {kind: block.errors[kind] for kind in WRONG_KINDS if block.errors.get(kind)}
    if wrong:
        yield Void(kind=VoidKind.WRONG_ANSWERS, errors=wrong)
    elif failures(block) > MAX_FAILED * block.sent:
        counts = {"failed": failures(block), "sent": block.sent}
        yield Void(kind=VoidKind.ERRORS, numbers=counts, errors=dict(block.errors))
    if block.gave_up:
        yield _void(VoidKind.GAVE_UP)
    elif empty and block.requests == 0:
        yield _void(VoidKind.NO_ANSWER)


def _waits(block: Block, cores: int, usual: float | None) -> Iterator[Void]:
    if engine_wait(block) > MAX_WAIT:
        yield _void(VoidKind.ENGINE_WAITED, share=engine_wait(block))
    taken = taken_by_others(block, cores)
    if taken is not None and usual is not None and taken - usual > MAX_WAIT:
        yield _void(VoidKind.SERVER_WAITED, share=taken, usual=usual)


def _beyond(block: Block, connections: int) -> Iterator[Void]:
    if beyond(block, connections):
        waited_ns = block.latency_sum_ns + block.turn_sum_ns
        lasted_ns = block.lead_ns + block.counted_ns
        yield _void(VoidKind.ACCOUNTING, waited_ns=waited_ns, lasted_ns=lasted_ns, connections=connections)


def _generator(block: Block, cores: int) -> Iterator[Void]:
    busy = server_busy(block, cores)
    if busy is not None and engine_share(block) >= ENGINE_FULL and busy < SERVER_IDLE:
        yield _void(VoidKind.GENERATOR, engine_share=engine_share(block), server_share=busy)


def with_reasons(blocks: Sequence[Block], rules: BlockRules, single_threaded: Mapping[str, bool]) -> tuple[Block, ...]:
    """A round's blocks with the reasons that void them filled in, in the same order.

    Args:
        single_threaded: by contender; a missing contender counts as having several threads.
    """
    typical = usual_waits(blocks, rules.server_cores, median)
    readable = {block.contender for block in blocks if block.server_cpu_ns is not None}
    unread = replace(rules, observed=False)
    judged = [
        replace(
            block,
            void=block_reasons(
                block,
                rules if block.contender in readable else unread,
                single_threaded=single_threaded.get(block.contender, False),
                typical_wait=typical.get(block.contender),
            ),
        )
        for block in blocks
    ]
    if not rules.law:
        return tuple(judged)
    against = {
        name: _against_law([block for block in judged if block.contender == name and not block.void], rules, alone)
        for name, alone in ((name, single_threaded.get(name, False)) for name in {b.contender for b in blocks})
    }
    return tuple(replace(block, void=block.void or against[block.contender]) for block in judged)


def _against_law(used: Sequence[Block], rules: BlockRules, single_threaded: bool) -> tuple[Void, ...]:
    """Why one contender's blocks of a round are void, whose rate and latencies contradict each other."""
    at_once, cores = rules.connections, 1 if single_threaded else rules.server_cores
    calm = without_pauses(undisturbed(used, cores), used)
    law = little_level(calm, len(used), at_once) if len(used) >= LAW_BLOCKS else None
    if law is None or law[0] is not Status.VOID or reconnected(calm, law[1], at_once):
        return ()
    return (_void(VoidKind.ACCOUNTING, at_work=law[1], connections=at_once),)


def wrong_under_load(blocks: Sequence[Block]) -> LoadFault | None:
    """Why a contender is out of the race because of its responses under load; None if it is not.

    One incorrect response is enough: then it does not do the same work as the others. Failed requests are enough if
    they exceed 0.1 % in all and occur in more than half of its blocks (otherwise those blocks are void and it
    continues).

    Args:
        blocks: of one contender in one round.
    """
    errors: Counter[str] = Counter()
    for block in blocks:
        errors.update(block.errors)
    sent, failed = sum(block.sent for block in blocks), sum(failures(block) for block in blocks)
    fault = partial(LoadFault, sent=sent, failed=failed, sample=next((b.sample for b in blocks if b.sample), ""))
    wrong = {kind: errors[kind] for kind in WRONG_KINDS if errors[kind]}
    if wrong:
        return fault(kind=LoadFaultKind.WRONG_ANSWERS, errors=wrong)
    often = sum(failures(block) > 0 for block in blocks) > len(blocks) / 2
    if often and failed > MAX_FAILED * sent:
        return fault(kind=LoadFaultKind.FAILED, errors=errors)
    if blocks and not any(block.answered for block in blocks):
        return fault(kind=LoadFaultKind.NO_ANSWER)
    return None


def round_reasons(record: Round) -> tuple[Void, ...]:
    """Why a round as a whole is void and has to be run again: fewer than two contenders have enough valid blocks."""
    return tuple(_round_reasons(record))


def _round_reasons(record: Round) -> Iterator[Void]:
    # A contender that died or sent incorrect responses leaves the race; that does not make the others' round void.
    fallen = _fallen(record)
    blocks = [block for block in record.blocks if block.contender not in fallen]
    of = Counter(block.contender for block in blocks)
    left = Counter(block.contender for block in blocks if not block.void)
    standing = [name for name, count in of.items() if left[name] >= ROUND_BLOCKS_LEFT * count]
    if of and len(standing) < min(len(of), 2):
        causes = Counter(why.kind for block in blocks for why in block.void)
        counts = {"valid": sum(left.values()), "blocks": len(blocks)}
        yield Void(kind=VoidKind.TOO_FEW_BLOCKS, numbers=counts, cause=causes.most_common(1)[0][0])


def _fallen(record: Round) -> set[str]:
    by_contender: dict[str, list[Block]] = {}
    for block in record.blocks:
        by_contender.setdefault(block.contender, []).append(block)
    died = {launch.contender for launch in record.launches if launch.died}
    return died | {
        name
        for name, blocks in by_contender.items()
        if all(block.gave_up for block in blocks) or wrong_under_load(blocks)
    }
