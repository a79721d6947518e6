"""``dragstrip show``: a stored race or load in the terminal, or as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import click

from dragstrip.commands import options as opts
from dragstrip.commands.options import gathered, read_store, switch
from dragstrip.errors import BadUsage
from dragstrip.report.console import Console
from dragstrip.report.load import terminal as load_terminal
from dragstrip.report.load.report import LoadReport
from dragstrip.report.race import export as race_export
from dragstrip.report.race import terminal as race_terminal
from dragstrip.report.race.summary import JudgedRace
from dragstrip.store.loads import StoredLoad


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
    """Show a stored race, judged again from its records, or a stored load. RUN is its id, the start of one, or last."""
    with read_store(options.store_path) as store:
        load = store.stored_load(options.run)
        if load is not None:
            _show_load(load, options)
            return
        judged = JudgedRace.of(store.load(options.run))
    if options.as_json:
        click.echo(json.dumps(race_export.race_json(judged), indent=2))
        return
    race_terminal.show_race(
        Console(),
        judged,
        all_pairs=options.pairs,
        verbose=options.verbose,
        run=opts.named(options.run, options.store_path),
    )
    if options.parity:
        race_terminal.show_parity(Console(), judged.record)


def _show_load(load: StoredLoad, options: ShowOptions) -> None:
    """A load has no pairs, no parity sheet and nothing more to say.

    Raises:
        BadUsage: an option is for races.
    """
    if options.pairs or options.parity:
        raise BadUsage(f"show {load.id}: it is a load; --pairs and --parity are for races, leave them out")
    if options.as_json:
        click.echo(json.dumps(load.result, indent=2))
        return
    load_terminal.show(Console(), LoadReport.stored(load))
