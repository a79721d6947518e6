"""``dragstrip install``: what contenders need, by the system's package managers."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import click

from dragstrip import contender
from dragstrip.cli import completion
from dragstrip.cli.options import EXIT_FAILURE, DefinitionOptions, definition_options, gathered
from dragstrip.contender import install
from dragstrip.errors import BadUsage, DragstripError


@dataclass(frozen=True, kw_only=True)
class InstallOptions(DefinitionOptions):
    """What ``dragstrip install`` was given; the decorators of ``install_command`` say what each is."""

    names: tuple[str, ...]
    everything: bool
    line_up: str | None
    yes: bool


@click.command(name="install")
@click.argument("names", nargs=-1, shell_complete=completion.contenders)
@click.option("--all", "everything", is_flag=True)
@click.option("--line-up", default=None)
@click.option("--yes", is_flag=True, help="Don't ask.")
@definition_options
@gathered(InstallOptions)
def install_command(options: InstallOptions) -> None:
    """Install what contenders need, by the system's own package managers; says what it will run, then asks."""
    wanted = _wanted(options)
    if not wanted:
        raise BadUsage("nothing to install: name contenders, or --all, or --line-up default")
    entries = contender.entrants(wanted, extra_dirs=options.folders, settings=options.settings)
    missing = [entry for entry in entries if isinstance(contender.check(entry), contender.Missing)]
    plan = install.plan(missing)
    click.echo(plan.text())
    if plan.steps:
        if not options.yes and not click.confirm("Run these?"):
            raise BadUsage("nothing was installed")
        install.carry_out(plan, say=click.echo)
    _build_all([entry for entry in entries if isinstance(contender.check(entry), contender.Ready)])


def _wanted(options: InstallOptions) -> tuple[str, ...]:
    """Whom to make ready: a line-up's, all, or those that were named."""
    if options.line_up:
        return contender.line_up(options.line_up).names
    return tuple(contender.names(options.folders)) if options.everything else options.names


def _build_all(entries: list[contender.Entry]) -> None:
    """Builds what is to be built; a failure is told, doesn't keep the others from it, and ends with exit code 1."""
    failed = False
    for entry in entries:
        try:
            contender.build(entry)
        except DragstripError as error:
            click.echo(f"dragstrip: {error}", err=True)
            failed = True
    if failed:
        sys.exit(EXIT_FAILURE)
