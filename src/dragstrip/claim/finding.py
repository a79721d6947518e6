"""What became of a claim, as values; ``report.claims.wording`` writes the sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

from dragstrip.claim.definition import Claim
from dragstrip.record import Void
from dragstrip.validity.check import Check

if TYPE_CHECKING:
    from dragstrip.analysis.fitness import UnfitReason
    from dragstrip.analysis.unequal_disturbance import Disturbed


class Outcome(StrEnum):
    """The verdict on a claim in one setting, as tables and exports have it."""

    HOLDS = "holds"
    DIRECTION = "holds in direction"
    OVERTURNED = "overturned"
    SAME = "same"
    UNDECIDED = "undecided"
    CANNOT = "can't run here"
    UNTRIED = "not checked yet"


class VoidFor(StrEnum):
    """How a measurement is void: by what may pass until another time, or by what comes again."""

    PASSING = "passing"
    LASTING = "lasting"


@dataclass(frozen=True, slots=True)
class FellOut:
    """Contenders that are out of the race, with the race's reason for each."""

    contenders: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CheckVoids:
    """A check voids the race."""

    check: Check


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The race ended after too many void rounds; ``last``: why the last of them was void, None if unknown."""

    last: Void | None


@dataclass(frozen=True, slots=True)
class Unfit:
    """Nothing of these contenders stands: each reason with those whom it is about."""

    groups: tuple[tuple[UnfitReason, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class FewRounds:
    """So few rounds count for these contenders, of so many; ``check``: that of void passes."""

    fewest: int
    rounds: int
    contenders: tuple[str, ...]
    check: Check


@dataclass(frozen=True, slots=True)
class NoRound:
    """No round of the two counts; with ``pairs``: of some pair of several contenders."""

    pairs: bool


class Against(Enum):
    """A ratio's interval against the published ratio."""

    SAME = "same"
    UNCLEAR = "unclear"
    OTHER_WAY = "other way"
    NO_SIZE = "no size"
    WITHIN = "within"
    LARGER = "larger"
    SMALLER = "smaller"


@dataclass(frozen=True, slots=True)
class RatioSeen:
    """How a ratio stands to the published one; ``tolerance``: the claim's, 0.05 is 5 %."""

    against: Against
    tolerance: float


class Apart(Enum):
    """How far several contenders are apart, against the claim's tolerance."""

    WITHIN = "within"
    BEYOND = "beyond"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class AllSame:
    """Whether several contenders are the same within ``tolerance``; ``most``: the two that are most apart."""

    apart: Apart
    tolerance: float
    most: tuple[str, str]


@dataclass(frozen=True, slots=True)
class PeakSeen:
    """A rate against the published one, both in answers a second; ``near``: within ``tolerance`` of it."""

    contender: str
    near: bool
    tolerance: float
    per_s: float
    published_per_s: float


@dataclass(frozen=True, slots=True)
class NoInterval:
    """Too few rounds for an interval."""


@dataclass(frozen=True, slots=True)
class CountedRunMissing:
    """The run to an exact count that the claim is about has not been made."""


@dataclass(frozen=True, slots=True)
class CountedRun:
    """What became of a run to a count; kept as JSON in an event of the claim's race.

    Args:
        requests, connections: asked for; without keep-alive each request is a connection of its own.
        sent, answered: requests that left, those answered right.
        errors: the rest by kind.
        timeout_s: seconds that one answer, or one attempt to connect, was waited for.
        late: how many failed in the run's last twentieth.
        longest_s: the slowest right answer.
        finished: what ended it: "count", or "gave up" when no connection was left.
        stuck: whether some waited in vain, so that a run without a limit to its waiting would have hung.
    """

    contender: str
    requests: int
    connections: int
    keepalive: bool
    http: str
    sent: int
    answered: int
    errors: Mapping[str, int]
    late: int
    longest_s: float
    duration_s: float
    finished: str
    stuck: bool
    timeout_s: float


@dataclass(frozen=True, slots=True)
class RunsEnded:
    """How runs to an exact count ended; ``stuck``: the contenders that left requests without an answer."""

    stuck: tuple[str, ...]
    runs: tuple[CountedRun, ...]


@dataclass(frozen=True, slots=True)
class MissingHere:
    """Contenders that are missing on this machine, each with the reason."""

    contenders: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The claim can't be acted on; ``message``: the error's own."""

    message: str


@dataclass(frozen=True, slots=True)
class NotChecked:
    """No race has been run for the claim."""

    claim: str


Reason = (
    FellOut
    | CheckVoids
    | GivenUp
    | Unfit
    | FewRounds
    | NoRound
    | RatioSeen
    | AllSame
    | PeakSeen
    | NoInterval
    | CountedRunMissing
    | RunsEnded
    | MissingHere
    | Refused
    | NotChecked
)


@dataclass(frozen=True, slots=True)
class OtherHttp:
    """The race was run over another HTTP version than the published one."""

    raced: str
    published: str


@dataclass(frozen=True, slots=True)
class ByCpu:
    """The client was the limit against these contenders, so the servers' CPU time per request decided."""

    contenders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unequal:
    """A fact of the parity sheet that differs: each contender's value."""

    fact: str
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DisturbedMore:
    """The machine disturbed one of the contenders more than another."""

    disturbed: Disturbed


@dataclass(frozen=True, slots=True)
class CheckWarns:
    """A check of the race that warns, beside the finding."""

    check: Check


Remark = OtherHttp | ByCpu | Unequal | DisturbedMore | CheckWarns


@dataclass(frozen=True, slots=True)
class StandIn:
    """A contender raced for another one, which is missing here."""

    raced: str
    missing: str


@dataclass(frozen=True, slots=True)
class Again:
    """Another race may say more of a claim; ``goes_on``: the one that was cut off goes on, no new one is run."""

    claim: str
    goes_on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of a claim in one setting.

    Args:
        reason: why; of a void measurement what voids it.
        ratio, low, high: the first contender's speed over the second's, with its interval (for "peak": answers a
            second); NaN where there is none.
        metric: what the ratio is of; "cpu" where the load generator was the limit, and throughput its own.
        void: None where the measurement stands.
        disturbed: share of the race's time that others took, where that kept it from being decided; else None.
        again: another race may say more: what voided this one may pass, it has too few rounds for an interval, or it
            is undecided on a very disturbed machine; else None.
        race: id of the race it rests on, "" if there is none.
        remarks: what was not equal, what the checks saw.
        stand_ins: who raced for whom.
    """

    outcome: Outcome
    reason: Reason
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    metric: str = "throughput"
    void: VoidFor | None = None
    disturbed: float | None = None
    again: Again | None = None
    race: str = ""
    remarks: tuple[Remark, ...] = ()
    stand_ins: tuple[StandIn, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A claim and what became of it in each setting."""

    claim: Claim
    published: Finding
    fair: Finding | None
