"""The order of blocks and their lengths: pure, seeded, even."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dragstrip import verdict
from dragstrip.contender import serve_entry
from dragstrip.errors import BadUsage
from dragstrip.schedule import (
    PASSES_FLOOR,
    PASSES_MOST,
    ROUNDS_LEAST,
    block_lengths,
    passes,
    planned_rounds,
    round_order,
)

NAMES = st.lists(st.text("abcdefgh-:=2", min_size=1, max_size=8), min_size=1, max_size=12, unique=True)
SEEDS = st.integers(0, 2**63 - 1)
MS = 1_000_000


@given(SEEDS, st.integers(0, 10_000), NAMES, st.integers(1, 60), st.randoms(use_true_random=False))
def test_the_order_depends_on_seed_round_and_names_and_on_nothing_else(seed, index, names, count, random) -> None:
    """Not on what was drawn before, nor on the order in which the names are given."""
    first = round_order(seed, index, names, count)
    round_order(seed + 1, index, names, count)
    again = random.sample(names, len(names))
    assert round_order(seed, index, again, count) == first


@given(SEEDS, st.integers(0, 10_000), NAMES, st.integers(1, 60))
def test_every_contender_is_launched_once_and_runs_once_in_every_pass(seed, index, names, count) -> None:
    """Launches and each pass are permutations of the names."""
    order = round_order(seed, index, names, count)
    assert len(order.passes) == count
    for drawn in (order.launches, *order.passes):
        assert sorted(drawn) == sorted(names)


@given(SEEDS, st.integers(0, 10_000), NAMES, st.integers(1, 30))
def test_more_passes_only_add_to_the_order(seed, index, names, count) -> None:
    """The first passes are the same however many follow."""
    assert round_order(seed, index, names, count + 5).passes[:count] == round_order(seed, index, names, count).passes


def test_the_order_of_seed_7_is_the_same_on_every_machine_and_for_ever() -> None:
    """Only Philox's raw words are used, which numpy keeps stable: old races can be repeated exactly."""
    order = round_order(7, 0, ["nginx", "node", "lua"], 3)
    assert order.launches == ("nginx", "lua", "node")
    assert order.passes == (("node", "lua", "nginx"), ("node", "nginx", "lua"), ("node", "nginx", "lua"))


@given(SEEDS, st.integers(0, 10_000), NAMES, st.integers(1, 60))
def test_two_contenders_may_alternate_and_only_who_begins_is_drawn(seed, index, names, count) -> None:
    """Each then always runs after the other; of more than two every pass is drawn all the same."""
    drawn, order = (round_order(seed, index, names, count, alternate=word) for word in (False, True))
    assert (order.launches, order.passes[0]) == (drawn.launches, drawn.passes[0])
    if len(names) == 2:
        assert order.passes == order.passes[:1] * count
    else:
        assert order == drawn


def test_all_orders_of_three_are_equally_likely() -> None:
    """Over 3000 rounds of 4 passes no order is preferred (chi-square at 1 in 10,000; fixed seed)."""
    seen = Counter(drawn for index in range(3000) for drawn in round_order(42, index, "abc", 4).passes)
    assert len(seen) == 6
    assert stats.chisquare(list(seen.values())).pvalue > 1e-4


def test_neighbouring_seeds_and_rounds_are_unrelated() -> None:
    """A contender leads about half of the passes of two, whether seeds or rounds count up."""
    by_seed = [round_order(seed, 0, "ab", 12).passes[0][0] for seed in range(2000)]
    by_round = [round_order(0, index, "ab", 12).passes[0][0] for index in range(2000)]
    for first in (by_seed, by_round, [x + y for x, y in zip(by_seed, by_round, strict=True)]):
        assert stats.chisquare(list(Counter(first).values())).pvalue > 1e-4


@pytest.mark.parametrize(("names", "count", "told"), [([], 1, "none"), (["a", "a"], 1, "a, a"), (["a"], 0, "0 passes")])
def test_an_order_that_makes_no_sense_is_refused(names: list[str], count: int, told: str) -> None:
    """The message says what was given."""
    with pytest.raises(BadUsage, match=told):
        round_order(1, 0, names, count)


@pytest.mark.parametrize(
    ("p50_ns", "lead_ms", "counted_ms"),
    [
        ({}, 10, 25),
        ({"fast": 300_000}, 10, 25),
        ({"fast": 300_000, "slow": 4 * MS}, 20, 80),
        ({"stalls": 40 * MS}, 200, 800),
        ({"dead slow": 3000 * MS}, 200, 1000),
    ],
)
def test_blocks_last_as_long_as_the_slowest_contender_needs(p50_ns, lead_ms: int, counted_ms: int) -> None:
    """5 and 20 of the largest typical latency, within bounds, the same for all."""
    assert block_lengths(p50_ns) == (lead_ms * MS, counted_ms * MS)


def test_blocks_are_shorter_where_all_contenders_are_known_to_be_at_full_speed_at_once() -> None:
    """The longest lead-in that one of them needs is everybody's; 20 latencies are wanted all the same."""
    unknown = serve_entry("my=/bin/true {port}")
    assert block_lengths({"fast": 200_000}, [4 * MS, 4 * MS]) == (4 * MS, 10 * MS)
    assert block_lengths({"fast": 200_000}, [4 * MS, unknown.lead_ns]) == block_lengths({"fast": 200_000})
    assert block_lengths({"fast": 200_000}, [4 * MS, 10 * MS]) == (10 * MS, 25 * MS)
    assert block_lengths({"fast": 200_000, "slow": 2 * MS}, [4 * MS, 4 * MS]) == (10 * MS, 40 * MS)


def test_passes_measure_for_a_third_of_the_time_within_8_and_60() -> None:
    """Quick launches get 8 passes, slow ones up to 60, where the budget can pay."""
    plenty = {"block_s": 0.035, "contenders": 2, "budget_s": 3600.0}
    assert passes(launch_s=0.2, **plenty) == 8
    assert passes(launch_s=2.1, **plenty) == 15
    assert passes(launch_s=30.0, **plenty) == PASSES_MOST
    assert passes(launch_s=0.2, block_s=0.014, contenders=2, budget_s=3600.0) == 20  # of shorter blocks more


def test_a_short_budget_buys_rounds_before_passes() -> None:
    """Six contenders that launch in 4 s, a minute: fewer passes, so that 12 rounds fit; never fewer than 3."""
    count = passes(launch_s=4.2, block_s=0.035, contenders=6, budget_s=120.0)
    assert count == 10  # counting half as long as launching; 4.2 + 10 × 0.21 s fit 12 times
    count = passes(launch_s=4.2, block_s=0.035, contenders=6, budget_s=66.0)
    assert PASSES_FLOOR < count < 10
    assert 12 * (4.2 + count * 6 * 0.035) <= 66.0
    assert passes(launch_s=10.0, block_s=0.035, contenders=6, budget_s=60.0) == PASSES_FLOOR


@given(st.floats(0, 100), st.floats(0.011, 1.2), st.integers(1, 40), st.floats(1, 10_000))
def test_passes_stay_within_their_bounds(launch_s: float, block_s: float, contenders: int, budget_s: float) -> None:
    """3 to 60, whatever is given."""
    count = passes(launch_s=launch_s, block_s=block_s, contenders=contenders, budget_s=budget_s)
    assert PASSES_FLOOR <= count <= PASSES_MOST


def test_the_planned_last_round_is_what_nine_tenths_of_the_budget_pay_for() -> None:
    """And never before the first round that can decide anything."""
    assert planned_rounds(60.0, 1.0) == 54
    assert planned_rounds(60.0, 0.9) == 60
    assert planned_rounds(5.0, 1.0) == ROUNDS_LEAST
    assert verdict.FLOOR == ROUNDS_LEAST
