"""Little's law next to other programs: honest contenders stay, clients that report impossible latencies don't."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
import samples
from samples import MS

from dragstrip import validity
from dragstrip.record import Block, Race
from dragstrip.validity import CheckName, Status, littles_law

CONNECTIONS = 32

#: When the core is taken: begin and end, ns after the block's begin.
Pause = tuple[int, int]


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


def simulated(block: Block, pauses: list[Pause], service_ns: int = 25_000) -> Block:
    """The block as it counts next to pauses that no counter of it shows."""
    loop = closed_loop(block.lead_ns, block.counted_ns, pauses, service_ns)
    return replace(
        block,
        requests=loop.requests,
        answered=loop.answered,
        sent=loop.answered,
        latency_sum_ns=loop.sum_ns,
        turn_sum_ns=0,
        p50_ns=min(block.p50_ns, loop.max_ns),
        p90_ns=loop.max_ns,
        p99_ns=loop.max_ns,
        p999_ns=loop.max_ns,
        max_ns=loop.max_ns,
        duration_ns=block.lead_ns + block.counted_ns + loop.drain_ns,
    )


def with_quick(race: Race, change: Callable[[Block, int], Block]) -> Race:
    """The race with the blocks of "quick" changed; the number is the block's, among its own."""
    numbers = iter(range(10_000))

    def blocks(of: tuple[Block, ...]) -> Iterator[Block]:
        return (change(block, next(numbers)) if block.contender == "quick" else block for block in of)

    return replace(race, rounds=tuple(replace(this, blocks=tuple(blocks(this.blocks))) for this in race.rounds))


def law(race: Race) -> validity.Check:
    (found,) = [one for one in validity.inspect(race) if one.name is CheckName.LITTLES_LAW]
    return found


def longer(block: Block, factor: float) -> Block:
    """The block as a client would report it whose latencies are too long by this factor."""
    return replace(block, latency_sum_ns=int(block.latency_sum_ns * factor))


def disturbed(block: Block) -> Block:
    return replace(block, engine_wait_ns=14 * MS)


def test_a_pause_in_the_lead_in_makes_a_blocks_sum_too_large_and_one_at_its_end_too_small() -> None:
    """The cause: what a block counts is inexact at both ends, by as much as a pause crosses them."""
    block = samples.block("quick")

    def share(*pauses: Pause) -> float:
        made = simulated(block, list(pauses))
        return made.latency_sum_ns / made.counted_ns / CONNECTIONS - 1

    assert share() == pytest.approx(0, abs=0.005)
    assert share((15 * MS, 20 * MS)) == pytest.approx(0, abs=0.005)  # within the counted part
    assert share((1 * MS, 11 * MS)) == pytest.approx(9 / 25, abs=0.03)
    assert share((30 * MS, 39 * MS)) == pytest.approx(-5 / 25, abs=0.03)


@pytest.mark.parametrize("calm", [1, 2, 3, 9])
def test_a_few_calm_blocks_with_unseen_pauses_void_no_honest_contender(calm: int) -> None:
    """The reported race: 43.5 of 32 connections, because all calm blocks left had paused before they counted."""

    def change(block: Block, number: int) -> Block:
        return simulated(block, [(1 * MS, 11 * MS)]) if number < calm else disturbed(block)

    found = law(with_quick(samples.race(), change))
    assert found.status == "warn"
    assert "too disturbed to judge" in found.detail
    assert "quick" in found.detail


@pytest.mark.parametrize("seed", range(20))
def test_calm_blocks_of_which_a_third_paused_void_no_honest_contender(seed: int) -> None:
    """Pauses at random, of which many cross a bound of the counted part."""
    chance = random.Random(seed)

    def change(block: Block, number: int) -> Block:
        if number >= 12:
            return disturbed(block)
        start_ns = chance.randrange(0, 35 * MS)
        pauses = [(start_ns, start_ns + chance.randrange(5 * MS, 20 * MS))] if chance.random() < 0.33 else []
        return simulated(block, pauses)

    assert law(with_quick(samples.race(), change)).status != "void"


@pytest.mark.parametrize("factor", [1.15, 0.85])
@pytest.mark.parametrize("seed", range(5))
def test_wrong_latencies_void_next_to_another_program(factor: float, seed: int) -> None:
    """Ten calm blocks among disturbed ones are enough, as long as few of them paused."""
    chance = random.Random(seed)

    def change(block: Block, number: int) -> Block:
        told = longer(simulated(block, []), factor * chance.uniform(0.97, 1.03))
        return told if number < 10 else disturbed(told)

    found = law(with_quick(samples.race(), change))
    assert found.status == "void"
    assert found.about == {"quick"}


def test_wrong_latencies_void_a_short_quiet_race() -> None:
    """All blocks are calm, so that fewer than ten are enough."""
    race = samples.race(rounds=2, passes=3)
    assert law(race).status == "pass"
    assert law(with_quick(race, lambda block, _: longer(block, 0.8))).status == "void"


def test_latencies_beyond_the_blocks_own_length_void_however_disturbed_the_machine_was() -> None:
    """No response of a block was requested before the block began."""
    race = with_quick(samples.race(), lambda block, _: disturbed(block))
    assert law(race).status == "warn"
    honest = with_quick(race, lambda block, _: simulated(block, [(1, 11 * MS)]))
    assert law(honest).status == "warn"
    found = law(with_quick(race, lambda block, number: longer(block, 1.6 if number == 5 else 1)))
    assert found.status == "void"
    assert "in 1 of 72 blocks" in found.detail


def test_time_that_the_hypervisor_took_makes_a_block_not_calm() -> None:
    """While it has a core, no run-queue wait shows that."""

    def change(block: Block, number: int) -> Block:
        return block if number % 2 else replace(longer(block, 1.35), steal_ns=10 * MS)

    assert law(with_quick(samples.race(), change)).status == "pass"


def test_a_slow_server_that_lets_some_connections_wait_contradicts_nothing() -> None:
    """Threads that share a lock: 5 of 32 connections are answered after the counted part, in every block."""
    slow = samples.block("quick", p99_ns=24 * MS, max_ns=25 * MS, latency_sum_ns=int(27 * 25 * MS), turn_sum_ns=0)
    for block, status in ((slow, Status.PASS), (replace(slow, p99_ns=1 * MS), Status.VOID)):
        level = littles_law.little_level([block] * 12, 12, CONNECTIONS)
        assert level
        assert level[0] is status
