"""Reads one response from a socket, within one deadline and one cap, whatever the server sends or holds back.

h11 reads the bytes: it is strict, and independent of the load engine. This module adds the handling of misbehaving
servers: a time limit for the whole response instead of each piece, caps on head, body and framing, and messages.
"""

# House: reads sentences: a parser's message is only shown otherwise.
from __future__ import annotations

import http
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import h11

from dragstrip.store.masking import hide

#: Seconds for a single response in scrutineering, from the request to its last byte.
RESPONSE_S = 5.0

#: Bytes of a head, interim responses before it included, and of trailers after a body; header fields in one head.
#: The load engine has the same limits: a server that passes here must not fail there.
HEAD_BYTES, MAX_FIELDS = 64 * 1024, 128

#: Bytes beyond the correct body's length that are still read, so that the message can report the length.
SPARE_BYTES = 64 * 1024

#: Characters of a server's own bytes that a message quotes.
QUOTED = 80

#: Seconds between two pieces of one request.
PIECES_S = 0.003

#: The shortest timeout of a socket: 0 would mean "don't wait", and raise another error.
_MIN_S = 0.001

#: The beginning of every response.
_START = b"HTTP/1."

#: The type of HTTP/2's first frame, its fourth byte (RFC 9113, 4.1 and 6.5).
_SETTINGS = b"\x04"

#: Maximum bytes of chunk sizes and extensions per byte of body: a chunk of one byte has six.
_FRAMING_BYTES = 8

#: Control characters except tab.
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")

#: A blank line: the end of a head, as h11 reads it.
_BLANK_LINE = re.compile(rb"\n\r?\n")

#: A line that continues the one before; with the white space around it, it is one blank (RFC 9112, 5.2).
_FOLD = re.compile(rb"[ \t]*\n[ \t]+")

#: Maximum digits of a Content-Length that h11 accepts.
_LENGTH_DIGITS = 20

#: h11's status for a head, a chunk's extension or trailers that exceed its limit (RFC 6585, 5).
_TOO_LONG = 431


class ResponseError(Exception):
    """No valid HTTP response came in time; the text has what the server did and what was expected."""


class LateError(ResponseError):
    """The deadline passed: another request to the same server would take as long."""


class UnendedError(LateError):
    """The deadline passed in the middle of a response's body."""


class EndedError(ResponseError):
    """The connection ended before any byte; a kept connection may have ended right after the previous response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One HTTP response as it came over the wire; ``head_bytes`` includes the blank line.

    Args:
        closes: the server ends the connection after it, by its header or by the framing of its body.
        cut: why the body was not read to its end ("" if it was); ``body`` is then its beginning.
        surplus: bytes that followed the complete response, at most one read's bytes.
        message: over WebSocket, the type of the message: "text" or "binary".
        took_ns: from before its request left until it was read; at least as long as the server took.
    """

    status: int
    reason: str = ""
    version: str
    headers: tuple[tuple[str, str], ...]
    head_bytes: int
    wire_bytes: int
    body: bytes
    closes: bool
    cut: str = ""
    surplus: bytes = b""
    took_ns: int = 0
    message: str = ""

    def header(self, name: str) -> str | None:
        """First value of a header, names compared without case (RFC 9110, 5.1)."""
        return next(iter(self.every(name)), None)

    def every(self, name: str) -> tuple[str, ...]:
        """All values of a header, in their order."""
        return tuple(value for key, value in self.headers if key.lower() == name.lower())


class Deadline:
    """A moment on the monotonic clock, and how long ago it was set.

    Args:
        within_s: seconds from now. at_most: another deadline that also ends this one.
    """

    def __init__(self, within_s: float, at_most: Deadline | None = None) -> None:
        self._began_s = time.monotonic()
        self._until_s = self._began_s + within_s
        if at_most is not None:
            self._until_s = min(self._until_s, at_most._until_s)

    @property
    def within_s(self) -> float:
        """Seconds between its start and its end."""
        return self._until_s - self._began_s

    @property
    def spent_s(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self._began_s

    def left_s(self) -> float:
        """Seconds left, never below 0."""
        return max(self._until_s - time.monotonic(), 0.0)

    def text(self) -> str:
        """Its whole time, like "5 s"."""
        return f"{max(self.within_s, 0.0):.3g} s"

    def lend(self, sock: socket.socket) -> None:
        """Sets the time left as the timeout of a socket's next operation."""
        sock.settimeout(max(self.left_s(), _MIN_S))


def quoted(given: bytes) -> str:
    """The beginning of a server's bytes, printable, at most ``QUOTED`` characters."""
    # A secret that a server says is hidden whole, before the cut.
    text = repr(hide(given[: 16 * QUOTED].decode("utf-8", "backslashreplace"))[:QUOTED])
    return text if len(text) <= QUOTED else f"{text[: QUOTED - 2]}…{text[0]}"


def read_response(
    sock: socket.socket,
    request: bytes,
    *,
    body_bytes: int,
    deadline: Deadline,
    pieces: Sequence[bytes] = (),
    begun: bytes | None = None,
) -> Response:
    """Sends one request and reads its whole response.

    Args:
        pieces: the same request, to be sent piece by piece, ``PIECES_S`` apart; (): all at once.
        begun: bytes that came after the previous response; the request was sent before. None: it is sent now.
        body_bytes: the correct body's length, or the maximum; a longer body is read for at most ``SPARE_BYTES`` more,
            and ``cut`` then has the reason.
        deadline: from the first byte sent to the last byte read.

    Raises:
        ResponseError: the response is not valid HTTP, or it wasn't complete in time.
        OSError: the connection failed before any byte came.
    """
    deadline.lend(sock)
    began_ns = time.monotonic_ns()
    try:
        if begun is None:
            _send(sock, pieces or (request,))
    except TimeoutError:
        raise LateError(f"did not read the request within {deadline.text()}; expected it to read the request") from None
    except (BrokenPipeError, ConnectionResetError):
        pass  # it may have responded before it closed
    response = _ResponseReading(sock, request, body_bytes, deadline, begun or b"").response()
    return replace(response, took_ns=time.monotonic_ns() - began_ns)


def _send(sock: socket.socket, pieces: Sequence[bytes]) -> None:
    if len(pieces) > 1 and sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for number, piece in enumerate(pieces):
        if number:
            time.sleep(PIECES_S)  # so that each piece is its own segment, and read alone
        sock.sendall(piece)


class _ResponseReading:
    """One response while it arrives."""

    def __init__(self, sock: socket.socket, request: bytes, body_bytes: int, deadline: Deadline, begun: bytes) -> None:
        self._sock, self._deadline, self._begun = sock, deadline, begun
        self._most_bytes = body_bytes + SPARE_BYTES
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
        method = request.partition(b" ")[0] or b"GET"
        # The real request asks for no other protocol. h11 is given one, so that a response that switches protocols
        # anyway is an event (status 101) and not an error like any other.
        named = [("Host", "dragstrip"), ("Upgrade", "any")]
        self._h11.send(h11.Request(method=method, target="/", headers=named))
        self._h11.send(h11.EndOfMessage())
        self._bodiless = method == b"HEAD"
        # A request in HTTP/1.0 keeps its connection only if the response says so, in whatever version.
        self._must_say = request.partition(b"\r\n")[0].endswith(b" HTTP/1.0")
        self._head: h11.Response | None = None
        self._head_bytes = self._wire_bytes = 0
        self._first = bytearray()  # bytes until the head was complete
        self._interim_bytes = 0  # of these, bytes of interim responses
        self._ended = False  # the server has closed the connection
        self._fields: tuple[tuple[bytes, bytes], ...] = ()
        self._body = bytearray()
        self._cut = ""

    def response(self) -> Response:
        """Reads until the response is complete, or known to be too long.

        Raises:
            ResponseError: see ``read_response``.
        """
        while True:
            try:
                event = self._h11.next_event()
            except h11.RemoteProtocolError as error:
                kind = EndedError if self._ended and not self._wire_bytes else ResponseError
                raise kind(self._unsound(error)) from error
            if isinstance(event, h11.Response):
                self._begin(event)
            elif isinstance(event, h11.InformationalResponse):
                self._interim(event)
            elif isinstance(event, h11.Data):
                self._take(event.data)
            elif event is h11.NEED_DATA:
                self._more()
            else:
                return self._whole()
            if self._cut:
                return self._whole()

    def _more(self) -> None:
        """The next piece that arrives; an empty one is the connection's end."""
        if self._deadline.left_s() <= 0:
            raise self._late()
        self._deadline.lend(self._sock)
        try:
            piece, self._begun = self._begun or self._sock.recv(1 << 16), b""
        except TimeoutError:
            raise self._late() from None
        except ConnectionResetError as error:
            kind = ResponseError if self._wire_bytes else EndedError
            raise kind(f"reset the connection {self._so_far()}; expected {self._whole_one()}") from error
        self._ended = not piece
        self._wire_bytes += len(piece)
        if self._head is None:
            self._first += piece
        start = bytes(self._first[: len(_START)])
        if start != _START[: len(start)]:  # garbage shows in its first bytes, not after the deadline
            given = quoted(bytes(self._first[:QUOTED]))
            if self._first[3:4] == _SETTINGS and self._first[:1] == b"\0":
                raise ResponseError(f"responds in HTTP/2 ({given}); expected HTTP/1.1 unless --http 2 is set")
            raise ResponseError(
                f"sent something that is not HTTP/1: {given}; expected a status line like 'HTTP/1.1 200 OK'"
            )
        self._refuse_wrapping()
        self._h11.receive_data(piece)

    def _interim(self, event: h11.InformationalResponse) -> None:
        if event.status_code == http.HTTPStatus.SWITCHING_PROTOCOLS:
            raise ResponseError("switches protocols (status 101) without being asked; expected a plain response")
        end = _BLANK_LINE.search(self._first, self._interim_bytes)
        assert end is not None
        self._interim_bytes = end.end()  # not ``_read_bytes``: it would copy the rest once per interim response
        if self._interim_bytes > HEAD_BYTES:
            raise ResponseError(
                f"sends interim responses (status {event.status_code}) without end, {self._interim_bytes:,} bytes of "
                "them; expected one final response"
            )

    def _begin(self, event: h11.Response) -> None:
        """Takes the head, which must describe the body in only one way."""
        self._head, self._head_bytes = event, self._read_bytes()
        if self._head_bytes > HEAD_BYTES:
            raise ResponseError(_long_head(self._head_bytes))
        fields = self._fields = _fields_of(bytes(self._first[: self._head_bytes]))
        if event.http_version not in (b"1.0", b"1.1"):
            version = event.http_version.decode("ascii", "replace")
            raise ResponseError(f"responds in HTTP/{version}; expected HTTP/1.1 or HTTP/1.0")
        if _CONTROL.search(b"\n".join([event.reason, *(value for _, value in fields)])):
            raise ResponseError("sends control characters in its head; expected visible ones")
        if len(fields) > MAX_FIELDS:
            raise ResponseError(f"sends {len(fields):,} header fields; expected at most {MAX_FIELDS}")
        lengths = [value for name, value in fields if name.lower() == b"content-length"]
        codings = [value for name, value in fields if name.lower() == b"transfer-encoding"]
        if lengths and codings:
            raise ResponseError("sends both Content-Length and Transfer-Encoding; expected one of them")
        if codings and event.http_version == b"1.0":
            raise ResponseError(
                "frames an HTTP/1.0 response as chunked, which that version does not support; expected Content-Length"
            )
        announced = int(lengths[0].split(b",")[0]) if lengths and not self._empty() else 0
        if announced > self._most_bytes:
            self._cut = f"announces a body of {announced:,} bytes"

    def _take(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > self._most_bytes:
            self._cut = f"sends a body of more than {self._most_bytes:,} bytes"
            del self._body[QUOTED:]
        if self._deadline.left_s() <= 0:
            raise self._late()

    def _refuse_wrapping(self) -> None:
        if self._wire_bytes > 2 * HEAD_BYTES + _FRAMING_BYTES * (len(self._body) + SPARE_BYTES):
            raise ResponseError(
                f"wraps {len(self._body):,} bytes of body in {self._wire_bytes:,} bytes of chunk sizes and "
                "extensions; expected larger chunks, or Content-Length"
            )

    def _read_bytes(self) -> int:
        """Bytes that were read as part of this response."""
        return self._wire_bytes - len(self._h11.trailing_data[0])

    def _empty(self) -> bool:
        """Whether no body can follow, whatever the header says (RFC 9112, 6.3)."""
        return self._bodiless or (self._head is not None and self._head.status_code in (204, 304))

    def _whole(self) -> Response:
        assert self._head is not None
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in self._fields)
        old = self._head.http_version == b"1.0"
        connection = " ".join(value.lower() for name, value in headers if name.lower() == "connection")
        framed = any(name.lower() in ("content-length", "transfer-encoding") for name, _ in headers) or self._empty()
        keeps = "keep-alive" in connection if old or self._must_say else "close" not in connection
        return Response(
            status=self._head.status_code,
            reason=self._head.reason.decode("utf-8", "backslashreplace"),
            version="HTTP/1.0" if old else "HTTP/1.1",
            headers=headers,
            head_bytes=self._head_bytes,
            wire_bytes=self._read_bytes(),
            body=bytes(self._body),
            closes=not keeps or not framed or bool(self._cut),
            cut=self._cut,
            surplus=b"" if self._cut else self._h11.trailing_data[0],
        )

    def _so_far(self) -> str:
        """How much of the response has come, in words."""
        if not self._wire_bytes:
            return "before it responded"
        if self._head is None:
            return f"in the middle of its head, after {quoted(bytes(self._first[:QUOTED]))}"
        return f"in the middle of its response, after {len(self._body):,} bytes of body{self._of_so_many()}"

    def _of_so_many(self) -> str:
        lengths = [] if self._head is None else [v for n, v in self._head.headers if n == b"content-length"]
        return f" of the {int(lengths[0]):,} in its Content-Length" if lengths else ""

    def _whole_one(self) -> str:
        return "a response" if not self._wire_bytes else "a complete response"

    def _late(self) -> LateError:
        if not self._wire_bytes:
            return LateError(f"did not respond within {self._deadline.text()}; expected a response in that time")
        received = f"{self._wire_bytes:,} byte{'s' if self._wire_bytes > 1 else ''} came"
        part = "still in its head" if self._head is None else f"{len(self._body):,} bytes of body{self._of_so_many()}"
        kind = LateError if self._head is None else UnendedError
        return kind(
            f"did not complete its response within {self._deadline.text()} ({received}, {part}){self._endless()}; "
            "expected a whole one in that time"
        )

    def _endless(self) -> str:
        """Why the response can't be complete while the connection is open, if nothing declares its length."""
        names = {name.lower() for name, _ in self._fields}
        if self._head is None or self._empty() or names & {b"content-length", b"transfer-encoding"}:
            return ""
        return (
            ": it has neither Content-Length nor Transfer-Encoding, so its body lasts until the connection ends "
            "(RFC 9112, 6.3), and the server keeps the connection open"
        )

    def _unsound(self, error: h11.RemoteProtocolError) -> str:
        """Why h11 refused the response, as a sentence about the server.

        h11 reports the kind of fault only as a sentence; the state of the connection and the head's bytes show it
        instead. All earlier bytes were read, so an error after the connection's end is about that end.
        """
        if self._ended:
            return f"closed the connection {self._so_far()}; expected {self._whole_one()}"
        if error.error_status_hint == _TOO_LONG:
            if self._head is None:
                return _long_head(self._read_bytes() + len(self._h11.trailing_data[0]))
            return f"sends a chunk's extension or trailers of more than {HEAD_BYTES:,} bytes; expected less"
        if self._head is None and (wrong := self._wrong_lengths()):
            return f"sent an invalid Content-Length, {quoted(wrong)}; expected one plain number"
        part = "headers" if self._head is None else "body framing"
        # Only for readability: "…: bytearray(b'this')" becomes "…, 'this'".
        what, _, bytes_ = str(error).partition(": bytearray(b")
        what += f", {bytes_[1:-2][:QUOTED]!r}" if bytes_ else ""
        return f"sends invalid {part} ({what[: 2 * QUOTED]}); expected valid HTTP/1.1 (RFC 9112)"

    def _wrong_lengths(self) -> bytes | None:
        """The Content-Length values of a head that h11 refused, if they are not one number; otherwise None."""
        head = _BLANK_LINE.split(bytes(self._first[self._interim_bytes :]), maxsplit=1)[0]
        lengths = [value for name, value in _fields_of(head) if name.lower() == b"content-length"]
        numbers = {number.strip() for value in lengths for number in value.split(b",")}
        wrong = len(numbers) > 1 or any(not number.isdigit() or len(number) > _LENGTH_DIGITS for number in numbers)
        return b", ".join(lengths) if wrong else None


def _fields_of(heads: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """The last head's fields as they came over the wire: h11 merges duplicate lengths."""
    lines = heads.replace(b"\r\n", b"\n").rstrip(b"\n").rpartition(b"\n\n")[2].split(b"\n")
    whole = _FOLD.sub(b" ", b"\n".join(lines[1:]))
    split = (line.partition(b":") for line in whole.split(b"\n") if line)
    return tuple((name.strip(), value.strip()) for name, _, value in split)


def _long_head(count: int) -> str:
    return f"sends a head of more than {HEAD_BYTES:,} bytes ({count:,} came); expected a shorter one"
