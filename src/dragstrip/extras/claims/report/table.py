"""Claims and what became of them: a table for the terminal, rows for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from rich.console import Console, RenderableType
from rich.text import Text

from dragstrip.extras.claims.definition import Claim
from dragstrip.extras.claims.finding import ClaimFinding, ClaimRow, Outcome
from dragstrip.report import figures, glyphs
from dragstrip.store.json_values import JsonObject

_STYLE = {
    Outcome.HOLDS: "blue",
    Outcome.DIRECTION: "blue",
    Outcome.OVERTURNED: "yellow",
    Outcome.SAME: "bold",
    Outcome.UNDECIDED: "dim",
    Outcome.CANNOT: "magenta",
}

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
        return f"{figures.figure(fields.published.per_s[0])}/s"
    if fields.kind == "ends":
        return "stuck"
    if fields.kind == "same":
        return "same"
    return figures.ratio(fields.ratio) if fields.ratio else "> 1"


def measured(claim: Claim, finding: ClaimFinding) -> str:
    """What was measured, with its interval; a dash if nothing was."""
    if figures.finite(finding.ratio) is None:
        return figures.NONE
    if claim.fields.kind == "peak":
        return f"{figures.figure(finding.ratio)}/s ({figures.span(finding.low, finding.high) or 'no interval yet'})"
    by = " by CPU" if finding.metric == "cpu" else ""
    return f"{figures.ratio(finding.ratio)} ({figures.ratio_span(finding.low, finding.high)}){by}"


def show(console: Console, rows: Sequence[ClaimRow], *, remarks: bool = False) -> None:
    """One table for each write-up; with ``remarks`` what each verdict rests on."""
    parts: list[RenderableType] = []
    for source in dict.fromkeys(source_of(row.claim) for row in rows):
        table = glyphs.table()
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
    glyphs.emit(console, *parts)


def source_of(claim: Claim) -> str:
    """The heading of a claim."""
    return f"{claim.fields.source} ({claim.fields.year})"


def stand_ins(row: ClaimRow) -> str:
    """The substitutes of a row and the contenders they raced for, in brackets; "" without any."""
    texts = dict.fromkeys(
        stand_in for finding in (row.published, row.fair) if finding for stand_in in finding.stand_ins
    )
    return f" ({'; '.join(texts)})" if texts else ""


def _cells(row: ClaimRow) -> list[Text]:
    cells = [Text(row.claim.id + stand_ins(row)), Text(published(row.claim))]
    for finding in (row.published, row.fair):
        if finding is None:
            cells += [Text(figures.NONE), Text("")]
            continue
        outcome = f"{finding.outcome}{' (void)' if finding.void else ''}"
        cells += [Text(measured(row.claim, finding)), Text(outcome, style=_STYLE.get(finding.outcome, "dim"))]
    return cells


def _remarks(row: ClaimRow) -> list[RenderableType]:
    parts: list[RenderableType] = [Text.assemble((row.claim.id, "bold"), f": {row.claim.fields.statement}")]
    load = row.claim.fields.load.text()
    for name, finding in ((f"published load ({load})", row.published), ("fair settings", row.fair)):
        if finding is not None:
            race = f" [race {finding.race}]" if finding.race else ""
            parts.append(Text(f"  {name}: {finding.outcome}: {finding.text}{race}"))
            parts += [Text(f"    {remark}", style="dim") for remark in finding.remarks]
    if row.claim.fields.note:
        parts.append(Text(f"  {row.claim.fields.note}", style="dim"))
    return [*parts, Text()]


def plan(races_s: Sequence[float], lacking: Sequence[str], budget_s: float) -> str:
    """Before the first race: how many races there are and how long they may take, and which claims can't be raced.

    Args:
        races_s: the seconds that each race and its checks may take.
    """
    shown = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if len(lacking) > 3 else "")
    missing = f"; can't run here: {shown} (`dragstrip claims list` has the reasons)" if lacking else ""
    races = f"{len(races_s)} race{'' if len(races_s) == 1 else 's'}"
    return f"{races}, {minutes(races_s)}; budget: {budget_s / 60:.0f} min{missing}"


def minutes(races_s: Sequence[float]) -> str:
    """The time that races may take together."""
    return f"about {max(ceil(sum(races_s) / 60), 1)} min"


def listing(console: Console, rows: Sequence[Mapping[str, object]]) -> None:
    """Every claim: its statement, its figure, and whether it can be raced here."""
    table = glyphs.table("claim", "status", "published", "what was claimed")
    for row in rows:
        ready = row["status"] == "ready"
        statement = f"{row['statement']} ({row['source']}, {row['year']})" + ("" if ready else f"; {row['reason']}")
        table.add_row(
            str(row["claim"]),
            Text(str(row["status"]), style="green" if ready else "yellow"),
            str(row["figure"]),
            Text(statement),
        )
    glyphs.emit(console, table)


def as_json(rows: Sequence[ClaimRow]) -> list[JsonObject]:
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


def goes_on(finding: ClaimFinding) -> bool:
    """Whether ``claims check --resume`` races it again on this machine."""
    return bool(finding.again) or finding.outcome is Outcome.UNTRIED


def _finding(finding: ClaimFinding) -> JsonObject:
    return {
        "verdict": finding.outcome.value,
        "void": finding.void.value if finding.void else None,
        "detail": finding.text,
        "measured": figures.finite(finding.ratio),
        "low": figures.finite(finding.low),
        "high": figures.finite(finding.high),
        "metric": finding.metric,
        "race": finding.race or None,
        "goes_on": goes_on(finding),
        "stand_ins": list(finding.stand_ins),
        "remarks": list(finding.remarks),
    }
