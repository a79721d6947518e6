"""A check's finding: its status, what was seen, of whom, and what to do; what all checks share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

PASS, WARN, VOID = "pass", "warn", "void"
RANK = {PASS: 0, WARN: 1, VOID: 2}

#: What to do about others on the race's cores.
QUIET = "end other programs, or give the race cores of its own (--server-cores, --engine-cores)"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check saw.

    Args:
        seen: in words. remedy: what to do about it, in words; "" where there is nothing to do.
        about: contenders whose numbers it is about; none: the whole race's.
        mark: what stands between the two; after a colon a remedy is told once for all that were seen alike.
    """

    status: str
    seen: str
    remedy: str = ""
    about: tuple[str, ...] = ()
    mark: Literal[":", ";"] = ":"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check on a race.

    Args:
        status: "pass", "warn" or "void"; detail: in a sentence what was seen.
        findings: what was seen above "pass", the worst first; of these the sentence is made.
    """

    check: str
    status: str
    detail: str
    findings: tuple[Finding, ...] = ()

    @property
    def about(self) -> frozenset[str]:
        """Contenders that its findings are about; none: the whole race."""
        return frozenset(name for finding in self.findings for name in finding.about)

    @property
    def remedy(self) -> str:
        """What to do, as its sentence ends; "" where it says nothing of that."""
        return self.findings[-1].remedy if self.findings else ""


def check_result(check: str, findings: Iterable[Finding], otherwise: str) -> Check:
    """The worst status of the findings with all the sentences of it and above "pass"; or ``otherwise``."""
    found = tuple(sorted((one for one in findings if one.status != PASS), key=lambda one: -RANK[one.status]))
    if not found:
        return Check(check=check, status=PASS, detail=otherwise)
    return Check(check=check, status=found[0].status, detail=_joined(found), findings=found)


def _joined(findings: Sequence[Finding]) -> str:
    """All that was seen as one sentence, a remedy after a colon told once for all that were seen alike."""
    parts: dict[str, list[str]] = {}
    for at, one in enumerate(findings):
        key = one.remedy if one.remedy and one.mark == ":" else f"#{at}"
        parts.setdefault(key, []).append(one.seen)
    ends = {key: f": {key}" for key in parts}
    ends |= {f"#{at}": f"{one.mark} {one.remedy}" if one.remedy else "" for at, one in enumerate(findings)}
    return "; ".join(", ".join(seen) + ends[key] for key, seen in parts.items())
