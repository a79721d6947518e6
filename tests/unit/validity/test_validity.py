"""What voids and warns: each rule fires on its planted fault and is silent on a clean record."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import samples
from hypothesis import given
from hypothesis import strategies as st

from dragstrip import validity
from dragstrip.analysis.columns import with_column
from dragstrip.record import Block, Launch, Race, Round, Void, VoidKind
from dragstrip.validity.messages import void_text

MS, S = samples.MS, samples.S
ONE_CORE = validity.BlockRules(connections=32, server_cores=1)


def voids(
    block: Block, *, single_threaded: bool = True, typical_wait: float | None = None, **changes: Any
) -> tuple[Void, ...]:
    """Why this block is void on one server core, 32 connections, a server of one thread."""
    rules = replace(ONE_CORE, **changes)
    return validity.block_reasons(block, rules, single_threaded=single_threaded, typical_wait=typical_wait)


def reasons(block: Block, **changes: Any) -> tuple[str, ...]:
    """The same as sentences."""
    return tuple(map(void_text, voids(block, **changes)))


def with_blocks(race: Race, change: Callable[[Block], Block]) -> Race:
    """The race with every block changed."""
    return replace(race, rounds=tuple(replace(this, blocks=tuple(map(change, this.blocks))) for this in race.rounds))


def with_launches(race: Race, change: Callable[[Launch], Launch]) -> Race:
    """The race with every launch changed."""
    return replace(
        race, rounds=tuple(replace(this, launches=tuple(map(change, this.launches))) for this in race.rounds)
    )


def check(race: Race, name: str) -> validity.Check:
    """One check of a race, by its name."""
    (found,) = [one for one in validity.inspect(race) if one.name == name]
    return found


# --- blocks -------------------------------------------------------------------------------------------------------


def test_a_clean_block_has_no_reason() -> None:
    """Nor has one with a failure among 2800 requests, which is under 0.1 %."""
    assert reasons(samples.block("a")) == ()
    one = samples.block("a", requests=2000, sent=2801, answered=2800, failed=1, errors={"timeout": 1})
    assert reasons(one) == ()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sent": 1401}, "accounting: 1401 sent, but 1400 answered"),
        ({"sent": 1433, "in_flight": 33}, "accounting: 33 in flight on 32 connections"),
        ({"requests": 1000, "answered": 900, "sent": 900}, "accounting: 1000 responses counted of 900"),
        ({"failed": 1, "sent": 1401}, "accounting: 1 failed, but 0 errors by kind"),
        ({"counted_ns": 0}, "accounting: 0 ns counted"),
        ({"p99_ns": 1}, "accounting: latency quantiles"),
        ({"failed": 2, "sent": 1402, "errors": {"timeout": 2}}, "errors: 2 to 1402 requests (timeout 2)"),
        ({"errors": {"refused": 5}}, "errors: 5 to 1400 requests (refused 5)"),
        ({"failed": 1, "sent": 1401, "errors": {"wrong_body": 1}}, "wrong answers: wrong_body 1"),
        ({"failed": 1, "sent": 1401, "errors": {"wrong_length": 1}}, "wrong answers: wrong_length 1"),
        ({"failed": 1, "sent": 1401, "errors": {"wrong_status": 1}}, "wrong answers: wrong_status 1"),
        ({"gave_up": True}, "gave up: "),
        ({"clock_step_ns": 3_000_000}, "clock: it was set by 3000 µs"),
        ({"early_stamps": 2}, "clock: 2 responses carry a timestamp earlier than their request's"),
        ({"engine_cpu_ns": 24 * MS, "server_cpu_ns": 20 * MS}, "generator the limit: the engine used 96 %"),
    ],
)
def test_each_fault_voids_its_block_in_words(changes: dict[str, object], told: str) -> None:
    """Exactly one reason, and it says what was seen."""
    (why,) = reasons(samples.block("a", **changes))
    assert why.startswith(told)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"requests": 0}, "no answer: "),
        ({"engine_wait_ns": 6 * MS}, "engine waited: 17 % of the block"),
        ({"server_wait_ns": 6 * MS, "server_cpu_ns": 29 * MS}, "server waited: 17 % of the block"),
    ],
)
def test_what_others_took_voids_a_sweeps_block_and_no_races(changes: dict[str, object], told: str) -> None:
    """A race's interval carries noise; a sweep's quantiles have none for it."""
    (why,) = reasons(samples.block("a", **changes), waits=True)
    assert why.startswith(told)
    assert reasons(samples.block("a", **changes)) == ()


def test_a_block_that_gave_up_before_anything_was_counted_is_no_fault_of_the_engine() -> None:
    """It ends early, with nothing counted."""
    block = samples.block("a", gave_up=True, requests=0, counted_ns=0, answered=0, errors={"refused": 96})
    assert [why.kind for why in voids(block)] == [VoidKind.ERRORS, VoidKind.GAVE_UP]


def test_a_full_engine_beside_a_full_server_is_not_the_limit() -> None:
    """Both at 97 %: the server is measured; where the server's CPU can't be read the block can't tell."""
    assert reasons(samples.block("a", engine_cpu_ns=24_300_000, server_cpu_ns=34_500_000)) == ()
    assert reasons(samples.block("a", engine_cpu_ns=24_300_000, server_cpu_ns=None)) == ()


def test_several_engine_threads_share_their_time() -> None:
    """Waits and CPU are sums over threads: 6 ms over two threads is half as much each."""
    assert reasons(samples.block("a", engine_wait_ns=6 * MS, engine_threads=2), waits=True) == ()


def test_a_server_of_several_threads_waits_for_itself() -> None:
    """Only what exceeds its own usual share is evidence of others; an unknown usual share says nothing."""
    block = samples.block("a", server_wait_ns=14 * MS, server_cpu_ns=21 * MS)
    several = {"single_threaded": False, "server_cores": 1, "waits": True}
    assert reasons(block, **several, typical_wait=None) == ()
    assert reasons(block, **several, typical_wait=0.3) == ()
    (why,) = reasons(block, **several, typical_wait=0.1)
    assert "usual for it in this round: 10 %" in why


def test_a_collectors_helpers_beside_the_main_thread_are_no_evidence_of_others() -> None:
    """They wait for each other while the tree keeps the core full: that pause is the server's own and counts.

    Seen live: a just-in-time server's blocks with 39 % of summed wait, 99.9 % of CPU and a third fewer answers.
    """
    block = samples.block("a", server_wait_ns=14 * MS, server_cpu_ns=35 * MS)
    assert reasons(block, single_threaded=False, typical_wait=0.01, waits=True) == ()


def test_waits_say_nothing_where_engine_and_server_share_cores() -> None:
    """They wait for each other; a machine of one core can race."""
    block = samples.block("a", server_wait_ns=16 * MS, engine_wait_ns=16 * MS, server_cpu_ns=17 * MS)
    assert len(reasons(block, waits=True)) == 2
    assert reasons(block, waits=True, shared_lanes=True) == ()
    race = with_blocks(samples.race(server_cores=(0,), engine_cores=(0,)), lambda b: replace(b, engine_wait_ns=16 * MS))
    assert check(race, "engine wait").status == "pass"


def test_a_rounds_blocks_get_their_reasons_with_each_contenders_own_usual_wait() -> None:
    """Of five blocks of a many-threaded server one lost more of its core than is usual for it; order is kept."""

    def made(name: str, at: int, lost_ms: int) -> Block:
        return samples.block(name, pass_index=at, server_wait_ns=lost_ms * MS, server_cpu_ns=(35 - lost_ms) * MS)

    blocks = [made("a", i, 20 if i == 3 else 10) for i in range(5)] + [made("b", i, 8 * (i == 1)) for i in range(5)]
    judged = validity.with_reasons(blocks, replace(ONE_CORE, waits=True), {"a": False, "b": True})
    assert [(block.contender, block.pass_index) for block in judged if block.void] == [("a", 3), ("b", 1)]
    assert [replace(block, void=()) for block in judged] == blocks


def test_steal_voids_no_single_block() -> None:
    """It is read in steps of 10 ms: one step is 14 % of a block of two cores, whatever was really stolen."""
    assert reasons(samples.block("a", steal_ns=10 * MS)) == ()


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_rule_looks_at_machine_and_engine_never_at_who_would_win(requests: int, more: int) -> None:
    """Two blocks that differ in nothing but how much was answered have the same reasons."""
    one, other = (samples.block("a", requests=1 + count, latency_hdr=b"") for count in (requests, requests + more))
    assert reasons(one) == reasons(other) == ()


# --- contenders and rounds ----------------------------------------------------------------------------------------


def test_one_wrong_answer_under_load_puts_a_contender_out_with_its_excerpt() -> None:
    """What it serves is not the work that the others do."""
    blocks = [samples.block("a"), samples.block("a", errors={"wrong_body": 1}, failed=1, sent=1401, sample="hellO")]
    fault = validity.wrong_under_load(blocks)
    assert fault is not None
    assert (fault.kind, fault.errors, fault.sent, fault.sample) == ("wrong answers", {"wrong_body": 1}, 2801, "hellO")
    assert validity.wrong_under_load([samples.block("a")] * 3) is None


def test_failures_put_a_contender_out_only_if_they_keep_coming() -> None:
    """In one block of four that block is void and it goes on; in three of four it is out."""
    bad = samples.block("a", errors={"timeout": 10}, failed=10, sent=1410)
    assert validity.wrong_under_load([bad, *[samples.block("a")] * 3]) is None
    fault = validity.wrong_under_load([samples.block("a"), *[bad] * 3])
    assert fault is not None
    assert (fault.kind, fault.failed, fault.errors) == ("failed", 30, {"timeout": 30})


def test_one_that_never_answers_in_time_is_out() -> None:
    """No right answer in any counted part."""
    fault = validity.wrong_under_load([samples.block("a", requests=0)] * 2)
    assert fault is not None
    assert fault.kind == "no answer"


def a_round(count: int = 6, **changes: object) -> Round:
    """Two contenders, ``count`` clean passes, one second; ``changes`` to the blocks of a."""
    blocks = [
        samples.block(name, pass_index=at, **(changes if name == "a" else {}))
        for at in range(count)
        for name in ("a", "b")
    ]
    launches = (samples.launch("a"), samples.launch("b"))
    return Round(index=0, started_ns=S, ended_ns=2 * S, launches=launches, blocks=tuple(blocks))


def test_a_clean_round_counts() -> None:
    """And one without any block is not judged by its blocks."""
    assert validity.round_reasons(a_round()) == ()
    assert validity.round_reasons(replace(a_round(), blocks=())) == ()


def test_steal_and_waits_void_no_round() -> None:
    """A fifth of the time stolen, the engine off its core for half of it: measured, told, and used."""
    taken = [replace(block, engine_wait_ns=18 * MS, steal_ns=7 * MS) for block in a_round().blocks]
    assert validity.round_reasons(replace(a_round(), blocks=tuple(taken))) == ()


def test_a_round_in_which_only_one_contender_has_blocks_that_count_is_run_again() -> None:
    """With the commonest cause named; two that stand are enough, whoever else has none."""
    blocks = [replace(b, void=samples.voided("errors")) if b.pass_index else b for b in a_round().blocks]
    (why,) = validity.round_reasons(replace(a_round(), blocks=tuple(blocks)))
    assert void_text(why) == "too few blocks: 2 of 12 are valid (errors)"
    assert (why.kind, why.cause) == (VoidKind.TOO_FEW_BLOCKS, VoidKind.ERRORS)
    one = [replace(b, void=samples.voided("errors")) if b.contender == "a" else b for b in a_round().blocks]
    assert len(validity.round_reasons(replace(a_round(), blocks=tuple(one)))) == 1
    third = [samples.block("c", pass_index=at) for at in range(6)]
    assert validity.round_reasons(replace(a_round(), blocks=(*one, *third))) == ()


@pytest.mark.parametrize("fault", ["died", "wrong", "gave up"])
def test_a_contender_that_falls_out_does_not_make_the_others_round_void(fault: str) -> None:
    """Its blocks are void, but it leaves the race with them."""
    changes = {"wrong": {"errors": {"wrong_body": 9}}, "gave up": {"gave_up": True}, "died": {}}[fault]
    made = a_round(void=samples.voided("database"), **changes)
    if fault == "died":
        made = replace(made, launches=(samples.launch("a", died=True), made.launches[1]))
    assert validity.round_reasons(made) == ()


# --- whole races --------------------------------------------------------------------------------------------------


def test_a_clean_race_passes_every_check() -> None:
    """No warning, and every check says what it saw."""
    checks = validity.inspect(samples.race())
    assert [one for one in checks if one.status != "pass"] == []
    assert all(one.detail for one in checks)
    assert len({one.label for one in checks}) == len(checks) == 22
    assert not validity.is_void(checks)


@pytest.mark.parametrize(
    ("name", "status", "change"),
    [
        ("generator", "warn", {"engine_cpu_ns": 22 * MS, "server_cpu_ns": 33 * MS}),
        ("generator", "warn", {"engine_cpu_ns": 24 * MS, "server_cpu_ns": 25 * MS}),
        ("generator", "warn", {"engine_cpu_ns": 24 * MS, "server_cpu_ns": None}),
        ("engine wait", "warn", {"engine_wait_ns": 3 * MS}),
        ("steal", "warn", {"steal_ns": 1_500_000}),
        ("accounting", "void", {"in_flight": 1}),
        ("accounting", "void", {"p99_ns": 1}),
        ("errors", "warn", {"failed": 1, "errors": {"timeout": 1}}),
        ("errors", "warn", {"failed": 20, "errors": {"reset": 20}}),
        ("errors", "void", {"failed": 1, "errors": {"wrong_length": 1}}),
        ("saturation", "warn", {"server_cpu_ns": 25 * MS}),
        ("void passes", "warn", {"void": samples.voided("errors")}),
    ],
)
def test_each_planted_fault_is_found_and_said_what_to_do(name: str, status: str, change: dict[str, object]) -> None:
    """On blocks of one contender of two; the accounting identity is kept where it is not the fault."""

    def planted(block: Block) -> Block:
        if block.contender != "steady" and name not in ("engine wait", "steal"):
            return block
        made = replace(block, **change)  # type: ignore[arg-type]
        return replace(made, sent=made.answered + made.failed)

    found = check(with_blocks(samples.race(), planted), name)
    assert found.status == status, found
    assert validity.is_void([found]) == (status == "void")


@pytest.mark.parametrize(("off", "status"), [(1.01, "pass"), (1.05, "warn"), (0.8, "void"), (1.3, "void")])
def test_littles_law_holds_rate_against_latency(off: float, status: str) -> None:
    """connections = rate × (mean latency + turnaround); latencies measured 5 % too long warn, 20 % too short void."""
    race = with_blocks(samples.race(), lambda b: replace(b, latency_sum_ns=int(b.latency_sum_ns * off)))
    assert check(race, "Little's law").status == status
    fresh = samples.changed(race, load=replace(race.load, keepalive=False))
    assert check(fresh, "Little's law").status == status  # a connection's opening is part of its latency


def test_a_generator_at_its_limit_does_not_void_what_cpu_time_decides() -> None:
    """CPU time per request is not changed by a client that can't send more; every other reason stays."""
    busy = samples.block("quick", engine_cpu_ns=24 * MS, server_cpu_ns=20 * MS)
    assert reasons(busy)
    assert reasons(busy, by_cpu=True) == ()
    assert reasons(replace(busy, gave_up=True), by_cpu=True)[0].startswith("gave up")
    race = with_blocks(samples.race(), lambda block: replace(block, engine_cpu_ns=24 * MS, server_cpu_ns=20 * MS))
    by_cpu = samples.changed(race, plan=replace(race.plan, metric="cpu"))
    assert [check(one, "generator").status for one in (race, by_cpu)] == ["warn", "warn"]
    assert check(race, "generator").detail != check(by_cpu, "generator").detail
    assert validity.held_by_generator(by_cpu) == ("quick", "steady")


@pytest.mark.parametrize(("turned", "cpu_ms", "status"), [(0.04, 20, "pass"), (0.3, 20, "warn"), (0.3, 35, "pass")])
def test_waiting_in_the_generator_is_told_and_warned_of_where_the_server_was_not_busy(
    turned: float, cpu_ms: int, status: str
) -> None:
    """From an answer to the next request is the engine's time: Little's law counts it in, a check tells it."""

    def waiting(block: Block) -> Block:
        turn_ns = int(block.latency_sum_ns * turned)
        own = replace(block, latency_sum_ns=block.latency_sum_ns - turn_ns, turn_sum_ns=turn_ns)
        return replace(own, server_cpu_ns=cpu_ms * MS)

    race = with_blocks(samples.race(), waiting)
    assert check(race, "Little's law").status == "pass"
    told = check(race, "turnaround")
    assert told.status == status
    assert "waiting in the generator" in told.detail


def test_littles_law_excuses_connections_that_the_server_closes() -> None:
    """Time may pass between a connection that the server ended and the next."""
    race = with_blocks(
        samples.race(), lambda b: replace(b, latency_sum_ns=int(b.latency_sum_ns * 0.8), connects=b.answered // 100)
    )
    assert check(race, "Little's law").status == "warn"


@pytest.mark.parametrize(("threads", "lost_ms", "status"), [(1, 1, "pass"), (1, 3, "warn"), (8, 6, "warn")])
def test_a_server_that_loses_its_core_to_others_is_named(threads: int, lost_ms: int, status: str) -> None:
    """A warning names it; the intervals carry what was lost."""
    race = with_launches(samples.race(), lambda launch: samples.counted(launch, threads=threads, processes=1))
    lost = with_blocks(race, lambda b: replace(b, server_wait_ns=lost_ms * MS, server_cpu_ns=(35 - lost_ms) * MS))
    assert check(lost, "server wait").status == status
    full = with_blocks(race, lambda b: replace(b, server_wait_ns=20 * MS, server_cpu_ns=35 * MS))
    assert check(full, "server wait").status == "pass"


def test_a_single_threaded_server_on_two_cores_is_saturated_by_one() -> None:
    """It can't use the other: 34 of 35.4 ms on one core is full; a server of eight threads is not."""
    for threads, status in ((1, "pass"), (8, "warn")):
        race = with_launches(samples.race(server_cores=(1, 2)), lambda one, n=threads: samples.counted(one, threads=n))
        assert check(race, "saturation").status == status


@pytest.mark.parametrize(
    ("wait_ms", "why"), [(0, "waiting, not saturated"), (10, "other programs took the CPU time it lacked")]
)
def test_a_server_whose_core_others_had_is_not_told_to_take_more_connections(wait_ms: int, why: str) -> None:
    """It was idle for want of its core: more requests at a time would change nothing."""
    idle = with_blocks(samples.race(), lambda b: replace(b, server_cpu_ns=25 * MS, server_wait_ns=wait_ms * MS))
    idle = with_launches(idle, lambda launch: samples.counted(launch, threads=1, processes=1))
    told = check(idle, "saturation").detail
    assert f"{why}, so its throughput is not its capacity" in told
    assert ("(-c)" in told) == (wait_ms == 0)


def test_launches_that_only_sigkill_ended_are_named() -> None:
    """Each costs the time for which its end was awaited; one that died by itself has its own words."""
    race = with_launches(samples.race(), lambda launch: replace(launch, exit_status=-9, died=launch.round == 1))
    told = check(race, "launches").detail
    assert "was ended by SIGKILL in" in told
    assert "costs 15 s each time" in told
    assert "SIGKILL" not in check(samples.race(), "launches").detail


def test_responses_that_wait_for_a_delayed_acknowledgement_are_not_told_to_take_more_connections() -> None:
    """An idle server whose typical latency is Linux's delay: another number of connections would change nothing."""
    idle = with_blocks(samples.race(), lambda b: replace(b, server_cpu_ns=5 * MS, p50_ns=41 * MS))
    idle = with_launches(idle, lambda launch: samples.counted(launch, threads=1, processes=1))
    told = check(idle, "saturation").detail
    assert "delayed acknowledgement" in told
    assert "TCP_NODELAY" in told
    assert "(-c)" not in told


def test_shared_cores_and_a_running_server_are_said() -> None:
    """Neither voids, both warn."""
    race = samples.race(server_cores=(0,), engine_cores=(0,))
    assert check(race, "lanes").status == "warn"
    running = samples.changed(race, entrants=(replace(race.entrants[0], kind="url"), race.entrants[1]))
    assert "already running" in check(running, "launches").detail


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"settled": False}, "warm-up had not ended in 12 of 12 launches"),
        ({"died": True}, "exited unexpectedly in round 0, 1"),
    ],
)
def test_launches_that_went_wrong_are_named(change: dict[str, object], told: str) -> None:
    """With how many of them."""
    found = check(with_launches(samples.race(), lambda one: replace(one, **change)), "launches")  # type: ignore[arg-type]
    assert found.status == "warn"
    assert told in found.detail


def test_a_server_that_comes_up_in_different_shapes_is_named() -> None:
    """Five threads in one round, two in the others."""
    race = with_launches(samples.race(), lambda one: samples.counted(one, threads=5) if one.round == 3 else one)
    assert "2 and 2, 2 and 5" in check(race, "launches").detail


def test_a_helper_thread_more_in_one_launch_is_no_other_shape() -> None:
    """Runtimes start them as they need them: three threads where the others have two is not worth a warning."""
    race = with_launches(samples.race(), lambda one: samples.counted(one, threads=3) if one.round == 3 else one)
    assert check(race, "launches").status == "pass"


def slower(race: Race, by: Callable[[int], float]) -> Race:
    """The race with the throughput of "steady" changed by a factor per round."""
    return with_blocks(
        race,
        lambda b: replace(b, requests=max(int(b.requests * by(b.round)), 1)) if b.contender == "steady" else b,
    )


def test_rare_slow_launches_are_listed_not_averaged_over() -> None:
    """Two of 40 a third slower: named with their rounds."""
    found = check(slower(samples.race(rounds=40), lambda r: 0.67 if r in (7, 30) else 1.0), "launches")
    assert found.status == "warn"
    assert "2 of steady's 40 launches were far slower" in found.detail
    assert "round 7 at 67 %" in found.detail


def test_a_slow_stretch_of_the_machine_is_not_laid_at_a_launchs_door() -> None:
    """One round in which all contenders were 20 % slower: no launch was slow."""
    race = with_blocks(
        samples.race(rounds=20), lambda b: replace(b, requests=b.requests * 4 // 5) if b.round == 9 else b
    )
    assert check(race, "launches").status == "pass"


def test_another_contenders_slow_launch_is_not_laid_at_its_door() -> None:
    """Only the slow one is named."""
    found = check(slower(samples.race(rounds=20), lambda r: 0.67 if r == 7 else 1.0), "launches")
    assert "quick" not in found.detail


def test_launches_of_two_kinds_are_named() -> None:
    """Every third launch 10 % slower."""
    found = check(slower(samples.race(rounds=30), lambda r: 0.9 if r % 3 == 0 else 1.0), "launches")
    assert "two groups: 33 % of them" in found.detail


@pytest.mark.thorough
def test_launches_of_one_kind_are_not_taken_for_two() -> None:
    """Normal, uniform and heavy-tailed launches, 10 to 40 of them: at most one false warning in fifty races."""
    rng = np.random.default_rng(3)
    false = 0
    for number in range(100):
        noise = [rng.normal(0, 0.01, 40), rng.uniform(-0.02, 0.02, 40), 0.005 * rng.standard_t(5, 40)][number % 3]
        rounds = int(rng.integers(10, 41))
        race = slower(samples.race(rounds=rounds, passes=3, seed=number), lambda r, n=noise: math.exp(n[r]))
        false += "two kinds" in check(race, "launches").detail
    assert false <= 2


@pytest.mark.parametrize(("rise", "status"), [(0.0, "pass"), (0.03, "warn"), (-0.08, "warn")])
def test_a_trend_within_rounds_is_found(rise: float, status: str) -> None:
    """A server still warming up, or tiring, from the first pass to the last."""
    race = with_blocks(
        samples.race(passes=6),
        lambda b: (
            replace(b, requests=int(b.requests * math.exp(rise * b.pass_index / 5))) if b.contender == "steady" else b
        ),
    )
    found = check(race, "trend")
    assert found.status == status
    assert status == "pass" or "steady's throughput " + ("rose" if rise > 0 else "fell") in found.detail


@pytest.mark.parametrize(
    ("kind", "rise", "helps"),
    [
        ("catalogue", 0.05, "in its definition"),
        ("serve", 0.05, "dragstrip init"),
        ("url", 0.05, "dragstrip load"),
        ("url", -0.05, "memory, caches and logs"),
    ],
)
def test_a_trend_has_a_remedy_that_fits_the_contender(kind: str, rise: float, helps: str) -> None:
    """A command and an address have no definition, and a longer warm-up makes none faster that gets slower."""
    race = with_blocks(
        samples.race(passes=6),
        lambda b: replace(b, requests=int(b.requests * math.exp(rise * b.pass_index / 5))),
    )
    race = with_column(race, 0, [replace(entrant, kind=kind) for entrant in race.entrants])
    (remedy,) = {finding.remedy for finding in check(race, "trend").findings}
    assert helps in remedy


@pytest.mark.parametrize(("every", "status"), [(20, "pass"), (6, "warn"), (2, "warn")])
def test_more_than_a_tenth_of_the_passes_void_warns(every: int, status: str) -> None:
    """With the commonest cause and its remedy."""
    race = with_blocks(
        samples.race(rounds=20, passes=6),
        lambda b: (
            replace(b, void=samples.voided("clock"))
            if (b.round * 6 + b.pass_index) % every == 0 and b.contender == "quick"
            else b
        ),
    )
    found = check(race, "void passes")
    assert found.status == status
    assert "clock" in found.detail
    assert status == "pass" or "let the clock be slewed" in found.detail


def test_a_race_whose_rounds_are_all_void_says_why() -> None:
    """The cause is found from the void rounds themselves."""
    race = samples.race(rounds=5)
    gone = replace(race, rounds=tuple(replace(this, void=samples.voided("clock")) for this in race.rounds))
    assert "clock" in check(gone, "void passes").detail
    assert check(gone, "rounds").status == "warn"


def test_the_cause_told_is_what_voided_most_passes() -> None:
    """Eight rounds of twelve by a clock, which has one reason a round; half of their passes also by errors."""
    race = samples.race(rounds=12, passes=8)
    waited = with_blocks(race, lambda b: replace(b, void=samples.voided("errors")) if b.pass_index % 2 else b)
    stolen = samples.voided("clock")
    race = replace(race, rounds=tuple(replace(r, void=stolen) if r.index < 8 else r for r in waited.rounds))
    assert "80 of 96 passes void, mostly because: clock; let the clock be slewed" in check(race, "void passes").detail
    assert validity.causes(race) == {"clock": 64, "errors": 48}


@pytest.mark.parametrize(
    ("told", "status", "words"),
    [
        (None, "pass", "no server here reports"),
        (0, "pass", "steady received as many requests as were sent, within 0 %"),
        (-2, "pass", "steady received as many"),
        (-0.005, "warn", "fewer than the engine got responses to"),
        (0.005, "warn", "more than the engine sent"),
        (-0.1, "void", "what [served] in its definition reads"),
        (0.1, "void", "no other program serves or calls its port"),
    ],
)
def test_a_servers_own_count_is_held_against_the_engines(told: float | None, status: str, words: str) -> None:
    """Nothing said, exact, two of a launch counted late, half a per cent off, a tenth off; the other says nothing."""
    race = samples.race()
    sent = {this.index: sum(b.sent for b in this.blocks if b.contender == "steady") for this in race.rounds}

    def telling(launch: Launch) -> Launch:
        if told is None or launch.contender != "steady":
            return launch
        off = told if abs(told) >= 1 else told * sent[launch.round]
        return samples.counted(launch, served=sent[launch.round] + round(off))

    found = check(with_launches(race, telling), "server's count")
    assert found.status == status
    assert words in found.detail
    assert "quick" not in found.detail


def test_what_failed_may_be_in_a_servers_own_count_or_not() -> None:
    """Every number between responses and sent requests passes, because the true one is unknown."""

    def failing(block: Block) -> Block:
        return replace(block, failed=50, errors={"timeout": 50}, sent=block.answered + 50)

    race = with_blocks(samples.race(), failing)
    for of in ("answered", "sent"):
        total = {
            (name, this.index): sum(getattr(b, of) for b in this.blocks if b.contender == name)
            for this in race.rounds
            for name in ("quick", "steady")
        }
        told = with_launches(
            race, lambda one, total=total: samples.counted(one, served=total[one.contender, one.round])
        )
        assert check(told, "server's count").status == "pass"


def test_a_contender_that_is_out_is_not_looked_at() -> None:
    """It has no number that could be void."""
    race = with_blocks(
        samples.race(),
        lambda b: replace(b, errors={"wrong_body": 5}, void=samples.voided("wrong answers", wrong_body=5))
        if b.contender == "steady" else b,
    )  # fmt: skip
    assert validity.is_void(validity.inspect(race))
    out = samples.changed(
        race, entrants=(race.entrants[0], replace(race.entrants[1], out="gave wrong answers", out_round=0))
    )
    assert not validity.is_void(validity.inspect(out))


def test_a_race_without_rounds_is_inspected_without_complaint() -> None:
    """Nothing to void; it says that there are too few rounds."""
    checks = validity.inspect(samples.race(rounds=0))
    assert not validity.is_void(checks)
    assert [one.name for one in checks if one.status == "warn"] == ["rounds"]


def test_a_round_whose_rate_and_latencies_contradict_each_other_is_void_by_itself() -> None:
    """Of the contender that it is about, if the law holds for the load at all."""
    blocks = [
        samples.block(name, pass_index=at, latency_sum_ns=latency_ms * MS)
        for at in range(8)
        for name, latency_ms in (("right", 800), ("wrong", 40))
    ]
    made = validity.with_reasons(blocks, replace(ONE_CORE, law=True), {})
    assert {block.contender for block in made if block.void} == {"wrong"}
    (why,) = made[-1].void
    assert "1.6 of 32 connections were at work on average" in void_text(why)
    assert not any(block.void for block in validity.with_reasons(blocks, ONE_CORE, {}))
