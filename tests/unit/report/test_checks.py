"""What a check saw is told as one sentence, with what to do."""

from __future__ import annotations

import pytest
import samples

from dragstrip import validity
from dragstrip.record import Ending
from dragstrip.validity.check import CheckName, Finding, Status, check_result


def test_a_remedy_is_told_once_for_all_that_were_seen_alike() -> None:
    """After a colon; text after a semicolon is repeated for each."""
    taken = [
        Finding(Status.WARN, f"other programs took up to 10 % of {name}'s time on its cores", "end other programs")
        for name in "ab"
    ]
    text = check_result(CheckName.SERVER_WAIT, taken).detail
    assert text.startswith(
        "other programs took up to 10 % of a's time on its cores, other programs took up to 10 % of b's time"
    )
    assert text.count(": end other programs") == 1
    died = [
        Finding(Status.WARN, f"{name} exited unexpectedly in round 3, 7", "see its log", each=True) for name in "ab"
    ]
    each = [f"{name} exited unexpectedly in round 3, 7; see its log" for name in "ab"]
    assert check_result(CheckName.LAUNCHES, died).detail == "; ".join(each)


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
    assert check.detail.endswith(wanted)


def test_a_program_is_handed_checks_that_tell_their_sentence() -> None:
    """``Result.checks`` has had detail and remedy ever since."""
    for check in validity.inspect(samples.race(rounds=3)):
        assert check.detail
        assert (check.remedy != "") == (check.name in ("rounds", "clock", "steal") and check.status is not Status.PASS)
