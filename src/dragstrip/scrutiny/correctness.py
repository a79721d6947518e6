"""Checks a contender's responses: in order, twice in a row, shuffled, over keep-alive and with a connection each.

Requests with a body are also sent in pieces, and in chunks cut in odd places; and several requests at once, if the
workload does so.
"""

from __future__ import annotations

import random
import re
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from dragstrip import parity
from dragstrip.scrutiny import items
from dragstrip.scrutiny.chosen import rows_in, unrandom
from dragstrip.scrutiny.http2 import VERSION
from dragstrip.scrutiny.reader import (
    RESPONSE_S,
    SPARE_BYTES,
    Deadline,
    EndedError,
    LateError,
    Response,
    ResponseError,
    quoted,
    read_response,
)
from dragstrip.scrutiny.responses import (
    TROUBLE,
    Carrier,
    Findings,
    carrier_of,
    changed_form,
    coding_of,
    correct,
    describe_error,
    fetch,
)
from dragstrip.scrutiny.server import Server, facts_of
from dragstrip.scrutiny.websocket import BAD_UPGRADES, WebSocketSession
from dragstrip.workload import HTTP2, WEBSOCKET, Exchange, in_chunks

#: Seconds for all responses of one contender together; a server that needs 0.25 s for each is still in time.
CORRECTNESS_S = 30.0

#: Seconds after a complete response within which a server must close if the request asked for that.
CLOSE_S = 2.0

#: Seconds for which the end of a request's body is held back: only a server that does not wait for it responds.
HELD_S = 0.2

#: Bytes that are held back: the end of a body, with its last chunk if it has chunks.
_HELD_BYTES = 8

#: Maximum number of pieces of a body: more would take long and show nothing new.
MAX_PIECES = 8

#: Headers that a response may have once: two of them contradict each other, or cost twice (RFC 9110, 5.3).
ONCE = (
    "content-length", "content-type", "date", "server", "connection", "transfer-encoding", "etag", "last-modified",
    "location", "retry-after", "age", "expires", "content-encoding", "content-range", "keep-alive",
)  # fmt: skip

#: Called while responses are checked: how many are correct, of how many.
Tell = Callable[[int, int], None]


class Way(Enum):
    """How requests are sent to a contender; the value is the text in messages."""

    IN_ORDER = "over keep-alive, in order"
    SHUFFLED = "over keep-alive, in another order"
    CLOSING = "with Connection: close"
    EACH = "with a connection each"
    IN_PIECES = "with the request in several TCP segments"
    CHUNKED = "with the body in chunks cut in odd places"
    HELD_BACK = "with the end of the body held back"
    UNENCODED = "without Accept-Encoding"
    TOGETHER = "with several requests at once"
    BAD_UPGRADE = "with a bad upgrade"


@dataclass
class _Trial:
    """One contender being checked: its server, its deadline, and its responses so far."""

    server: Server
    deadline: Deadline
    total: int
    tell: Tell
    right: int = 0
    responses: list[Response] = field(default_factory=list)
    opened: int = 0
    forms: dict[tuple[str, bytes, tuple[str, ...]], bytes] = field(default_factory=dict)
    codings: set[str] = field(default_factory=set)
    chosen: list[int] = field(default_factory=list)
    returned: dict[int, int] = field(default_factory=dict)
    statements: int = 0
    encrypted: dict[str, parity.Fact] = field(default_factory=dict)

    def connect(self) -> socket.socket:
        sock = self.server.connect(Deadline(RESPONSE_S, self.deadline))
        if isinstance(sock, ssl.SSLSocket):
            self.encrypted = self.encrypted or facts_of(sock)
        return sock

    def ask(self, sock: Carrier, exchange: Exchange, pieces: Sequence[bytes] = ()) -> Response:
        """The correct response.

        Args:
            pieces: as in ``fetch``.

        Raises:
            OSError, ResponseError: the response is not correct, or none came; in words.
        """
        self.refuse_late()
        return self.judged(exchange, fetch(sock, exchange, Deadline(RESPONSE_S, self.deadline), pieces=pieces))

    def refuse_late(self) -> None:
        """Raises LateError once the time is over."""
        if self.deadline.left_s() <= 0:
            raise LateError(
                f"sent {self.right} of {self.total} correct responses within {self.deadline.text()}; expected all in "
                "that time"
            )

    def judged(self, exchange: Exchange, response: Response) -> Response:
        """The same response, if it is correct and in the same form as before."""
        correct(exchange, response)
        if exchange.compare == "json" or exchange.encodings:
            before = self.forms.setdefault((exchange.path, exchange.sends, exchange.encodings), response.body)
            if reason := changed_form(exchange, before, response.body):
                raise ResponseError(reason)
        if exchange.encodings:
            self.codings.add(coding_of(response))
        if exchange.compare in ("world", "worlds", "updates"):
            rows = rows_in(response.body)
            self.chosen += (number for number, _ in rows)
            self.returned |= rows
            # Which of two numbers of one row was written last is not known.
            for number, times in Counter(number for number, _ in rows).items():
                if times > 1:
                    del self.returned[number]
        if exchange.compare in ("created", "updated"):
            self.returned[items.number_of(exchange)] = int(items.values_of(exchange)["price"])
        self.statements += exchange.statements + items.needs_statement(exchange, response)
        self.right += 1
        self.tell(self.right, self.total)
        return response


def check_correctness(
    server: Server,
    *,
    keepalive: Sequence[Exchange],
    closing: Sequence[Exchange],
    together: int = 1,
    within_s: float = CORRECTNESS_S,
    held_s: float = HELD_S,
    tell: Tell = lambda right, total: None,
) -> Findings:
    """Sends every exchange to a running contender, over keep-alive and with ``Connection: close``.

    Keep-alive exchanges are sent in order, twice each, and then in an order that no server can predict (a response must
    not depend on the requests before); each closing exchange has its own connection. Exchanges with a body are sent
    once more in pieces, and once more in other chunks. A server must not respond before the end of a body is sent, and
    must not compress for a client that does not accept that. Exchanges of HTTP/2 are sent in frames, and a response in
    another version is incorrect. A server of WebSocket must also answer a close frame, and refuse bad upgrades. The
    first fault of each way is reported.

    Args:
        keepalive: exchanges whose requests leave the connection open.
        closing: the same exchanges with ``Connection: close``.
        together: how many requests are sent at once; their responses must come in order.
        within_s: seconds for all responses; a single response has ``RESPONSE_S`` of them.
        held_s: seconds for which the end of a body is held back.
        tell: called after each correct response with the number so far and the total.
    """
    doubled = [exchange for exchange in keepalive for _ in range(2)]
    shuffled = random.SystemRandom().sample(keepalive, k=len(keepalive))
    framed, messages = keepalive[0].http == HTTP2, keepalive[0].http == WEBSOCKET
    cut = [exchange for exchange in keepalive if exchange.sends and not framed]
    with_body = [] if messages else cut
    ahead = (list(keepalive) * together)[: max(together, len(keepalive))] if together > 1 else []
    longest = sorted(with_body, key=lambda exchange: -len(exchange.sends))
    held = [next(filter(framing, longest), None) for framing in (_has_length, _has_chunks)]
    held_back = [exchange for exchange in held if exchange is not None]
    coded = {exchange.kind: exchange for exchange in keepalive if exchange.encodings}
    unencoded = [_unencoded(exchange) for exchange in coded.values()]
    total = len(doubled) + len(shuffled) + len(closing) + len(cut) + len(with_body) + len(ahead)
    total += len(held_back) + len(unencoded)
    trial = _Trial(server, Deadline(within_s), total, tell)
    problems: dict[str, list[Way]] = {}
    last: list[Response] = []
    asking: dict[Way, Callable[[], None]] = {
        Way.IN_ORDER: lambda: _over_one_connection(trial, doubled),
        Way.SHUFFLED: lambda: _over_one_connection(trial, shuffled),
        Way.EACH if framed or messages else Way.CLOSING: lambda: last.append(_one_connection_each(trial, closing)),
        Way.IN_PIECES: lambda: _over_one_connection(trial, cut, _in_pieces),
        Way.CHUNKED: lambda: _over_one_connection(trial, with_body, _in_odd_chunks),
        Way.HELD_BACK: lambda: _held_back(trial, held_back, held_s),
        Way.UNENCODED: lambda: _over_one_connection(trial, unencoded),
        Way.TOGETHER: lambda: _together(trial, ahead, together),
        Way.BAD_UPGRADE: lambda: _bad_upgrades(trial, keepalive[0]) if messages else None,
    }
    for way, ask in asking.items():
        try:
            ask()
        except TROUBLE as error:
            problems.setdefault(describe_error(error), []).append(way)
            if isinstance(error, LateError | ConnectionRefusedError | TimeoutError):
                break  # the next way would only wait as long
    # The same problem in several ways is reported once.
    sentences = tuple(f"{_in_words(ways)}: {problem}" for problem, ways in problems.items())
    if not sentences and (fault := unrandom(trial.chosen)):
        sentences = (fault,)
    facts = {} if sentences else _facts(trial, last[0], keepalive)
    return Findings(problems=sentences, facts=facts, returned=trial.returned, statements=trial.statements)


def _in_words(ways: Sequence[Way]) -> str:
    """Several ways as one phrase; both ways over keep-alive together are "over keep-alive"."""
    if {Way.IN_ORDER, Way.SHUFFLED} <= set(ways):
        return " and ".join(["over keep-alive", *([Way.CLOSING.value] if Way.CLOSING in ways else [])])
    return " and ".join(way.value for way in ways)


def doubled_headers(responses: Iterable[Response]) -> dict[str, tuple[str, ...]]:
    """Values of headers that a response has twice although they may occur once, by lower-case name."""
    doubled: dict[str, tuple[str, ...]] = {}
    for response in responses:
        for name in ONCE:
            if len(values := response.every(name)) > 1:
                doubled.setdefault(name, values)
    return doubled


def _in_pieces(exchange: Exchange) -> tuple[bytes, ...]:
    """The same bytes, cut within the head, before the body, and after each of its first bytes."""
    head, rest = exchange.head, exchange.request[len(exchange.head) :]
    cut = [rest[start : start + 1] for start in range(min(len(rest), MAX_PIECES))]
    return (head[: len(head) // 2], head[len(head) // 2 :], *cut, *([more] if (more := rest[len(cut) :]) else []))


def _in_odd_chunks(exchange: Exchange) -> tuple[bytes, ...]:
    """The same body in chunks of one byte, then of the rest, cut within sizes and line ends (RFC 9112, 7.1)."""
    head = re.sub(rb"\r\nContent-Length: \d+", b"\r\nTransfer-Encoding: chunked", exchange.head)
    body = in_chunks([exchange.sends[:1], exchange.sends[1:2], exchange.sends[2:]])
    split = body.index(b"\r") + 1  # between the CR and the LF after the first size
    return (head, body[:split], body[split : split + 2], body[split + 2 : -3], body[-3:])


def _has_length(exchange: Exchange) -> bool:
    return not exchange.chunked


def _has_chunks(exchange: Exchange) -> bool:
    return exchange.chunked


def _held_back(trial: _Trial, exchanges: Sequence[Exchange], held_s: float) -> None:
    """Sends each request without its end; checks that no response comes before the end does."""
    for exchange in exchanges:
        trial.refuse_late()
        deadline = Deadline(RESPONSE_S + held_s, trial.deadline)
        held = min(_HELD_BYTES, len(exchange.request) - len(exchange.head))
        with trial.connect() as sock:
            deadline.lend(sock)
            try:
                sock.sendall(exchange.request[:-held])
            except TimeoutError:
                raise LateError(f"did not read the body within {deadline.text()}; expected it to read it") from None
            except (BrokenPipeError, ConnectionResetError):
                pass  # it may have responded before it closed
            sock.settimeout(held_s)
            try:
                early = sock.recv(1 << 12)
            except TimeoutError:
                early = None
            if early:
                raise ResponseError(
                    f"{exchange.shown} responded before the end of the request's body was sent, {quoted(early)}; "
                    "expected it to read the body first"
                )
            if early is not None:
                raise ResponseError(
                    f"{exchange.shown}: closed the connection before the end of the request's body was sent; expected "
                    "it to wait for the body"
                )
            rest = exchange.request[-held:]
            trial.judged(exchange, fetch(sock, exchange, deadline, pieces=(rest,)))


def _unencoded(exchange: Exchange) -> Exchange:
    """The same request from a client that accepts no content coding."""
    request = re.sub(rb"\r\nAccept-Encoding: [^\r]*", b"", exchange.request, count=1)
    return replace(exchange, request=request, encodings=())


def _together(trial: _Trial, exchanges: Sequence[Exchange], depth: int) -> None:
    """Sends requests before the responses to earlier ones have come; checks every response in its order."""
    for first in range(0, len(exchanges), depth):
        trial.refuse_late()
        batch = exchanges[first : first + depth]
        with trial.connect() as sock:
            sock.sendall(b"".join(exchange.request for exchange in batch))
            begun = b""
            for number, exchange in enumerate(batch, 1):
                deadline = Deadline(RESPONSE_S, trial.deadline)
                response = read_response(
                    sock, exchange.request, body_bytes=len(exchange.body), deadline=deadline, begun=begun
                )
                begun = response.surplus
                trial.judged(exchange, replace(response, surplus=b"" if number < len(batch) else begun))


def _over_one_connection(
    trial: _Trial, exchanges: Iterable[Exchange], cut: Callable[[Exchange], tuple[bytes, ...]] = lambda _: ()
) -> None:
    sock: socket.socket | None = None
    carrier: Carrier | None = None
    asked = 0
    try:
        for exchange in exchanges:
            if sock is None or carrier is None:
                sock, asked = trial.connect(), 0
                carrier = carrier_of(sock, exchange)
                trial.opened += 1
            elif asked and carrier is sock:
                _refuse_unasked(sock, asked)
            try:
                response = trial.ask(carrier, exchange, cut(exchange))
            except EndedError as error:  # the connection's end was still on its way when the request left
                if not asked:
                    raise
                raise _closed_unsaid(asked, ", or as the next request came") from error
            trial.responses.append(response)
            asked += 1
            if response.closes:
                sock.close()
                sock = None
    finally:
        if sock is not None:
            sock.close()


def _refuse_unasked(sock: socket.socket, asked: int) -> None:
    """Refuses data that arrived between a response and the next request."""
    sock.setblocking(False)
    try:
        # Encrypted bytes can't be peeked at; without a fault there are none.
        early = sock.recv(1 << 12, 0 if isinstance(sock, ssl.SSLSocket) else socket.MSG_PEEK)
    except (BlockingIOError, ssl.SSLWantReadError):
        return
    if early:
        raise ResponseError(f"sent unrequested data, {quoted(early)}; expected one response per request")
    raise _closed_unsaid(asked)


def _closed_unsaid(asked: int, or_else: str = "") -> ResponseError:
    responses = "a response" if asked == 1 else f"{asked:,} responses"
    return ResponseError(
        f"closed the connection after {responses} without announcing it{or_else}; expected "
        "'Connection: close' in the last one"
    )


def _one_connection_each(trial: _Trial, exchanges: Sequence[Exchange]) -> Response:
    """Sends each exchange over its own connection; returns the last response."""
    for exchange in exchanges:
        with trial.connect() as sock:
            carrier = carrier_of(sock, exchange)
            response = trial.ask(carrier, exchange)
            if isinstance(carrier, WebSocketSession):
                carrier.end(Deadline(CLOSE_S, trial.deadline))
            elif carrier is sock:  # no request over HTTP/2 asks for the connection's end
                _wait_for_its_end(sock, exchange, trial.deadline)
    return response


def _bad_upgrades(trial: _Trial, exchange: Exchange) -> None:
    """Sends requests that a server must not upgrade; it may close the connection instead of a response."""
    for name, fields in BAD_UPGRADES.items():
        trial.refuse_late()
        request = exchange.head.removesuffix(b"\r\n") + fields + b"\r\n"
        with trial.connect() as sock:
            try:
                response = read_response(
                    sock, request, body_bytes=SPARE_BYTES, deadline=Deadline(RESPONSE_S, trial.deadline)
                )
            except EndedError:
                continue
            except ResponseError as error:
                raise type(error)(f"{name}: {error}") from error
        if not 400 <= response.status < 500:
            raise ResponseError(f"{name}: sent status {response.status}; expected 400 to 499")


def _wait_for_its_end(sock: socket.socket, exchange: Exchange, deadline: Deadline) -> None:
    """Checks that the server closes the connection, and sends nothing after its response."""
    Deadline(CLOSE_S, deadline).lend(sock)
    try:
        more = sock.recv(1 << 12)
    except TimeoutError:
        raise ResponseError(
            f"asked to close ('Connection: close'), it did not close within {CLOSE_S:g} s of its response; expected it "
            "to close the connection"
        ) from None
    except ConnectionResetError as error:
        raise ResponseError(
            "asked to close, it reset the connection (RST) after its response, which may destroy the response on its "
            "way; expected an orderly close"
        ) from error
    if more:
        raise ResponseError(
            f"{exchange.path}: bytes follow the complete response, {quoted(more)}; expected nothing more"
        )


def _facts(trial: _Trial, closing: Response, asked: Sequence[Exchange]) -> dict[str, parity.Fact]:
    responses = trial.responses
    first = responses[0]
    heads = sorted({response.head_bytes for response in responses})
    bodies = sorted({len(response.body) for response in responses})
    names = ", ".join(name for name, _ in first.headers)
    reused = len(responses) - trial.opened
    facts: dict[str, parity.Fact] = {
        parity.HTTP_VERSION: first.version,
        **trial.encrypted,
        parity.HEADER_BYTES: parity.Span(heads[0], heads[-1]),
        parity.BODY_BYTES: parity.Span(bodies[0], bodies[-1]),
        parity.BODY_FRAMING: _framing(first),
        "headers": names,
        "Server header": first.header("server") or "none",
        "Date header": "yes" if first.header("date") else "no",
        "content type": first.header("content-type") or "none",
        "keep-alive on the wire": f"{reused} of {len(responses)} answers on a reused connection, {trial.opened} opened",
    }
    if first.version.startswith("HTTP/1"):
        facts["Connection: close"] = "honoured" if closing.closes else "closes without saying so"
    doubled = doubled_headers([*responses, closing])
    if any(exchange.content_type == "application/json" for exchange in asked):
        own = any(exchange.compare == "json" for exchange in asked)
        facts[parity.JSON_FORM] = "its own, declared" if own else "as the workload has it"
    if trial.codings:
        facts[parity.ENCODINGS] = ", ".join(sorted(trial.codings))
    if doubled:
        facts[parity.DOUBLED_HEADERS] = "; ".join(
            f"{name.title()} {len(values)} times ({', '.join(quoted(value.encode()) for value in values[:2])})"
            for name, values in doubled.items()
        )
    return facts


def _framing(response: Response) -> parity.Framing:
    if (response.header("transfer-encoding") or "").lower() == "chunked":
        return parity.Framing.CHUNKED
    if response.header("content-length") is not None:
        return parity.Framing.LENGTH
    if response.message:
        return parity.Framing.MESSAGES
    return parity.Framing.FRAMES if response.version == VERSION else parity.Framing.UNTIL_CLOSE
