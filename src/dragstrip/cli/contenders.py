"""``dragstrip contenders``: lists every contender, and what a missing one needs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from dragstrip import contender
from dragstrip.cli import options as opts
from dragstrip.cli.options import gathered, switch
from dragstrip.report import listing


@dataclass(frozen=True, kw_only=True)
class ContendersOptions:
    """Options of ``dragstrip contenders``."""

    as_json: bool = switch("--json", help="Print the list as JSON.")
    folders: tuple[Path, ...] = opts.folders_option()
    settings: tuple[str, ...] = opts.settings_option()


@click.command()
@gathered(ContendersOptions)
def contenders(options: ContendersOptions) -> None:
    """List every contender: ready, missing and how to make it ready, or broken and why."""
    entries = contender.entrants(
        contender.names(options.folders), extra_dirs=options.folders, settings=options.settings
    )
    rows = [contender.status(entry) for entry in entries]
    for folder, reason in contender.broken_definitions(options.folders).items():
        rows.append({"name": folder, "title": "", "status": "broken", "version": "", "reason": reason, "remedy": ""})
    click.echo(json.dumps(rows, indent=2)) if options.as_json else listing.contenders(Console(), rows)
