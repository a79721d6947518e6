"""A race of several columns (workloads, or rates offered), column by column: each as a race of its own.

Method: ``docs/method/details.md``, "Several workloads". Whatever judges or shows a race of one workload takes a column.
The columns share the race's error rate equally (Bonferroni): all their intervals hold at once, however they depend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dragstrip.record import TOO_FEW, Column, Entrant, EventKind, Race, Round

#: A void round is run again; so many in a row end the race: what can't be true in five rounds will not be in the sixth.
MOST_VOID_ROUNDS = 5

#: Events that stand beside the whole race: none of its columns.
_BESIDE = frozenset({EventKind.FOREIGN, EventKind.VERDICT, EventKind.COUNTED_RUN})


def by_column(race: Race) -> tuple[Race, ...]:
    """Each column as a race, in order; the race itself where it has no columns."""
    return tuple(column_of(race, at) for at in range(len(race.columns))) or (race,)


def column_of(race: Race, at: int) -> Race:
    """One column as a race: its workload, load, plan, contenders, rounds and events."""
    column = race.columns[at]
    rounds = tuple(this for this in race.rounds if this.column == at)
    return replace(
        race,
        workload=column.workload,
        waits=column.waits,
        load=replace(race.load, rate_per_s=column.rate_per_s, pipelining=column.pipelining),
        plan=replace(
            race.plan,
            lead_ns=column.lead_ns,
            counted_ns=column.counted_ns,
            passes=column.passes,
            blocks=column.blocks,
        ),
        entrants=column.entrants,
        rounds=rounds,
        events=tuple(e for e in race.events if e.column == at or (e.column is None and e.kind not in _BESIDE)),
        finished=_finished(race.finished, column.entrants, rounds),
        columns=(),
        family=len(race.columns),
    )


def with_column(race: Race, at: int, entrants: Sequence[Entrant]) -> Race:
    """The race with a column's contenders as they stand now; who is out of every column is out of the race."""
    if not race.columns:
        return replace(race, entrants=tuple(entrants))
    columns = list(race.columns)
    columns[at] = replace(columns[at], entrants=tuple(entrants))
    return replace(race, columns=tuple(columns), entrants=tuple(_of_all(one, columns) for one in race.entrants))


def _of_all(entrant: Entrant, columns: Sequence[Column]) -> Entrant:
    own = [one for column in columns for one in column.entrants if one.name == entrant.name]
    gone = bool(own) and all(one.out for one in own)
    return replace(entrant, out=own[-1].out, out_round=own[-1].out_round) if gone else entrant


def _finished(whole: str, entrants: Sequence[Entrant], rounds: Sequence[Round]) -> str:
    """How a column ended, by how the race did."""
    if whole in ("", "interrupted"):
        return whole
    if sum(not entrant.out for entrant in entrants) < 2:
        return TOO_FEW
    last = rounds[-MOST_VOID_ROUNDS:]
    return "void" if len(last) == MOST_VOID_ROUNDS and all(this.void for this in last) else whole
