"""What qualification found of each contender: how to race it, or why it is out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dragstrip.contender import Entry
from dragstrip.racing.calibration import Calibration
from dragstrip.record import Entrant


@dataclass(frozen=True, slots=True, kw_only=True)
class Qualified:
    """A contender that proved its answers and was calibrated.

    Args:
        entry: how to start it; an ad hoc one's has the warm-up that was learned.
        facts: for the parity sheet.
        key: under which this is kept for the next race; None where nothing says that it will be the same then.
    """

    entry: Entry
    version: str
    key: str | None
    facts: Mapping[str, str]
    calibration: Calibration

    @property
    def name(self) -> str:
        """The contender's name."""
        return self.entry.name

    def entrant(self) -> Entrant:
        """For the race's record."""
        return _entrant(self.entry, self.version, self.facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A contender that is missing, did not start, or was not right; the rest as in ``Qualified``.

    Args:
        reason: in words, for a person.
    """

    entry: Entry
    version: str
    key: str | None
    reason: str

    @property
    def name(self) -> str:
        """The contender's name."""
        return self.entry.name

    def entrant(self) -> Entrant:
        """For the race's record."""
        return _entrant(self.entry, self.version, {}, self.reason)


@dataclass(frozen=True, slots=True)
class Qualification:
    """All contenders as they came out of qualification, in the order in which they were named."""

    contenders: tuple[Qualified | Rejected, ...]

    @property
    def ready(self) -> dict[str, Qualified]:
        """Those that can race, by name."""
        return {one.name: one for one in self.contenders if isinstance(one, Qualified)}

    @property
    def rejected(self) -> dict[str, str]:
        """Why the others can't, by name."""
        return {one.name: one.reason for one in self.contenders if isinstance(one, Rejected)}

    def entrants(self) -> tuple[Entrant, ...]:
        """For the race's record."""
        return tuple(one.entrant() for one in self.contenders)


def _entrant(entry: Entry, version: str, facts: Mapping[str, str], out: str = "") -> Entrant:
    return Entrant(
        name=entry.name,
        title=entry.title,
        kind=entry.kind,
        version=version,
        language=entry.language,
        parameters=dict(entry.parameters),
        definition_hash=entry.definition_hash,
        parity=dict(facts),
        out=out,
    )
