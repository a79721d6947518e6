"""`race --fail-if`: what becomes of a threshold, and the exit code for CI."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from xml.etree import ElementTree

import jsonschema
import pytest
import samples
from rich.console import Console

from dragstrip import analysis
from dragstrip.commands.conclusion import _by_thresholds
from dragstrip.commands.options import EXIT_FAILURE, EXIT_VOID
from dragstrip.record import Race
from dragstrip.report.race import export as race_export
from dragstrip.report.race import formats, markdown, thresholds
from dragstrip.report.race.summary import JudgedRace
from dragstrip.validity import inspect
from dragstrip.validity.check import CheckName, Finding, Status, check_result

SLOWER, FASTER = ("slower:3%", "slower", 0.03), ("faster:3%", "faster", 0.03)


def ruled(
    race: Race, *rules: tuple[str, str, float], strict: bool = False, void: tuple[str, ...] = ()
) -> tuple[int, str]:
    """The exit code, and what was shown."""
    planted = [Finding(Status.VOID, f"{name}: 1 errors to 2 requests ()", contender=name) for name in void]
    checks = [*inspect(race), *([check_result(CheckName.ERRORS, planted)] if planted else [])]
    console = Console(file=io.StringIO(), width=200, no_color=True)
    code = _by_thresholds(console, thresholds.rulings(JudgedRace(race, analysis.judge(race), checks), rules), strict)
    return code, console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("old_per_s", "new_per_s", "rule", "code", "told"),
    [
        (40_000.0, 30_000.0, SLOWER, EXIT_FAILURE, "fails slower:3%: new is slower by more than 3 % (old served 1.3"),
        (30_000.0, 40_000.0, SLOWER, 0, "holds slower:3%: new is not slower by more than 3 % (new served 1.3"),
        (30_000.0, 40_000.0, FASTER, EXIT_FAILURE, "fails faster:3%: new is faster by more than 3 % (new served 1.3"),
        (40_000.0, 40_000.0, SLOWER, 0, "holds slower:3%: new is not slower"),
    ],
)
def test_the_first_that_is_named_is_what_others_are_compared_with(
    old_per_s: float, new_per_s: float, rule: tuple[str, str, float], code: int, told: str
) -> None:
    """Whichever of them is faster: the verdict's pair has the faster one first."""
    found, text = ruled(samples.race({"old": old_per_s, "new": new_per_s}, rounds=20, noise=0.002), rule)
    assert found == code
    assert told in text
    assert re.search(r"served [\d.–]+ times the requests of (old|new)\)", text)


def test_it_is_the_interval_that_decides_and_strict_wants_it_clear() -> None:
    """A point beyond the threshold is not a failure while its interval includes the threshold."""
    race = samples.race({"old": 40_000.0, "new": 38_900.0}, noise=0.02)
    assert "neither shown nor ruled out" in ruled(race, SLOWER)[1]
    assert re.search(r"; about \d+ s more would settle it if this trend holds", ruled(race, SLOWER)[1])
    assert [ruled(race, SLOWER, strict=strict)[0] for strict in (False, True)] == [0, EXIT_FAILURE]


def test_nothing_to_be_said_is_no_success() -> None:
    """Too few rounds, a first one that is out or void; what another one shows counts before that."""
    few = samples.race({"old": 40_000.0, "new": 30_000.0}, rounds=3)
    assert ruled(few, SLOWER)[0] == EXIT_VOID
    assert "at least 5 rounds are needed for differences above 10 %, 10 for smaller ones (3" in ruled(few, SLOWER)[1]
    whole = samples.race({"old": 40_000.0, "new": 30_000.0, "other": 39_000.0})
    code, text = ruled(whole, SLOWER, void=("old",))
    assert (code, text.count("what was measured of old is void")) == (EXIT_VOID, 2)
    assert ruled(whole, SLOWER, void=("other",))[0] == EXIT_FAILURE
    first, *rest = whole.entrants
    assert "old is out" in ruled(samples.changed(whole, entrants=(replace(first, out="died"), *rest)), SLOWER)[1]


def test_one_that_fell_out_fails() -> None:
    """It has no number that could be slower; the reason is shown without its log."""
    race = samples.race({"old": 40_000.0, "same": 40_000.0}, out={"new": "died\nlast line"})
    code, text = ruled(race, SLOWER)
    assert code == EXIT_FAILURE
    assert "fails slower:3%: new is out: died\n" in text


def test_each_column_has_its_own() -> None:
    """A contender that lacks a column's workload is not held to a threshold there."""
    rates = {
        "hello": {"old": 40_000.0, "new": 40_000.0, "most": 50_000.0},
        "multiply": {"old": 20_000.0, "new": 15_000.0},
    }
    race = samples.race_of_two(rates, absent={"multiply": ["most"]}, noise=0.002, rounds=20)
    code, text = ruled(race, SLOWER)
    assert code == EXIT_FAILURE
    assert "holds slower:3%, at hello: new" in text
    assert "fails slower:3%, at multiply: new" in text
    assert "most" not in text.partition("at multiply")[2]


def test_what_became_of_thresholds_is_in_json_markdown_and_junit() -> None:
    """One entry, and one case, per threshold and contender; of several columns each with its name."""
    race = samples.race({"old": 40_000.0, "new": 30_000.0, "other": 45_000.0}, rounds=20, noise=0.002)
    judged = JudgedRace.of(race)
    rules = thresholds.rulings(judged, [SLOWER, FASTER])
    data = race_export.race_json(judged, rules)
    jsonschema.validate(data, race_export.schema())
    outcomes = {(one["rule"], one["name"]): one["outcome"] for one in data["rules"]}
    assert outcomes == {
        ("slower:3%", "new"): "fails",
        ("slower:3%", "other"): "holds",
        ("faster:3%", "new"): "holds",
        ("faster:3%", "other"): "fails",
    }
    text = markdown.race(judged, rules)
    assert "- **fails** `slower:3%`: new is slower by more than 3 % (old served 1.3" in text
    assert text.count("**fails**") == 2
    found = ElementTree.fromstring(formats.junit(judged, rules))
    cases = {
        (case.get("classname"), case.get("name")): case.find("failure") is not None for case in found.iter("testcase")
    }
    assert {key: cases[key] for key in outcomes} == {key: value == "fails" for key, value in outcomes.items()}
    plain = race_export.race_json(judged)
    assert "rules" not in plain
    assert "fails" not in markdown.race(judged)


def test_thresholds_of_several_columns_name_theirs() -> None:
    """In each output."""
    race = samples.race_of_two(rounds=12)
    judged = JudgedRace.of(race)
    rules = thresholds.rulings(judged, [SLOWER])
    data = race_export.race_json(judged, rules)
    jsonschema.validate(data, race_export.schema())
    assert {one["column"] for one in data["rules"]} == {"hello", "multiply"}
    assert "`slower:3%`, at hello: slow is slower" in markdown.race(judged, rules)
    suites = ElementTree.fromstring(formats.junit(judged, rules)).iter("testsuite")
    named = [{case.get("name") for case in suite if case.get("classname") == "slower:3%"} for suite in suites]
    assert [names for names in named if names] == [{"steady", "slow"}] * 2
