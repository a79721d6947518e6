"""A check's finding: its status and its sentence; what all checks share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

PASS, WARN, VOID = "pass", "warn", "void"
RANK = {PASS: 0, WARN: 1, VOID: 2}

#: What to do about others on the race's cores.
QUIET = "end other programs, or give the race cores of its own (--server-cores, --engine-cores)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check on a race: ``status`` is "pass", "warn" or "void"; ``detail`` says in a sentence what was seen."""

    check: str
    status: str
    detail: str


def check_result(check: str, findings: Iterable[tuple[str, str]], otherwise: str) -> Check:
    """The worst status of the findings with all the sentences of it and above "pass"; or ``otherwise``."""
    told = [(status, detail) for status, detail in findings if status != PASS]
    if not told:
        return Check(check=check, status=PASS, detail=otherwise)
    told.sort(key=lambda finding: -RANK[finding[0]])
    return Check(check=check, status=told[0][0], detail=_joined([detail for _, detail in told]))


def _joined(details: Sequence[str]) -> str:
    """Sentences of the form "seen: what to do" as one, what to do said once for all that were seen alike."""
    seen: dict[str, list[str]] = {}
    for detail in details:
        before, colon, remedy = detail.rpartition(": ")
        seen.setdefault(colon + remedy, []).append(before)
    return "; ".join(", ".join(parts) + remedy for remedy, parts in seen.items())
