"""``dragstrip show``: a stored race in the terminal, or as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console

from dragstrip import analysis
from dragstrip.cli import completion
from dragstrip.cli.options import read_store, store_options
from dragstrip.report.race import export as race_export
from dragstrip.report.race import terminal as race_terminal
from dragstrip.validity import inspect


@click.command()
@click.argument("run", default="last", shell_complete=completion.races)
@click.option("--pairs", is_flag=True, help="Show every pair.")
@click.option("--verbose", "-v", is_flag=True, help="Also show all checks, the other metrics and what the words mean.")
@click.option("--parity", is_flag=True, help="Show the parity sheet.")
@click.option("--json", "as_json", is_flag=True, help="Print the race as JSON.")
@store_options
def show(run: str, pairs: bool, verbose: bool, parity: bool, as_json: bool, store_path: Path | None) -> None:
    """Show a stored race, judged again from its records. RUN is its id, the start of one, or last."""
    with read_store(store_path) as store:
        recorded = store.load(run)
    judged, checks = analysis.judge(recorded), inspect(recorded)
    if as_json:
        click.echo(json.dumps(race_export.race_json(recorded, judged, checks), indent=2))
        return
    race_terminal.show_race(Console(), recorded, judged, checks, all_pairs=pairs, verbose=verbose, run=run)
    if parity:
        race_terminal.show_parity(Console(), recorded)
