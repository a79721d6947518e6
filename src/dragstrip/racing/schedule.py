"""The order of launches and blocks, and how long they are: seeded, interleaved, pure.

Method: ``docs/METHOD.md``, "The round". The order is a pure function of seed, round, names and plan: nothing
drawn before changes it, so a race can be resumed, repeated and checked by anybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, floor

import numpy as np

from dragstrip.errors import BadUsage
from dragstrip.metrics import ANSWERS, MetricChoice
from dragstrip.racing.options import OfferedRate
from dragstrip.record import Plan

#: Lead-in (loaded, not counted) and counted part, in typical latencies, and their maximum lengths.
#: A block under 20 latencies means nothing: a server with 40 ms stalls read three times too fast.
LEAD_LATENCIES, MAX_LEAD_NS = 5, 200_000_000
COUNTED_LATENCIES, MAX_COUNTED_NS = 20, 1_000_000_000

#: Shortest lead-in of a contender whose definition does not allow less; shortest counted part, in lead-ins.
LEAD_NS, COUNTED_LEADS = 10_000_000, 2.5

#: Passes per round: the usual minimum, the maximum, and the minimum under a short budget; and the shortest time for
#: which each contender is loaded in a round. On recorded noise a race's evidence per second is the same for half and
#: for double that time (a round's launches also scatter). A shorter time completes the rounds that a verdict needs
#: sooner; a longer time makes a round's number depend less on one bad pass.
PASSES, MAX_PASSES, PASSES_FLOOR, LOADED_S = 8, 60, 3, 0.28

#: If each contender's speed in calibration is this multiple of the next slower one's or more, each is loaded for half
#: of ``LOADED_S``: five rounds decide such a race, and an early interval is 5 % wide at least (``analysis.EARLY``).
FAR_APART = 1.3

#: Rounds that a budget must be able to pay for before it pays for more passes: two above the fewest
#: that decide anything (``analysis.FLOOR``), because a round may be void and has to be run again.
ROUNDS_WANTED = 12

#: The planned last round is never before this one: no earlier round can decide a small difference.
MIN_ROUNDS = 10

#: Default budget of a race, and the most that it grows to if ten rounds take longer: servers with
#: a thousand connections take half a minute a round, and after a minute of that nothing could be decided.
USUAL_S, MAX_USUAL_S = 60.0, 300.0

#: Share of the budget that the plan leaves unspent. Stopping servers and waiting for a quiet machine are
#: not in the calibration's estimate; what is kept for looks that are never reached would be wasted.
RESERVE = 0.1

_WORD = 64
_COLUMNS, _PHASES = 1 << 63, 1 << 62
_MASK = (1 << _WORD) - 1


@dataclass(frozen=True, slots=True)
class RoundOrder:
    """The drawn order of one round: of its launches, and of the contenders' blocks in each pass."""

    launches: tuple[str, ...]
    passes: tuple[tuple[str, ...], ...]

    def blocks_of_each(self) -> Mapping[str, int]:
        """How many blocks each contender has."""
        return Counter(name for drawn in self.passes for name in drawn)


def order_of(plan: Plan, seed: int, index: int, names: Sequence[str]) -> RoundOrder:
    """The order of round ``index`` of a planned race; it raises as ``round_order`` does.

    Args:
        names: the contenders that run in the round; some of the race's may be out, or no longer needed.
    """
    takes = {name: plan.blocks[name][2] for name in names if name in plan.blocks}
    # The most passes of any contender in the round: if the fastest is out, some of the plan's passes would be empty.
    passes = max(takes.values()) if takes and len(takes) == len(names) else plan.passes
    return round_order(seed, index, names, passes, takes=takes)


def block_of(plan: Plan, name: str) -> tuple[int, int]:
    """Lead-in and counted part of a contender's blocks, in nanoseconds."""
    lead_ns, counted_ns, _ = plan.blocks.get(name, (plan.lead_ns, plan.counted_ns, plan.passes))
    return lead_ns, counted_ns


def round_order(
    seed: int,
    index: int,
    names: Sequence[str],
    passes: int,
    *,
    takes: Mapping[str, int] | None = None,
) -> RoundOrder:
    """Draws the order of round ``index``; the order in which the names are given does not matter.

    Of two contenders only the first is drawn, and all passes are alike: neighbours in time share the machine's
    fast phases, and each contender always runs after the other.

    The generator is Philox4x64-10 (Salmon et al. 2011), a counter-based one keyed by (seed, index). Only its
    raw words are used, which numpy keeps stable for ever, not its permutations, which it may change (NEP 19).

    Args:
        seed: of the race; taken modulo 2^64.
        index: 0-based round.
        passes: blocks of each contender, at least 1.
        takes: in how many of the passes a contender takes part, if not in all; these are spread evenly over the
            round, and their offset is drawn.

    Raises:
        BadUsage: no name, a name given twice, or no pass.
    """
    ordered = sorted(names)
    if not ordered or len(set(ordered)) < len(ordered):
        given = ", ".join(ordered) or "none"
        raise BadUsage(f"a round's contenders must be at least one and all different; given: {given}")
    if passes < 1 or index < 0:
        raise BadUsage(f"a round needs at least one pass and an index from 0; given: {passes} passes, round {index}")
    words = _words(seed, index, (passes + 1) * (len(ordered) - 1) + len(ordered))
    shuffled = [_shuffled(ordered, words) for _ in range(passes + 1)]
    drawn = shuffled[1:2] * passes if len(ordered) == 2 else shuffled[1:]
    # Drawn last, so that the order itself is the same with and without.
    runs = {name: _spread((takes or {}).get(name, passes), passes, next(words)) for name in ordered}
    return RoundOrder(
        launches=shuffled[0],
        passes=tuple(tuple(name for name in names if runs[name][number]) for number, names in enumerate(drawn)),
    )


def _spread(count: int, passes: int, word: int) -> tuple[bool, ...]:
    """For each pass, whether a contender runs: in ``count`` of them (1 to all), evenly spread from a drawn offset."""
    count, offset = min(max(count, 1), passes), (word * passes) >> _WORD
    steps = [(number + offset) * count // passes for number in range(passes + 1)]
    return tuple(after > before for before, after in pairwise(steps))


def lead_in_phases(seed: int, index: int, passes: Mapping[str, int]) -> dict[str, tuple[float, ...]]:
    """By how many latencies, from 0 to 1, the lead-in of each of a contender's blocks is lengthened in round ``index``.

    If a server waits, all its connections respond at once, then none for a latency. Such waves begin with the block. A
    counted part that always began at the same point of a wave would always count the same part of a wave too much or
    too little. So this point is drawn for the round, and spread evenly over its blocks: k blocks together count as if
    the edges were a k-th of a wave apart.

    Args:
        passes: how many blocks each contender has.
    """
    words = _words(seed, _PHASES | index, len(passes))
    drawn = {name: next(words) / (1 << _WORD) for name in sorted(passes)}
    return {name: tuple((drawn[name] + block / count) % 1 for block in range(count)) for name, count in passes.items()}


def _words(seed: int, index: int, count: int) -> Iterator[int]:
    key = np.array([seed & _MASK, index & _MASK], dtype=np.uint64)
    return iter(np.random.Philox(key=key).random_raw(count).tolist() if count else [])


def _shuffled(names: Sequence[str], words: Iterator[int]) -> tuple[str, ...]:
    """Fisher and Yates' shuffle; a word's high bits choose (Lemire 2019), uneven by less than 2^-57."""
    drawn = list(names)
    for last in range(len(drawn) - 1, 0, -1):
        other = (next(words) * (last + 1)) >> _WORD
        drawn[last], drawn[other] = drawn[other], drawn[last]
    return tuple(drawn)


def block_lengths(p50_ns: Mapping[str, int], leads_ns: Iterable[int] = ()) -> tuple[int, int]:
    """Lead-in and counted part of every block, in nanoseconds, the same for all contenders.

    Args:
        p50_ns: each contender's typical latency from calibration; empty gives the shortest block.
        leads_ns: the lead-in that each contender needs at least; empty gives ``LEAD_NS``.
    """
    slowest_ns, least_ns = max(p50_ns.values(), default=0), max(leads_ns, default=LEAD_NS)
    lead_ns = min(max(LEAD_LATENCIES * slowest_ns, least_ns), MAX_LEAD_NS)
    counted_ns = min(max(COUNTED_LATENCIES * slowest_ns, int(COUNTED_LEADS * least_ns)), MAX_COUNTED_NS)
    return lead_ns, counted_ns


def own_lengths(
    p50_ns: Mapping[str, int], leads_ns: Mapping[str, int], factors: Mapping[str, int] | None = None
) -> dict[str, tuple[int, int]]:
    """Lead-in and counted part of each contender's blocks, by its own latency alone, not by a slower contender's.

    Args:
        p50_ns, leads_ns: as ``block_lengths`` has them, by contender.
        factors: block lengths are multiplied by these, if calibration requires it.
    """
    lengths_ns = {}
    for name, own_ns in p50_ns.items():
        lead_ns, counted_ns = block_lengths({name: own_ns}, [leads_ns[name]])
        factor = (factors or {}).get(name, 1)
        lengths_ns[name] = factor * lead_ns, factor * counted_ns
    return lengths_ns


def far_apart(capacity_per_s: Iterable[float]) -> bool:
    """Whether any two contenders' speeds in calibration differ by a factor of ``FAR_APART`` or more."""
    ordered = sorted(capacity_per_s)
    return all(faster >= FAR_APART * slower for slower, faster in pairwise(ordered))


def own_passes(
    lengths_ns: Mapping[str, tuple[int, int]], *, launch_s: float, budget_s: float, short: bool = False
) -> dict[str, int]:
    """In how many passes of a round each contender takes part; with blocks up to 70 ms as many as from ``passes``.

    Each contender is loaded for the same time, 0.28 s or what makes a third of the round measuring, in 8 to 60 passes.
    The time is doubled at most: a contender with long blocks takes part in fewer passes. If the budget could not pay
    for 12 such rounds, all contenders get fewer passes by the same share, but at least 3.

    Args:
        lengths_ns: lead-in and counted part by contender.
        launch_s: launching and warming up all contenders once.
        budget_s: for all rounds.
        short: each contender is loaded for 0.14 s, because the contenders are far apart.
    """
    blocks_s = {name: max(sum(length_ns) / 1e9, 1e-9) for name, length_ns in lengths_ns.items()}
    each_s = LOADED_S / 2 if short else max(LOADED_S, launch_s / 2 / max(len(blocks_s), 1))
    wanted = {}
    for name, block_s in blocks_s.items():
        # A few blocks that last longer than the machine's slow phases meet as many of them as many short blocks do.
        least = min(PASSES, ceil(2 * each_s / block_s - 1e-9))
        wanted[name] = min(max(ceil(each_s / block_s - 1e-9), least, PASSES_FLOOR), MAX_PASSES)
    payable_s = budget_s / ROUNDS_WANTED - launch_s
    share = min(payable_s / max(sum(wanted[name] * block_s for name, block_s in blocks_s.items()), 1e-9), 1.0)
    return {name: max(floor(count * share + 1e-9), PASSES_FLOOR) for name, count in wanted.items()}


def loaded_s(blocks: Mapping[str, tuple[int, int, int]]) -> float:
    """Seconds of blocks in a round of these contenders (``Plan.blocks``)."""
    return sum((lead_ns + counted_ns) * passes for lead_ns, counted_ns, passes in blocks.values()) / 1e9


def with_fewer_blocks(plan: Plan, share: float) -> Plan:
    """The plan with this share of each round's blocks, but at least three of each contender.

    It is for rounds that take longer than planned, so that the budget still pays for the ten that any verdict needs.
    The share depends on the clock only, never on a ratio.
    """

    def fewer(passes: int) -> int:
        return min(max(floor(share * passes), PASSES_FLOOR), passes)

    blocks = {name: (lead, counted, fewer(passes)) for name, (lead, counted, passes) in plan.blocks.items()}
    return replace(plan, blocks=blocks, passes=fewer(plan.passes))


def lead_in_delay_ns(phase: float, p50_ns: int) -> int:
    """Nanoseconds that a phase (``lead_in_phases``) adds to the lead-in of a contender with this typical latency."""
    return int(phase * min(p50_ns, MAX_COUNTED_NS))


def usual_passes(block_s: float) -> int:
    """How many passes a round has if its contenders launch quickly."""
    return min(max(ceil(LOADED_S / block_s - 1e-9), PASSES), MAX_PASSES)


def passes(*, launch_s: float, block_s: float, contenders: int, budget_s: float) -> int:
    """How many passes a round has.

    8 to 60, so that a third of the time is measuring and each contender is loaded for 0.28 s. Fewer, down to 3,
    if the budget could not pay for 12 such rounds: small differences need at least ten rounds, and more rounds average
    more launches.

    Args:
        launch_s: launching and warming up all contenders once.
        block_s: one block, lead-in and counted part.
        contenders: in the round.
        budget_s: for all rounds.
    """
    pass_s = max(block_s * max(contenders, 1), 1e-9)
    wanted = min(max(ceil(launch_s / 2 / pass_s), usual_passes(block_s)), MAX_PASSES)
    payable = floor((budget_s / ROUNDS_WANTED - launch_s) / pass_s + 1e-9)
    return max(min(wanted, payable), PASSES_FLOOR)


def usual_budget_s(round_s: float, columns: int = 1) -> float:
    """A column's default budget: a minute for all columns, or what its twelve rounds take; five minutes at most.

    Args:
        round_s: of a round with as few blocks as possible.
        columns: how many columns share it.
    """
    wanted_s = ROUNDS_WANTED * round_s / (1 - RESERVE)
    return min(max(USUAL_S / columns, _in_tens(wanted_s)), MAX_USUAL_S / columns)


def grown_budget_s(needed_s: float) -> float:
    """A race's default budget when its rounds turned out to need this time; five minutes at most."""
    return min(_in_tens(needed_s), MAX_USUAL_S)


def learning_share(budget_s: float | None, rounds: int | None) -> float:
    """Share of the usual time in which the warm-up of an unknown server is learned, at most 1.

    Args:
        budget_s: the requested budget; one below the usual does not pay for long warm-ups. None: the default.
        rounds: the requested number; a few rounds are a look. None: as many as the budget pays for.
    """
    return min(1.0, (budget_s or USUAL_S) / USUAL_S, (rounds or MIN_ROUNDS) / MIN_ROUNDS)


def _in_tens(seconds: float) -> float:
    return 10.0 * ceil(seconds / 10)


#: Most rounds that a record may plan.
MAX_PLANNED = 100_000


def planned_rounds(budget_s: float, round_s: float) -> int:
    """The planned last round N, fixed before the race: what nine tenths of the budget pay for, at least 10.

    It is ten even if the budget is not expected to pay for them: nothing is decided before, the clock ends the race
    anyway, and an estimate that was too cautious then costs nothing.
    """
    # A race that no contender is left in has rounds of no length.
    return min(max(floor((1 - RESERVE) * budget_s / max(round_s, 1e-9) + 1e-9), MIN_ROUNDS), MAX_PLANNED)


def refuse_metric(metric: str, rate_per_s: OfferedRate) -> None:
    """Latencies are compared in an open loop only.

    Raises:
        BadUsage: a latency metric without a rate.
    """
    if MetricChoice.of(metric).quantile and rate_per_s is None:
        raise BadUsage(
            f"--metric {metric}: in a closed loop, latency shows how long its own requests queue, not how fast the "
            "server is; add --rate (--rate auto is half of the slowest contender's capacity)"
        )


def rate(asked_per_s: OfferedRate, capacity_per_s: Mapping[str, float]) -> float:
    """The rate that is offered to all, 0 for a closed loop.

    Args:
        capacity_per_s: each contender's responses per second in calibration. Half of the slowest's is rounded to two
            digits, because the rate is shown, typed again and compared between races.
    """
    if not isinstance(asked_per_s, str):
        return asked_per_s or 0.0
    return float(f"{min(capacity_per_s.values(), default=2.0) / 2:.2g}")


def efficiency_rates(capacity_per_s: Mapping[str, float]) -> tuple[float, float]:
    """The two rates at which efficiency is compared: a tenth and half of what the slowest served in calibration."""
    slowest_per_s = min(capacity_per_s.values(), default=10.0)
    return float(f"{slowest_per_s / 10:.2g}"), float(f"{slowest_per_s / 2:.2g}")


def order_of_columns(seed: int, turn: int, columns: Sequence[str]) -> tuple[str, ...]:
    """The order in which a race's columns have their round in a turn: drawn, as ``round_order`` draws."""
    # The key is beyond any round's index, so that no round of the race is drawn from the same words.
    return _shuffled(list(columns), _words(seed, _COLUMNS | turn, len(columns)))


def long_enough(counted_ns: int, metric: str, rate_per_s: float) -> int:
    """The counted part of an open loop's blocks: long enough for the responses that the metric's quantile needs."""
    if not rate_per_s:
        return counted_ns
    responses = ANSWERS[MetricChoice.of(metric).quantile or "p50"]
    return max(counted_ns, ceil(responses / rate_per_s * 1e9))
