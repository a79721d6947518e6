"""Which contenders go on although their pairs are decided: those whose verdict launches not met yet could turn."""

from __future__ import annotations

import numpy as np
import pytest
import samples

from dragstrip import analysis, validity
from dragstrip.record import Plan, Race
from dragstrip.report import figures


def raced(rounds: int, *, apart: float, slow: int = 0, fixed: bool = False) -> Race:
    """Two contenders; ``slow`` of the first one's launches are 17 % slower."""
    rates = {"a": 40_000.0, "b": 40_000.0 / (1 + apart)}
    rng = np.random.default_rng(3)
    made = tuple(
        samples.round_of(
            rates | ({"a": 0.83 * 40_000.0} if index in range(2, 2 + slow) else {}),
            index,
            passes=6,
            rng=rng,
            noise=0.002,
        )
        for index in range(rounds)
    )
    plan = Plan(
        lead_ns=samples.MS, counted_ns=samples.MS, passes=6, budget_s=60.0, planned_rounds=rounds, rounds_fixed=fixed
    )
    return samples.changed(samples.race(rates, rounds=0), rounds=made, plan=plan)


def held(race: Race) -> frozenset[str]:
    """By the judgement of that race, whose pair must be decided."""
    judged = analysis.judge_column(race)
    assert judged.all_decided
    return validity.held(race, judged.pairs)


@pytest.mark.parametrize("apart", [0.0, 0.03])
def test_a_close_pair_goes_on_to_the_twentieth_round(apart: float) -> None:
    """Ten launches may all be of one kind, and a quarter of slower ones would turn the verdict."""
    assert held(raced(10, apart=apart)) == {"a", "b"}
    assert held(raced(19, apart=apart)) == {"a", "b"}
    assert held(raced(20, apart=apart)) == frozenset()


def test_a_pair_far_apart_and_a_fixed_number_of_rounds_are_not_held() -> None:
    assert held(raced(10, apart=0.10)) == frozenset()
    assert held(raced(10, apart=0.0, fixed=True)) == frozenset()


def test_with_a_slow_launch_it_goes_on_to_the_thirtieth() -> None:
    """Slow ones may have been met too rarely."""
    assert held(raced(29, apart=0.30, slow=1)) == frozenset()
    close = raced(29, apart=0.02, slow=1)
    pairs = analysis.judge_column(close, margin=0.05).pairs
    assert validity.held(close, pairs) == {"a", "b"}
    later = raced(30, apart=0.02, slow=1)
    assert validity.held(later, analysis.judge_column(later, margin=0.05).pairs) == frozenset()


def test_the_page_says_which_launches_may_not_have_been_met() -> None:
    assert "rarer than one in 6 may not have been met in 20 rounds" in figures.meaning(
        analysis.judge_column(raced(20, apart=0.0))
    )
