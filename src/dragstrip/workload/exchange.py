"""One request as it is sent, and its only correct response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dragstrip.workload.tables import Schema, Tables, Written

#: The Host header has no port, so that every contender gets the same bytes.
HOST = "127.0.0.1"

#: How a response's body is compared: every byte; as JSON, whatever its spacing and order of keys; as JSON by value,
#: fields that change by their type; its length; not at all; or with the database's rows, of which the server chooses
#: some.
Compare = Literal[
    "bytes", "json", "values", "digest", "length", "status",
    "world", "worlds", "updates", "fortunes", "items", "item", "listed", "created", "updated",
]  # fmt: skip

#: Comparisons with rows that the server chooses, and the tables that have such rows.
CHOSEN: dict[str, tuple[Schema, ...]] = {
    "world": ("hello_world",),
    "worlds": ("hello_world",),
    "updates": ("hello_world",),
    "fortunes": ("hello_world",),
    "items": ("items",),
    "item": ("items",),
    "listed": ("items",),
    "created": ("items",),
    "updated": ("items",),
}

#: Comparisons of JSON texts in a form that may be the contender's own.
OWN_FORM = ("json", "values")

#: Comparisons of responses to requests that write, each into tables of the contender's own.
WRITING = ("updates", "created", "updated")

#: The coding of a body that is not encoded (RFC 9110, 12.5.3).
IDENTITY = "identity"

#: Longest chunk of a request's body, as clients send it.
CHUNK_BYTES = 2**16

#: The version of exchanges whose bytes are HTTP/1.1's and which their sender puts into frames.
HTTP2 = "2"

#: The version of exchanges whose bodies are messages over WebSocket; their head asks for the upgrade.
WEBSOCKET = "websocket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its correct response.

    Args:
        path: path with its query, as in the request line.
        status: 0: any but 503 (Service Unavailable), which servers send while they start.
        request: the whole HTTP/1.1 request; contains ``Connection: close`` if it isn't keep-alive.
        content_type: without parameters, in small letters; "": any.
        headers: names of headers that the response must have.
        body: the correct body.
        compare: how to compare a response's body with ``body``.
        earliest_ns: a response that arrives sooner after its request was sent is incorrect.
        kind: index of the request among the workload's. kind_name: its name; "" if it is the only one.
        sends: the request's body without its framing. chunked: how it is framed. chunks: scrutineering also sends it
            in chunks.
        statements: executions in the race's database that the response needs.
        http: the version for sending it: "1.1", "1.0", or "2", for which the sender makes frames of the request, or
            "websocket", for which the body is a message.
        message: the type of a message and of its response, "text" or "binary".
        encodings: content codings that the request accepts; the decoded body is compared. (): the body is plain.
        negotiated: without Accept-Encoding, the body must be plain.
        pattern: ``body`` has bytes that stand for what varies.
        sha256: of the correct body, of which ``body`` then has only the length.
        changing: JSON Pointers (RFC 6901) of the fields that are compared by type alone.
        tables: the database's rows, if the server chooses some. count: how many. low, high: limits of their prices.
        written: what the contender has written into its own rows; its correct responses add to it.
        cached_ms: age up to which the response may come from the server's cache.
        learned: ``body`` has the bytes that this server sends, in its own form and coding.
        stale: the body that was correct in an earlier launch with other files; None: the same body, or no such launch.
    """

    path: str
    request: bytes
    status: int
    content_type: str
    body: bytes
    headers: tuple[str, ...] = ()
    encodings: tuple[str, ...] = ()
    negotiated: bool = True
    learned: bool = False
    pattern: bool = False
    changing: tuple[str, ...] = ()
    sha256: str = ""
    tables: Tables = field(default_factory=Tables, repr=False, compare=False)
    written: dict[int, Written] = field(default_factory=dict, repr=False, compare=False)
    cached_ms: float = 0.0
    count: int = 1
    low: int = 0
    high: int = 0
    compare: Compare = "bytes"
    earliest_ns: int = 0
    kind: int = 0
    kind_name: str = ""
    sends: bytes = b""
    chunked: bool = False
    chunks: bool = True
    stale: bytes | None = None
    statements: int = 0
    http: str = "1.1"
    message: str = ""

    @property
    def any_body(self) -> bool:
        """Whether any body is correct if the status and, unless ``body`` is empty, its length are."""
        return self.compare in ("status", "length")

    @property
    def chosen(self) -> bool:
        """Whether the server chooses the rows of its response."""
        return self.compare in CHOSEN

    @property
    def shown(self) -> str:
        """The request for a message: its path, and its name if the workload has several."""
        return f"{self.path} ({self.kind_name})" if self.kind_name else self.path

    @property
    def head(self) -> bytes:
        """The request up to its body, the blank line included."""
        return self.request[: self.request.index(b"\r\n\r\n") + 4]


def request_bytes(
    method: str,
    path: str,
    http: str,
    headers: Mapping[str, str],
    connection: Sequence[str],
    body: bytes | None,
    *,
    chunked: bool,
    host: str = HOST,
) -> bytes:
    """A whole request.

    Args:
        headers: headers in addition to Host, or in place of User-Agent and Accept.
        connection: whole header lines about the connection.
        body: None: the request has no body.
        host: the header Host.
    """
    usual = {"User-Agent": "dragstrip", "Accept": "*/*"}
    given = {name.lower() for name in headers}
    lines = [f"{method} {path} HTTP/{'1.1' if http == HTTP2 else http}", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in usual.items() if name.lower() not in given]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines.append("Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}")
    head = ("\r\n".join([*lines, *connection]) + "\r\n\r\n").encode("ascii")
    if not chunked or body is None:
        return head + (body or b"")
    return head + in_chunks([body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)])


def in_chunks(pieces: Sequence[bytes]) -> bytes:
    """A body in chunks of these pieces, and the last chunk (RFC 9112, 7.1)."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n"


def connection_words(http: str, keepalive: bool) -> list[str]:
    """The header that asks to keep or close the connection, if one is needed.

    HTTP/1.1 keeps it by default (RFC 9112, 9.3); HTTP/1.0 closes it unless the request has ``ab -k``'s header.
    """
    if http == "1.0":
        return ["Connection: Keep-Alive"] if keepalive else []
    return [] if keepalive else ["Connection: close"]
