"""The runner of races beside an ordered disturbance: what a race's line says, what comes next, what the page counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import answers as script
import pytest
import samples

from dragstrip.report.race.export import race_json
from dragstrip.report.race.summary import JudgedRace

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def answers() -> ModuleType:
    """The script as a module."""
    return script


def line(answers: ModuleType, name: str, rates: dict[str, float], **changes: Any) -> dict[str, Any]:
    """One race's line: a race of these speeds, judged, exported as JSON and read by the script itself."""
    race = samples.race(rates, seed=3, rounds=20, passes=3)
    (kind,) = [one for one in answers.KINDS if one.name == name]
    told = race_json(JudgedRace.of(race)) | {"finished": "decided", "void": False}
    around = {"kind": name, "duty": 20, "budget_s": 20, "exit": 0, "truth": kind.truth, "took_s": 12.0}
    return around | answers.told_of(kind, told) | changes


def page(answers: ModuleType, tmp_path: Path, *lines: dict[str, Any]) -> str:
    """What the page says of these races."""
    target = tmp_path / "verdicts.md"
    target.write_text("# Calibration\n\nKept.\n")
    for _ in range(2):  # again: the section is replaced, not added
        answers.answers_page.write_page(lines, target)
    text = target.read_text()
    assert text.startswith("# Calibration\n\nKept.\n")
    assert text.count("## On disturbed machines") == 1
    return text


def test_a_difference_called_where_none_is_counts_as_wrong(answers, tmp_path: Path) -> None:
    """Two alike that are 30 % apart in the records are called apart; two that are equal are not."""
    wrong = line(answers, "same: node", {"a": 13_000, "b": 10_000})
    right = line(answers, "same: node", {"a": 10_000, "b": 10_000})
    assert (wrong["wrong"], right["wrong"]) == (True, False)
    text = page(answers, tmp_path, wrong, right, right, right | {"exit": 3, "void": True})
    assert "| node | 20 % | 4 | 4 | 1 of 4, 25.0 % (0.6–80.6) |" in text
    assert (
        "1 of 4 races had no valid result. The verdict on a server against itself was wrong in 1 of 4 at 20 % duty"
        in text
    )


def test_a_planted_difference_counts_as_held_where_the_interval_has_it(answers, tmp_path: Path) -> None:
    """Of two races one finds the 10 % that were planted; the other finds the wrong one faster."""
    found = line(answers, "planted 10 %", {"base": 11_000, "slow": 10_000})
    turned = line(answers, "planted 10 %", {"base": 10_000, "slow": 13_000})
    assert (found["wrong"], turned["wrong"]) == (False, True)
    text = page(answers, tmp_path, found, turned)
    assert "| planted 10 % | 20 % | 2 | 1 of 2, 50.0 % (1.3–98.7) | 1 | 1 of 2, 50.0 % (1.3–98.7) | – | 0 |" in text


def test_a_wrong_word_is_excused_by_its_warning_only(answers, tmp_path: Path) -> None:
    """With one side disturbed, an incorrect verdict with its cause named is counted apart from one without."""
    name = "one-sided: node"
    bare = line(answers, name, {"a": 13_000, "b-node": 10_000})
    pair = bare["pairs"][0] | {"disturbed": "b-node lost 12 % more of its time to others"}
    text = page(answers, tmp_path, bare, bare | {"pairs": [pair]})
    assert "| node | 20 % | 2 | 1 of 2, 50.0 % (1.3–98.7) | 2 | 1 of 2, 50.0 % (1.3–98.7) | 0 | 1.3" in text


def test_pairs_of_a_line_up_that_go_against_the_reference_are_counted(answers, tmp_path: Path) -> None:
    """Three servers, two of which the race has the other way round than the long one; names may come in any order."""
    rates = {"a": 30_000, "b": 20_000, "c": 10_000}
    reference = line(answers, "reference: line-up", rates, duty=0)
    right = line(answers, "line-up", dict(reversed(rates.items())))
    turned = line(answers, "line-up", rates | {"a": 15_000})
    text = page(answers, tmp_path, reference, right, turned)
    assert "| line-up | 20 % | 2 | 2 of 2, 100.0 % (15.8–100.0) | 3 to 3, median 3 | 1 |" in text
    by_another = page(answers, tmp_path, reference, turned | {"metric": "other"})
    assert f"| 3 to 3, median 3 | – (reference by {reference['metric']}) |" in by_another


def test_the_kind_that_is_furthest_behind_comes_next_and_enough_is_enough(answers) -> None:
    """By what is wanted of each; a share in turn of every duty, and none where all are there."""
    kinds = [kind for kind in answers.KINDS if kind.name in ("same: node", "planted 10 %")]
    done: Counter[tuple[str, int]] = Counter()
    for _ in range(3 * 2 + 2):
        kind, duty = answers.following(kinds, done, None)
        done[kind.name, duty] += 1
    assert done == {("same: node", 0): 2, ("same: node", 20): 2, ("same: node", 40): 2, ("planted 10 %", 20): 2}
    assert answers.following(kinds, done, None) is None
    assert answers.following(kinds, done, 7) is not None


def test_a_marked_copy_differs_by_the_way_to_its_file_alone(answers, tmp_path: Path) -> None:
    """So that its processes can be told from its twin's by their command lines, and serve as it does."""
    for name in answers.SERVERS:
        text = (answers.marked(name, tmp_path) / f"b-{name}" / "contender.toml").read_text()
        shipped = (
            BENCHMARKS.parent / "src" / "dragstrip" / "data" / "contenders" / name / "contender.toml"
        ).read_text()
        assert text.replace('name = "b-', 'name = "', 1).replace("/./", "/") == shipped
        assert "/./" in text
