"""What races showed about a claim, as values; ``report.claims.wording`` writes the sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from dragstrip.analysis.fitness import UnfitReason
from dragstrip.analysis.unequal_disturbance import Disturbed
from dragstrip.claim.definition import Claim
from dragstrip.errors import DragstripError
from dragstrip.record import Void
from dragstrip.validity.check import Check


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
    """How a measurement is void: its cause may pass, or will come again."""

    PASSING = "passing"
    LASTING = "lasting"


class Ground(Enum):
    """A reason that the claim and the finding's own figures explain, with its verdict.

    A ratio's interval is compared with the published ratio, intervals of several contenders with the claim's tolerance.
    """

    SAME = "same", Outcome.SAME
    UNCLEAR = "unclear", Outcome.UNDECIDED
    OTHER_WAY = "other way", Outcome.OVERTURNED
    NO_SIZE = "no size", Outcome.HOLDS
    WITHIN = "within", Outcome.HOLDS
    LARGER = "larger", Outcome.DIRECTION
    SMALLER = "smaller", Outcome.DIRECTION
    ALL_WITHIN = "all within", Outcome.HOLDS
    ALL_UNCLEAR = "all unclear", Outcome.UNDECIDED
    NOT_ALL_WITHIN = "not all", Outcome.OVERTURNED
    PEAK_NEAR = "peak near", Outcome.HOLDS
    PEAK_FAR = "peak far", Outcome.OVERTURNED
    NO_INTERVAL = "no interval", Outcome.UNDECIDED
    NO_ROUND = "no round", Outcome.UNDECIDED
    NO_ROUND_OF_SOME = "some unraced", Outcome.UNDECIDED
    NO_COUNTED_RUN = "not counted", Outcome.UNTRIED
    NOT_CHECKED = "not checked", Outcome.UNTRIED

    @property
    def outcome(self) -> Outcome:
        """The verdict that it leads to."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class FellOut:
    """Contenders that are out of the race, with the race's reason for each."""

    contenders: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class MissingHere:
    """Contenders that are missing on this machine, each with the reason."""

    contenders: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The race ended after too many void rounds; ``last``: why the last of them was void, None if unknown."""

    last: Void | None


@dataclass(frozen=True, slots=True)
class Unfit:
    """No measurement of these contenders is valid: each reason with the contenders that it is about."""

    groups: tuple[tuple[UnfitReason, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class FewRounds:
    """Only ``fewest`` of ``rounds`` count for these contenders; ``check``: the check of void passes."""

    fewest: int
    rounds: int
    contenders: tuple[str, ...]
    check: Check


@dataclass(frozen=True, slots=True)
class CountedRun:
    """The result of a run to a count; kept as JSON in an event of the claim's race.

    Args:
        requests, connections: requested; without keep-alive each request has its own connection.
        sent, answered: requests sent, and correct responses.
        errors: failures by kind.
        timeout_s: seconds to wait for a response or a connection.
        late: how many failed in the run's last twentieth.
        longest_s: latency of the slowest correct response.
        finished: what ended it: "count", or "gave up" when no connection was left.
        stuck: whether some requests got no response, so that a run without a time limit would have hung.
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
    """How each contender's run to an exact count ended."""

    runs: tuple[CountedRun, ...]

    @property
    def stuck(self) -> tuple[str, ...]:
        """Contenders that left requests without a response."""
        return tuple(run.contender for run in self.runs if run.stuck)

    @property
    def outcome(self) -> Outcome:
        """Whether all, some or none of the runs got stuck."""
        if not self.stuck:
            return Outcome.OVERTURNED
        return Outcome.HOLDS if len(self.stuck) == len(self.runs) else Outcome.DIRECTION


#: A check voids the race; an error is why the claim can't be acted on.
Reason = Ground | RunsEnded | Check | GivenUp | Unfit | FewRounds | FellOut | MissingHere | DragstripError


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


#: What was not equal, or a check that warns.
Remark = OtherHttp | ByCpu | Unequal | Disturbed | Check


@dataclass(frozen=True, slots=True)
class StandIn:
    """A contender raced for another one, which is missing here."""

    raced: str
    missing: str


class Again(Enum):
    """How another race may show more about a claim."""

    GO_ON = "go on"  # continue the race that was cut off
    RACE = "race again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What races showed about a claim in one setting.

    Args:
        reason: why; for a void measurement, why it is void.
        about: contenders of the figures: the ratio's two (of several, the pair that differs most), or the rate's.
        ratio, low, high: the first contender's speed over the second's, with its interval (for "peak": responses per
            second); NaN if unknown.
        metric: what the ratio compares; "cpu" if the load generator limited the throughput.
        void: None if the measurement is valid.
        disturbed: share of the race's time that other programs took, if that left it undecided; otherwise None.
        again: set if another race may show more: the cause of a void may pass, the race has too few rounds for an
            interval, or it is undecided on a very disturbed machine; otherwise None.
        race: id of the race it rests on, "" if there is none.
        remarks: what was not equal, what the checks saw.
        stand_ins: substitutes, and the contenders that they raced for.
    """

    claim: Claim
    reason: Reason
    about: tuple[str, ...] = ()
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

    @property
    def outcome(self) -> Outcome:
        """The verdict that the reason leads to."""
        match self.reason:
            case Ground() | RunsEnded():
                return self.reason.outcome
            case FellOut() | MissingHere() | DragstripError():
                return Outcome.CANNOT
            case _:
                return Outcome.UNDECIDED


@dataclass(frozen=True, slots=True)
class Row:
    """A claim and its finding in each setting."""

    claim: Claim
    published: Finding
    fair: Finding | None
