"""What tilts a race though all responses are correct: read off the parity sheet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dragstrip import parity
from dragstrip.parity import OldHttpKind, ParitySheet
from dragstrip.record import Race

#: Bytes by which two correct responses may differ before it is worth a word: more than a Date header.
SIZE_BYTES = 64

#: Cores by which two contenders may differ in what they keep busy.
CORES = 0.3

#: A contender's sheet, by its name.
Sheets = Mapping[str, ParitySheet]

#: A fact of the sheet, and how it tilts the race.
Tilt = tuple[str, str]


def tilts(race: Race) -> Iterator[Tilt]:
    """Each fact that tilts the race, and which contenders differ in it, as a sentence.

    Contenders that are out and facts that only some sheets have are not looked at.
    """
    sheets = {
        entrant.name: ParitySheet.of(entrant.parity) for entrant in race.entrants if entrant.parity and not entrant.out
    }
    framed = "responses are framed differently ({}), which is different work; let all of them send Content-Length"
    yield from _grouped(sheets, parity.BODY_FRAMING, lambda sheet: sheet.framing, framed)
    yield from _size(sheets)
    versions = "responses have different HTTP versions ({})"
    yield from _grouped(sheets, parity.HTTP_VERSION, lambda sheet: sheet.http_version, versions)
    yield from _grouped(sheets, parity.TLS_VERSION, lambda sheet: sheet.tls, "encryption differs ({})")
    stale = "fields of the JSON change by themselves in some and not in others ({}); one that stays may be stale"
    yield from _grouped(sheets, parity.CHANGED_FIELDS, lambda sheet: sheet.changed_fields, stale)
    if doubled := "; ".join(
        f"{name}: {sheet.doubled_headers}" for name, sheet in sheets.items() if sheet.doubled_headers
    ):
        costs = "the others don't send these bytes, and clients may reject them; send each header once"
        yield parity.DOUBLED_HEADERS, f"headers that a response may have only once appear twice ({doubled}): {costs}"
    yield from _of_some(sheets)
    for name, sheet in sheets.items():
        if sheet.note is not None:
            yield parity.NOTE, f"{name}: {sheet.note}"
    if race.load.keepalive and race.load.http == "1.1":
        yield from _closing(sheets)
    elif race.load.keepalive:
        yield from _split(
            sheets,
            parity.OLD_HTTP,
            lambda sheet: sheet.old_http.kind is not OldHttpKind.KEEPS if sheet.old_http else None,
            "{} closes each HTTP/1.0 connection after one response; the others keep it open",
        )
    if len(race.server_cores) > 1:
        yield from _cores(sheets)


def _of_some(sheets: Sheets) -> Iterator[Tilt]:
    """What some contenders do besides responding, or don't have to do."""
    off = "switch it off for a fair race"
    yield from _split(
        sheets,
        parity.ACCESS_LOG,
        lambda sheet: sheet.access_log.on if sheet.access_log else None,
        f"{{}} writes an access log, {{}} does not: {off}",
    )
    yield from _split(
        sheets,
        parity.COMPRESSION,
        lambda sheet: sheet.compression.on if sheet.compression else None,
        f"{{}} would compress, {{}} does not: {off}",
    )
    yield from _split(
        sheets,
        parity.RUNS_AS,
        lambda sheet: "root" in sheet.runs_as.users if sheet.runs_as else None,
        "{} runs as root and the others don't: their resource limits do not apply to root",
    )
    yield from _split(
        sheets,
        "routing",
        lambda sheet: sheet.unknown_path.same_body if sheet.unknown_path else None,
        "{} gives the same response to every path, so it does no routing: the others do",
    )


def _grouped(sheets: Sheets, fact: str, value_of: Callable[[ParitySheet], str | None], differ: str) -> Iterator[Tilt]:
    """Which contenders have which value of a fact, in the order of the race, if there are several values."""
    groups: dict[str, list[str]] = {}
    for name, sheet in sheets.items():
        if (value := value_of(sheet)) is not None:
            groups.setdefault(value, []).append(name)
    if len(groups) > 1:
        yield fact, differ.format("; ".join(f"{', '.join(names)}: {value}" for value, names in groups.items()))


def _split(sheets: Sheets, fact: str, true_of: Callable[[ParitySheet], bool | None], differ: str) -> Iterator[Tilt]:
    """Of which contenders a fact is true (None: unknown), if there are others as well."""
    truths = {name: true_of(sheet) for name, sheet in sheets.items()}
    names, others = (", ".join(name for name, true in truths.items() if true is wanted) for wanted in (True, False))
    if names and others:
        yield fact, differ.format(names, others)


def _size(sheets: Sheets) -> Iterator[Tilt]:
    sizes = {
        name: sheet.header_bytes.most + sheet.body_bytes.most
        for name, sheet in sheets.items()
        if sheet.header_bytes and sheet.body_bytes
    }
    if sizes and max(sizes.values()) - min(sizes.values()) > SIZE_BYTES:
        longest, shortest = max(sizes, key=sizes.__getitem__), min(sizes, key=sizes.__getitem__)
        ends = f"a response of {longest} has {sizes[longest]} bytes, one of {shortest} has {sizes[shortest]}"
        yield "answer bytes", f"{ends}: headers cost time, and bytes per second are not comparable"


def _closing(sheets: Sheets) -> Iterator[Tilt]:
    """Servers that close busy connections, if others keep them or close them after other numbers of requests."""
    limits = {name: sheet.keep_alive for name, sheet in sheets.items() if sheet.keep_alive}
    closing = {name: limit for name, limit in limits.items() if limit.closed}
    if closing and (len(closing) < len(limits) or len(set(closing.values())) > 1):
        closed = ", ".join(f"{name} after {limit}" for name, limit in closing.items())
        pays = "the cost of new connections is in its figures; raise the limit, or race all with --no-keepalive"
        yield "keep-alive limit", f"a busy connection is closed by {closed}: {pays}"


def _cores(sheets: Sheets) -> Iterator[Tilt]:
    used = {name: sheet.cores_used.used for name, sheet in sheets.items() if sheet.cores_used}
    if used and max(used.values()) - min(used.values()) > CORES:
        busy = ", ".join(f"{name} {cores:.2f}" for name, cores in used.items())
        compare = "--metric cpu compares the work, or one server core (--server-cores) the programs"
        yield parity.CORES_USED, f"they keep different numbers of cores busy ({busy}): {compare}"
