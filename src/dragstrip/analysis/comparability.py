"""What keeps two races from being compared, and what a reader of such a comparison must know. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Literal

from dragstrip.record import Entrant, Load, Race
from dragstrip.requested import differences, title_of, typed_as

#: Facts of the machine without which two numbers are of two different things.
_BLOCKING = ("cpu", "architecture", "virtual", "cores_usable", "engine_io")

#: Facts that may move a number by a little.
_CAVEATS = (
    "engine_wait", "awake", "kernel", "distribution", "governor", "turbo", "frequency_max_khz", "memory_bytes",
    "mitigations", "clock_source", "container",
)  # fmt: skip

#: Facts of the parity sheet whose names contain one of these are results, not settings.
NO_SETTING = ("per 1000", "scrutineering")


Weight = Literal["blocks", "caveat", "change"]
_WEIGHTS: tuple[Weight, ...] = ("blocks", "caveat", "change")


class Differs(StrEnum):
    """In what two races differ; ``report.comparison`` has the words."""

    METHOD = "method"
    WORKLOAD = "workload"
    REQUEST = "request"
    LOAD = "load"
    CORE_COUNT = "core count"
    CORES = "cores"
    COUNTED = "counted part"
    SOFTWARE = "software"
    MACHINE = "machine"
    PROCESSOR_UNKNOWN = "processor unknown"
    VERSION = "version"
    DEFINITION = "definition"
    PARITY = "parity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlike:
    """One thing in which two races differ.

    Args:
        weight: "blocks" (no comparison unless forced), "caveat" (may move the ratio by a little) or
            "change" (what the comparison may be about: a version, a definition, a fact of the parity sheet).
        subject: the workload's part, the field of the load, the lane, the machine's fact or the parity sheet's; "" if
            there is only one.
        contender: the contender that differs; "" for a difference of the whole race.
        before, after: the value in each race; None if naming the difference is enough.
    """

    weight: Weight
    what: Differs
    subject: str = ""
    contender: str = ""
    before: object = None
    after: object = None


def unlike(old: Race, new: Race) -> tuple[Unlike, ...]:
    """All that differs and matters, the weightiest first."""
    differences = [*_plans(old, new), *_machines(old, new)]
    before = {entrant.name: entrant for entrant in old.entrants}
    for entrant in new.entrants:
        if entrant.name in before:
            differences += _changes(before[entrant.name], entrant)
    return tuple(sorted(differences, key=lambda difference: _WEIGHTS.index(difference.weight)))


def _plans(old: Race, new: Race) -> Iterator[Unlike]:
    if old.method != new.method:
        yield Unlike(weight="blocks", what=Differs.METHOD, before=old.method, after=new.method)
    if old.workload != new.workload:
        yield Unlike(weight="blocks", what=Differs.WORKLOAD, before=_requested(old), after=_requested(new))
    then, now = ({column.workload: column.definition for column in race.columns} for race in (old, new))
    for name in then.keys() & now.keys():
        for what, *values in differences(then[name], now[name]):
            weight: Weight = "caveat" if what.endswith("compared") else "blocks"
            subject = f"{typed_as(now[name]) or name}, {what}"
            yield Unlike(weight=weight, what=Differs.REQUEST, subject=subject, before=values[0], after=values[1])
    for field in fields(Load):
        before, after = getattr(old.load, field.name), getattr(new.load, field.name)
        if before != after:
            yield Unlike(weight="blocks", what=Differs.LOAD, subject=field.name, before=before, after=after)
    for lane in ("server_cores", "engine_cores"):
        before, after = getattr(old, lane), getattr(new, lane)
        if len(before) != len(after):
            was, is_now = len(before), len(after)
            yield Unlike(weight="blocks", what=Differs.CORE_COUNT, subject=lane, before=was, after=is_now)
        elif before != after:
            yield Unlike(weight="caveat", what=Differs.CORES, subject=lane, before=before, after=after)
    if old.plan.counted_ns != new.plan.counted_ns:
        before, after = old.plan.counted_ns, new.plan.counted_ns
        yield Unlike(weight="caveat", what=Differs.COUNTED, before=before, after=after)
    if old.software != new.software:
        yield Unlike(weight="caveat", what=Differs.SOFTWARE, before=old.software, after=new.software)


def _requested(race: Race) -> str:
    return ", ".join(dict.fromkeys(title_of(column.workload, column.definition) for column in race.columns))


def _machines(old: Race, new: Race) -> Iterator[Unlike]:
    facts: list[tuple[Weight, str]] = [("blocks", name) for name in _BLOCKING]
    facts += [("caveat", name) for name in _CAVEATS]
    for weight, name in facts:
        before, after = getattr(old.machine, name), getattr(new.machine, name)
        if before != after and before is not None and after is not None:
            yield Unlike(weight=weight, what=Differs.MACHINE, subject=name, before=before, after=after)
    if not old.machine.cpu or not new.machine.cpu:
        yield Unlike(weight="caveat", what=Differs.PROCESSOR_UNKNOWN)


def _changes(old: Entrant, new: Entrant) -> Iterator[Unlike]:
    if old.version != new.version:
        was, is_now = old.version or None, new.version or None
        yield Unlike(weight="change", what=Differs.VERSION, contender=new.name, before=was, after=is_now)
    if old.definition_hash != new.definition_hash:
        yield Unlike(weight="change", what=Differs.DEFINITION, contender=new.name)
    for fact in dict.fromkeys((*old.parity, *new.parity)):
        ours, theirs = old.parity.get(fact), new.parity.get(fact)
        # Reconnections differ a little from one calibration to the next, and when it was proved does not matter.
        if ours != theirs and ours is not None and theirs is not None and not any(part in fact for part in NO_SETTING):
            yield Unlike(
                weight="change", what=Differs.PARITY, subject=fact, contender=new.name, before=ours, after=theirs
            )


def unchanged(old: Race, new: Race) -> tuple[str, ...]:
    """Shipped contenders in both races, of one definition, version and setting: whatever they differ in, the machine
    did. A command of one's own is none: what it starts may have changed under the same words.
    """
    before = {entrant.name: entrant for entrant in old.entrants if not entrant.out}
    return tuple(
        entrant.name
        for entrant in new.entrants
        if not entrant.out
        and entrant.kind == "definition"
        and entrant.version
        and (was := before.get(entrant.name))
        and (was.kind, was.version, was.definition_hash) == (entrant.kind, entrant.version, entrant.definition_hash)
        and dict(was.parameters) == dict(entrant.parameters)
    )
