"""The order of blocks and their lengths: pure, seeded, even."""

from __future__ import annotations

from collections import Counter
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dragstrip import analysis
from dragstrip.contender import serve_entry
from dragstrip.errors import BadUsage
from dragstrip.racing.schedule import (
    MAX_PASSES,
    MIN_ROUNDS,
    PASSES_FLOOR,
    block_lengths,
    block_of,
    lead_in_delay_ns,
    lead_in_phases,
    learning_share,
    loaded_s,
    order_of,
    own_lengths,
    own_passes,
    passes,
    planned_rounds,
    round_order,
    usual_budget_s,
)
from dragstrip.record import Plan

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
    """Only Philox's raw words are used, which numpy keeps stable: races can be repeated exactly."""
    order = round_order(7, 0, ["nginx", "node", "lua"], 3)
    assert order.launches == ("nginx", "lua", "node")
    assert order.passes == (("node", "lua", "nginx"), ("node", "nginx", "lua"), ("node", "nginx", "lua"))


@given(SEEDS, st.integers(0, 10_000), NAMES, st.integers(1, 60))
def test_two_contenders_alternate_and_only_who_begins_is_drawn(seed, index, names, count) -> None:
    """Each then always runs after the other; of more than two every pass is drawn by itself."""
    order, longer = (round_order(seed, index, names, passes) for passes in (count, count + 1))
    assert (order.launches, order.passes) == (longer.launches, longer.passes[:count])
    if len(names) == 2:
        assert order.passes == order.passes[:1] * count


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
    """Quick launches get 8 passes, slow launches up to 60, if the budget can pay."""
    plenty = {"block_s": 0.035, "contenders": 2, "budget_s": 3600.0}
    assert passes(launch_s=0.2, **plenty) == 8
    assert passes(launch_s=2.1, **plenty) == 15
    assert passes(launch_s=30.0, **plenty) == MAX_PASSES
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
    assert PASSES_FLOOR <= count <= MAX_PASSES


def test_the_planned_last_round_is_what_nine_tenths_of_the_budget_pay_for() -> None:
    """And never before the first round that can decide anything."""
    assert planned_rounds(60.0, 1.0) == 54
    assert planned_rounds(60.0, 0.9) == 60
    assert planned_rounds(5.0, 1.0) == MIN_ROUNDS
    assert analysis.FLOOR == MIN_ROUNDS


def test_the_usual_budget_is_a_minute_or_what_twelve_rounds_take_and_five_minutes_at_most() -> None:
    """Within nine tenths of it; columns share the minute and the five."""
    assert usual_budget_s(2.0) == 60.0
    assert usual_budget_s(12.0) == 160.0
    assert planned_rounds(usual_budget_s(12.0), 12.0) == 12
    assert usual_budget_s(60.0) == 300.0
    assert (usual_budget_s(0.5, 3), usual_budget_s(5.0, 3), usual_budget_s(60.0, 3)) == (20.0, 70.0, 100.0)


def test_a_short_budget_or_few_rounds_shorten_the_learning_of_warm_ups() -> None:
    assert learning_share(None, None) == learning_share(120.0, 20) == 1.0
    assert (learning_share(15.0, None), learning_share(None, 2), learning_share(30.0, 2)) == (0.25, 0.2, 0.2)


# --- counted parts that begin anywhere in a wave ---------------------------------------------------------------------


@given(SEEDS, st.integers(0, 10_000), NAMES, st.data())
def test_phases_depend_on_seed_round_and_name_and_are_spread_over_a_contenders_blocks(seed, index, names, data) -> None:
    """Each k-th of a latency has one of k blocks; the others in the race change nothing but which word is drawn."""
    own = {name: data.draw(st.integers(1, 60)) for name in names}
    drawn = lead_in_phases(seed, index, own)
    assert lead_in_phases(seed, index, dict(reversed(own.items()))) == drawn
    for name, count in own.items():
        assert all(0 <= phase < 1 for phase in drawn[name])
        first = min(drawn[name])
        assert sorted(drawn[name]) == pytest.approx([first + at / count for at in range(count)])


def test_where_the_first_block_begins_is_drawn_evenly() -> None:
    """Over 3000 rounds no tenth of a latency is preferred (chi-square at 1 in 10,000; fixed seed)."""
    firsts = [lead_in_phases(42, index, {"a": 3, "b": 8}) for index in range(3000)]
    for name in "ab":
        tenths = Counter(floor(10 * one[name][0]) for one in firsts)
        assert stats.chisquare([tenths[at] for at in range(10)]).pvalue > 1e-4


@given(SEEDS, st.integers(0, 10_000), st.integers(1, 60), st.floats(0.5, 1.0))
def test_blocks_of_a_round_count_a_server_that_answers_in_waves_to_a_wave(seed, index, count, calibrated) -> None:
    """Eight responses at once every 16 ms: all blocks together miss less than two waves, not up to one in each.

    Its latency was calibrated up to half too low: so much wider are the places at which its blocks begin.
    """
    wave_ns, p50_ns = 16.0 * MS, int(16 * MS * calibrated)
    lead_ns, counted_ns = own_lengths({"loop": p50_ns}, {"loop": 10 * MS})["loop"]
    begins = [
        lead_ns + lead_in_delay_ns(phase, p50_ns) for phase in lead_in_phases(seed, index, {"loop": count})["loop"]
    ]
    waves = sum(floor((begin + counted_ns) / wave_ns) - floor(begin / wave_ns) for begin in begins)
    missed = abs(waves - count * counted_ns / wave_ns)
    assert missed < 2 + count * (1 - calibrated)


def test_a_lead_in_is_lengthened_by_a_second_at_most() -> None:
    """A server that responds after 15 s has no waves that a block could hold."""
    assert lead_in_delay_ns(0.5, 16 * MS) == 8 * MS
    assert lead_in_delay_ns(0.5, 15_000 * MS) == 500 * MS


# --- blocks as long as each contender needs ---------------------------------------------------------------------------


def plan_of(blocks: dict[str, tuple[int, int, int]]) -> Plan:
    lead_ns, counted_ns, most = (max(each) for each in zip(*blocks.values(), strict=True))
    return Plan(lead_ns=lead_ns, counted_ns=counted_ns, passes=most, budget_s=60.0, planned_rounds=20, blocks=blocks)


@given(SEEDS, st.integers(0, 10_000), NAMES, st.integers(1, 60), st.data())
def test_each_contender_runs_in_its_own_number_of_passes_spread_evenly(seed, index, names, count, data) -> None:
    """Any stretch of the round, its end joined to its beginning, has a contender's share of the passes, within one."""
    own = {name: data.draw(st.integers(1, count)) for name in names}
    order = round_order(seed, index, names, count, takes=own)
    assert len(order.passes) == count
    for name in names:
        runs = [name in drawn for drawn in order.passes]
        assert sum(runs) == own[name]
        length = data.draw(st.integers(1, count))
        for start in range(count):
            met = sum((runs * 2)[start : start + length])
            assert abs(met - own[name] * length / count) < 1 + 1e-9


@given(SEEDS, st.integers(0, 10_000), NAMES, st.integers(1, 60), st.data())
def test_passes_of_their_own_leave_the_drawn_order_as_it_was(seed, index, names, count, data) -> None:
    """Launches are the same, and each pass is the same permutation with some left out."""
    own = {name: data.draw(st.integers(1, count)) for name in names}
    old = round_order(seed, index, names, count)
    new = round_order(seed, index, names, count, takes=own)
    assert new.launches == old.launches
    for before, after in zip(old.passes, new.passes, strict=True):
        assert after == tuple(name for name in before if name in after)
    assert round_order(seed, index, names, count, takes=dict.fromkeys(names, count)) == old
    assert round_order(seed, index, names[::-1], count, takes=own) == new


def test_a_plan_without_lengths_of_their_own_gives_all_contenders_the_same_blocks() -> None:
    """Each takes part in every pass."""
    plan = Plan(lead_ns=10 * MS, counted_ns=25 * MS, passes=8, budget_s=60.0, planned_rounds=20)
    names = ["nginx", "node", "lua"]
    assert order_of(plan, 7, 3, names) == round_order(7, 3, names, 8)
    assert block_of(plan, "node") == (10 * MS, 25 * MS)


def test_without_its_fastest_contender_a_round_has_as_many_passes_as_the_others_need() -> None:
    """No pass is empty."""
    plan = plan_of({"fast": (2 * MS, 5 * MS, 40), "slow": (20 * MS, 80 * MS, 8), "slower": (40 * MS, 160 * MS, 4)})
    order = order_of(plan, 7, 3, ["slow", "slower"])
    assert len(order.passes) == 8
    assert all(order.passes)
    assert len(order_of(plan, 7, 3, ["slow", "fast"]).passes) == 40


def test_a_slow_contender_lengthens_nobody_elses_blocks() -> None:
    """Tornado at 4 ms next to nginx at 0.2 ms: each has the blocks that it would have alone, the slow one fewer."""
    p50_ns, leads_ns = {"nginx": 200_000, "tornado": 4 * MS}, {"nginx": 2 * MS, "tornado": 10 * MS}
    lengths = own_lengths(p50_ns, leads_ns)
    assert lengths == {"nginx": (2 * MS, 5 * MS), "tornado": (20 * MS, 80 * MS)}
    count = own_passes(lengths, launch_s=0.6, budget_s=60.0)
    assert count == {"nginx": 40, "tornado": 6}
    assert own_lengths(p50_ns, leads_ns, {"tornado": 2, "nginx": 1})["tornado"] == (40 * MS, 160 * MS)
    blocks = {name: (*lengths[name], count[name]) for name in lengths}
    plan = plan_of(blocks)
    assert [block_of(plan, name) for name in lengths] == list(lengths.values())
    # As one length for all it would be 0.1 s of each in each pass.
    assert loaded_s(blocks) == pytest.approx(40 * 0.007 + 6 * 0.1)
    assert loaded_s(blocks) < 8 * 2 * 0.1


@given(st.floats(0, 100), st.integers(11, 70), st.integers(1, 40), st.floats(1, 10_000))
def test_where_all_lengths_are_alike_the_passes_are_what_they_were(launch_s, block_ms, contenders, budget_s) -> None:
    """The rule of one length for all is the special case, but for long blocks."""
    lengths = {f"c{k}": (MS, (block_ms - 1) * MS) for k in range(contenders)}
    count = own_passes(lengths, launch_s=launch_s, budget_s=budget_s)
    old = passes(launch_s=launch_s, block_s=block_ms / 1e3, contenders=contenders, budget_s=budget_s)
    assert set(count.values()) == {next(iter(count.values()))}
    assert abs(count["c0"] - old) <= 1  # the two divide in another order: a last digit may decide
    assert PASSES_FLOOR <= count["c0"] <= MAX_PASSES


@given(
    st.dictionaries(st.text("abc", min_size=1), st.integers(5, 1200), min_size=1), st.floats(0, 30), st.floats(1, 600)
)
def test_a_short_budget_takes_from_all_alike(lengths_ms, launch_s, budget_s) -> None:
    """Either the budget pays for twelve rounds, or some contender has at most three passes."""
    lengths = {name: (MS, (ms - 1) * MS) for name, ms in lengths_ms.items()}
    count = own_passes(lengths, launch_s=launch_s, budget_s=budget_s)
    round_s = launch_s + loaded_s({name: (*lengths[name], count[name]) for name in lengths})
    assert 12 * round_s <= budget_s + 1e-6 or min(count.values()) == PASSES_FLOOR
