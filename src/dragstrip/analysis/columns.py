"""A race of several columns (workloads, or rates offered), column by column: each as a race of its own.

Method: ``docs/METHOD.md``, "Several workloads". Whatever judges or shows one column takes such a race.
The columns share the race's error rate equally (Bonferroni): all their intervals hold at once, however they depend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dragstrip.record import Column, Ending, Entrant, EventKind, Race, Round

#: A void round is repeated. This many in a row end a race without a valid round: a sixth would not be valid either.
#: After a valid one, what voids rounds may pass, and the budget ends the race; a fixed number of rounds has no budget.
MAX_VOID_ROUNDS = 5

#: Events of the whole race, which belong to none of its columns.
_OF_WHOLE_RACE = frozenset({EventKind.FOREIGN, EventKind.VERDICT, EventKind.COUNTED_RUN})


def by_column(race: Race) -> tuple[Race, ...]:
    """Each column as a race, in order: its contenders, rounds and events; a race of one column as it is."""
    if len(race.columns) == 1:
        return (race,)
    return tuple(_as_race(race, at) for at in range(len(race.columns)))


def _as_race(race: Race, at: int) -> Race:
    column = race.columns[at]
    rounds = tuple(round_ for round_ in race.rounds if round_.column == at)
    return replace(
        race,
        columns=(column,),
        rounds=rounds,
        events=tuple(e for e in race.events if e.column == at or (e.column is None and e.kind not in _OF_WHOLE_RACE)),
        finished=_finished(race.finished, column, rounds),
        family=len(race.columns),
        profiles=tuple(profile for profile in race.profiles if profile.column == at),
    )


def with_column(race: Race, at: int, entrants: Sequence[Entrant]) -> Race:
    """The race with a column's contenders as they are now."""
    column = replace(race.columns[at], entrants=tuple(entrants))
    return replace(race, columns=(*race.columns[:at], column, *race.columns[at + 1 :]))


def _finished(whole: Ending, column: Column, rounds: Sequence[Round]) -> Ending:
    """How a column ended, by how the race did."""
    if whole.goes_on:
        return whole
    if sum(not entrant.out for entrant in column.entrants) < 2:
        return Ending.TOO_FEW
    last = rounds if not column.plan.rounds_fixed else rounds[-MAX_VOID_ROUNDS:]
    return Ending.VOID if len(last) >= MAX_VOID_ROUNDS and all(round_.void for round_ in last) else whole
