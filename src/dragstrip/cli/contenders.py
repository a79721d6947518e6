"""Words about contenders: what is ready, what makes it ready, and scrutineering alone."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from dragstrip import contender
from dragstrip.cli import completion
from dragstrip.cli.options import EXIT_FAILURE, definitions
from dragstrip.contender import install
from dragstrip.errors import BadUsage, DragstripError
from dragstrip.racing import verify as verification
from dragstrip.report import listing


@click.command()
@click.option("--json", "as_json", is_flag=True)
@definitions
def contenders(as_json: bool, folders: tuple[Path, ...], settings: tuple[str, ...]) -> None:
    """Every definition: ready, or missing and what would make it ready."""
    entries = contender.entrants(contender.names(folders), extra_dirs=folders, settings=settings)
    rows = [contender.status(entry) for entry in entries]
    click.echo(json.dumps(rows, indent=2)) if as_json else listing.contenders(Console(), rows)


@click.command(name="install")
@click.argument("names", nargs=-1, shell_complete=completion.contenders)
@click.option("--all", "everything", is_flag=True)
@click.option("--line-up", default=None)
@click.option("--yes", is_flag=True, help="Don't ask.")
@definitions
def install_command(
    names: tuple[str, ...],
    everything: bool,
    line_up: str | None,
    yes: bool,
    folders: tuple[Path, ...],
    settings: tuple[str, ...],
) -> None:
    """Install what contenders need, by the system's own package managers; says what it will run, then asks."""
    wanted = contender.line_up(line_up).names if line_up else tuple(contender.names(folders)) if everything else names
    if not wanted:
        raise BadUsage("nothing to install: name contenders, or --all, or --line-up default")
    entries = contender.entrants(wanted, extra_dirs=folders, settings=settings)
    missing = [entry for entry in entries if isinstance(contender.check(entry), contender.Missing)]
    plan = install.plan(missing)
    click.echo(plan.text())
    if plan.steps:
        if not yes and not click.confirm("Run these?"):
            raise BadUsage("nothing was installed")
        install.carry_out(plan, say=click.echo)
    _build_all([entry for entry in entries if isinstance(contender.check(entry), contender.Ready)])


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


@click.command()
@click.argument("names", nargs=-1, shell_complete=completion.contenders)
@click.option("--line-up", default=None)
@click.option("--serve", multiple=True, metavar='"NAME=COMMAND {port}"', help="Verify a command of your own.")
@click.option("--workload", default=None, help="Only this one; else every workload that a contender has.")
@click.option("--json", "as_json", is_flag=True)
@click.option("--parity", is_flag=True, help="Show what was seen of each: what can't be equal.")
@click.option("--server-cores", default=None)
@click.option("--engine-cores", default=None)
@definitions
def verify(
    names: tuple[str, ...],
    line_up: str | None,
    serve: tuple[str, ...],
    workload: str | None,
    folders: tuple[Path, ...],
    settings: tuple[str, ...],
    parity: bool,
    as_json: bool,
    **cores: Any,
) -> None:
    """Scrutineering alone: start each contender, prove its answers; exit 1 if any that is ready fails."""
    own = tuple(contender.serve_entry(text) for text in serve)
    everybody = () if own else tuple(contender.names(folders))
    chosen = contender.line_up(line_up).names if line_up else names or everybody
    entries = (*contender.entrants(chosen, extra_dirs=folders, settings=settings), *own)
    rows = []
    for proof in verification.verify(entries, workload, **cores):
        rows.append(asdict(proof))
        if not as_json:
            _tell(proof, parity)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    sys.exit(EXIT_FAILURE if any(row["status"] == "failed" for row in rows) else 0)


def _tell(proof: verification.Proof, parity: bool) -> None:
    status = proof.status.upper() if proof.status == "failed" else proof.status
    at = f" at {proof.workload}" if proof.workload else ""
    click.echo(f"{status:<8} {proof.contender}{at}{': ' if proof.reason else ''}{proof.reason}")
    if not parity and "doubled headers" in proof.facts:
        click.echo(f"         warning: doubled headers: {proof.facts['doubled headers']}; send each once")
    for fact, told in proof.facts.items() if parity else ():
        click.echo(f"         {fact}: {told}")
