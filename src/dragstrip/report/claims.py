"""Claims and what became of them: a table for the terminal, rows for JSON, the page of docs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from dragstrip.claim import FAIR_LOAD, Claim
from dragstrip.record import Race
from dragstrip.report import marks, words
from dragstrip.trial.run import Row
from dragstrip.trial.settle import CANNOT, DIRECTION, HOLDS, OVERTURNED, SAME, UNDECIDED, Finding

_STYLE = {HOLDS: "blue", DIRECTION: "blue", OVERTURNED: "yellow", SAME: "bold", UNDECIDED: "dim", CANNOT: "magenta"}

#: What each verdict means; for under a table.
MEANING = (
    "holds: the published side is ahead, by the published size within the claim's tolerance · holds in direction: "
    "ahead, by another size · overturned: the other side is ahead · same: no difference within the race's margin · "
    "undecided: the interval includes 1, or the measurement is void"
)


def published(claim: Claim) -> str:
    """The published figure as people read it."""
    fields = claim.fields
    if fields.kind == "peak":
        return f"{words.figure(fields.published.per_s[0])}/s"
    if fields.kind == "ends":
        return "stuck"
    if fields.kind == "same":
        return "same"
    return words.ratio(fields.ratio) if fields.ratio else "> 1"


def measured(claim: Claim, found: Finding) -> str:
    """What was measured, with its interval; a dash where nothing was."""
    if words.finite(found.ratio) is None:
        return words.NONE
    if claim.fields.kind == "peak":
        return f"{words.figure(found.ratio)}/s ({words.span(found.low, found.high) or 'no interval yet'})"
    by = " by CPU" if found.metric == "cpu" else ""
    return f"{words.ratio(found.ratio)} ({words.ratio_span(found.low, found.high)}){by}"


def show(console: Console, rows: Sequence[Row], *, remarks: bool = False) -> None:
    """One table for each write-up; with ``remarks`` what each verdict rests on."""
    parts: list[RenderableType] = []
    for source in dict.fromkeys(source_of(row.claim) for row in rows):
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0), title_justify="left")
        table.add_column("claim", overflow="fold", ratio=1)
        for head in ("published", "under its load", "verdict", "fair settings", "verdict"):
            table.add_column(head, overflow="fold", justify="right" if head == "published" else "left")
        for row in rows:
            if source_of(row.claim) == source:
                table.add_row(*_cells(row))
        parts += [Text(source, style="bold"), table, Text()]
    if remarks:
        for row in rows:
            parts += _remarks(row)
    parts.append(Text(MEANING, style="dim"))
    marks.emit(console, *parts)


def source_of(claim: Claim) -> str:
    """The heading that a claim stands under."""
    return f"{claim.fields.source} ({claim.fields.year})"


def stand_ins(row: Row) -> str:
    """Who raced for whom, in brackets, for the row itself; "" if nobody did."""
    told = dict.fromkeys(one for found in (row.published, row.fair) if found for one in found.stand_ins)
    return f" ({'; '.join(told)})" if told else ""


def _cells(row: Row) -> list[Text]:
    cells = [Text(row.claim.id + stand_ins(row)), Text(published(row.claim))]
    for found in (row.published, row.fair):
        if found is None:
            cells += [Text(words.NONE), Text("")]
            continue
        cells += [Text(measured(row.claim, found)), Text(found.outcome, style=_STYLE.get(found.outcome, "dim"))]
    return cells


def _remarks(row: Row) -> list[RenderableType]:
    parts: list[RenderableType] = [Text.assemble((row.claim.id, "bold"), f": {row.claim.fields.statement}")]
    load = row.claim.fields.load.text()
    for name, found in ((f"published load ({load})", row.published), ("fair settings", row.fair)):
        if found is not None:
            race = f" [race {found.race}]" if found.race else ""
            parts.append(Text(f"  {name}: {found.outcome}: {found.detail}{race}"))
            parts += [Text(f"    {remark}", style="dim") for remark in found.remarks]
    if row.claim.fields.note:
        parts.append(Text(f"  {row.claim.fields.note}", style="dim"))
    return [*parts, Text()]


def listing(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Every claim: what was said, with which figure, and whether it can be raced here."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for head in ("claim", "status", "published", "what was claimed"):
        table.add_column(head, overflow="fold")
    for row in rows:
        ready = row["status"] == "ready"
        told = f"{row['statement']} ({row['source']}, {row['year']})" + ("" if ready else f"; {row['reason']}")
        table.add_row(
            row["claim"], Text(row["status"], style="green" if ready else "yellow"), row["figure"], Text(told)
        )
    marks.emit(console, table)


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows for programs; numbers that are not known are null."""
    return [
        {
            "claim": row.claim.id,
            "statement": row.claim.fields.statement,
            "source": row.claim.fields.source,
            "year": row.claim.fields.year,
            "kind": row.claim.fields.kind,
            "contenders": list(row.claim.fields.contenders),
            "published_ratio": row.claim.fields.ratio,
            "published_per_s": list(row.claim.fields.published.per_s),
            "tolerance": row.claim.fields.tolerance,
            "load": row.claim.fields.load.model_dump(),
            "published": _finding(row.published),
            "fair": None if row.fair is None else _finding(row.fair),
        }
        for row in rows
    ]


def _finding(found: Finding) -> dict[str, Any]:
    return {
        "verdict": found.outcome,
        "detail": found.detail,
        "measured": words.finite(found.ratio),
        "low": words.finite(found.low),
        "high": words.finite(found.high),
        "metric": found.metric,
        "race": found.race or None,
        "stand_ins": list(found.stand_ins),
        "remarks": list(found.remarks),
    }


def markdown(rows: Sequence[Row], races: Sequence[Race], *, chart: str = "") -> str:
    """The page of docs: one table per write-up, what each row rests on, and where and with what it was measured.

    Args:
        races: those that the rows rest on, for machine and versions.
        chart: a path for the picture, relative to the page.
    """
    lines = [
        "# Claims, put to the test",
        "",
        f"Written by `make claims`{_when(races)}; nothing below is typed by hand.",
        "",
        *_machine(races),
        "",
        f"Each claim is raced under its published load, and beside it under fair settings ({FAIR_LOAD.text()}, one "
        "worker per core of the servers' lane). Counts and times of the published runs are replaced by rounds of short "
        "blocks on fresh launches (METHOD.md); HTTP version, keep-alive and connections are as published. A ratio is "
        "the first contender's speed over the second's, with an interval that holds for its whole race at once. By "
        "CPU: where a new connection for each request makes the client the limit, the servers' CPU time per request "
        "decides, which a slow client does not change.",
        "",
        *([f"![Published and measured ratios]({chart})", ""] if chart else []),
        f"*{MEANING}.*",
        "",
    ]
    for source in dict.fromkeys(source_of(row.claim) for row in rows):
        own = [row for row in rows if source_of(row.claim) == source]
        lines += [f"## {_plain(source)}", "", *_table(own), "", "What each verdict rests on:", ""]
        for row in own:
            lines += _notes(row)
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _when(races: Sequence[Race]) -> str:
    days = sorted(race.started[:10] for race in races)
    if not days:
        return ""
    return f" from races of {days[0]}" + (f" to {days[-1]}" if days[0] != days[-1] else "")


def _machine(races: Sequence[Race]) -> list[str]:
    if not races:
        return ["No race has been run yet."]
    race = races[-1]
    facts = race.machine
    told = ", ".join(str(facts[key]) for key in ("cpu", "kernel") if facts.get(key))
    versions = {entrant.name.partition(":")[0]: entrant.version for one in races for entrant in one.entrants}
    listed = " · ".join(f"{_plain(name)} {_plain(version)}" for name, version in sorted(versions.items()) if version)
    return [
        f"Machine: {_plain(told)}, cores {_plain(facts.get('cores_usable') or 'unknown')}; servers on core "
        f"{','.join(map(str, race.server_cores))}, engine on core {','.join(map(str, race.engine_cores))}; "
        f"Dragstrip {race.software}, method {race.method}.",
        "",
        f"Versions: {listed}.",
    ]


def _table(rows: Sequence[Row]) -> list[str]:
    head = "| claim | published | under its load | verdict | fair settings | verdict |"
    lines = [head, "|-|-|-|-|-|-|"]
    for row in rows:
        cells = [_plain(row.claim.fields.statement + stand_ins(row)), published(row.claim)]
        for found in (row.published, row.fair):
            cells += ["–", "–"] if found is None else [measured(row.claim, found), f"**{found.outcome}**"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _notes(row: Row) -> list[str]:
    lines = [f"- `{row.claim.id}` ({_plain(row.claim.fields.load.text())})."]
    if row.claim.fields.note:
        lines[0] += f" {_plain(row.claim.fields.note)}."
    for name, found in (("as published", row.published), ("fair", row.fair)):
        if found is not None:
            race = f" Race `{found.race}`." if found.race else ""
            told = "; ".join(_plain(part) for part in (found.detail, *found.remarks))
            lines.append(f"    - {name}: {found.outcome}: {told}.{race}")
    return lines


def _plain(text: str) -> str:
    """A text that Markdown takes as it is, on one line."""
    flat = " ".join(text.split())
    for sign in "\\`*_|<>[]":
        flat = flat.replace(sign, f"\\{sign}")
    return flat
