"""``dragstrip export`` and ``import``: a race as a file in its reader's shape; other tools' results beside a race."""

from __future__ import annotations

import time
from pathlib import Path

import click

from dragstrip import analysis
from dragstrip.cli import completion
from dragstrip.cli.options import open_store, read_store, refusal, store_option, stored, write_text
from dragstrip.errors import BadUsage
from dragstrip.loading import other_tools
from dragstrip.record import Event, Race
from dragstrip.report.race import external, formats, histograms, summary, tables
from dragstrip.report.race import page as race_page
from dragstrip.validity import inspect

#: What a file's name says; the record itself for any other.
SUFFIXES = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".hgrm": "hgrm",
    ".hlog": "hlog",
    ".json": "json",
    ".html": "html",
    ".xml": "junit",
    ".bench": "gobench",
    ".prom": "openmetrics",
    ".om": "openmetrics",
    ".png": "png",
    ".svg": "svg",
}
#: Of the record itself.
RECORDS = ("", ".race", ".sqlite", ".dragstrip")
CHARTS = ("ranking", "pairs", "blocks", "latency", "cpu", "memory")
FORMATS = ("record", *sorted({*SUFFIXES.values(), *formats.MAKERS}), "charts")


@click.command(name="export")
@click.argument("run", shell_complete=completion.races)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--as", "shape", type=click.Choice(FORMATS), default=None, help="Default: by FILE's suffix.")
@click.option("--contender", default=None, help="Whose latencies (.hgrm); not needed where there is one.")
@click.option("--rounds", is_flag=True, help="CSV, Parquet: a row per contender and round, not per block.")
@click.option("--chart", type=click.Choice(CHARTS), default="ranking", show_default=True, help="PNG, SVG: which.")
@click.option("--dark", is_flag=True, help="PNG, SVG: on a dark ground.")
@store_option
def export_command(
    run: str,
    file: Path,
    shape: str | None,
    contender: str | None,
    rounds: bool,
    chart: str,
    dark: bool,
    store_path: Path | None,
) -> None:
    """Write one race, RUN, to FILE: every record of it, or in the shape that another program reads.

    \b
    by suffix  .csv .parquet (a row per block)  .hgrm .hlog  .json  .html  .xml (JUnit)
               .bench (Go's, for benchstat)  .prom (OpenMetrics)  .png .svg (a chart)
    by --as    bencher (Bencher Metric Format)  github-bigger, github-smaller (github-action-benchmark)
               charts (all of them, PNG and SVG, FILE is a folder)
    .race, or no suffix: the record itself, which import, compare and rerun take
    """
    chosen = shape or _by_suffix(file)
    if problem := "" if str(file) == "-" else refusal(file, folder=chosen == "charts"):
        raise BadUsage(f"export {problem}")
    if chosen == "record":
        with read_store(store_path) as store:
            click.echo(f"race {store.export_race(run, file)} written to {file}")
        return
    race = stored(run, store_path)
    if chosen == "parquet":
        tables.parquet(_rows(race, rounds), file)
    elif chosen in ("png", "svg", "charts"):
        _draw(race, file, chosen, chart, dark)
    elif chosen == "html":
        race_page.write(race, analysis.judge(race), inspect(race), file)
    else:
        write_text(file, _text(race, chosen, contender, rounds), "export")
    if str(file) != "-":
        click.echo(f"race {race.id} written to {file} ({chosen})")


def _by_suffix(file: Path) -> str:
    """The shape that a file's name asks for.

    Raises:
        BadUsage: nobody knows its suffix.
    """
    suffix = file.suffix.lower()
    if suffix in RECORDS:
        return "record"
    if suffix not in SUFFIXES:
        known = " ".join((*SUFFIXES, ".race"))
        raise BadUsage(f"export {file}: no shape has the suffix {suffix}; use {known}, or --as")
    return SUFFIXES[suffix]


def _rows(race: Race, rounds: bool) -> list[tables.Row]:
    return list(tables.round_rows(race) if rounds else tables.block_rows(race))


def _text(race: Race, chosen: str, contender: str | None, rounds: bool) -> str:
    if chosen == "csv":
        return tables.csv_text(_rows(race, rounds))
    if chosen == "hlog":
        return histograms.hlog(race)
    if chosen == "hgrm":
        return _hgrm(race, contender)
    return formats.MAKERS[chosen](race, analysis.judge(race), inspect(race))


def _hgrm(race: Race, contender: str | None) -> str:
    names = [entrant.name for entrant in race.entrants if not entrant.out]
    if contender is None and len(names) != 1:
        raise BadUsage(f"a .hgrm holds one distribution; --contender says whose: {', '.join(names)}")
    text = histograms.hgrm(race, contender or names[0])
    if text is None:
        raise BadUsage(f"--contender {contender}: race {race.id} has no latencies of it; it has: {', '.join(names)}")
    return text


def _draw(race: Race, file: Path, chosen: str, chart: str, dark: bool) -> None:
    from dragstrip.report.race import charts  # Altair takes half a second to load

    judged = analysis.judge(race)
    found = summary.ranked(race, judged)
    if not found:
        raise BadUsage(f"race {race.id} has no contender with numbers: there is nothing to draw")
    wanted = [(chart, chosen)] if chosen != "charts" else [(name, kind) for name in CHARTS for kind in ("png", "svg")]
    try:
        if chosen == "charts":
            file.mkdir(exist_ok=True)
        for name, kind in wanted:
            drawn = charts.draw(name, race, judged, found, dark=dark)
            path = file / f"{name}.{kind}" if chosen == "charts" else file
            path.write_bytes(charts.png(drawn) if kind == "png" else charts.svg(drawn).encode())
    except OSError as error:
        raise BadUsage(f"export {file}: can't be written ({error.strerror}); give another path") from error


@click.command(name="import")
@click.argument("file", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--beside",
    "run",
    default=None,
    metavar="RUN",
    shell_complete=completion.races,
    help="Show another tool's result beside this race.",
)
@click.option("--name", default=None, help="What that result is called; default the tool's name.")
@store_option
def import_command(file: Path, run: str | None, name: str | None, store_path: Path | None) -> None:
    """Take a race that was exported into the store; or, --beside a race, what another tool printed.

    wrk, ab, hey, oha, h2load and k6 are read, and github-action-benchmark's JSON. Such a figure has no interval, is
    shown apart, and is compared with nothing.
    """
    with open_store(store_path) as store:
        if run is None:
            click.echo(f"race {store.import_race(file)} is in {store.path}")
            return
        race_id = store.resolve(run)
        for called, figure in other_tools.several(file):
            told = external.as_event(name or called, figure)
            store.append_event(race_id, Event(at_ns=time.monotonic_ns(), kind=external.KIND, detail=told))
            click.echo(f"{name or called}: {figure.rate_per_s:,.0f} requests/s by {figure.tool}, beside race {race_id}")
