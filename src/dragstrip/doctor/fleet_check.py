"""``dragstrip fleet check``: each machine there, the same version, clock, link, and what its idle agent costs."""

from __future__ import annotations

import time
from collections.abc import Iterator

from dragstrip.doctor.fleet_finding import Finding, FindingKind
from dragstrip.errors import DragstripError, MachineLost
from dragstrip.fleet.definition import Fleet
from dragstrip.fleet.fleet_site import FleetSite
from dragstrip.fleet.machines import Connected, Machines, connect
from dragstrip.fleet.messages import Usage
from dragstrip.fleet.setup import FleetSetup
from dragstrip.process.keep_awake import OFF
from dragstrip.record import Load
from dragstrip.workload import load as load_workload

#: An idle agent may use so large a share of a core: a hundredth of what a race can tell apart.
IDLE_MOST = 0.001


def check_fleet(fleet: Fleet, *, idle_s: float = 5.0) -> list[Finding]:
    """Looks at every machine; the links and the agents' cost are looked at only where all are reached.

    Args:
        idle_s: so long agents are watched while nothing is asked of them but beats.
    """
    found = [_reach(fleet, number) for number in range(len(fleet.machines))]
    if not all(one.passed for one in found):
        return found
    with Machines(fleet) as machines:
        found += [
            Finding(
                machine=one.name,
                kind=FindingKind.CLOCK,
                passed=True,
                numbers={"offset_ns": one.clock.offset_ns, "round_trip_ns": one.clock.round_trip_ns},
            )
            for one in machines.all
        ]
        return found + list(_opened(machines, idle_s))


def _reach(fleet: Fleet, number: int) -> Finding:
    machine = fleet.machines[number]
    try:
        one = connect(fleet, machine)
    except DragstripError as error:
        why = error.why if isinstance(error, MachineLost) else str(error)
        return Finding(machine=machine.name, kind=FindingKind.REACHED, passed=False, refused=why)
    one.channel.close()
    names = {"version": one.greeting.version, "user": one.greeting.user, "role": machine.role}
    numbers = {"cores": len(one.greeting.cores)}
    return Finding(machine=machine.name, kind=FindingKind.REACHED, passed=True, names=names, numbers=numbers)


def _opened(machines: Machines, idle_s: float) -> Iterator[Finding]:
    """With a race open on all machines, of which no block is run."""
    site = FleetSite(machines)
    load = Load(connections=len(machines.generators), threads=1, keepalive=True, timeout_ns=2_000_000_000)
    try:
        opening = site.race_setup(load_workload("hello"), load, site.lanes(None, None), 1, "auto", OFF, "sleep")
        with opening as setup:
            assert isinstance(setup, FleetSetup)
            setup.begin_round()
            for name, offset in setup.offsets.items():
                numbers = {"offset_ns": offset.offset_ns or 0, "round_trip_ns": offset.round_trip_ns}
                yield Finding(machine=name, kind=FindingKind.LINK, passed=True, numbers=numbers)
            yield from _idle(machines, idle_s)
    except DragstripError as error:
        name = error.machine if isinstance(error, MachineLost) else machines.server.name
        why = error.why if isinstance(error, MachineLost) else str(error)
        yield Finding(machine=name, kind=FindingKind.LINK, passed=False, refused=why)


def _idle(machines: Machines, idle_s: float) -> Iterator[Finding]:
    def usage(one: Connected) -> Usage:
        return one.channel.ask("usage", Usage)

    before = machines.on_all(usage)
    time.sleep(idle_s)
    after = machines.on_all(usage)
    for one, first, last in zip(machines.all, before, after, strict=True):
        share = (last.cpu_ns - first.cpu_ns) / max(last.now_ns - first.now_ns, 1)
        numbers = {"share": share, "most": IDLE_MOST, "seconds": idle_s}
        yield Finding(machine=one.name, kind=FindingKind.IDLE, passed=share <= IDLE_MOST, numbers=numbers)
