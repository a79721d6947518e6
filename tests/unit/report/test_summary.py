"""What all reports share: order, ties, pairs seen from both sides, and what a void check spoils."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import samples
from reports import (
    SPEEDS,
    VOID,
    rendered,
    shown,
)

from dragstrip.analysis import judge, judge_column
from dragstrip.record import Race
from dragstrip.report.race import (
    headline,
    summary,
)
from dragstrip.report.race.summary import JudgedRace
from dragstrip.validity.check import CheckName, Finding, Status, check_result


def test_contenders_stand_fastest_first_and_ties_share_a_bracket(race: Race) -> None:
    """Contenders that are out have no rows; the two equal ones are joined, the others are not."""
    found = summary.ranked(race, judge_column(race))
    assert found[0].name == "return"
    assert {found[1].name, found[2].name} == {"static", "twin"}
    assert [row.ties for row in found] == [("",), ("top",), ("bottom",), ("",)]


def test_overlapping_tie_groups_get_a_column_each_and_pass_strangers_by() -> None:
    """a-b and b-c overlap; d-e can stand in a column again; a group skips a row that isn't in it."""
    cells = summary.tie_cells("abcde", [("a", "b"), ("b", "c"), ("d", "e"), ("a",)])
    assert cells == [("top", ""), ("bottom", "top"), ("", "bottom"), ("top", ""), ("bottom", "")]
    assert summary.tie_cells("abc", [("a", "c")]) == [("top",), ("gap",), ("bottom",)]
    assert summary.tie_cells("abc", [("a",), ("b",), ("c",)]) == [(), (), ()]


def test_a_pair_seen_from_the_other_side_says_the_same(race: Race) -> None:
    """Ratio and bounds are inverted, the words turned round; twice is as before."""
    pair = next(pair for pair in judge(race).pairs if {pair.a, pair.b} == {"return", "slow"})
    turned = summary.oriented(pair, pair.b)
    assert (turned.a, turned.b, turned.verdict) == (pair.b, pair.a, "slower")
    assert turned.low < turned.ratio < turned.high < 1
    assert turned.low == pytest.approx(1 / pair.high)
    again = summary.oriented(turned, pair.a)
    assert (again.verdict, again.ratio) == (pair.verdict, pytest.approx(pair.ratio))


def test_less_cpu_stands_first_where_cpu_decides() -> None:
    """The ranking turns with the metric, and says that less is better."""
    race = samples.race({"lavish": 40_000.0, "thrifty": 40_000.0})
    cpu_ns = {"lavish": 34 * samples.MS, "thrifty": 20 * samples.MS}
    cheap = tuple(
        replace(r, blocks=tuple(replace(block, server_cpu_ns=cpu_ns[block.contender]) for block in r.blocks))
        for r in race.rounds
    )
    race = samples.changed(race, rounds=cheap, plan=replace(race.plan, metric="cpu"))
    assert [row.name for row in summary.ranked(race, judge_column(race))] == ["thrifty", "lavish"]
    assert "less is better" in rendered(race)
    assert "less is better" in shown(race)


def test_a_void_check_spoils_those_it_names_and_no_others(race: Race) -> None:
    """Their pairs read void, the headline names the excluded; a check without a contender is void for all."""
    use = Finding(Status.VOID, "the generator is the limit: with return, the engine used 99 %", contender="return")
    limit = check_result(CheckName.GENERATOR, [use])
    assert not JudgedRace(race, judge(race), [limit]).void
    text = re.sub(r"\s+", " ", shown(race, checks=[limit]))
    assert re.search(r"return against slow .*? void", text)
    assert "Excluded as void: return, because the generator is the limit" in text
    assert not text.startswith(" FASTEST return")
    assert headline.no_result_reason(JudgedRace(race, judge(race), [limit])) == ""
    assert JudgedRace(race, judge(race), [VOID]).void


def test_whom_a_void_check_spoils_is_no_matter_of_what_its_sentence_says() -> None:
    """Contenders `a` and `a: b`, and one that is called as a word of the sentence."""
    race = samples.race({"a": 4e4, "a: b": 3e4, "faults": 2e4})
    limit = check_result(CheckName.TREND, [Finding(Status.VOID, "a: b's throughput rose by 20 %", contender="a: b")])
    assert summary.void_contenders(race, [limit]) == {"a: b"}
    everybody = check_result(CheckName.ACCOUNTING, [Finding(Status.VOID, "3 faults, the first: a: b 1")])
    assert summary.void_contenders(race, [everybody]) == {"a", "a: b", "faults"}


def test_before_there_are_intervals_no_contenders_are_joined() -> None:
    """Three rounds tell nothing apart, which does not make all alike."""
    race = samples.race(SPEEDS, rounds=3)
    assert [row.ties for row in summary.ranked(race, judge_column(race))] == [()] * 4
    assert "┏" not in shown(race)
