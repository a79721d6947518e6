"""Asks before Dragstrip runs commands that a file from elsewhere names; ``--yes`` agrees in advance."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from dragstrip.contender import Entry, boxes, commands
from dragstrip.errors import BadUsage
from dragstrip.report.figures import visible


def ask_to_build(images: Iterable[Entry], *, yes: bool) -> None:
    """Shows the builds of images of imported entries that are new or changed, and asks; nothing is built yet.

    Raises:
        BadUsage: as ``ask_to_run``.
    """
    new = [entry for entry in images if boxes.asks_for_agreement(entry)]
    if new:
        ask_to_run(f"the build of {', '.join(dict.fromkeys(entry.name for entry in new))}", new, yes=yes)
    for entry in new:
        boxes.agree(entry)


def ask_to_run(source: str, entries: Iterable[Entry], *, yes: bool) -> None:
    """Shows each command that a file would run, and asks.

    Args:
        source: the race or claim that names the commands.

    Raises:
        BadUsage: the user declined, or standard input is not a terminal.
    """
    shown = dict.fromkeys(line for entry in entries for line in commands(entry))
    if not shown:
        return
    click.echo(f"{visible(source)} comes from elsewhere and would run, with your rights:", err=True)
    for line in shown:
        click.echo(f"  {visible(line)}", err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadUsage(
            f"{visible(source)}: nothing was run, because no terminal can answer; read these, then add --yes"
        )
    if not click.confirm("Run these?", err=True):
        raise BadUsage(f"{visible(source)}: nothing was run")
