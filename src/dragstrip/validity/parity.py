"""What tilts a race though all answers are right: read off the parity sheet, a sentence for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from dragstrip import parity
from dragstrip.parity import KeepAlive, OldHttp, OldHttpKind, ParitySheet, Span, Switch, UnknownPath
from dragstrip.record import Race

#: Bytes by which two right answers may differ before it is worth a word: more than a Date header.
SIZE_BYTES = 64

#: Cores by which two contenders may differ in what they keep busy.
CORES = 0.3

#: A contender's sheet, by its name.
Sheets = Mapping[str, ParitySheet]


def tilts(race: Race) -> list[tuple[str, str]]:
    """Each thing that tilts the race: the fact's name and a sentence that says whom it favours and what to make of it.

    Contenders that are out and facts that only some sheets have are not looked at.
    """
    sheets = {
        entrant.name: ParitySheet.of(entrant.parity) for entrant in race.entrants if entrant.parity and not entrant.out
    }
    rules = (_framing, _size, _versions, _doubled, _logging, _compression, _root, _routing, _notes)
    found = [finding for rule in rules for finding in rule(sheets)]
    if race.load.keepalive:
        found += _closing(sheets) if race.load.http == "1.1" else _closing_old(sheets)
    if len(race.server_cores) > 1:
        found += _cores(sheets)
    return found


def _groups(sheets: Sheets, fact_of: Callable[[ParitySheet], str | None]) -> dict[str, list[str]]:
    """Who has which value of a fact, in the order of the race."""
    groups: dict[str, list[str]] = {}
    for name, sheet in sheets.items():
        fact = fact_of(sheet)
        if fact is not None:
            groups.setdefault(fact, []).append(name)
    return groups


def _in_words(groups: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{', '.join(names)}: {value}" for value, names in groups.items())


def _framing(sheets: Sheets) -> Iterator[tuple[str, str]]:
    groups = _groups(sheets, lambda sheet: sheet.framing)
    if len(groups) > 1:
        yield (
            parity.BODY_FRAMING,
            f"answers are framed differently ({_in_words(groups)}), which is different work; have all send the length",
        )


def _size(sheets: Sheets) -> Iterator[tuple[str, str]]:
    def both(head: Span | None, body: Span | None) -> int | None:
        return head.most + body.most if head and body else None

    found = {name: both(sheet.header_bytes, sheet.body_bytes) for name, sheet in sheets.items()}
    sizes = {name: size for name, size in found.items() if size is not None}
    if sizes and max(sizes.values()) - min(sizes.values()) > SIZE_BYTES:
        least, most = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
        yield (
            "answer bytes",
            f"an answer of {most} has {sizes[most]} bytes, one of {least} {sizes[least]}: headers cost something, and "
            "bytes per second don't compare",
        )


def _versions(sheets: Sheets) -> Iterator[tuple[str, str]]:
    groups = _groups(sheets, lambda sheet: sheet.http_version)
    if len(groups) > 1:
        yield parity.HTTP_VERSION, f"answers are of different versions ({_in_words(groups)})"


def _doubled(sheets: Sheets) -> Iterator[tuple[str, str]]:
    doubled = [f"{name}: {sheet.doubled_headers}" for name, sheet in sheets.items() if sheet.doubled_headers]
    if doubled:
        yield (
            parity.DOUBLED_HEADERS,
            f"headers that an answer may have once stand in it twice ({'; '.join(doubled)}): bytes that others don't "
            "send, and clients may refuse it; send each once",
        )


def _switched(fact: str, settings: Mapping[str, Switch | None], what: str) -> Iterator[tuple[str, str]]:
    """A setting that is off for some and on for others, whatever the words."""
    on = [name for name, setting in settings.items() if setting and setting.on]
    off = [name for name, setting in settings.items() if setting and not setting.on]
    if on and off:
        yield fact, f"{', '.join(on)} {what}, {', '.join(off)} not: switch it off for a fair race"


def _logging(sheets: Sheets) -> Iterator[tuple[str, str]]:
    settings = {name: sheet.access_log for name, sheet in sheets.items()}
    yield from _switched(parity.ACCESS_LOG, settings, "writes an access log")


def _compression(sheets: Sheets) -> Iterator[tuple[str, str]]:
    settings = {name: sheet.compression for name, sheet in sheets.items()}
    yield from _switched(parity.COMPRESSION, settings, "would compress")


def _root(sheets: Sheets) -> Iterator[tuple[str, str]]:
    is_root = {name: "root" in sheet.runs_as.users for name, sheet in sheets.items() if sheet.runs_as}
    rooted = [name for name, yes in is_root.items() if yes]
    if rooted and len(rooted) < len(is_root):
        yield (
            parity.RUNS_AS,
            f"{', '.join(rooted)} runs as root and the others don't: root has no limits that they have",
        )


def _routing(sheets: Sheets) -> Iterator[tuple[str, str]]:
    answers = {name: sheet.unknown_path for name, sheet in sheets.items()}
    alike = {name: answer.same_body for name, answer in answers.items() if isinstance(answer, UnknownPath)}
    names = [name for name, same in alike.items() if same]
    if names and len(names) < len(alike):
        yield "routing", f"{', '.join(names)} answers every path alike, so it looks at none: the others do that work"


def _notes(sheets: Sheets) -> Iterator[tuple[str, str]]:
    for name, sheet in sheets.items():
        if sheet.note is not None:
            yield parity.NOTE, f"{name}: {sheet.note}"


def _closing(sheets: Sheets) -> Iterator[tuple[str, str]]:
    """Servers that close busy connections, where others keep them."""
    found = {name: sheet.keep_alive for name, sheet in sheets.items()}
    limits = {name: limit for name, limit in found.items() if isinstance(limit, KeepAlive)}
    closing = {name: limit for name, limit in limits.items() if limit.closed}
    if closing and (len(closing) < len(limits) or len(set(closing.values())) > 1):
        who = ", ".join(f"{name} after {limit}" for name, limit in closing.items())
        yield (
            "keep-alive limit",
            f"a busy connection is closed by {who}: it pays for opening new ones; lift the limit, or race all with "
            "--no-keepalive",
        )


def _closing_old(sheets: Sheets) -> Iterator[tuple[str, str]]:
    """Servers that close each connection of HTTP/1.0 where others keep them, as the load asks."""
    found = {name: sheet.old_http for name, sheet in sheets.items()}
    answers = {name: old_http for name, old_http in found.items() if isinstance(old_http, OldHttp)}
    closing = [name for name, old_http in answers.items() if old_http.kind is not OldHttpKind.KEEPS]
    if closing and len(closing) < len(answers):
        yield (
            parity.OLD_HTTP,
            f"{', '.join(closing)} keeps no connection over HTTP/1.0 and opens one per request, others don't",
        )


def _cores(sheets: Sheets) -> Iterator[tuple[str, str]]:
    used = {name: sheet.cores_used.used for name, sheet in sheets.items() if sheet.cores_used}
    if used and max(used.values()) - min(used.values()) > CORES:
        who = ", ".join(f"{name} {cores:.2f}" for name, cores in used.items())
        yield (
            parity.CORES_USED,
            f"they keep different numbers of cores busy ({who}): --metric cpu compares the work, or one server core "
            "(--server-cores) the programs",
        )
