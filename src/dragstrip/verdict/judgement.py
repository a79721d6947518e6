"""Pairs, estimates and tie groups of a race: what its records support."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

import numpy as np

from dragstrip.errors import BadUsage
from dragstrip.record import Race
from dragstrip.verdict.evidence import ANYTIME_SHARE, FLOOR, critical, factor, holm, p_value, quantile
from dragstrip.verdict.numbers import (
    METRICS,
    BoolArray,
    FloatArray,
    RoundNumbers,
    Tables,
    known,
    known_method,
    median_over_passes,
    numbers_of,
    read,
)

#: A forecast of the rounds still missing looks no further than this.
FORECAST_MOST = 20_000

#: Alpha of the contenders' own intervals, which describe and decide nothing.
DESCRIPTIVE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate and what it may be; ``low`` and ``high`` are NaN where there is too little for an interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two contenders compared over the rounds in which both ran.

    Args:
        ratio: a's speed over b's, geometric mean over rounds; NaN if they never ran together.
        low, high: hold at once for all pairs of the race, at any time it is looked at; NaN while there is no interval.
        verdict: of a: "faster", "slower", "same" (the interval lies within the margin) or "undecided".
        rounds, spent_s: rounds in which both ran, and how long those took.
        within_margin: the interval lies within the margin; together with "faster": faster by less than that.
        median_ratio: the same ratio by the median over passes: between pauses.
        more_rounds, more_s: forecast of what a decision still takes; None if decided or not to be foreseen.
        note: why there is no verdict, where it is not the interval; else "".
    """

    a: str
    b: str
    metric: str
    ratio: float
    low: float
    high: float
    verdict: str
    rounds: int
    spent_s: float
    margin: float
    within_margin: bool
    median_ratio: float
    more_rounds: int | None = None
    more_s: float | None = None
    note: str = ""

    @property
    def decided(self) -> bool:
        """Whether something can be said."""
        return self.verdict != "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one contender did by itself; descriptive, tests nothing.

    Args:
        throughput_per_s, server_cpu_us_per_request: geometric mean over rounds with an ordinary 95 % t interval on
            the log scale; None if there is no number.
        rounds: that count for it; unsettled: those of them before which its warm-up had not ended.
        blocks: all it left; void_blocks: those of them that are not used (void, or their pass or round is).
        requests: right answers in the counted part of the blocks used.
        errors: by kind, of all its blocks.
        peak_memory_bytes: median over its launches of the tree's peak; None if unreadable.
    """

    throughput_per_s: Interval | None
    server_cpu_us_per_request: Interval | None
    rounds: int
    unsettled: int
    blocks: int
    void_blocks: int
    requests: int
    errors: Mapping[str, int]
    peak_memory_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All that the records support.

    Args:
        method: the version of the judgement.
        pairs: in line-up order, of contenders still in the race.
        estimates: of every entrant, those that are out too (without a number).
        groups: the largest sets of contenders not told apart, fastest first; sets may overlap.
        all_decided: every pair has a verdict.
        warming: contenders whose warm-up had not ended in more than half of their rounds: not compared.
        pauses: in words, who loses how much to pauses of its own.
        rounds: rounds that count; void_rounds: those that were run again.
    """

    method: int
    metric: str
    margin: float
    alpha: float
    pairs: tuple[Pair, ...]
    estimates: Mapping[str, Estimate]
    groups: tuple[tuple[str, ...], ...]
    all_decided: bool
    warming: tuple[str, ...]
    pauses: tuple[str, ...]
    rounds: int
    void_rounds: int


@dataclass(frozen=True, slots=True)
class _Rules:
    """What a pair is judged by: ``last`` says that the race stands at its planned last round."""

    metric: str
    margin: float
    alpha: float
    last: bool
    fixed: bool

    def in_last(self, ran: BoolArray) -> bool:
        """The ordinary t is only right where both ran in every round: a pair that rested stopped by its data."""
        return self.last and (self.fixed or bool(ran.all()))


def judge(
    race: Race,
    *,
    metric: str | None = None,
    margin: float | None = None,
    alpha: float | None = None,
    method: int | None = None,
) -> Verdict:
    """Judges a race, at any time of it; None takes the race's own plan, and the method's version that it was run by.

    Raises:
        BadUsage: unknown metric or version, or a margin or alpha that is no share between 0 and 1.
    """
    plan = race.plan
    margin, alpha = plan.margin if margin is None else margin, plan.alpha if alpha is None else alpha
    for what, given in (("margin", margin), ("alpha", alpha)):
        if not 0 < given < 1:
            raise BadUsage(f"{what} {given} is no share between 0 and 1; 0.01 is 1 %")
    version = known_method(race, method)
    tables = read(race, version)
    done = len(tables.rounds)
    rules = _Rules(
        metric=known(metric or plan.metric),
        margin=margin,
        alpha=alpha,
        last=done >= plan.planned_rounds if plan.rounds_fixed else done == plan.planned_rounds,
        fixed=plan.rounds_fixed,
    )
    both = {name: numbers_of(tables, name) for name in METRICS}
    numbers = both[rules.metric]
    warming = tuple(name for k, name in enumerate(tables.names) if _is_warming(numbers, k))
    pairs = _pairs(tables, numbers, rules, warming)
    return Verdict(
        method=version,
        metric=rules.metric,
        margin=margin,
        alpha=alpha,
        pairs=pairs,
        estimates=_estimates(race, tables, both),
        groups=_groups(_ranking(numbers), pairs),
        all_decided=all(pair.decided for pair in pairs),
        warming=warming,
        pauses=_pauses(both["throughput"], margin),
        rounds=done,
        void_rounds=len(race.rounds) - done,
    )


def _is_warming(numbers: RoundNumbers, k: int) -> bool:
    counts = ~np.isnan(numbers.totals[:, k])
    return int(counts.sum()) >= FLOOR and bool((~numbers.settled[counts, k]).mean() > 0.5)


def _pairs(tables: Tables, numbers: RoundNumbers, rules: _Rules, warming: Sequence[str]) -> tuple[Pair, ...]:
    logs, columns = numbers.log_speeds(numbers.totals), list(combinations(range(len(numbers.names)), 2))
    drafts = [_Draft.of(logs[:, a] - logs[:, b], rules.in_last(tables.ran[:, [a, b]])) for a, b in columns]
    typical = _typical_ratios(numbers, columns)
    told_apart = holm([d.p(rules) for d in drafts], rules.alpha)
    made = []
    for (a, b), draft, fallen, between_pauses in zip(columns, drafts, told_apart, typical, strict=True):
        both = ~np.isnan(logs[:, a] - logs[:, b])
        spent_s = float(tables.seconds[both].sum())
        half = draft.half(rules.alpha / len(columns), rules)
        limit = math.log1p(rules.margin)
        low, high = draft.mean - half, draft.mean + half
        within = -limit < low and high < limit
        note = ", ".join(name for name in (numbers.names[a], numbers.names[b]) if name in warming)
        word = ("faster" if draft.mean > 0 else "slower") if fallen else "same" if within else "undecided"
        word = "undecided" if note else word
        more = draft.more_rounds(rules, len(columns)) if word == "undecided" and not note else None
        made.append(
            Pair(
                a=numbers.names[a],
                b=numbers.names[b],
                metric=rules.metric,
                ratio=math.exp(draft.mean),
                low=math.exp(low) if math.isfinite(half) else math.nan,
                high=math.exp(high) if math.isfinite(half) else math.nan,
                verdict=word,
                rounds=draft.n,
                spent_s=spent_s,
                margin=rules.margin,
                within_margin=within,
                median_ratio=between_pauses,
                more_rounds=more,
                more_s=None if more is None or not draft.n else more * spent_s / draft.n,
                note=f"still warming up: {note}" if note else "",
            )
        )
    return tuple(made)


def _typical_ratios(numbers: RoundNumbers, columns: Sequence[tuple[int, int]]) -> list[float]:
    """Per pair: the round's median over passes of the log ratio within a pass, averaged over rounds; NaN if none."""
    if not columns:
        return []
    logs, (first, second) = numbers.log_speeds(numbers.passes), np.array(columns).T
    by_round = median_over_passes(logs[:, :, first] - logs[:, :, second])
    return [float(np.exp(r.mean())) if len(r) else math.nan for r in (c[~np.isnan(c)] for c in by_round.T)]


@dataclass(frozen=True, slots=True)
class _Draft:
    """One pair's log ratios: how many, their mean, the mean's standard error; ``last`` as in ``p_value``."""

    n: int
    mean: float
    error: float
    last: bool

    @classmethod
    def of(cls, differences: FloatArray, last: bool) -> _Draft:
        values = differences[~np.isnan(differences)]
        n = len(values)
        mean = float(values.mean()) if n else math.nan
        return cls(n, mean, float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan, last)

    def p(self, rules: _Rules) -> float:
        t = abs(self.mean) / self.error if self.error else math.inf if self.mean else 0.0
        return p_value(self.n, t, last=self.last, fixed=rules.fixed)

    def half(self, alpha: float, rules: _Rules) -> float:
        k = factor(self.n, alpha, last=self.last, fixed=rules.fixed)
        return k * self.error if math.isfinite(k) else math.inf

    def more_rounds(self, rules: _Rules, pairs: int) -> int | None:
        """Rounds until this mean and scatter would exclude 1 or fit into the margin, whichever is sooner."""
        aim = max(abs(self.mean), math.log1p(rules.margin) - abs(self.mean))
        if rules.fixed or self.n < 3 or not aim > 0:
            return None
        scatter, alpha = self.error * math.sqrt(self.n), ANYTIME_SHARE * rules.alpha / pairs

        def enough(n: int) -> bool:
            return critical(n, alpha) * scatter / math.sqrt(n) < aim

        low, high = max(self.n, FLOOR - 1), FORECAST_MOST
        if not enough(high):
            return None
        while high - low > 1:  # the half-width falls with n; the current n is not enough
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high - self.n


def _ranking(numbers: RoundNumbers) -> tuple[str, ...]:
    """Contenders with a number, fastest first, by their mean log ratio to the others: paired, so drift cancels."""
    logs = numbers.log_speeds(numbers.totals)
    places = [k for k in range(len(numbers.names)) if not np.isnan(logs[:, k]).all()]
    score = dict.fromkeys(places, 0.0)
    for a, b in combinations(places, 2):
        difference = logs[:, a] - logs[:, b]
        if not np.isnan(difference).all():
            mean = float(np.nanmean(difference))
            score[a], score[b] = score[a] + mean, score[b] - mean
    return tuple(numbers.names[k] for k in sorted(places, key=lambda k: -score[k]))


def _groups(ranking: Sequence[str], pairs: Sequence[Pair]) -> tuple[tuple[str, ...], ...]:
    """The maximal sets of which no two are told apart (Bron & Kerbosch 1973), each and all fastest first."""
    apart = {frozenset((p.a, p.b)) for p in pairs if p.verdict in ("faster", "slower")}
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

    found = [tuple(sorted(group, key=place.__getitem__)) for group in largest(set(), set(ranking), set()) if group]
    return tuple(sorted(found, key=lambda group: [place[name] for name in group]))


def _estimates(race: Race, tables: Tables, both: Mapping[str, RoundNumbers]) -> dict[str, Estimate]:
    column = {name: k for k, name in enumerate(tables.names)}
    left: Counter[str] = Counter()
    errors: dict[str, Counter[str]] = {entrant.name: Counter() for entrant in race.entrants}
    memory: dict[str, list[int]] = {entrant.name: [] for entrant in race.entrants}
    for this in race.rounds:
        for block in this.blocks:
            left[block.contender] += 1
            if block.errors:
                errors[block.contender].update(block.errors)
        for launch in this.launches:
            if launch.peak_memory_bytes is not None:
                memory[launch.contender].append(launch.peak_memory_bytes)
    made = {}
    for entrant in race.entrants:
        name, k = entrant.name, column.get(entrant.name)
        counts = ~np.isnan(both["throughput"].totals[:, k]) if k is not None else np.zeros(0, dtype=bool)
        used = int((tables.cells[:, :, k, 0] > 0).sum()) if k is not None else 0
        made[name] = Estimate(
            throughput_per_s=_interval(both["throughput"].totals[:, k]) if k is not None else None,
            server_cpu_us_per_request=_interval(both["cpu"].totals[:, k]) if k is not None else None,
            rounds=int(counts.sum()),
            unsettled=int((~tables.settled[counts, k]).sum()) if k is not None else 0,
            blocks=left[name],
            void_blocks=left[name] - used,
            requests=int(tables.cells[:, :, k, 0].sum()) if k is not None else 0,
            errors=dict(errors[name]),
            peak_memory_bytes=int(median(memory[name])) if memory[name] and k is not None else None,
        )
    return made


def _interval(numbers: FloatArray) -> Interval | None:
    logs = np.log(numbers[~np.isnan(numbers)])
    n = len(logs)
    if n == 0:
        return None
    middle = float(logs.mean())
    half = quantile(n, DESCRIPTIVE) * float(logs.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Interval(estimate=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half))


def _pauses(numbers: RoundNumbers, margin: float) -> tuple[str, ...]:
    """Who loses how much to pauses of its own: whose totals fall behind its median over passes further than others'.

    The machine's pauses hit all alike, so a contender is held against the one that loses least, over the rounds in
    which both ran; a note wants more than the margin and four standard errors: it is said unasked, of any contender.
    """
    losses = np.log(numbers.medians) - np.log(numbers.totals)
    mean = [float(column[~np.isnan(column)].mean()) if not np.isnan(column).all() else math.nan for column in losses.T]
    ran = [k for k, loss in enumerate(mean) if not math.isnan(loss)]
    if len(ran) < 2:
        return ()
    least = min(ran, key=lambda k: mean[k])
    notes = []
    for k in ran:
        excess = losses[:, k] - losses[:, least]
        excess = excess[~np.isnan(excess)]
        n = len(excess)
        if k == least or n < FLOOR or excess.mean() <= math.log1p(margin):
            continue
        if excess.mean() > 4 * excess.std(ddof=1) / math.sqrt(n):
            own, others = (max(-100 * math.expm1(-mean[at]), 0.0) for at in (k, least))
            notes.append(
                f"{numbers.names[k]} loses {own:.1f} % of its throughput to pauses "
                f"({numbers.names[least]}: {others:.1f} %); totals, which decide, count them"
            )
    return tuple(notes)


def still_needed(verdict: Verdict, race: Race) -> frozenset[str]:
    """Contenders that must go on: those with an undecided pair, and one reference so that drift is seen.

    The reference is the contender with the most rounds, the first of the line-up among equals; nobody where all is
    decided. A pair with a contender that never gets warm asks for no more rounds. A fixed design needs all to its end.
    """
    names = [entrant.name for entrant in race.entrants if not entrant.out]
    if race.plan.rounds_fixed:
        return frozenset(names if verdict.rounds < race.plan.planned_rounds else ())
    asking = {name for pair in verdict.pairs if not pair.decided and not pair.note for name in (pair.a, pair.b)}
    if not asking:
        return frozenset()
    return frozenset(asking | {max(names, key=lambda name: verdict.estimates[name].rounds)})
