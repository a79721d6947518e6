"""A race in the terminal: the verdict first, then what it rests on, the rest on request."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from dragstrip.metrics import KNOWN
from dragstrip.record import Race
from dragstrip.report import figures, glyphs
from dragstrip.report.race import columns, database, external, forest, notes
from dragstrip.report.race.badge import Badge, column_badge, race_badge
from dragstrip.report.race.headline import headline
from dragstrip.report.race.latency import kind_rows
from dragstrip.report.race.summary import Part, Row, of_rates, parts, shown_beside, shown_pairs, ties_wide
from dragstrip.validity import Check, Status

if TYPE_CHECKING:
    from dragstrip.analysis import ColumnVerdict, Pair, Verdict

#: From here on everything fits beside bars of a telling length; below, it gets a table of its own.
WIDE = 130

#: Background, ink, then the eight colours; read on light and dark pages alike.
_INK, _GROUND = (232, 234, 237), (20, 23, 27)
_RED, _GREEN, _ORANGE = (242, 119, 119), (86, 200, 150), (240, 163, 60)
_BLUE, _PINK, _SKY = (86, 160, 233), (242, 119, 173), (110, 200, 230)
_COLOURS = [(59, 66, 76), _RED, _GREEN, _ORANGE, _BLUE, _PINK, _SKY, _INK]
_THEME = TerminalTheme(_GROUND, _INK, _COLOURS, [(110, 118, 130), *_COLOURS[1:]])


def show_race(
    console: Console,
    race: Race,
    verdict: Verdict,
    checks: Sequence[Check],
    *,
    all_pairs: bool = False,
    verbose: bool = False,
    run: str = "",
) -> None:
    """Prints a race and its verdict, the verdict first.

    Args:
        all_pairs: every pair instead of the telling ones.
        verbose: adds what the words mean, all checks, other metrics' pairs, and the other figures at any width.
        run: how commands that are suggested name the race; its id if empty.
    """
    shown = _Shown(width=console.width, all_pairs=all_pairs, verbose=verbose)
    lines: list[RenderableType] = [_badge(race_badge(race, verdict, checks))]
    lines += [Text(headline(race, verdict, checks)), Text()]
    each = parts(race, verdict, checks)
    if len(each) > 1:
        lines += columns_table(race, verdict, each, console.width)
    for part in each:
        if len(each) > 1:
            lines.append(Text.assemble((part.name, "bold"), "  ", (column_badge(part).line, "dim")))
        lines += _measured(part, shown)
        if verbose:
            lines += [*_rest(part, shown), Text()]
    lines += _foreign(race)
    lines += _beside_the_verdict(race, verdict, each, run or race.id, every=verbose)
    lines.append(Text(summary(race), style="dim"))
    glyphs.emit(console, *lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """What is asked for: the terminal's width in cells, every pair, and what is left out of the short report."""

    width: int
    all_pairs: bool
    verbose: bool

    @property
    def wide(self) -> bool:
        """Whether everything fits beside the bars."""
        return self.width >= WIDE


def _measured(part: Part, shown: _Shown) -> list[RenderableType]:
    """One column's ranking, which contenders are out of it, and its pairs."""
    lines: list[RenderableType] = [ranking(part.verdict, part.rows, beside=shown.wide), Text()] if part.rows else []
    lines += _by_kind(part.race)
    if told := database.text(part.race, part.verdict, part.names):
        lines += [Text(told), Text()]
    lines += _out(part)
    pairs = shown_pairs(part.verdict, part.names, every=shown.all_pairs)
    if pairs:
        lines += [*forest.plot(pairs, part, shown.width, verbose=shown.verbose), Text()]
    return lines


def columns_table(
    race: Race, verdict: Verdict, each: Sequence[Part], width: int, *, legend: bool = True
) -> list[RenderableType]:
    """Contender by column: as many columns beside each other as the terminal holds, the others below."""
    whole = columns.table(race, each)
    names = max([len("contender"), *(len(name) for name, _ in whole.rows)])
    names = min(names, max(width // 3, 10))
    cells = [[_cell_text(row[at]) for _, row in whole.rows] for at in range(len(each))]
    # A head's second line begins with "by ".
    wide = [max(len(name), len(of) + 3, *map(len, cell)) for (name, of), cell in zip(whole.heads, cells, strict=True)]
    lines: list[RenderableType] = []
    for chosen in _fitting(wide, width - names - 2):
        table = _table(max_width=names)
        for at in chosen:
            name, of = whole.heads[at]
            table.add_column(Text.assemble((name, "bold"), "\n", (f"by {of}", "dim")), no_wrap=True)
        for at_row, (name, _) in enumerate(whole.rows):
            table.add_row(Text(name), *(cells[at][at_row] for at in chosen))
        lines += [table, Text()]
    said = columns.legend(race, verdict, whole) if legend else []
    return [*lines, *(Text(line, style="dim") for line in said), *([Text()] if said else [])]


def _cell_text(cell: columns.Cell) -> Text:
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


def _badge(badge_: Badge) -> Text:
    return Text.assemble((f" {badge_.word} ", glyphs.BADGE_STYLE[badge_.kind]), " ", (badge_.text, "bold"))


def _beside_the_verdict(
    race: Race, verdict: Verdict, each: Sequence[Part], run: str, *, every: bool
) -> list[RenderableType]:
    """The heaviest notes, how quiet the machine was, and what more budget would tell."""
    found, parts = notes.all_notes(each), list[RenderableType]()
    for note in found if every else found[: notes.MAX_NOTES]:
        mark = (f"{glyphs.STATUS_MARK[note.status]} ", glyphs.STATUS_STYLE[note.status])
        word = "void, " if note.status == "void" else ""
        head = (f"{word}{note.head}: ", "bold") if note.head else ""
        parts.append(Text.assemble(mark, head, note.text if every else notes.clipped(note.text)))
    seen = notes.worst_noise_level(each)
    parts.append(Text.assemble((f"{glyphs.STATUS_MARK[seen.status]} ", glyphs.STATUS_STYLE[seen.status]), seen.text))
    if open_ := notes.undecided_hint(race, verdict, run):
        parts.append(Text(f"▸ {open_}", style="bold"))
    hidden = len(found) - notes.MAX_NOTES
    if hidden > 0 and not every:
        also = "1 more note" if hidden == 1 else f"{hidden} more notes"
        parts.append(Text(f"{also}: dragstrip show {run} --verbose", style="dim"))
    return parts


def _rest(part: Part, shown: _Shown) -> list[RenderableType]:
    """What is shown on request: figures, other metrics, checks that passed, what the words mean."""
    parts: list[RenderableType] = [Text()]
    if part.rows and not shown.wide:
        parts += [_beside(part.verdict, part.rows), Text()]
    others = shown_beside(part.verdict, part.names, every=shown.all_pairs)
    if others:
        parts += [_by_other_metrics(others), Text()]
    passed = [figures.check(check.label) for check in part.checks if check.status is Status.PASS]
    if passed:
        mark = (f"{glyphs.STATUS_MARK['pass']} ", glyphs.STATUS_STYLE["pass"])
        parts.append(Text.assemble(mark, ("passed: ", "bold"), ", ".join(passed)))
    return [*parts, Text(), *_footer(part)]


def ranking(verdict: ColumnVerdict, found: Sequence[Row], *, beside: bool) -> Table:
    """Contenders fastest first with bars on one scale; ``beside`` adds the other figures to the same rows."""
    metric = verdict.metric
    table = Table(box=None, pad_edge=False, expand=True, header_style="bold", padding=(0, 2, 0, 0))
    tied = ties_wide(found)
    if tied:
        table.add_column("", width=tied, no_wrap=True)
    table.add_column("contender", no_wrap=True, overflow="ellipsis", min_width=10, max_width=32)
    table.add_column(KNOWN[metric].head, justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    table.add_column("" if KNOWN[metric].more_is_better else "less is better", ratio=1, no_wrap=True)
    if beside:
        for head in _heads(metric):
            table.add_column(head, justify="right", no_wrap=True)
    scale = full_scale(found)
    for row in found:
        main = row.main
        cells: list[RenderableType] = [glyphs.ties(row.ties)] if tied else []
        bar = glyphs.Bar(main.estimate, main.low, main.high, scale)
        cells += [row.name, figures.figure(main.estimate), figures.span(main.low, main.high), bar]
        table.add_row(*cells, *(_figures(row, metric) if beside else ()))
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
    """Share and latency of each request, where the workload has several."""
    found = kind_rows(race)
    if not found:
        return []
    table = _table("request", numbers=("share", "p50 µs*", "p99 µs*", "failed"))
    for row in found:
        latencies = (figures.microseconds(row.latency_us.get(label)) for label in ("p50", "p99"))
        table.add_row(row.contender, row.kind, figures.percent(row.share), *latencies, figures.count(row.failed))
    return [table, Text()]


def full_scale(found: Sequence[Row]) -> float:
    """The value at a bar's full width."""
    return max(figures.finite(row.main.high) or row.main.estimate for row in found)


def _heads(metric: str) -> tuple[str, ...]:
    other = "req/s" if metric == "cpu" else "CPU µs/req"
    return (other, "p50 µs*", "p99 µs*", "memory", "errors", "rounds", "blocks void")


def _figures(row: Row, metric: str) -> tuple[str, ...]:
    estimate = row.estimate
    beside = estimate.throughput_per_s if metric == "cpu" else estimate.server_cpu_us_per_request
    shown = figures.brief if metric == "cpu" else figures.microseconds
    other = figures.NONE if beside is None else shown(beside.estimate)
    return (
        other,
        figures.microseconds(row.latency_us.get("p50")),
        figures.microseconds(row.latency_us.get("p99")),
        figures.memory(estimate.peak_memory_bytes),
        figures.count(sum(estimate.errors.values())),
        figures.count(estimate.rounds),
        f"{estimate.void_blocks}/{estimate.blocks}",
    )


def _beside(verdict: ColumnVerdict, found: Sequence[Row]) -> Table:
    table = _table(numbers=_heads(verdict.metric), max_width=26)
    for row in found:
        table.add_row(row.name, *_figures(row, verdict.metric))
    return table


def _out(part: Part) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for entrant in part.out:
        when = "" if entrant.out_round is None else f" in round {entrant.out_round + 1}"
        lines.append(Text.assemble(("■ ", "magenta"), (entrant.name, "bold"), f" is out{when}: {entrant.out}"))
    return [*lines, Text()] if lines else []


def _by_other_metrics(pairs: Sequence[Pair]) -> Table:
    """What else the race compared: the fastest against each other contender, one line per metric."""
    table = glyphs.table("by other metrics", "against", "by")
    table.add_column("×", justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for pair in pairs:
        ratio, interval = figures.ratio(pair.ratio), figures.ratio_span(pair.low, pair.high)
        table.add_row(
            pair.a, pair.b, KNOWN[pair.metric].compared.removesuffix(" ×"), ratio, interval, forest.word(pair)
        )
    return table


def _foreign(race: Race) -> list[RenderableType]:
    """Other tools' figures, apart from what was raced."""
    found = external.figures(race)
    if not found:
        return []
    table = glyphs.table("by other tools")
    for head in ("tool", "requests/s", "connections", "failed", "p50 µs", "p99 µs"):
        table.add_column(head, justify="right", no_wrap=True)
    for figure in found:
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
    lines.append(
        f"* latency {_latency_of(part.race)}: shown, not tested. "
        "A single contender's interval is descriptive; verdicts come from the ratios."
    )
    return [Text(line, style="dim") for line in lines]


def summary(race: Race) -> str:
    """Where, how long and from which seed, on one line."""
    taken_s = (race.rounds[-1].ended_ns - race.rounds[0].started_ns) / 1e9 if race.rounds else 0.0
    keep = "keep-alive" if race.load.keepalive else "a connection per request"
    void = sum(bool(round_.void) for round_ in race.rounds)
    return (
        f"{_asked(race)}, {race.load.connections} connections, {keep}"
        f"{f', {race.load.streams} streams each' if race.load.streams > 1 else ''}"
        f"{'' if race.load.http == '1.1' else f', HTTP/{race.load.http}'}"
        f"{f', {race.load.rate_per_s:,g}/s offered' if race.load.rate_per_s else ''} · "
        f"{len(race.rounds)} rounds{f' ({void} void)' if void else ''} in {taken_s:.0f} s · "
        f"server cores {_cores(race.server_cores)}, engine cores {_cores(race.engine_cores)} · "
        f"seed {race.seed} · ended: {race.finished or 'interrupted, or still running'}"
    )


def _asked(race: Race) -> str:
    """The workload; of several columns all of them, with the rates at which each is offered."""
    if not of_rates(race):
        return figures.several(tuple(column.workload for column in race.columns))
    rates: dict[str, list[str]] = {}
    for column in race.columns:
        rates.setdefault(column.workload, []).append(f"{column.load.rate_per_s:,g}/s")
    return figures.several(tuple(f"{name} at {figures.several(tuple(each))}" for name, each in rates.items()))


def _latency_of(race: Race) -> str:
    if race.load.rate_per_s:
        return f"at {race.load.rate_per_s:,g} requests/s (open loop), all rounds merged"
    return f"at saturation ({race.load.connections} connections, closed loop)"


def _cores(cores: Sequence[int]) -> str:
    return ",".join(map(str, cores))


def show_parity(console: Console, race: Race) -> None:
    """The parity sheet: what each contender was seen to do; rows that differ are marked. One for each column."""
    if len(race.columns) > 1:
        from dragstrip.analysis import by_column

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
    # Side by side while it fits, else one contender's facts below the other's.
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
        parts += [Text(), Text(f"for all: cores kept awake: {kept}; the engine {wait}s while it waits for answers")]
    glyphs.emit(console, *parts)


def parity_rows(race: Race) -> list[tuple[str, list[str], bool]]:
    """Each fact with every contender's value, in display order, and whether they differ."""
    sheets = [entrant.parity for entrant in race.entrants if entrant.parity]
    facts = dict.fromkeys(fact for sheet in sheets for fact in sheet)
    found = []
    for fact in facts:
        values = [sheet.get(fact, figures.NONE) for sheet in sheets]
        kinds = {"off" if value == "none" else value for value in values}  # of a log, of compression: no difference
        found.append((fact, values, len(kinds) > 1))
    return found


def terminal_svg(
    race: Race, verdict: Verdict, checks: Sequence[Check], *, columns: int = 110, title: str = "dragstrip race"
) -> str:
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
    show_race(console, race, verdict, checks)
    svg = console.export_svg(title=title, theme=_THEME)
    # rich names a web font's address; a picture in a README must fetch nothing, and monospace will do.
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL)
    return re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
