"""Two stored races compared: each contender's ratio of now to then, with an interval. Pure; needs no engine.

Method: ``docs/METHOD.md``, "Two races". The unit is the launch, as in one race. If a contender that did not change
ran in both, each round's number is taken relative to that contender's in the same round: whatever the machine did to
both between the races cancels. If there is none, the machine's own change is in the ratio, and the result says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

import numpy as np

from dragstrip.analysis.columns import by_column
from dragstrip.analysis.comparability import Unlike, unchanged, unlike
from dragstrip.analysis.fitness import UnfitReason, choose, unfit
from dragstrip.analysis.group_sequential import factor_within
from dragstrip.analysis.interval import (
    EARLY,
    EARLY_HALF,
    FLOOR,
    Compared,
    FloatArray,
    Interval,
    decide,
    quantile,
    student_t,
)
from dragstrip.analysis.judgement import judge_column
from dragstrip.analysis.numbers import RoundNumbers, round_numbers
from dragstrip.analysis.pairs import grouped
from dragstrip.errors import BadUsage
from dragstrip.record import Race
from dragstrip.requested import title_of

#: Two races of the same servers differ by more than their intervals say: each by this much, as a standard deviation of
#: a ratio's natural logarithm. More rounds of either don't make it less.
BETWEEN_RACES = 0.004

#: Degrees of freedom of what is known: its t is as good as normal.
MANY = 1e9


class NoInterval(StrEnum):
    """Why a change has no interval; ``report.comparison`` has the words."""

    FEW_ROUNDS = "few rounds"  #: less of one of the races than decide anything
    CUT_OFF = "cut off"  #: a race with a fixed number of rounds ended before it
    UNFIT = "unfit"  #: it, or the reference, gets no verdict in one of the races


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Compared):
    """One contender, now against then.

    Args:
        interval: its speed now over its speed then, above 1 is better now (also for CPU: less is better); NaN if one of
            the races has no number. Its bounds hold at once for all contenders compared.
        rounds_old, rounds_new: launches that count.
        against: the contender relative to which it was taken, "" if it was taken by itself.
        lack: why no interval exists; None if one does. unfit: each reason with its contenders, if that is why.
    """

    name: str
    rounds_old: int
    rounds_new: int
    against: str = ""
    lack: NoInterval | None = None
    unfit: tuple[tuple[UnfitReason, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two races, compared.

    Args:
        reference: the contender that did not change and that the others are taken relative to; None if there is none.
        drift: what the reference itself did, taken by itself: the machine's change; None without a reference.
        changes: the others that ran in both, in the new race's order.
        fallen: contenders that had numbers then and are out now, with the reason.
        only_old, only_new: names that are in one of the races alone.
        unlike: in what the races differ.
        fixed: both had their number of rounds fixed, so the interval is Welch's; otherwise it is the wider one that
            holds although the races were stopped by what they saw.
        requested: what the new race requests, in a line.
    """

    old: str
    new: str
    metric: str
    margin: float
    alpha: float
    reference: str | None
    drift: Change | None
    changes: tuple[Change, ...]
    fallen: tuple[tuple[str, str], ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    unlike: tuple[Unlike, ...]
    fixed: bool
    requested: str

    @property
    def comparable(self) -> bool:
        """Whether nothing speaks against comparing them."""
        return not any(unlike.weight == "blocks" for unlike in self.unlike)


def compare(
    old: Race,
    new: Race,
    *,
    metric: str | None = None,
    margin: float | None = None,
    reference: str | None = None,
    alpha: float | None = None,
) -> Comparison:
    """Compares two races; what speaks against it is in ``unlike``, to be minded by the caller.

    Args:
        metric, margin, alpha: None for the new race's own.
        reference: a name, "" for none, or None for the unchanged contender with the most rounds.

    Raises:
        BadUsage: it is one race, they share no contender, or the reference is not in both.
    """
    for race in (old, new):
        if len(race.columns) > 1:
            raise BadUsage(f"race {race.id} has several columns, which are compared one by one (compare_columns)")
    if old.id == new.id:
        raise BadUsage(f"race {old.id} is compared with itself; name two races (`dragstrip runs` lists them)")
    metric, margin = choose(new, metric).metric, new.plan.margin if margin is None else margin
    alpha = new.plan.alpha if alpha is None else alpha
    then, now = (_Side(race, round_numbers(race, metric), _unfit(race, metric)) for race in (old, new))
    sides = (then, now)
    names = [entrant.name for entrant in new.entrants if all(entrant.name in side.numbers.names for side in sides)]
    before, after = ({entrant.name: entrant for entrant in race.entrants} for race in (old, new))
    fallen = tuple((n, e.out) for n, e in after.items() if e.out and n in before and not before[n].out)
    if not names and not fallen:
        raise BadUsage(f"races {old.id} and {new.id} share no contender: {_few(before)}, then {_few(after)}")
    chosen = _reference(sides, unchanged(old, new), names, reference)
    compared = [name for name in names if name != chosen]
    change = partial(_change, sides, alpha=alpha, compared=max(len(compared), 1), margin=margin)
    return Comparison(
        old=old.id,
        new=new.id,
        metric=metric,
        margin=margin,
        alpha=alpha,
        reference=chosen,
        drift=change(chosen, None) if chosen else None,
        changes=tuple(change(name, chosen) for name in compared),
        fallen=fallen,
        only_old=tuple(name for name in before if name not in after),
        only_new=tuple(name for name in after if name not in before),
        unlike=unlike(old, new),
        fixed=all(side.race.plan.rounds_fixed for side in sides),
        requested=title_of(new.columns[0].workload, new.columns[0].definition),
    )


def compare_columns(
    old: Race, new: Race, *, metric: str | None = None, margin: float | None = None, reference: str | None = None
) -> tuple[tuple[str, Comparison], ...]:
    """Two races compared column by column; of two races of one column: as ``compare`` does, under no name.

    Columns are matched by workload, and of one workload's rates the lower with the lower. All intervals of all columns
    hold at once: each column has an equal part of the error rate.

    Raises:
        BadUsage: they share no workload; otherwise as ``compare``.
    """
    both, alpha = columns_of_both(old, new), new.plan.alpha
    compare_column = partial(compare, metric=metric, margin=margin, reference=reference, alpha=alpha / len(both))
    compared = [(name, compare_column(then, now)) for name, then, now in both]
    return tuple((name, replace(comparison, alpha=alpha)) for name, comparison in compared)


def columns_of_both(old: Race, new: Race) -> tuple[tuple[str, Race, Race], ...]:
    """The name of each column that both races have, matched as in ``compare_columns``, with the column of each race.

    Raises:
        BadUsage: they share no workload.
    """
    if len(old.columns) == len(new.columns) == 1:
        return (("", old, new),)
    then, now = (_by_place(race) for race in (old, new))
    both = [place for place in now if place in then]
    if not both:
        workloads = (_few(dict.fromkeys(workload for workload, _ in places)) for places in (then, now))
        raise BadUsage(f"races {old.id} and {new.id} share no workload: {', then '.join(workloads)}")
    return tuple((now[place].columns[0].name, then[place], now[place]) for place in both)


def _by_place(race: Race) -> dict[tuple[str, int], Race]:
    """Each column, by its workload and its rate's place among that workload's."""
    columns: dict[tuple[str, int], Race] = {}
    for column in sorted(by_column(race), key=lambda column: column.load.rate_per_s):
        columns[column.workload, sum(workload == column.workload for workload, _ in columns)] = column
    return columns


@dataclass(frozen=True, slots=True)
class _Side:
    """One race's numbers, how it was stopped, and its contenders that get no verdict."""

    race: Race
    numbers: RoundNumbers
    unfit: Mapping[str, UnfitReason]

    def logs(self, name: str, against: str | None) -> FloatArray:
        """Per round the log speed, relative to another's in that round; rounds without a number are left out."""
        speeds = self.numbers.log_speeds(self.numbers.totals)
        logs = speeds[:, self.numbers.names.index(name)]
        if against is not None:
            logs = logs - speeds[:, self.numbers.names.index(against)]
        return np.asarray(logs[~np.isnan(logs)])

    @property
    def complete(self) -> bool:
        """Whether the number of rounds was fixed, and all of them have run."""
        plan = self.race.plan
        return plan.rounds_fixed and len(self.numbers.rounds) >= plan.planned_rounds

    @property
    def least(self) -> int:
        """The fewest rounds that have an interval."""
        return FLOOR if self.race.plan.rounds_fixed else EARLY

    def half(self, logs: FloatArray, alpha: float) -> float:
        """Half the width of the interval of these rounds' mean; infinite if there is none."""
        n, error = len(logs), _error(logs)
        if self.race.plan.rounds_fixed:
            return quantile(n, alpha) * error if self.complete else math.inf
        half = factor_within(n, alpha, self.race.plan.planned_rounds) * error
        return half if n >= FLOOR else max(half, EARLY_HALF)


def _unfit(race: Race, metric: str) -> dict[str, UnfitReason]:
    """Contenders that get no verdict by this metric."""
    warming = judge_column(race, metric=metric).warming
    return unfit(race, metric) | dict.fromkeys(warming, UnfitReason.WARMING)


def _error(logs: FloatArray) -> float:
    return float(logs.std(ddof=1)) / math.sqrt(len(logs))


def _reference(
    sides: Sequence[_Side], candidates: Sequence[str], names: Sequence[str], asked: str | None
) -> str | None:
    if asked is not None:
        if asked and asked not in names:
            raise BadUsage(f"reference {asked!r} does not have numbers in both races; these do: {_few(names)}")
        return asked or None
    open_ = [name for name in candidates if name in names]
    # A single common contender is compared, so it can't be the reference as well.
    if not open_ or len(names) < 2:
        return None
    return max(open_, key=lambda name: min(len(side.logs(name, None)) for side in sides))


def _change(
    sides: tuple[_Side, _Side], name: str, against: str | None, *, alpha: float, compared: int, margin: float
) -> Change:
    """One contender's change; ``alpha``: the chance of a false one among all ``compared``."""
    old, new = (side.logs(name, against) for side in sides)
    mean = float(new.mean() - old.mean()) if len(old) and len(new) else math.nan
    reasons = {who: why for side in sides for who, why in side.unfit.items() if who in (name, against)}
    half, lack = (math.inf, NoInterval.UNFIT) if reasons else _half(sides, old, new, alpha / compared)
    verdict, _ = decide(mean, half, margin)
    return Change(
        name=name,
        interval=Interval.of_logs(mean, half, 1 - alpha),
        verdict=verdict,
        rounds_old=len(old),
        rounds_new=len(new),
        against=against or "",
        lack=lack,
        unfit=grouped(list(reasons), reasons),
    )


def _half(
    sides: tuple[_Side, _Side], old: FloatArray, new: FloatArray, alpha: float
) -> tuple[float, NoInterval | None]:
    """Half the interval's width on the log scale, infinite with the reason if there is none.

    Fixed numbers of rounds: Welch (1947), with the known scatter between races as a third source. Otherwise the sum of
    each race's own half-width that holds at every look, with half the error each: wider, and valid however each of the
    races was stopped. The scatter between the two is independent of both, and added as such.
    """
    both = tuple(zip(sides, (old, new), strict=True))
    if any(len(logs) < side.least for side, logs in both):
        return math.inf, NoInterval.FEW_ROUNDS
    if all(side.complete for side in sides):
        return welch_half(old, new, alpha), None
    half = joined([side.half(logs, alpha / 2) for side, logs in both], alpha)
    return half, None if math.isfinite(half) else NoInterval.CUT_OFF


def joined(halves: Sequence[float], alpha: float) -> float:
    """Half the width of the difference's interval, from those of two races, each of which holds with half of alpha."""
    return math.hypot(sum(halves), student_t(MANY, alpha) * math.sqrt(2) * BETWEEN_RACES)


def welch_half(old: FloatArray, new: FloatArray, alpha: float) -> float:
    """Half the width of Welch's interval of the difference of two races' means."""
    squares = [_error(logs) ** 2 for logs in (old, new)]
    total = sum(squares) + 2 * BETWEEN_RACES**2
    own = sum(square**2 / (len(logs) - 1) for square, logs in zip(squares, (old, new), strict=True))
    return student_t(min(total**2 / own, MANY) if own else MANY, alpha) * math.sqrt(total)


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:4]) + (" …" if len(listed) > 4 else "") or "none"
