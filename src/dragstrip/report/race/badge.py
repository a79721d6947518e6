"""The verdict as a badge, seen before anything is read: a word in capitals, which contender, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from dragstrip.analysis import ColumnVerdict, Pair
from dragstrip.analysis.fitness import unfit_text
from dragstrip.metrics import KNOWN, PairVerdict
from dragstrip.record import EventKind
from dragstrip.report import figures
from dragstrip.report.race import summary
from dragstrip.report.race.summary import JudgedRace, Part, Standing, changes, leaders, of_rates
from dragstrip.store.database import Store

#: Kind of the event that keeps a race's badge, so that a list of races does not need to judge them.
KIND = EventKind.VERDICT

#: This many names are in a badge, the others are counted.
MAX_NAMES = 3


class Colour(StrEnum):
    """What colours a badge: the kind of its verdict."""

    FASTER = "faster"
    SAME = "same"
    UNDECIDED = "undecided"
    VOID = "void"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Badge:
    """A verdict at a glance.

    Args:
        word: in capitals.
        text: which contender, and by how much.
    """

    kind: Colour
    word: str
    text: str

    @property
    def line(self) -> str:
        """The badge's word and its text, as one line."""
        return f"{self.word} {self.text}"


def race_badge(judged: JudgedRace) -> Badge:
    """The verdict at a glance; of several columns: which contender leads in which."""
    parts = judged.parts
    if len(parts) == 1:
        return column_badge(parts[0])
    names = figures.several(tuple(part.name for part in parts))
    if judged.void:
        return Badge(Colour.VOID, "VOID", f"no result at {names}")
    first = [leaders(part) for part in parts]
    if judged.standing is Standing.NOT_COMPARABLE:
        return Badge(Colour.NONE, "NOT COMPARABLE", f"at {names}")
    if not any(first):
        return Badge(Colour.NONE, "NO VERDICT", f"at {names} after {len(judged.record.rounds)} rounds")
    text = "; ".join(
        f"{part.name}: {figures.several(who) if len(who) < 3 else f'{len(who)} tied'}"
        for part, who in zip(parts, first, strict=True)
        if who
    )
    if changes(parts):
        return Badge(Colour.FASTER, "ORDER CHANGES", text)
    if len(set(first)) == 1 and len(first[0]) == 1:
        cpu = all(part.verdict.metric == "cpu" for part in parts)
        return Badge(Colour.FASTER, "LEAST CPU" if cpu else "FASTEST", f"{first[0][0]} at {names}")
    return Badge(Colour.FASTER, "BY RATE" if of_rates(judged.record) else "BY WORKLOAD", text)


def column_badge(part: Part) -> Badge:
    """What one column came to in a word, which contenders it is about, and by how much."""
    if part.void:
        racing = part.names or [entrant.name for entrant in part.race.entrants if not entrant.out]
        return Badge(Colour.VOID, "VOID", f"no result for {_named(racing)}")
    if part.unfit and part.standing in (Standing.OPEN, Standing.NOT_COMPARABLE):
        word = "NOT COMPARABLE" if part.standing is Standing.NOT_COMPARABLE else "NO VERDICT"
        return Badge(Colour.UNDECIDED, word, unfit_text(part.unfit.items()))
    bad = part.void_contenders | part.unjudged.keys()
    names = [name for name in part.names if name not in bad]
    pair = summary.pair_of(part.verdict, *names[:2]) if len(names) > 1 else None
    if pair is None:
        left = sum(not entrant.out and entrant.name not in bad for entrant in part.race.entrants)
        after = f"after {figures.rounds(len(part.race.rounds))}"
        few = f"{left} of {len(part.race.entrants)} contenders left"
        return Badge(Colour.NONE, "NO VERDICT", few if left < 2 else after)
    if figures.finite(pair.low) is None:
        rounds = figures.rounds(pair.rounds)
        pair = summary.better_first(pair)
        return Badge(Colour.NONE, "TOO EARLY", f"{pair.a}: {lead(pair)} after {rounds}")
    if len(names) == 2:
        return _of_two(pair)
    top = part.top_of(names)
    return _tied(part.verdict, top, pair) if len(top) > 1 else _won(pair, comparative=False)


def _of_two(pair: Pair) -> Badge:
    pair = summary.better_first(pair)
    if pair.verdict is PairVerdict.SAME:
        within = f"within {figures.percent(pair.margin)}"
        return Badge(Colour.SAME, "SAME", f"{pair.a} and {pair.b} {within}, {spread(pair)}")
    if pair.verdict is PairVerdict.UNDECIDED:
        return Badge(Colour.UNDECIDED, "TOO CLOSE TO CALL", f"{pair.a} against {pair.b}, {spread(pair)}")
    return _won(pair, comparative=True)


def _won(pair: Pair, *, comparative: bool) -> Badge:
    word = KNOWN[pair.metric].better if comparative else KNOWN[pair.metric].best
    return Badge(Colour.FASTER, word.upper(), f"{pair.a}: {lead(pair, the_next=not comparative)}")


def _tied(verdict: ColumnVerdict, top: Sequence[str], first: Pair) -> Badge:
    among = [summary.pair_of(verdict, a, b) for at, a in enumerate(top) for b in top[at + 1 :]]
    same = all(pair is not None and pair.verdict is PairVerdict.SAME for pair in among)
    word, kind = ("SAME AT THE TOP", Colour.SAME) if same else ("TOO CLOSE AT THE TOP", Colour.UNDECIDED)
    between = summary.better_first(summary.pair_of(verdict, top[0], top[1]) or first)
    return Badge(kind, word, f"{_named(top)}, {spread(between)}")


def _named(names: Sequence[str]) -> str:
    if len(names) > MAX_NAMES:
        return f"{', '.join(names[: MAX_NAMES - 1])} and {len(names) - MAX_NAMES + 1} more"
    return figures.several(tuple(names)) if names else "any contender"


def lead(pair: Pair, *, the_next: bool = False) -> str:
    """By how much the first leads: ``2.31 × node (2.28–2.35)``, or ``node needs 2.31 × as much (2.28–2.35)``."""
    at, span = figures.times(pair.ratio, pair.low, pair.high)
    interval = f" ({span})" if span else ""
    if needs := KNOWN[pair.metric].needs:
        other = f"the next, {pair.b}, {needs}" if the_next else f"{pair.b} {needs}"
        return f"{other} {at} × as much{interval}"
    return f"{at} × {'the next, ' if the_next else ''}{pair.b}{interval}"


def spread(pair: Pair) -> str:
    """The interval of a pair that is not separated: ``0.991–1.012 ×``."""
    return f"{figures.times(pair.ratio, pair.low, pair.high)[1]} ×"


def kept(store: Store) -> dict[str, str]:
    """The badges that races left, by the races' ids; a later badge replaces an earlier one."""
    return {race_id: event.text for race_id, event in reversed(store.noted(KIND))}
