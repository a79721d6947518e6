"""Revisions of a repository that were raced: what changed against the first one, in a line for each workload."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dragstrip.analysis import LEAST_APART
from dragstrip.analysis.gates import Rule, seen
from dragstrip.metrics import KNOWN
from dragstrip.quantities import as_percent
from dragstrip.record import Race
from dragstrip.report import figures
from dragstrip.report.race.summary import JudgedRace, Part, pair_of
from dragstrip.report.race.wording import sentence

#: How much the log ratio of two revisions scatters from round to round: on a quiet machine, and on a busy one.
SCATTERS = (0.01, 0.04)


def lines(judged: JudgedRace, *, twice: str = "") -> list[str]:
    """A sentence for each revision and workload: its speed over the first revision's.

    Args:
        twice: the name of the first revision's second contender, whose ratio shows the noise; "" without one.
    """
    first, *others = [entrant.name for entrant in judged.record.entrants]
    return [line for part in judged.parts for name in others for line in _line(part, name, first, name == twice)]


def sight(race: Race, rules: Sequence[Rule]) -> str:
    """Before a race's first round: which slowdown its budget can show, and from which on a threshold fails.

    How much the ratio will scatter from round to round is not known yet, so it is said for little and for much.
    """
    plan, columns = race.plan, len(race.columns)
    count = max(sum(not entrant.out for entrant in race.entrants), 2)
    told = []
    for scatter in SCATTERS:
        least = seen(plan, scatter, contenders=count, family=columns)
        if not math.isfinite(least):
            return f"{plan.planned_rounds} rounds are too few for any difference below {figures.percent(LEAST_APART)}"
        fails = [
            f"{text} fails from {as_percent(math.expm1(math.log1p(share) + least))} on" for text, _, share in rules
        ]
        shown = f"one of {as_percent(math.expm1(least))} is shown by 19 of 20 races"
        told.append(f"if rounds scatter by {figures.percent(scatter)}, {', '.join([shown, *fails])}")
    budget = "" if plan.rounds_fixed else f" in {plan.budget_s:.0f} s"
    return f"about {plan.planned_rounds} rounds{budget}, which differences they can show: {'; '.join(told)}"


def _line(part: Part, name: str, first: str, noise: bool) -> Iterator[str]:
    pair = pair_of(part.verdict, name, first)
    if pair is None or figures.finite(pair.low) is None:
        return
    if noise:
        at, span = figures.times(pair.ratio, pair.low, pair.high)
        yield f"{part.name}: noise: {first} against itself {at} × ({span}) by {KNOWN[pair.metric].compared}"
        return
    yield f"{part.name}: {name} {figures.called(pair)}: {sentence(pair)}"
