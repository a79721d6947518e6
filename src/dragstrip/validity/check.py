"""A check's finding: its status, what was seen, of whom, as values; what all checks share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

PASS, WARN, VOID = "pass", "warn", "void"
RANK = {PASS: 0, WARN: 1, VOID: 2}


class Saw(StrEnum):
    """What a check saw; ``report.race.checks`` has the sentence of each, and what to do about it."""

    ROUNDS = "rounds"
    FEW_ROUNDS = "few rounds"
    OWN_CORES = "own cores"
    SHARED_CORES = "shared cores"
    ENGINE_CORES_USED = "engine cores used"
    GENERATOR_LIMIT = "generator the limit"
    GENERATOR_LIMIT_BY_CPU = "generator the limit, CPU time decides"
    GENERATOR_NEAR = "generator near its limit"
    CEILING_NEAR = "generator's ceiling near"
    ENGINE_WAITED = "engine waited"
    ENGINE_WAITED_SHARED = "engine waited on shared cores"
    ENGINE_WAIT_TAKEN = "engine waited for others"
    SERVER_WAIT_SHARED = "server wait on shared cores"
    SERVER_WAIT_MOST = "most of any server's wait"
    SERVER_WAIT_TAKEN = "server waited for others"
    STEAL = "steal"
    ADDS_UP = "adds up"
    ACCOUNTING_FAULTS = "accounting faults"
    NO_ERRORS = "no errors"
    ERRORS = "errors"
    LITTLE_OPEN_LOOP = "Little's law in an open loop"
    LITTLE_HOLDS = "Little's law holds"
    LITTLE_RECONNECTS = "Little's law with reconnects"
    LITTLE_OFF = "off Little's law"
    TURN_OPEN_LOOP = "turn-round in an open loop"
    TURN_MOST = "longest turn-round"
    TURN_LONG = "long turn-round"
    OFFERED = "offered"
    NOT_SUSTAINED = "not sustained"
    LEFT_LATE = "left late"
    SATURATED = "saturated"
    NOT_SATURATED = "not saturated"
    LAUNCHES_ALIKE = "launches alike"
    DIED = "died"
    UNSETTLED = "unsettled"
    SHAPES = "shapes"
    SLOW_LAUNCHES = "slow launches"
    TWO_KINDS = "two kinds"
    ALREADY_RUNNING = "already running"
    NO_TREND = "no trend"
    TREND = "trend"
    VOID_PASSES = "void passes"
    MANY_VOID_PASSES = "many void passes"
    NO_INTRUDERS = "no intruders"
    INTRUDERS = "intruders"
    STEADY = "steady"
    HEAT = "heat"
    FREQUENCY = "frequency"
    PACE = "pace"
    MEMORY_STEADY = "memory steady"
    GROWING = "growing"
    BLOCKS_ALIKE = "blocks alike"
    UNEQUAL_BLOCKS = "unequal blocks"
    CONNECTIONS_AS_ASKED = "connections as asked"
    CLOSED = "closed"
    REUSED = "reused"
    NO_OWN_COUNT = "no own count"
    COUNTED_ALIKE = "counted alike"
    MISCOUNTED = "miscounted"
    AS_LONG = "as long"
    SHORTER = "shorter"
    DATABASE_ASKED = "database asked"
    DATABASE_LIMIT = "database the limit"
    DATABASE_MISCOUNTED = "database miscounted"
    LINKS_CALM = "links calm"
    LINK_FULL = "link full"
    RETRANSMITTED = "retransmitted"
    ROUND_TRIP = "round trip"
    INTERRUPTS = "interrupts"
    UNEVEN = "uneven"
    NO_TILT = "no tilt"
    FRAMING = "framing"
    SIZE = "size"
    VERSIONS = "versions"
    TLS = "tls"
    DOUBLED = "doubled"
    LOGGING = "logging"
    COMPRESSION = "compression"
    ROOT = "root"
    ROUTING = "routing"
    NOTE = "note"
    CLOSES = "closes"
    CLOSES_OLD = "closes old"
    CORES = "cores"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check saw, as values; ``report`` writes the sentence.

    Args:
        kind: what was seen.
        about: contenders whose numbers it is about; none: the whole race's.
        values: what was measured, by name; which names a kind has, its sentence's arguments say.
    """

    status: str
    kind: Saw
    about: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check on a race.

    Args:
        status: "pass", "warn" or "void".
        findings: what was seen above "pass", the worst first.
        otherwise: what was seen where nothing is above "pass".
        column: of a race of several columns: in which.
    """

    check: str
    status: str
    findings: tuple[Finding, ...] = ()
    otherwise: Finding | None = None
    column: str = ""

    @property
    def about(self) -> frozenset[str]:
        """Contenders that its findings are about; none: the whole race."""
        return frozenset(name for finding in self.findings for name in finding.about)


def check_result(check: str, findings: Iterable[Finding], otherwise: Finding | None = None) -> Check:
    """The worst status of the findings with all of them above "pass"; or ``otherwise``."""
    found = tuple(sorted((one for one in findings if one.status != PASS), key=lambda one: -RANK[one.status]))
    if not found:
        return Check(check=check, status=PASS, otherwise=otherwise)
    return Check(check=check, status=found[0].status, findings=found)


def passed(kind: Saw, **values: Any) -> Finding:
    """What a check saw where nothing is above "pass"."""
    return Finding(PASS, kind, values=values)
