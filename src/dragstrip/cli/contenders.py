"""``dragstrip contenders``: every definition, ready or what would make it ready."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console

from dragstrip import contender
from dragstrip.cli.options import definition_options
from dragstrip.report import listing


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@definition_options
def contenders(as_json: bool, folders: tuple[Path, ...], settings: tuple[str, ...]) -> None:
    """List every contender: ready, missing and how to make it ready, or broken and why."""
    entries = contender.entrants(contender.names(folders), extra_dirs=folders, settings=settings)
    rows = [contender.status(entry) for entry in entries]
    for folder, reason in contender.broken_definitions(folders).items():
        rows.append({"name": folder, "title": "", "status": "broken", "version": "", "reason": reason, "remedy": ""})
    click.echo(json.dumps(rows, indent=2)) if as_json else listing.contenders(Console(), rows)
