"""``dragstrip fleet check``: each machine's version, clock and link, and the CPU cost of its idle agent."""

from __future__ import annotations

import time
from collections.abc import Iterator

from dragstrip.doctor.finding import FleetFinding, FleetSubject
from dragstrip.errors import DragstripError, MachineLost
from dragstrip.extras.fleet.definition import Fleet, Machine
from dragstrip.extras.fleet.duties import Duties
from dragstrip.extras.fleet.fleet_site import FleetSetup, FleetSite
from dragstrip.extras.fleet.machines import Connected, Machines, connect
from dragstrip.extras.fleet.messages import Usage
from dragstrip.process.keep_awake import OFF
from dragstrip.record import Load
from dragstrip.workload import load as load_workload

#: The share of a core that an idle agent may use: a hundredth of the smallest difference that a race can show.
MAX_IDLE_SHARE = 0.001


def check_fleet(fleet: Fleet, *, idle_s: float = 5.0) -> list[FleetFinding]:
    """Checks every machine; checks links and the agents' cost only if all machines are reached.

    Args:
        idle_s: how long to watch agents that only send heartbeats.
    """
    findings = [_reach(fleet, machine) for machine in fleet.machines]
    if not all(finding.passed for finding in findings):
        return findings
    with Machines(fleet) as machines:
        for connected in machines.all:
            trip = f"a round trip takes {connected.clock.round_trip_ns / 1000:,.0f} µs"
            text = f"its clock is {connected.clock.offset_ns / 1e9:+z,.3f} s from this machine's ({trip})"
            findings.append(FleetFinding(connected.name, FleetSubject.CLOCK, True, text))
        return findings + list(_opened(machines, idle_s))


def _reach(fleet: Fleet, machine: Machine) -> FleetFinding:
    try:
        connected = connect(fleet, machine)
    except DragstripError as error:
        return FleetFinding(machine.name, FleetSubject.REACHED, False, _refused(error))
    connected.channel.close()
    greeting = connected.greeting
    cores = f"{len(greeting.cores)} core{'s' if len(greeting.cores) != 1 else ''}"
    text = f"{machine.role}: Dragstrip {greeting.version}, as {greeting.user}, {cores}"
    return FleetFinding(machine.name, FleetSubject.REACHED, True, text)


def _refused(error: DragstripError) -> str:
    return error.why if isinstance(error, MachineLost) else str(error)


def _opened(machines: Machines, idle_s: float) -> Iterator[FleetFinding]:
    """Checks that need an open race on all machines; runs no block."""
    site = FleetSite(machines)
    load = Load(connections=len(machines.generators), threads=1, keepalive=True, timeout_ns=2_000_000_000)
    try:
        opening = site.race_setup(load_workload("hello"), load, site.lanes(None, None), 1, "auto", OFF, "sleep")
        with opening as setup:
            assert isinstance(setup, FleetSetup)
            setup.begin_round()
            for name, offset in setup.offsets.items():
                text = f"its marks come back within {offset.round_trip_ns / 1000:,.0f} µs over the data link"
                yield FleetFinding(name, FleetSubject.LINK, True, text)
            yield from _idle(machines, idle_s)
    except DragstripError as error:
        name = error.machine if isinstance(error, MachineLost) else machines.server.name
        yield FleetFinding(name, FleetSubject.LINK, False, _refused(error))


def _idle(machines: Machines, idle_s: float) -> Iterator[FleetFinding]:
    def usage(connected: Connected) -> Usage:
        return connected.channel.ask(Duties.usage)

    before = machines.on_all(usage)
    time.sleep(idle_s)
    after = machines.on_all(usage)
    for connected, first, last in zip(machines.all, before, after, strict=True):
        share = (last.cpu_ns - first.cpu_ns) / max(last.now_ns - first.now_ns, 1)
        used = f"its idle agent uses {100 * share:.3f} % of a core over {idle_s:.0f} s"
        text = f"{used}; at most {100 * MAX_IDLE_SHARE:g} %"
        yield FleetFinding(connected.name, FleetSubject.IDLE, share <= MAX_IDLE_SHARE, text)
