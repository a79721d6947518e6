"""What a check observed has a sentence, and what a program is handed has it too."""

from __future__ import annotations

import ast
from enum import Enum
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import samples

from dragstrip import validity
from dragstrip.record import Ending
from dragstrip.report.race import checks
from dragstrip.validity import observation
from dragstrip.validity.check import CheckName, Finding, Status, check_result


def test_every_class_of_an_observation_is_in_the_union_that_mypy_checks() -> None:
    """A class outside it would have no sentence, and mypy would not see it; bases are only shared fields."""
    defined = {
        value
        for value in vars(observation).values()
        if isinstance(value, type) and value.__module__ == observation.__name__
    }
    bases = {base for observed in defined for base in observed.__bases__}
    union = set(get_args(observation.Observation))
    kinds = {value for value in defined - union if issubclass(value, Enum)}
    assert defined - bases - kinds <= union
    assert kinds == {hint for observed in union for hint in get_type_hints(observed).values()} & defined
    assert len(kinds) == 6


def test_every_match_of_observations_ends_in_assert_never() -> None:
    """So that mypy names an observation, or a kind of one, that has no sentence: six of the matches are by kind."""
    tree = ast.parse(Path(checks.__file__).read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    matches = [
        (match, function) for function in functions for match in ast.walk(function) if isinstance(match, ast.Match)
    ]
    assert len(matches) == 13
    assert sum(ast.unparse(match.subject) != "observed" for match, _ in matches) == 6
    for match, function in matches:
        assert match is function.body[-2]
        assert ast.unparse(function.body[-1]) == f"assert_never({ast.unparse(match.subject)})"


def test_a_remedy_is_told_once_for_all_that_were_seen_alike() -> None:
    """After a colon; text after a semicolon is repeated for each."""
    kind = observation.OwnShare.SERVER_WAIT_TAKEN
    taken = [Finding(Status.WARN, observation.ContenderShare(name, kind, 0.1)) for name in "ab"]
    text = checks.check_text(check_result(CheckName.SERVER_WAIT, taken))
    assert text.startswith(
        "other programs took up to 10 % of a's time on its cores, other programs took up to 10 % of b's time"
    )
    assert text.count(": end other programs") == 1
    died = [Finding(Status.WARN, observation.Died(name, (3, 7))) for name in "ab"]
    each = [f"{name} exited unexpectedly in round 3, 7; see its log" for name in "ab"]
    assert checks.check_text(check_result(CheckName.LAUNCHES, died)) == "; ".join(each)


@pytest.mark.parametrize(
    ("finished", "wanted"),
    [
        ("budget", "mislead; give it a larger --budget"),
        ("rounds", "mislead; run more of them (--rounds)"),
        ("interrupted", "mislead; continue it (--resume)"),
        ("too few contenders", "mislead"),
    ],
)
def test_too_few_rounds_are_told_what_would_give_more(finished: str, wanted: str) -> None:
    """By what ended the race; of contenders that fell out the report says why."""
    (check,) = (
        one
        for one in validity.inspect(samples.race(rounds=3, finished=Ending(finished)))
        if one.name is CheckName.ROUNDS
    )
    assert checks.check_text(check).endswith(wanted)


def test_a_program_is_handed_checks_that_tell_their_sentence() -> None:
    """``Result.checks`` has had detail and remedy ever since."""
    for check in validity.inspect(samples.race(rounds=3)):
        told = checks.with_text(check)
        assert (told.label, told.status, told.about) == (check.label, check.status, check.about)
        assert told.detail == checks.check_text(check) != ""
        assert (told.remedy != "") == (check.name in ("rounds", "clock", "steal") and check.status is not Status.PASS)
