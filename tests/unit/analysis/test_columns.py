"""A race of several workloads, judged: each column as a race of its own, all intervals at once."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import samples

from dragstrip.analysis import by_column, judge, judge_column, with_column
from dragstrip.analysis.comparison import compare, compare_columns
from dragstrip.errors import BadUsage
from dragstrip.record import Ending, EventKind
from dragstrip.validity import inspect


def test_a_race_of_one_workload_is_its_only_column() -> None:
    """Nothing of it changes."""
    race = samples.race()
    assert by_column(race) == (race,)


def test_each_column_is_a_race_with_its_own_rounds_contenders_and_events() -> None:
    """What belongs to the whole race alone is in none; what belongs to all is in each."""
    race = samples.race_of_two(per_s={"hello": 100.0, "multiply": 500.0})
    of_second = replace(samples.noted(EventKind.INTRUDER, subject="backup", numbers={"pid": 1, "share": 1}), column=1)
    race = replace(race, events=(of_second, samples.noted(EventKind.RESUMED), samples.noted(EventKind.FOREIGN, "{}")))
    first, second = by_column(race)
    assert [this.index for this in first.rounds] == list(range(0, 24, 2))
    assert {block.round for this in second.rounds for block in this.blocks} == set(range(1, 24, 2))
    assert (first.load.rate_per_s, second.load.rate_per_s) == (100.0, 500.0)
    assert [event.kind for event in first.events] == [EventKind.RESUMED]
    assert [event.kind for event in second.events] == [EventKind.INTRUDER, EventKind.RESUMED]
    assert len(first.columns) == len(second.columns) == 1
    assert len({check.column for check in inspect(race)}) == 2


def test_the_columns_share_the_error_rate_and_nothing_else() -> None:
    """Each column's pairs are those of a race of it alone, judged at half of alpha; no pair goes across columns."""
    race = samples.race_of_two()
    verdict = judge(race)
    for at, column in enumerate(by_column(race)):
        alone = judge_column(replace(column, family=1), alpha=race.plan.alpha / 2)
        assert [(p.low, p.high) for p in verdict.columns[at].pairs] == [(p.low, p.high) for p in alone.pairs]
        whole_alpha = judge_column(replace(column, family=1))
        for narrow, wide in zip(whole_alpha.pairs, alone.pairs, strict=True):
            assert wide.low < narrow.low < narrow.high < wide.high
    assert verdict.pairs == (*verdict.columns[0].pairs, *verdict.columns[1].pairs)
    assert verdict.alpha == race.plan.alpha
    assert verdict.all_decided


def test_one_open_column_leaves_the_race_open_and_foretells_by_it() -> None:
    """The forecast is the sum of the columns' own."""
    alike = {"one": 30_000.0, "two": 30_050.0}
    race = samples.race_of_two({"hello": {"one": 9e4, "two": 3e4}, "multiply": alike}, noise=0.05)
    verdict = judge(race)
    assert [column.all_decided for column in verdict.columns] == [True, False]
    assert not verdict.all_decided
    assert verdict.more_s == verdict.columns[1].more_s
    early = judge(replace(race, rounds=race.rounds[:3]))
    assert all(math.isnan(pair.low) for pair in early.pairs)


def test_who_is_out_of_every_column_is_out_of_the_race() -> None:
    """Out of one, it races on elsewhere."""
    race = samples.race_of_two()
    gone = tuple(replace(e, out="it died", out_round=4) if e.name == "slow" else e for e in race.columns[0].entrants)
    once = with_column(race, 0, gone)
    assert not any(entrant.out for entrant in once.entrants)
    assert [e.name for e in by_column(once)[0].entrants if e.out] == ["slow"]
    twice = with_column(once, 1, tuple(replace(e, out_round=9) for e in gone))
    assert [(entrant.name, entrant.out_round) for entrant in twice.entrants if entrant.out] == [("slow", 9)]


def test_a_column_ends_as_it_ended_itself() -> None:
    """Fewer than two contenders, or five void rounds in a row; else as the race."""
    race = samples.race_of_two()
    assert [column.finished for column in by_column(race)] == ["decided"] * 2
    void = [replace(r, void=samples.voided("errors")) if r.column else r for r in race.rounds]
    assert [column.finished for column in by_column(replace(race, rounds=void))] == ["decided", "void"]
    assert by_column(replace(race, rounds=void, finished=Ending.NONE))[1].finished == ""
    out = tuple(replace(entrant, out="no") for entrant in race.columns[1].entrants[:2])
    few = with_column(race, 1, (*out, race.columns[1].entrants[2]))
    assert [column.finished for column in by_column(few)] == ["decided", "too few contenders"]


def test_two_races_are_compared_column_by_column_with_wider_intervals() -> None:
    """Matched by workload; the error rate is shared. Races that share no workload are refused by name."""
    old, new = samples.race_of_two(seed=3), samples.race_of_two(seed=5)
    found = dict(compare_columns(old, new))
    assert list(found) == ["hello", "multiply"]
    alone = compare(by_column(old)[0], by_column(new)[0])
    for wide, narrow in zip(found["hello"].changes, alone.changes, strict=True):
        assert wide.ratio == narrow.ratio
        assert wide.high - wide.low > narrow.high - narrow.low
    one = samples.race(seed=11)
    assert [name for name, _ in compare_columns(one, new)] == ["hello"]
    assert compare_columns(one, samples.race(seed=12))[0][0] == ""
    with pytest.raises(BadUsage, match="share no workload: static, then hello, multiply"):
        compare_columns(samples.changed(one, workload="static"), new)


def test_rates_of_one_workload_are_matched_lower_with_lower() -> None:
    """Columns are matched by position; a rate that differs is named as the difference."""
    rates = {"1,000/s": {"a": 1e3, "b": 1e3}, "5,000/s": {"a": 5e3, "b": 5e3}}
    old = samples.race_of_two(rates, seed=3, per_s={"1,000/s": 1e3, "5,000/s": 5e3})
    other = {"1,100/s": rates["1,000/s"], "5,000/s": rates["5,000/s"]}
    new = samples.race_of_two(other, seed=5, per_s={"1,100/s": 1.1e3, "5,000/s": 5e3})
    low, half = compare_columns(old, new)
    assert (low[0], low[1].comparable) == ("1,100/s", False)
    assert (half[0], half[1].comparable) == ("5,000/s", True)
