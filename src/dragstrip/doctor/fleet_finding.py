"""What looks at a fleet's machines came to, as values; ``report.fleet`` has the sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class FindingKind(StrEnum):
    """What was looked at."""

    REACHED = "reached"
    CLOCK = "clock"
    LINK = "link"
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one look at one machine came to, as values; ``report.fleet`` has the sentence.

    Args:
        numbers: cores; offset_ns and round_trip_ns of clock and link; share of a core and seconds of idle.
        names: version and user. refused: why it did not pass, where a machine or its agent said so.
    """

    machine: str
    kind: FindingKind
    passed: bool
    numbers: Mapping[str, float] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""
