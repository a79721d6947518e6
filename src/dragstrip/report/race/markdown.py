"""A race as Markdown, for a README or a job's summary: the sentence, the ranking, and whatever speaks against it."""

from __future__ import annotations

from collections.abc import Sequence

from dragstrip.metrics import KNOWN
from dragstrip.report.comparison import Ruled, cell, ruling_items
from dragstrip.report.race import causes, columns
from dragstrip.report.race.headline import headline
from dragstrip.report.race.summary import JudgedRace, Part, behind, compared, leading_figures, title
from dragstrip.validity import Status


def race(judged: JudgedRace, rules: Sequence[Ruled] = ()) -> str:
    """One race; nothing that comes from outside is taken for markup.

    Args:
        rules: what became of ``--fail-if``.
    """
    record, parts = judged.record, judged.parts
    lines = [f"**{cell(headline(judged))}**", ""]
    lines += [*(f"{cell(line)}\n" for line in compared(record))]
    lines += [*held, ""] if (held := ruling_items([(rule.column, rule.ruling) for rule in rules])) else []
    lines += _ranking(parts[0]) if len(parts) == 1 else _columns(judged)
    lines += [
        "",
        *(f"- {cell(entrant.name)} is out: {cell(entrant.out)}" for entrant in record.entrants if entrant.out),
    ]
    for check in judged.checks:
        if check.status is not Status.PASS:
            at = f"at {cell(check.column)}: " if len(parts) > 1 else ""
            lines.append(f"- {check.status}: {at}{cell(check.detail)}")
    for part in parts:
        explained = causes.markdown(part.race)
        named = [f"{line} at {cell(part.name)}" if line.startswith("### ") else line for line in explained]
        lines += named if len(parts) > 1 else explained
    ended = judged.ended or "interrupted, or still running"
    told = f"{len(record.rounds)} rounds, {cell(title(record))}, ended: {ended}"
    lines += ["", f"race {cell(record.id)}, {told}"]
    return "\n".join(lines) + "\n"


def _columns(judged: JudgedRace) -> list[str]:
    """Contender by column, and which contenders are out of a column."""
    table = columns.table(judged)
    heads = (f"{cell(name)}, {cell(measure)}" for name, measure in table.heads)
    lines = [f"| contender | {' | '.join(heads)} |", f"|-|{'-|' * len(table.heads)}"]
    for name, cells in table.rows:
        shown = (f"{cell(entry.text)}{f' {entry.letters}' if entry.letters else ''}" for entry in cells)
        lines.append(f"| {cell(name)} | {' | '.join(shown)} |")
    lines += ["", *map(cell, columns.legend(judged, table)), ""]
    return lines + [
        f"- {cell(entrant.name)} is out at {cell(part.name)}: {cell(entrant.out)}"
        for part in judged.parts
        for entrant in part.out
    ]


def _ranking(part: Part) -> list[str]:
    verdict, rows = part.verdict, part.rows
    if not rows:
        return []
    measured = {row.name: leading_figures(row, verdict.metric) for row in rows}
    heads = [f"**{one.head} (decides)**" if one.decides else one.head for one in measured[rows[0].name]]
    lines = [f"| contender | version | {' | '.join(heads)} | behind the first |", f"|-|-|{'-:|' * len(heads)}-:|"]
    for row in rows:
        figures_of = [f"{one.text} ({one.span})" if one.span else one.text for one in measured[row.name]]
        cells = (row.name, row.entrant.version, *figures_of, behind(verdict, row.name, rows[0].name))
        lines.append(f"| {' | '.join(cell(text) for text in cells)} |")
    return [*lines, "", f"By {cell(KNOWN[verdict.metric].over)}."]
