"""Measures each contender once, before the rounds: latency, capacity, short blocks, CPU time while idle.

Method: ``docs/METHOD.md``, "What voids or warns".
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from dragstrip import machine, parity
from dragstrip.analysis.cpu_shares import own_p50_ns
from dragstrip.contender import Entry
from dragstrip.errors import StageError
from dragstrip.racing import schedule
from dragstrip.racing.launching import LaunchedServer, WarmUp
from dragstrip.racing.machine_events import event
from dragstrip.racing.setup import RaceSetup, block_plan
from dragstrip.racing.warm_up import MAX_LEARNED_S, warm_up
from dragstrip.record import Event, EventKind, LaunchCount
from dragstrip.scrutiny import nothing_right

if TYPE_CHECKING:
    from dragstrip._engine import Engine, Tally
    from dragstrip.process.running import Running

#: Length of a calibration block: a slow server's median latency must fit in a few times; a fast server's is shorter.
CALIBRATION_NS, MIN_CALIBRATION_NS, CALIBRATION_LATENCIES = 200_000_000, 100_000_000, 50
MIN_CALIBRATION_LATENCIES = 3

#: How often a calibration block is repeated, each time as many times longer as the constant before says, if it had too
#: few responses. The last one lasts 27 times as long as the first.
LONGER_CALIBRATIONS = 3

#: The shortest warm-up that calibration sets for an ad hoc contender; for any other the definition sets it.
MIN_LEARNED_S = 0.05

#: A contender that works while idle disturbs the others' blocks: from this share of a core on, it is frozen.
RESTLESS = 0.01
IDLE_AFTER_S, IDLE_LOOK_S = 0.05, 0.20

#: Calibration compares short blocks with blocks that count after this much load, unless short blocks last long enough.
LOADED_NS, SHORTS, LONG_ENOUGH_NS = 100_000_000, 8, 100_000_000
#: Number of short blocks after which the comparison may already show that they agree.
MIN_SHORTS = 5
APART, ERRORS, DISTURBED = 0.02, 3.0, 0.05
#: A median's standard error, in median absolute deviations of normal values, for one of them (Huber 1981).
OF_DEVIATION = 1.4826 * math.sqrt(math.pi / 2)
#: How many times longer than usual blocks may become.
FACTORS = (1, 2, 4)
NOT_COMPARED = "not compared with lasting load"


def idle_shares(running: Sequence[Running]) -> list[float]:
    """Share of a core that each of these uses without requests, from 0.05 s after its last response on."""
    if not any(server.thread_cpu_ns() for server in running):
        return [0.0] * len(running)
    time.sleep(IDLE_AFTER_S)
    before, began = [server.thread_cpu_ns() for server in running], time.monotonic()
    time.sleep(IDLE_LOOK_S)
    after, lasted_ns = [server.thread_cpu_ns() for server in running], (time.monotonic() - began) * 1e9
    return [
        sum(max(spent - first.get(path, 0), 0) for path, spent in last.items()) / lasted_ns
        for first, last in zip(before, after, strict=True)
    ]


def short_against_long(engine: Engine, session: int, lead_ns: int, counted_ns: int) -> tuple[float, float] | None:
    """How much faster a contender reads in short blocks, with idle time between as in a race, than under lasting load.

    Each short block is compared with the blocks before and after it, which are as long but counted after 100 ms of
    load. Neighbours share the machine's own phases, and a few bad blocks can't move the median. Five comparisons
    suffice if they show that the rate is within 2 % of lasting load, three standard errors included.

    Returns:
        The log ratio of the rates and its standard error; None if nothing was compared: the short blocks
        last long enough, or the machine disturbed more than half of the comparisons.
    """
    if counted_ns > LONG_ENOUGH_NS:
        return None
    short, loaded = (block_plan(session, lead_ns=lead, counted_ns=counted_ns) for lead in (lead_ns, LOADED_NS))
    tallies, ratio = engine.run([loaded]), None
    for done in range(1, SHORTS + 1):
        time.sleep((lead_ns + counted_ns) / 1e9)
        tallies += engine.run([short, loaded])
        if done >= MIN_SHORTS:
            ratio = _apart(tallies, least=SHORTS / 2)
            if ratio is not None and abs(ratio[0]) + ERRORS * ratio[1] <= APART:
                break
    return ratio


def _apart(tallies: Sequence[Tally], *, least: float) -> tuple[float, float] | None:
    """The median log ratio of short blocks to their neighbours, and its error; None without over ``least`` of them."""
    rates = [math.nan if disturbed(tally) else math.log(tally.requests / tally.counted_ns) for tally in tallies]
    neighbours = zip(rates[1::2], rates[:-1:2], rates[2::2], strict=True)
    apart = [ratio for short, before, after in neighbours if not math.isnan(ratio := short - (before + after) / 2)]
    if len(apart) <= least:
        return None
    middle = median(apart)
    return middle, OF_DEVIATION * median(abs(ratio - middle) for ratio in apart) / math.sqrt(len(apart))


def disturbed(tally: Tally) -> bool:
    """Whether the engine had to wait for its core, or no response came."""
    waited = tally.engine_wait_ns / max(tally.duration_ns * tally.engine_threads, 1)
    return waited > DISTURBED or tally.requests == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortBlocks:
    """How a contender's short blocks compare with lasting load.

    Args:
        factor: makes its blocks longer by this factor.
        fact: for the parity sheet.
        unclear: the machine disturbed most comparisons.
    """

    factor: int
    fact: str
    events: tuple[Event, ...] = ()
    unclear: bool = False


def compare_short_blocks(engine: Engine, session: int, name: str, lead_ns: int, counted_ns: int) -> ShortBlocks:
    """Doubles blocks, twice at most, while they read over 2 % apart from lasting load; an event records it if they do.

    Args:
        session: of a contender that is warm and connected.
        lead_ns, counted_ns: lead-in and counted part for its own latency.
    """
    factor, fact = 1, NOT_COMPARED
    while found := short_against_long(engine, session, factor * lead_ns, factor * counted_ns):
        apart, error = found
        fact = f"{100 * math.expm1(apart):+.1f} % against blocks after {LOADED_NS // 1_000_000} ms of load"
        if abs(apart) - ERRORS * error <= APART:
            break
        if factor == FACTORS[-1]:
            unequal = event(
                EventKind.UNEQUAL_BLOCKS,
                name,
                counted_ns=factor * counted_ns,
                apart=math.expm1(apart),
                loaded_ns=LOADED_NS,
            )
            return ShortBlocks(factor=factor, fact=fact, events=(unequal,))
        factor *= 2
    unclear = fact == NOT_COMPARED and counted_ns <= LONG_ENOUGH_NS
    fact = fact if factor == 1 else f"{fact}, {factor} times the usual length"
    return ShortBlocks(factor=factor, fact=fact, unclear=unclear)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What rounds and their plan need to know of one contender; never used in a verdict.

    Args:
        p50_ns: its typical latency.
        capacity_per_s: responses per second in a closed loop.
        launch_s: start and warm-up.
        block_factor: makes its blocks longer by this factor than its latency requires.
        restless: it works while idle, and must be frozen then.
        events: for the race's record.
    """

    p50_ns: int
    capacity_per_s: float
    launch_s: float
    block_factor: int
    restless: bool
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """The results of loading one contender alone.

    Args:
        entry: with the learned warm-up for an ad hoc contender; otherwise unchanged.
        facts: for the parity sheet.
        disturbed: other programs used the cores, so the calibration is valid for an hour only.
    """

    entry: Entry
    calibration: Calibration
    facts: Mapping[str, str]
    disturbed: bool

    def at_idle(self, share: float, *, freezes: bool) -> Calibrated:
        """The same, with how much of a core it uses while idle; ``freezes``: it can be frozen."""
        if share <= RESTLESS:
            return self
        what = "frozen but for its own blocks" if freezes else "also during the others' blocks, as it can't be frozen"
        fact = f"uses {100 * share:.1f} % of a core; {what}"
        calibration = replace(self.calibration, restless=freezes)
        return replace(self, calibration=calibration, facts={**self.facts, "while idle": fact})

    def warmed_up_for(self, least_s: float) -> Calibrated:
        """The same with a longer warm-up, in seconds."""
        longer_s = least_s - self.entry.warm_up_least_s
        calibration = replace(self.calibration, launch_s=self.calibration.launch_s + longer_s)
        return replace(self, entry=replace(self.entry, warm_up_least_s=least_s), calibration=calibration)


def calibrate(setup: RaceSetup, launched: LaunchedServer) -> Calibrated:
    """Warms a contender up and loads it alone; measures its typical latency, capacity and short blocks.

    Its connections are then closed: ``idle_shares`` measures it once it is idle, and ``Calibrated.at_idle`` adds that.

    Raises:
        StageError: it sent no correct response, or died.
    """
    entry, running = launched.entry, launched.running
    warm = launched.warm_up = warm_up(setup, launched, learns=entry.contender is None)
    before = running.thread_cpu_ns()
    tally = _load(setup, launched, warm.p50_ns)
    worked = machine.who_worked(before, running.thread_cpu_ns())
    launched.count_threads()
    p50_ns = own_p50_ns(tally, tally.p50_ns, len(setup.lanes.server)) if tally.requests else 0
    short_blocks = None
    if tally.requests:
        lengths_ns = schedule.block_lengths({entry.name: p50_ns}, [entry.lead_ns])
        short_blocks = compare_short_blocks(setup.engine, launched.connected(), entry.name, *lengths_ns)
    launched.disconnect(setup.engine)
    if short_blocks is None or not running.alive():
        differs = setup.difference(launched, tally.sample)
        raise StageError(nothing_right(tally.errors, tally.sample, running.log_tail(5), differs))
    learned, warm_up_s = _learned_warm_up(entry, warm, MAX_LEARNED_S * setup.learning)
    return Calibrated(
        entry=learned,
        calibration=Calibration(
            p50_ns=p50_ns,
            capacity_per_s=tally.requests * 1e9 / max(tally.counted_ns, 1),
            launch_s=running.ready_ns / 1e9 + warm_up_s,
            block_factor=short_blocks.factor,
            restless=False,
            events=short_blocks.events,
        ),
        facts=_facts_under_load(setup, launched, tally, worked) | {"short blocks": short_blocks.fact},
        disturbed=disturbed(tally) or short_blocks.unclear,
    )


def _load(setup: RaceSetup, launched: LaunchedServer, p50_ns: int) -> Tally:
    """Runs one block: a slow server's median latency fits in a few times; a fast server's block is shorter."""
    most_ns = max(CALIBRATION_NS, MIN_CALIBRATION_LATENCIES * p50_ns)
    length_ns = min(max(CALIBRATION_LATENCIES * p50_ns, MIN_CALIBRATION_NS), most_ns)
    with setup.awake.held():
        (tally,) = setup.engine.run([block_plan(launched.connected(), counted_ns=length_ns)])
        for _ in range(LONGER_CALIBRATIONS):
            only_incorrect = tally.failed > 0 and not tally.answered
            if tally.requests >= setup.load.connections or only_incorrect or tally.gave_up:
                break
            # Most responses came after the block, which was too short or disturbed; the few within it are the fastest.
            # A connection's handshake may take longer than the block if other programs take the cores.
            length_ns = MIN_CALIBRATION_LATENCIES * tally.duration_ns
            (tally,) = setup.engine.run([block_plan(launched.connected(), counted_ns=length_ns)])
    return tally


def _learned_warm_up(entry: Entry, warm: WarmUp, most_s: float) -> tuple[Entry, float]:
    """The entry with the learned warm-up, at most ``most_s`` seconds, and the seconds that its warm-ups will take.

    An ad hoc server's runtime is unknown, so it was warmed up as long as a just-in-time runtime. If its speed did not
    rise, the rounds need not wait as long; their own warm-ups still end when slices show no rise.
    """
    warm_up_s = warm.lasted_ns / 1e9
    if entry.contender is not None:
        return entry, warm_up_s
    least_s = max(MIN_LEARNED_S, min(warm.enough_s, most_s))
    return replace(entry, warm_up_least_s=least_s), min(warm_up_s, least_s)


def with_equal_warm_ups(calibrated: Mapping[str, Calibrated]) -> dict[str, Calibrated]:
    """Ad hoc contenders all with the longest learned warm-up of them: they may be builds of one server.

    What is learned from one launch scatters. Of two launches of the same server, the one that was warmed up for less
    time would look slower in every round.
    """
    ad_hoc = [contender for contender in calibrated.values() if contender.entry.contender is None]
    longest_s = max((contender.entry.warm_up_least_s for contender in ad_hoc), default=0.0)
    return {
        name: contender if contender.entry.contender is not None else contender.warmed_up_for(longest_s)
        for name, contender in calibrated.items()
    }


def _facts_under_load(setup: RaceSetup, launched: LaunchedServer, tally: Tally, worked: str) -> dict[str, str]:
    """Facts for the parity sheet from the calibration's block; ``worked``: the threads that used CPU time."""
    running = launched.running
    processes, threads = (launched.counts.get(name, 0) for name in (LaunchCount.PROCESSES, LaunchCount.THREADS))
    facts = {"processes, threads": f"{processes}, {threads}" if processes else "unknown"}
    facts |= {"worked under load": worked} if worked else {}
    if tally.server_cpu_ns is not None:
        cores = running.usable_cores() or len(setup.lanes.server)
        used = parity.CoresUsed(tally.server_cpu_ns / max(tally.duration_ns, 1), cores)
        facts[parity.CORES_USED] = str(used)
    facts["connections opened per 1000 responses"] = f"{1000 * tally.connects / max(tally.answered, 1):.1f}"
    facts["CPU read from"] = running.cpu_source
    facts |= running.facts()
    if running.users():
        facts[parity.RUNS_AS] = str(parity.RunsAs(tuple(running.users())))
    if running.note:
        facts[parity.NOTE] = running.note
    return facts
