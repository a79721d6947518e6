"""One extra launch of one contender: started and warmed up as in the race, then loaded while its counters are read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dragstrip.contender import Entry
from dragstrip.errors import StageError
from dragstrip.racing.launching import LaunchedServer, Servers
from dragstrip.racing.setup import RaceSetup, block_plan
from dragstrip.racing.warm_up import wait_until_idle, warm_up
from dragstrip.record import Counter, Profile
from dragstrip.scrutiny import nothing_right, plainest
from dragstrip.why import calls, process_counters, wire
from dragstrip.why.calls import CountedCalls
from dragstrip.why.idle_connections import memory_per_connection
from dragstrip.why.process_counters import CountersReading, proportional_bytes
from dragstrip.why.stacks import StackSampling

if TYPE_CHECKING:
    from dragstrip._engine import BlockPlan, Tally

#: CPU time of the server after which a launch ends, and the longest time that it is loaded for that.
CPU_S, MOST_S = 1.6, 2.5

#: On a busy machine the server had less by then: it is loaded on until it had this much, but not longer than this.
LEAST_CPU_S, LONGEST_S = 1.0, 10.0

#: Blocks between two looks at the time.
AT_ONCE = 8

#: Seconds of load over which system calls are counted, or traced.
CALLS_S = 0.3

#: With less CPU time, the shares of user and kernel mode are unknown: the kernel samples them by ticks of 1 to 10 ms.
LEAST_TICKS_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilePlan:
    """What is launched, and how it is loaded.

    Args:
        entry: the contender, for the column's workload.
        index: of the profile in the race. column: of the race.
        lead_ns, counted_ns: of each block, as in the race.
    """

    entry: Entry
    index: int
    column: int
    lead_ns: int
    counted_ns: int


def profile_launch(setup: RaceSetup, plan: ProfilePlan) -> Profile:
    """Launches a contender alone, warms it up, loads it, and returns what its responses cost.

    Raises:
        StageError: it did not serve, died, or sent no correct response.
    """
    started_ns = time.monotonic_ns()
    with setup.database_up(), Servers(setup.engine) as servers:
        launched = servers.add(setup.launch(plan.entry))
        launched.warm_up = warm_up(setup, launched)
        wait_until_idle(launched.running)
        before, sockets = process_counters.read(launched.running.pids()), _sockets(setup, launched)
        with StackSampling(launched.running.pids(), setup.lanes.server, maps=_writes_maps(plan.entry)) as sampling:
            tallies = _load(setup, launched, plan)
            ended_ns = time.monotonic_ns()
            after = process_counters.read(launched.running.pids())
            received = wire.received_between(sockets, _sockets(setup, launched))
            sampled = sampling.finish()
        if not launched.running.alive():
            raise StageError(f"{launched.name}: {launched.death('under load')}")
        size, called = _size(launched), _calls(setup, launched, plan)
        readings = (
            after.since(before),
            received,
            sampled.reading,
            size,
            _idle_connections(setup, launched),
        )
    counts, missing = _cpu(tallies, readings[0])
    missing |= called.missing
    if reason := _no_sockets(setup, launched):
        missing |= dict.fromkeys((Counter.RECEIVED_BYTES, Counter.SEGMENTS), reason)
    for reading in readings:
        counts |= {counter: float(total) for counter, total in reading.totals.items() if counter not in counts}
        missing = {**reading.missing, **missing}
    return Profile(
        index=plan.index,
        column=plan.column,
        contender=launched.name,
        started_ns=started_ns,
        ended_ns=ended_ns,
        blocks=len(tallies),
        duration_ns=sum(tally.duration_ns for tally in tallies),
        answered=sum(tally.answered for tally in tallies),
        failed=sum(tally.failed for tally in tallies),
        counts={str(counter): count for counter, count in counts.items() if counter not in missing}
        | dict(called.counts),
        missing={str(counter): reason for counter, reason in missing.items()},
        frames=sampled.frames,
        stacks=sampled.stacks,
    )


def _writes_maps(entry: Entry) -> bool:
    return entry.contender is not None and entry.contender.fields.profiled.perf_map


def _load(setup: RaceSetup, launched: LaunchedServer, plan: ProfilePlan) -> list[Tally]:
    """Loads blocks until the server has had ``CPU_S``, for at most ``MOST_S``; longer only for ``LEAST_CPU_S``.

    Raises:
        StageError: it sent no correct response.
    """
    tallies: list[Tally] = []
    begun_s = time.monotonic()
    with setup.awake.held():
        while True:
            tallies += setup.engine.run([_block(setup, launched, plan, len(tallies))] * AT_ONCE)
            if tallies[-1].gave_up or is_enough(_cpu_s(tallies), time.monotonic() - begun_s):
                break
    if not any(tally.answered for tally in tallies):
        failures = nothing_right(tallies[-1].errors, tallies[-1].sample, launched.running.log_tail(5))
        raise StageError(f"{launched.name}: {launched.death('under load') or failures}")
    return tallies


def _cpu_s(tallies: Sequence[Tally]) -> float | None:
    """CPU time of the server so far; None if it can't be read."""
    known = [tally.server_cpu_ns for tally in tallies if tally.server_cpu_ns is not None]
    return sum(known) / 1e9 if known else None


def is_enough(cpu_s: float | None, loaded_s: float) -> bool:
    """Whether a launch ends after this CPU time of the server, in the time that it was loaded."""
    least_s = 0.0 if cpu_s is None or loaded_s >= LONGEST_S else LEAST_CPU_S
    return (cpu_s or 0.0) > CPU_S or (loaded_s >= MOST_S and (cpu_s or 0.0) >= least_s)


def _calls(setup: RaceSetup, launched: LaunchedServer, plan: ProfilePlan) -> CountedCalls:
    """System calls by name; if the kernel refuses to count them, by class, by tracing."""
    pids = launched.running.pids()
    if not pids:
        return CountedCalls(missing={Counter.CALLS: "its processes can't be seen"})
    load = partial(_responses, setup, launched, plan)
    counted = calls.counted(pids, setup.lanes.server, load)
    if Counter.CALLS not in counted.missing:
        return counted
    traced = calls.traced(pids, load)
    return CountedCalls(counts=traced.counts, missing={**counted.missing, **traced.missing})


def _responses(setup: RaceSetup, launched: LaunchedServer, plan: ProfilePlan) -> int:
    """Loads blocks for ``CALLS_S``; returns how many responses there were."""
    answered, until_s = 0, time.monotonic() + CALLS_S
    while time.monotonic() < until_s:
        (tally,) = setup.engine.run([_block(setup, launched, plan, answered)])
        answered += tally.answered
        if tally.gave_up:
            break
    return answered


def _block(setup: RaceSetup, launched: LaunchedServer, plan: ProfilePlan, seed: int) -> BlockPlan:
    return block_plan(
        launched.connected(),
        lead_ns=plan.lead_ns,
        counted_ns=plan.counted_ns,
        rate_per_s=setup.load.rate_per_s,
        pace=setup.load.pace,
        seed=seed,
    )


def _cpu(tallies: list[Tally], ticks: CountersReading) -> tuple[dict[Counter, float], dict[Counter, str]]:
    """CPU time, its parts, and turns on a core; and why one of them is missing."""
    counts: dict[Counter, float] = {}
    missing: dict[Counter, str] = {}
    modes = (Counter.USER_NS, Counter.KERNEL_NS)
    cpu_ns = [tally.server_cpu_ns for tally in tallies if tally.server_cpu_ns is not None]
    if len(cpu_ns) == len(tallies):
        counts[Counter.CPU_NS] = float(sum(cpu_ns))
    else:
        missing[Counter.CPU_NS] = "its CPU time can't be read"
    turns = [tally.server_runs for tally in tallies if tally.server_runs is not None]
    if len(turns) == len(tallies):
        counts[Counter.TURNS] = float(sum(turns))
    else:
        missing[Counter.TURNS] = "the kernel's schedstat can't be read"
    if not all(mode in ticks.totals for mode in modes):
        return counts, missing
    both_ns = sum(ticks.totals[mode] for mode in modes)
    if both_ns < LEAST_TICKS_S * 1e9:
        reason = f"the load took less than {LEAST_TICKS_S:g} s of CPU time, and the kernel counts it in ticks"
        return counts, missing | dict.fromkeys(modes, reason)
    whole_ns = counts.get(Counter.CPU_NS, float(both_ns))
    return counts | {mode: whole_ns * ticks.totals[mode] / both_ns for mode in modes}, missing


def _size(launched: LaunchedServer) -> CountersReading:
    """How many processes and threads it has, and its memory."""
    processes, threads = launched.running.counts()
    memory_bytes = launched.running.resident_bytes()
    known = {Counter.PROCESSES: processes, Counter.THREADS: threads, Counter.RESIDENT_BYTES: memory_bytes}
    return CountersReading(
        totals={counter: value for counter, value in known.items() if value},
        missing={counter: "its processes can't be seen" for counter, value in known.items() if not value},
    )


def _sockets(setup: RaceSetup, launched: LaunchedServer) -> dict[tuple[object, ...], wire.Received]:
    if _no_sockets(setup, launched):
        return {}
    return dict(wire.sockets_to(launched.running.host, launched.running.port))


def _no_sockets(setup: RaceSetup, launched: LaunchedServer) -> str:
    """Why the engine's sockets show nothing; "" if they do."""
    if launched.running.host.startswith("unix:"):
        return "it is reached by a Unix socket, not by TCP"
    return "" if setup.load.keepalive else "each request has a connection of its own"


def _idle_connections(setup: RaceSetup, launched: LaunchedServer) -> CountersReading:
    """Memory per idle connection, if a plain connection of HTTP/1 can be held."""
    asking = setup.asking(launched)
    reason = _no_sockets(setup, launched)
    if launched.tls is not None or not asking.plain:
        reason = reason or "it is measured over plain HTTP/1 only"
    if not launched.running.pids():
        reason = reason or "its processes can't be seen"
    if not launched.running.alive():
        reason = reason or "it ended while its system calls were counted"
    if reason:
        counters = (Counter.CONNECTION_BYTES, Counter.SOCKET_BYTES, Counter.HELD_CONNECTIONS)
        return CountersReading(totals={}, missing=dict.fromkeys(counters, reason))
    request = plainest(asking.exchanges(keepalive=True, http=setup.load.http)).request
    launched.disconnect(setup.engine)
    running = launched.running
    return memory_per_connection(
        running.host,
        running.port,
        request,
        lambda: proportional_bytes(running.pids()),
        namespace=running.namespace,
    )
