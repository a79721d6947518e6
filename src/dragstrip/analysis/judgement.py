"""Pairs, estimates and tie groups of a race: what its records support."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from dragstrip.analysis.columns import by_column
from dragstrip.analysis.fitness import MetricReason, UnfitReason, choose, lasting, unfit
from dragstrip.analysis.interval import EARLY, FLOOR, FloatArray, Interval, quantile
from dragstrip.analysis.numbers import NumberTables, RoundNumbers, numbers_of, read
from dragstrip.analysis.pairs import Pair, Rules, pairs_of
from dragstrip.analysis.ranking import ranking
from dragstrip.errors import BadUsage
from dragstrip.metrics import KNOWN, METRICS, PairVerdict
from dragstrip.record import Race

#: Alpha of the contenders' own intervals, which describe and decide nothing.
DESCRIPTIVE = 0.05

#: A smaller share lost to pauses counts as none: totals are above the median if passes scatter.
MIN_PAUSED = 0.0005


@dataclass(frozen=True, slots=True)
class Contradiction:
    """By requests per second ``ahead`` is the faster, and yet ``behind`` takes less CPU time per request."""

    ahead: str
    behind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """A contender loses throughput to pauses of its own.

    Args:
        lost: the share of its throughput; others: the share of the contender that loses least, ``least``.
    """

    contender: str
    lost: float
    least: str
    others: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one contender did by itself; descriptive, tests nothing.

    Args:
        throughput_per_s, server_cpu_us_per_request: geometric mean over rounds with an ordinary 95 % t interval on
            the log scale; None without a number.
        rounds: how many count for it; unsettled: before how many of these its warm-up had not ended.
        blocks: all it left; void_blocks: how many of them are not used (void, or their pass or round is).
        requests: correct responses in the counted part of the blocks used.
        errors: by kind, of all its blocks.
        latency_us: an open loop's quantiles, by their metric: median over passes, geometric mean over rounds.
        peak_memory_bytes: median over its launches of the tree's peak; None if unreadable.
    """

    blocks: int
    void_blocks: int
    errors: Mapping[str, int]
    throughput_per_s: Interval | None = None
    server_cpu_us_per_request: Interval | None = None
    rounds: int = 0
    unsettled: int = 0
    requests: int = 0
    peak_memory_bytes: int | None = None
    latency_us: Mapping[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnVerdict:
    """All that the records of one column support.

    Args:
        metric: what decides; typical: by the median over passes, which ignores pauses, instead of by totals.
        pairs: in line-up order, of contenders still in the race.
        beside: the same pairs by each other metric with numbers: every metric's intervals hold at once for
            its own pairs, at any time; they decide nothing about the race's end.
        contradictions: pairs in which one contender is faster and the other spends less CPU per request.
        estimates: of every entrant, those that are out too (without a number).
        ranking: contenders with a number, best first by their pairs; no separated pair contradicts it.
        groups: the largest sets of tied contenders, in that order; sets may overlap.
        all_decided: every pair has a verdict.
        warming: contenders whose warm-up had not ended in more than half of their rounds: not compared.
        pauses: contenders that lose throughput to pauses of their own.
        rounds: rounds that count; void_rounds: those that were run again.
        metric_reason: why ``metric`` decides if the race left the choice to the machine's own evidence
            (``--metric auto``); None if the user named the metric, or nothing spoke against throughput.
        more_s: forecast of the further budget that would decide every open pair, in seconds; None if nothing is
            open, or it can't be foreseen.
    """

    metric: str
    margin: float
    alpha: float
    typical: bool
    pairs: tuple[Pair, ...]
    beside: Mapping[str, tuple[Pair, ...]]
    contradictions: tuple[Contradiction, ...]
    estimates: Mapping[str, Estimate]
    ranking: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    all_decided: bool
    warming: tuple[str, ...]
    pauses: tuple[Pauses, ...]
    rounds: int
    void_rounds: int
    metric_reason: MetricReason | None = None
    more_s: float | None = None

    @property
    def open_pairs(self) -> tuple[Pair, ...]:
        """Pairs without a verdict."""
        return tuple(pair for pair in self.pairs if not pair.decided)

    @property
    def lasting(self) -> bool:
        """Whether pairs are open, and more rounds would decide none of them."""
        return not self.all_decided and all(pair.lasting for pair in self.open_pairs)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A race's verdict: each column's, in their order. No estimate, group or pair spans columns.

    Properties are facts of the whole race; ``rounds`` and ``void_rounds`` are sums over the columns.
    """

    columns: tuple[ColumnVerdict, ...]

    @property
    def column(self) -> ColumnVerdict:
        """The verdict of a race's only column."""
        (only,) = self.columns
        return only

    @property
    def margin(self) -> float:
        """The margin of every column."""
        return self.columns[0].margin

    @property
    def alpha(self) -> float:
        """The error rate of all statements of all columns together."""
        return self.columns[0].alpha

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Every column's pairs by the metric that decides there."""
        return tuple(pair for column in self.columns for pair in column.pairs)

    @property
    def all_decided(self) -> bool:
        """Whether every pair of every column has a verdict."""
        return all(column.all_decided for column in self.columns)

    @property
    def rounds(self) -> int:
        """Rounds that count."""
        return sum(column.rounds for column in self.columns)

    @property
    def void_rounds(self) -> int:
        """Rounds that were run again."""
        return sum(column.void_rounds for column in self.columns)

    @property
    def more_s(self) -> float | None:
        """Seconds of further budget that would decide every open pair; None if nothing is open or it is unforeseen."""
        known_s = [column.more_s for column in self.columns if column.more_s is not None]
        foreseen = all(column.all_decided or column.more_s is not None for column in self.columns)
        return sum(known_s) if known_s and foreseen else None


def judge(race: Race, *, metric: str | None = None, margin: float | None = None, alpha: float | None = None) -> Verdict:
    """Judges every column of a race, at any time of it; all intervals hold at once. None takes the race's own plan.

    Raises:
        BadUsage: unknown metric, or a margin or alpha that is not a share between 0 and 1.
    """
    return Verdict(tuple(judge_column(column, metric=metric, margin=margin, alpha=alpha) for column in by_column(race)))


def judge_column(
    race: Race, *, metric: str | None = None, margin: float | None = None, alpha: float | None = None
) -> ColumnVerdict:
    """Judges one column, given as a race of its own; see ``judge``."""
    plan = race.plan
    margin, alpha = plan.margin if margin is None else margin, plan.alpha if alpha is None else alpha
    for what, given in (("margin", margin), ("alpha", alpha)):
        if not 0 < given < 1:
            raise BadUsage(f"{what} {given} is not a share between 0 and 1; 0.01 means 1 %")
    chosen = choose(race, metric)
    tables = read(race)
    done = len(tables.rounds)
    rules = Rules(
        metric=chosen.metric,
        typical=chosen.typical,
        margin=margin,
        alpha=alpha / race.family,
        planned=plan.planned_rounds,
        last=done >= plan.planned_rounds if plan.rounds_fixed else done == plan.planned_rounds,
        fixed=plan.rounds_fixed,
        extensions=plan.extensions,
    )
    by_metric = {name: numbers_of(tables, name) for name in METRICS}
    numbers = by_metric[rules.metric]
    counts = ~np.isnan(numbers.totals)
    unsettled = (counts & ~numbers.settled).sum(axis=0)
    warming = tuple(
        name
        for name, count, cold in zip(tables.names, counts.sum(axis=0), unsettled, strict=True)
        if count >= EARLY and cold > count / 2
    )
    pairs, beside = _all_pairs(race, tables, by_metric, rules, warming)
    by_totals = pairs if rules.metric == "throughput" and not rules.typical else beside.get("throughput", ())
    separated = frozenset(frozenset((p.a, p.b)) for p in by_totals if p.verdict.separated)
    with_number = [name for name, count in zip(tables.names, counts.sum(axis=0), strict=True) if count]
    order = ranking(with_number, pairs)
    return ColumnVerdict(
        metric=rules.metric,
        margin=margin,
        alpha=alpha,
        typical=rules.typical,
        pairs=pairs,
        beside=beside,
        contradictions=_contradictions(beside | {rules.metric: pairs}),
        estimates=_estimates(race, tables, by_metric, typical=rules.typical),
        ranking=order,
        groups=_groups(order, pairs),
        all_decided=all(pair.decided for pair in pairs),
        warming=warming,
        pauses=_pauses(by_metric["throughput"], margin, separated),
        rounds=done,
        void_rounds=len(race.rounds) - done,
        metric_reason=chosen.reason,
        more_s=_more_s(pairs),
    )


def _all_pairs(
    race: Race, tables: NumberTables, by_metric: Mapping[str, RoundNumbers], rules: Rules, warming: Sequence[str]
) -> tuple[tuple[Pair, ...], dict[str, tuple[Pair, ...]]]:
    """The pairs by the metric that decides, and by each other metric with numbers."""

    def judged(by: Rules) -> tuple[Pair, ...]:
        why = unfit(race, by.metric)
        sure = lasting(race, by.metric, why)
        why |= dict.fromkeys((name for name in warming if name not in sure), UnfitReason.WARMING)
        return pairs_of(tables, by_metric[by.metric], by, why, sure)

    others = [replace(rules, metric=name, typical=False) for name in by_metric if name != rules.metric]
    return judged(rules), {by.metric: tuple(pair for pair in judged(by) if pair.rounds) for by in others}


def _more_s(pairs: Sequence[Pair]) -> float | None:
    """The forecast for the pair that takes longest; None if nothing is open, or a pair's can't be foreseen."""
    open_ = [pair for pair in pairs if not pair.decided and not pair.unfit]
    known_s = [pair.more_s for pair in open_ if pair.more_s is not None]
    return max(known_s) if open_ and len(known_s) == len(open_) else None


def _contradictions(by_metric: Mapping[str, Sequence[Pair]]) -> tuple[Contradiction, ...]:
    """Pairs in which the faster contender spends more CPU: idle cores, or more cores at work, make the difference."""
    costs = {(pair.a, pair.b): pair.verdict for pair in by_metric.get("cpu", ())}
    contradictions = []
    for pair in by_metric.get("throughput", ()):
        if pair.verdict.separated and costs.get((pair.a, pair.b)) is pair.verdict.turned:
            ahead, behind = (pair.a, pair.b) if pair.verdict is PairVerdict.FASTER else (pair.b, pair.a)
            contradictions.append(Contradiction(ahead, behind))
    return tuple(contradictions)


def _groups(ranking: Sequence[str], pairs: Sequence[Pair]) -> tuple[tuple[str, ...], ...]:
    """Maximal sets of tied contenders (Bron & Kerbosch 1973); the sets and their members are sorted fastest first."""
    apart = {frozenset((p.a, p.b)) for p in pairs if p.verdict.separated}
    tied = {a: {b for b in ranking if b != a and frozenset((a, b)) not in apart} for a in ranking}
    place = {name: at for at, name in enumerate(ranking)}

    def largest(chosen: set[str], open_: set[str], done: set[str]) -> Iterator[set[str]]:
        if not open_ and not done:
            yield chosen
            return
        pivot = max(open_ | done, key=lambda name: len(tied[name] & open_))
        for name in sorted(open_ - tied[pivot], key=place.__getitem__):
            yield from largest(chosen | {name}, open_ & tied[name], done & tied[name])
            open_, done = open_ - {name}, done | {name}

    groups = [tuple(sorted(group, key=place.__getitem__)) for group in largest(set(), set(ranking), set()) if group]
    return tuple(sorted(groups, key=lambda group: [place[name] for name in group]))


def _estimates(
    race: Race, tables: NumberTables, by_metric: Mapping[str, RoundNumbers], *, typical: bool
) -> dict[str, Estimate]:
    blocks: Counter[str] = Counter()
    errors: dict[str, Counter[str]] = {entrant.name: Counter() for entrant in race.entrants}
    memory: dict[str, list[int]] = {entrant.name: [] for entrant in race.entrants}
    for round_ in race.rounds:
        for block in round_.blocks:
            blocks[block.contender] += 1
            if block.errors:
                errors[block.contender].update(block.errors)
        for launch in round_.launches:
            if launch.peak_memory_bytes is not None:
                memory[launch.contender].append(launch.peak_memory_bytes)
    rates, costs = (
        numbers.medians if typical else numbers.totals for numbers in (by_metric["throughput"], by_metric["cpu"])
    )
    quantiles = {name: numbers.totals for name, numbers in by_metric.items() if KNOWN[name].quantile}
    estimates = {
        name: Estimate(blocks=blocks[name], void_blocks=blocks[name], errors=dict(counts))
        for name, counts in errors.items()
    }
    for k, name in enumerate(tables.names):
        counts = ~np.isnan(rates[:, k])
        latencies = {quantile: _interval(numbers[:, k]) for quantile, numbers in quantiles.items()}
        estimates[name] = replace(
            estimates[name],
            throughput_per_s=_interval(rates[:, k]),
            server_cpu_us_per_request=_interval(costs[:, k]),
            rounds=int(counts.sum()),
            unsettled=int((~tables.settled[counts, k]).sum()),
            void_blocks=blocks[name] - int((tables.answered[:, :, k] > 0).sum()),
            requests=int(tables.requests[:, :, k].sum()),
            peak_memory_bytes=int(median(memory[name])) if memory[name] else None,
            latency_us={quantile: interval for quantile, interval in latencies.items() if interval},
        )
    return estimates


def _interval(numbers: FloatArray) -> Interval | None:
    logs = np.log(numbers[~np.isnan(numbers)])
    n = len(logs)
    if n == 0:
        return None
    middle = float(logs.mean())
    half = quantile(n, DESCRIPTIVE) * float(logs.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Interval.of_logs(middle, half, 1 - DESCRIPTIVE)


def _pauses(numbers: RoundNumbers, margin: float, separated: Set[frozenset[str]]) -> tuple[Pauses, ...]:
    """Contenders that lose throughput to pauses of their own: their totals are further below their medians over passes.

    The machine's pauses hit all alike, so a contender is compared with the one that loses least, over the rounds in
    which both ran. The loss must exceed the margin and 2.5 standard errors, about what decides between two that are
    alike; 2 are enough if their totals are already separated, because it then only names the cause.
    """
    losses = np.log(numbers.medians) - np.log(numbers.totals)
    mean = [float(column[~np.isnan(column)].mean()) if not np.isnan(column).all() else math.nan for column in losses.T]
    ran = [k for k, loss in enumerate(mean) if not math.isnan(loss)]
    if len(ran) < 2:
        return ()
    least = min(ran, key=lambda k: mean[k])
    pauses = []
    for k in ran:
        excess = losses[:, k] - losses[:, least]
        excess = excess[~np.isnan(excess)]
        n = len(excess)
        if k == least or n < FLOOR or excess.mean() <= math.log1p(margin):
            continue
        errors = 2.0 if frozenset((numbers.names[k], numbers.names[least])) in separated else 2.5
        if excess.mean() > errors * excess.std(ddof=1) / math.sqrt(n):
            lost, others = (max(-math.expm1(-mean[at]), 0.0) for at in (k, least))
            if lost < MIN_PAUSED:
                continue
            pauses.append(Pauses(contender=numbers.names[k], lost=lost, least=numbers.names[least], others=others))
    return tuple(pauses)


def still_needed(
    verdict: ColumnVerdict, race: Race, asked: Sequence[Pair] = (), *, resting: bool = True
) -> frozenset[str]:
    """Contenders that continue: all with an open pair, and one reference so that drift is seen.

    A pair is open without a verdict, unless more rounds would not change why. The reference is the contender with the
    most rounds, the first of the line-up among equals; none if nothing is open. A fixed design needs all to its end.

    Args:
        asked: pairs that need more than a verdict.
        resting: pairs that more rounds would not change rest; False: they go on too.
    """
    names = [entrant.name for entrant in race.entrants if not entrant.out]
    if race.plan.rounds_fixed:
        return frozenset(names if verdict.rounds < race.plan.planned_rounds else ())
    open_ = [pair for pair in (*verdict.open_pairs, *asked) if not (resting and pair.lasting)]
    asking = {name for pair in open_ for name in (pair.a, pair.b)}
    if not asking:
        return frozenset()
    return frozenset(asking | {max(names, key=lambda name: verdict.estimates[name].rounds)})
