"""``dragstrip runs``: lists stored races; imports nothing that judges or draws."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from dragstrip.cli import options as opts
from dragstrip.cli.options import gathered, read_store, switch
from dragstrip.record import EventKind


@dataclass(frozen=True, kw_only=True)
class RunsOptions:
    """Options of ``dragstrip runs``."""

    as_json: bool = switch("--json", help="Print the list as JSON.")
    store_path: Path | None = opts.store_option()


@click.command()
@gathered(RunsOptions)
def runs(options: RunsOptions) -> None:
    """List stored races, newest first."""
    with read_store(options.store_path) as store:
        # ``report.race.badge`` stored them; the newest of a race is first.
        verdicts = {race_id: event.text for race_id, event in reversed(store.noted(EventKind.VERDICT))}
        lines = store.runs()
    if options.as_json:
        click.echo(json.dumps([asdict(line) | {"verdict": verdicts.get(line.race, "")} for line in lines], indent=2))
        return
    from dragstrip.report import listing
    from dragstrip.report.console import Console

    listing.runs(Console(), lines, verdicts)
