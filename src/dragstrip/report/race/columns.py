"""A race of several columns in one table, contender by column: who leads where, and who changes places.

What is told is what the intervals show. They hold for all pairs of all columns at once, so two contenders that are told
apart in opposite directions have changed places. No number goes across columns, and nothing is averaged over them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from dragstrip.metrics import KNOWN
from dragstrip.record import Race
from dragstrip.report import figures
from dragstrip.report.race import notes, standing, summary
from dragstrip.report.race.badge import Badge, column_badge
from dragstrip.report.race.checks import check_text
from dragstrip.report.race.parts import Part, of_rates, parts
from dragstrip.report.race.wording import metric_reason_text
from dragstrip.validity import Check, Status

if TYPE_CHECKING:
    from dragstrip.analysis import Pair, Verdict

#: So many pairs that change places are named, the others are counted.
MOST_CHANGES = 2

#: What CPU per request at two rates can't tell apart; stands wherever such a table does.
RATES_NOTE = (
    "At a higher rate several requests share one wake-up of the server. So the cost per request falls with the rate, "
    "most of all for event loops. Read each rate by itself: their mean means nothing."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One contender in one column.

    Args:
        ratio, low, high: its speed over that of the column's best; None where there is none.
        number: of the best: its own figure with the unit, which the ratios are relative to; at several rates of all.
        letters: contenders that share one in a column are not told apart; "" where it ties with nobody.
        lacks: why there is no number, in a word or two; "" where there is one.
    """

    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    number: str = ""
    letters: str = ""
    lacks: str = ""

    @property
    def text(self) -> str:
        """Without the letters."""
        if self.lacks:
            return self.lacks
        own = f" = {self.number}" if self.number else ""
        if self.low == self.high == 1.0:
            return f"1{own}"
        span = "too early" if figures.finite(self.low) is None else figures.ratio_span(self.low, self.high)
        return f"{figures.ratio(self.ratio)} ({span}){own}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Contender by column.

    Args:
        heads: each column's name and what its ratios are of.
        rows: each contender with its cells, in the order of the first column.
    """

    heads: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]

    @property
    def tied(self) -> bool:
        """Whether anybody has a letter."""
        return any(cell.letters for _, cells in self.rows for cell in cells)


@dataclass(frozen=True, slots=True)
class Change:
    """Two contenders that change places: the first is ahead in one column, and behind in another."""

    first: str
    second: str
    ahead: str
    behind: str


def table(race: Race, found: Sequence[Part]) -> Table:
    """The race's table."""
    columns = [_cells(part, all_numbers=of_rates(race)) for part in found]
    ranks = [{row.name: at for at, row in enumerate(_rows(part))} for part in found]
    names = [entrant.name for entrant in race.entrants]
    # By the first column; who is not in it comes after, by the next one that has it.
    names.sort(key=lambda name: [rank.get(name, len(names)) for rank in ranks])
    missing = Cell(lacks=figures.NONE)
    return Table(
        heads=tuple((part.name, KNOWN[part.verdict.metric].compared.removesuffix(" ×")) for part in found),
        rows=tuple((name, tuple(column.get(name, missing) for column in columns)) for name in names),
    )


def _rows(part: Part) -> list[summary.Row]:
    """The contenders of a column whose numbers can stand, fastest first."""
    bad = standing.void_contenders(part.race, part.checks)
    return [row for row in summary.ranked(part.race, part.verdict, with_latency=False) if row.name not in bad]


def _cells(part: Part, *, all_numbers: bool) -> dict[str, Cell]:
    found, unit = _rows(part), KNOWN[part.verdict.metric].head
    letters = summary.tie_letters([row.name for row in found], part.verdict)
    cells = {name: Cell(lacks="not served") for name in part.absent}
    cells |= {entrant.name: Cell(lacks="out" if entrant.out else "no number") for entrant in part.race.entrants}
    cells |= {
        name: Cell(lacks="void")
        for name in standing.void_contenders(part.race, part.checks)
        if cells[name].lacks != "out"
    }
    for row in found:
        number = figures.per_unit(row.main.estimate, unit)
        if row is found[0]:
            cells[row.name] = Cell(ratio=1.0, low=1.0, high=1.0, number=number, letters=letters[row.name])
            continue
        pair = summary.pair_of(part.verdict, row.name, found[0].name)
        if pair is None or pair.unfit:
            cells[row.name] = Cell(lacks="no verdict")
        else:
            own = number if all_numbers else ""
            letter = letters[row.name]
            cells[row.name] = Cell(ratio=pair.ratio, low=pair.low, high=pair.high, number=own, letters=letter)
    return cells


def _is_void(part: Part) -> bool:
    return standing.is_column_void(part.race, part.verdict, part.checks)


def leaders(part: Part) -> tuple[str, ...]:
    """Who leads a column: one, or all that are not told apart from the first; nobody where nothing is decided."""
    noted = standing.unjudged(part.verdict)
    names = [row.name for row in _rows(part) if row.name not in noted]
    first = summary.pair_of(part.verdict, *names[:2]) if len(names) > 1 else None
    if first is None or figures.finite(first.low) is None or _is_void(part):
        return ()
    group = next((group for group in part.verdict.groups if names[0] in group), (names[0],))
    return tuple(name for name in names if name in group)


def changes(found: Sequence[Part]) -> list[Change]:
    """Pairs that are told apart one way in one column and the other way in another."""
    made = []
    apart = [{frozenset((p.a, p.b)): _winner(p) for p in _told_apart(part)} for part in found]
    for (one, part), (other, later) in combinations(zip(apart, found, strict=True), 2):
        for both, winner in one.items():
            if both in other and other[both] != winner:
                (loser,) = both - {winner}
                made.append(Change(winner, loser, part.name, later.name))
    return made


def _told_apart(part: Part) -> Iterator[Pair]:
    for pair in standing.valid_pairs(part.race, part.verdict, part.checks):
        if pair.verdict in ("faster", "slower") and not pair.unfit:
            yield pair


def _winner(pair: Pair) -> str:
    return pair.a if pair.verdict == "faster" else pair.b


def headline(race: Race, verdict: Verdict, checks: Sequence[Check]) -> str:
    """The race in a sentence or two; of several columns: who leads where, who changes places, and what is open."""
    found = parts(race, verdict, checks)
    if len(found) == 1:
        return summary.column_headline(found[0].race, found[0].verdict, found[0].checks)
    void = [part for part in found if _is_void(part)]
    if len(void) == len(found):
        causes = [check for check in checks if check.status is Status.VOID]
        why = check_text(causes[0]) if causes else "too many of its rounds are void"
        return f"This race is void, so it has no verdict: {why}"
    told = [_leads(found)] if any(map(leaders, found)) else []
    silent = tuple(part.name for part in found if not leaders(part) and part not in void)
    if silent:
        told.append(f"No verdict yet at {figures.several(silent)}.")
    told += [f"Void at {part.name}: {_cause(part)}" for part in void]
    told += _order(found)
    told += _reasons(found)
    open_ = sum(pair.verdict == "undecided" for pair in verdict.pairs)
    if open_ and told:
        told.append(f"{open_} of {len(verdict.pairs)} pairs {'is' if open_ == 1 else 'are'} still too close to call.")
    return " ".join(told)


def _reasons(found: Sequence[Part]) -> list[str]:
    """Where the machine's evidence chose the metric, and why."""
    by_metric: dict[str, list[str]] = {}
    for part in found:
        if part.verdict.metric_reason:
            why = metric_reason_text(part.verdict.metric_reason).rstrip(".")
            by_metric.setdefault(KNOWN[part.verdict.metric].decides, []).append(f"at {part.name} {why}")
    return [f"{what[:1].upper()}{what[1:]} decides: {'; '.join(each)}." for what, each in by_metric.items()]


def _cause(part: Part) -> str:
    causes = [check_text(check) for check in part.checks if check.status is Status.VOID]
    text = causes[0] if causes else "too many of its rounds are void"
    return text if text.endswith(".") else f"{text}."


def _leads(found: Sequence[Part]) -> str:
    """ "go-native leads at hello, axum at multiply." """
    metrics = {part.verdict.metric for part in found}
    (metric,) = metrics if len(metrics) == 1 else ("throughput",)
    verb = {"cpu": "needs the least CPU per request"}.get(metric, "leads")
    verb = f"has the lowest {KNOWN[metric].quantile} latency" if KNOWN[metric].quantile else verb
    alone: dict[str, list[str]] = {}
    for part in found:
        if len(first := leaders(part)) == 1:
            alone.setdefault(first[0], []).append(part.name)
    told = [
        f"{name} {verb if at == 0 else ''}".strip() + f" at {figures.several(tuple(columns))}"
        for at, (name, columns) in enumerate(alone.items())
    ]
    sentences = [f"{', '.join(told)}."] if told else []
    for part in found:
        if len(first := leaders(part)) > 1:
            sentences.append(f"At {part.name} {figures.several(first)} are tied at the top.")
    return " ".join(sentences)


def _order(found: Sequence[Part]) -> list[str]:
    """Who changes places; or that nobody is shown to."""
    made = changes(found)
    if made:
        named = "; ".join(
            f"{one.first} is ahead of {one.second} at {one.ahead} and behind at {one.behind}"
            for one in made[:MOST_CHANGES]
        )
        left = len(made) - MOST_CHANGES
        more = f"; {left} other {'pair also changes' if left == 1 else 'pairs also change'} order" if left > 0 else ""
        return [f"The order changes: {named}{more}."]
    if sum(bool(leaders(part)) for part in found) < 2:
        return []
    whole = all(pair.verdict in ("faster", "slower") for part in found for pair in part.verdict.pairs)
    everywhere = "both" if len(found) == 2 else "all of them"
    return [f"The order is the same at {everywhere}." if whole else "No pair of contenders is shown to change order."]


def badge(race: Race, verdict: Verdict, checks: Sequence[Check]) -> Badge:
    """The verdict at a glance; of several columns: who leads where."""
    found = parts(race, verdict, checks)
    if len(found) == 1:
        return column_badge(found[0].race, found[0].verdict, found[0].checks)
    names = figures.several(tuple(part.name for part in found))
    if standing.is_void(race, verdict, checks):
        return Badge("void", "VOID", f"no result at {names}")
    first = [leaders(part) for part in found]
    if not any(first):
        return Badge("none", "NO VERDICT", f"at {names} after {len(race.rounds)} rounds")
    text = "; ".join(
        f"{part.name}: {figures.several(who) if len(who) < 3 else f'{len(who)} tied'}"
        for part, who in zip(found, first, strict=True)
        if who
    )
    if changes(found):
        return Badge("faster", "ORDER CHANGES", text)
    if len(set(first)) == 1 and len(first[0]) == 1:
        cpu = all(part.verdict.metric == "cpu" for part in found)
        return Badge("faster", "LEAST CPU" if cpu else "FASTEST", f"{first[0][0]} at {names}")
    return Badge("faster", "BY RATE" if of_rates(race) else "BY WORKLOAD", text)


def legend(race: Race, verdict: Verdict, shown: Table) -> list[str]:
    """What the table's numbers and letters mean."""
    sure = figures.percent(1 - verdict.alpha)
    said = [
        f"Each ratio is relative to the best of its column: 0.5 means {_half(verdict)}. "
        f"All intervals of all columns hold simultaneously, with {sure} confidence."
    ]
    if shown.tied:
        said.append("Contenders with the same letter in a column are tied there.")
    return said + ([RATES_NOTE] if of_rates(race) else [])


def _half(verdict: Verdict) -> str:
    """What half as good as the best is, by the metrics that decide."""
    metrics = {one.metric for one in verdict.columns}
    if metrics == {"throughput"}:
        return "half its speed"
    if metrics == {"cpu"}:
        return "twice its CPU per request"
    return "half as good"


def noise_level(found: Sequence[Part]) -> notes.NoiseLevel:
    """The noise light of the most disturbed column."""
    seen = [notes.noise_level(part.race) for part in found]
    return max(seen, key=lambda one: ("unknown", "pass", "warn", "void").index(one.status))


def all_notes(found: Sequence[Part]) -> list[notes.Note]:
    """Every column's notes, heaviest first; what is the same in several columns once."""
    where: dict[tuple[str, str, str], list[str]] = {}
    first: dict[tuple[str, str, str], notes.Note] = {}
    for part in found:
        for note in notes.notes(part.race, part.verdict, part.checks):
            key = (note.status, note.head, note.text)
            where.setdefault(key, []).append(part.name)
            first.setdefault(key, note)
    told = []
    for key, note in first.items():
        at = "" if len(where[key]) == len(found) else f"at {figures.several(tuple(where[key]))}: "
        told.append(notes.Note(note.status, note.head, f"{at}{note.text}", note.weight))
    return sorted(told, key=lambda note: -note.weight)
