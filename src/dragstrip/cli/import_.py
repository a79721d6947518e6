"""``dragstrip import``: a race that was exported, or another tool's result beside a race."""

from __future__ import annotations

import time
from pathlib import Path

import click

from dragstrip.cli import completion
from dragstrip.cli.options import open_store, store_options
from dragstrip.compat import outputs
from dragstrip.record import Event
from dragstrip.report.race import external


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
@click.option("--name", default=None, help="Name for that result. [default: the tool's name]")
@store_options
def import_command(file: Path, run: str | None, name: str | None, store_path: Path | None) -> None:
    """Import an exported race into the store; or, with --beside, add another tool's output to a stored race.

    Reads output of wrk, ab, hey, oha, h2load and k6, and github-action-benchmark's JSON. Such figures have no
    interval, so they are shown separately and never compared.
    """
    with open_store(store_path) as store:
        if run is None:
            before = {line.race for line in store.runs()}
            race_id = store.import_race(file)
            already = " already; nothing was changed" if race_id in before else ""
            click.echo(f"race {race_id} is in {store.path}{already}")
            return
        race_id = store.resolve(run)
        for called, figure in outputs.several(file):
            detail = external.as_event(name or called, figure)
            store.append_event(race_id, Event(at_ns=time.monotonic_ns(), kind=external.KIND, text=detail))
            click.echo(f"{name or called}: {figure.rate_per_s:,.0f} requests/s by {figure.tool}, beside race {race_id}")
