"""How commands of the core join a fleet: a race's site, and a load by its generators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragstrip.extras.fleet.definition import load
from dragstrip.extras.fleet.fleet_site import FleetSite
from dragstrip.extras.fleet.machines import Machines
from dragstrip.extras.fleet.remote_load import load_over
from dragstrip.loading.run import LoadProgress, LoadRequest, LoadResult


@contextmanager
def joined(file: Path, node_wait_s: float) -> Iterator[FleetSite]:
    """The machines of a fleet's file, whose agents end with this context.

    Raises:
        BadDefinition: the file is invalid. MachineLost: a machine can't be reached.
    """
    with Machines(load(file), node_wait_s=node_wait_s) as machines:
        yield FleetSite(machines)


def loaded(file: Path, request: LoadRequest, progress: LoadProgress) -> LoadResult:
    """Loads a URL from the generators of a fleet's file."""
    with Machines(load(file)) as machines:
        return load_over(machines, request, progress)
