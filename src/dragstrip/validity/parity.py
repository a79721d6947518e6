"""What tilts a race though all responses are correct: read off the parity sheet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dragstrip.parity import OldHttpKind, ParitySheet
from dragstrip.record import Race
from dragstrip.validity.observation import (
    FactDiffers,
    FactListed,
    FactSplits,
    GroupedFact,
    ListedFact,
    ParityObservation,
    SplitFact,
)

#: Bytes by which two correct responses may differ before it is worth a word: more than a Date header.
SIZE_BYTES = 64

#: Cores by which two contenders may differ in what they keep busy.
CORES = 0.3

#: A contender's sheet, by its name.
Sheets = Mapping[str, ParitySheet]


def tilts(race: Race) -> Iterator[ParityObservation]:
    """Each fact that tilts the race, and which contenders differ in it.

    Contenders that are out and facts that only some sheets have are not looked at.
    """
    sheets = {
        entrant.name: ParitySheet.of(entrant.parity) for entrant in race.entrants if entrant.parity and not entrant.out
    }
    yield from _grouped(sheets, GroupedFact.FRAMING, lambda sheet: sheet.framing)
    yield from _size(sheets)
    yield from _grouped(sheets, GroupedFact.VERSION, lambda sheet: sheet.http_version)
    yield from _grouped(sheets, GroupedFact.TLS, lambda sheet: sheet.tls)
    doubled = {name: sheet.doubled_headers for name, sheet in sheets.items() if sheet.doubled_headers}
    if doubled:
        yield FactListed(ListedFact.DOUBLED_HEADERS, doubled)
    yield from _split(sheets, SplitFact.LOGGING, lambda sheet: sheet.access_log.on if sheet.access_log else None)
    yield from _split(sheets, SplitFact.COMPRESSION, lambda sheet: sheet.compression.on if sheet.compression else None)
    yield from _split(sheets, SplitFact.ROOT, lambda sheet: "root" in sheet.runs_as.users if sheet.runs_as else None)
    yield from _split(
        sheets,
        SplitFact.IGNORES_PATHS,
        lambda sheet: sheet.unknown_path.same_body if sheet.unknown_path else None,
    )
    for name, sheet in sheets.items():
        if sheet.note is not None:
            yield FactListed(ListedFact.NOTE, {name: sheet.note})
    if race.load.keepalive and race.load.http == "1.1":
        yield from _closing(sheets)
    elif race.load.keepalive:
        yield from _split(
            sheets,
            SplitFact.CLOSES_OLD_HTTP,
            lambda sheet: sheet.old_http.kind is not OldHttpKind.KEEPS if sheet.old_http else None,
        )
    if len(race.server_cores) > 1:
        yield from _cores(sheets)


def _grouped(
    sheets: Sheets, fact: GroupedFact, value_of: Callable[[ParitySheet], str | None]
) -> Iterator[ParityObservation]:
    """Which contenders have which value of a fact, in the order of the race, if there are several values."""
    groups: dict[str, tuple[str, ...]] = {}
    for name, sheet in sheets.items():
        value = value_of(sheet)
        if value is not None:
            groups[value] = (*groups.get(value, ()), name)
    if len(groups) > 1:
        yield FactDiffers(fact, groups)


def _split(
    sheets: Sheets, fact: SplitFact, true_of: Callable[[ParitySheet], bool | None]
) -> Iterator[ParityObservation]:
    """Of which contenders a fact is true (None: unknown), if there are others as well."""
    truths = {name: true_of(sheet) for name, sheet in sheets.items()}
    names, others = (tuple(name for name, true in truths.items() if true is wanted) for wanted in (True, False))
    if names and others:
        yield FactSplits(fact, names, others)


def _size(sheets: Sheets) -> Iterator[ParityObservation]:
    sizes = {
        name: sheet.header_bytes.most + sheet.body_bytes.most
        for name, sheet in sheets.items()
        if sheet.header_bytes and sheet.body_bytes
    }
    if sizes and max(sizes.values()) - min(sizes.values()) > SIZE_BYTES:
        ends = max(sizes, key=sizes.__getitem__), min(sizes, key=sizes.__getitem__)
        yield FactListed(ListedFact.SIZE, {name: str(sizes[name]) for name in ends})


def _closing(sheets: Sheets) -> Iterator[ParityObservation]:
    """Servers that close busy connections, if others keep them or close them after other numbers of requests."""
    limits = {name: sheet.keep_alive for name, sheet in sheets.items() if sheet.keep_alive}
    closing = {name: limit for name, limit in limits.items() if limit.closed}
    if closing and (len(closing) < len(limits) or len(set(closing.values())) > 1):
        yield FactListed(ListedFact.CLOSES, {name: str(limit) for name, limit in closing.items()})


def _cores(sheets: Sheets) -> Iterator[ParityObservation]:
    used = {name: sheet.cores_used.used for name, sheet in sheets.items() if sheet.cores_used}
    if used and max(used.values()) - min(used.values()) > CORES:
        yield FactListed(ListedFact.CORES, {name: f"{cores:.2f}" for name, cores in used.items()})
