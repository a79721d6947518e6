"""What tilts a race though all answers are right: read off the parity sheet, a sentence for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from dragstrip.record import Race

#: Bytes by which two right answers may differ before it is worth a word: more than a Date header.
SIZE_BYTES = 64

#: Cores by which two contenders may differ in what they keep busy.
CORES = 0.3

_OFF = re.compile(r"(off|none|no)\b", re.IGNORECASE)

Sheet = tuple[str, Mapping[str, str]]


def tilts(race: Race) -> list[tuple[str, str]]:
    """Each thing that tilts the race: the fact's name and a sentence that says whom it favours and what to make of it.

    Contenders that are out and facts that only some sheets have are not looked at.
    """
    sheets = [(entrant.name, entrant.parity) for entrant in race.entrants if entrant.parity and not entrant.out]
    rules = (_framing, _size, _versions, _doubled, _logging, _compression, _root, _routing, _notes)
    found = [finding for rule in rules for finding in rule(sheets)]
    if race.load.keepalive:
        found += _closing(sheets) if race.load.http == "1.1" else _closing_old(sheets)
    if len(race.server_cores) > 1:
        found += _cores(sheets)
    return found


def _groups(sheets: Sequence[Sheet], fact: str) -> dict[str, list[str]]:
    """Who has which value of a fact, in the order of the race."""
    found: dict[str, list[str]] = {}
    for name, sheet in sheets:
        if fact in sheet:
            found.setdefault(sheet[fact], []).append(name)
    return found


def _told(groups: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{', '.join(names)}: {value}" for value, names in groups.items())


def _framing(sheets: Sequence[Sheet]) -> Iterator[tuple[str, str]]:
    groups = _groups(sheets, "body framing")
    if len(groups) > 1:
        yield (
            "body framing",
            f"answers are framed differently ({_told(groups)}), which is different work; have all send the length",
        )


def _size(sheets: Sequence[Sheet]) -> Iterator[tuple[str, str]]:
    sizes = {}
    for name, sheet in sheets:
        counts = [re.findall(r"\d+", sheet.get(fact, "")) for fact in ("header bytes", "body bytes")]
        if all(counts):
            sizes[name] = sum(int(count[-1]) for count in counts)
    if sizes and max(sizes.values()) - min(sizes.values()) > SIZE_BYTES:
        least, most = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
        yield (
            "answer bytes",
            f"an answer of {most} has {sizes[most]} bytes, one of {least} {sizes[least]}: headers cost something, and "
            "bytes per second don't compare",
        )


def _versions(sheets: Sequence[Sheet]) -> Iterator[tuple[str, str]]:
    groups = _groups(sheets, "HTTP version")
    if len(groups) > 1:
        yield "HTTP version", f"answers are of different versions ({_told(groups)})"


def _doubled(sheets: Sequence[Sheet]) -> Iterator[tuple[str, str]]:
    told = [f"{name}: {sheet['doubled headers']}" for name, sheet in sheets if "doubled headers" in sheet]
    if told:
        yield (
            "doubled headers",
            f"headers that an answer may have once stand in it twice ({'; '.join(told)}): bytes that others don't "
            "send, and clients may refuse it; send each once",
        )


def _switched(sheets: Sequence[Sheet], fact: str, what: str) -> Iterator[tuple[str, str]]:
    """A fact that is off for some and on for others, whatever the words."""
    on = [name for name, sheet in sheets if fact in sheet and not _OFF.match(sheet[fact])]
    off = [name for name, sheet in sheets if fact in sheet and _OFF.match(sheet[fact])]
    if on and off:
        yield fact, f"{', '.join(on)} {what}, {', '.join(off)} not: switch it off for a fair race"


def _logging(sheets: Sequence[Sheet]) -> Iterator[tuple[str, str]]:
    yield from _switched(sheets, "access log", "writes an access log")


def _compression(sheets: Sequence[Sheet]) -> Iterator[tuple[str, str]]:
    yield from _switched(sheets, "compression", "would compress")


def _root(sheets: Sequence[Sheet]) -> Iterator[tuple[str, str]]:
    who = {name: "root" in sheet["runs as"].split(", ") for name, sheet in sheets if "runs as" in sheet}
    rooted = [name for name, is_root in who.items() if is_root]
    if rooted and len(rooted) < len(who):
        yield "runs as", f"{', '.join(rooted)} runs as root and the others don't: root has no limits that they have"


def _routing(sheets: Sequence[Sheet]) -> Iterator[tuple[str, str]]:
    alike = {name: "the same body" in sheet["an unknown path"] for name, sheet in sheets if "an unknown path" in sheet}
    names = [name for name, same in alike.items() if same]
    if names and len(names) < len(alike):
        yield "routing", f"{', '.join(names)} answers every path alike, so it looks at none: the others do that work"


def _notes(sheets: Sequence[Sheet]) -> Iterator[tuple[str, str]]:
    for name, sheet in sheets:
        if "note" in sheet:
            yield "note", f"{name}: {sheet['note']}"


def _closing(sheets: Sequence[Sheet]) -> Iterator[tuple[str, str]]:
    """Servers that close busy connections, where others keep them."""
    limits = {name: sheet["keep-alive limit found"] for name, sheet in sheets if "keep-alive limit found" in sheet}
    closing = {name: told for name, told in limits.items() if re.match(r"\d", told)}
    if closing and (len(closing) < len(limits) or len(set(closing.values())) > 1):
        told = ", ".join(f"{name} after {limit}" for name, limit in closing.items())
        yield (
            "keep-alive limit",
            f"a busy connection is closed by {told}: it pays for opening new ones; lift the limit, or race all with "
            "--no-keepalive",
        )


def _closing_old(sheets: Sequence[Sheet]) -> Iterator[tuple[str, str]]:
    """Servers that close each connection of HTTP/1.0 where others keep them, as the load asks."""
    habits = {name: sheet["HTTP/1.0"] for name, sheet in sheets if "HTTP/1.0" in sheet}
    closing = [name for name, habit in habits.items() if not habit.startswith("keeps")]
    if closing and len(closing) < len(habits):
        yield (
            "HTTP/1.0",
            f"{', '.join(closing)} keeps no connection over HTTP/1.0 and opens one per request, others don't",
        )


def _cores(sheets: Sequence[Sheet]) -> Iterator[tuple[str, str]]:
    used = {name: float(sheet["cores used"].split()[0]) for name, sheet in sheets if "cores used" in sheet}
    if used and max(used.values()) - min(used.values()) > CORES:
        told = ", ".join(f"{name} {cores:.2f}" for name, cores in used.items())
        yield (
            "cores used",
            f"they keep different numbers of cores busy ({told}): --metric cpu compares the work, or one server core "
            "(--server-cores) the programs",
        )
