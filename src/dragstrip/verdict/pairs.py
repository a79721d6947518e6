"""The pairs of a race by one metric: each one's numbers, interval and verdict, all of them at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from dragstrip.metrics import KNOWN
from dragstrip.verdict.evidence import FLOOR, factor, holm, p_value
from dragstrip.verdict.looks import factor_within, p_within
from dragstrip.verdict.numbers import BoolArray, FloatArray, RoundNumbers, Tables, median_over_passes

#: A forecast of the rounds still missing looks no further than this.
FORECAST_MOST = 20_000


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
        typical: ratio and interval are of the median over passes: between pauses, which are ignored.
        disturbed: in words, whom the machine disturbed more than the other and by how much, where that is unequal and
            large enough to matter; the interval is widened for it. "" where it is not.
        widened: by how much, as a ratio's natural logarithm added at both ends; 0 where it is not.
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
    typical: bool = False
    disturbed: str = ""
    widened: float = 0.0

    @property
    def decided(self) -> bool:
        """Whether something can be said."""
        return self.verdict != "undecided"


@dataclass(frozen=True, slots=True)
class Rules:
    """What pairs are judged by.

    Args:
        method: its version. Up to 2, looks cost what they would in a race without end; from 3 on what they cost up to
            the planned last round.
        planned: that round, fixed before the race.
        last: the race stands at it.
        fixed: the number of rounds was fixed before the race.
        typical: by the median over passes instead of by totals.
    """

    metric: str
    margin: float
    alpha: float
    method: int
    planned: int
    last: bool
    fixed: bool
    typical: bool = False

    def in_last(self, ran: BoolArray) -> bool:
        """The ordinary t is only right where both ran in every round: a pair that rested stopped by its data."""
        return self.last and (self.fixed or bool(ran.all()))


def pairs_of(tables: Tables, numbers: RoundNumbers, rules: Rules, warming: Sequence[str]) -> tuple[Pair, ...]:
    """All pairs by one metric; told apart by Holm's step-down, with intervals that hold for all of them at once."""
    columns = list(combinations(range(len(numbers.names)), 2))
    if not columns:
        return ()
    first, second = np.array(columns).T
    logs, passes = numbers.log_speeds(numbers.totals), numbers.log_speeds(numbers.passes)
    between_pauses = median_over_passes(passes[:, :, first] - passes[:, :, second])
    by_median = rules.typical or bool(KNOWN[rules.metric].quantile)  # quantiles can't be added up
    decisive = between_pauses if by_median else logs[:, first] - logs[:, second]
    drafts = [_Draft.of(decisive[:, at], rules.in_last(tables.ran[:, list(pair)])) for at, pair in enumerate(columns)]
    told_apart = holm([d.p(rules) for d in drafts], rules.alpha)
    made = []
    for at, ((a, b), draft, fallen) in enumerate(zip(columns, drafts, told_apart, strict=True)):
        both, between = ~np.isnan(decisive[:, at]), between_pauses[:, at]
        usual = between[~np.isnan(between)]
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
                median_ratio=float(np.exp(usual.mean())) if len(usual) else math.nan,
                more_rounds=more,
                more_s=None if more is None or not draft.n else more * spent_s / draft.n,
                note=f"still warming up: {note}" if note else "",
                typical=rules.typical,
            )
        )
    return tuple(made)


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

    def p(self, rules: Rules) -> float:
        t = abs(self.mean) / self.error if self.error else math.inf if self.mean else 0.0
        if rules.fixed or rules.method < 3:
            return p_value(self.n, t, last=self.last, fixed=rules.fixed)
        return p_within(self.n, t, rules.planned)

    def half(self, alpha: float, rules: Rules) -> float:
        if rules.fixed or rules.method < 3:
            k = factor(self.n, alpha, last=self.last, fixed=rules.fixed)
        else:
            k = factor_within(self.n, alpha, rules.planned)
        return k * self.error if math.isfinite(k) else math.inf

    def more_rounds(self, rules: Rules, pairs: int) -> int | None:
        """Rounds until this mean and scatter would exclude 1 or fit into the margin, whichever is sooner."""
        aim = max(abs(self.mean), math.log1p(rules.margin) - abs(self.mean))
        if rules.fixed or self.n < 3 or not aim > 0:
            return None
        scatter, alpha = self.error * math.sqrt(self.n), rules.alpha / pairs

        def enough(n: int) -> bool:
            return _foreseen(n, alpha, rules) * scatter / math.sqrt(n) < aim

        low, high = max(self.n, FLOOR - 1), FORECAST_MOST
        if not enough(high):
            return None
        while high - low > 1:  # the half-width falls with n; the current n is not enough
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high - self.n


def _foreseen(n: int, alpha: float, rules: Rules) -> float:
    """The interval's factor at a round to come; beyond the planned last one that of a race planned for longer."""
    if rules.method < 3:
        return factor(n, alpha, last=False, fixed=False)
    # Rounded up to a power of two: what so many looks cost is worked out once for each length.
    return factor_within(n, alpha, max(rules.planned, 1 << (n - 1).bit_length()))
