"""Tie groups, and which contenders must go on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from judging import normal, race_of

from dragstrip import analysis
from dragstrip.report.race.wording import sentence


def test_tie_groups_are_maximal_sets_that_may_overlap_fastest_first() -> None:
    """b is tied with a and with c, which are separated from each other; d is behind all."""
    noise = [normal(seed, 20, 0.01) for seed in range(3)]
    level = {"c": -0.014, "a": 0.014}
    logs = {name: list(np.array(noise[0]) + np.array(normal(9, 20, 0.002)) + mean) for name, mean in level.items()}
    logs |= {"b": list(np.array(noise[1]) * 3), "d": [x - 1 for x in noise[2]]}
    assert analysis.judge(race_of(logs)).column.groups == (("a", "b"), ("b", "c"), ("d",))


def test_all_tied_is_one_group() -> None:
    """No order is printed where there is none."""
    logs = {name: normal(i, 12) for i, name in enumerate("abcdefgh")}
    (group,) = analysis.judge(race_of(logs)).column.groups
    assert sorted(group) == list("abcdefgh")


def test_a_contender_whose_pairs_are_all_decided_rests_and_a_reference_stays() -> None:
    """a and b are close, c and d far: d rests; c, first of the line-up among equals, stays as the reference."""
    noisy = {"c": 0.5, "a": 0.0, "b": 0.001, "d": -0.5}
    race = race_of({name: normal(i, 15, 0.02, mean) for i, (name, mean) in enumerate(noisy.items())})
    judged = analysis.judge_column(race)
    assert [(p.a, p.b) for p in judged.pairs if not p.decided] == [("a", "b")]
    assert not judged.all_decided
    assert analysis.still_needed(judged, race) == {"a", "b", "c"}


def test_no_contender_is_needed_when_all_is_decided() -> None:
    """The race is over."""
    race = race_of({name: normal(i, 12, 0.002, i / 5) for i, name in enumerate("abc")})
    judged = analysis.judge_column(race)
    assert judged.all_decided
    assert analysis.still_needed(judged, race) == frozenset()


def test_a_fixed_design_needs_all_contenders_to_its_end() -> None:
    """Decided or not."""
    race = race_of({name: normal(i, 12, 0.002, i) for i, name in enumerate("abc")}, planned=12, rounds_fixed=True)
    before = replace(race, rounds=race.rounds[:11])
    assert analysis.still_needed(analysis.judge_column(before), before) == {"a", "b", "c"}
    assert analysis.still_needed(analysis.judge_column(race), race) == frozenset()


def test_one_that_never_gets_warm_is_not_compared_as_if_it_had() -> None:
    """Its pairs stay undecided with the reason; more rounds are needed."""
    race = race_of({"a": normal(1, 12, 0.002, 1.0), "b": normal(2, 12, 0.002), "c": normal(3, 12, 0.002, -1.0)})
    cold = [
        replace(this, launches=tuple(replace(one, settled=one.contender != "b") for one in this.launches))
        for this in race.rounds
    ]
    judged = analysis.judge_column(replace(race, rounds=cold))
    assert judged.warming == ("b",)
    assert [pair.verdict for pair in judged.pairs] == ["undecided", "faster", "undecided"]
    assert "still warming up: b" in sentence(judged.pairs[0])
    assert analysis.still_needed(judged, race) == {"a", "b", "c"}
    assert judged.estimates["b"].unsettled == 12
