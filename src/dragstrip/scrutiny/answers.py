"""One answer, read from a socket and judged: status, content type, every byte of the body."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import Any

from dragstrip.workload import Exchange

#: Seconds a single answer may take while it is being proved right.
ANSWER_TIMEOUT_S = 5.0

_SHOWN = 120  # characters of a wrong body that a message quotes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP answer as it came over the wire; ``head_bytes`` counts the blank line too."""

    status: int
    version: str
    headers: tuple[tuple[str, str], ...]
    head_bytes: int
    wire_bytes: int
    body: bytes
    closes: bool

    def header(self, name: str) -> str | None:
        """First value of a header, names compared without case (RFC 9110, 5.1)."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What scrutineering found: ``problems`` put a contender out, ``facts`` go to the parity sheet."""

    problems: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)


class _Recorder(io.RawIOBase):
    """Hands a socket's bytes on and remembers them, so that heads can be counted as sent."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.seen = bytearray()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._sock.recv_into(buffer)
        self.seen += memoryview(buffer)[:count]
        return count


class _Source:
    """What HTTPResponse wants of a socket: a way to make a file of it."""

    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder

    def makefile(self, *_args: object, **_kwargs: object) -> io.BufferedReader:
        # A buffer of one byte never reads past the answer: what a server sends beyond it stays to be found.
        return io.BufferedReader(self._recorder, buffer_size=1)


def fetch(sock: socket.socket, exchange: Exchange) -> Answer:
    """Sends one request and reads its whole answer.

    Raises:
        OSError, HTTPException: the connection failed, or what came back is no HTTP answer.
    """
    sock.sendall(exchange.request)
    recorder = _Recorder(sock)
    response = HTTPResponse(_Source(recorder), method="GET")  # type: ignore[arg-type]
    try:
        response.begin()
        body = response.read()
        closes = bool(response.will_close) or (_is_old(exchange.request) and not says_keep(response))
        headers = tuple(response.getheaders())
    finally:
        response.close()
    seen = bytes(recorder.seen)
    return Answer(
        status=response.status,
        version="HTTP/1.1" if response.version == 11 else "HTTP/1.0",
        headers=headers,
        head_bytes=seen.find(b"\r\n\r\n") + 4,
        wire_bytes=len(seen),
        body=body,
        closes=closes,
    )


def _is_old(request: bytes) -> bool:
    return request.partition(b"\r\n")[0].endswith(b" HTTP/1.0")


def says_keep(response: HTTPResponse) -> bool:
    """A request in HTTP/1.0 keeps its connection only where the answer says so, whatever version that has."""
    return "keep-alive" in (response.getheader("Connection") or "").lower()


def fault(exchange: Exchange, answer: Answer) -> str | None:
    """Why an answer is not the right one, in words; None if it is."""
    if answer.status != exchange.status:
        return f"{exchange.path} answered status {answer.status} where {exchange.status} is right"
    given_type = (answer.header("content-type") or "").split(";")[0].strip().lower()
    if given_type != exchange.content_type:
        return f"{exchange.path} answered content type {given_type or 'none'} where {exchange.content_type} is right"
    if answer.body != exchange.body:
        return f"{exchange.path} {_body_fault(exchange.body, answer.body)}"
    if answer.header("content-encoding"):
        return (
            f"{exchange.path} is sent as {answer.header('content-encoding')}, though nothing but identity was accepted"
        )
    return None


def _body_fault(right: bytes, given: bytes) -> str:
    at = next((i for i, (a, b) in enumerate(zip(right, given, strict=False)) if a != b), min(len(right), len(given)))
    shown = given[:_SHOWN].decode("utf-8", "backslashreplace")
    return (
        f"answered a body of {len(given)} bytes that differs from the right {len(right)} bytes at byte {at}: "
        f"{shown!r} where {right[:_SHOWN].decode('utf-8', 'backslashreplace')!r} is right"
    )


def connect(host: str, port: int, timeout_s: float = ANSWER_TIMEOUT_S) -> socket.socket:
    """A connection to a server; one at "unix:PATH" has no port.

    Raises:
        OSError: nobody listens there.
    """
    if not host.startswith("unix:"):
        return socket.create_connection((host, port), timeout=timeout_s)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(timeout_s)
        sock.connect(host.removeprefix("unix:"))
    except OSError:
        sock.close()
        raise
    return sock


def is_right(exchange: Exchange) -> Callable[[str, int], str | None]:
    """A probe for the stage: one connection, one request; None when the answer is right, else the reason."""

    def probe(host: str, port: int) -> str | None:
        try:
            with connect(host, port) as sock:
                return fault(exchange, fetch(sock, exchange))
        except (OSError, HTTPException) as error:
            return f"{type(error).__name__}: {error}"

    return probe
