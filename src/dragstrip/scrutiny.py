"""Scrutineering: a contender must prove that it does the same work before it may yield a number.

Talks plain sockets and the standard library's HTTP reader, not the load engine: two independent
readings of the same answers. What can't be equal between contenders is collected as facts for the
parity sheet instead.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Iterable, Sequence
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


def is_right(exchange: Exchange) -> Callable[[str, int], str | None]:
    """A probe for the stage: one connection, one request; None when the answer is right, else the reason."""

    def probe(host: str, port: int) -> str | None:
        try:
            with socket.create_connection((host, port), timeout=ANSWER_TIMEOUT_S) as sock:
                return fault(exchange, fetch(sock, exchange))
        except (OSError, HTTPException) as error:
            return f"{type(error).__name__}: {error}"

    return probe


def scrutineer(host: str, port: int, *, keepalive: Sequence[Exchange], closing: Sequence[Exchange]) -> Findings:
    """Puts every exchange to a running contender, over keep-alive and with ``Connection: close``.

    Keep-alive exchanges go in order, once more each (an answer must not depend on what came before), and in
    reverse; the closing ones take a connection each. The first fault of each way is reported.

    Args:
        keepalive: exchanges whose requests leave the connection open.
        closing: the same exchanges with ``Connection: close``.
    """
    problems: list[str] = []
    answers: list[Answer] = []
    reused = opened = 0
    doubled = [exchange for exchange in keepalive for _ in range(2)]
    for way, sequence in (("in order", doubled), ("in reverse", list(reversed(keepalive)))):
        try:
            seen, connections = _over_one_connection(host, port, sequence)
        except (OSError, HTTPException, _WrongAnswerError) as error:
            problems.append(f"over keep-alive, {way}: {_words(error)}")
            continue
        answers += seen
        opened += connections
        reused += len(seen) - connections
    try:
        last = _one_connection_each(host, port, closing)
    except (OSError, HTTPException, _WrongAnswerError) as error:
        problems.append(f"with Connection: close: {_words(error)}")
        last = None
    facts = _facts(answers, last, reused, opened) if answers and last else {}
    return Findings(problems=tuple(problems), facts=facts)


class _WrongAnswerError(Exception):
    """Carries a fault's words out of the loops above."""


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, _WrongAnswerError) else f"{type(error).__name__}: {error}"


def _over_one_connection(host: str, port: int, exchanges: Iterable[Exchange]) -> tuple[list[Answer], int]:
    answers: list[Answer] = []
    connections = 0
    sock: socket.socket | None = None
    try:
        for exchange in exchanges:
            if sock is None:
                sock = socket.create_connection((host, port), timeout=ANSWER_TIMEOUT_S)
                connections += 1
            answer = _right_answer(sock, exchange)
            answers.append(answer)
            if answer.closes:
                sock.close()
                sock = None
    finally:
        if sock is not None:
            sock.close()
    return answers, connections


def _one_connection_each(host: str, port: int, exchanges: Iterable[Exchange]) -> Answer | None:
    answer = None
    for exchange in exchanges:
        with socket.create_connection((host, port), timeout=ANSWER_TIMEOUT_S) as sock:
            answer = _right_answer(sock, exchange)
            if sock.recv(1):  # the server must close, and must send nothing after its answer
                raise _WrongAnswerError(f"{exchange.path}: bytes follow the complete answer")
    return answer


def _right_answer(sock: socket.socket, exchange: Exchange) -> Answer:
    answer = fetch(sock, exchange)
    reason = fault(exchange, answer)
    if reason:
        raise _WrongAnswerError(reason)
    return answer


def _facts(answers: Sequence[Answer], closing: Answer, reused: int, opened: int) -> dict[str, str]:
    first = answers[0]
    heads = sorted({answer.head_bytes for answer in answers})
    bodies = sorted({len(answer.body) for answer in answers})
    names = ", ".join(name for name, _ in first.headers)
    return {
        "HTTP version": first.version,
        "header bytes": _span(heads),
        "body bytes": _span(bodies),
        "body framing": _framing(first),
        "headers": names,
        "Server header": first.header("server") or "none",
        "Date header": "yes" if first.header("date") else "no",
        "content type": first.header("content-type") or "none",
        "keep-alive on the wire": f"{reused} of {len(answers)} answers on a reused connection, {opened} opened",
        "Connection: close": "honoured" if closing.closes else "closes without saying so",
    }


def _span(values: Sequence[int]) -> str:
    return str(values[0]) if values[0] == values[-1] else f"{values[0]}–{values[-1]}"


def _framing(answer: Answer) -> str:
    if (answer.header("transfer-encoding") or "").lower() == "chunked":
        return "chunked"
    return "Content-Length" if answer.header("content-length") is not None else "until close"
