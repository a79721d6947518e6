"""Which contenders race for a claim: its own, or stand-ins for missing ones, and which are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from dragstrip.contender import Entry, Missing, check, entry, parse_entry, serve_entry
from dragstrip.errors import DragstripError
from dragstrip.extras.claims.definition import Claim


@dataclass(frozen=True, slots=True)
class ClaimContenders:
    """A claim's contenders in one setting.

    Args:
        entries: in the claim's order, without missing contenders.
        stand_ins: by the stand-in's entry name, the claim's word for the missing contender.
        missing: the claim's words for which no contender can race, with the reason.
    """

    entries: tuple[Entry, ...]
    stand_ins: Mapping[str, str]
    missing: Mapping[str, str]


def entry_of(claim: Claim, word: str) -> Entry:
    """The entrant that a claim's word stands for; a server of the claim's own starts in its folder.

    Raises:
        BadUsage: unknown contender or parameter. BadDefinition: its definition is invalid.
    """
    command = claim.fields.serve.get(word)
    return serve_entry(f"{word}={command}", claim.folder) if command else entry(word)


def everyone(claim: Claim, settings: Sequence[str]) -> list[Entry]:
    """All contenders that a claim's races may start, with stand-ins; leaves out invalid words, checks no program."""
    words = [word for setting in settings for word in claim.contenders(setting)]
    words += [other for word in words if (other := claim.stand_in(word))]
    entries = []
    for word in dict.fromkeys(words):
        with suppress(DragstripError):
            entries.append(entry_of(claim, word))
    return entries


def contenders_of(claim: Claim, setting: str) -> ClaimContenders:
    """Checks which contenders can race here now; starts nothing."""
    entries: list[Entry] = []
    stand_ins: dict[str, str] = {}
    missing: dict[str, str] = {}
    for word in claim.contenders(setting):
        ready, why = _ready(claim, word)
        other = claim.stand_in(word) if why else None
        if other:
            ready, _ = _ready(claim, other)
            if ready:
                stand_ins[ready.name] = word
        if ready:
            entries.append(ready)
        else:
            missing[parse_entry(word)[0]] = why
    return ClaimContenders(tuple(entries), stand_ins, missing)


def _ready(claim: Claim, word: str) -> tuple[Entry | None, str]:
    try:
        entrant = entry_of(claim, word)
        state = check(entrant)
    except DragstripError as error:
        return None, str(error)
    return (None, f"{state.reason}; {state.remedy}") if isinstance(state, Missing) else (entrant, "")
