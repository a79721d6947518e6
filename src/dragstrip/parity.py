"""Facts for the parity sheet as values: the differences between contenders that can't be removed.

The sheet is stored, exported and shown as text (schema 1, column ``parity``). Each value has one text, by ``str``, and
only ``ParitySheet.of`` reads that text. Programs compare values, never texts.
"""

# House: reads sentences: facts of records, which older ones have only as sentences.
from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

# Names on the sheet of the facts that other modules read back.
HTTP_VERSION = "HTTP version"
TLS_VERSION, CIPHER_SUITE = "TLS version", "cipher suite"
CERTIFICATE, RESUMPTION = "certificate", "TLS resumption"
HEADER_BYTES, BODY_BYTES = "header bytes", "body bytes"
BODY_FRAMING = "body framing"
DOUBLED_HEADERS = "doubled headers"
CHANGED_FIELDS = "fields that changed"
KEEP_ALIVE = "keep-alive limit found"
OLD_HTTP = "HTTP/1.0"
UNKNOWN_PATH = "an unknown path"
FAIRNESS = "fairness"
ACCESS_LOG, COMPRESSION = "access log", "compression"
RUNS_AS = "runs as"
CORES_USED = "cores used"
NOTE = "note"
JSON_FORM = "JSON form"
ENCODINGS = "content encodings"
COMPARED = "compared under load"


class Framing(StrEnum):
    """How a body's end is known (RFC 9112, 6.3)."""

    LENGTH = "Content-Length"
    CHUNKED = "chunked"
    UNTIL_CLOSE = "until close"
    FRAMES = "HTTP/2's frames alone"
    MESSAGES = "messages of WebSocket"


@dataclass(frozen=True, slots=True)
class Untried:
    """A fact that could not be determined; ``problem``: what went wrong, in words."""

    problem: str

    def __str__(self) -> str:
        return f"could not be tried: {self.problem}"


@dataclass(frozen=True, slots=True)
class Span:
    """The smallest and the largest value of a count of bytes."""

    least: int
    most: int

    def __str__(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least}–{self.most}"


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """After how many responses a server closes a busy connection.

    Args:
        responses: their number over one connection.
        closed: the server then closed it; otherwise no limit was found with this many requests.
        announced: the last response's header announced that; also False if the server did not close.
    """

    responses: int
    closed: bool
    announced: bool = False

    def __str__(self) -> str:
        requests = f"{self.responses:,} request{'' if self.responses == 1 else 's'}"
        if not self.closed:
            return f"none in {requests}"
        return requests if self.announced else f"{requests}, closed without a word"


class OldHttpKind(StrEnum):
    """How a server treats a connection over HTTP/1.0 if the request asks to keep it."""

    KEEPS = "keeps the connection"
    CLOSES = "closes after each answer"
    BREAKS = "says that it keeps the connection, and closes it"
    WRONG = "answered wrongly"
    SECOND_WRONG = "second answer wrong"


@dataclass(frozen=True, slots=True)
class OldHttp:
    """Whether connections are kept over HTTP/1.0; ``problem``: the fault of a response, "" if there is none."""

    kind: OldHttpKind
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.problem}" if self.problem else self.kind


@dataclass(frozen=True, slots=True)
class UnknownPath:
    """The response to an unknown path; ``same_body``: the known path's body, so the server ignores the path."""

    status: int
    same_body: bool

    def __str__(self) -> str:
        return f"status {self.status}{', the same body as the right path' if self.same_body else ''}"


@dataclass(frozen=True, slots=True)
class Fairness:
    """Every open connection got a response while one was kept busy.

    Args:
        connections: open at once; below 2, nothing was tried.
        longest_s: the longest wait of a connection.
    """

    connections: int
    longest_s: float = 0.0

    def __str__(self) -> str:
        if self.connections < 2:
            return "one connection: none can starve another"
        return f"all of {self.connections} served, one kept busy; longest wait {self.longest_s * 1000:.0f} ms"


@dataclass(frozen=True, slots=True)
class CoresUsed:
    """How many cores a server kept busy under load, of how many that it may use."""

    used: float
    of: int

    def __str__(self) -> str:
        return f"{self.used:.2f} of {self.of}"


@dataclass(frozen=True, slots=True)
class RunsAs:
    """The users that a server's processes belong to, by name."""

    users: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(self.users)


@dataclass(frozen=True, slots=True)
class Switch:
    """A setting of a contender's definition that is on or off; ``text``: the author's own words."""

    on: bool
    text: str

    def __str__(self) -> str:
        return self.text


#: A fact as a value.
Fact = str | Span | KeepAlive | OldHttp | UnknownPath | Fairness | CoresUsed | RunsAs | Switch | Untried


@dataclass(frozen=True, slots=True, kw_only=True)
class ParitySheet:
    """One contender's facts as values; None if a fact is missing, unreadable, or could not be tried."""

    http_version: str | None
    tls: str | None
    framing: str | None
    header_bytes: Span | None
    body_bytes: Span | None
    doubled_headers: str | None
    changed_fields: str | None
    keep_alive: KeepAlive | None
    old_http: OldHttp | None
    unknown_path: UnknownPath | None
    access_log: Switch | None
    compression: Switch | None
    runs_as: RunsAs | None
    cores_used: CoresUsed | None
    note: str | None

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> ParitySheet:
        """Reads a stored sheet, ``record.Entrant.parity``."""
        return cls(
            http_version=texts.get(HTTP_VERSION),
            tls=_tls(texts),
            framing=texts.get(BODY_FRAMING),
            header_bytes=_span(texts.get(HEADER_BYTES, "")),
            body_bytes=_span(texts.get(BODY_BYTES, "")),
            doubled_headers=texts.get(DOUBLED_HEADERS),
            changed_fields=texts.get(CHANGED_FIELDS),
            keep_alive=_keep_alive(texts.get(KEEP_ALIVE, "")),
            old_http=_old_http(texts.get(OLD_HTTP, "")),
            unknown_path=_unknown_path(texts.get(UNKNOWN_PATH, "")),
            access_log=switch(texts[ACCESS_LOG]) if ACCESS_LOG in texts else None,
            compression=switch(texts[COMPRESSION]) if COMPRESSION in texts else None,
            runs_as=RunsAs(tuple(texts[RUNS_AS].split(", "))) if RUNS_AS in texts else None,
            cores_used=_cores_used(texts.get(CORES_USED, "")),
            note=texts.get(NOTE),
        )


def sheet_texts(facts: Mapping[str, Fact]) -> dict[str, str]:
    """Facts as they are stored and shown, in their order."""
    return {name: str(fact) for name, fact in facts.items()}


def switch(text: str) -> Switch:
    """A setting in a definition's own words; it is off if they begin with off, none or no."""
    return Switch(not re.match(r"(off|none|no)\b", text, re.IGNORECASE), text)


def _tls(texts: Mapping[str, str]) -> str | None:
    """Version and cipher suite as one text; "none" without TLS."""
    if HTTP_VERSION not in texts:
        return None
    return f"{texts[TLS_VERSION]} with {texts.get(CIPHER_SUITE, 'unknown')}" if TLS_VERSION in texts else "none"


def _span(text: str) -> Span | None:
    match = re.fullmatch(r"(\d+)(?:–(\d+))?", text)
    return Span(int(match[1]), int(match[2] or match[1])) if match else None


def _keep_alive(text: str) -> KeepAlive | None:
    match = re.fullmatch(r"(none in )?([\d,]+) requests?(, closed without a word)?", text)
    if match is None:
        return None
    closed = not match[1]
    return KeepAlive(int(match[2].replace(",", "")), closed, announced=closed and not match[3])


def _old_http(text: str) -> OldHttp | None:
    kind, _, problem = text.partition(": ")
    return OldHttp(OldHttpKind(kind), problem) if kind in set(OldHttpKind) else None


def _unknown_path(text: str) -> UnknownPath | None:
    match = re.fullmatch(r"status (\d+)(, the same body as the right path)?", text)
    return UnknownPath(int(match[1]), bool(match[2])) if match else None


def _cores_used(text: str) -> CoresUsed | None:
    match = re.fullmatch(r"(\d+\.\d+) of (\d+)", text)
    return CoresUsed(float(match[1]), int(match[2])) if match else None
