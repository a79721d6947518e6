"""Every reason and remark about a claim has its sentence, as tables and exports (schema 1) have had it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import samples

from dragstrip.analysis.fitness import UnfitReason
from dragstrip.analysis.unequal_disturbance import Disturbed
from dragstrip.claim import finding
from dragstrip.claim.definition import Claim, ClaimFile, PublishedFields
from dragstrip.claim.finding import Again, CountedRun, Finding, Ground, Outcome, Reason, VoidFor
from dragstrip.contender import Source
from dragstrip.errors import DragstripError
from dragstrip.record import Void, VoidKind
from dragstrip.report.claims.wording import finding_text, remark_text, stand_in_text

CLAIM = Claim(
    "mine",
    ClaimFile(
        statement="a serves 10 a second", source="a test", year=2026, kind="peak", contenders=("a", "b"),
        tolerance=0.1, published=PublishedFields(per_s=(10.0,)),
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

REASONS: list[tuple[Reason, str, Outcome]] = [
    (
        finding.FellOut((("a", "died"), ("b", "late"))),
        "a is out of the race: died; b is out of the race: late",
        Outcome.CANNOT,
    ),
    (samples.said("clock", "void", "the clock was set"), "the clock was set", Outcome.UNDECIDED),
    (
        finding.GivenUp(Void(kind=VoidKind.CLOCK, numbers={"step_ns": 20_000})),
        "given up after too many void rounds, the last because: clock: it was set by 20 µs during the "
        "block, and arrival times are taken from it",
        Outcome.UNDECIDED,
    ),
    (
        finding.GivenUp(None),
        "given up after too many void rounds, the last because: they were void",
        Outcome.UNDECIDED,
    ),
    (
        finding.Unfit(((UnfitReason.WARMING, ("a", "b")), (UnfitReason.GENERATOR, ("c",)))),
        "still warming up: a, b; limited by the load generator: c",
        Outcome.UNDECIDED,
    ),
    (
        finding.FewRounds(3, 10, ("a", "b"), samples.said("void passes", "pass", "7 void")),
        "3 of 10 rounds count for a and b (7 void)",
        Outcome.UNDECIDED,
    ),
    (finding.RunsEnded((RUN,)), f"every run came to its end: {RUN_TEXT}", Outcome.OVERTURNED),
    (
        finding.RunsEnded((STUCK,)),
        f"requests were left without a response (a): {STUCK_TEXT}",
        Outcome.HOLDS,
    ),
    (
        finding.RunsEnded((STUCK, replace(RUN, contender="b"))),
        f"requests were left without a response (a): {STUCK_TEXT}; b{RUN_TEXT[1:]}",
        Outcome.DIRECTION,
    ),
    (finding.MissingHere((("a", "not installed"),)), "missing a (not installed)", Outcome.CANNOT),
    (DragstripError("no such claim"), "no such claim", Outcome.CANNOT),
]

#: Of a ratio of 2.5, or a rate of 25, over the published 10 a second; the tolerance is 10 %.
GROUNDS: dict[Ground, tuple[str, Outcome]] = {
    Ground.NO_ROUND: ("no round of both counts", Outcome.UNDECIDED),
    Ground.NO_ROUND_OF_SOME: ("not every pair has a round that counts", Outcome.UNDECIDED),
    Ground.SAME: ("the two are the same within the race's margin", Outcome.SAME),
    Ground.UNCLEAR: ("the interval includes 1, or the race was too short for one", Outcome.UNDECIDED),
    Ground.OTHER_WAY: ("the other way round", Outcome.OVERTURNED),
    Ground.NO_SIZE: ("as claimed; no size was", Outcome.HOLDS),
    Ground.WITHIN: ("within 10 % of the published ratio", Outcome.HOLDS),
    Ground.LARGER: ("the difference is larger than published", Outcome.DIRECTION),
    Ground.SMALLER: ("the difference is smaller than published", Outcome.DIRECTION),
    Ground.ALL_WITHIN: ("all are the same within 10 %; most apart: a over b", Outcome.HOLDS),
    Ground.NOT_ALL_WITHIN: ("they differ by more than 10 %; most apart: a over b", Outcome.OVERTURNED),
    Ground.ALL_UNCLEAR: ("an interval reaches beyond 10 %; most apart: a over b", Outcome.UNDECIDED),
    Ground.NO_INTERVAL: ("too few rounds for an interval", Outcome.UNDECIDED),
    Ground.NO_COUNTED_RUN: ("its run to an exact count has not been made", Outcome.UNTRIED),
    Ground.NOT_CHECKED: ("`dragstrip claims check mine` does it", Outcome.UNTRIED),
}
PEAKS: dict[Ground, tuple[str, Outcome]] = {
    Ground.PEAK_NEAR: ("a served within 10 % of the published 10 responses per second", Outcome.HOLDS),
    Ground.PEAK_FAR: ("a served 2.5 times the published 10 responses per second", Outcome.OVERTURNED),
}
FINDINGS = [
    *((Finding(claim=CLAIM, reason=reason), text, outcome) for reason, text, outcome in REASONS),
    *((Finding(claim=CLAIM, reason=ground, about=("a", "b"), ratio=2.5), *said) for ground, said in GROUNDS.items()),
    *((Finding(claim=CLAIM, reason=ground, about=("a",), ratio=25.0), *said) for ground, said in PEAKS.items()),
]


@pytest.mark.parametrize(("found", "text", "outcome"), FINDINGS)
def test_a_reason_is_written_as_it_always_was(found: Finding, text: str, outcome: Outcome) -> None:
    """Alone, and as what voids a measurement."""
    assert (finding_text(found), found.outcome) == (text, outcome)
    assert finding_text(replace(found, void=VoidFor.LASTING)) == f"void: {text}"


def test_every_kind_of_reason_is_in_the_list_above() -> None:
    """A new one needs its sentence."""
    assert {type(reason) for reason, *_ in REASONS} | {Ground} == set(get_args(Reason))
    assert {*GROUNDS, *PEAKS} == set(Ground)


def test_a_further_race_and_what_disturbed_this_one_are_told_behind_the_reason() -> None:
    """The command to run is part of it."""
    found = Finding(claim=CLAIM, reason=Ground.NO_INTERVAL, disturbed=0.23, again=Again.RACE)
    assert finding_text(found) == (
        "too few rounds for an interval; the machine was very disturbed, others took 23 % of the race's time; "
        "`dragstrip claims check mine --resume` races it again"
    )
    cut_off = Finding(claim=CLAIM, reason=Ground.NO_INTERVAL, again=Again.GO_ON)
    assert finding_text(cut_off).endswith("; `dragstrip claims check mine --resume` continues the race")


def test_remarks_and_stand_ins_have_their_sentences() -> None:
    """Differences, the contenders that decided, and the substitutes."""
    assert remark_text(finding.OtherHttp("1.1", "1.0")) == "over HTTP/1.1; published over HTTP/1.0"
    assert remark_text(finding.ByCpu(("a", "b"))) == (
        "decided by the servers' CPU time per request: the client, not a or b, was the limit, so that rates under this "
        "load, the published ones too, may be the client's own"
    )
    unequal = finding.Unequal("header bytes", (("a", "99"), ("b", "246")))
    assert remark_text(unequal) == "header bytes not equal: a 99, b 246"
    seen = Disturbed(more="a", less="b", lost_more=0.06, lost_less=0.01, widened=0.02)
    assert remark_text(seen) == (
        "a was disturbed more than b: other programs and the hypervisor took 6 % of its time, but 1 % of b's; "
        "both ends of the interval were moved out by 2 % to allow for this"
    )
    assert remark_text(samples.said("errors", "warn", "a check's own")) == "a check's own"
    assert stand_in_text(finding.StandIn("a", "b")) == "a raced for b, which is missing here"
