"""``dragstrip export``: a race or a load as a file, whole or in the format that another program reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import click

from dragstrip import analysis, paths
from dragstrip.commands import options as opts
from dragstrip.commands.options import argument, gathered, option, read_race, read_store, switch
from dragstrip.commands.outputs import OutputFile, json_text, write_all
from dragstrip.errors import BadUsage
from dragstrip.paths import is_file
from dragstrip.record import Race
from dragstrip.report.race import formats, latency, stack_formats, tables
from dragstrip.report.race.summary import JudgedRace
from dragstrip.store.loads import StoredLoad

#: Format by suffix.
SUFFIXES = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".hgrm": "hgrm",
    ".hlog": "hlog",
    ".json": "json",
    ".html": "html",
    ".md": "markdown",
    ".xml": "junit",
    ".bench": "gobench",
    ".prom": "openmetrics",
    ".om": "openmetrics",
    ".png": "png",
    ".svg": "svg",
    ".collapsed": "collapsed",
    ".folded": "collapsed",
    ".pprof": "pprof",
}
#: Formats of sampled stacks.
STACKS = ("collapsed", "speedscope", "pprof")
#: Suffixes of the record itself.
RECORDS = ("", ".race", ".sqlite", ".dragstrip")
#: Formats of a load.
OF_LOADS = ("json", "csv", "html", "markdown", "hgrm")
CHARTS = ("ranking", "pairs", "blocks", "latency", "cpu", "memory", "columns")
FORMATS = ("record", *sorted({*SUFFIXES.values(), *formats.MAKERS, *STACKS}), "charts")


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Options of ``dragstrip export``."""

    run: str = opts.race_argument()
    file: Path = argument(type=OutputFile(dash=True, late=True))
    shape: str | None = option("--as", type=click.Choice(FORMATS), help="Format. [default: from FILE's suffix]")
    contender: str | None = option(
        "--contender",
        help="For .hgrm and stacks: contender that is written. [default: the only one; all stacks]",
    )
    rows: str | None = option(
        "--rows",
        type=click.Choice(tuple(tables.ROWS)),
        help="CSV, Parquet: what a row is: a block, a contender's round, a contender, or a pair. [default: blocks]",
    )
    rounds: bool = switch("--rounds", help="The same as --rows rounds.")
    chart: str | None = option(
        "--chart",
        type=click.Choice(CHARTS),
        help="PNG, SVG: which chart. [default: ranking, or columns if the race has several]",
    )
    column: str | None = option(
        "--column", metavar="NAME", help="Export only this column of a race with several workloads or rates."
    )
    dark: bool = switch("--dark", help="PNG, SVG: dark background.")
    store_path: Path | None = opts.store_option()


@click.command(name="export")
@gathered(ExportOptions)
def export_command(options: ExportOptions) -> None:
    """Write race or load RUN to FILE, as the full record or in another program's format.

    \b
    by suffix  .csv .parquet (a row per block; --rows)  .hgrm .hlog  .json  .html  .md  .xml (JUnit)
               .bench (Go's, for benchstat)  .prom (OpenMetrics)  .png .svg (a chart)
               .collapsed .pprof (sampled stacks, after `dragstrip why`)
    by --as    bencher (Bencher Metric Format)  github-bigger, github-smaller (github-action-benchmark)
               speedscope (sampled stacks)  charts (all of them, PNG and SVG, FILE is a folder)
    .race, or no suffix: the record itself, which import, compare and rerun take
    of a load  .json  .csv (a row per second)  .md  .html  .hgrm
    """
    file = options.file
    chosen = options.shape or _by_suffix(file)
    problem = None if str(file) == "-" else paths.refusal(file, folder=chosen == "charts")
    if problem is not None:
        raise BadUsage(f"export {problem}")
    if (load := _load(options)) is not None:
        what, run_id = "load", load.id
        write_all([("export", file, _of_load(load, chosen, options))])
    elif chosen == "record":
        with read_store(options.store_path) as store:
            what, run_id = "race", store.export_race(options.run, file)
    else:
        race = _chosen(read_race(options.run, options.store_path), options.column)
        what, run_id = "race", race.id
        wanted = [("export", path, make) for path, make in _files(race, chosen, options)]
        if chosen == "charts" and not file.is_dir():
            with paths.failing(f"export {file}: can't be created", "give another path", file):
                file.mkdir()
        write_all(wanted)
    if str(file) != "-":
        click.echo(f"{what} {run_id} written to {file}{'' if chosen == 'record' else f' ({chosen})'}")


def _load(options: ExportOptions) -> StoredLoad | None:
    """The stored load that RUN names; None if it names a race, a race's file, or nothing."""
    if is_file(Path(options.run)):
        return None
    with read_store(options.store_path) as store:
        return store.stored_load(options.run)


def _of_load(load: StoredLoad, chosen: str, options: ExportOptions) -> Callable[[], str]:
    """Makes the file of a load.

    Raises:
        BadUsage: the format, or an option, is for races. StoreError: the load's record is not valid.
    """
    if chosen not in OF_LOADS:
        suffixes = " ".join(suffix for suffix, shape in SUFFIXES.items() if shape in OF_LOADS)
        raise BadUsage(
            f"export {options.file}: {load.id} is a load, which can't be written as {chosen}; use {suffixes}"
        )
    for flag in ("contender", "rows", "rounds", "chart", "column", "dark"):
        if getattr(options, flag):
            raise BadUsage(f"--{flag}: {load.id} is a load, and the option is for races; leave it out")
    from dragstrip.report.load import export, page
    from dragstrip.report.load import formats as load_formats
    from dragstrip.report.load.report import LoadReport

    report = LoadReport.stored(load)
    makers: Mapping[str, Callable[[], str]] = {
        "json": lambda: json_text(load.result),
        "csv": lambda: load_formats.csv_text(report),
        "html": lambda: page.render(load.result, load.verdict, load.id),
        "markdown": lambda: load_formats.markdown(report, load.id),
        "hgrm": lambda: export.hgrm(report),
    }
    return makers[chosen]


def _files(race: Race, chosen: str, options: ExportOptions) -> Iterator[tuple[Path, Callable[[], str | bytes]]]:
    """Each file to write, and the function that makes its content."""
    if chosen in ("png", "svg", "charts"):
        yield from _drawn(race, chosen, options)
    elif chosen == "parquet":
        yield options.file, lambda: tables.parquet(_rows(race, options))
    elif chosen in STACKS:
        yield options.file, _stacks(race, chosen, options)
    elif chosen == "html":
        yield options.file, lambda: formats.html(JudgedRace.of(race))
    else:
        text = _text(race, chosen, options)
        yield options.file, lambda: text


def _chosen(race: Race, column: str | None) -> Race:
    """The race, or the requested column as a race of its own.

    Raises:
        BadUsage: it has no such column.
    """
    if column is None:
        return race
    names = [part.name for part in race.columns]
    if column not in names:
        having = " and ".join(map(repr, names))
        raise BadUsage(f"--column {column!r}: race {race.id} has no such column; it has {having}")
    return analysis.by_column(race)[names.index(column)]


def _refuse_several(race: Race, what: str) -> None:
    """Refuses a format that shows one column for a race with several.

    Raises:
        BadUsage: names the columns.
    """
    if len(race.columns) > 1:
        names = " or ".join(repr(column.name) for column in race.columns)
        raise BadUsage(f"{what} can show only one column of race {race.id}; choose with --column: {names}")


def _by_suffix(file: Path) -> str:
    """The format that a file's suffix selects.

    Raises:
        BadUsage: the suffix is unknown.
    """
    suffix = file.suffix.lower()
    if suffix in RECORDS:
        return "record"
    if suffix not in SUFFIXES:
        known = " ".join((*SUFFIXES, ".race"))
        raise BadUsage(f"export {file}: unknown suffix {suffix}; use {known}, or choose the format with --as")
    return SUFFIXES[suffix]


def _rows(race: Race, options: ExportOptions) -> list[tables.Row]:
    if options.rounds and options.rows not in (None, "rounds"):
        raise BadUsage(f"--rounds and --rows {options.rows} exclude each other; use --rows alone")
    return list(tables.ROWS[options.rows or ("rounds" if options.rounds else "blocks")](race))


def _text(race: Race, chosen: str, options: ExportOptions) -> str:
    if chosen == "csv":
        return tables.csv_text(_rows(race, options))
    if chosen == "hlog":
        return latency.hlog(race)
    if chosen == "hgrm":
        return _hgrm(race, options.contender)
    return formats.MAKERS[chosen](JudgedRace.of(race))


def _stacks(race: Race, chosen: str, options: ExportOptions) -> Callable[[], str | bytes]:
    """Writes sampled stacks of one contender, or of all.

    Raises:
        BadUsage: the race has several columns, or no stacks.
    """
    _refuse_several(race, f"a {chosen} file")
    launches = stack_formats.by_contender(race, options.contender)
    if not launches:
        of = "" if options.contender is None else f" of {options.contender}"
        why = f"`dragstrip why {opts.named(race.id, options.store_path)}`"
        raise BadUsage(f"race {race.id} has no sampled stacks{of}; {why} adds launches that have")
    if chosen == "collapsed":
        return lambda: stack_formats.collapsed(launches)
    made = stack_formats.speedscope if chosen == "speedscope" else stack_formats.pprof
    return lambda: made(race, launches)


def _hgrm(race: Race, contender: str | None) -> str:
    _refuse_several(race, "a .hgrm")
    names = [entrant.name for entrant in race.entrants if not entrant.out]
    if contender is None and len(names) != 1:
        raise BadUsage(f"a .hgrm file holds one distribution; choose with --contender: {', '.join(names)}")
    text = latency.hgrm(race, contender or names[0])
    if text is None:
        raise BadUsage(f"--contender {contender}: race {race.id} has no latencies of it; it has: {', '.join(names)}")
    return text


def _drawn(race: Race, chosen: str, options: ExportOptions) -> Iterator[tuple[Path, Callable[[], bytes]]]:
    """The requested chart, or every chart of a folder."""
    from dragstrip.report.race import charts  # Altair takes a third of a second to load

    file, every_chart = options.file, chosen == "charts"
    name = "ranking" if every_chart else options.chart or ("columns" if len(race.columns) > 1 else "ranking")
    if name == "columns":
        if len(race.columns) == 1:
            raise BadUsage(f"--chart columns: race {race.id} has one workload, {race.workload}; use another chart")
        drawn = charts.draw_columns(JudgedRace.of(race), dark=options.dark)
        yield file, partial(_picture, drawn, chosen)
        return
    _refuse_several(race, f"the chart {name!r}" if not every_chart else "the charts' folder")
    (part,) = JudgedRace.of(race).parts
    if not part.rows:
        raise BadUsage(f"nothing to draw: no contender of race {race.id} has numbers")
    for chart_name, kind in product(charts.CHARTS, ("png", "svg")) if every_chart else [(name, chosen)]:
        chart = charts.draw(chart_name, part, dark=options.dark)
        yield (file / f"{chart_name}.{kind}" if every_chart else file), partial(_picture, chart, kind)


def _picture(chart: Any, kind: str) -> bytes:
    from dragstrip.report.race import charts

    return charts.png(chart) if kind == "png" else charts.svg(chart).encode()
