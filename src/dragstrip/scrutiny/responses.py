"""Sends one request to a server and judges the response: status, content type, every byte of the body."""

from __future__ import annotations

import hashlib
import socket
import ssl
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from dragstrip import json_by_value as values
from dragstrip import parity
from dragstrip.scrutiny.reader import (
    QUOTED,
    RESPONSE_S,
    Deadline,
    LateError,
    Response,
    ResponseError,
    UnendedError,
    quoted,
    read_response,
)
from dragstrip.scrutiny.server import Encryption, Server
from dragstrip.scrutiny.session import Session, session_over
from dragstrip.store.masking import hide
from dragstrip.workload import IDENTITY, Exchange
from dragstrip.workload.exchange import OWN_FORM
from dragstrip.workload.fields import MAX_FILE_BYTES

#: What goes wrong between a request and its response; each error's text describes what the server did.
TROUBLE = (OSError, ResponseError)

#: How many times as long as the correct JSON a JSON text in another form may be.
_OTHER_FORM = 4

#: Headers that say why a server refuses a request, and bytes of its body that a message quotes.
_TELLING, _SAID_BYTES = ("Location", "Retry-After", "WWW-Authenticate", "Allow", "Upgrade", "Accept"), 200

#: Seconds after which a response is asked for again, in which a time of whole seconds has then changed.
AGAIN_S = 1.1

#: Bytes of a body that is not compared, as the engine reads them under load.
ANY_BYTES = 2**20

#: Bytes shown before the first one that differs in an incorrect body.
_BEFORE = 10

#: zlib's window bits for gzip's format with its checksum, and where a gzip header has the time of its making
#: (RFC 1952, 2.3.1).
_GZIP, _MADE_AT = 16 + zlib.MAX_WBITS, slice(4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The result of scrutineering: ``problems`` put a contender out, ``facts`` are for the parity sheet.

    ``returned`` has the last number that was returned for each of the rows that the server chose or wrote, by id.
    ``statements`` is the number that the checked responses needed in the database.
    """

    problems: tuple[str, ...] = ()
    facts: dict[str, parity.Fact] = field(default_factory=dict)
    returned: dict[int, int] = field(default_factory=dict)
    statements: int = 0


def fetch(
    sock: socket.socket | Session,
    exchange: Exchange,
    deadline: Deadline | None = None,
    *,
    pieces: Sequence[bytes] = (),
) -> Response:
    """Sends one request and reads its whole response, or only as much as shows that it is too long.

    Args:
        sock: a new connection, or a session over one.
        deadline: for request and response; None: ``RESPONSE_S`` from now.
        pieces: the request cut into pieces, or with its body framed in another way; (): as the exchange has it.

    Raises:
        OSError, ResponseError: the connection failed, or no complete HTTP response came in time.
    """
    deadline = deadline or Deadline(RESPONSE_S)
    session = session_over(sock, exchange) if isinstance(sock, socket.socket) else sock
    return session.fetch(exchange, body_bytes=_longest(exchange), deadline=deadline, pieces=pieces)


def ask(server: Server, exchange: Exchange) -> Response:
    """The correct response to one request over a new connection.

    Raises:
        OSError, ResponseError: the response is not correct, or none came; in words.
    """
    with server.connect() as sock:
        return correct(exchange, fetch(sock, exchange))


def correct(exchange: Exchange, response: Response) -> Response:
    """The same response, if it is correct.

    Raises:
        ResponseError: the response is not correct, in words.
    """
    if reason := fault(exchange, response):
        raise ResponseError(reason)
    return response


def changed_form(exchange: Exchange, before: bytes, given: bytes) -> str | None:
    """Why a response in a form of the contender's own is not the same as before; None if it is."""
    if given == before or (exchange.encodings and len(given) == len(before)):
        return None
    if exchange.encodings:
        return (
            f"{exchange.shown} sent the same body compressed to {len(before):,} bytes and then to {len(given):,}; "
            "expected the same size each time"
        )
    return (
        f"{exchange.shown} sent the correct JSON in one form and then in another: {quoted(before)}, then "
        f"{quoted(given)}; expected the same form each time"
    )


def describe_error(error: Exception) -> str:
    """What went wrong between a request and its response: a sentence about the server."""
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


def fault(exchange: Exchange, response: Response) -> str | None:
    """Why a response is not correct, in words; None if it is."""
    path = exchange.shown
    if not _is_due(response.status, exchange.status):
        return f"{path} sent status {response.status}; expected {exchange.status}"
    if response.message != exchange.message:
        return f"{path} sent a {response.message} message; expected a {exchange.message} message"
    given_type = (response.header("content-type") or "").split(";")[0].strip().lower()
    if exchange.content_type and given_type != exchange.content_type:
        given = given_type[:QUOTED] or "none"
        return f"{path} sent content type {given}; expected {exchange.content_type}"
    if response.cut and not exchange.body and exchange.any_body:
        most = f"{_longest(exchange):,} bytes"
        return f"{path} {response.cut}; expected at most {most}; request a path whose response ends sooner (--path)"
    if response.cut:
        return f"{path} {response.cut}; expected {len(exchange.body):,}"
    if lacking := next((name for name in exchange.headers if response.header(name) is None), None):
        return f"{path} has no header {lacking}; expected {' and '.join(exchange.headers)}"
    body, reason = _plain(exchange, response)
    if reason:
        return f"{path} {reason}"
    if exchange.chosen:
        from dragstrip.scrutiny.chosen import chosen_fault  # workloads with a database's rows alone need it

        if fault_of_rows := chosen_fault(exchange, body):
            return f"{path} {fault_of_rows}"
    elif not _same(exchange, body):
        return f"{path} {_body_fault(exchange, body)}"
    if response.took_ns < exchange.earliest_ns:
        took_ms, earliest_ms = response.took_ns / 1e6, exchange.earliest_ns / 1e6
        return f"{path} responded after {took_ms:.1f} ms, too early; expected {earliest_ms:g} ms or more"
    if response.surplus:
        return f"{path}: bytes follow the complete response, {quoted(response.surplus)}; expected nothing more"
    return None


def _is_due(given: int, due: int) -> bool:
    return given == due or (not due and given != HTTPStatus.SERVICE_UNAVAILABLE)


def coding_of(response: Response) -> str:
    """The content coding of a response's body."""
    return (response.header("content-encoding") or IDENTITY).strip().lower()[:QUOTED]


def _plain(exchange: Exchange, response: Response) -> tuple[bytes, str]:
    """The body without its content coding, and what is wrong with that coding; "" if nothing is."""
    coding, body = coding_of(response), response.body
    if exchange.any_body or exchange.learned:
        return body, ""
    accepted = exchange.encodings or (IDENTITY,)
    if coding not in accepted:
        if exchange.encodings:
            given = "is plain" if coding == IDENTITY else f"is sent as {coding}"
            return b"", f"{given}, although the request accepts {_listed(exchange.encodings)}; expected one of these"
        return b"", f"is sent as {coding}, but only identity was accepted; expected plain bytes"
    if coding == IDENTITY:
        return body, ""
    longest = _longest(exchange)
    plain = decoded(body, coding, at_most=longest)
    if plain is None:
        return b"", (
            f"is sent as {coding}, but its {len(body):,} bytes can't be decoded to at most {longest:,}: "
            f"{quoted(body)}; expected the whole body as {coding}"
        )
    if IDENTITY not in accepted and len(body) >= len(plain):
        return b"", (
            f"is sent as {coding} in {len(body):,} bytes, which is not shorter than the plain {len(plain):,}; "
            "expected a compressed body"
        )
    return plain, ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _longest(exchange: Exchange) -> int:
    """Bytes that a correct body, decoded, may have."""
    if exchange.compare == "status":
        return MAX_FILE_BYTES if not exchange.status else ANY_BYTES
    other_form = exchange.compare in OWN_FORM or exchange.pattern
    return _OTHER_FORM * len(exchange.body) if other_form else len(exchange.body)


def _same(exchange: Exchange, body: bytes) -> bool:
    """Whether a body is correct, by what the exchange compares."""
    if exchange.compare == "length" and exchange.body:
        return len(body) == len(exchange.body)
    if exchange.compare == "digest":
        return hashlib.sha256(body).hexdigest() == exchange.sha256
    if exchange.any_body or body == exchange.body or (exchange.pattern and values.fits(body, exchange.body)):
        return True
    if exchange.compare == "values":
        return values.fault(exchange.body, body, exchange.changing) is None
    return exchange.compare == "json" and _equal_json(body, exchange.body)


def same_body(exchange: Exchange, response: Response) -> bool:
    """Whether a response, whatever its status, has the body that an exchange compares; False if it compares none."""
    body, reason = _plain(exchange, response)
    return not (reason or exchange.any_body) and _same(exchange, body)


def _equal_json(first: bytes, second: bytes) -> bool:
    """Whether both are JSON texts of the same value, whatever their spacing and the order of keys."""
    try:
        return values.same(values.parsed(first), values.parsed(second))
    except ValueError:
        return False


def difference(server: Server, exchange: Exchange, sample: str) -> str:
    """How a response under load differs from the correct one, in words; "" if that can't be found out.

    Args:
        sample: how the response begins. If that is not all of it, the same request is sent once more.
    """
    if not sample.startswith("HTTP/"):
        return ""
    ours, theirs = socket.socketpair()
    theirs.close()  # nothing follows the sample
    try:
        with ours:
            whole = read_response(
                ours, exchange.request, body_bytes=ANY_BYTES, deadline=Deadline(RESPONSE_S), begun=sample.encode()
            )
        if "\ufffd" not in sample and (found := fault(exchange, whole)):
            return found
    except TROUBLE:
        pass  # it is only the beginning
    try:
        with server.connect() as sock:
            found = fault(exchange, fetch(sock, exchange))
    except TROUBLE:
        return ""  # it may serve no connection beside those of the load
    return f"asked once more, {found}" if found else ""


def nothing_right(errors: Mapping[str, int], sample: str, last_words: str, differs: str = "") -> str:
    """Why a server that passed its checks is out: under load none of its responses was correct.

    Args:
        errors: counts by the engine's kinds. sample: the start of the first incorrect response, or why none came.
        differs: what ``difference`` found.
    """
    kinds = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in errors.items()) or "no response at all"
    shown = f": {differs}" if differs else f", the first {quoted(sample.encode())}" if sample else ""
    return (
        f"sent no correct response under load ({kinds}{shown}); expected the same responses as before the load; "
        f"its last words: {last_words or 'none'}"
    )


def _body_fault(exchange: Exchange, given: bytes) -> str:
    correct_body = exchange.body
    if exchange.compare == "digest" and len(given) == len(correct_body):
        return f"sent {len(given):,} bytes with another content than expected (by SHA-256): {quoted(given)}"
    if exchange.compare in ("length", "digest"):
        return f"sent a body of {len(given):,} bytes; expected {len(correct_body):,}"
    if exchange.compare == "values":
        return hide(str(values.fault(correct_body, given, exchange.changing)))
    if exchange.stale is not None and given == exchange.stale:
        return "sent data from the files of an earlier launch, which it must have kept; expected this launch's {data}"
    is_json = exchange.content_type == "application/json" and exchange.compare == "bytes"
    if is_json and _equal_json(given, correct_body):
        return (
            f"sent the correct JSON in another form: {quoted(given)}; expected {quoted(correct_body)}; a "
            'contender.toml declares that: `form = "own"` under its [workload.NAME]'
        )
    pairs = enumerate(zip(correct_body, given, strict=False))
    first = next((index for index, (a, b) in pairs if a != b), min(len(correct_body), len(given)))
    start = max(first - _BEFORE, 0) if first > 40 else 0
    return (
        f"sent a body of {len(given)} bytes that differs from the correct {len(correct_body)} bytes at byte {first}: "
        f"{quoted(given[start:])}; expected {quoted(correct_body[start:])}"
    )


def own_words(response: Response) -> str:
    """What a server says about a status: headers that tell why it refuses a request, and how its body begins."""
    words = [f"{name}: {value}" for name in _TELLING if (value := response.header(name)) is not None]
    body = " ".join(response.body[:_SAID_BYTES].decode("utf-8", "replace").split())
    return hide("; ".join([*words, f"its body begins {body!r}" if body else "it has no body"]))


class Incorrect(str):
    """Why a complete response is incorrect."""

    __slots__ = ()
    responded = True


def is_right(
    exchange: Exchange, *, within_s: float | None = None, tls: Encryption | None = None, remedy: str = ""
) -> Callable[[str, int], str | None]:
    """A probe for a launcher: one connection, one request; None if the response is correct, otherwise the reason.

    Args:
        within_s: seconds from now after which no probe waits any longer; a single probe waits at most ``RESPONSE_S``.
        remedy: what to do about an incorrect response.
    """
    until = Deadline(within_s) if within_s is not None else None
    reason: str | None = None
    responded = False

    def probe(host: str, port: int) -> str | None:
        nonlocal reason, responded
        deadline = Deadline(RESPONSE_S, until)
        try:
            with Server(host, port, tls).connect(deadline) as sock:
                response = fetch(sock, exchange, deadline)
                found = fault(exchange, response)
                busy = response.status == HTTPStatus.SERVICE_UNAVAILABLE  # servers say so while they start
                advice = remedy if not response.cut else ""  # a response without an end can't be compared less
                reason = Incorrect(f"{found}; {advice}" if advice else found) if found and not busy else found
                responded = True
        except TROUBLE as error:
            late = isinstance(error, LateError | TimeoutError)
            # A last try that was cut short tells less than the try before.
            if not (late and responded and deadline.within_s < RESPONSE_S):
                reason = describe_error(error)
                if remedy and isinstance(error, UnendedError):
                    reason += "; no option gives it more time: request a path whose response ends (--path)"
            responded = responded or isinstance(error, ResponseError | ssl.SSLError)
        return reason

    return probe


def decoded(body: bytes, coding: str, *, at_most: int) -> bytes | None:
    """A body without its content coding; None if it is not valid, incomplete, or longer than ``at_most``.

    Args:
        coding: "gzip" or "br".
    """
    plain = _from_gzip(body, at_most) if coding == "gzip" else _from_brotli(body, at_most)
    return plain if plain is not None and len(plain) <= at_most else None


def _from_gzip(body: bytes, at_most: int) -> bytes | None:
    reader = zlib.decompressobj(_GZIP)
    try:
        plain = reader.decompress(body, at_most + 1)
    except zlib.error:
        return None
    return plain if reader.eof and not reader.unused_data else None


def _from_brotli(body: bytes, at_most: int) -> bytes | None:
    import brotli

    reader, plain = brotli.Decompressor(), b""
    try:
        piece: bytes = reader.process(body, output_buffer_limit=at_most + 1)
        while piece:
            plain += piece
            if len(plain) > at_most:
                return None
            piece = reader.process(b"", output_buffer_limit=at_most + 1)
    except brotli.error:
        return None
    return plain if reader.is_finished() else None


def names_time(body: bytes, coding: str) -> bool:
    """Whether a compressed body contains the time of its making, so that its bytes change from second to second."""
    return coding == "gzip" and any(body[_MADE_AT])
