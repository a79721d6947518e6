"""``dragstrip import``: imports an exported race, or adds another tool's result to a race."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import click

from dragstrip.commands import options as opts
from dragstrip.commands.options import EXIT_FAILURE, argument, completed_by, gathered, open_store, option
from dragstrip.errors import BadUsage
from dragstrip.extensions import extension
from dragstrip.image.engines import ENGINES
from dragstrip.record import Event
from dragstrip.report.race import external


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Options of ``dragstrip import``."""

    file: Path = argument(type=click.Path(path_type=Path, exists=True))
    run: str | None = option(
        "--beside",
        metavar="RUN",
        shell_complete=completed_by("races"),
        help="Show another tool's result with this race.",
    )
    name: str | None = option("--name", help="Name for that result. [default: the tool's name]")
    engine: str = option(
        "--engine",
        type=click.Choice(("auto", *ENGINES)),
        default="auto",
        help="Which program builds the images of a suite's entries.",
    )
    store_path: Path | None = opts.store_option()


@click.command(name="import")
@gathered(ImportOptions)
def import_command(options: ImportOptions) -> None:
    """Import an exported race into the store; or, with --beside, add another tool's output to a stored race.

    If FILE is a folder, import entries of TechEmpower or HttpArena as contenders: an entry's folder, or a whole
    checkout. The entries stay as they are, and nothing of them runs. `dragstrip race tfb:gin tfb:axum` then races two.

    Reads output of wrk, ab, hey, oha, h2load and k6, and github-action-benchmark's JSON. Such figures have no
    interval, so they are shown separately and never compared.
    """
    if options.file.is_dir():
        _import_entries(options)
        return
    if options.engine != "auto":
        raise BadUsage(f"--engine {options.engine} is for a suite's folder, and {options.file} is a file; leave it out")
    with open_store(options.store_path) as store:
        if options.run is None:
            before = {line.race for line in store.runs()}
            race_id = store.import_race(options.file)
            already = " already; nothing was changed" if race_id in before else ""
            click.echo(f"race {race_id} is in {store.path}{already}")
            return
        race_id = store.resolve(options.run)
        for tool, figure in extension("other tools' results").several(options.file):
            name = options.name or tool
            detail = external.as_event(name, figure)
            store.append_event(race_id, Event(at_ns=time.monotonic_ns(), kind=external.KIND, text=detail))
            click.echo(f"{name}: {figure.rate_per_s:,.0f} requests/s by {figure.tool}, shown with race {race_id}")


def _import_entries(options: ImportOptions) -> None:
    if options.run is not None or options.name is not None:
        raise BadUsage(f"--beside and --name are for another tool's output, and {options.file} is a folder")
    imported, lines = extension("suites").imported(options.file, options.engine)
    for line in lines:
        click.echo(line)
    if not imported:
        sys.exit(EXIT_FAILURE)
