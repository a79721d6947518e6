"""Short listings for the terminal: what can race here, and what has raced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from dragstrip.report import figures, glyphs
from dragstrip.store.database import RunLine

#: From here on a listing has room for everything.
WIDE = 120


def contenders(console: Console, rows: Sequence[Mapping[str, str]]) -> None:
    """Every definition: ready with its version, or missing or broken with the reason and the remedy."""
    table = glyphs.table("contender", "status", "version, or what is missing and how to get it")
    for row in rows:
        ready = row["status"] == "ready"
        colour = {"ready": "green", "missing": "yellow"}.get(row["status"], "red")
        status = f"[{colour}]{row['status']}[/]"
        version_or_remedy = row["version"] if ready else "; ".join(filter(None, (row["reason"], row["remedy"])))
        table.add_row(escape(row["name"]), status, escape(version_or_remedy or ""))
    glyphs.emit(console, table)


def runs(console: Console, lines: Sequence[RunLine], verdicts: Mapping[str, str]) -> None:
    """Stored races, newest first; ``verdicts``: by race, as they were last shown."""
    if not lines:
        glyphs.emit(console, "no race is stored yet: `dragstrip race --line-up default` runs one")
        return
    table = glyphs.table()
    table.add_column("race", no_wrap=True)
    table.add_column("started", no_wrap=True)
    for head in ("verdict", "contenders"):
        table.add_column(head, overflow="fold", ratio=1)
    for head in ("workload", "rounds", "ended") if console.width >= WIDE else ():
        table.add_column(head, overflow="fold")
    for line in lines:
        ended = line.finished or "interrupted, or still running"
        # A race that was resumed keeps its former verdict until it ends again.
        verdict = verdicts.get(line.race) or f"({ended})" if line.finished else f"({ended})"
        cells = [line.race, figures.local(line.started), verdict, ", ".join(line.contenders)]
        more = [line.workload, str(line.rounds), ended] if console.width >= WIDE else []
        table.add_row(*map(Text, (*cells, *more)))
    glyphs.emit(console, table)
