"""One answer, put to a server and judged: status, content type, every byte of the body."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dragstrip import parity
from dragstrip.scrutiny.http2 import Http2Session
from dragstrip.scrutiny.reader import ANSWER_S, QUOTED, Answer, AnswerError, Deadline, LateError, quoted, read_answer
from dragstrip.scrutiny.server import Encryption, Server
from dragstrip.workload import HTTP2, Exchange

#: What goes wrong between a request and its answer; the text of each says what the server did.
TROUBLE = (OSError, AnswerError)

#: How many times as long as the right one a JSON text of another form may be.
_OTHER_FORM = 4

#: Bytes shown before the first one that differs in an incorrect body.
_BEFORE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What scrutineering found: ``problems`` put a contender out, ``facts`` go to the parity sheet."""

    problems: tuple[str, ...] = ()
    facts: dict[str, parity.Fact] = field(default_factory=dict)


def fetch(
    sock: socket.socket | Http2Session,
    exchange: Exchange,
    deadline: Deadline | None = None,
    *,
    pieces: Sequence[bytes] = (),
) -> Answer:
    """Sends one request and reads its whole answer, or as much of it as shows that it is too long.

    Args:
        sock: a new connection where the exchange is of HTTP/2, or a session over one.
        deadline: for all of it; none: ``ANSWER_S`` from now.
        pieces: the request cut into pieces, or its body framed otherwise; (): as the exchange has it.

    Raises:
        OSError, AnswerError: the connection failed, or no complete HTTP response came in time.
    """
    deadline = deadline or Deadline(ANSWER_S)
    longest = _OTHER_FORM * len(exchange.body) if exchange.compare == "json" else len(exchange.body)
    if isinstance(sock, socket.socket) and exchange.http == HTTP2:
        sock = Http2Session(sock)
    if isinstance(sock, Http2Session):
        return sock.ask(exchange.request, body_bytes=longest, deadline=deadline)
    return read_answer(sock, exchange.request, body_bytes=longest, deadline=deadline, pieces=pieces)


def ask(server: Server, exchange: Exchange) -> Answer:
    """The correct response to one request over a connection of its own.

    Raises:
        OSError, AnswerError: it is none, in words.
    """
    with server.connect() as sock:
        return correct(exchange, fetch(sock, exchange))


def correct(exchange: Exchange, answer: Answer) -> Answer:
    """The same response, if it is correct.

    Raises:
        AnswerError: it is not, in words.
    """
    if reason := fault(exchange, answer):
        raise AnswerError(reason)
    return answer


def changed_form(exchange: Exchange, before: bytes, given: bytes) -> str | None:
    """Why a response in a form of the contender's own is not the same as before; None if it is."""
    if given == before:
        return None
    return (
        f"{exchange.shown} sent the correct JSON in one form and then in another: {quoted(before)}, then "
        f"{quoted(given)}; expected the same form each time"
    )


def describe_error(error: Exception) -> str:
    """What went wrong between a request and its answer: a sentence about the server."""
    if isinstance(error, ConnectionRefusedError):
        return "accepts no connections (refused); expected a listening server"
    if isinstance(error, TimeoutError):
        return "accepts no connections (the attempt timed out); expected it to accept them"
    if isinstance(error, ConnectionResetError):
        return "reset the connection (RST); expected a response"
    if isinstance(error, ssl.SSLError):
        return f"TLS fails ({error.reason or error}); expected a handshake with the race's certificate"
    if isinstance(error, OSError):
        return f"the connection failed ({error.strerror or error})"
    return str(error)


def fault(exchange: Exchange, answer: Answer) -> str | None:
    """Why an answer is not the right one, in words; None if it is."""
    path = exchange.shown
    if answer.status != exchange.status:
        return f"{path} sent status {answer.status}; expected {exchange.status}"
    given_type = (answer.header("content-type") or "").split(";")[0].strip().lower()
    if exchange.content_type and given_type != exchange.content_type:
        given = given_type[:QUOTED] or "none"
        return f"{path} sent content type {given}; expected {exchange.content_type}"
    if answer.cut:
        return f"{path} {answer.cut}; expected {len(exchange.body):,}"
    if answer.header("content-encoding") and not exchange.any_body:
        coding = (answer.header("content-encoding") or "")[:QUOTED]
        return f"{path} is sent as {coding}, but only identity was accepted; expected plain bytes"
    if not _same(exchange, answer.body):
        return f"{path} {_body_fault(exchange, answer.body)}"
    if answer.took_ns < exchange.earliest_ns:
        took_ms, earliest_ms = answer.took_ns / 1e6, exchange.earliest_ns / 1e6
        return f"{path} responded after {took_ms:.1f} ms, too early; expected {earliest_ms:g} ms or more"
    if answer.surplus:
        return f"{path}: bytes follow the complete response, {quoted(answer.surplus)}; expected nothing more"
    return None


def _same(exchange: Exchange, body: bytes) -> bool:
    """Whether a body is the right one, by what the exchange compares."""
    if exchange.any_body or body == exchange.body:
        return True
    return exchange.compare == "json" and canonical(body) == canonical(exchange.body) is not None


def canonical(body: bytes) -> str | None:
    """A JSON text in one form, whatever its spacing and the order of its keys; None where it is none.

    A number keeps how it is written: 24.0 is not 24 here, as it is not for a program that wants whole numbers.
    """
    try:
        value = json.loads(body, object_pairs_hook=_once)
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (ValueError, RecursionError):
        return None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object's members, each of which may occur once: of two, every program would take another one."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key occurs twice")
    return members


def nothing_right(errors: Mapping[str, int], sample: str, last_words: str) -> str:
    """Why a server that passed its checks is out: under load none of its responses was correct.

    Args:
        errors: by the engine's kinds. sample: the start of the first incorrect response, or why none came.
    """
    kinds = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in errors.items()) or "no response at all"
    shown = f", the first {quoted(sample.encode())}" if sample else ""
    return (
        f"sent no correct response under load ({kinds}{shown}); expected the same responses as before the load; "
        f"its last words: {last_words or 'none'}"
    )


def _body_fault(exchange: Exchange, given: bytes) -> str:
    right = exchange.body
    if exchange.stale is not None and given == exchange.stale:
        return "sent data from the files of an earlier launch, which it must have kept; expected this launch's {data}"
    if exchange.content_type == "application/json" and exchange.compare == "bytes":
        form = canonical(given)
        if form is not None and form == canonical(right):
            return (
                f"sent the correct JSON in another form: {quoted(given)}; expected {quoted(right)}; a "
                'contender.toml declares that: `form = "own"` under its [workload.NAME]'
            )
    at = next((i for i, (a, b) in enumerate(zip(right, given, strict=False)) if a != b), min(len(right), len(given)))
    from_ = max(at - _BEFORE, 0) if at > 40 else 0
    return (
        f"sent a body of {len(given)} bytes that differs from the correct {len(right)} bytes at byte {at}: "
        f"{quoted(given[from_:])}; expected {quoted(right[from_:])}"
    )


def is_right(
    exchange: Exchange, *, within_s: float | None = None, tls: Encryption | None = None, remedy: str = ""
) -> Callable[[str, int], str | None]:
    """A probe for the stage: one connection, one request; None when the answer is right, else the reason.

    Args:
        within_s: seconds from now after which no probe waits any longer; a single one waits ``ANSWER_S`` at most.
        remedy: what to do about a response that is another one.
    """
    until = Deadline(within_s) if within_s is not None else None
    reason: str | None = None
    answered = False

    def probe(host: str, port: int) -> str | None:
        nonlocal reason, answered
        deadline = Deadline(ANSWER_S, until)
        try:
            with Server(host, port, tls).connect(deadline) as sock:
                reason = fault(exchange, fetch(sock, exchange, deadline))
                reason = f"{reason}; {remedy}" if reason and remedy else reason
                answered = True
        except TROUBLE as error:
            late = isinstance(error, LateError | TimeoutError)
            # A last try that was cut short says less than what came before.
            if not (late and answered and deadline.within_s < ANSWER_S):
                reason = describe_error(error)
            answered = answered or isinstance(error, AnswerError | ssl.SSLError)
        return reason

    return probe
