"""A lab in the terminal: its plan and its status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dragstrip.extras.lab.matrix import Matrix
from dragstrip.extras.lab.report.heat import Fill, HeatMap, Shade
from dragstrip.extras.lab.report.summary import CountedLab
from dragstrip.report.figures import ratio, visible

if TYPE_CHECKING:
    from dragstrip.extras.lab.planning import PlannedCell

#: Cells of a plan that are listed; more are counted only.
LISTED = 200


def show_plan(console: Console, matrix: Matrix, planned: Sequence[PlannedCell], away: Mapping[str, str]) -> None:
    """Cells, reasons and hours, before anything is raced."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("cell", no_wrap=True)
    for head in ("line-up", "workload", "load", "revision", "class", "strips"):
        table.add_column(head, overflow="fold")
    for row in planned[:LISTED]:
        cell = row.cell
        strips = ", ".join(sorted(row.able)) or "can't run here"
        words = (row.name, cell.line_up, cell.workload, cell.load.label, cell.revision, cell.machine, strips)
        table.add_row(*(Text(visible(word)) for word in words))
    console.print(table)
    if len(planned) > LISTED:
        console.print(f"… and {len(planned) - LISTED:,} more cells")
    for why, count in Counter(cell.why for cell in planned if cell.why).items():
        console.print(Text(f"{count} {'cell' if count == 1 else 'cells'} can't run: {visible(why)}"), soft_wrap=True)
    for name, why in away.items():
        console.print(Text(f"strip {name} is left out: {visible(why)}"), soft_wrap=True)
    able = [cell for cell in planned if cell.able]
    count = len({name for cell in able for name in cell.able})
    lab = matrix.fields.lab
    first_s = sum(cell.seconds(lab.first_rounds) for cell in able)
    line = f"{len(able):,} of {len(planned):,} cells can run, on {count} {'strip' if count == 1 else 'strips'}"
    hours = f"first {lab.first_rounds} rounds: about {_time(first_s)} of machine time"
    budget = f"; budget: {lab.budget}" if lab.budget else f"; at most {lab.most_rounds} rounds for each cell"
    console.print(f"{line}; {hours}{budget}", soft_wrap=True)


def show_status(console: Console, lab: CountedLab, *, cells: bool = False) -> None:
    """How many cells are done, which have failed and why, and machine time."""
    counts = ", ".join(f"{count:,} {name}" for name, count in lab.counts.items())
    console.print(f"{len(lab.cells):,} cells: {counts}; all pairs decided in {lab.decided:,}", soft_wrap=True)
    for name, seconds in lab.machine_s().items():
        attempts = Counter(attempt.outcome or "racing" for attempt in lab.attempts if attempt.strip == name)
        how = ", ".join(f"{count:,} {outcome}" for outcome, count in attempts.items())
        console.print(f"strip {name}: {seconds / 3600:.2f} hours; attempts: {how}", soft_wrap=True)
    for _, strip, why in lab.refusals:
        console.print(Text(f"strip {strip}: a record was refused: {visible(why)}"), soft_wrap=True)
    shown = lab.cells if cells else [cell for cell in lab.cells if lab.progress[cell.name] not in _QUIET]
    for cell in shown:
        label = " · ".join(filter(None, (cell.line_up, cell.workload, cell.load, cell.revision, cell.machine)))
        stored = lab.stored.get(cell.name)
        what = f"{stored.rounds} rounds, race {stored.race}" if stored else lab.why(cell).strip().splitlines()[-1:]
        more = what if isinstance(what, str) else "".join(what)
        line = f"{cell.name}  {label}: {lab.progress[cell.name]}{': ' + more if more else ''}"
        console.print(Text(visible(line)), soft_wrap=True)


def show_maps(console: Console, maps: Sequence[HeatMap]) -> None:
    """One table for each line-up, load and class; an undecided contender has a question mark."""
    for heat in maps:
        console.print(Text(visible(f"{heat.line_up}, {heat.load}, {heat.machine}"), style="bold"))
        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column("")
        for column in heat.columns:
            table.add_column(Text(visible(column.column)), justify="right")
        for name in heat.contenders:
            fields = [_shade_text(heat.shade(name, column)) for column in heat.columns]
            table.add_row(Text(visible(name)), *map(Text, fields))
        console.print(table)
        console.print()


def _shade_text(shade: Shade) -> str:
    if shade.fill is not Fill.RATIO or shade.ratio is None:
        return str(shade.fill)
    return f"{ratio(shade.ratio)} {shade.letters}{'?' if shade.open else ''}".strip()


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.0f} minutes"


_QUIET = ("stored", "waiting", "racing", "dropped")
