"""A race of several columns in one table, contender by column: which lead, and which change places.

Only what the intervals show is reported. They hold for all pairs of all columns at once, so two contenders that are
separated in opposite directions have changed places. No number spans columns, and nothing is averaged over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragstrip.analysis import ahead, over_columns
from dragstrip.metrics import KNOWN
from dragstrip.report import figures
from dragstrip.report.race import summary
from dragstrip.report.race.summary import JudgedRace, Part, of_rates

#: Note on CPU per request at two rates, shown with each such table.
RATES_NOTE = (
    "At a higher rate several requests share one wake-up of the server. So the cost per request falls with the rate, "
    "most of all for event loops. Read each rate by itself: their mean means nothing."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCell:
    """One contender in one column.

    Args:
        ratio, low, high: how many times the column's best is ahead of it; None without one.
        number: of the best: its own figure with the unit, which the ratios are relative to; at several rates of all.
        letters: contenders that share one in a column are tied; "" for a contender without ties.
        lacks: why a number is missing, in a word or two; "" if it is not.
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
        figure = f" = {self.number}" if self.number else ""
        if self.low == self.high == 1.0:
            return f"1{figure}"
        if self.ratio is None or self.low is None or self.high is None:
            return figures.NONE
        at, span = figures.times(self.ratio, self.low, self.high)
        return f"{at} ({span or 'too early'}){figure}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Contender by column.

    Args:
        heads: each column's name and what its ratios are of.
        rows: each contender with its cells, in the order of the first column, and of later ones where that is open.
    """

    heads: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, tuple[TableCell, ...]], ...]

    @property
    def tied(self) -> bool:
        """Whether a contender has a letter."""
        return any(cell.letters for _, cells in self.rows for cell in cells)


def table(judged: JudgedRace) -> Table:
    """The race's table."""
    race, parts = judged.record, judged.parts
    columns = [_cells(part, all_numbers=of_rates(race)) for part in parts]
    ranks = [{row.name: at for at, row in enumerate(part.valid_rows)} for part in parts]
    names = [entrant.name for entrant in race.entrants]
    # By the first column; a contender that is not in it comes after, by the next column that has it.
    names.sort(key=lambda name: [rank.get(name, len(names)) for rank in ranks])
    # Each pair that is tied there, by the next column that separates it.
    names = list(over_columns(names, (ahead(part.valid_pairs) for part in parts)))
    missing = TableCell(lacks=figures.NONE)
    return Table(
        heads=tuple((part.name, KNOWN[part.verdict.metric].compared) for part in parts),
        rows=tuple((name, tuple(column.get(name, missing) for column in columns)) for name in names),
    )


def _cells(part: Part, *, all_numbers: bool) -> dict[str, TableCell]:
    rows, unit = part.valid_rows, KNOWN[part.verdict.metric].head
    letters = summary.tie_letters([row.name for row in rows], part.verdict)
    cells = {name: TableCell(lacks="not served") for name in part.absent}
    cells |= {entrant.name: TableCell(lacks="out" if entrant.out else "no number") for entrant in part.race.entrants}
    cells |= {name: TableCell(lacks="void") for name in part.void_contenders if cells[name].lacks != "out"}
    for row in rows:
        number = figures.per_unit(row.main.estimate, unit)
        if row is rows[0]:
            cells[row.name] = TableCell(ratio=1.0, low=1.0, high=1.0, number=number, letters=letters[row.name])
            continue
        pair = summary.pair_of(part.verdict, rows[0].name, row.name)
        if pair is None or pair.unfit:
            cells[row.name] = TableCell(lacks="no verdict")
        else:
            shown_number = number if all_numbers else ""
            letter = letters[row.name]
            cells[row.name] = TableCell(
                ratio=pair.ratio, low=pair.low, high=pair.high, number=shown_number, letters=letter
            )
    return cells


def legend(judged: JudgedRace, shown: Table) -> list[str]:
    """What the table's numbers and letters mean."""
    sure = figures.percent(1 - judged.verdict.alpha)
    lines = [
        f"Each ratio says how many times the best of its column is ahead: 2 means {_double(judged.parts)}. "
        f"All intervals of all columns hold simultaneously, with {sure} confidence."
    ]
    if shown.tied:
        lines.append("Contenders with the same letter in a column are tied there.")
    return lines + ([RATES_NOTE] if of_rates(judged.record) else [])


def _double(parts: Sequence[Part]) -> str:
    """What a ratio of 2 means, by the metrics that decide."""
    metrics = {part.verdict.metric for part in parts}
    if metrics == {"throughput"}:
        return "that the best served twice as many requests"
    if metrics == {"cpu"}:
        return "twice its CPU per request"
    return "that the best was twice as good"
