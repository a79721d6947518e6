"""What was found about a claim is told as tables and exports (schema 1) have told it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dragstrip.analysis import Interval
from dragstrip.contender import Source
from dragstrip.extras.claims.assess import _against
from dragstrip.extras.claims.definition import Claim, ClaimFile, PublishedFields
from dragstrip.extras.claims.finding import Again, ClaimFinding, CountedRun, Outcome, VoidFor
from dragstrip.metrics import PairVerdict

CLAIM = Claim(
    "mine",
    ClaimFile(
        statement="a is twice as fast as b", source="a test", year=2026, kind="ratio", contenders=("a", "b"),
        tolerance=0.1, published=PublishedFields(ratio=2.0),
    ),
    Source(Path("mine.toml"), ""),
)  # fmt: skip

RUN = CountedRun(
    contender="a", requests=10, connections=2, keepalive=True, http="1.1", sent=10, answered=10, errors={},
    late=0, longest_s=0.5, duration_s=1.0, finished="count", stuck=False, timeout_s=10.0,
)  # fmt: skip
RUN_TEXT = (
    "a: 10 requests over 2 connections kept alive, in 1.0 s: all responses were correct, the slowest after 0.5 s; "
    "no connection was refused, reset, closed early or left waiting"
)

STUCK = replace(RUN, answered=9, errors={"timeout": 1}, stuck=True)
STUCK_TEXT = (
    "a: 10 requests over 2 connections kept alive, in 1.0 s: 9 correct responses, the slowest after 0.5 s; "
    "of the connections 1 waited 10 s in vain for a response"
)


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (RUN, RUN_TEXT),
        (STUCK, STUCK_TEXT),
        (replace(STUCK, late=1), f"{STUCK_TEXT}, 1 of all these in the run's last twentieth"),
        (replace(RUN, finished="gave up"), f"{RUN_TEXT}; it ended early: gave up"),
    ],
)
def test_a_run_to_a_count_tells_how_it_ended(run: CountedRun, text: str) -> None:
    assert run.text == text


@pytest.mark.parametrize(
    ("verdict", "low", "high", "outcome", "why"),
    [
        (PairVerdict.SAME, 0.99, 1.01, Outcome.SAME, "the two are the same within the race's margin"),
        (
            PairVerdict.UNDECIDED,
            0.9,
            1.2,
            Outcome.UNDECIDED,
            "the interval includes 1, or the race was too short for one",
        ),
        (PairVerdict.SLOWER, 0.5, 0.6, Outcome.OVERTURNED, "the other way round"),
        (PairVerdict.FASTER, 1.9, 2.1, Outcome.HOLDS, "within 10 % of the published ratio"),
        (PairVerdict.FASTER, 3.0, 3.1, Outcome.DIRECTION, "the difference is larger than published"),
        (PairVerdict.FASTER, 1.2, 1.3, Outcome.DIRECTION, "the difference is smaller than published"),
    ],
)
def test_a_ratio_is_held_against_the_published_one(
    verdict: PairVerdict, low: float, high: float, outcome: Outcome, why: str
) -> None:
    assert _against(CLAIM, verdict, Interval(estimate=(low + high) / 2, low=low, high=high, level=0.95)) == (
        outcome,
        why,
    )


def test_a_further_race_and_what_disturbed_this_one_are_told_behind_the_reason() -> None:
    """The command to run is part of it; a void measurement is called so."""
    found = ClaimFinding(claim=CLAIM, outcome=Outcome.UNDECIDED, why="too few rounds", disturbed=0.23, again=Again.RACE)
    assert found.text == (
        "too few rounds; the machine was very disturbed, others took 23 % of the race's time; "
        "`dragstrip claims check mine --resume` races it again"
    )
    cut_off = ClaimFinding(claim=CLAIM, outcome=Outcome.UNDECIDED, why="too few rounds", again=Again.GO_ON)
    assert cut_off.text.endswith("; `dragstrip claims check mine --resume` continues the race")
    void = ClaimFinding(claim=CLAIM, outcome=Outcome.UNDECIDED, why="the clock was set", void=VoidFor.LASTING)
    assert void.text == "void: the clock was set"
