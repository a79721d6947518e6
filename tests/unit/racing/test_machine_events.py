"""What happens around the measuring: each fault is planted and found, and clean races are left in peace."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import samples

from dragstrip import analysis, machine, validity
from dragstrip._engine import BlockPlan
from dragstrip.machine import kernel_files
from dragstrip.racing import calibration, machine_events
from dragstrip.racing.machine_events import MachineMonitor
from dragstrip.racing.qualification import Qualified
from dragstrip.racing.race_loop import ColumnLoop, RaceLoop
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import Block, Event, EventKind, Load, Race
from dragstrip.validity.messages import event_text

HERE = Path(__file__).parents[2]
MS = samples.MS


def check(race: Race, name: str) -> validity.Check:
    """One check of a race, by its name."""
    (found,) = [check for check in validity.inspect(race) if check.name == name]
    return found


def events(count: int, kind: EventKind, subject: str = "", **numbers: float) -> tuple[Event, ...]:
    """A number of events of one kind."""
    return (samples.noted(kind, subject=subject, numbers=numbers),) * count


def changed(race: Race, change: Callable[[Block], Block]) -> Race:
    """The race with every block changed."""
    return replace(race, rounds=tuple(replace(r, blocks=tuple(map(change, r.blocks))) for r in race.rounds))


# --- on records ---------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_every_check_is_silent_on_fifty_clean_races() -> None:
    """Two to four contenders, ten to thirty rounds, noise of half to two per cent: not one warning."""
    rng = np.random.default_rng(50)
    for seed in range(50):
        speeds = {name: float(rate) for name, rate in zip("abcd", rng.uniform(2e4, 6e4, int(rng.integers(2, 5))))}  # noqa: B905
        noise = float(rng.uniform(0.005, 0.02))
        race = samples.race(speeds, rounds=int(rng.integers(10, 31)), seed=seed, noise=noise)
        assert [check for check in validity.inspect(race) if check.status != "pass"] == [], seed


@pytest.mark.parametrize(
    ("name", "fact", "few", "many"),
    [
        ("other programs", partial(events, kind=EventKind.INTRUDER, subject="cc1", pid=77, share=0.4), 1, 2),
        ("clock", partial(events, kind=EventKind.FREQUENCY, core=1, khz=2_000_000, first_khz=3_000_000), 1, 2),
        ("clock", partial(events, kind=EventKind.HEAT), 0, 1),
        (
            "memory",
            partial(events, kind=EventKind.GROWING, subject="quick", bytes_per_s=9 * 2**20, share_per_s=0.12),
            6,
            7,
        ),
        (
            "block length",
            partial(events, kind=EventKind.UNEQUAL_BLOCKS, subject="quick", counted_ns=1e8, apart=0.09, loaded_ns=1e8),
            0,
            1,
        ),
    ],
)
def test_what_was_seen_often_enough_warns_and_says_what_to_do(
    name: str, fact: Callable[[int], tuple[Event, ...]], few: int, many: int
) -> None:
    """In a race of twelve rounds; less often it is let pass."""
    assert check(samples.race(events=fact(few)), name).status == "pass"
    found = check(samples.race(events=fact(many)), name)
    assert found.status == "warn"
    assert ": " in found.detail


def test_one_contenders_growth_is_not_laid_at_the_door_of_another_whose_name_begins_alike() -> None:
    """`--serve "a: b=…"` is a name: in seven of twelve rounds its memory grew, and never that of a."""
    grew = events(7, EventKind.GROWING, "a: b", bytes_per_s=9 * 2**20, share_per_s=0.12)
    rates = {"a": 4e4, "a: b": 3e4}
    found = check(samples.race(rates, events=grew), "memory")
    assert found.detail.startswith("a: b: its memory grew by 9 MiB (12%)")
    assert check(samples.race(rates, events=grew[:6]), "memory").status == "pass"


def test_a_machine_that_grows_slower_is_seen_by_the_engines_own_pace() -> None:
    """The engine's CPU time per request rises by 12 % over the race: warned; by 2 %: not."""

    def slower(by: float) -> Race:
        race = samples.race(rounds=24)
        return changed(race, lambda b: replace(b, engine_cpu_ns=round(12e3 * b.requests * (1 + by * b.round / 23))))

    assert check(slower(0.02), "clock").status == "pass"
    found = check(slower(0.15), "clock")
    assert found.status == "warn"
    assert "slower during the race" in found.detail


def test_a_machine_whose_pace_scatters_from_round_to_round_has_not_grown_slower() -> None:
    """Twelve rounds whose speed scatters by 5 %: thirds of four often differ by more, which is not drift."""
    warned = 0
    for seed in range(60):
        pace = np.exp(np.random.default_rng(seed).normal(0, 0.05, 12))
        race = changed(
            samples.race(rounds=12), lambda b, p=pace: replace(b, engine_cpu_ns=round(12e3 * b.requests * p[b.round]))
        )
        warned += check(race, "clock").status == "warn"
    assert warned <= 3


def test_connections_that_are_not_kept_open_as_asked_are_named() -> None:
    """A server that closes after every response warns; a load that should open one each, and did not, voids."""
    closing = changed(samples.race(), lambda b: replace(b, connects=b.answered) if b.contender == "quick" else b)
    assert check(closing, "connections").status == "warn"
    assert check(closing, "connections").detail.startswith(
        "quick closed its connections after 1.0 responses on average"
    )
    one_each = Load(connections=32, threads=1, keepalive=False, timeout_ns=10**9)
    assert check(samples.race(load=one_each), "connections").status == "void"
    assert check(samples.changed(closing, load=one_each), "connections").status == "void"  # steady's were reused


@pytest.mark.parametrize(("length", "status"), [(150, "pass"), (149, "pass"), (144, "warn"), (120, "void")])
def test_answers_that_grow_shorter_in_one_block_are_found(length: int, status: str) -> None:
    """150 bytes in all blocks, fewer in one."""
    race = samples.race()
    first = race.rounds[3].blocks[0]
    short = replace(first, bytes_in=length * first.answered)
    rounds = [replace(r, blocks=(short, *r.blocks[1:])) if r.index == 3 else r for r in race.rounds]
    assert check(replace(race, rounds=tuple(rounds)), "answers' length").status == status


def test_answers_of_several_lengths_may_vary_by_chance() -> None:
    """Files of 1 to 64 KiB, some hundred in a block: its mean varies by some percent. A tenth of it is found."""
    rng = random.Random(2)
    mixed = changed(samples.race(), lambda b: replace(b, bytes_in=round(b.answered * rng.gauss(18_000, 1_000))))
    assert check(mixed, "answers' length").status == "pass"
    first = mixed.rounds[3].blocks[0]
    short = replace(first, bytes_in=1_800 * first.answered)
    rounds = [replace(r, blocks=(short, *r.blocks[1:])) if r.index == 3 else r for r in mixed.rounds]
    assert check(replace(mixed, rounds=tuple(rounds)), "answers' length").status == "void"


@pytest.mark.parametrize("seed", range(20))
def test_few_answers_of_several_lengths_may_be_shorter_by_a_fifth(seed: int) -> None:
    """A mean of a hundred files of 1 to 64 KiB is off by a tenth, and few blocks have that many responses."""
    rng = random.Random(seed)
    files_kib = (1, 2, 4, 8, 16, 32, 48, 64, 0)

    def few(block: Block) -> Block:
        count = rng.randrange(30, 120)
        files = sum(1024 * rng.choice(files_kib) + 200 for _ in range(count))
        return replace(block, answered=count, sent=count, requests=count, bytes_in=files)

    assert check(changed(samples.race(), few), "answers' length").status == "pass"


def loop_of(race: Race, *, needed: Sequence[str] = (), spent_s: float = 0.0) -> ColumnLoop:
    """The loop of a race's only column, with no servers behind it."""
    loop, whole = ColumnLoop.__new__(ColumnLoop), RaceLoop.__new__(RaceLoop)
    whole.race, whole.columns = race, [loop]
    loop.whole, loop.finished, loop.needed, loop.open = whole, None, frozenset(needed), frozenset(needed)
    loop.column, loop.spent_s, loop.void_in_a_row, loop.judged = 0, spent_s, 0, analysis.judge_column(race)
    for this in race.rounds:
        loop.void_in_a_row = loop.void_in_a_row + 1 if this.void else 0
    loop.contenders = dict.fromkeys(("quick", "steady"))  # type: ignore[assignment]  # only how many they are counts
    return loop


def over(race: Race, *, needed: Sequence[str] = (), spent_s: float = 0.0) -> str | None:
    """How a race ends after these rounds; None if it goes on."""
    return loop_of(race, needed=needed, spent_s=spent_s).finish_reason()


def test_launches_of_two_kinds_are_raced_for_twenty_rounds_whatever_is_decided() -> None:
    """Every third launch of one a fifth slower: at twelve rounds the race goes on, at twenty it may end."""

    def kinds(b: Block) -> Block:
        slow = b.contender == "quick" and b.round % 3 == 0
        return replace(b, requests=b.requests * 4 // 5) if slow else b

    few, many = (changed(samples.race(rounds=n, noise=0.004), kinds) for n in (12, 20))
    plan = replace(few.plan, planned_rounds=50)
    assert validity.of_two_kinds(few)
    assert over(samples.changed(few, plan=plan)) is None
    assert over(samples.changed(many, plan=plan)) == "decided"
    assert over(samples.changed(samples.race(noise=0.004), plan=plan)) == "decided"
    assert "--rounds 20" in check(few, "launches").detail
    assert "--rounds 20" not in check(many, "launches").detail


def test_a_race_ends_by_what_is_decided_by_its_budget_or_by_rounds_that_can_not_be_true() -> None:
    """Rounds of a second each, of which the first are void; in turn: the budget, who is needed."""

    def ends(rounds: int, void: int, budget_s: float, *needed: str, fixed: bool = False) -> str | None:
        race = samples.race(rounds=rounds, noise=0.004)
        plan = replace(race.plan, planned_rounds=max(int(budget_s), 10), budget_s=budget_s, rounds_fixed=fixed)
        why = samples.voided("too few blocks")
        after = tuple(replace(r, void=why if r.index < void else ()) for r in race.rounds)
        return over(samples.changed(race, plan=plan, rounds=after), needed=needed, spent_s=float(rounds))

    assert ends(5, 5, 20, "quick") == "void"  # a sixth would be no truer
    assert ends(5, 5, 20, "quick", fixed=True) == "void"
    assert ends(5, 4, 20, "quick") is None
    assert ends(12, 0, 20) == "decided"
    assert ends(15, 5, 15, "quick") == "budget"
    assert ends(15, 5, 16, "quick") is None
    assert ends(25, 0, 24.5, "quick") == "budget"
    assert ends(24, 0, 24.5, "quick") is None  # half a round over is within a twentieth of the budget
    assert ends(9, 0, 9, "quick") == "budget"  # also before the tenth round


def test_a_race_too_slow_for_ten_rounds_takes_fewer_blocks_in_each() -> None:
    """Planned for a second a round, and one takes two: half of the blocks, three at the least."""
    race = samples.race(rounds=2, passes=20)
    plan = replace(race.plan, planned_rounds=20, budget_s=20.0, blocks={"quick": (1, 2, 20), "steady": (5, 9, 6)})
    race = samples.changed(race, plan=plan)
    assert loop_of(race, spent_s=4.0).plan().passes == 20
    with_fewer_blocks = loop_of(race, spent_s=6.4).plan()
    assert (with_fewer_blocks.passes, {name: own[2] for name, own in with_fewer_blocks.blocks.items()}) == (
        10,
        {"quick": 10, "steady": 3},
    )
    assert {passes for _, _, passes in loop_of(race, spent_s=100.0).plan().blocks.values()} == {3}
    assert loop_of(samples.changed(race, plan=replace(plan, rounds_fixed=True)), spent_s=100.0).plan().passes == 20


def test_a_closed_loops_blocks_begin_anywhere_in_a_latency_and_an_open_loops_where_they_did() -> None:
    """The lead-ins of one contender's blocks in a round are spread over a latency, from the planned one on."""
    race = samples.race(rounds=0, passes=4)
    plan = replace(race.plan, blocks={"quick": (10, 40, 4), "steady": (5_000, 20_000, 4)})
    loop = loop_of(samples.changed(race, plan=plan))
    latencies = {"quick": 2, "steady": 1_000}
    loop.contenders = cast(
        "dict[str, Qualified]",
        {name: SimpleNamespace(calibration=SimpleNamespace(p50_ns=p50_ns)) for name, p50_ns in latencies.items()},
    )

    def leads(rate_per_s: float) -> list[int]:
        loop.setup = cast("RaceSetup", SimpleNamespace(load=SimpleNamespace(rate_per_s=rate_per_s)))
        return sorted(block.lead_ns for block in loop.next_round().blocks if block.contender == "steady")

    closed = leads(0.0)
    assert [later - earlier for earlier, later in pairwise(closed)] == pytest.approx([250] * 3, abs=1)
    assert 5_000 <= closed[0] < 5_250
    assert leads(100.0) == [5_000] * 4


# --- on the real thing --------------------------------------------------------------------------------------------


@pytest.fixture
def stranger() -> Iterator[int]:
    """A process outside our process tree that always uses the last core; its pid.

    Root gives it priority: on a busy machine it would otherwise get too small a share to be named.
    """
    core = max(os.sched_getaffinity(0))
    first = "os.setpriority(os.PRIO_PROCESS, 0, -20)" if os.geteuid() == 0 else "pass"
    work = f"import os; os.sched_setaffinity(0, {{{core}}}); {first}\nwhile True: pass"
    shell = ["/bin/sh", "-c", f'{sys.executable} -c "$0" >/dev/null 2>&1 & echo $!', work]
    pid = int(subprocess.run(shell, capture_output=True, text=True, check=True).stdout)
    yield pid
    os.kill(pid, signal.SIGKILL)


def test_another_program_on_the_races_cores_is_named(stranger: int) -> None:
    """By its name and process; our own processes never are."""
    watch = MachineMonitor(machine.lanes(None, None).all)
    until, named = time.monotonic() + 120, False
    while not named:
        assert time.monotonic() < until, "it was never seen"
        watch.before()
        time.sleep(0.3)
        pids = {event.numbers["pid"] for event in watch.after() if event.kind is EventKind.INTRUDER}
        assert os.getpid() not in pids
        named = stranger in pids


def test_a_clock_that_slows_and_a_throttled_processor_are_seen(monkeypatch: Any, tmp_path: Path) -> None:
    """From the kernel's files, on machines that have them."""
    core = tmp_path / "cpu3"
    (core / "cpufreq").mkdir(parents=True)
    (core / "thermal_throttle").mkdir()
    frequency, heat = core / "cpufreq/scaling_cur_freq", core / "thermal_throttle/core_throttle_count"
    frequency.write_text("3000000\n")
    heat.write_text("5\n")
    monkeypatch.setattr(kernel_files, "CPU", tmp_path)
    watch = MachineMonitor((3,))
    watch.before()
    frequency.write_text("2900000\n")
    clock = (EventKind.HEAT, EventKind.FREQUENCY)
    assert [event for event in watch.after() if event.kind in clock] == []
    watch.before()
    frequency.write_text("2000000\n")
    heat.write_text("6\n")
    texts = [event_text(event) for event in watch.after() if event.kind in clock]
    assert texts == [
        "heat: the processor throttled itself during a round",
        "core 3: ran at 2.00 GHz; 3.00 GHz at the start",
    ]


def test_memory_grows_only_above_both_limits() -> None:
    """A tenth a second of 100 MiB is growth; 3 % of 50 MB, as a young heap does, is not; nor what can't be read."""
    (grown,) = machine_events.memory_growth_events("a", 100 * 2**20, 110 * 2**20, 1.0)
    assert event_text(grown).startswith("a: its memory grew by 10 MiB (10%)")
    assert machine_events.memory_growth_events("a", 50 * 2**20, 52 * 2**20, 1.0) == []
    assert machine_events.memory_growth_events("a", 2**34, 2**34 + 2**25, 1.0) == []
    assert machine_events.memory_growth_events("a", 0, 2**30, 1.0) == []


@dataclass
class Tally:
    """What the comparison of block lengths reads of one."""

    requests: int
    counted_ns: int
    duration_ns: int
    engine_wait_ns: int = 0
    engine_threads: int = 1


class Engine:
    """A server that is slower for ``slow_ns`` after it has been idle, as a formula; the machine slows some blocks."""

    def __init__(self, slow_ns: int, wait: float = 0.0, slowed: Sequence[int] = ()) -> None:
        self.slow_ns, self.wait, self.noise = slow_ns, wait, np.random.default_rng(1)
        self.slowed, self.blocks = slowed, 0

    def run(self, blocks: list[BlockPlan]) -> list[Tally]:
        """Half the speed while it is slow."""
        return [self._one(block.lead_ns, block.counted_ns) for block in blocks]

    def _one(self, lead: int, counted: int) -> Tally:
        lost = min(max(self.slow_ns - lead, 0), counted) / 2
        speed = 5e-4 if self.blocks in self.slowed else 1e-3
        self.blocks += 1
        requests = round(speed * (counted - lost) * math.exp(self.noise.normal(0, 0.002)))
        return Tally(requests, counted, lead + counted, round(self.wait * (lead + counted)))


@pytest.mark.parametrize(
    ("slow_ms", "factor", "told"),
    [(0, 1, "% against"), (10, 1, "% against"), (16, 2, "2 times"), (26, 4, "4 times"), (70, 4, "read -")],
)
def test_blocks_are_doubled_twice_at_most_while_short_ones_read_apart_from_lasting_load(
    slow_ms, factor, told, monkeypatch
):
    """A server that is slow for some ms after idling, with a lead-in of 10 ms; after two doublings it is flagged."""
    monkeypatch.setattr(machine_events.time, "sleep", lambda _: None)
    found = calibration.compare_short_blocks(Engine(slow_ms * MS), 0, "a", 10 * MS, 25 * MS)  # type: ignore[arg-type]
    assert found.factor == factor
    assert told in found.fact or told in event_text(found.events[0])
    assert bool(found.events) == (slow_ms == 70)


@pytest.mark.parametrize("first", range(14))
def test_a_few_blocks_that_the_machine_slowed_do_not_lengthen_all_blocks(first: int, monkeypatch) -> None:
    """Three of seventeen at half speed, wherever they fall: the median does not see them."""
    monkeypatch.setattr(machine_events.time, "sleep", lambda _: None)
    engine = Engine(0, slowed=range(first, first + 3))
    apart, error = calibration.short_against_long(engine, 0, 10 * MS, 25 * MS)  # type: ignore[arg-type, misc]
    assert abs(apart) <= 0.005
    assert error < 0.005


def test_a_disturbed_comparison_of_block_lengths_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one of blocks that are long by themselves."""
    monkeypatch.setattr(machine_events.time, "sleep", lambda _: None)
    assert calibration.short_against_long(Engine(70 * MS, wait=0.1), 0, 10 * MS, 25 * MS) is None  # type: ignore[arg-type]
    assert calibration.short_against_long(Engine(70 * MS), 0, 100 * MS, 500 * MS) is None  # type: ignore[arg-type]
