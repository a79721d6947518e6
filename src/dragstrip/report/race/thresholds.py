"""Thresholds of a race for CI: is one slower than the first that was named, by the whole interval?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dragstrip.analysis import Pair
from dragstrip.analysis.fitness import unfit_text
from dragstrip.analysis.gates import Rule, edge
from dragstrip.analysis.pairs import MAX_FORECAST
from dragstrip.metrics import KNOWN
from dragstrip.report import figures
from dragstrip.report.comparison import Ruled, Ruling, RulingOutcome, ruling
from dragstrip.report.race.summary import JudgedRace, Part, pair_of
from dragstrip.report.race.wording import early_text


def rulings(judged: JudgedRace, rules: Sequence[Rule], *, except_for: str = "") -> list[Ruled]:
    """What became of each threshold for each contender but the first.

    By the metric that decides, as the contender's speed over the first one's. One that is out fails.

    Args:
        except_for: a contender that no threshold is meant for: the first one's second launch.
    """
    named = [entrant.name for entrant in judged.record.entrants if entrant.name != except_for]
    return [
        Ruled(part.name if len(judged.parts) > 1 else "", *ruled)
        for part in judged.parts
        for rule in rules
        for name in named[1:]
        if not {name, named[0]} & set(part.absent)
        for ruled in _judged(part, rule, name, named[0])
    ]


def _judged(part: Part, rule: Rule, name: str, first: str) -> Iterator[tuple[Ruling, bool]]:
    out = {entrant.name: entrant.out for entrant in part.race.entrants if entrant.out}
    if name in out:
        yield Ruling(rule[0], name, RulingOutcome.FAILS, f"{name} is out: {out[name].splitlines()[0]}"), True
        return
    pair, spoils = pair_of(part.verdict, name, first), part.void_contenders & {name, first}
    lack = (
        f"{first} is out"
        if first in out
        else f"what was measured of {' and '.join(sorted(spoils))} is void"
        if spoils
        else "they never ran in the same round"
        if pair is None
        else f"they can't be compared: {unfit_text(pair.unfit)}"
        if pair.unfit
        else f"{early_text(pair)} ({pair.rounds} so far)"
        if figures.finite(pair.low) is None
        else ""
    )
    if lack or pair is None:
        yield ruling(rule, name, None, lack=lack), False
        return
    more, told = _missing(pair, edge(rule)), KNOWN[pair.metric].sentence
    yield ruling(rule, name, (pair.low, pair.high), sentence=told, names=(name, first), more=more), True


def _missing(pair: Pair, limit: float) -> str:
    """How much more racing would move the interval to one side of a limit, if ratio and scatter stay as they are."""
    half, off = math.log(pair.high / pair.low) / 2, abs(math.log(pair.ratio / limit))
    rounds = pair.rounds * ((half / off) ** 2 - 1) if off else math.inf
    if rounds > MAX_FORECAST:
        return "; it is too near that to foresee what would"
    return f"; about {figures.more_time(rounds * pair.spent_s / pair.rounds)} more would settle it if this trend holds"
