"""One request as it goes over the wire, and the one right answer to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

#: Every contender is asked with the same bytes, so the Host header has no port in it.
HOST = "127.0.0.1"

#: How an answer's body is compared: every byte; as JSON, whatever its spacing and order of keys; or not at all.
Compare = Literal["bytes", "json", "status"]


#: The version of exchanges that whoever sends them puts into frames; their words are HTTP/1.1's.
HTTP2 = "2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its right answer.

    Args:
        path: with its query, as in the request line.
        request: the whole HTTP/1.1 request; ``Connection: close`` in it exactly if it isn't keep-alive.
        content_type: without parameters, small letters; "": none is asked for.
        body: the right one, byte for byte.
        compare: how the answer's body is held against it.
        earliest_ns: an answer that comes sooner after its request left is wrong.
        kind: which of the workload's requests it is, from 0. kind_name: that one's name where there are several.
        sends: the request's body without its framing. chunked: how it is framed.
        statements: executions in the race's database that the answer takes.
        http: the version that it is sent in: "1.1", "1.0", or "2", where the request's words become frames.
        stale: what would have been right in an earlier launch, whose files were others; None: nothing else.
    """

    path: str
    request: bytes
    status: int
    content_type: str
    body: bytes
    compare: Compare = "bytes"
    earliest_ns: int = 0
    kind: int = 0
    kind_name: str = ""
    sends: bytes = b""
    chunked: bool = False
    stale: bytes | None = None
    statements: int = 0
    http: str = "1.1"

    @property
    def any_body(self) -> bool:
        """Whether any body of the right status is right."""
        return self.compare == "status"

    @property
    def shown(self) -> str:
        """The request, for a message: its path, and its name where the workload has several."""
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
) -> bytes:
    """A whole request.

    Args:
        headers: in addition to Host, or in place of User-Agent and Accept; names as they are to be sent.
        connection: whole header lines about the connection.
        body: None: the request has none.
    """
    usual = {"User-Agent": "dragstrip", "Accept": "*/*"}
    given = {name.lower() for name in headers}
    lines = [f"{method} {path} HTTP/{'1.1' if http == HTTP2 else http}", f"Host: {HOST}"]
    lines += [f"{name}: {value}" for name, value in usual.items() if name.lower() not in given]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines.append("Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}")
    head = ("\r\n".join([*lines, *connection]) + "\r\n\r\n").encode("ascii")
    return head + (in_chunks([body]) if chunked and body is not None else body or b"")


def in_chunks(pieces: Sequence[bytes]) -> bytes:
    """A body in chunks of these pieces, and the last chunk (RFC 9112, 7.1)."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n"


def connection_words(http: str, keepalive: bool) -> list[str]:
    """The header, if any, that says what shall become of the connection.

    HTTP/1.1 keeps it by default (RFC 9112, 9.3); HTTP/1.0 closes it unless the request has ``ab -k``'s header.
    """
    if http == "1.0":
        return ["Connection: Keep-Alive"] if keepalive else []
    return [] if keepalive else ["Connection: close"]
