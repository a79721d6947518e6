"""Which cell a free strip has next: numbers in, one cell out.

Every cell has its first rounds before any has more. After that the cell with the fewest predicted rounds to a decision
is next, divided by its weight. Intervals hold at every look up to the planned last round, so that choosing by what was
seen costs nothing within a cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

from dragstrip.extras.lab.ledger import Attempt, CellRow, Stored
from dragstrip.extras.lab.task import TaskEnding

#: Faults of Dragstrip's own after which a cell has failed, and lost attempts in a row.
MOST_FAULTS, MOST_LOST = 3, 10

#: Rounds that a cell is taken to need if no forecast is possible: it is the last one then.
UNFORESEEN = 1_000_000


class CellProgress(StrEnum):
    """How far a cell is."""

    WAITING = "waiting"
    RACING = "racing"
    STORED = "stored"
    CANT_RUN = "can't run here"
    FAILED = "failed"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Spending:
    """How further rounds are spent.

    Args:
        first, most: rounds of a cell. step: of each further slice. even: all cells alike.
        left_s: machine time that is left; None: without a limit.
    """

    first: int
    most: int
    step: int
    even: bool = False
    left_s: float | None = None


def progress_of(cell: CellRow, attempts: Sequence[Attempt], stored: Stored | None) -> CellProgress:
    """How far a cell is, by its own attempts."""
    counted = [attempt for attempt in attempts if attempt.n > cell.retried and attempt.outcome != TaskEnding.FULL]
    if any(not attempt.outcome for attempt in counted):
        return CellProgress.RACING
    if cell.dropped:
        return CellProgress.DROPPED
    if stored is not None and not stored.void:
        return CellProgress.STORED
    if cell.why or any(attempt.outcome == TaskEnding.CANT_RUN for attempt in counted):
        return CellProgress.CANT_RUN
    faults = sum(attempt.outcome == TaskEnding.FAULT for attempt in counted)
    lost = [attempt.outcome == TaskEnding.LOST for attempt in counted][-MOST_LOST:]
    if faults >= MOST_FAULTS or (len(lost) == MOST_LOST and all(lost)):
        return CellProgress.FAILED
    voids = sum(attempt.outcome == TaskEnding.VOID for attempt in counted)
    return CellProgress.STORED if voids >= 2 and stored is not None else CellProgress.WAITING


def next_cell(
    strip: str,
    cells: Sequence[CellRow],
    able: Mapping[str, AbstractSet[str]],
    progress: Mapping[str, CellProgress],
    attempts: Mapping[str, Sequence[Attempt]],
    stored: Mapping[str, Stored],
    spending: Spending,
) -> tuple[str, int] | None:
    """The next cell of a strip and the rounds that it shall have in all; None if there is nothing to do on it now.

    Args:
        able: the strips that can run each cell.
    """
    mine = [cell for cell in cells if strip in able.get(cell.name, ())]
    first = [cell for cell in mine if progress[cell.name] is CellProgress.WAITING and _may(cell, strip, able, attempts)]
    if first:
        chosen = max(first, key=lambda cell: (cell.weight, -len(attempts.get(cell.name, ())), -cell.place))
        return chosen.name, spending.first
    if spending.left_s is not None and spending.left_s <= 0:
        return None
    if any(
        progress[cell.name] in (CellProgress.WAITING, CellProgress.RACING) and cell.name not in stored for cell in cells
    ):
        return None  # every cell has its first rounds before any has more
    more = [
        cell
        for cell in mine
        if progress[cell.name] is CellProgress.STORED and _open(stored.get(cell.name), strip, spending)
    ]
    if not more:
        return None

    def needs(cell: CellRow) -> tuple[float, int]:
        known = stored[cell.name]
        ahead = known.rounds if spending.even else known.more if known.more is not None else UNFORESEEN + known.rounds
        return ahead / cell.weight, cell.place

    chosen = min(more, key=needs)
    return chosen.name, min(stored[chosen.name].rounds + spending.step, spending.most)


def _may(
    cell: CellRow, strip: str, able: Mapping[str, AbstractSet[str]], attempts: Mapping[str, Sequence[Attempt]]
) -> bool:
    """Whether a strip may try a cell: one that was void or faulty there has its turn on the others first."""
    tried = [attempt.strip for attempt in attempts.get(cell.name, ()) if attempt.n > cell.retried]
    again = [
        attempt.strip
        for attempt in attempts.get(cell.name, ())
        if attempt.outcome in (TaskEnding.VOID, TaskEnding.FAULT)
    ]
    return strip not in again or not (able[cell.name] - set(tried))


def _open(stored: Stored | None, strip: str, spending: Spending) -> bool:
    """Whether a cell's race may have more rounds on this strip, which is the one that it began on."""
    return (
        stored is not None
        and stored.strip == strip
        and not (stored.over or stored.decided or stored.void)
        and stored.rounds < spending.most
    )
