"""``dragstrip install``: installs what contenders and the database need."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from dragstrip import contender, image
from dragstrip.commands import options as opts
from dragstrip.commands.consent import ask_to_build
from dragstrip.commands.options import EXIT_FAILURE, gathered, option, switch
from dragstrip.contender import install
from dragstrip.errors import BadUsage, DragstripError, NotReady
from dragstrip.process import database
from dragstrip.workload import Workload
from dragstrip.workload import load as load_workload
from dragstrip.workload import names as workload_names


@dataclass(frozen=True, kw_only=True)
class InstallOptions:
    """Options of ``dragstrip install``."""

    names: tuple[str, ...] = opts.contenders_argument()
    everything: bool = switch("--all", help="Install what any contender needs at any workload.")
    line_up: str | None = opts.line_up_option()
    workload: str | None = option("--workload", help="Also install what this workload needs: drivers and the database.")
    yes: bool = opts.yes_option(help="Don't ask.")
    folders: tuple[Path, ...] = opts.folders_option()
    settings: tuple[str, ...] = opts.settings_option()


@click.command(name="install")
@gathered(InstallOptions)
def install_command(options: InstallOptions) -> None:
    """Install what contenders need, using the system's package managers; shows the commands, then asks.

    `postgresql` is the database that the workloads `db` and `queries` use, `bubblewrap` starts containers; --all also
    installs both.
    """
    wanted = _wanted(options)
    if not wanted:
        raise BadUsage(
            f"nothing to install: name contenders, {database.NAME} or {image.DEBIAN}, or --all, or --line-up default"
        )
    asked = load_workload(options.workload) if options.workload else None
    with_database = asked.asks_database if asked else options.everything
    for reason in contender.broken_definitions(options.folders).values() if options.everything else ():
        click.echo(f"dragstrip: passed over: {reason}", err=True)
    names = [name for name in wanted if name not in (database.NAME, image.DEBIAN)]
    entries = list(contender.entrants(names, extra_dirs=options.folders, settings=options.settings))
    ask_to_build([entry for entry in entries if entry.container is not None], yes=options.yes)
    named = entries if options.names else []
    entries = [also for entry in entries for also in _for_workloads(entry, asked, with_database)]
    missing = [entry for entry in entries if isinstance(contender.check(entry), contender.Missing)]
    more = _database() if with_database or database.NAME in wanted else {}
    if options.everything or image.DEBIAN in wanted or any(entry.container for entry in entries):
        more |= _bubblewrap()
    failed = _installed(missing, more, yes=options.yes)
    failed |= _built([entry for entry in entries if isinstance(contender.check(entry), contender.Ready)])
    for name, reason in failed.items():
        click.echo(f"dragstrip: {name} is not installed: {reason}", err=True)
    lacking = [entry.name for entry in named if isinstance(contender.check(entry), contender.Missing)]
    if lacking:
        click.echo(
            f"dragstrip: not ready: {', '.join(lacking)}; `dragstrip contenders` shows what is missing", err=True
        )
    # Of a line-up and of all, some are usually missing: the others can race.
    nobody = not options.names and all(isinstance(contender.check(entry), contender.Missing) for entry in entries)
    if lacking or nobody or failed.keys() & {*options.names, *(entry.name for entry in named)}:
        sys.exit(EXIT_FAILURE)


def _installed(missing: list[contender.Entry], more: Mapping[str, str], *, yes: bool) -> dict[str, str]:
    """Installs after it has asked; by name, why something could not be installed."""
    if lists := install.lists_step(missing, more):
        click.echo(f"# {lists.purpose}\n{lists}")
        _ask(yes)
        if reason := install.refresh(lists, click.echo):
            click.echo(f"dragstrip: {reason}", err=True)
    plan = install.plan(missing, more=more)
    click.echo(plan.text())
    if not plan.steps:
        return {}
    _ask(yes)
    return install.carry_out(plan, say=click.echo)


def _ask(yes: bool) -> None:
    if not yes and not click.confirm("Run these?"):
        raise BadUsage("nothing was installed")


def _for_workloads(entry: contender.Entry, asked: Workload | None, with_database: bool) -> list[contender.Entry]:
    """The entrant as one workload needs it; without a workload, the entrant and its variant for each workload.

    Args:
        with_database: include workloads that use the database.
    """
    if asked is not None:
        return [entry.for_workload(asked.name, asks_database=asked.asks_database)]
    served = [workload for workload in map(load_workload, workload_names()) if entry.serves(workload.name)]
    prepared = [
        entry.for_workload(workload.name, asks_database=workload.asks_database)
        for workload in served
        if with_database or not workload.asks_database
    ]
    return [entry, *(also for also in prepared if also is not entry)]


def _database() -> dict[str, str]:
    """The database's package by its name; empty if the database is installed."""
    try:
        database.find()
    except NotReady:
        # `postgresql` is the release's own version.
        return {database.NAME: f"{database.DEBIAN} | postgresql"}
    return {}


def _bubblewrap() -> dict[str, str]:
    """The package that starts containers, by its name; empty if it is installed."""
    try:
        image.bubblewrap()
    except NotReady:
        return {image.DEBIAN: image.DEBIAN}
    return {}


def _wanted(options: InstallOptions) -> tuple[str, ...]:
    """The contenders to make ready: a line-up's, all, or the named ones."""
    if options.line_up:
        return contender.line_up(options.line_up).names
    return tuple(contender.names(options.folders)) if options.everything else options.names


def _built(entries: list[contender.Entry]) -> dict[str, str]:
    """Builds every contender that needs it; by name, why a build failed."""
    failed = {}
    for entry in entries:
        try:
            contender.build(entry)
        except DragstripError as error:
            failed[entry.name] = str(error)
    return failed
