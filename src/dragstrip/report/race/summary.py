"""What terminal, page and JSON all show of a race: its columns, contenders fastest first, tie groups, valid pairs.

A void check that names a contender (the generator was its limit, its responses were incorrect) does not affect
the others' ratios. A void check that names none is void for the whole race.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import combinations
from typing import Self
from urllib.parse import urlsplit

from dragstrip.analysis import ColumnVerdict, Estimate, Interval, Pair, UnfitReason, Verdict, ahead, by_column, judge
from dragstrip.metrics import KNOWN
from dragstrip.record import Ending, Entrant, Race
from dragstrip.report import figures
from dragstrip.report.race import latency
from dragstrip.requested import DescribedRequest, described, title_of
from dragstrip.validity import Check, Status, inspect

#: This many pairs that the machine disturbed unequally have a sentence each; more have one together.
DISTURBED_EACH = 2


class Standing(StrEnum):
    """What a race, or a column of it, came to; badge, headline, files and exit code show this one value."""

    DECIDED = "decided"  #: a pair has a verdict
    OPEN = "open"  #: none yet, but more rounds may give one
    NOT_COMPARABLE = "not comparable"  #: none, and no number of rounds would give one
    EMPTY = "no numbers"
    TOO_FEW = "too few contenders"
    VOID = "void"

    @property
    def exit_code(self) -> int:
        """Of a race that came to this, apart from its thresholds."""
        return {Standing.DECIDED: 0, Standing.OPEN: 0, Standing.TOO_FEW: 1}.get(self, 3)

    @property
    def fruitless(self) -> bool:
        """Whether nothing that was measured is a result."""
        return self in (Standing.NOT_COMPARABLE, Standing.EMPTY, Standing.VOID)


def ended(race: Race, verdict: ColumnVerdict | Verdict) -> Ending:
    """How it ended, as its record supports it: an earlier version called races decided that compared nothing."""
    unfit = any(pair.unfit for pair in verdict.pairs if not pair.decided)
    return Ending.NOT_COMPARABLE if race.finished is Ending.DECIDED and unfit else race.finished


@dataclass(frozen=True, kw_only=True)
class Row:
    """One contender with numbers.

    Args:
        main: the interval of the metric that was judged.
        ties: its cell in each tie column: "top", "middle", "bottom", "gap" (the bar passes it by) or "".
        race: its blocks have the contender's latencies.
    """

    entrant: Entrant
    estimate: Estimate
    main: Interval
    ties: tuple[str, ...]
    race: Race

    @property
    def name(self) -> str:
        """As shown in all results."""
        return self.entrant.name

    @cached_property
    def latency_us(self) -> dict[str, float]:
        """Quantiles by label; empty if it has none. Merging every block's histogram takes a while."""
        return latency.quantiles_us(self.race, self.name)


@dataclass(frozen=True)
class Part:
    """One column of a race as reports show it.

    Args:
        name: of the column; of a race of one workload: the workload's.
        race: the column as a race of its own.
        absent: contenders that don't have its workload.
    """

    name: str
    race: Race
    verdict: ColumnVerdict
    checks: Sequence[Check]
    absent: tuple[str, ...] = ()

    @cached_property
    def rows(self) -> list[Row]:
        """Contenders with numbers, best first."""
        return ranked(self.race, self.verdict)

    @property
    def names(self) -> list[str]:
        """Contenders with numbers, best first."""
        return [row.name for row in self.rows]

    @cached_property
    def void_contenders(self) -> frozenset[str]:
        """Contenders whose numbers are void."""
        return void_contenders(self.race, self.checks)

    @property
    def void_checks(self) -> list[Check]:
        """Checks that make the race or some of its contenders void."""
        return [check for check in self.checks if check.status is Status.VOID]

    @property
    def valid_rows(self) -> list[Row]:
        """Contenders whose numbers are valid, best first."""
        return [row for row in self.rows if row.name not in self.void_contenders]

    @property
    def valid_pairs(self) -> list[Pair]:
        """Pairs with an interval, by the metric that decides, that no void check touches."""
        bad = self.void_contenders
        return [p for p in self.verdict.pairs if figures.finite(p.low) is not None and not {p.a, p.b} & bad]

    @property
    def unjudged(self) -> dict[str, UnfitReason]:
        """Contenders that the judgement compares with no other, and why; none if fewer than two would be left."""
        names = dict.fromkeys(name for pair in self.verdict.pairs for name in (pair.a, pair.b))
        reasons = {name: why for pair in self.verdict.pairs for why, about in pair.unfit for name in about}
        return reasons if len(names) - len(reasons) >= 2 else {}

    @property
    def void(self) -> bool:
        """Whether no measurement of the column is a result."""
        return (self.race.finished is Ending.VOID or bool(self.void_checks)) and not self.valid_pairs

    @property
    def unfit(self) -> dict[UnfitReason, tuple[str, ...]]:
        """Why none of its pairs can be compared, and which contenders that is about; empty if some can."""
        pairs = [pair for pair in self.verdict.pairs if not {pair.a, pair.b} & self.void_contenders]
        if not all(pair.unfit for pair in pairs):
            return {}
        reasons: dict[UnfitReason, dict[str, None]] = {}
        for why, names in (reason for pair in pairs for reason in pair.unfit):
            reasons.setdefault(why, {}).update(dict.fromkeys(names))
        return {why: tuple(names) for why, names in reasons.items()}

    @property
    def standing(self) -> Standing:
        """What it came to."""
        over = not self.race.finished.goes_on
        if self.void:
            return Standing.VOID
        if sum(not entrant.out for entrant in self.race.entrants) < 2:
            return Standing.TOO_FEW
        if any(pair.decided for pair in self.valid_pairs):
            return Standing.DECIDED
        if over and self.unfit and all(pair.lasting for pair in self.verdict.pairs):
            return Standing.NOT_COMPARABLE
        numbers = any(figures.finite(pair.ratio) is not None for pair in self.verdict.pairs)
        return Standing.OPEN if numbers or not over else Standing.EMPTY

    @property
    def out(self) -> list[Entrant]:
        """Contenders that are out."""
        return [entrant for entrant in self.race.entrants if entrant.out]

    def top_of(self, names: Sequence[str]) -> tuple[str, ...]:
        """Of these contenders, best first: the first, and those tied with it; it alone if it is ahead of all others."""
        if not names:
            return ()
        first, *others = names
        before = ahead(self.verdict.pairs)
        if all((first, other) in before for other in others):
            return (first,)
        top = [first]
        for name in others:
            if not any((name, tied) in before or (tied, name) in before for tied in top):
                top.append(name)
        # Verdicts that go round in a circle: nothing is the best.
        return tuple(top) if len(top) > 1 else tuple(name for name in names if (first, name) not in before)


@dataclass(frozen=True)
class JudgedRace:
    """A race, what its records support, and its validity checks: what every report shows.

    Args:
        record: every block, launch and round.
        verdict: pairs, estimates, tie groups; judged again from the record.
        checks: the validity checks.
    """

    record: Race
    verdict: Verdict = field(repr=False)
    checks: Sequence[Check] = field(default=(), repr=False)

    @classmethod
    def of(cls, record: Race) -> Self:
        """Judges a recorded race."""
        return cls(record, judge(record), inspect(record))

    @cached_property
    def parts(self) -> list[Part]:
        """Every column in order; of a race of one workload one part, which is the race itself."""
        return [
            Part(
                column.name,
                replace(as_race, finished=ended(as_race, verdict)),
                verdict,
                [check for check in self.checks if check.column in ("", column.name)],
                column.absent,
            )
            for column, as_race, verdict in zip(
                self.record.columns, by_column(self.record), self.verdict.columns, strict=True
            )
        ]

    @property
    def standing(self) -> Standing:
        """What it came to: of several columns the best."""
        return min((part.standing for part in self.parts), key=list(Standing).index)

    @property
    def ended(self) -> Ending:
        """How it ended."""
        return ended(self.record, self.verdict)

    @property
    def void(self) -> bool:
        """Whether no measurement of it may be used as a result: every column is void."""
        return self.standing is Standing.VOID


def own_paths(race: Race) -> dict[str, list[str]]:
    """Running servers' own paths, which replace the workload's: each path with the names of its contenders."""
    asked = {one.request.split(" ")[1] for column in race.columns for one in described(column.definition)}
    at: dict[str, list[str]] = {}
    for entrant in race.entrants:
        parts = urlsplit(str(entrant.parameters.get("url", ""))) if entrant.kind == "url" else None
        path = f"{parts.path}{parts.query and f'?{parts.query}'}" if parts else ""
        if path not in {"", "/", *asked}:
            at.setdefault(path, []).append(entrant.name)
    return at


def with_own_paths(race: Race, text: str) -> str:
    """A request in words, and which contenders are requested at other paths: ``GET /users → 200 (b: /api/users)``."""
    own = ", ".join(f"{', '.join(names)}: {path}" for path, names in own_paths(race).items())
    return f"{text} ({own})" if own else text


def title(race: Race) -> str:
    """What the race requests, in a line: ``POST /orders → 201``, or ``hello: GET / → 200``."""
    titles = tuple(dict.fromkeys(title_of(part.workload, part.definition) for part in race.columns))
    return with_own_paths(race, figures.several(titles))


def requests(race: Race) -> list[tuple[str, tuple[DescribedRequest, ...]]]:
    """Each workload's title and requests; of older races none."""
    definitions = {column.workload: column.definition for column in race.columns if column.definition}
    return [
        (with_own_paths(race, title_of(*one)), listed) for one in definitions.items() if (listed := described(one[1]))
    ]


def compared(race: Race) -> list[str]:
    """A line for each workload: its title, and what of its responses was compared."""
    return [
        f"{name}; compared: {'; '.join(dict.fromkeys(one.compared for one in listed))}"
        for name, listed in requests(race)
    ]


def of_rates(race: Race) -> bool:
    """Whether some of its columns are one workload at several rates."""
    return len({column.workload for column in race.columns}) < len(race.columns)


def void_contenders(race: Race, checks: Sequence[Check]) -> frozenset[str]:
    """Contenders that void checks name; all contenders if one of these checks names none."""
    all_names = frozenset(entrant.name for entrant in race.entrants)
    if race.finished is Ending.VOID:
        return all_names
    bad: frozenset[str] = frozenset()
    for check in checks:
        if check.status is Status.VOID:
            bad |= check.about & all_names or all_names
    return bad


def deciding_interval(estimate: Estimate, metric: str) -> Interval | None:
    """The interval of the metric that decides; None without a number."""
    if KNOWN[metric].quantile:
        return estimate.latency_us.get(metric)
    return estimate.server_cpu_us_per_request if metric == "cpu" else estimate.throughput_per_s


def ranked(race: Race, verdict: ColumnVerdict) -> list[Row]:
    """Contenders with numbers in the order of their pairs; contenders that are out are left out."""
    entrants = {entrant.name: entrant for entrant in race.entrants if not entrant.out}
    found: list[tuple[Interval, Entrant]] = []
    for name in verdict.ranking:
        main = deciding_interval(verdict.estimates[name], verdict.metric) if name in entrants else None
        if main is not None and figures.finite(main.estimate) is not None:
            found.append((main, entrants[name]))
    ties = tie_cells([entrant.name for _, entrant in found], _tied(verdict))
    return [
        Row(entrant=entrant, estimate=verdict.estimates[entrant.name], main=main, ties=cells, race=race)
        for (main, entrant), cells in zip(found, ties, strict=True)
    ]


def _tied(verdict: ColumnVerdict) -> list[tuple[str, ...]]:
    """Groups in which every pair has an interval: without intervals no contenders are known to be tied."""
    unknown = [{pair.a, pair.b} for pair in verdict.pairs if figures.finite(pair.low) is None]
    return [group for group in verdict.groups if not any(pair <= set(group) for pair in unknown)]


def tie_cells(names: Sequence[str], groups: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Each name's cell in every tie column; groups that share no row share a column."""
    place = {name: row for row, name in enumerate(names)}
    columns: list[list[str]] = []
    for group in groups:
        rows = sorted(place[name] for name in group if name in place)
        if len(rows) < 2:
            continue
        first, last = rows[0], rows[-1]
        column = next((c for c in columns if not any(c[first : last + 1])), None)
        if column is None:
            columns.append(column := [""] * len(names))
        for row in range(first, last + 1):
            inside = "top" if row == first else "bottom" if row == last else "middle"
            column[row] = inside if row in rows else "gap"
    return [tuple(column[row] for column in columns) for row in range(len(names))]


def tie_letters(names: Sequence[str], verdict: ColumnVerdict) -> dict[str, str]:
    """Each name's letters: contenders that share a letter are tied (Piepho 2004); "" for a contender without ties."""
    groups = [[name for name in names if name in group] for group in _tied(verdict)]
    several = [group for group in groups if len(group) > 1]
    return {
        name: "".join(
            chr(ord("a") + at) if at < 26 else f"({at + 1})" for at, group in enumerate(several) if name in group
        )
        for name in names
    }


def oriented(pair: Pair, first: str) -> Pair:
    """The pair with ``first`` as its a: ratios and verdicts are inverted if necessary."""
    if pair.a == first:
        return pair
    return replace(
        pair,
        a=pair.b,
        b=pair.a,
        interval=pair.interval.inverted(),
        median_ratio=1 / pair.median_ratio if pair.median_ratio else float("inf"),
        verdict=pair.verdict.turned,
    )


def better_first(pair: Pair) -> Pair:
    """The pair with the better estimate first, so that its ratio is not below 1."""
    return oriented(pair, pair.b) if pair.ratio < 1 else pair


def pair_of(verdict: ColumnVerdict, a: str, b: str, metric: str | None = None) -> Pair | None:
    """The pair of these two, seen from a; None if they were never compared. ``metric``: if not the deciding one."""
    for pair in verdict.pairs if metric is None else verdict.beside.get(metric, ()):
        if {pair.a, pair.b} == {a, b}:
            return oriented(pair, a)
    return None


def shown_pairs(verdict: ColumnVerdict, names: Sequence[str], *, every: bool) -> list[Pair]:
    """Pairs worth a line, the better first in each: neighbours, and the fastest against all; or every pair.

    If the machine disturbed at most ``DISTURBED_EACH`` pairs unequally, these are always among them.
    """
    wanted = [
        (a, b) for row, a in enumerate(names) for b in names[row + 1 :] if every or row == 0 or b == names[row + 1]
    ]
    pairs = [better_first(pair) for pair in (pair_of(verdict, a, b) for a, b in wanted) if pair is not None]
    listed = {frozenset((pair.a, pair.b)) for pair in pairs}
    disturbed = [pair for pair in verdict.pairs if pair.disturbed]
    more = [pair for pair in disturbed if frozenset((pair.a, pair.b)) not in listed]
    if len(disturbed) > DISTURBED_EACH:
        return pairs
    return [*pairs, *(better_first(pair) for pair in more if pair.a in names)]


def shown_beside(verdict: ColumnVerdict, names: Sequence[str], *, every: bool) -> list[Pair]:
    """By each metric that does not decide: the fastest against all others; or every pair."""
    wanted = [(a, b) for row, a in enumerate(names) for b in names[row + 1 :] if every or row == 0]
    pairs = (pair_of(verdict, a, b, metric) for a, b in wanted for metric in verdict.beside)
    return [better_first(pair) for pair in pairs if pair is not None and figures.finite(pair.low) is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadingFigure:
    """One of the figures that stand beside each other in the first table.

    Args:
        head: with the unit. decides: the race is judged by it. text, span: the number, and its interval.
    """

    head: str
    decides: bool
    text: str
    span: str


def leading_figures(row: Row, metric: str) -> list[LeadingFigure]:
    """The deciding figure, then requests per second and CPU per request, as far as they are others.

    A latency is of one offered rate, so that requests per second say nothing beside it.
    """
    beside = {"throughput": row.estimate.throughput_per_s, "cpu": row.estimate.server_cpu_us_per_request}
    if KNOWN[metric].quantile:
        del beside["throughput"]
    intervals = {metric: row.main} | {name: interval for name, interval in beside.items() if name != metric}
    return [
        LeadingFigure(
            head=KNOWN[name].head,
            decides=name == metric,
            text=figures.NONE if interval is None else figures.figure(interval.estimate),
            span="" if interval is None else figures.span(interval.low, interval.high),
        )
        for name, interval in intervals.items()
    ]


def behind(verdict: ColumnVerdict, name: str, first: str) -> str:
    """How many times the first contender is ahead of this one, with the interval; "1" of the first itself."""
    if name == first:
        return "1"
    pair = pair_of(verdict, first, name)
    if pair is None or figures.finite(pair.ratio) is None:
        return figures.NONE
    at, span = figures.times(pair.ratio, pair.low, pair.high)
    return f"{at} × ({span})" if span else f"{at} ×"


def ties_wide(rows: Sequence[Row]) -> int:
    """How many tie columns there are."""
    return len(rows[0].ties) if rows else 0


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """Two contenders that change places: the first is ahead in one column, and behind in another."""

    first: str
    second: str
    ahead: str
    behind: str


def leaders(part: Part) -> tuple[str, ...]:
    """The leaders of a column: the first contender, and all that are tied with it; none if nothing is decided."""
    names = [row.name for row in part.valid_rows if row.name not in part.unjudged]
    first = pair_of(part.verdict, *names[:2]) if len(names) > 1 else None
    if first is None or figures.finite(first.low) is None or part.unfit or part.void:
        return ()
    return part.top_of(names)


def changes(parts: Sequence[Part]) -> list[ColumnChange]:
    """Pairs that are separated one way in one column and the other way in another."""
    swaps = []
    for (part, winners), (later, others) in combinations(((part, ahead(part.valid_pairs)) for part in parts), 2):
        swaps += [
            ColumnChange(winner, loser, part.name, later.name) for winner, loser in winners if (loser, winner) in others
        ]
    return swaps
