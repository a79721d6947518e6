"""``dragstrip show``: a stored race in the terminal, or as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import click

from dragstrip.cli import options as opts
from dragstrip.cli.options import gathered, read_store, switch
from dragstrip.report.console import Console
from dragstrip.report.race import export as race_export
from dragstrip.report.race import terminal as race_terminal
from dragstrip.report.race.summary import JudgedRace


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """Options of ``dragstrip show``."""

    run: str = opts.race_argument(default="last")
    pairs: bool = opts.pairs_option()
    verbose: bool = opts.verbose_option()
    parity: bool = switch("--parity", help="Show the parity sheet.")
    as_json: bool = switch("--json", help="Print the race as JSON.")
    store_path: Path | None = opts.store_option()


@click.command()
@gathered(ShowOptions)
def show(options: ShowOptions) -> None:
    """Show a stored race, judged again from its records. RUN is its id, the start of one, or last."""
    with read_store(options.store_path) as store:
        judged = JudgedRace.of(store.load(options.run))
    if options.as_json:
        click.echo(json.dumps(race_export.race_json(judged), indent=2))
        return
    race_terminal.show_race(Console(), judged, all_pairs=options.pairs, verbose=options.verbose, run=options.run)
    if options.parity:
        race_terminal.show_parity(Console(), judged.record)
