"""The columns of a race of several workloads or rates as the store holds them: one JSON list in the race's row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from dragstrip.errors import Unreadable
from dragstrip.record import Column, Round

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@cache
def _shape() -> TypeAdapter[tuple[Column, ...]]:
    from pydantic import TypeAdapter  # races of one workload do without it

    return TypeAdapter(tuple[Column, ...])


def columns_text(columns: Sequence[Column]) -> str:
    """As the row holds them."""
    return _shape().dump_json(tuple(columns)).decode() if columns else "[]"


def columns_of(race_id: str, stored: str, rounds: Sequence[Round]) -> tuple[Column, ...]:
    """Columns out of a row; none of a race of one workload.

    Raises:
        Unreadable: they are none, two have the same name, or a round belongs to another.
    """
    if stored == "[]":
        return ()
    try:
        columns = _shape().validate_json(stored, strict=True)
    except ValueError as error:
        raise Unreadable(race_id, f"race.columns is {stored!r:.60}, no columns ({error!s:.200})") from error
    if len({column.name for column in columns}) < len(columns):
        raise Unreadable(race_id, f"race.columns is {stored!r:.60}, two of one name")
    beyond = [this for this in rounds if this.column >= len(columns)]
    if beyond:
        raise Unreadable(race_id, f"round {beyond[0].index} is of column {beyond[0].column}, of {len(columns)}")
    return columns


def out_of(columns: Sequence[Column], at: int | None, name: str, gone: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns with a contender out of one of them; ``at`` None: of all."""
    return tuple(
        replace(column, entrants=tuple(replace(e, **gone) if e.name == name else e for e in column.entrants))
        if at in (None, number)
        else column
        for number, column in enumerate(columns)
    )


def out_of_all(columns: Sequence[Column], name: str) -> bool:
    """Whether a contender is out of every column that it entered: then it is out of the race."""
    return all(entrant.out for column in columns for entrant in column.entrants if entrant.name == name)
