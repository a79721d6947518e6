"""Runs blocks over a fleet through a race's site, on a test's client; prints the results as JSON.

    python fleet_run.py FLEET CONTENDER CONNECTIONS ACCESS_LOG SECONDS [RATE …]

One block of this many seconds for each rate (0: a closed loop). It prints ``running`` once all is open, and waits for a
line.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dragstrip import contender
from dragstrip.extras.fleet.definition import load
from dragstrip.extras.fleet.fleet_site import FleetSetup, FleetSite
from dragstrip.extras.fleet.machines import Machines
from dragstrip.extras.fleet.messages import Tally
from dragstrip.racing.setup import block_plan
from dragstrip.record import Load
from dragstrip.workload import load as load_workload


def lines(log: str) -> int:
    return Path(log).read_bytes().count(b"\n") if log != "-" else 0


def by_observer(
    each: Sequence[Sequence[Tally]], offsets_ns: Sequence[int], at: Callable[[Tally], int]
) -> list[list[int]]:
    """One time of each generator's blocks, by the observer's clock."""
    return [[at(tally) + ahead for tally in part] for part, ahead in zip(each, offsets_ns, strict=True)]


def main(fleet: str, name: str, connections: str, log: str, seconds: str, *rates: str) -> dict[str, Any]:
    with Machines(load(Path(fleet))) as machines:
        site, counted_ns = FleetSite(machines), round(float(seconds) * 1e9)
        asked = Load(connections=int(connections), threads=1, keepalive=True, timeout_ns=2_000_000_000)
        lanes = site.lanes(None, None)
        with site.race_setup(load_workload("hello"), asked, lanes, 1, "auto", "off", "sleep") as setup:
            assert isinstance(setup, FleetSetup)
            launched = setup.launch(contender.entry(name))
            session = setup.connect(launched)
            setup.watch(launched.running, session)
            setup.begin_round()
            plans = [
                block_plan(session, lead_ns=1, counted_ns=counted_ns, rate_per_s=float(rate), pace="balanced")
                for rate in rates
            ]
            before = lines(log)
            sys.stdout.write("running\n")
            sys.stdout.flush()
            sys.stdin.readline()
            tallies = setup.engine.run(plans)
            (each,) = setup.parts
            offsets_ns = [setup.offsets[one.name].offset_ns or 0 for one in machines.generators]
            setup.engine.close(session)
            launched.running.stop()
            return {
                "logged": lines(log) - before,
                "sent": [[tally.sent for tally in part] for part in each],
                "offered": [tally.offered for tally in tallies],
                "offered_each": [[tally.offered for tally in part] for part in each],
                "lag_p99_ns": [[tally.lag_p99_ns for tally in part] for part in each],
                "round_trip_ns": [setup.offsets[one.name].round_trip_ns for one in machines.generators],
                "began_ns": by_observer(each, offsets_ns, lambda tally: tally.started_ns),
                "ended_ns": by_observer(each, offsets_ns, lambda tally: tally.started_ns + tally.duration_ns),
                "requests": [tally.requests for tally in tallies],
                "merged": [base64.b64encode(tally.latency_hdr).decode() for tally in tallies],
                "own": [[base64.b64encode(tally.latency_hdr).decode() for tally in part] for part in each],
            }


if __name__ == "__main__":
    json.dump(main(*sys.argv[1:]), sys.stdout)
