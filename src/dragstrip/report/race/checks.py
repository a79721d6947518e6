"""A check as a sentence: what it saw and, if something can be done, what to do. Values in, text out."""

from __future__ import annotations

from dataclasses import fields

from dragstrip.report.race.observations import sentence
from dragstrip.validity.check import Check


class CheckWithText(Check):
    """A check with its sentences, as ``dragstrip.Result.checks`` hands it to a program."""

    __slots__ = ()

    @property
    def detail(self) -> str:
        """In a sentence what was seen."""
        return check_text(self)

    @property
    def remedy(self) -> str:
        """What to do, as its sentence ends; "" if it says nothing of that."""
        return check_remedy(self)


def with_text(check: Check) -> CheckWithText:
    """A check with its sentences."""
    return CheckWithText(**{field.name: getattr(check, field.name) for field in fields(check)})


def check_text(check: Check) -> str:
    """All that a check saw as one sentence, with what to do; a remedy after a colon once for all seen alike."""
    if not check.findings:
        return sentence(check.otherwise).text if check.otherwise else ""
    parts: dict[str, list[str]] = {}
    ends: dict[str, str] = {}
    for at, said in enumerate(sentence(finding.seen) for finding in check.findings):
        key = said.remedy if said.remedy and not said.each else f"#{at}"
        parts.setdefault(key, []).append(said.text)
        ends[key] = f"{';' if said.each else ':'} {said.remedy}" if said.remedy else ""
    return "; ".join(", ".join(texts) + ends[key] for key, texts in parts.items())


def check_remedy(check: Check) -> str:
    """What to do, as a check's sentence ends; "" if it says nothing of that."""
    return sentence(check.findings[-1].seen).remedy if check.findings else ""
