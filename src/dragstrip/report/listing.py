"""Short listings for the terminal: what can race here, and what has raced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dragstrip.report import marks


def contenders(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Every definition: ready with its version, or missing with the reason and the remedy."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("contender", "status", "version, or what is missing and what would do"):
        table.add_column(head, overflow="fold")
    for row in rows:
        ready = row["status"] == "ready"
        status = "[green]ready[/]" if ready else "[yellow]missing[/]"
        told = row["version"] if ready else f"{row['reason']}; {row['remedy']}"
        table.add_row(escape(row["name"]), status, escape(told or ""))
    marks.emit(console, table)


def runs(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Stored races, newest first."""
    if not rows:
        marks.emit(console, "no race is stored yet: `dragstrip race --line-up default` runs one")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("race", "started", "workload", "rounds", "ended", "contenders"):
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(
            row["race"],
            row["started"],
            escape(row["workload"]),
            str(row["rounds"]),
            row["finished"] or "cut off",
            escape(", ".join(row["contenders"])),
        )
    marks.emit(console, table)
