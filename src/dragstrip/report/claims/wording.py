"""The sentences about claims: why a verdict is as it is, what was not equal, how the next race would help."""

from __future__ import annotations

from dragstrip.analysis.unequal_disturbance import Disturbed
from dragstrip.claim.finding import (
    Again,
    ByCpu,
    CountedRun,
    FellOut,
    FewRounds,
    Finding,
    GivenUp,
    Ground,
    MissingHere,
    OtherHttp,
    Remark,
    RunsEnded,
    StandIn,
    Unequal,
    Unfit,
)
from dragstrip.errors import DragstripError
from dragstrip.report.figures import as_percent, two_digits
from dragstrip.report.race.checks import check_text
from dragstrip.report.race.messages import void_text
from dragstrip.report.race.wording import disturbed_text, unfit_text
from dragstrip.validity import Check

_AGAIN = {Again.GO_ON: "continues the race", Again.RACE: "races it again"}

_ENDS = {
    "timeout": "waited {limit:g} s in vain for a response",
    "connect": "never connected",
    "closed_early": "were closed without a response",
    "reset": "were reset",
    "refused": "were refused",
}


def finding_text(finding: Finding) -> str:
    """Why a finding is as it is, and how another race may say more."""
    text = f"{'void: ' if finding.void else ''}{_reason(finding)}"
    if finding.disturbed is not None:
        took = as_percent(finding.disturbed)
        text += f"; the machine was very disturbed, others took {took} of the race's time"
    if finding.again is not None:
        text += f"; `dragstrip claims check {finding.claim.id} --resume` {_AGAIN[finding.again]}"
    return text


def remark_text(remark: Remark) -> str:
    """One thing that was not equal, or that a check saw."""
    match remark:
        case OtherHttp(raced, published):
            return f"over HTTP/{raced}; published over HTTP/{published}"
        case ByCpu(contenders):
            return (
                f"decided by the servers' CPU time per request: the client, not {' or '.join(contenders)}, was the "
                "limit, so that rates under this load, the published ones too, may be the client's own"
            )
        case Unequal(fact, values):
            return f"{fact} not equal: {', '.join(f'{name} {value}' for name, value in values)}"
        case Disturbed():
            return disturbed_text(remark)
        case Check():
            return check_text(remark)


def stand_in_text(stand_in: StandIn) -> str:
    """Names the substitute and the contender that it raced for."""
    return f"{stand_in.raced} raced for {stand_in.missing}, which is missing here"


def _reason(finding: Finding) -> str:
    match finding.reason:
        case Ground() as ground:
            return _ground(ground, finding)
        case RunsEnded() as ended:
            stuck = f"requests were left without a response ({', '.join(ended.stuck)})"
            runs = "; ".join(describe_ends(run) for run in ended.runs)
            return f"{stuck if ended.stuck else 'every run came to its end'}: {runs}"
        case FellOut(contenders):
            return "; ".join(f"{name} is out of the race: {why}" for name, why in contenders)
        case MissingHere(contenders):
            return f"missing {'; '.join(f'{name} ({why})' for name, why in contenders)}"
        case Check() as check:
            return check_text(check)
        case GivenUp(last):
            why = void_text(last) if last else "they were void"
            return f"given up after too many void rounds, the last because: {why}"
        case Unfit(groups):
            return unfit_text(groups)
        case FewRounds(fewest, rounds, contenders, check):
            return f"{fewest} of {rounds} rounds count for {' and '.join(contenders)} ({check_text(check)})"
        case DragstripError() as error:
            return str(error)


def _ground(ground: Ground, finding: Finding) -> str:
    """What the claim and the figures explain."""
    limit, about = as_percent(finding.claim.fields.tolerance), " over ".join(finding.about)
    if ground in (Ground.PEAK_NEAR, Ground.PEAK_FAR):
        (published_per_s,) = finding.claim.fields.published.per_s
        near = ground is Ground.PEAK_NEAR
        size = f"within {limit} of" if near else f"{two_digits(finding.ratio / published_per_s)} times"
        return f"{about} served {size} the published {published_per_s:,.0f} responses per second"
    return {
        Ground.SAME: "the two are the same within the race's margin",
        Ground.UNCLEAR: "the interval includes 1, or the race was too short for one",
        Ground.OTHER_WAY: "the other way round",
        Ground.NO_SIZE: "as claimed; no size was",
        Ground.WITHIN: f"within {limit} of the published ratio",
        Ground.LARGER: "the difference is larger than published",
        Ground.SMALLER: "the difference is smaller than published",
        Ground.ALL_WITHIN: f"all are the same within {limit}; most apart: {about}",
        Ground.ALL_UNCLEAR: f"an interval reaches beyond {limit}; most apart: {about}",
        Ground.NOT_ALL_WITHIN: f"they differ by more than {limit}; most apart: {about}",
        Ground.NO_INTERVAL: "too few rounds for an interval",
        Ground.NO_ROUND: "no round of both counts",
        Ground.NO_ROUND_OF_SOME: "not every pair has a round that counts",
        Ground.NO_COUNTED_RUN: "its run to an exact count has not been made",
        Ground.NOT_CHECKED: f"`dragstrip claims check {finding.claim.id}` does it",
    }[ground]


def describe_ends(run: CountedRun) -> str:
    """How many requests the contender got, over which connections, and how many of these came to which end."""
    reuse = "kept alive" if run.keepalive else "at a time, one for each request"
    asked = f"{run.sent:,} requests over {run.connections:,} connections {reuse}, in {run.duration_s:.1f} s"
    if run.sent < run.requests:
        asked = f"only {asked}, of {run.requests:,} that were to be sent"
    answered, errors = run.answered, {kind: count for kind, count in run.errors.items() if count}
    slowest = f"the slowest after {two_digits(run.longest_s)} s" if answered else ""
    if not errors:
        fate = f"all responses were correct, {slowest}; no connection was refused, reset, closed early or left waiting"
    else:
        some = f"{answered:,} correct responses, {slowest}" if answered else "no correct response"
        limit_s = run.timeout_s
        texts = {kind: _ENDS.get(kind, kind.replace("_", " ")).format(limit=limit_s) for kind in errors}
        lost = ", ".join(f"{count:,} {texts[kind]}" for kind, count in errors.items())
        when = f", {run.late:,} of all these in the run's last twentieth" if run.late else ""
        fate = f"{some}; of the connections {lost}{when}"
    ended = "" if run.finished == "count" else f"; it ended early: {run.finished}"
    return f"{run.contender}: {asked}: {fate}{ended}"
