"""What a race left, as arrays: one number per round and contender, void blocks and rounds left out.

Method: ``docs/METHOD.md``, "The round's one number". Totals over a contender's valid blocks of the round decide;
the median over passes is kept in addition.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from dragstrip.analysis.cpu_shares import usual_waits
from dragstrip.analysis.fitness import choose, lost, taken
from dragstrip.analysis.interval import FloatArray
from dragstrip.metrics import ANSWERS, KNOWN
from dragstrip.record import Block, Race, Round

#: A contender's round counts if this share of its own planned blocks is left, or this many of them.
THIN_OWN, ENOUGH_OWN = 0.1, 3

#: A block without a response in its counted part: others had the cores for this share of it, or a pause of the server's
#: own that began before. Such a pause is not counted time; time that the machine took concerns all contenders.
MACHINES = 0.5

#: A block with slightly fewer responses than planned for a quantile (``metrics.ANSWERS``) still determines it.
ENOUGH_ANSWERS = 0.9

#: A block ended within a pause if its last responses took this many times longer than usual.
LATE = 4.0

#: Fields of a block with its latencies' quantiles, by their names in metrics.
QUANTILES = {"p50": "p50_ns", "p90": "p90_ns", "p99": "p99_ns", "p99.9": "p999_ns"}

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RoundNumbers:
    """One number per round and contender; void blocks and rounds are left out, NaN if a contender did not run.

    Args:
        names: contenders still in the race, in line-up order: the columns.
        rounds: indices of the rounds that count: the rows.
        totals: what decides. Responses per second of counted time that the machine left ("throughput"), CPU
            microseconds per response ("cpu"), or the launch's peak in bytes ("memory"). For "latency-p99": the median
            over passes of a quantile in microseconds.
        medians: the median over the round's passes of the same: what it does between pauses.
        passes: the same of every pass: axes round, pass, contender.
        ran: whether the contender was launched in that round, whatever became of its passes.
        settled: whether its warm-up had ended.
    """

    metric: str
    names: tuple[str, ...]
    rounds: tuple[int, ...]
    totals: FloatArray
    medians: FloatArray
    passes: FloatArray
    ran: BoolArray
    settled: BoolArray

    def log_speeds(self, numbers: FloatArray) -> FloatArray:
        """Logarithms of ``totals``, ``medians`` or ``passes``, turned so that more is better."""
        return np.log(numbers) if KNOWN[self.metric].more_is_better else -np.log(numbers)


@dataclass(frozen=True, slots=True)
class NumberTables:
    """The blocks of all rounds that are not void, as arrays; their axes are round, pass and contender.

    Args:
        seconds: of each round.
        used: whether a block counts: it is valid, and enough blocks of its contender's round are.
        requests, counted_ns, server_cpu_ns, answered: of each block, 0 without one; NaN for unreadable CPU time.
        latency_ns: quantiles of an open loop's blocks, by their names in metrics; NaN otherwise.
        ran, settled: whether a contender was launched in a round, and its warm-up had ended: axes round, contender.
        memory_bytes: peak of each launch's tree, NaN if unreadable: axes round, contender.
        lost: share of its blocks' time that waits for others and steal took: axes round, contender.
    """

    names: tuple[str, ...]
    rounds: tuple[int, ...]
    seconds: FloatArray
    used: BoolArray
    requests: FloatArray
    counted_ns: FloatArray
    server_cpu_ns: FloatArray
    answered: FloatArray
    latency_ns: Mapping[str, FloatArray]
    ran: BoolArray
    settled: BoolArray
    memory_bytes: FloatArray
    lost: FloatArray


def read(race: Race) -> NumberTables:
    """The tables of a race.

    A block's whole time counts, and a pause that outlasts the counted part to its end. Every contender has its own
    blocks: a void one takes nothing from the others.
    """
    names = tuple(entrant.name for entrant in race.entrants if not entrant.out)
    column = {name: k for k, name in enumerate(names)}
    rounds = [r for r in race.rounds if not r.void]
    passes = max([race.plan.passes, *(block.pass_index + 1 for r in rounds for block in r.blocks)])
    of_launches, of_blocks = (len(rounds), len(names)), (len(rounds), passes, len(names))
    requests, counted_ns, server_cpu_ns, answered = (np.zeros(of_blocks) for _ in range(4))
    latency_ns = {quantile: np.full(of_blocks, np.nan) for quantile in QUANTILES}
    good = np.zeros(of_blocks, dtype=bool)
    settled, ran = (np.zeros(of_launches, dtype=bool) for _ in range(2))
    memory_bytes, lost_share = (np.full(of_launches, np.nan) for _ in range(2))
    waits = usual_waits((b for r in rounds for b in r.blocks), len(race.server_cores))
    for row, round_ in enumerate(rounds):
        share, late_ns = taken(race, round_, waits), _late(round_)
        valid: dict[int, list[Block]] = defaultdict(list)
        for block in round_.blocks:
            k = column.get(block.contender)
            if k is None:
                continue
            ran[row, k] = True
            if not block.void and block.counted_ns > 0 and (block.requests > 0 or block.answered > 0):
                at = row, block.pass_index, k
                good[at] = True
                own_pause = not block.requests and share(block) < MACHINES
                requests[at], answered[at] = block.requests, block.answered
                counted_ns[at] = 0.0 if own_pause else block.counted_ns + late_ns(block)
                server_cpu_ns[at] = math.nan if block.server_cpu_ns is None else block.server_cpu_ns
                valid[k].append(block)
                for quantile, field in QUANTILES.items():
                    if block.offered and block.requests >= ENOUGH_ANSWERS * ANSWERS[quantile]:
                        latency_ns[quantile][at] = getattr(block, field)
        for k, blocks in valid.items():
            lost_share[row, k] = lost(blocks, share)
        for launch in round_.launches:
            if launch.contender in column:
                settled[row, column[launch.contender]] = launch.settled
                memory_bytes[row, column[launch.contender]] = launch.peak_memory_bytes or math.nan
    used = _used(race, names, good)
    return NumberTables(
        names=names,
        rounds=tuple(r.index for r in rounds),
        seconds=np.array([r.lasted_s for r in rounds]),
        used=used,
        requests=np.where(used, requests, 0.0),
        counted_ns=np.where(used, counted_ns, 0.0),
        server_cpu_ns=np.where(used, server_cpu_ns, 0.0),
        answered=np.where(used, answered, 0.0),
        latency_ns={quantile: np.where(used, values, np.nan) for quantile, values in latency_ns.items()},
        ran=ran,
        settled=settled,
        memory_bytes=np.where(used.any(axis=1) & ran, memory_bytes, np.nan),
        lost=lost_share,
    )


def _used(race: Race, names: Sequence[str], good: BoolArray) -> BoolArray:
    """Each contender's own blocks count if enough of a round's are left."""
    planned = np.array([race.plan.blocks[name][2] if name in race.plan.blocks else race.plan.passes for name in names])
    enough = good.sum(axis=1) >= np.clip(THIN_OWN * planned, 1, ENOUGH_OWN)
    return np.asarray(good & enough[:, None, :])


def _late(round_: Round) -> Callable[[Block], float]:
    """By how many ns a closed loop's last responses came later than usual: how far a pause outlasted the counted part.

    The drain waits for requests in flight when the counted part ends, usually about as long as a response takes.
    It also waits for a pause of the server's own that begins in a block; otherwise that would count only to the block's
    end.
    """
    waited: dict[str, list[int]] = defaultdict(list)
    for block in round_.blocks:
        if not block.void and not block.offered:
            waited[block.contender].append(_waited_ns(block))
    usual = {name: median(waits_ns) for name, waits_ns in waited.items()}

    def late(block: Block) -> float:
        if block.offered:
            return 0.0
        waited_ns, usual_ns = _waited_ns(block), usual[block.contender]
        return waited_ns - usual_ns if waited_ns > LATE * usual_ns else 0.0

    return late


def _waited_ns(block: Block) -> int:
    """From the counted part's end to the last response."""
    return max(block.duration_ns - block.lead_ns - block.counted_ns, 0)


def numbers_of(tables: NumberTables, metric: str) -> RoundNumbers:
    """The round numbers of one metric."""
    if quantile := KNOWN[metric].quantile:
        passes = tables.latency_ns[quantile] / 1000
        totals = median_over_passes(passes)
    elif metric == "memory":
        totals, passes = tables.memory_bytes, tables.memory_bytes[:, None, :]
    elif metric == "throughput":
        totals, passes = _ratios(tables.requests, tables.counted_ns, 1e9)
    else:
        totals, passes = _ratios(tables.server_cpu_ns, tables.answered, 1e-3)
    return RoundNumbers(
        metric=metric,
        names=tables.names,
        rounds=tables.rounds,
        totals=totals,
        medians=median_over_passes(passes),
        passes=passes,
        ran=tables.ran,
        settled=tables.settled,
    )


def _ratios(over: FloatArray, under: FloatArray, scale: float) -> tuple[FloatArray, FloatArray]:
    """Ratios of the totals over passes, and each pass by itself; NaN if not above 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        totals = over.sum(axis=1) / under.sum(axis=1) * scale
        passes = over / under * scale
    totals[~(totals > 0)] = np.nan
    passes[~(passes > 0)] = np.nan
    return totals, passes


def median_over_passes(passes: FloatArray) -> FloatArray:
    """Median over axis 1, NaN left out (they sort last); NaN if nothing is left."""
    ordered, count = np.sort(passes, axis=1), (~np.isnan(passes)).sum(axis=1)
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, passes.shape[1] - 1)
    pick = [np.take_along_axis(ordered, at[:, None, :], axis=1)[:, 0, :] for at in (low, high)]
    return np.asarray((pick[0] + pick[1]) / 2)


def round_numbers(race: Race, metric: str | None = None) -> RoundNumbers:
    """The numbers that decide, one per round and contender.

    Args:
        metric: one of ``METRICS``; None for the race's own.

    Raises:
        BadUsage: unknown metric.
    """
    return numbers_of(read(race), choose(race, metric).metric)
