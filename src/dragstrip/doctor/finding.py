"""What an examination of this machine, or of a fleet's machines, found."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from dragstrip.machine_facts import Facts
from dragstrip.store import machine_profile
from dragstrip.store.json_values import JsonObject


class DoctorStatus(StrEnum):
    """Whether the examined subject is fit for races."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"


class Subject(StrEnum):
    """What was examined, as the report names it."""

    CORES = "cores"
    HARDWARE_THREADS = "hardware threads"
    CLOCK = "clock"
    GOVERNOR = "governor"
    DESCRIPTORS = "descriptors"
    PORTS = "ports"
    BACKLOG = "backlog"
    IO_URING = "io_uring"
    OTHER_PROGRAMS = "other programs"
    STEAL = "steal"
    NOISE = "noise"
    AWAKE = "awake"
    BUBBLEWRAP = "bubblewrap"
    USER_NAMESPACES = "user namespaces"
    ENGINES = "container engines"
    SUBORDINATE_IDS = "subordinate ids"
    CEILING = machine_profile.CEILING
    NULL_RACE = machine_profile.NULL_RACE


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of one examination of this machine.

    Args:
        text: what was seen, in words.
        remedy: what would mend it; "" if nothing needs to be mended, or nothing would mend it.
        numbers: what was measured, by name with its unit last.
    """

    subject: Subject
    status: DoctorStatus
    text: str
    remedy: str = ""
    numbers: JsonObject = field(default_factory=dict)


def judged(
    subject: Subject, passed: bool, text: str, remedy: str = "", numbers: JsonObject | None = None
) -> DoctorFinding:
    """A finding that passes, or warns and then has a remedy."""
    status = DoctorStatus.PASS if passed else DoctorStatus.WARN
    return DoctorFinding(subject, status, text, "" if passed else remedy, numbers or {})


def not_measured(subject: Subject, refused: str) -> DoctorFinding:
    """Something could not be measured; ``refused``: the engine's message."""
    return DoctorFinding(subject, DoctorStatus.FAIL, f"it could not be measured: {refused}", "see there")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All findings, with their time and machine."""

    at: str
    software: str
    machine: Facts
    server_cores: tuple[int, ...]
    engine_cores: tuple[int, ...]
    findings: tuple[DoctorFinding, ...]

    @property
    def failed(self) -> bool:
        """Whether something on this machine makes races worthless."""
        return any(finding.status is DoctorStatus.FAIL for finding in self.findings)


class FleetSubject(StrEnum):
    """What was examined on a machine of a fleet."""

    REACHED = "reached"
    CLOCK = "clock"
    LINK = "link"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class FleetFinding:
    """The result of one examination of a machine of a fleet; ``text``: what was seen, in words."""

    machine: str
    subject: FleetSubject
    passed: bool
    text: str
