"""What races showed about a claim."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from dragstrip.extras.claims.definition import Claim
from dragstrip.quantities import as_percent, two_digits


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


#: What became of a connection, by the kind of its failure.
_ENDS = {
    "timeout": "waited {limit:g} s in vain for a response",
    "connect": "never connected",
    "closed_early": "were closed without a response",
    "reset": "were reset",
    "refused": "were refused",
}


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

    @property
    def text(self) -> str:
        """How many requests the contender got, over which connections, and how many of these came to which end."""
        reuse = "kept alive" if self.keepalive else "at a time, one for each request"
        asked = f"{self.sent:,} requests over {self.connections:,} connections {reuse}, in {self.duration_s:.1f} s"
        if self.sent < self.requests:
            asked = f"only {asked}, of {self.requests:,} that were to be sent"
        answered, errors = self.answered, {kind: count for kind, count in self.errors.items() if count}
        slowest = f"the slowest after {two_digits(self.longest_s)} s" if answered else ""
        if not errors:
            fate = (
                f"all responses were correct, {slowest}; no connection was refused, reset, closed early or left waiting"
            )
        else:
            some = f"{answered:,} correct responses, {slowest}" if answered else "no correct response"
            limit_s = self.timeout_s
            texts = {kind: _ENDS.get(kind, kind.replace("_", " ")).format(limit=limit_s) for kind in errors}
            lost = ", ".join(f"{count:,} {texts[kind]}" for kind, count in errors.items())
            when = f", {self.late:,} of all these in the run's last twentieth" if self.late else ""
            fate = f"{some}; of the connections {lost}{when}"
        ended = "" if self.finished == "count" else f"; it ended early: {self.finished}"
        return f"{self.contender}: {asked}: {fate}{ended}"


class Again(StrEnum):
    """How another race may show more about a claim: what ``claims check --resume`` does."""

    GO_ON = "continues the race"  # that was cut off
    RACE = "races it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFinding:
    """What races showed about a claim in one setting.

    Args:
        why: a sentence about claim and figures; for a void measurement, why it is void.
        ratio, low, high: the first contender's speed over the second's, with its interval (for "peak": responses per
            second); NaN if unknown.
        metric: what the ratio compares; "cpu" if the load generator limited the throughput.
        void: None if the measurement is valid.
        disturbed: share of the race's time that other programs took, if that left it undecided; otherwise None.
        again: set if another race may show more: the cause of a void may pass, the race has too few rounds for an
            interval, or it is undecided on a very disturbed machine; otherwise None.
        race: id of the race it rests on, "" if there is none.
        remarks: what was not equal, what the checks saw; a sentence each.
        stand_ins: substitutes, and the contenders that they raced for; a sentence each.
    """

    claim: Claim
    outcome: Outcome
    why: str
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    metric: str = "throughput"
    void: VoidFor | None = None
    disturbed: float | None = None
    again: Again | None = None
    race: str = ""
    remarks: tuple[str, ...] = ()
    stand_ins: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Why it is as it is, and how another race may say more."""
        text = f"{'void: ' if self.void else ''}{self.why}"
        if self.disturbed is not None:
            took = as_percent(self.disturbed)
            text += f"; the machine was very disturbed, others took {took} of the race's time"
        if self.again is not None:
            text += f"; `dragstrip claims check {self.claim.id} --resume` {self.again}"
        return text


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A claim and its finding in each setting."""

    claim: Claim
    published: ClaimFinding
    fair: ClaimFinding | None
