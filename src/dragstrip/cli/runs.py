"""``dragstrip runs``: what is stored; loads nothing that judges or draws."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from dragstrip.cli.options import read_store, store_options
from dragstrip.record import EventKind


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@store_options
def runs(as_json: bool, store_path: Path | None) -> None:
    """List stored races, newest first."""
    with read_store(store_path) as store:
        # As ``report.race.badge`` left them; the first is the newest.
        verdicts = {race_id: event.text for race_id, event in reversed(store.noted(EventKind.VERDICT))}
        lines = store.runs()
    if as_json:
        click.echo(json.dumps([asdict(line) | {"verdict": verdicts.get(line.race, "")} for line in lines], indent=2))
        return
    from rich.console import Console

    from dragstrip.report import listing

    listing.runs(Console(), lines, verdicts)
