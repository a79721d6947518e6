"""Every kind of thing a check sees has its sentence, and what a program is handed tells it."""

from __future__ import annotations

import pytest
import samples

from dragstrip import validity
from dragstrip.report.race import checks
from dragstrip.validity.check import Finding, Saw, check_result


def test_every_kind_has_a_sentence() -> None:
    """A new kind needs one; whether it has something to do is its own matter."""
    assert set(checks._SEEN) == set(Saw)
    assert set(checks._REMEDIES) | checks._SEMICOLON <= set(Saw)


def test_a_remedy_is_told_once_for_all_that_were_seen_alike() -> None:
    """After a colon; one that stands after a semicolon is told for each."""
    taken = [Finding("warn", Saw.SERVER_WAIT_TAKEN, (name,), {"taken": 0.1}) for name in "ab"]
    text = checks.check_text(check_result("server wait", taken))
    assert text.startswith("others took up to 10 % of a's time on its cores, others took up to 10 % of b's time")
    assert text.count(": end other programs") == 1
    died = [Finding("warn", Saw.DIED, (name,), {"rounds": [3, 7]}) for name in "ab"]
    each = [f"{name} died before it was told to in round 3, 7; see its log" for name in "ab"]
    assert checks.check_text(check_result("launches", died)) == "; ".join(each)


@pytest.mark.parametrize(
    ("finished", "wanted"),
    [
        ("budget", "mislead; give it a larger --budget"),
        ("rounds", "mislead; fix more of them (--rounds)"),
        ("interrupted", "mislead; go on with it (--resume)"),
        ("too few contenders", "mislead"),
    ],
)
def test_too_few_rounds_are_told_what_would_give_more(finished: str, wanted: str) -> None:
    """By what ended the race; of contenders that fell out the report says why."""
    (check,) = (one for one in validity.inspect(samples.race(rounds=3, finished=finished)) if one.check == "rounds")
    assert checks.check_text(check).endswith(wanted)


def test_a_program_is_handed_checks_that_tell_their_sentence() -> None:
    """``Result.checks`` has had detail and remedy ever since."""
    for check in validity.inspect(samples.race(rounds=3)):
        told = checks.told(check)
        assert (told.check, told.status, told.about) == (check.check, check.status, check.about)
        assert told.detail == checks.check_text(check) != ""
        assert (told.remedy != "") == (check.check in ("rounds", "clock", "steal") and check.status != "pass")
