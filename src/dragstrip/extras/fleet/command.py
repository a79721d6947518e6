"""``dragstrip fleet``: prepares and checks the machines in a ``extras.fleet.toml``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from dragstrip.commands import completion
from dragstrip.commands.options import EXIT_FAILURE
from dragstrip.commands.quantities import TextType, duration_s
from dragstrip.errors import BadUsage
from dragstrip.extras.fleet import agent as fleet_agent
from dragstrip.extras.fleet import packing
from dragstrip.extras.fleet.definition import load
from dragstrip.extras.fleet.down import end_agents, end_everywhere
from dragstrip.extras.fleet.fleet_check import check_fleet
from dragstrip.report.console import Console
from dragstrip.report.doctor import show_fleet

fleet_file = click.argument("file", type=click.Path(path_type=Path), default="fleet.toml")


@click.group(invoke_without_command=True)
@click.pass_context
def fleet(context: click.Context, /) -> None:
    """Manage several machines: install Dragstrip on them, check them, stop leftover agents."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@fleet.command()
@fleet_file
@click.option(
    "--idle",
    "idle_s",
    type=TextType("duration", partial(duration_s, least_s=1, most_s=600)),
    default="5s",
    help="Time to watch idle agents for.",
)
def check(file: Path, idle_s: float) -> None:
    """Check each machine in FILE: reachable, same Dragstrip, clock offset, link, CPU cost of the idle agent."""
    findings = check_fleet(load(file), idle_s=idle_s)
    show_fleet(Console(), findings)
    if any(not finding.passed for finding in findings):
        sys.exit(EXIT_FAILURE)


@fleet.command()
@fleet_file
@click.argument("contenders", nargs=-1, shell_complete=completion.contenders)
@click.option("--yes", is_flag=True, help="Don't ask.")
def install(file: Path, contenders: tuple[str, ...], yes: bool) -> None:
    """Copy this Dragstrip to each machine in FILE and install what CONTENDERS need; asks first."""
    known = load(file)
    steps = packing.plan(known, contenders)
    if not steps:
        raise BadUsage(f"{file}: nothing to install: every machine in it is this one, and no contender was named")
    megabytes = sum(place.stat().st_size for place, _ in packing.files()) / 1e6
    for step in () if yes else steps:  # ``carry_out`` prints each step
        sent = (
            f"  (from here: {megabytes:,.0f} MB, this Dragstrip and the packages that it needs)" if step.sends else ""
        )
        click.echo(f"{step.machine.name}: {step.script}{sent}")
    if not yes and not click.confirm("Run these?"):
        raise BadUsage("nothing was installed")
    packing.refuse_others(known)
    packing.carry_out(known, steps, say=click.echo)


@fleet.command()
@fleet_file
def down(file: Path) -> None:
    """Stop agents left running on the machines in FILE, and everything they started."""
    for name, count in end_everywhere(load(file)).items():
        click.echo(f"{name}: {count} ended")


@fleet.command(hidden=True)
@click.argument("name")
@click.argument("role", default="load")
@click.option("--end", is_flag=True, help="Stop the agents of this name instead.")
def agent(name: str, role: str, end: bool) -> None:
    """Runs on a machine for the length of a race; started over ssh, not by hand."""
    if end:
        click.echo(len(end_agents(name)))
    else:
        fleet_agent.main(role)
