"""Which blocks and rounds count, and what numbers they make."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import samples
from hypothesis import given, settings
from hypothesis import strategies as st
from judging import of_blocks, only, race_of, racing

from dragstrip import analysis
from dragstrip.record import Block, Race

MS = samples.MS


def two_passes(**changes: object) -> list[Block]:
    """Two contenders, two passes; in the second a is twice as fast; ``changes`` to a's second block."""
    return [
        samples.block("a", pass_index=0, requests=1000),
        samples.block("b", pass_index=0, requests=1000),
        samples.block("a", pass_index=1, requests=2000, **changes),
        samples.block("b", pass_index=1, requests=1000),
    ]


def totals(race: Race, metric: str = "throughput") -> list[list[float]]:
    """Per round, each contender's number."""
    return [list(row) for row in analysis.round_numbers(race, metric).totals]


def test_totals_are_answers_over_time_and_cpu_over_all_answers() -> None:
    """Throughput by counted answers and counted time; CPU by the whole block's CPU and answers, in microseconds."""
    race = racing("ab", [of_blocks(0, two_passes())])
    assert totals(race) == [pytest.approx([3000 / 0.05, 2000 / 0.05])]
    answered = [1400 + 2800, 1400 + 1400]
    assert totals(race, "cpu") == [pytest.approx([2 * 34_000 / answered[0], 2 * 34_000 / answered[1]])]


def test_a_void_block_drops_only_itself() -> None:
    """The other contender's block of the same pass counts."""
    blocks = [*two_passes()[:3], samples.block("b", pass_index=1, void=samples.voided("errors"))]
    race = racing("ab", [of_blocks(0, blocks)])
    assert totals(race) == [pytest.approx([60_000, 40_000])]
    estimates = analysis.judge(race).column.estimates
    assert [(e.blocks, e.void_blocks, e.requests) for e in estimates.values()] == [(2, 0, 3000), (2, 1, 1000)]


def test_a_contender_with_fewer_blocks_of_its_own_takes_nothing_from_the_other() -> None:
    """Slow contenders have fewer, longer blocks."""
    race = racing("ab", [of_blocks(0, two_passes()[:3])])
    assert totals(race) == [pytest.approx([60_000, 40_000])]


def test_a_block_without_a_response_is_not_counted_time_and_affects_no_other_contender() -> None:
    """A pause of its own that began before; where the machine took the cores, the time passed all the same."""
    blocks = [*two_passes(), samples.block("b", pass_index=2, requests=0), samples.block("a", pass_index=2)]
    assert totals(racing("ab", [of_blocks(0, blocks)])) == [pytest.approx([160_000 / 3, 40_000])]
    block = samples.block("b", pass_index=2, requests=0, answered=200, engine_wait_ns=30 * MS)
    taken = [*blocks[:-2], block, blocks[-1]]
    assert totals(racing("ab", [of_blocks(0, taken)])) == [pytest.approx([160_000 / 3, 80_000 / 3])]


def test_a_pause_that_outlasts_its_block_is_counted_to_its_end() -> None:
    """30 ms, of which 5 fall into the counted part: 25 more belong to it. Shorter waits are as before."""
    usual = [samples.block("b", pass_index=at) for at in range(7)]
    paused = samples.block("b", pass_index=7, requests=800, duration_ns=35 * samples.MS + 25_400_000)
    others = [samples.block("a", pass_index=at) for at in range(8)]
    race = racing(["a", "b"], [of_blocks(0, [*others, *usual, paused])])
    assert only(race).ratio == pytest.approx(8000 / 7800 * 225 / 200)
    short = samples.block("b", pass_index=7, requests=800, duration_ns=35 * samples.MS + 1_500_000)
    assert only(racing(["a", "b"], [of_blocks(0, [*others, *usual, short])])).ratio == pytest.approx(8000 / 7800)


def test_a_void_round_is_dropped_and_counted() -> None:
    """It was run again; its blocks are kept, and shown as void."""
    race = racing("ab", [of_blocks(0, two_passes(), void=samples.voided("errors")), of_blocks(1, two_passes())])
    judged = analysis.judge_column(race)
    assert analysis.round_numbers(race).rounds == (1,)
    assert (judged.rounds, judged.void_rounds) == (1, 1)
    assert (judged.estimates["a"].blocks, judged.estimates["a"].void_blocks) == (4, 2)


def test_a_round_with_less_than_a_tenth_of_its_blocks_left_is_too_thin() -> None:
    """One block of twelve is not one number like the others; one of four is."""
    void = {"void": ("engine waited: planted",)}
    blocks = [samples.block(name, pass_index=at, **(void if at else {})) for at in range(4) for name in ("a", "b")]
    thin = [samples.block(name, pass_index=at, **(void if at else {})) for at in range(12) for name in ("a", "b")]
    assert np.isnan(totals(racing("ab", [of_blocks(0, thin)]))).all()
    assert not np.isnan(totals(racing("ab", [of_blocks(0, blocks)]))).any()


def test_a_contender_that_is_out_yields_nothing_and_voids_no_other_passes() -> None:
    """Its last blocks were void; the others' numbers stand, and it has none, not even from the rounds before."""
    rounds = [
        of_blocks(i, [*two_passes(), samples.block("c", pass_index=0, void=samples.voided("gave up"))]) for i in (0, 1)
    ]
    race = racing("abc", rounds)
    gone = samples.changed(race, entrants=(*race.entrants[:2], replace(race.entrants[2], out="died", out_round=1)))
    judged = analysis.judge_column(gone)
    assert totals(gone) == [pytest.approx([60_000, 40_000])] * 2
    assert [(pair.a, pair.b) for pair in judged.pairs] == [("a", "b")]
    assert judged.estimates["c"].throughput_per_s is None
    assert (judged.estimates["c"].requests, judged.estimates["c"].void_blocks) == (0, 2)
    assert all("c" not in group for group in judged.groups)


def test_a_pair_is_compared_over_the_rounds_in_which_both_ran() -> None:
    """c rested after 12 rounds while the machine got twice as fast: its ratios know nothing of that."""
    later = [0.7] * 12
    race = race_of({"a": [0.01] * 12 + later, "b": [0.0] * 12 + later, "c": [-0.1] * 12 + [math.nan] * 12})
    ratios = {(pair.a, pair.b): (pair.ratio, pair.rounds) for pair in analysis.judge(race).pairs}
    assert ratios["a", "c"] == (pytest.approx(math.exp(0.11)), 12)
    assert ratios["a", "b"] == (pytest.approx(math.exp(0.005)), 24)


@pytest.mark.thorough
@settings(max_examples=25, deadline=None)
@given(st.permutations(["a", "b", "c", "d"]), st.randoms(use_true_random=False))
def test_the_order_of_the_line_up_and_of_the_blocks_changes_no_number(names: list[str], random) -> None:
    """Only which of two is called ``a`` follows the line-up; ratio, interval and word turn with it."""
    rates = {"a": 30_000.0, "b": 30_100.0, "c": 31_000.0, "d": 45_000.0}
    race = samples.race(rates, rounds=15, passes=4)
    mixed = [replace(this, blocks=tuple(random.sample(this.blocks, len(this.blocks)))) for this in race.rounds]
    entrants = sorted(race.entrants, key=lambda entrant: names.index(entrant.name))
    one, other = (
        analysis.judge_column(race),
        analysis.judge_column(samples.changed(race, entrants=tuple(entrants), rounds=mixed)),
    )
    assert one.groups == other.groups
    assert one.estimates == other.estimates
    turned = {"faster": "slower", "slower": "faster"}
    by_names = {(pair.a, pair.b): pair for pair in other.pairs}
    for pair in one.pairs:
        if (pair.a, pair.b) in by_names:
            same = by_names[pair.a, pair.b]
            assert (same.verdict, same.low, same.ratio) == (
                pair.verdict,
                pytest.approx(pair.low),
                pytest.approx(pair.ratio),
            )
        else:
            back = by_names[pair.b, pair.a]
            assert back.verdict == turned.get(pair.verdict, pair.verdict)
            assert 1 / back.high == pytest.approx(pair.low)
