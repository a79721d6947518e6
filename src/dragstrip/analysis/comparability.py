"""What keeps two races from being compared, and what a reader of such a comparison must know. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from dragstrip.record import Entrant, Load, Race

#: Facts without which the two numbers are of two different things.
BLOCKING_FACTS = ("cpu", "architecture", "virtual", "cores_usable", "engine_io")

#: Facts that may move a number by a little.
TELLING_FACTS = (
    "engine_wait",
    "awake",
    "kernel",
    "distribution",
    "governor",
    "turbo",
    "frequency_max_khz",
    "memory_bytes",
    "mitigations",
    "clock_source",
    "container",
)


#: Parts of the names of facts on the parity sheet that are no settings.
NO_SETTING = ("per 1000", "scrutineering")


@dataclass(frozen=True, slots=True)
class Unlike:
    """One thing in which two races differ.

    Args:
        weight: "blocks" (no comparison without being told to), "caveat" (may move the ratio by a little) or
            "change" (what the comparison may be about: a version, a definition, a fact of the parity sheet).
        text: what was, and what is.
    """

    weight: str
    text: str


def unlike(old: Race, new: Race) -> tuple[Unlike, ...]:
    """All that differs and matters, the weightiest first."""
    found = [*_plans(old, new), *_machines(old, new), *_contenders(old, new)]
    return tuple(sorted(found, key=lambda one: ("blocks", "caveat", "change").index(one.weight)))


def _plans(old: Race, new: Race) -> Iterator[Unlike]:
    if old.workload != new.workload:
        yield Unlike("blocks", f"workload: {old.workload}, then {new.workload}")
    if old.method != new.method:
        yield Unlike("blocks", f"version of the method: {old.method}, then {new.method}")
    for field in fields(Load):
        before, after = getattr(old.load, field.name), getattr(new.load, field.name)
        if before != after:
            yield Unlike("blocks", f"load, {field.name.replace('_', ' ')}: {before}, then {after}")
    for lane in ("server_cores", "engine_cores"):
        before, after = getattr(old, lane), getattr(new, lane)
        name = lane.replace("_", " ")
        if len(before) != len(after):
            yield Unlike("blocks", f"{name}: {len(before)}, then {len(after)}")
        elif before != after:
            yield Unlike("caveat", f"{name}: {_listed(before)}, then {_listed(after)}")
    if old.plan.counted_ns != new.plan.counted_ns:
        before, after = (race.plan.counted_ns / 1e6 for race in (old, new))
        yield Unlike("caveat", f"counted part of a block: {before:g} ms, then {after:g} ms")
    if old.software != new.software:
        yield Unlike("caveat", f"Dragstrip: {old.software}, then {new.software}")


def _machines(old: Race, new: Race) -> Iterator[Unlike]:
    for weight, names in (("blocks", BLOCKING_FACTS), ("caveat", TELLING_FACTS)):
        for name in names:
            before, after = old.machine.get(name), new.machine.get(name)
            if before != after and before is not None and after is not None:
                yield Unlike(weight, f"machine, {name.replace('_', ' ')}: {_short(before)}, then {_short(after)}")
    if not old.machine.get("cpu") or not new.machine.get("cpu"):
        yield Unlike("caveat", "the processor is not known of both races: they may be of two machines")


def _contenders(old: Race, new: Race) -> Iterator[Unlike]:
    before = {entrant.name: entrant for entrant in old.entrants}
    for entrant in new.entrants:
        if entrant.name in before:
            yield from _changes(before[entrant.name], entrant)


def _changes(old: Entrant, new: Entrant) -> Iterator[Unlike]:
    if old.version != new.version:
        yield Unlike("change", f"{new.name}, version: {old.version or 'unknown'}, then {new.version or 'unknown'}")
    if old.definition_hash != new.definition_hash:
        yield Unlike("change", f"{new.name}: its definition changed")
    for fact in dict.fromkeys((*old.parity, *new.parity)):
        ours, theirs = old.parity.get(fact), new.parity.get(fact)
        # Reconnections differ a little from one calibration to the next, and when it was proved says nothing.
        if ours != theirs and ours is not None and theirs is not None and not any(part in fact for part in NO_SETTING):
            yield Unlike("change", f"{new.name}, {fact}: {ours}, then {theirs}")


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


def _listed(cores: Sequence[int]) -> str:
    return ",".join(map(str, cores))


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return "some" if value else "none"
    text = str(value)
    return text if len(text) < 60 else f"{text[:57]}…"
