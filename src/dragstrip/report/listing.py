"""Short listings for the terminal: what can race here, and what has raced or was loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from dragstrip.record import LoadVerdict
from dragstrip.report import figures, glyphs
from dragstrip.requested import title_of
from dragstrip.store.database import RunLine
from dragstrip.store.loads import LoadLine

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


def runs(console: Console, lines: Sequence[RunLine | LoadLine], verdicts: Mapping[str, str]) -> None:
    """Stored races and loads, newest first; ``verdicts``: by race, as they were last shown."""
    if not lines:
        glyphs.emit(console, "no race is stored yet: `dragstrip race --line-up default` runs one")
        return
    table = glyphs.table()
    with_loads = any(isinstance(line, LoadLine) for line in lines)
    table.add_column("run" if with_loads else "race", no_wrap=True)
    table.add_column("started", no_wrap=True)
    for head in ("verdict", "contenders, request"):
        table.add_column(head, overflow="fold", ratio=1)
    for head in ("rounds", "ended") if console.width >= WIDE else ():
        table.add_column(head, overflow="fold")
    for line in lines:
        name, cells = _load_cells(line) if isinstance(line, LoadLine) else _race_cells(line, verdicts)
        shown = cells if console.width >= WIDE else cells[:2]
        table.add_row(*map(Text, (name, figures.local(line.started), *shown)))
    glyphs.emit(console, table)


def _race_cells(line: RunLine, verdicts: Mapping[str, str]) -> tuple[str, list[str]]:
    ended = line.finished or "interrupted, or still running"
    # A race that was resumed keeps its former verdict until it ends again.
    verdict = verdicts.get(line.race) or f"({ended})" if line.finished else f"({ended})"
    requests = ", ".join(title_of(*one) for one in line.definitions.items())
    return line.race, [verdict, f"{', '.join(line.contenders)}\n{requests}", str(line.rounds), ended]


def _load_cells(line: LoadLine) -> tuple[str, list[str]]:
    """A load has no contenders: its URL, its rate and its p99 are in their places."""
    p99_ns = None if line.p99_us is None else line.p99_us * 1000
    measured = f"load: {figures.figure(line.rate_per_s)}/s, p99 {figures.latency_text(p99_ns)}"
    verdict = measured if line.verdict == LoadVerdict.OK else f"{measured} ({line.verdict})"
    request = line.url if line.method == "GET" else f"{line.method} {line.url}"
    return line.load, [verdict, request, "", line.verdict]
