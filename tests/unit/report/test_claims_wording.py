"""Every reason and remark about a claim has its sentence, as tables and exports (schema 1) have had it."""

from __future__ import annotations

from typing import get_args

import pytest
import samples

from dragstrip.analysis.fitness import UnfitReason
from dragstrip.analysis.unequal_disturbance import Disturbed
from dragstrip.claim import finding
from dragstrip.claim.finding import Again, Against, Apart, CountedRun, Finding, Outcome, VoidFor
from dragstrip.record import Void, VoidKind
from dragstrip.report.claims.wording import finding_text, remark_text, stand_in_text

RUN = CountedRun(
    contender="a", requests=10, connections=2, keepalive=True, http="1.1", sent=10, answered=10, errors={},
    late=0, longest_s=0.5, duration_s=1.0, finished="count", stuck=False, timeout_s=10.0,
)  # fmt: skip
RUN_TEXT = (
    "a: 10 requests over 2 connections kept alive, in 1.0 s: all were answered right, the slowest after 0.5 s; "
    "no connection was refused, reset, closed early or left waiting"
)

REASONS: list[tuple[finding.Reason, str]] = [
    (finding.FellOut((("a", "died"), ("b", "late"))), "a is out of the race: died; b is out of the race: late"),
    (finding.CheckVoids(samples.said("clock", "void", "the clock was set")), "the clock was set"),
    (
        finding.GivenUp(Void(kind=VoidKind.CLOCK, numbers={"step_ns": 20_000})),
        "given up after too many void rounds, the last because: clock: it was set by 20 µs during the "
        "block, and arrival times are taken from it",
    ),
    (finding.GivenUp(None), "given up after too many void rounds, the last because: they were void"),
    (
        finding.Unfit(((UnfitReason.WARMING, ("a", "b")), (UnfitReason.GENERATOR, ("c",)))),
        "still warming up: a, b; limited by the load generator: c",
    ),
    (
        finding.FewRounds(3, 10, ("a", "b"), samples.said("void passes", "pass", "7 void")),
        "3 of 10 rounds count for a and b (7 void)",
    ),
    (finding.NoRound(pairs=False), "no round of both counts"),
    (finding.NoRound(pairs=True), "not every pair has a round that counts"),
    (finding.RatioSeen(Against.SAME, 0.1), "the two are the same within the race's margin"),
    (finding.RatioSeen(Against.UNCLEAR, 0.1), "the interval includes 1, or the race was too short for one"),
    (finding.RatioSeen(Against.OTHER_WAY, 0.1), "the other way round"),
    (finding.RatioSeen(Against.NO_SIZE, 0.1), "as claimed; no size was"),
    (finding.RatioSeen(Against.WITHIN, 0.1), "within 10 % of the published ratio"),
    (finding.RatioSeen(Against.LARGER, 0.1), "the difference is larger than published"),
    (finding.RatioSeen(Against.SMALLER, 0.1), "the difference is smaller than published"),
    (finding.AllSame(Apart.WITHIN, 0.05, ("a", "b")), "all are the same within 5 %; most apart: a over b"),
    (finding.AllSame(Apart.BEYOND, 0.05, ("a", "b")), "they differ by more than 5 %; most apart: a over b"),
    (finding.AllSame(Apart.UNCLEAR, 0.05, ("a", "b")), "an interval reaches beyond 5 %; most apart: a over b"),
    (finding.PeakSeen("a", True, 0.1, 9.5, 10.0), "a served within 10 % of the published 10 answers a second"),
    (
        finding.PeakSeen("a", False, 0.1, 25_000.0, 10_000.0),
        "a served 2.5 times the published 10,000 answers a second",
    ),
    (finding.NoInterval(), "too few rounds for an interval"),
    (finding.CountedRunMissing(), "its run to an exact count has not been made"),
    (finding.RunsEnded((), (RUN,)), f"every run came to its end: {RUN_TEXT}"),
    (finding.RunsEnded(("a",), (RUN,)), f"requests were left without an answer (a): {RUN_TEXT}"),
    (finding.MissingHere((("a", "not installed"),)), "missing a (not installed)"),
    (finding.Refused("no such claim"), "no such claim"),
    (finding.NotChecked("mine"), "`dragstrip claims check mine` does it"),
]


@pytest.mark.parametrize(("reason", "text"), REASONS, ids=lambda value: type(value).__name__)
def test_a_reason_is_written_as_it_always_was(reason: finding.Reason, text: str) -> None:
    """Alone, and as what voids a measurement."""
    assert finding_text(Finding(outcome=Outcome.CANNOT, reason=reason)) == text
    void = Finding(outcome=Outcome.UNDECIDED, reason=reason, void=VoidFor.LASTING)
    assert finding_text(void) == f"void: {text}"


def test_every_kind_of_reason_is_in_the_list_above() -> None:
    """A new one needs its sentence."""
    assert {type(reason) for reason, _ in REASONS} == set(get_args(finding.Reason))


def test_a_further_race_and_what_disturbed_this_one_are_told_behind_the_reason() -> None:
    """The command to run is part of it."""
    reason = finding.NoInterval()
    found = Finding(outcome=Outcome.UNDECIDED, reason=reason, disturbed=0.23, again=Again("mine", goes_on=False))
    assert finding_text(found) == (
        "too few rounds for an interval; the machine was very disturbed, others took 23 % of the race's time; "
        "`dragstrip claims check mine --resume` races it again"
    )
    cut_off = Finding(outcome=Outcome.UNDECIDED, reason=reason, again=Again("mine", goes_on=True))
    assert finding_text(cut_off).endswith("; `dragstrip claims check mine --resume` goes on with the race")


def test_remarks_and_stand_ins_have_their_sentences() -> None:
    """What was not equal, who decided, who raced for whom."""
    assert remark_text(finding.OtherHttp("1.1", "1.0")) == "over HTTP/1.1; published over HTTP/1.0"
    assert remark_text(finding.ByCpu(("a", "b"))) == (
        "decided by the servers' CPU time per request: the client, not a or b, was the limit, so that rates under this "
        "load, the published ones too, may be the client's own"
    )
    unequal = finding.Unequal("header bytes", (("a", "99"), ("b", "246")))
    assert remark_text(unequal) == "header bytes not equal: a 99, b 246"
    seen = Disturbed(more="a", less="b", lost_more=0.06, lost_less=0.01, widened=0.02)
    assert remark_text(finding.DisturbedMore(seen)) == (
        "a was disturbed more than b: other programs and the hypervisor took 6 % of its time, but 1 % of b's; "
        "both ends of the interval were moved out by 2 % to allow for this"
    )
    assert remark_text(finding.CheckWarns(samples.said("errors", "warn", "a check's own"))) == "a check's own"
    assert stand_in_text(finding.StandIn("a", "b")) == "a raced for b, which is missing here"
