"""Revisions of a repository that were raced: what changed against the first one, in a line for each workload."""

from __future__ import annotations

from collections.abc import Iterator

from dragstrip.metrics import KNOWN
from dragstrip.report import figures
from dragstrip.report.race.summary import JudgedRace, Part, pair_of


def lines(judged: JudgedRace, *, twice: str = "") -> list[str]:
    """A sentence for each revision and workload: its speed over the first revision's.

    Args:
        twice: the name of the first revision's second contender, whose ratio shows the noise; "" without one.
    """
    first, *others = [entrant.name for entrant in judged.record.entrants]
    return [line for part in judged.parts for name in others for line in _line(part, name, first, name == twice)]


def _line(part: Part, name: str, first: str, noise: bool) -> Iterator[str]:
    pair = pair_of(part.verdict, name, first)
    if pair is None or figures.finite(pair.low) is None:
        return
    by = KNOWN[pair.metric].compared
    ratio = f"× {figures.ratio(pair.ratio)} ({figures.ratio_span(pair.low, pair.high)}) in {by}"
    if noise:
        yield f"{part.name}: noise: {first} against itself {ratio}"
        return
    yield f"{part.name}: {name} {figures.called(pair)}, {ratio} of {first}"
