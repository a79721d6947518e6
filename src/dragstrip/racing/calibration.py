"""How one contender takes short blocks, and what it does while idle: worked out once, before the rounds.

Method: ``docs/METHOD.md``, "What voids or warns".
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from dragstrip import machine
from dragstrip.racing.environment import event
from dragstrip.racing.setup import block_plan
from dragstrip.record import Event
from dragstrip.validity import UNEQUAL_BLOCKS

if TYPE_CHECKING:
    from dragstrip._engine import Engine, Tally
    from dragstrip.process.running import Running

#: A contender that works while idle takes its time from the others' blocks: from this share of a core on it is frozen.
RESTLESS = 0.01
IDLE_AFTER_S, IDLE_LOOK_S = 0.05, 0.20

#: Short blocks against ones that count after so much load, in calibration; not where short ones are long enough anyway.
LOADED_NS, SHORTS, LONG_ENOUGH_NS = 100_000_000, 8, 100_000_000
#: After so many of them it may already be shown that they do not read apart.
SHORTS_LEAST = 5
APART, ERRORS, DISTURBED = 0.02, 3.0, 0.05
#: A median's standard error, in median absolute deviations of normal values, for one of them (Huber 1981).
OF_DEVIATION = 1.4826 * math.sqrt(math.pi / 2)
MOST_FACTOR = 4
NOT_COMPARED = "not compared with lasting load"


def idle_shares(running: Sequence[Running]) -> list[float]:
    """How much of a core each of these uses when nobody asks it anything, 0.05 s after the last answer and later."""
    if not any(one.schedstats() for one in running):
        return [0.0] * len(running)
    time.sleep(IDLE_AFTER_S)
    before, began = [machine.thread_cpu_ns(one.schedstats()) for one in running], time.monotonic()
    time.sleep(IDLE_LOOK_S)
    after, lasted_ns = [machine.thread_cpu_ns(one.schedstats()) for one in running], (time.monotonic() - began) * 1e9
    return [
        sum(max(spent - first.get(path, 0), 0) for path, spent in last.items()) / lasted_ns
        for first, last in zip(before, after, strict=True)
    ]


def short_against_long(engine: Engine, session: int, lead_ns: int, counted_ns: int) -> tuple[float, float] | None:
    """How much faster a contender reads in short blocks, with idle time between as in a race, than under lasting load.

    Each short block is compared with its neighbours before and after, as long, but counted after 100 ms of load: the
    machine's own phases are shared by neighbours, and the median over blocks is what few bad ones can't move. Five
    comparisons suffice where they show that it reads within 2 % of lasting load, three standard errors included.

    Returns:
        The log ratio of the rates and its standard error; None where it says nothing: the short blocks are long
        enough by themselves, or the machine disturbed more than half of the comparisons.
    """
    if counted_ns > LONG_ENOUGH_NS:
        return None
    short, loaded = (block_plan(session, lead_ns=lead, counted_ns=counted_ns) for lead in (lead_ns, LOADED_NS))
    tallies, found = engine.run([loaded]), None
    for done in range(1, SHORTS + 1):
        time.sleep((lead_ns + counted_ns) / 1e9)
        tallies += engine.run([short, loaded])
        if done >= SHORTS_LEAST:
            found = _apart(tallies, least=SHORTS / 2)
            if found is not None and abs(found[0]) + ERRORS * found[1] <= APART:
                break
    return found


def _apart(tallies: Sequence[Tally], *, least: float) -> tuple[float, float] | None:
    """The median log ratio of short blocks to their neighbours, and its error; None without over ``least`` of them."""
    rates = [math.nan if disturbed(tally) else math.log(tally.requests / tally.counted_ns) for tally in tallies]
    both = zip(rates[1::2], rates[:-1:2], rates[2::2], strict=True)
    apart = [ratio for one, before, after in both if not math.isnan(ratio := one - (before + after) / 2)]
    if len(apart) <= least:
        return None
    middle = median(apart)
    return middle, OF_DEVIATION * median(abs(ratio - middle) for ratio in apart) / math.sqrt(len(apart))


def disturbed(tally: Tally) -> bool:
    """The engine had to wait for its core, or nothing was answered."""
    waited = tally.engine_wait_ns / max(tally.duration_ns * tally.engine_threads, 1)
    return waited > DISTURBED or tally.requests == 0


@dataclass(frozen=True, slots=True)
class BlockCalibration:
    """What calibration found of one contender.

    Args:
        factor: its blocks are to be so many times longer.
        restless: it works while idle, and is to be frozen then.
        facts: for the parity sheet.
        unclear: the machine disturbed most comparisons of its short blocks.
    """

    factor: int
    restless: bool
    facts: Mapping[str, str]
    events: tuple[Event, ...] = ()
    unclear: bool = False

    def at_idle(self, share: float) -> BlockCalibration:
        """The same, with how much of a core it uses while idle."""
        if share <= RESTLESS:
            return self
        told = f"uses {100 * share:.1f} % of a core; frozen but for its own blocks"
        return replace(self, restless=True, facts={**self.facts, "while idle": told})


def calibrate_blocks(engine: Engine, session: int, name: str, lengths_ns: tuple[int, int]) -> BlockCalibration:
    """How one contender, warm and connected, takes short blocks; ``idle_shares`` and ``at_idle`` tell the rest.

    Args:
        lengths_ns: lead-in and counted part that its own latency asks for.
    """
    factor, told, events = _factor(engine, session, name, *lengths_ns)
    unclear = told == NOT_COMPARED and lengths_ns[1] <= LONG_ENOUGH_NS
    return BlockCalibration(factor, False, {"short blocks": told}, events, unclear)


def _factor(
    engine: Engine, session: int, name: str, lead_ns: int, counted_ns: int
) -> tuple[int, str, tuple[Event, ...]]:
    """Doubles blocks, twice at most, while short ones read over 2 % apart from lasting load; else says that they do."""
    factor, told = 1, NOT_COMPARED
    while found := short_against_long(engine, session, factor * lead_ns, factor * counted_ns):
        apart, error = found
        told = f"{100 * math.expm1(apart):+.1f} % against blocks after {LOADED_NS // 1_000_000} ms of load"
        if abs(apart) - ERRORS * error <= APART:
            break
        if factor == MOST_FACTOR:
            detail = f"{name}: blocks of {factor * counted_ns / 1e6:.0f} ms read {told}"
            return factor, told, (event(UNEQUAL_BLOCKS, detail),)
        factor *= 2
    return factor, told if factor == 1 else f"{told}, {factor} times the usual length", ()
