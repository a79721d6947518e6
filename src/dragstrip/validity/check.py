"""A check of a race: its name, its status, its findings and their contenders; what all checks share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum


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
    """What a check saw, in words, and what to do about it.

    Args:
        remedy: "" if there is nothing to do, or if the text contains it.
        each: the remedy follows each of several findings, after a semicolon; otherwise it follows all of them once,
            after a colon.
        contender: whose numbers it is about; "" if it is about the whole race.
        unjudged: it says only that the machine was too disturbed to judge.
    """

    status: Status
    text: str
    remedy: str = ""
    each: bool = field(default=False, kw_only=True)
    contender: str = field(default="", kw_only=True)
    unjudged: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check on a race.

    Args:
        fact: of the parity sheet, which has a check for each fact; "" for all other checks.
        findings: what was seen above "pass", the worst first.
        otherwise: what was seen if nothing is above "pass", in words.
        column: name of the column that it is about; "": all of them.
    """

    name: CheckName
    status: Status
    fact: str = ""
    findings: tuple[Finding, ...] = ()
    otherwise: str = ""
    column: str = ""

    @property
    def label(self) -> str:
        """Its name with the fact of the parity sheet, if it has one."""
        return f"{self.name}, {self.fact}" if self.fact else str(self.name)

    @property
    def about(self) -> frozenset[str]:
        """Contenders that its findings are about; none: the whole race."""
        return frozenset(finding.contender for finding in self.findings if finding.contender)

    @property
    def detail(self) -> str:
        """Its findings as one sentence, with what to do; a remedy after a colon once for all that share it."""
        if not self.findings:
            return self.otherwise
        parts: dict[str, list[str]] = {}
        ends: dict[str, str] = {}
        for at, found in enumerate(self.findings):
            key = found.remedy if found.remedy and not found.each else f"#{at}"
            parts.setdefault(key, []).append(found.text)
            ends[key] = f"{';' if found.each else ':'} {found.remedy}" if found.remedy else ""
        return "; ".join(", ".join(texts) + ends[key] for key, texts in parts.items())

    @property
    def remedy(self) -> str:
        """What to do, as its sentence ends; "" without a remedy."""
        return self.findings[-1].remedy if self.findings else ""


def check_result(name: CheckName, findings: Iterable[Finding], otherwise: str = "", *, fact: str = "") -> Check:
    """The worst status of the findings with all of them above "pass"; or ``otherwise``."""
    bad = [finding for finding in findings if finding.status is not Status.PASS]
    if not bad:
        return Check(name=name, fact=fact, status=Status.PASS, otherwise=otherwise)
    worst_first = tuple(sorted(bad, key=lambda finding: -finding.status.rank))
    return Check(name=name, fact=fact, status=worst_first[0].status, findings=worst_first)
