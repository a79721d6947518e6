"""A race in the terminal: the verdict first, then what it rests on, the rest on request."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from dragstrip.analysis import ColumnVerdict, Pair, by_column
from dragstrip.analysis.fitness import unfit_text
from dragstrip.metrics import KNOWN
from dragstrip.record import EventKind, Race
from dragstrip.report import figures, glyphs
from dragstrip.report.console import Console
from dragstrip.report.race import notes, wording
from dragstrip.report.race.badge import column_badge, race_badge
from dragstrip.report.race.headline import headline
from dragstrip.report.race.latency import kind_rows
from dragstrip.report.race.summary import (
    DISTURBED_EACH,
    JudgedRace,
    Part,
    Row,
    compared,
    leading_figures,
    of_rates,
    shown_beside,
    shown_pairs,
    ties_wide,
    title,
    with_own_paths,
)
from dragstrip.requested import title_of
from dragstrip.validity import Status

if TYPE_CHECKING:
    from dragstrip.report.race.columns import TableCell

#: From this width everything fits next to the bars; below, the other figures get a table of their own.
WIDE = 130

#: Background, ink, then the eight colours; read on light and dark pages alike.
_INK, _GROUND = (232, 234, 237), (20, 23, 27)
_RED, _GREEN, _ORANGE = (242, 119, 119), (86, 200, 150), (240, 163, 60)
_BLUE, _PINK, _SKY = (86, 160, 233), (242, 119, 173), (110, 200, 230)
_COLOURS = [(59, 66, 76), _RED, _GREEN, _ORANGE, _BLUE, _PINK, _SKY, _INK]
_THEME = TerminalTheme(_GROUND, _INK, _COLOURS, [(110, 118, 130), *_COLOURS[1:]])


def show_race(
    console: Console, judged: JudgedRace, *, all_pairs: bool = False, verbose: bool = False, run: str = ""
) -> None:
    """Prints a race and its verdict, the verdict first.

    Args:
        all_pairs: every pair instead of the telling ones.
        verbose: adds what the words mean, all checks, other metrics' pairs, and the other figures at any width.
        run: how commands that are suggested name the race; its id if empty.
    """
    shown = _Shown(width=console.width, all_pairs=all_pairs, verbose=verbose)
    badge, parts = race_badge(judged), judged.parts
    line = Text.assemble((f" {badge.word} ", glyphs.BADGE_STYLE[badge.kind]), " ", (badge.text, "bold"))
    lines: list[RenderableType] = [line, Text(headline(judged)), *map(Text, compared(judged.record)), Text()]
    if len(parts) > 1:
        lines += columns_table(judged, console.width)
    for part in parts:
        if len(parts) > 1:
            lines.append(Text.assemble((part.name, "bold"), "  ", (column_badge(part).line, "dim")))
        lines += _measured(part, shown)
        if verbose:
            lines += [*_rest(part, shown), Text()]
        if part.race.profiles:
            from dragstrip.report.race import causes  # of few races

            lines += causes.lines(part.race)
    lines += _foreign(judged.record)
    lines += _beside_the_verdict(judged, run or judged.record.id, every=verbose)
    lines.append(Text(summary(judged), style="dim"))
    glyphs.emit(console, *lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """What is shown: the terminal's width in cells, every pair, and what the short report leaves out."""

    width: int
    all_pairs: bool
    verbose: bool

    @property
    def wide(self) -> bool:
        """Whether everything fits next to the bars."""
        return self.width >= WIDE


def _measured(part: Part, shown: _Shown) -> list[RenderableType]:
    """One column's ranking, which contenders are out of it, and its pairs."""
    lines: list[RenderableType] = [ranking(part.verdict, part.rows, beside=shown.wide), Text()] if part.rows else []
    lines += _by_kind(part.race)
    if part.race.machine.database:
        from dragstrip.report.race import database  # few races have one

        if costs := database.text(part.race, part.verdict, part.names):
            lines += [Text(costs), Text()]
    for entrant in part.out:
        when = "" if entrant.out_round is None else f" in round {entrant.out_round + 1}"
        lines.append(Text.assemble(("■ ", "magenta"), (entrant.name, "bold"), f" is out{when}: {entrant.out}"))
    lines += [Text()] if part.out else []
    pairs = shown_pairs(part.verdict, part.names, every=shown.all_pairs)
    if pairs:
        lines += [*_forest(pairs, part, shown.width, verbose=shown.verbose), Text()]
    return lines


def columns_table(judged: JudgedRace, width: int, *, legend: bool = True) -> list[RenderableType]:
    """Contender by column: as many columns next to each other as the terminal holds, the others below."""
    from dragstrip.report.race import columns  # races of several columns alone need it

    whole = columns.table(judged)
    names = min(max(len(name) for name in ("contender", *dict(whole.rows))), max(width // 3, 10))
    cells = [[_cell_text(row[at]) for _, row in whole.rows] for at in range(len(whole.heads))]
    wide = [
        max(len(name), len(f"by {measure}"), *map(len, texts))
        for (name, measure), texts in zip(whole.heads, cells, strict=True)
    ]
    lines: list[RenderableType] = []
    for chosen in _fitting(wide, width - names - 2):
        table = _table(max_width=names)
        for at in chosen:
            name, measure = whole.heads[at]
            table.add_column(Text.assemble((name, "bold"), "\n", (f"by {measure}", "dim")), no_wrap=True)
        for at_row, (name, _) in enumerate(whole.rows):
            table.add_row(Text(name), *(cells[at][at_row] for at in chosen))
        lines += [table, Text()]
    if legend:
        lines += [*(Text(line, style="dim") for line in columns.legend(judged, whole)), Text()]
    return lines


def _cell_text(cell: TableCell) -> Text:
    style = "bold" if cell.number else "dim" if cell.lacks else ""
    return Text.assemble((cell.text, style), (f" {cell.letters}" if cell.letters else "", "yellow"))


def _fitting(wide: Sequence[int], room: int) -> list[list[int]]:
    """Columns of these widths in as few tables as hold them, one at the least in each."""
    chosen: list[list[int]] = []
    left = 0
    for at, width in enumerate(wide):
        if not chosen or width + 2 > left:
            chosen.append([])
            left = room
        chosen[-1].append(at)
        left -= width + 2
    return chosen


def _beside_the_verdict(judged: JudgedRace, run: str, *, every: bool) -> list[RenderableType]:
    """The heaviest notes, how quiet the machine was, and what more budget would decide."""
    listed, lines = notes.all_notes(judged.parts), list[RenderableType]()
    for note in listed if every else listed[: notes.MAX_NOTES]:
        mark = (f"{glyphs.STATUS_MARK[note.status]} ", glyphs.STATUS_STYLE[note.status])
        word = "void, " if note.status is Status.VOID else ""
        head = (f"{word}{note.head}: ", "bold") if note.head else ""
        lines.append(Text.assemble(mark, head, note.text if every else notes.clipped(note)))
    level = notes.worst_noise_level(judged.parts)
    status = level.status or "unknown"
    lines.append(Text.assemble((f"{glyphs.STATUS_MARK[status]} ", glyphs.STATUS_STYLE[status]), level.text))
    if open_ := notes.undecided_hint(judged, run):
        lines.append(Text(f"▸ {open_}", style="bold"))
    hidden = len(listed) - notes.MAX_NOTES
    if hidden > 0 and not every:
        also = "1 more note" if hidden == 1 else f"{hidden} more notes"
        lines.append(Text(f"{also}: dragstrip show {run} --verbose", style="dim"))
    return lines


def _rest(part: Part, shown: _Shown) -> list[RenderableType]:
    """What is shown on request: figures, other metrics, checks that passed, what the words mean."""
    lines: list[RenderableType] = [Text()]
    if part.rows and not shown.wide:
        beside = {row.name: _figures(row) for row in part.rows}
        table = _table(numbers=[*beside[part.rows[0].name]], max_width=26)
        for name, cells in beside.items():
            table.add_row(name, *cells.values())
        lines += [table, Text()]
    others = shown_beside(part.verdict, part.names, every=shown.all_pairs)
    if others:
        lines += [_by_other_metrics(others), Text()]
    passed = [figures.check(check.label) for check in part.checks if check.status is Status.PASS]
    if passed:
        mark = (f"{glyphs.STATUS_MARK['pass']} ", glyphs.STATUS_STYLE["pass"])
        lines.append(Text.assemble(mark, ("passed: ", "bold"), ", ".join(passed)))
    return [*lines, Text(), *_footer(part)]


def ranking(verdict: ColumnVerdict, rows: Sequence[Row], *, beside: bool) -> Table:
    """Contenders fastest first with bars on one scale; ``beside`` adds the other figures to the same rows."""
    metric = verdict.metric
    table = glyphs.table(expand=True)
    tied = ties_wide(rows)
    if tied:
        table.add_column("", width=tied, no_wrap=True)
    # Each head has two lines, so that all of them begin in the first.
    table.add_column("contender\n", no_wrap=True, overflow="ellipsis", min_width=10, max_width=32)
    for one in leading_figures(rows[0], metric):
        mark = ("\ndecides", "dim") if one.decides else "\n"
        table.add_column(Text.assemble(one.head, mark), justify="right", no_wrap=True)
        if one.decides:
            table.add_column("interval\n", no_wrap=True)
    table.add_column("\n" if KNOWN[metric].more_is_better else "less is better\n", ratio=1, no_wrap=True)
    for head in _figures(rows[0]) if beside else ():
        table.add_column(head, justify="right", no_wrap=True)
    scale = max(figures.finite(row.main.high) or row.main.estimate for row in rows)
    for row in rows:
        main = row.main
        cells: list[RenderableType] = [glyphs.ties(row.ties)] if tied else []
        cells.append(row.name)
        for one in leading_figures(row, metric):
            cells += [one.text, one.span] if one.decides else [one.text]
        cells.append(glyphs.Bar(main.estimate, main.low, main.high, scale))
        table.add_row(*cells, *(_figures(row).values() if beside else ()))
    return table


def _table(*texts: str, numbers: Sequence[str] = (), max_width: int = 32) -> Table:
    """A table of contenders, with columns of text and of numbers that don't fold."""
    table = glyphs.table()
    table.add_column("contender", no_wrap=True, overflow="ellipsis", max_width=max_width)
    for head in texts:
        table.add_column(head, no_wrap=True)
    for head in numbers:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def _by_kind(race: Race) -> list[RenderableType]:
    """Share and latency of each request, if the workload has several."""
    rows = kind_rows(race)
    if not rows:
        return []
    table = _table("request", numbers=("share", "p50 µs*", "p99 µs*", "failed"))
    for row in rows:
        latencies = (figures.microseconds(row.latency_us.get(label)) for label in ("p50", "p99"))
        table.add_row(row.contender, row.kind, figures.percent(row.share), *latencies, figures.count(row.failed))
    return [table, Text()]


def _figures(row: Row) -> dict[str, str]:
    """The other figures of a contender, by their columns' heads."""
    estimate, latency_us = row.estimate, row.latency_us
    return {
        "p50 µs*": figures.microseconds(latency_us.get("p50")),
        "p99 µs*": figures.microseconds(latency_us.get("p99")),
        "memory": figures.memory(estimate.peak_memory_bytes),
        "errors": figures.count(sum(estimate.errors.values())),
        "rounds": figures.count(estimate.rounds),
        "blocks void": f"{estimate.void_blocks}/{estimate.blocks}",
    }


def _forest(pairs: Sequence[Pair], part: Part, width: int, *, verbose: bool = False) -> list[RenderableType]:
    """A line per pair, its ratio and interval against 1 and the margin's band, and the scale under all of them.

    A pair that the machine disturbed unequally has a mark. What the mark means is written below the pair if few pairs
    have one, or if ``verbose``; otherwise below the plot, in one line for all.

    Args:
        pairs: the part's pairs that are shown.
        width: of the terminal, in cells.
    """
    axis = glyphs.Axis.of([_pair_span(pair) for pair in pairs], pairs[0].margin)
    lines = [_pair_line(pair, axis, void=bool({pair.a, pair.b} & part.void_contenders)) for pair in pairs]
    count, over = len(part.verdict.pairs), KNOWN[pairs[0].metric].over
    listed = "pairs" if len(pairs) == count else f"{len(pairs)} of {count} pairs"
    heads = (listed, "", "×", "interval", "verdict")
    least = [max(len(str(line[at])) for line in (heads, *lines)) for at in range(5)]
    # Names and words may fold, numbers never do; the plot takes the rest.
    limits = (max(width * 3 // 8, 20), 0, least[2], least[3], max(width // 6, 12))
    sizes = [min(size, limit) for size, limit in zip(least, limits, strict=True)]
    about = Text(f"by {over}", style="dim")
    parts: list[RenderableType] = [about, table := _forest_table(sizes, heads)]
    disturbed = [pair for pair in pairs if pair.disturbed]
    separately = verbose or len(disturbed) <= DISTURBED_EACH
    for line, pair in zip(lines, pairs, strict=True):
        table.add_row(*line)
        if pair.disturbed and separately:
            parts += [
                Padding(Text(f"▲ {pair.disturbed.text}", style="yellow"), (0, 0, 0, 2)),
                table := _forest_table(sizes, None),
            ]
    table.add_row("", axis)
    if disturbed and not separately:
        parts.append(Text(f"▲ {wording.unequal_pairs_text(disturbed)}", style="yellow"))
    return parts


def _word(pair: Pair) -> Text:
    """The verdict word, in its colour, with what qualifies it."""
    verdict = Text(figures.called(pair), style=glyphs.word(pair.verdict).style)
    if pair.within_margin and pair.verdict.separated:
        verdict.append(f", by under {figures.percent(pair.margin)}")
    if pair.unfit:
        verdict.append(f", {unfit_text(pair.unfit)}")
    if pair.disturbed:
        verdict.append(" ▲", style="yellow")
    return verdict


def _pair_span(pair: Pair) -> tuple[float, float]:
    ends = [figures.finite(end) for end in (pair.low, pair.high, pair.ratio)]
    known = [end for end in ends if end is not None and end > 0]
    return (min(known), max(known)) if known else (1.0, 1.0)


def _pair_line(pair: Pair, axis: glyphs.Axis, *, void: bool) -> tuple[RenderableType, ...]:
    names = Text.assemble((pair.a, "bold"), " against ", pair.b)
    whisker = glyphs.Whisker(pair.ratio, pair.low, pair.high, axis, glyphs.VERDICT_STYLE[pair.verdict])
    bounded = figures.finite(pair.low) is not None
    at, interval = figures.times(pair.ratio, pair.low, pair.high)
    verdict = Text("void", style=glyphs.STATUS_STYLE["void"]) if void else _word(pair) if bounded else Text("too early")
    return names, whisker, Text(at), Text(interval), verdict


def _forest_table(sizes: Sequence[int], heads: Sequence[str] | None) -> Table:
    """Each table has the same columns, so that the lines of several are aligned."""
    table = glyphs.table(header=heads is not None, expand=True)
    names, _, ratio, interval, verdict = heads or [""] * 5
    table.add_column(names, width=sizes[0], overflow="fold")
    table.add_column("", ratio=1, no_wrap=True)
    table.add_column(ratio, width=sizes[2], justify="right", no_wrap=True)
    table.add_column(interval, width=sizes[3], no_wrap=True)
    table.add_column(verdict, width=sizes[4], overflow="fold")
    return table


def _by_other_metrics(pairs: Sequence[Pair]) -> Table:
    """What else the race compared: the fastest against each other contender, one line per metric."""
    table = glyphs.table("by other metrics", "against", "by")
    table.add_column("×", justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for pair in pairs:
        ratio, interval = figures.times(pair.ratio, pair.low, pair.high)
        table.add_row(pair.a, pair.b, KNOWN[pair.metric].compared, ratio, interval, _word(pair))
    return table


def _foreign(race: Race) -> list[RenderableType]:
    """Other tools' figures, apart from what was raced."""
    if not any(event.kind == EventKind.FOREIGN for event in race.events):
        return []
    from dragstrip.report.race import external

    runs = external.figures(race)
    if not runs:
        return []
    table = glyphs.table("by other tools")
    for head in ("tool", "requests/s", "connections", "failed", "p50 µs", "p99 µs"):
        table.add_column(head, justify="right", no_wrap=True)
    for figure in runs:
        run = figure.run
        tails = (figures.microseconds(run.latency_us.get(q)) for q in ("p50", "p99"))
        counts = (figures.count(run.connections), figures.count(run.failed))
        table.add_row(Text(figure.name), Text(run.tool), figures.figure(run.rate_per_s), *counts, *tails)
    return [table, Text(external.NOTE, style="dim"), Text()]


def _footer(part: Part) -> list[RenderableType]:
    if not part.rows:
        return []
    lines = [figures.meaning(part.verdict), figures.null_race(part.race)]
    if ties_wide(part.rows):
        lines.append("Contenders joined by a bar on the left are tied.")
    load = part.race.load
    at = f"at saturation ({load.connections} connections, closed loop)"
    at = f"at {load.rate_per_s:,g} requests/s (open loop), all rounds merged" if load.rate_per_s else at
    lines.append(
        f"* latency {at}: shown, not tested. "
        "A single contender's interval is descriptive; verdicts come from the ratios."
    )
    return [Text(line, style="dim") for line in lines]


def summary(judged: JudgedRace) -> str:
    """Load, duration, cores and seed, on one line."""
    race = judged.record
    keep = "keep-alive" if race.load.keepalive else "a connection per request"
    void = sum(bool(round_.void) for round_ in race.rounds)
    return (
        f"{_asked(race)}, {race.load.connections} connections, {keep}"
        f"{f', {race.load.streams} streams each' if race.load.streams > 1 else ''}"
        f"{'' if race.load.http == '1.1' else f', HTTP/{race.load.http}'}"
        f"{f', {race.load.rate_per_s:,g}/s offered' if race.load.rate_per_s else ''} · "
        f"{len(race.rounds)} rounds{f' ({void} void)' if void else ''} in {race.spent_s:.0f} s · "
        f"server cores {_cores(race.server_cores)}, engine cores {_cores(race.engine_cores)} · "
        f"seed {race.seed} · ended: {judged.ended or 'interrupted, or still running'}"
    )


def _asked(race: Race) -> str:
    """The workload; of several columns all of them, with the rates at which each is offered."""
    if not of_rates(race):
        return title(race)
    rates: dict[str, list[str]] = {}
    for column in race.columns:
        rates.setdefault(title_of(column.workload, column.definition), []).append(f"{column.load.rate_per_s:,g}/s")
    listed = figures.several(tuple(f"{name} at {figures.several(tuple(offered))}" for name, offered in rates.items()))
    return with_own_paths(race, listed)


def _cores(cores: Sequence[int]) -> str:
    return ",".join(map(str, cores))


def show_parity(console: Console, race: Race) -> None:
    """The parity sheet: what each contender does; rows that differ are marked. One for each column."""
    if len(race.columns) > 1:
        for column in by_column(race):
            glyphs.emit(console, Text(column.columns[0].name, style="bold reverse"))
            show_parity(console, column)
        return
    facts = parity_rows(race)
    if not facts:
        glyphs.emit(console, Text("no parity sheet: no contender passed scrutineering"))
        return
    names = [entrant.name for entrant in race.entrants if entrant.parity]
    title = Text("parity sheet: how the contenders differ; ▲ marks a difference", style="bold")
    parts: list[RenderableType] = [title, Text()]
    # Side by side while it fits, otherwise one contender's facts below the other's.
    if 26 + 16 * len(names) <= console.width:
        table = glyphs.table("", "fact", *map(Text, names))
        table.columns[0].width = 1
        for fact, values, differs in facts:
            table.add_row(Text("▲" if differs else " ", style="yellow"), Text(fact), *map(Text, values))
        parts.append(table)
    else:
        for fact, values, differs in facts:
            parts.append(Text.assemble(("▲ " if differs else "  ", "yellow"), (fact, "bold")))
            same = [("all", values[0])] if not differs else list(zip(names, values, strict=True))
            parts += [Padding(Text(f"{name}: {value}"), (0, 0, 0, 4)) for name, value in same]
    if race.machine.awake is not None:
        kept, wait = race.machine.awake, race.machine.engine_wait
        parts += [Text(), Text(f"for all: cores kept awake: {kept}; the engine {wait}s while it waits for responses")]
    glyphs.emit(console, *parts)


def parity_rows(race: Race) -> list[tuple[str, list[str], bool]]:
    """Each fact with every contender's value, in display order, and whether they differ."""
    sheets = [entrant.parity for entrant in race.entrants if entrant.parity]
    facts = dict.fromkeys(fact for sheet in sheets for fact in sheet)
    rows = []
    for fact in facts:
        values = [sheet.get(fact, figures.NONE) for sheet in sheets]
        kinds = {"off" if value == "none" else value for value in values}  # of a log, of compression: no difference
        rows.append((fact, values, len(kinds) > 1))
    return rows


def terminal_svg(judged: JudgedRace, *, columns: int = 110) -> str:
    """What ``show_race`` prints, in colour, as an SVG picture that loads nothing."""
    console = Console(
        record=True,
        width=columns,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        no_color=False,
    )
    show_race(console, judged)
    svg = console.export_svg(title=figures.visible(title(judged.record)), theme=_THEME)
    # rich names a web font's address; a picture in a README must fetch nothing, and monospace will do.
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL)
    return re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
