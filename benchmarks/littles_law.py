"""How often Little's law makes a contender void next to other programs, by simulation: into docs/method/details.md.

    python benchmarks/littles_law.py [--races 100]

Each race has 120 blocks of nginx's lengths (4 ms of lead-in, 10 ms counted) in a closed loop of 32 connections. Another
program takes the core in bursts of 1 to 50 ms (uniform) at random times, as ``benchmarks/disturb.py`` does. One burst
in five is the hypervisor's, which no counter shows. The same races are judged by the rule of before, the calm
blocks' mean alone, and by ``validity.race``. Nothing is timed: the result is the same on any machine.
"""

from __future__ import annotations

import argparse
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pages

from dragstrip.validity import Status
from dragstrip.validity.littles_law import CALM, LITTLE, little_level, without_pauses

PAGE = Path(__file__).resolve().parent.parent / "docs/method/details.md"
MS = 1_000_000
CONNECTIONS, BLOCKS, SERVICE_NS = 32, 120, 40_000
LEAD_NS, COUNTED_NS = 4 * MS, 10 * MS
#: The share of bursts that no counter shows.
UNSEEN = 0.2

#: When the core is taken: begin and end, ns after the block's begin.
Pause = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Counts:
    """What a block counts, as far as Little's law needs it (``record.Block``)."""

    requests: int
    lead_ns: int
    counted_ns: int
    duration_ns: int
    max_ns: int
    latency_sum_ns: int
    turn_sum_ns: int = 0

    @property
    def p99_ns(self) -> int:
        """As long as the longest: the most that a block's ends may hide."""
        return self.max_ns


@dataclass(frozen=True, slots=True)
class Loop:
    """A closed loop's counts: of the counted part, but ``answered`` and ``drain_ns``."""

    requests: int
    answered: int
    sum_ns: int
    max_ns: int
    drain_ns: int


def closed_loop(lead_ns: int, counted_ns: int, pauses: Sequence[Pause], service_ns: int) -> Loop:
    """A block before a server that handles one request after another, exactly counted; the engine takes no time."""
    end_ns = lead_ns + counted_ns
    sent_ns = deque([0] * CONNECTIONS)
    now_ns = requests = answered = sum_ns = max_ns = 0
    while sent_ns:
        now_ns += service_ns
        now_ns = next((stop for start, stop in pauses if start <= now_ns < stop), now_ns)
        took_ns = now_ns - sent_ns.popleft()
        answered += 1
        if lead_ns <= now_ns < end_ns:
            requests, sum_ns, max_ns = requests + 1, sum_ns + took_ns, max(max_ns, took_ns)
        if now_ns < end_ns:
            sent_ns.append(now_ns)
    return Loop(requests, answered, sum_ns, max_ns, now_ns - end_ns)


def a_block(duty: float, chance: random.Random) -> tuple[Counts, bool]:
    """One block next to a program that takes this share of the core, and whether it counts as calm."""
    pauses, lost_ns, end_ns = list[Pause](), 0, LEAD_NS + COUNTED_NS
    usual_ns = 25.5 * MS
    now_ns = -500 * MS
    while duty and now_ns < end_ns:
        start_ns = now_ns + int(chance.expovariate(1) * usual_ns * (1 / duty - 1))
        now_ns = start_ns + chance.randrange(1 * MS, 50 * MS)
        overlap_ns = min(now_ns, end_ns) - max(start_ns, 0)
        if overlap_ns > 0:
            pauses.append((start_ns, now_ns))
            lost_ns += 0 if chance.random() < UNSEEN else overlap_ns
    loop = closed_loop(LEAD_NS, COUNTED_NS, pauses, SERVICE_NS)
    counts = Counts(loop.requests, LEAD_NS, COUNTED_NS, end_ns + loop.drain_ns, loop.max_ns, loop.sum_ns)
    return counts, lost_ns < CALM * end_ns


def longer(block: Counts, factor: float) -> Counts:
    """The block as a client would report it whose latencies are wrong by this factor."""
    return replace(block, latency_sum_ns=int(block.latency_sum_ns * factor), max_ns=int(block.max_ns * factor))


def before(calm: Sequence[Counts]) -> bool:
    """Whether the rule of before called a contender void."""
    busy = sum(block.latency_sum_ns for block in calm) / max(sum(block.counted_ns for block in calm), 1)
    return bool(calm) and abs(busy / CONNECTIONS - 1) > LITTLE[1]


def row(duty: float, races: int) -> str:
    """One row of the table."""
    chance = random.Random(f"little/{duty}")
    factors = (1.0, 1.3, 0.8)
    void = {(factor, rule): 0 for factor in factors for rule in ("before", "now")}
    unjudged = left = 0
    for _ in range(races):
        blocks = [a_block(duty, chance) for _ in range(BLOCKS)]
        left += sum(calm for _, calm in blocks)
        for factor in factors:
            told = [longer(one, factor) for one, _ in blocks]
            calm = [one for one, (_, is_calm) in zip(told, blocks, strict=True) if is_calm]
            void[factor, "before"] += before(calm)
            level = little_level(without_pauses(calm, told), BLOCKS, CONNECTIONS)
            void[factor, "now"] += level is not None and level[0] is Status.VOID
            unjudged += factor == 1.0 and level is None
    cells = [f"{100 * duty:.0f} %", f"{left / races:.1f} of {BLOCKS}"]
    cells += [f"{100 * void[1.0, rule] / races:.1f} %" for rule in ("before", "now")]
    cells.append(f"{100 * unjudged / races:.1f} %")
    for factor in factors[1:]:
        cells += [f"{100 * void[factor, rule] / races:.1f} %" for rule in ("before", "now")]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--races", type=int, default=100, help="simulated races per row (default 100)")
    races = options.parse_args().races
    head = [
        f"{races} simulated races per row (`benchmarks/littles_law.py`).",
        "",
        "| other programs | calm blocks | honest: void before | now | now too disturbed | 30 % too long: before | now "
        "| 20 % too short: before | now |",
        "|-|-|-|-|-|-|-|-|-|",
    ]
    text = "\n".join([*head, *(row(duty, races) for duty in (0.0, 0.2, 0.4, 0.6, 0.8, 0.9))])
    pages.splice(PAGE, "littles-law", text)


if __name__ == "__main__":
    main()
