"""The pairs of a race by one metric: each one's numbers, interval and verdict, all of them at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from dragstrip.analysis.fitness import UnfitReason
from dragstrip.analysis.group_sequential import level_within, stage_of, stages_until
from dragstrip.analysis.interval import EARLY, FLOOR, Compared, FloatArray, Interval, decide, early_half
from dragstrip.analysis.numbers import NumberTables, RoundNumbers, median_over_passes
from dragstrip.analysis.simultaneous import pair_variances, range_factor
from dragstrip.analysis.unequal_disturbance import Disturbed, unevenness
from dragstrip.metrics import KNOWN, PairVerdict

#: A forecast of the rounds still missing looks no further than this.
MAX_FORECAST = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair(Compared):
    """Two contenders compared over the rounds in which both ran.

    Args:
        interval: a's speed over b's, geometric mean over rounds, NaN if they never ran together. Its bounds hold at
            once for all pairs of the race, however often it is looked at; NaN without an interval.
        verdict: of a.
        rounds, spent_s: rounds in which both ran, and how long those took.
        within_margin: the interval lies within the margin; together with "faster": faster by less than that.
        median_ratio: the same ratio by the median over passes: between pauses.
        more_rounds, more_s: forecast of rounds and seconds until a decision; None if decided or unforeseeable.
        unfit: why no verdict is given, apart from the interval: each reason with its contenders.
        lasting: unfit for a reason that more rounds would not change.
        typical: ratio and interval are of the median over passes: between pauses, which are ignored.
        disturbed: which contender the machine disturbed more and by how much, if the difference is large
            enough to matter: the interval is widened for it. None otherwise.
    """

    a: str
    b: str
    metric: str
    rounds: int
    spent_s: float
    margin: float
    within_margin: bool
    median_ratio: float
    more_rounds: int | None = None
    more_s: float | None = None
    unfit: tuple[tuple[UnfitReason, tuple[str, ...]], ...] = ()
    lasting: bool = False
    typical: bool = False
    disturbed: Disturbed | None = None

    @property
    def widened(self) -> float:
        """By how much the interval is wider for what disturbed one more than the other, as a natural logarithm."""
        return self.disturbed.widened if self.disturbed else 0.0


@dataclass(frozen=True, slots=True)
class Rules:
    """What pairs are judged by.

    Args:
        planned: the last round, fixed before the race; extensions: the same before each extension of the budget.
        last: the race has reached it.
        fixed: the number of rounds was fixed before the race.
        typical: by the median over passes instead of by totals.
    """

    metric: str
    margin: float
    alpha: float
    planned: int
    last: bool
    fixed: bool
    typical: bool = False
    extensions: tuple[int, ...] = ()

    def level(self, n: int, *, ahead: bool = False) -> float:
        """The family's nominal level at a pair's round ``n``; 0 while nothing is decided.

        Args:
            ahead: a future round, which may be beyond the planned last one. It is taken as planned for, in steps of
                powers of two, because the cost of that many looks is computed once for each length.
        """
        if self.fixed:
            return self.alpha if n >= FLOOR and (self.last or ahead) else 0.0
        stages = self.stages(n)
        if ahead and n > self.planned:
            stages = (*self.extensions, self.planned, 1 << (n - 1).bit_length())
        alpha, planned = stage_of(n, self.alpha, stages)
        return level_within(n, alpha, planned)

    def stages(self, n: int) -> tuple[int, ...]:
        """The last round of each stage up to the one that round ``n`` is in.

        A race that reaches its planned last round with budget left goes on as if extended, to a multiple that is fixed
        before the race, as the levels of all looks are.
        """
        return stages_until(n, (*self.extensions, self.planned))


def pairs_of(
    tables: NumberTables,
    numbers: RoundNumbers,
    rules: Rules,
    unfit: Mapping[str, UnfitReason],
    lasting: Set[str] = frozenset(),
) -> tuple[Pair, ...]:
    """All pairs by one metric, with intervals that hold for all of them at once.

    Args:
        unfit: contenders that get no verdict, with the reason; lasting: those that more rounds would not make fit.
    """
    columns = list(combinations(range(len(numbers.names)), 2))
    if not columns:
        return ()
    first, second = np.array(columns).T
    logs, passes = numbers.log_speeds(numbers.totals), numbers.log_speeds(numbers.passes)
    between_pauses = median_over_passes(passes[:, :, first] - passes[:, :, second])
    by_median = rules.typical or bool(KNOWN[rules.metric].quantile)  # quantiles can't be added up
    decisive = between_pauses if by_median else logs[:, first] - logs[:, second]
    decisive, drafts = _with_earlier_stages(tables, decisive, columns, rules)
    made = []
    for at, (draft, (a, b)) in enumerate(zip(drafts, columns, strict=True)):
        names = numbers.names[a], numbers.names[b]
        both, between = ~np.isnan(decisive[:, at]), between_pauses[:, at]
        usual = between[~np.isnan(between)]
        reasons = grouped([name for name in names if name in unfit], unfit)
        half = draft.half(rules)
        verdict, within = decide(draft.mean, half, rules.margin)
        verdict = PairVerdict.UNDECIDED if reasons else verdict
        spent_s = float(tables.seconds[both].sum())
        more = draft.more_rounds(rules) if verdict is PairVerdict.UNDECIDED and not reasons else None
        made.append(
            Pair(
                a=names[0],
                b=names[1],
                metric=rules.metric,
                interval=Interval.of_logs(draft.mean, half, 1 - rules.alpha),
                verdict=verdict,
                rounds=draft.n,
                spent_s=spent_s,
                margin=rules.margin,
                within_margin=within,
                median_ratio=float(np.exp(usual.mean())) if len(usual) else math.nan,
                more_rounds=more,
                more_s=None if more is None or not draft.n else more * spent_s / draft.n,
                unfit=reasons,
                lasting=not lasting.isdisjoint(names),
                typical=rules.typical,
                disturbed=draft.disturbed,
            )
        )
    return tuple(made)


def grouped(names: Sequence[str], unfit: Mapping[str, UnfitReason]) -> tuple[tuple[UnfitReason, tuple[str, ...]], ...]:
    """Why a pair gets no verdict: each reason once, with its contenders; empty without names."""
    reasons = dict.fromkeys(unfit[name] for name in names)
    return tuple((why, tuple(name for name in names if unfit[name] == why)) for why in reasons)


def _with_earlier_stages(
    tables: NumberTables, decisive: FloatArray, columns: Sequence[tuple[int, int]], rules: Rules
) -> tuple[FloatArray, list[_DraftPair]]:
    """Each pair's log ratios and draft; a pair that only the end of an earlier stage decides is left as it was then.

    Looks beyond a planned last round have little of alpha. What was decided with more of it stays so.
    """
    drafts = _jointly(tables, decisive, columns, rules)
    if rules.fixed:
        return decisive, drafts
    decisive = decisive.copy()
    for last in reversed(rules.stages(max(draft.n for draft in drafts))[:-1]):
        open_ = [at for at, draft in enumerate(drafts) if draft.n > last and not draft.decides(rules)]
        if not open_:
            continue
        count = (~np.isnan(decisive)).cumsum(axis=0)
        then = np.where(count <= last, decisive, np.nan)
        for at, draft in enumerate(_jointly(tables, then, columns, rules)):
            if at in open_ and draft.decides(rules):
                drafts[at], decisive[:, at] = draft, then[:, at]
    return decisive, drafts


def _jointly(
    tables: NumberTables, decisive: FloatArray, columns: Sequence[tuple[int, int]], rules: Rules
) -> list[_DraftPair]:
    """Each pair's log ratios, its variance from all pairs', and whether the machine was uneven to it."""
    drafts = [_DraftPair.of(decisive[:, at]) for at in range(len(columns))]
    contenders = len({k for pair, draft in zip(columns, drafts, strict=True) if draft.n for k in pair})
    squares = [draft.error**2 * draft.n for draft in drafts]
    variances = pair_variances(columns, squares, [draft.n for draft in drafts], len(tables.names))
    joint = []
    for at, ((a, b), draft, fitted) in enumerate(zip(columns, drafts, variances, strict=True)):
        both = ~np.isnan(decisive[:, at])
        lost, names = (tables.lost[both, a], tables.lost[both, b]), (tables.names[a], tables.names[b])
        joint.append(
            replace(
                draft,
                error=math.sqrt(fitted.variance / draft.n) if draft.n > 1 else math.nan,
                freedom=fitted.freedom,
                contenders=max(contenders, 2),
                disturbed=unevenness(names, *lost, rules.metric, rules.margin),
            )
        )
    return joint


@dataclass(frozen=True, slots=True)
class _DraftPair:
    """One pair's log ratios: how many, their mean, the mean's standard error.

    Args:
        freedom: degrees of freedom of the error.
        contenders: how many there are in all pairs: their intervals hold at once.
        disturbed: what the machine took from one of the two more than from the other.
    """

    n: int
    mean: float
    error: float
    freedom: float = math.nan
    contenders: int = 2
    disturbed: Disturbed | None = None

    @classmethod
    def of(cls, differences: FloatArray) -> _DraftPair:
        values = differences[~np.isnan(differences)]
        n = len(values)
        mean = float(values.mean()) if n else math.nan
        return cls(n, mean, float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan)

    @property
    def widened(self) -> float:
        return self.disturbed.widened if self.disturbed else 0.0

    def half(self, rules: Rules) -> float:
        """Half the interval's width on the log scale; infinite while there is none."""
        level = rules.level(self.n)
        if not level or not self.error >= 0:
            return math.inf
        half = range_factor(self.contenders, self.freedom, level) * self.error + self.widened
        return half if self.n >= FLOOR else early_half(self.mean, half)

    def decides(self, rules: Rules) -> bool:
        """Whether its interval is a verdict."""
        return decide(self.mean, self.half(rules), rules.margin)[0] is not PairVerdict.UNDECIDED

    def more_rounds(self, rules: Rules) -> int | None:
        """Rounds until this mean and scatter would exclude 1 or fit into the margin, whichever is sooner."""
        aim = max(abs(self.mean), math.log1p(rules.margin) - abs(self.mean))
        aim -= self.widened
        if rules.fixed or self.n < 3 or not aim > 0:
            return None
        scatter = self.error * math.sqrt(self.n)

        def enough(n: int) -> bool:
            half = self._foreseen(n, rules) * scatter / math.sqrt(n)
            return half < aim if n >= FLOOR else early_half(self.mean, half + self.widened) < math.inf

        low, high = max(self.n, EARLY - 1), MAX_FORECAST
        if not enough(high):
            return None
        while high - low > 1:  # the half-width falls with n; the current n is not enough
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high - self.n

    def _foreseen(self, n: int, rules: Rules) -> float:
        """The interval's factor at a future round; beyond the planned last one, for a race planned for longer."""
        level = rules.level(n, ahead=True)
        freedom = self.freedom * (n - 1) / max(self.n - 1, 1)
        return range_factor(self.contenders, freedom, level) if level else math.inf
