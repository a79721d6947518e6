"""The table of causes in the terminal and on the page."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import samples
from reports import rendered, shown

from dragstrip.report.race import markdown
from dragstrip.report.race.causes import compared_causes
from dragstrip.report.race.export import race_json, schema
from dragstrip.report.race.summary import JudgedRace


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
    assert rows["system calls"][0].startswith("3.0000 ± 0.0005")
    assert rows["  sendto"][2].startswith("0 ± 0.00095")
    assert rows["  read"][2].startswith("+1.0000 ± 0.000")
    assert rows["  read"][2].endswith(" ●")
    assert rows["TCP segments received"][0] == "not measured"
    text = " ".join(compared.sentences)
    assert "Extra launches after the race: 6 of quick, 6 of steady." in text
    assert "steady takes 3.50 µs (" in text
    assert "more CPU time per response than quick: 1.17 µs of the difference in user mode and 2.33 µs" in text
    assert "that differ from quick: read calls: +1.00; read: +1.000; other calls: -1.000." in text
    assert "TCP segments received: not measured for quick and steady, because each request has a connection" in text


def test_a_small_response_in_two_segments_is_named_with_its_remedy() -> None:
    """One of 150 bytes, not one of 20 kB, which needs more segments."""
    pieces = {"cpu_ns": 6e8, "segments": 200_000.0}
    made = [
        samples.profile(name, at, counts=pieces | {"received_bytes": size * 100_000.0}, missing={})
        for at in range(0, 12, 2)
        for name, size in (("quick", 150), ("steady", 20_000))
    ]
    (compared,) = compared_causes(samples.race(profiles=tuple(made)))
    (told,) = [sentence for sentence in compared.sentences if "TCP_NODELAY" in sentence]
    assert told.startswith("quick sends 150 bytes of response in 2.00 TCP segments: it writes head and body apart.")


def test_traced_calls_are_called_so() -> None:
    """By class; a contender whose calls were not traced either says why."""
    traced = {"traced_responses": 5_000.0, "traced.read": 5_000.0, "traced.wait": 200.0}
    refused = "the kernel's events can't be read (Permission denied); they need root"
    both = {"calls": refused, "traced_responses": "it is traced already"}
    made = [
        samples.profile("quick", at, counts={"cpu_ns": 6e8} | traced, missing={"calls": refused}) for at in range(4)
    ]
    made += [samples.profile("steady", at, counts={"cpu_ns": 9e8}, missing=both) for at in range(4, 8)]
    (compared,) = compared_causes(samples.race(profiles=tuple(made)))
    rows = {row[0]: row[1:] for row in compared.rows}
    assert rows["read and receive calls, under tracing"] == ("1.0000 ± 0.00080", "not measured", "")
    assert rows["waiting calls, under tracing"][0].startswith("0.0400 ± ")
    text = " ".join(compared.sentences)
    assert f"not counted for quick, because {refused}; they were traced instead." in text
    assert "nor could they be traced, because it is traced already." in text


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


def test_the_function_that_a_revision_made_slower_is_named() -> None:
    """In a sentence with what stays unexplained, in Markdown, and in JSON that follows its schema."""
    race = samples.planted()
    made = JudgedRace.of(race)
    text = markdown.race(made)
    for shown_text in (text, shown(race), rendered(race)):
        flat = " ".join(shown_text.replace("\\", "").split())
        assert "steady is slower in planted [app]: 0.6" in flat
        assert "more CPU time per response than quick." in flat
        assert "This function makes up +0.6" in flat
        assert "+0.00 µs (0 %) stays unexplained." in flat
    assert "| planted \\[app\\] | 0 ± " in text
    assert "| parse " not in text
    written = json.loads(json.dumps(race_json(made, ()), allow_nan=False))
    jsonschema.Draft202012Validator(schema()).validate(written)
    (explained,) = written["columns"][0]["why"]["explained"]
    assert (explained["name"], [found["name"] for found in explained["found"]]) == ("steady", ["planted [app]"])
    assert explained["difference"]["significant"]


def test_a_difference_in_no_single_function_is_called_unexplained() -> None:
    """The second revision's launches cost more by the same in all functions."""
    race = samples.planted()
    costly = [
        replace(launch, counts={**launch.counts, "cpu_ns": 6.1e8}, frames=other.frames, stacks=other.stacks)
        if launch.contender == "steady"
        else launch
        for launch, other in zip(race.profiles, race.profiles[:1] + race.profiles[:-1], strict=True)
    ]
    (compared,) = compared_causes(replace(race, profiles=tuple(costly)))
    text = " ".join(compared.sentences)
    assert "No difference was found in any single function, so 0.1000 µs stay unexplained" in text
