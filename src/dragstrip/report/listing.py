"""Short listings for the terminal: what can race here, and what has raced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from dragstrip.report import figures, glyphs

#: From here on a listing has room for everything.
WIDE = 120


def contenders(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Every definition: ready with its version, or missing or broken with the reason and the remedy."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("contender", "status", "version, or what is missing and how to get it"):
        table.add_column(head, overflow="fold")
    for row in rows:
        ready = row["status"] == "ready"
        colour = {"ready": "green", "missing": "yellow"}.get(row["status"], "red")
        status = f"[{colour}]{row['status']}[/]"
        version_or_remedy = row["version"] if ready else "; ".join(filter(None, (row["reason"], row["remedy"])))
        table.add_row(escape(row["name"]), status, escape(version_or_remedy or ""))
    glyphs.emit(console, table)


def runs(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Stored races, newest first."""
    if not rows:
        glyphs.emit(console, "no race is stored yet: `dragstrip race --line-up default` runs one")
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("race", no_wrap=True)
    table.add_column("started", no_wrap=True)
    for head in ("verdict", "contenders"):
        table.add_column(head, overflow="fold", ratio=1)
    for head in ("workload", "rounds", "ended") if console.width >= WIDE else ():
        table.add_column(head, overflow="fold")
    for row in rows:
        ended = row["finished"] or "cut off, or still running"
        # A race that was resumed has its former verdict beside it until it ends again.
        verdict = row["verdict"] if row["finished"] and row["verdict"] else f"({ended})"
        cells = [row["race"], figures.local(row["started"]), verdict, ", ".join(row["contenders"])]
        more = [row["workload"], str(row["rounds"]), ended] if console.width >= WIDE else []
        table.add_row(*map(Text, (*cells, *more)))
    glyphs.emit(console, table)
