"""What terminal, page and JSON all show: contenders fastest first, tie groups, pairs, the one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dragstrip.metrics import KNOWN
from dragstrip.record import Entrant, Race
from dragstrip.report import figures
from dragstrip.report.race import latency, standing
from dragstrip.validity import Check, Status

if TYPE_CHECKING:
    from dragstrip.analysis import ColumnVerdict, Estimate, Interval, Pair

#: What a verdict is called when the pair is seen from its other side.
_TURNED = {"faster": "slower", "slower": "faster"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One contender with numbers.

    Args:
        main: the interval of the metric that was judged.
        ties: its cell in each tie column: "top", "middle", "bottom", "gap" (the bar passes it by) or "".
        latency_us: quantiles by label; empty if it has none.
    """

    entrant: Entrant
    estimate: Estimate
    main: Interval
    ties: tuple[str, ...]
    latency_us: dict[str, float]

    @property
    def name(self) -> str:
        """As shown in all results."""
        return self.entrant.name


def main_of(estimate: Estimate, metric: str) -> Interval | None:
    """The interval of the metric that the race is about; None if there is no number."""
    if KNOWN[metric].quantile:
        return estimate.latency_us.get(metric)
    return estimate.server_cpu_us_per_request if metric == "cpu" else estimate.throughput_per_s


def ranked(race: Race, verdict: ColumnVerdict, *, with_latency: bool = True) -> list[Row]:
    """Contenders with numbers, fastest (or thriftiest) first by estimate; those that went out are not among them.

    Args:
        with_latency: merging every block's histogram takes a while; False leaves ``latency_us`` empty.
    """
    sign = -1 if KNOWN[verdict.metric].more_is_better else 1
    scored: list[tuple[float, Interval, Entrant]] = []
    for entrant in race.entrants:
        estimate = verdict.estimates.get(entrant.name)
        main = main_of(estimate, verdict.metric) if estimate and not entrant.out else None
        if main is not None and figures.finite(main.estimate) is not None:
            scored.append((sign * main.estimate, main, entrant))
    scored.sort(key=lambda item: item[0])
    names = [entrant.name for _, _, entrant in scored]
    ties, latencies = tie_cells(names, _tied(verdict)), latency.merged(race) if with_latency else {}
    return [
        Row(
            entrant=entrant,
            estimate=verdict.estimates[entrant.name],
            main=main,
            ties=cells,
            latency_us=latencies.get(entrant.name, {}),
        )
        for (_, main, entrant), cells in zip(scored, ties, strict=True)
    ]


def _tied(verdict: ColumnVerdict) -> list[tuple[str, ...]]:
    """Groups in which every pair has an interval: before there is one, nothing is known to be alike."""
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
    """Each name's letters: those who share one are not told apart (Piepho 2004); "" for one who ties with nobody."""
    groups = [[name for name in names if name in group] for group in _tied(verdict)]
    several = [group for group in groups if len(group) > 1]
    return {name: "".join(_letter(at) for at, group in enumerate(several) if name in group) for name in names}


def _letter(at: int) -> str:
    """a to z, then a number."""
    return chr(ord("a") + at) if at < 26 else f"({at + 1})"


def facing(pair: Pair, first: str) -> Pair:
    """The pair with ``first`` as its a: ratios inverted, the words turned round."""
    if pair.a == first:
        return pair
    return replace(
        pair,
        a=pair.b,
        b=pair.a,
        interval=pair.interval.inverted(),
        median_ratio=_inverse(pair.median_ratio),
        verdict=_TURNED.get(pair.verdict, pair.verdict),
    )


def _inverse(value: float) -> float:
    return 1 / value if value else float("inf")


def pair_of(verdict: ColumnVerdict, a: str, b: str, metric: str | None = None) -> Pair | None:
    """The pair of these two, seen from a; None if they were never compared. ``metric``: one of those beside."""
    for pair in verdict.pairs if metric is None else verdict.beside.get(metric, ()):
        if {pair.a, pair.b} == {a, b}:
            return facing(pair, a)
    return None


#: So many pairs that the machine disturbed unequally have a sentence each; more have one together.
DISTURBED_EACH = 2


def shown_pairs(verdict: ColumnVerdict, names: Sequence[str], *, every: bool) -> list[Pair]:
    """Pairs worth a line, the faster first in each: neighbours, and the fastest against all; or every pair.

    Where the machine disturbed at most ``DISTURBED_EACH`` pairs unequally, these are always among them.
    """
    wanted = [
        (a, b) for row, a in enumerate(names) for b in names[row + 1 :] if every or row == 0 or b == names[row + 1]
    ]
    found = [pair for pair in (pair_of(verdict, a, b) for a, b in wanted) if pair is not None]
    there = {frozenset((pair.a, pair.b)) for pair in found}
    disturbed = [pair for pair in verdict.pairs if pair.disturbed]
    more = [pair for pair in disturbed if frozenset((pair.a, pair.b)) not in there]
    if len(disturbed) > DISTURBED_EACH:
        return found
    return [*found, *(facing(pair, min(pair.a, pair.b, key=names.index)) for pair in more if pair.a in names)]


def shown_beside(verdict: ColumnVerdict, names: Sequence[str], *, every: bool) -> list[Pair]:
    """By each metric beside the one that decides: the fastest against all others; or every pair."""
    wanted = [(a, b) for row, a in enumerate(names) for b in names[row + 1 :] if every or row == 0]
    found = (pair_of(verdict, a, b, metric) for a, b in wanted for metric in verdict.beside)
    return [pair for pair in found if pair is not None and figures.finite(pair.low) is not None]


def ties_wide(rows: Sequence[Row]) -> int:
    """How many tie columns there are."""
    return len(rows[0].ties) if rows else 0


def column_headline(race: Race, verdict: ColumnVerdict, checks: Sequence[Check]) -> str:
    """One column in a sentence or two: void and why, or who is ahead by how much, how sure that is, and by what."""
    from dragstrip.report.race.checks import check_text
    from dragstrip.report.race.wording import metric_reason_text, unfit_text

    causes = [check for check in checks if check.status is Status.VOID]
    if standing.is_column_void(race, verdict, checks):
        if causes:
            return f"This race is void, so it has no verdict: {check_text(causes[0])}"
        return "This race is void: the machine disturbed too many rounds; run the race again when the machine is quiet."
    bad, noted = standing.void_contenders(race, checks), standing.unjudged(verdict)
    rows = [row for row in ranked(race, verdict, with_latency=False) if row.name not in bad | noted.keys()]
    text = _lead(race, verdict, rows)
    if causes:
        text += f" Excluded as void: {figures.several(tuple(sorted(bad)))}, because {_ended(check_text(causes[0]))}"
    if noted:
        own = dict.fromkeys(unfit_text([(why, (name,))]) for name, why in noted.items())
        text += f" Not compared: {figures.several(tuple(noted))}, {_ended(', '.join(own))}"
    if verdict.metric_reason:
        text += f" {KNOWN[verdict.metric].decides[:1].upper()}{KNOWN[verdict.metric].decides[1:]} decides: "
        text += _ended(metric_reason_text(verdict.metric_reason))
    return text


def _ended(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _lead(race: Race, verdict: ColumnVerdict, rows: Sequence[Row]) -> str:
    """Who is ahead, among these."""
    if len(rows) < 2 or not verdict.pairs:
        return _without_verdict(race, rows)
    first, second = rows[0].name, rows[1].name
    text = _sentence(pair_of(verdict, first, second))
    if len(rows) > 2 and all(figures.finite(pair.low) is None for pair in verdict.pairs):
        return f"It is too early to call any of the {len(verdict.pairs)} pairs. {text}"
    if len(rows) == 2:
        return text
    among = {row.name for row in rows}
    pairs = [pair for pair in verdict.pairs if {pair.a, pair.b} <= among]
    undecided = sum(pair.verdict == "undecided" for pair in pairs)
    top = next((group for group in verdict.groups if first in group), (first,))
    quantile = KNOWN[verdict.metric].quantile
    best = "needs the least CPU per request" if verdict.metric == "cpu" else "is the fastest"
    best = f"has the lowest {quantile} latency" if quantile else best
    at_top = tuple(row.name for row in rows if row.name in top)
    if len(at_top) > 1:
        lead = f"{figures.several(at_top)} are tied at the top. {text}"
    else:
        # One subject suffices where the sentence goes on about the same contender.
        going_on = text.removeprefix(f"{first} ")
        lead = f"{first} {best} of {len(rows)}" + (f": it {going_on}" if going_on != text else f". {text}")
    rest = (
        f" {undecided} of {len(pairs)} pairs {'is' if undecided == 1 else 'are'} still too close to call."
        if undecided
        else ""
    )
    return f"{lead}{rest}"


def _without_verdict(race: Race, rows: Sequence[Row]) -> str:
    out = [entrant.name for entrant in race.entrants if entrant.out]
    if len(race.entrants) - len(out) < 2:
        return f"No verdict: fewer than two contenders are left in the race; out: {figures.several(tuple(out))}."
    done = len(race.rounds)
    return f"No verdict yet: {done} round{'s' if done != 1 else ''} measured; {len(rows)} contenders have numbers."


def _sentence(pair: Pair | None) -> str:
    if pair is None:
        return "The two fastest never ran in the same round, so they can't be compared."
    from dragstrip.report.race.wording import sentence

    return _ended(sentence(pair))


def sentence(pair: Pair) -> str:
    """The pair in words, as the verdict puts it."""
    return _sentence(pair)
