"""``--fleet FILE`` and ``--node-wait``, for the commands that can race, or load, over several machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from dragstrip.cli.options import Command, CoreOptions
from dragstrip.cli.quantities import Duration
from dragstrip.compat.wrk_script import WrkScript
from dragstrip.errors import BadUsage
from dragstrip.loading.run import LoadRequest, LoadResult, Progress, run
from dragstrip.racing.site import LOCAL, Site


def fleet_option(command: Command) -> Command:
    """``--fleet`` alone, for ``dragstrip load``."""
    return click.option(
        "--fleet",
        type=click.Path(path_type=Path),
        default=None,
        metavar="FILE",
        help="Generate the load on the machines listed in a fleet.toml.",
    )(command)


def fleet_options(command: Command) -> Command:
    """Both, for ``placed``."""
    command = click.option(
        "--node-wait",
        type=Duration(),
        default="30s",
        show_default=True,
        help="With --fleet: how long to wait for a machine that stops responding.",
    )(command)
    return click.option(
        "--fleet",
        type=click.Path(path_type=Path),
        default=None,
        metavar="FILE",
        help="Run on the machines listed in a fleet.toml.",
    )(command)


@contextmanager
def placed(fleet: Path | None, node_wait_s: float, cores: CoreOptions | None = None) -> Iterator[Site]:
    """Where a command's races run: on this machine, or on a fleet's, whose agents end with this.

    Raises:
        BadUsage: cores are named besides a fleet. BadDefinition: its file is refused.
        MachineLost: a machine can't be reached.
    """
    if fleet is None:
        yield LOCAL
        return
    named = (("--server-cores", cores.server_cores), ("--engine-cores", cores.engine_cores)) if cores else ()
    for option, given in named:
        if given is not None:
            raise BadUsage(
                f"{option} {given} can't be used with --fleet: {fleet} sets each machine's cores; leave it out"
            )
    from dragstrip.fleet.definition import load
    from dragstrip.fleet.fleet_site import FleetSite
    from dragstrip.fleet.machines import Machines

    with Machines(load(fleet), node_wait_s=node_wait_s) as machines:
        yield FleetSite(machines)


def loaded(fleet: Path | None, request: LoadRequest, progress: Progress) -> LoadResult:
    """Loads a URL from this machine, or from a fleet's generators.

    Raises:
        DragstripError: as ``loading.run.run`` and ``placed``.
    """
    if fleet is None:
        return run(request, progress, WrkScript)
    from dragstrip.fleet.definition import load
    from dragstrip.fleet.machines import Machines
    from dragstrip.fleet.remote_load import load_over

    with Machines(load(fleet)) as machines:
        return load_over(machines, request, progress)
