"""A check of a race: its name, its status, its findings and their contenders; what all checks share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from dragstrip.validity.observation import Observation, OfContender


class Status(StrEnum):
    """What a check concludes about a race, or a finding about its subject; the worst is last."""

    PASS = "pass"
    WARN = "warn"
    VOID = "void"

    @property
    def rank(self) -> int:
        """How bad it is."""
        return tuple(Status).index(self)


class CheckName(StrEnum):
    """The checks, in the order of the page."""

    ROUNDS = "rounds"
    LANES = "lanes"
    GENERATOR = "generator"
    ENGINE_WAIT = "engine wait"
    SERVER_WAIT = "server wait"
    STEAL = "steal"
    ACCOUNTING = "accounting"
    ERRORS = "errors"
    LITTLES_LAW = "Little's law"
    TURNAROUND = "turnaround"
    OFFERED_RATE = "offered rate"
    SATURATION = "saturation"
    LAUNCHES = "launches"
    TREND = "trend"
    VOID_PASSES = "void passes"
    OTHER_PROGRAMS = "other programs"
    CLOCK = "clock"
    MEMORY = "memory"
    BLOCK_LENGTH = "block length"
    CONNECTIONS = "connections"
    SERVERS_COUNT = "server's count"
    ANSWERS_LENGTH = "answers' length"
    DATABASE = "database"
    LINKS = "links"
    PARITY = "parity"


@dataclass(frozen=True, slots=True)
class Finding:
    """An observation that a check judged; ``report`` writes the sentence."""

    status: Status
    observation: Observation

    @property
    def contender(self) -> str:
        """The contender whose numbers it is about; "" if it is about the whole race."""
        return self.observation.contender if isinstance(self.observation, OfContender) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check on a race.

    Args:
        fact: of the parity sheet, which has a check for each fact; "" for all other checks.
        findings: what was seen above "pass", the worst first.
        otherwise: what was seen if nothing is above "pass".
        column: name of the column that it is about; "": all of them.
    """

    name: CheckName
    status: Status
    fact: str = ""
    findings: tuple[Finding, ...] = ()
    otherwise: Observation | None = None
    column: str = ""

    @property
    def label(self) -> str:
        """Its name with the fact of the parity sheet, if it has one."""
        return f"{self.name}, {self.fact}" if self.fact else str(self.name)

    @property
    def about(self) -> frozenset[str]:
        """Contenders that its findings are about; none: the whole race."""
        return frozenset(finding.contender for finding in self.findings if finding.contender)


def warnings(observed: Iterable[Observation]) -> list[Finding]:
    """Each as a finding that is worth a warning."""
    return [Finding(Status.WARN, observation) for observation in observed]


def check_result(
    name: CheckName, findings: Iterable[Finding], otherwise: Observation | None = None, *, fact: str = ""
) -> Check:
    """The worst status of the findings with all of them above "pass"; or ``otherwise``."""
    bad = [finding for finding in findings if finding.status is not Status.PASS]
    if not bad:
        return Check(name=name, fact=fact, status=Status.PASS, otherwise=otherwise)
    worst_first = tuple(sorted(bad, key=lambda finding: -finding.status.rank))
    return Check(name=name, fact=fact, status=worst_first[0].status, findings=worst_first)
