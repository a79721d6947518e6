"""Loads servers of TechEmpower's and HttpArena's workloads by the engine, for tests."""

from __future__ import annotations

import os

from dragstrip import contender
from dragstrip._engine import BlockPlan, Engine
from dragstrip.racing.request import Request, lanes_of, load_of
from dragstrip.racing.setup import session_plan
from dragstrip.record import Load
from dragstrip.scrutiny import Server, reference_heads, with_own_form
from dragstrip.workload import Asking, Workload

#: Seconds after which a hanging server fails its test.
HANGS_S = 120.0

#: A core that this process may use, for engine and servers.
CORE = str(min(os.sched_getaffinity(0)))


def load_for(workload: Workload) -> Load:
    entry = contender.serve_entry("any=true {port}")
    request = Request(entries=(entry,), workload=workload, connections=4, server_cores=CORE, engine_cores=CORE)
    return load_of(request, lanes_of(request))


def loaded(asking: Asking, server: Server, requests: int) -> dict[str, int]:
    """Errors of this many requests by the engine, by their kinds."""
    load = load_for(asking.workload)
    exchanges = with_own_form(server, asking.exchanges())
    heads = reference_heads(server, exchanges)
    engine = Engine([int(CORE)])
    try:
        session = engine.open(session_plan(server, asking, load, exchanges, heads, load.connections))
        (tally,) = engine.run([BlockPlan(session, counted_ns=int(HANGS_S * 1e9), max_requests=requests)])
    finally:
        engine.shutdown()
    assert tally.answered + tally.failed == requests
    limit = asking.workload.traffic.requests_per_connection
    assert tally.connects >= (requests // limit - load.connections if limit else 0)
    return dict(tally.errors)
