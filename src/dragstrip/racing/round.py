"""One round on real processes: launch all afresh, warm each up, load in short blocks, stop, record.

Method: ``docs/METHOD.md``, "The round". Needs an engine handed in; knows nothing of verdicts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dragstrip import validity
from dragstrip.analysis.cpu_shares import left_ns, own_p50_ns, speed_of
from dragstrip.contender import Entry
from dragstrip.errors import StageError
from dragstrip.machine import thread_cpu_ns
from dragstrip.metrics import known_or_auto
from dragstrip.process.launcher import GRACE_S, INTERRUPTED_GRACE_S, Ended
from dragstrip.process.running import Running, awake, frozen
from dragstrip.racing import environment
from dragstrip.racing.records import block_record
from dragstrip.racing.schedule import RoundOrder, block_of
from dragstrip.racing.setup import RaceSetup, block_plan
from dragstrip.racing.warm_up import WINDOW, enough_s, settled
from dragstrip.record import Block, Event, Launch, Plan, Round
from dragstrip.scrutiny import count_from_now, nothing_right

#: A warm-up slice lasts five typical latencies, within these bounds.
SLICE_LEAST_NS, SLICE_MOST_NS = 5_000_000, 50_000_000

#: A server is at rest where it used less than this share of a core in so many looks of so many seconds in a row; it is
#: waited for so long at most.
REST_BELOW, REST_LOOKS, REST_LOOK_S, REST_MOST_S = 0.05, 2, 0.01, 0.3

#: A warm-up that others slow down lasts at most so many times its definition's times, by the clock.
WARM_UP_MOST = 3

#: The first look at a server of which nothing is known, for the length of its slices.
FIRST_LOOK_NS = 20_000_000


@dataclass
class Warm:
    """A contender that is up, connected and warm, within one round.

    Args:
        enough_s: seconds of warm-up after which nothing was left to gain, as this one was seen.
        p50_ns: its typical latency, as its slices went by.
    """

    entry: Entry
    running: Running
    session: int
    warm_up_ns: int
    settled: bool
    enough_s: float
    p50_ns: int = 0


def warm_up(track: RaceSetup, entry: Entry, running: Running, p50_ns: int) -> Warm:
    """Loads a contender until successive slices show no rise, or its ``warm_up.most_s`` is spent.

    Time that others took from its core or the engine's warms nothing up: only what was left counts towards the least
    and the most. A slice's speed is answers per CPU second where that can be read, which others' bursts hardly move.

    Args:
        p50_ns: its typical latency, for the length of a slice; 0 if unknown yet.
    """
    session = track.open(entry, running)
    started = time.monotonic_ns()
    watch(track, running, session)
    if p50_ns == 0:
        (first,) = track.engine.run([block_plan(session, counted_ns=FIRST_LOOK_NS)])
        if not first.answered:  # ten slices more would each wait for the time limit of an answer
            track.engine.close(session)
            raise StageError(f"{entry.name}: {nothing_right(first.errors, first.sample, running.log_tail(5))}")
        p50_ns = own_p50_ns(first, first.p50_ns, len(track.lanes.server)) if first.requests else SLICE_MOST_NS
    slice_ns = min(max(5 * p50_ns, SLICE_LEAST_NS), SLICE_MOST_NS)
    speeds: list[float] = []
    own_ns = 0.0
    while True:
        for tally in track.engine.run([block_plan(session, counted_ns=slice_ns)] * WINDOW):
            speeds.append(speed_of(tally))
            own_ns += left_ns(tally, len(track.lanes.server))
            if tally.gave_up:
                spent_ns = time.monotonic_ns() - started
                return Warm(entry, running, session, spent_ns, settled=False, enough_s=0.0, p50_ns=p50_ns)
        spent_ns = time.monotonic_ns() - started
        if max(own_ns, spent_ns / WARM_UP_MOST) < entry.warm_up_least_s * 1e9:
            continue
        flat = settled(speeds)
        if flat or max(own_ns, spent_ns / WARM_UP_MOST) >= entry.warm_up_most_s * 1e9:
            watch(track, running, session)
            return Warm(entry, running, session, spent_ns, flat, enough_s(speeds, slice_ns / 1e9), p50_ns)


def come_to_rest(last: Sequence[Running]) -> None:
    """Waits until who was warmed up last works no more, at most ``REST_MOST_S``; the others have had that time.

    A just-in-time compiler's own threads go on after the load ends. On one core they had hardly run beside the main
    thread: Node's first blocks were a third slower where it was the last one to be warmed up.
    """
    idle, until_s = 0, time.monotonic() + REST_MOST_S
    before_ns = [sum(thread_cpu_ns(one.schedstats()).values()) for one in last]
    while idle < REST_LOOKS and time.monotonic() < until_s:
        time.sleep(REST_LOOK_S)
        after_ns = [sum(thread_cpu_ns(one.schedstats()).values()) for one in last]
        worked_ns = sum(after_ns) - sum(before_ns)
        idle, before_ns = idle + 1 if worked_ns < REST_BELOW * REST_LOOK_S * 1e9 else 0, after_ns


def watch(track: RaceSetup, running: Running, session: int) -> None:
    """Tells the engine where the contender's CPU time can be read; its threads are all there once it is warm.

    One that dies in this moment leaves nothing to read: its blocks will tell that it is gone.
    """
    from dragstrip._engine import EngineError

    try:
        track.engine.watch(session, cgroup_cpu_stat=running.cpu_stat(), schedstats=list(running.schedstats()))
    except EngineError:
        if running.alive():
            raise


@dataclass(frozen=True, slots=True)
class Outcome:
    """A round's record, the contenders that fell out in it with the reasons, and what else was seen."""

    round: Round
    out: Mapping[str, str]
    events: Sequence[Event] = ()


#: What loads the contenders that are warm, in the round's order.
Loader = Callable[[RaceSetup, Plan, RoundOrder, int, Mapping[str, Warm]], tuple[Block, ...]]


def run_round(
    track: RaceSetup,
    plan: Plan,
    order: RoundOrder,
    index: int,
    entries: Mapping[str, Entry],
    p50_ns: Mapping[str, int],
    loaded: Loader | None = None,
) -> Outcome:
    """Runs one whole round and stops every server of it, however it ends.

    Args:
        order: launches and passes, drawn by ``schedule.round_order``.
        entries: the contenders still in the race, by name.
        p50_ns: each one's typical latency from calibration.
        loaded: loads those that are warm instead of the race's own blocks.
    """
    started_ns = time.monotonic_ns()
    up: dict[str, Running] = {}
    warm: dict[str, Warm] = {}
    out: dict[str, str] = {}
    blocks: tuple[Block, ...] = ()
    events: list[Event] = []
    counts: dict[str, tuple[int, int]] = {}
    served: dict[str, int | None] = {}
    grace_s = INTERRUPTED_GRACE_S
    try:
        for name in order.launches:
            try:
                up[name] = launch_twice(track, entries[name])
            except StageError as error:
                out[name] = str(error)
        for name in [name for name in order.launches if name in up]:
            try:
                warm[name] = warm_up(track, entries[name], up[name], p50_ns.get(name, 0))
            except StageError as error:
                out[name] = str(error)
            counts[name] = up[name].counts()
        come_to_rest([up[name] for name in order.launches if name in warm][-1:])
        asking = {name: count_from_now(track.own_counts.get(name), up[name].host, up[name].port) for name in warm}
        held, began = {name: up[name].resident_bytes() for name in warm}, time.monotonic()
        with track.awake.held():
            blocks = (loaded or _load)(track, plan, order, index, warm)
        lasted_s = time.monotonic() - began
        for name, before_bytes in held.items():
            events += environment.memory_growth_events(name, before_bytes, up[name].resident_bytes(), lasted_s)
        served = {name: since() for name, since in asking.items()}
        out = _fallen(blocks, up) | out
        grace_s = GRACE_S
    finally:
        for made in warm.values():
            track.engine.close(made.session)
        stopped = stop_all(up, grace_s=grace_s)
        launches = tuple(
            replace(
                _launch_record(index, track, name, up[name], ended, warm.get(name), counts.get(name, (0, 0))),
                served=served.get(name),
            )
            for name, ended in stopped.items()
        )
    ended_ns = time.monotonic_ns()
    record = Round(index=index, started_ns=started_ns, ended_ns=ended_ns, launches=launches, blocks=blocks)
    return Outcome(replace(record, void=validity.round_reasons(record)), out, tuple(events))


def stop_all(up: Mapping[str, Running], *, grace_s: float = GRACE_S) -> dict[str, Ended]:
    """Stops servers, all at once: every one gets its signal before the first is waited for."""
    for running in up.values():
        running.begin_stop(grace_s=grace_s)
    return {name: running.stop(grace_s=grace_s) for name, running in up.items()}


def launch_twice(track: RaceSetup, entry: Entry) -> Running:
    """Launches; once more where somebody took the kernel's free port before the server could bind it."""
    try:
        return track.launch(entry)
    except StageError as error:
        if "in use" not in str(error):
            raise
        return track.launch(entry)


def _load(track: RaceSetup, plan: Plan, order: RoundOrder, index: int, warm: Mapping[str, Warm]) -> tuple[Block, ...]:
    names = [(p, name) for p, names in enumerate(order.passes) for name in names if name in warm]
    rate_per_s, pace = track.load.rate_per_s, track.load.pace
    order_of_blocks = [
        block_plan(
            warm[name].session, lead_ns=lead_ns, counted_ns=counted_ns, rate_per_s=rate_per_s, pace=pace, seed=index
        )
        for _, name in names
        for lead_ns, counted_ns in [block_of(plan, name)]
    ]
    cores, tallies = list(track.lanes.all), []
    restless = {name: warm[name].running for name in track.restless & warm.keys()}
    if not restless:
        tallies = track.engine.run(order_of_blocks, steal_cores=cores)
    with frozen(restless.values()):
        for (_, name), one in zip(names, order_of_blocks if restless else (), strict=False):
            with awake(restless.get(name)):
                tallies += track.engine.run([one], steal_cores=cores)
    blocks = [
        block_record(tally, name, index, p, position)
        for position, ((p, name), tally) in enumerate(zip(names, tallies, strict=True))
    ]
    single = {name: made.running.counts()[1] == 1 for name, made in warm.items()}
    return validity.with_reasons(
        blocks,
        connections=track.load.connections,
        server_cores=len(track.lanes.server),
        single_threaded=single,
        shared_lanes=track.lanes.shared,
        by_cpu=known_or_auto(plan.metric) != "throughput",
    )


def _fallen(blocks: Sequence[Block], up: Mapping[str, Running]) -> dict[str, str]:
    """Contenders that died or gave wrong answers under load, with the reason in words."""
    out: dict[str, str] = {}
    for name, running in up.items():
        mine = [block for block in blocks if block.contender == name]
        if not running.alive():
            out[name] = f"died under load; its last words: {running.log_tail(5) or 'none'}"
        elif mine and all(block.gave_up for block in mine):
            out[name] = f"refused every connection under load: {mine[0].sample}"
        elif reason := validity.wrong_under_load(mine):
            out[name] = reason
    return out


def _launch_record(
    index: int, track: RaceSetup, name: str, running: Running, ended: Ended, made: Warm | None, counts: tuple[int, int]
) -> Launch:
    """One launch's record.

    Args:
        made: None where it never became warm. counts: its processes and threads once it was.
    """
    return Launch(
        contender=name,
        round=index,
        cores=track.lanes.server,
        address=running.host if running.host.startswith("unix:") else f"{running.host}:{running.port}",
        ready_ns=running.ready_ns,
        warm_up_ns=made.warm_up_ns if made else 0,
        settled=made.settled if made else False,
        exit_status=ended.exit_status,
        died=ended.died,
        cpu_ns=ended.cpu_ns,
        peak_memory_bytes=ended.peak_memory_bytes,
        cpu_source=running.cpu_source,
        processes=counts[0],
        threads=counts[1],
        log_tail=ended.log_tail,
    )
