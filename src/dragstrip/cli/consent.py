"""Asks before anything runs that a file from elsewhere names; ``--yes`` answers."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from dragstrip.contender import Entry, commands
from dragstrip.errors import BadUsage
from dragstrip.report.figures import visible


def ask_to_run(whose: str, entries: Iterable[Entry], *, yes: bool) -> None:
    """Shows each command that ``whose`` file would run, and asks.

    Raises:
        BadUsage: the answer was "no", or no terminal is there to ask at.
    """
    shown = dict.fromkeys(line for entry in entries for line in commands(entry))
    if not shown:
        return
    click.echo(f"{visible(whose)} comes from elsewhere and would run, with your rights:", err=True)
    for line in shown:
        click.echo(f"  {visible(line)}", err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadUsage(f"{visible(whose)}: nothing was run, because no terminal can answer; read these, then add --yes")
    if not click.confirm("Run these?", err=True):
        raise BadUsage(f"{visible(whose)}: nothing was run")
