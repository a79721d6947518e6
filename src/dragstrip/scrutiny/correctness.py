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
from enum import StrEnum
from functools import partial

from dragstrip import json_by_value, parity
from dragstrip.scrutiny.reader import (
    RESPONSE_S,
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
    Findings,
    changed_form,
    coding_of,
    correct,
    describe_error,
    fetch,
)
from dragstrip.scrutiny.server import Server, facts_of
from dragstrip.scrutiny.session import Session, closed_unsaid, session_for, session_over
from dragstrip.workload import IDENTITY, Exchange, in_chunks
from dragstrip.workload.exchange import OWN_FORM

#: Seconds for all responses of one contender together; a server that needs 0.25 s for each is still in time.
CORRECTNESS_S = 30.0

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


class Way(StrEnum):
    """How requests are sent to a contender, as messages say it; a session may have ways of its own (``trials``)."""

    IN_ORDER = "over keep-alive, in order"
    SHUFFLED = "over keep-alive, in another order"
    CLOSING = "with Connection: close"
    EACH = "with a connection each"
    IN_PIECES = "with the request in several TCP segments"
    CHUNKED = "with the body in chunks cut in odd places"
    HELD_BACK = "with the end of the body held back"
    UNENCODED = "without Accept-Encoding"
    TOGETHER = "with several requests at once"


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

    def connect_in_time(self) -> socket.socket:
        """A new connection, unless the time is over."""
        self.refuse_late()
        return self.connect()

    def ask(self, session: Session, exchange: Exchange, pieces: Sequence[bytes] = ()) -> Response:
        """The correct response.

        Args:
            pieces: as in ``fetch``.

        Raises:
            OSError, ResponseError: the response is not correct, or none came; in words.
        """
        self.refuse_late()
        return self.judged(exchange, fetch(session, exchange, Deadline(RESPONSE_S, self.deadline), pieces=pieces))

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
        if exchange.compare == "json" or (exchange.encodings and exchange.compare != "values"):
            before = self.forms.setdefault((exchange.path, exchange.sends, exchange.encodings), response.body)
            if reason := changed_form(exchange, before, response.body):
                raise ResponseError(reason)
        if exchange.encodings:
            self.codings.add(coding_of(response))
        self.statements += exchange.statements
        if exchange.chosen:
            self._note_rows(exchange, response)
        self.right += 1
        self.tell(self.right, self.total)
        return response

    def _note_rows(self, exchange: Exchange, response: Response) -> None:
        """Which rows of the database the server chose, which numbers it wrote, and whether it needed a statement."""
        from dragstrip.scrutiny import items  # workloads with a database's rows alone need it
        from dragstrip.scrutiny.chosen import rows_in

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
        self.statements += items.needs_statement(exchange, response)


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
    session = session_for(keepalive[0])
    cut = [exchange for exchange in keepalive if exchange.sends and session.in_pieces]
    with_body = cut if session.has_chunks else []
    odd = [exchange for exchange in with_body if exchange.chunks or exchange.chunked]
    ahead = (list(keepalive) * together)[: max(together, len(keepalive))] if together > 1 else []
    longest = sorted(with_body, key=lambda exchange: -len(exchange.sends))
    held = [next(filter(framing, longest), None) for framing in (_has_length, _has_chunks)]
    held_back = [exchange for exchange in held if exchange is not None]
    coded = {exchange.kind: exchange for exchange in keepalive if exchange.encodings and exchange.negotiated}
    unencoded = [_unencoded(exchange) for exchange in coded.values()]
    total = len(doubled) + len(shuffled) + len(closing) + len(cut) + len(odd) + len(ahead)
    total += len(held_back) + len(unencoded)
    trial = _Trial(server, Deadline(within_s), total, tell)
    problems: dict[str, list[str]] = {}
    last: list[Response] = []
    asking: dict[str, Callable[[], None]] = {
        Way.IN_ORDER: lambda: _over_one_connection(trial, doubled),
        Way.SHUFFLED: lambda: _over_one_connection(trial, shuffled),
        Way.CLOSING if session.closes else Way.EACH: lambda: last.append(_one_connection_each(trial, closing)),
        Way.IN_PIECES: lambda: _over_one_connection(trial, cut, _in_pieces),
        Way.CHUNKED: lambda: _over_one_connection(trial, odd, _in_odd_chunks),
        Way.HELD_BACK: lambda: _held_back(trial, held_back, held_s),
        Way.UNENCODED: lambda: _over_one_connection(trial, unencoded),
        Way.TOGETHER: lambda: _together(trial, ahead, together),
        **{
            way: partial(ask, trial.connect_in_time, keepalive[0], trial.deadline)
            for way, ask in session.trials.items()
        },
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
    if not sentences and trial.chosen:
        from dragstrip.scrutiny.chosen import unrandom

        if fault := unrandom(trial.chosen):
            sentences = (fault,)
    facts = {} if sentences else _facts(trial, last[0], keepalive)
    return Findings(problems=sentences, facts=facts, returned=trial.returned, statements=trial.statements)


def _in_words(ways: Sequence[str]) -> str:
    """Several ways as one phrase; both ways over keep-alive together are "over keep-alive"."""
    if {Way.IN_ORDER, Way.SHUFFLED} <= set(ways):
        return " and ".join(["over keep-alive", *([Way.CLOSING] if Way.CLOSING in ways else [])])
    return " and ".join(ways)


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
            if early is not None:
                due = len(exchange.request) - len(exchange.head)
                did = f"responded ({quoted(early)})" if early else "closed the connection"
                raise ResponseError(
                    f"{exchange.shown} {did} before the end of the request's body was sent: {due - held:,} of its "
                    f"{due:,} bytes had left; expected it to read the body first, as the others must; if it needs no "
                    "body, send none: -m without -b"
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
    session: Session | None = None
    asked = 0
    try:
        for exchange in exchanges:
            if sock is None or session is None:
                sock, asked = trial.connect(), 0
                session = session_over(sock, exchange)
                trial.opened += 1
            elif asked:
                session.refuse_unasked(asked)
            try:
                response = trial.ask(session, exchange, cut(exchange))
            except EndedError as error:  # the connection's end was still on its way when the request left
                if not asked:
                    raise
                raise closed_unsaid(asked, ", or as the next request came") from error
            trial.responses.append(response)
            asked += 1
            if response.closes:
                sock.close()
                sock = None
    finally:
        if sock is not None:
            sock.close()


def _one_connection_each(trial: _Trial, exchanges: Sequence[Exchange]) -> Response:
    """Sends each exchange over its own connection; returns the last response."""
    for exchange in exchanges:
        with trial.connect() as sock:
            session = session_over(sock, exchange)
            response = trial.ask(session, exchange)
            session.end(exchange, trial.deadline)
    return response


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
        parity.BODY_FRAMING: _framing(first, session_for(asked[0])),
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
        own = any(exchange.compare in OWN_FORM for exchange in asked)
        facts[parity.JSON_FORM] = "its own, declared" if own else "as the workload has it"
    if any(exchange.changing for exchange in asked):
        facts[parity.CHANGED_FIELDS] = _changed_fields(responses)
    if trial.codings:
        facts[parity.ENCODINGS] = ", ".join(sorted(trial.codings))
    if doubled:
        facts[parity.DOUBLED_HEADERS] = "; ".join(
            f"{name.title()} {len(values)} times ({', '.join(quoted(value.encode()) for value in values[:2])})"
            for name, values in doubled.items()
        )
    return facts


def _changed_fields(responses: Sequence[Response]) -> str:
    """The fields that differ between responses: one that changes elsewhere and not here may be stale."""
    try:
        values = [json_by_value.parsed(response.body) for response in responses if coding_of(response) == IDENTITY]
    except ValueError:
        return "none"
    return (", ".join(sorted(json_by_value.changing(values))) if values else "") or "none"


def _framing(response: Response, session: type[Session]) -> parity.Framing:
    if (response.header("transfer-encoding") or "").lower() == "chunked":
        return parity.Framing.CHUNKED
    return session.framing if response.header("content-length") is None else parity.Framing.LENGTH
