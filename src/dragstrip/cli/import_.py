"""``dragstrip import``: imports an exported race, or adds another tool's result to a race."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import click

from dragstrip.cli import completion
from dragstrip.cli import options as opts
from dragstrip.cli.options import argument, gathered, open_store, option
from dragstrip.compat import outputs
from dragstrip.record import Event
from dragstrip.report.race import external


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Options of ``dragstrip import``."""

    file: Path = argument(type=click.Path(path_type=Path, exists=True))
    run: str | None = option(
        "--beside", metavar="RUN", shell_complete=completion.races, help="Show another tool's result with this race."
    )
    name: str | None = option("--name", help="Name for that result. [default: the tool's name]")
    store_path: Path | None = opts.store_option()


@click.command(name="import")
@gathered(ImportOptions)
def import_command(options: ImportOptions) -> None:
    """Import an exported race into the store; or, with --beside, add another tool's output to a stored race.

    Reads output of wrk, ab, hey, oha, h2load and k6, and github-action-benchmark's JSON. Such figures have no
    interval, so they are shown separately and never compared.
    """
    with open_store(options.store_path) as store:
        if options.run is None:
            before = {line.race for line in store.runs()}
            race_id = store.import_race(options.file)
            already = " already; nothing was changed" if race_id in before else ""
            click.echo(f"race {race_id} is in {store.path}{already}")
            return
        race_id = store.resolve(options.run)
        for tool, figure in outputs.several(options.file):
            name = options.name or tool
            detail = external.as_event(name, figure)
            store.append_event(race_id, Event(at_ns=time.monotonic_ns(), kind=external.KIND, text=detail))
            click.echo(f"{name}: {figure.rate_per_s:,.0f} requests/s by {figure.tool}, shown with race {race_id}")
