"""The sentences about claims: why a verdict is as it is, what was not equal, how the next race would help."""

from __future__ import annotations

from dragstrip.claim.finding import (
    Again,
    Against,
    AllSame,
    Apart,
    ByCpu,
    CheckVoids,
    CheckWarns,
    CountedRunMissing,
    DisturbedMore,
    FellOut,
    FewRounds,
    Finding,
    GivenUp,
    MissingHere,
    NoInterval,
    NoRound,
    NotChecked,
    OtherHttp,
    PeakSeen,
    RatioSeen,
    Reason,
    Refused,
    Remark,
    RunsEnded,
    StandIn,
    Unequal,
    Unfit,
)
from dragstrip.report.claims.connection_ends import describe_ends
from dragstrip.report.figures import as_percent, two_digits
from dragstrip.report.race.checks import check_text
from dragstrip.report.race.messages import void_text
from dragstrip.report.race.wording import disturbed_text, unfit_text


def finding_text(finding: Finding) -> str:
    """Why a finding is as it is, and how another race may say more."""
    text = f"{'void: ' if finding.void else ''}{_reason(finding.reason)}"
    if finding.disturbed is not None:
        took = as_percent(finding.disturbed)
        text += f"; the machine was very disturbed, others took {took} of the race's time"
    return text + ("" if finding.again is None else _again(finding.again))


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
        case DisturbedMore(disturbed):
            return disturbed_text(disturbed)
        case CheckWarns(check):
            return check_text(check)


def stand_in_text(stand_in: StandIn) -> str:
    """Who raced for whom."""
    return f"{stand_in.raced} raced for {stand_in.missing}, which is missing here"


def _again(again: Again) -> str:
    does = "goes on with the race" if again.goes_on else "races it again"
    return f"; `dragstrip claims check {again.claim} --resume` {does}"


def _reason(reason: Reason) -> str:
    match reason:
        case RatioSeen(against, tolerance):
            return _ratio(against, tolerance)
        case AllSame() | PeakSeen() | NoInterval() | NoRound():
            return _figures(reason)
        case CountedRunMissing() | RunsEnded():
            return _runs(reason)
        case FellOut() | CheckVoids() | GivenUp() | Unfit() | FewRounds():
            return _void(reason)
        case MissingHere(contenders):
            return f"missing {'; '.join(f'{name} ({why})' for name, why in contenders)}"
        case Refused(message):
            return message
        case NotChecked(claim):
            return f"`dragstrip claims check {claim}` does it"


def _ratio(against: Against, tolerance: float) -> str:
    return {
        Against.SAME: "the two are the same within the race's margin",
        Against.UNCLEAR: "the interval includes 1, or the race was too short for one",
        Against.OTHER_WAY: "the other way round",
        Against.NO_SIZE: "as claimed; no size was",
        Against.WITHIN: f"within {as_percent(tolerance)} of the published ratio",
        Against.LARGER: "the difference is larger than published",
        Against.SMALLER: "the difference is smaller than published",
    }[against]


def _figures(reason: AllSame | PeakSeen | NoInterval | NoRound) -> str:
    match reason:
        case AllSame(apart, tolerance, (a, b)):
            limit = as_percent(tolerance)
            how = {
                Apart.WITHIN: f"all are the same within {limit}",
                Apart.BEYOND: f"they differ by more than {limit}",
                Apart.UNCLEAR: f"an interval reaches beyond {limit}",
            }[apart]
            return f"{how}; most apart: {a} over {b}"
        case PeakSeen(contender, near, tolerance, per_s, published_per_s):
            times = f"{two_digits(per_s / published_per_s)} times"
            size = f"within {as_percent(tolerance)} of" if near else times
            return f"{contender} served {size} the published {published_per_s:,.0f} answers a second"
        case NoInterval():
            return "too few rounds for an interval"
        case NoRound(pairs):
            return "not every pair has a round that counts" if pairs else "no round of both counts"


def _runs(reason: CountedRunMissing | RunsEnded) -> str:
    if isinstance(reason, CountedRunMissing):
        return "its run to an exact count has not been made"
    runs = "; ".join(describe_ends(run) for run in reason.runs)
    if not reason.stuck:
        return f"every run came to its end: {runs}"
    return f"requests were left without an answer ({', '.join(reason.stuck)}): {runs}"


def _void(reason: FellOut | CheckVoids | GivenUp | Unfit | FewRounds) -> str:
    match reason:
        case FellOut(contenders):
            return "; ".join(f"{name} is out of the race: {why}" for name, why in contenders)
        case CheckVoids(check):
            return check_text(check)
        case GivenUp(last):
            why = void_text(last) if last else "they were void"
            return f"given up after too many void rounds, the last because: {why}"
        case Unfit(groups):
            return unfit_text(groups)
        case FewRounds(fewest, rounds, contenders, check):
            return f"{fewest} of {rounds} rounds count for {' and '.join(contenders)} ({check_text(check)})"
