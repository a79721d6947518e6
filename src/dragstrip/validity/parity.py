"""What tilts a race though all answers are right: read off the parity sheet, a finding for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dragstrip import parity
from dragstrip.parity import KeepAlive, OldHttp, OldHttpKind, ParitySheet, Span, Switch, UnknownPath
from dragstrip.record import Race
from dragstrip.validity import parity_observation as seen
from dragstrip.validity.parity_observation import ParityObservation

#: Bytes by which two right answers may differ before it is worth a word: more than a Date header.
SIZE_BYTES = 64

#: Cores by which two contenders may differ in what they keep busy.
CORES = 0.3

#: A contender's sheet, by its name.
Sheets = Mapping[str, ParitySheet]

#: The fact's name on the sheet, and how it differs.
Tilt = tuple[str, ParityObservation]


def tilts(race: Race) -> list[Tilt]:
    """Each thing that tilts the race: the fact's name and which contenders differ in it.

    Contenders that are out and facts that only some sheets have are not looked at.
    """
    sheets = {
        entrant.name: ParitySheet.of(entrant.parity) for entrant in race.entrants if entrant.parity and not entrant.out
    }
    rules = (_framing, _size, _versions, _encryption, _doubled, _logging, _compression, _root, _routing, _notes)
    found = [finding for rule in rules for finding in rule(sheets)]
    if race.load.keepalive:
        found += _closing(sheets) if race.load.http == "1.1" else _closing_old(sheets)
    if len(race.server_cores) > 1:
        found += _cores(sheets)
    return found


def _groups(sheets: Sheets, fact_of: Callable[[ParitySheet], str | None]) -> dict[str, tuple[str, ...]]:
    """Who has which value of a fact, in the order of the race."""
    groups: dict[str, tuple[str, ...]] = {}
    for name, sheet in sheets.items():
        fact = fact_of(sheet)
        if fact is not None:
            groups[fact] = (*groups.get(fact, ()), name)
    return groups


def _framing(sheets: Sheets) -> Iterator[Tilt]:
    groups = _groups(sheets, lambda sheet: sheet.framing)
    if len(groups) > 1:
        yield parity.BODY_FRAMING, seen.FramingDiffers(groups)


def _size(sheets: Sheets) -> Iterator[Tilt]:
    def both(head: Span | None, body: Span | None) -> int | None:
        return head.most + body.most if head and body else None

    found = {name: both(sheet.header_bytes, sheet.body_bytes) for name, sheet in sheets.items()}
    sizes = {name: size for name, size in found.items() if size is not None}
    if sizes and max(sizes.values()) - min(sizes.values()) > SIZE_BYTES:
        least, most = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
        yield "answer bytes", seen.SizeDiffers((most, sizes[most]), (least, sizes[least]))


def _versions(sheets: Sheets) -> Iterator[Tilt]:
    groups = _groups(sheets, lambda sheet: sheet.http_version)
    if len(groups) > 1:
        yield parity.HTTP_VERSION, seen.VersionsDiffer(groups)


def _encryption(sheets: Sheets) -> Iterator[Tilt]:
    groups = _groups(sheets, lambda sheet: sheet.tls)
    if len(groups) > 1:
        yield parity.TLS_VERSION, seen.TlsDiffers(groups)


def _doubled(sheets: Sheets) -> Iterator[Tilt]:
    doubled = {name: sheet.doubled_headers for name, sheet in sheets.items() if sheet.doubled_headers}
    if doubled:
        yield parity.DOUBLED_HEADERS, seen.DoubledHeaders(doubled)


def _switched(
    fact: str, settings: Mapping[str, Switch | None], kind: type[seen.LoggingDiffers | seen.CompressionDiffers]
) -> Iterator[Tilt]:
    """A setting that is off for some and on for others, whatever the words."""
    on = tuple(name for name, setting in settings.items() if setting and setting.on)
    off = tuple(name for name, setting in settings.items() if setting and not setting.on)
    if on and off:
        yield fact, kind(on, off)


def _logging(sheets: Sheets) -> Iterator[Tilt]:
    settings = {name: sheet.access_log for name, sheet in sheets.items()}
    yield from _switched(parity.ACCESS_LOG, settings, seen.LoggingDiffers)


def _compression(sheets: Sheets) -> Iterator[Tilt]:
    settings = {name: sheet.compression for name, sheet in sheets.items()}
    yield from _switched(parity.COMPRESSION, settings, seen.CompressionDiffers)


def _root(sheets: Sheets) -> Iterator[Tilt]:
    is_root = {name: "root" in sheet.runs_as.users for name, sheet in sheets.items() if sheet.runs_as}
    rooted = tuple(name for name, yes in is_root.items() if yes)
    if rooted and len(rooted) < len(is_root):
        yield parity.RUNS_AS, seen.SomeAreRoot(rooted)


def _routing(sheets: Sheets) -> Iterator[Tilt]:
    answers = {name: sheet.unknown_path for name, sheet in sheets.items()}
    alike = {name: answer.same_body for name, answer in answers.items() if isinstance(answer, UnknownPath)}
    names = tuple(name for name, same in alike.items() if same)
    if names and len(names) < len(alike):
        yield "routing", seen.SomeIgnorePaths(names)


def _notes(sheets: Sheets) -> Iterator[Tilt]:
    for name, sheet in sheets.items():
        if sheet.note is not None:
            yield parity.NOTE, seen.ParityNote(name, sheet.note)


def _closing(sheets: Sheets) -> Iterator[Tilt]:
    """Servers that close busy connections, where others keep them."""
    found = {name: sheet.keep_alive for name, sheet in sheets.items()}
    limits = {name: limit for name, limit in found.items() if isinstance(limit, KeepAlive)}
    closing = {name: limit for name, limit in limits.items() if limit.closed}
    if closing and (len(closing) < len(limits) or len(set(closing.values())) > 1):
        yield "keep-alive limit", seen.SomeClose(closing)


def _closing_old(sheets: Sheets) -> Iterator[Tilt]:
    """Servers that close each connection of HTTP/1.0 where others keep them, as the load asks."""
    found = {name: sheet.old_http for name, sheet in sheets.items()}
    answers = {name: old_http for name, old_http in found.items() if isinstance(old_http, OldHttp)}
    closing = tuple(name for name, old_http in answers.items() if old_http.kind is not OldHttpKind.KEEPS)
    if closing and len(closing) < len(answers):
        yield parity.OLD_HTTP, seen.SomeCloseOldHttp(closing)


def _cores(sheets: Sheets) -> Iterator[Tilt]:
    used = {name: sheet.cores_used.used for name, sheet in sheets.items() if sheet.cores_used}
    if used and max(used.values()) - min(used.values()) > CORES:
        yield parity.CORES_USED, seen.CoresDiffer(used)
