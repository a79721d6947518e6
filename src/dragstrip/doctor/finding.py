"""What an examination of the machine found, as values; ``report.doctor`` writes the sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dragstrip.machine_facts import Facts
from dragstrip.store import machine_profile

PASS, WARN, FAIL = "pass", "warn", "fail"


class Subject(StrEnum):
    """What was looked at, as the report names it."""

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
    CEILING = machine_profile.CEILING
    NULL_RACE = machine_profile.NULL_RACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at: ``status`` is "pass", "warn" or "fail".

    Args:
        numbers: what was measured, by name with its unit last; JSON-able, kept and exported.
        values: what else its sentence tells; which names there are, the sentence's own function in ``report.doctor``
            shows. ``refused`` holds the engine's own message where something could not be measured.
    """

    subject: Subject
    status: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All findings, when and on what they were made."""

    at: str
    software: str
    machine: Facts
    server_cores: tuple[int, ...]
    engine_cores: tuple[int, ...]
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> bool:
        """Something keeps races from being worth anything here."""
        return any(finding.status == FAIL for finding in self.findings)
