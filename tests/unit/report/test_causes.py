"""The table of causes in the terminal and on the page."""

from __future__ import annotations

import samples
from reports import rendered, shown

from dragstrip.report.race.causes import compared_causes


def test_the_table_names_the_costs_that_differ() -> None:
    """CPU time with its parts, a planted read call, and what was not measured."""
    race = samples.race(profiles=samples.profiles({"steady": 9.5, "quick": 6.0}))
    (compared,) = compared_causes(race)
    assert compared.heads == ("", "quick", "steady", "difference")
    rows = {row[0]: row[1:] for row in compared.rows}
    assert rows["CPU, µs"][0].startswith("6.00 ± 0.0")
    assert rows["CPU, µs"][2].startswith("+3.50 ± ")
    assert rows["CPU, µs"][2].endswith(" ●")
    assert rows["read calls, at least"][0].startswith("0 ± ")
    assert not rows["write calls, at least"][2].endswith("●")
    assert rows["TCP segments received"][0] == "not measured"
    text = " ".join(compared.sentences)
    assert "Extra launches after the race: 6 of quick, 6 of steady." in text
    assert "steady takes 3.50 µs (" in text
    assert "more CPU time per response than quick: 1.17 µs of the difference in user mode and 2.33 µs" in text
    assert "that differ from quick: read calls: +1.00." in text
    assert "TCP segments received: not measured for quick and steady, because each request has a connection" in text


def test_few_launches_are_shown_and_not_tested() -> None:
    """Three launches each: no difference is marked, and the reader learns why."""
    (compared,) = compared_causes(samples.race(profiles=samples.profiles({"quick": 6.0, "steady": 9.5}, 3)))
    assert not any(row[-1].endswith("●") for row in compared.rows)
    assert any("quick and steady: fewer than 4 launches, so no difference is tested" in s for s in compared.sentences)


def test_equal_costs_are_called_so() -> None:
    """Nothing is marked between two contenders of the same CPU time."""
    profiles = samples.profiles({"quick": 6.0, "other": 6.0})
    (compared,) = compared_causes(samples.race({"quick": 4e4, "other": 4e4}, profiles=profiles))
    assert not any(row[-1].endswith("●") for row in compared.rows)
    assert any("No difference in CPU time per response was found" in sentence for sentence in compared.sentences)


def test_only_a_race_with_extra_launches_shows_them() -> None:
    """In the terminal and on the page; a race without them looks as before."""
    race = samples.race(profiles=samples.profiles({"quick": 6.0, "steady": 9.5}))
    plain = samples.race()
    assert "why: what a response costs" in shown(race)
    assert 'id="why"' in rendered(race)
    assert "why: what a response costs" not in shown(plain)
    assert 'id="why"' not in rendered(plain)
