"""A contender proves its answers: in order, twice in a row, shuffled, over keep-alive and with a connection each.

Requests with a body are sent in pieces, too, and their chunks cut in odd places; several requests at once, where the
workload does so.
"""

from __future__ import annotations

import random
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from dragstrip import parity
from dragstrip.scrutiny.answers import TROUBLE, Findings, changed_form, correct, describe_error, fetch
from dragstrip.scrutiny.http2 import VERSION, Http2Session
from dragstrip.scrutiny.reader import (
    ANSWER_S,
    Answer,
    AnswerError,
    Deadline,
    EndedError,
    LateError,
    quoted,
    read_answer,
)
from dragstrip.scrutiny.server import Server, facts_of
from dragstrip.workload import HTTP2, Exchange, in_chunks

#: Seconds that all answers of one contender may take together; a server that needs 0.25 s for each is still in time.
CORRECTNESS_S = 30.0

#: Seconds from a complete answer within which a server that was asked to close has to close.
CLOSE_S = 2.0

#: Maximum number of pieces that a body is sent in: more would take long, and show no more.
MAX_PIECES = 8

#: Headers that an answer has once at most: two of them contradict each other, or cost twice (RFC 9110, 5.3).
ONCE = (
    "content-length", "content-type", "date", "server", "connection", "transfer-encoding", "etag", "last-modified",
    "location", "retry-after", "age", "expires", "content-encoding", "content-range", "keep-alive",
)  # fmt: skip

#: Told while answers are proved: how many are right, of how many.
Tell = Callable[[int, int], None]


class Way(Enum):
    """How a contender is asked; the value says it in words."""

    IN_ORDER = "over keep-alive, in order"
    SHUFFLED = "over keep-alive, in another order"
    CLOSING = "with Connection: close"
    EACH = "with a connection each"
    IN_PIECES = "with the request in several TCP segments"
    CHUNKED = "with the body in chunks cut in odd places"
    TOGETHER = "with several requests at once"


@dataclass
class _Trial:
    """One contender being checked: its server, how long it may still take, and how far it has come."""

    server: Server
    deadline: Deadline
    total: int
    tell: Tell
    right: int = 0
    answers: list[Answer] = field(default_factory=list)
    opened: int = 0
    forms: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    encrypted: dict[str, parity.Fact] = field(default_factory=dict)

    def connect(self) -> socket.socket:
        sock = self.server.connect(Deadline(ANSWER_S, self.deadline))
        if isinstance(sock, ssl.SSLSocket):
            self.encrypted = self.encrypted or facts_of(sock)
        return sock

    def ask(self, sock: socket.socket | Http2Session, exchange: Exchange, pieces: Sequence[bytes] = ()) -> Answer:
        """The right answer.

        Args:
            pieces: as ``fetch`` has it.

        Raises:
            OSError, AnswerError: it is none, in words.
        """
        self.refuse_late()
        return self.judged(exchange, fetch(sock, exchange, Deadline(ANSWER_S, self.deadline), pieces=pieces))

    def refuse_late(self) -> None:
        """Asks nothing more once the time is over."""
        if self.deadline.left_s() <= 0:
            raise LateError(
                f"sent {self.right} of {self.total} correct responses within {self.deadline.text()}; expected all in "
                "that time"
            )

    def judged(self, exchange: Exchange, answer: Answer) -> Answer:
        """An answer that is right, and in its own form the same as before."""
        correct(exchange, answer)
        if exchange.compare == "json":
            before = self.forms.setdefault((exchange.path, exchange.sends), answer.body)
            if reason := changed_form(exchange, before, answer.body):
                raise AnswerError(reason)
        self.right += 1
        self.tell(self.right, self.total)
        return answer


def check_correctness(
    server: Server,
    *,
    keepalive: Sequence[Exchange],
    closing: Sequence[Exchange],
    together: int = 1,
    within_s: float = CORRECTNESS_S,
    tell: Tell = lambda right, total: None,
) -> Findings:
    """Puts every exchange to a running contender, over keep-alive and with ``Connection: close``.

    Keep-alive exchanges go in order, twice each, and then in an order that no server can know (an answer must not
    depend on what came before); the closing ones take a connection each. Those with a body are asked once more in
    pieces, and once more in other chunks. The first fault of each way is reported. Exchanges of HTTP/2 go in frames,
    and who answers in another version has not answered right.

    Args:
        keepalive: exchanges whose requests leave the connection open.
        closing: the same exchanges with ``Connection: close``.
        together: how many requests are sent at once; their responses must come in order.
        within_s: seconds for all of it; a single answer has ``ANSWER_S`` of them.
        tell: called after each right answer with how many there are, and how many there shall be.
    """
    doubled = [exchange for exchange in keepalive for _ in range(2)]
    shuffled = random.SystemRandom().sample(keepalive, k=len(keepalive))
    framed = keepalive[0].http == HTTP2
    with_body = [exchange for exchange in keepalive if exchange.sends and not framed]
    ahead = (list(keepalive) * together)[: max(together, len(keepalive))] if together > 1 else []
    total = len(doubled) + len(shuffled) + len(closing) + 2 * len(with_body) + len(ahead)
    trial = _Trial(server, Deadline(within_s), total, tell)
    problems: dict[str, list[Way]] = {}
    last: list[Answer] = []
    asking: dict[Way, Callable[[], None]] = {
        Way.IN_ORDER: lambda: _over_one_connection(trial, doubled),
        Way.SHUFFLED: lambda: _over_one_connection(trial, shuffled),
        Way.EACH if framed else Way.CLOSING: lambda: last.append(_one_connection_each(trial, closing)),
        Way.IN_PIECES: lambda: _over_one_connection(trial, with_body, _in_pieces),
        Way.CHUNKED: lambda: _over_one_connection(trial, with_body, _in_odd_chunks),
        Way.TOGETHER: lambda: _together(trial, ahead, together),
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
    return Findings(problems=sentences, facts={} if sentences else _facts(trial, last[0], keepalive))


def _in_words(ways: Sequence[Way]) -> str:
    """Several ways as one phrase; both keep-alive ones together are "over keep-alive"."""
    if {Way.IN_ORDER, Way.SHUFFLED} <= set(ways):
        return " and ".join(["over keep-alive", *([Way.CLOSING.value] if Way.CLOSING in ways else [])])
    return " and ".join(way.value for way in ways)


def doubled_headers(answers: Iterable[Answer]) -> dict[str, tuple[str, ...]]:
    """Headers that some answer has twice though they may occur once: their values, by lower-case name."""
    doubled: dict[str, tuple[str, ...]] = {}
    for answer in answers:
        for name in ONCE:
            if len(values := answer.every(name)) > 1:
                doubled.setdefault(name, values)
    return doubled


def _in_pieces(exchange: Exchange) -> tuple[bytes, ...]:
    """The same bytes, cut within the head, before the body, and behind each of its bytes."""
    head, rest = exchange.head, exchange.request[len(exchange.head) :]
    cut = [rest[at : at + 1] for at in range(min(len(rest), MAX_PIECES))]
    return (head[: len(head) // 2], head[len(head) // 2 :], *cut, *([more] if (more := rest[len(cut) :]) else []))


def _in_odd_chunks(exchange: Exchange) -> tuple[bytes, ...]:
    """The same body in chunks of one byte, then of the rest, cut within sizes and line ends (RFC 9112, 7.1)."""
    head = re.sub(rb"\r\nContent-Length: \d+", b"\r\nTransfer-Encoding: chunked", exchange.head)
    body = in_chunks([exchange.sends[:1], exchange.sends[1:2], exchange.sends[2:]])
    at = body.index(b"\r") + 1  # between the CR and the LF behind the first size
    return (head, body[:at], body[at : at + 2], body[at + 2 : -3], body[-3:])


def _together(trial: _Trial, exchanges: Sequence[Exchange], depth: int) -> None:
    """Requests sent before the answers to those before them have come: every answer in its order."""
    for first in range(0, len(exchanges), depth):
        trial.refuse_late()
        batch = exchanges[first : first + depth]
        with trial.connect() as sock:
            sock.sendall(b"".join(exchange.request for exchange in batch))
            begun = b""
            for number, exchange in enumerate(batch, 1):
                deadline = Deadline(ANSWER_S, trial.deadline)
                answer = read_answer(
                    sock, exchange.request, body_bytes=len(exchange.body), deadline=deadline, begun=begun
                )
                begun = answer.surplus
                trial.judged(exchange, replace(answer, surplus=b"" if number < len(batch) else begun))


def _over_one_connection(
    trial: _Trial, exchanges: Iterable[Exchange], cut: Callable[[Exchange], tuple[bytes, ...]] = lambda _: ()
) -> None:
    sock: socket.socket | None = None
    carrier: socket.socket | Http2Session | None = None
    asked = 0
    try:
        for exchange in exchanges:
            if sock is None or carrier is None:
                sock, asked = trial.connect(), 0
                carrier = Http2Session(sock) if exchange.http == HTTP2 else sock
                trial.opened += 1
            elif asked and carrier is sock:
                _refuse_unasked(sock, asked)
            try:
                answer = trial.ask(carrier, exchange, cut(exchange))
            except EndedError as error:  # its end was still on the way when the request left
                if not asked:
                    raise
                raise _closed_unsaid(asked, ", or as the next request came") from error
            trial.answers.append(answer)
            asked += 1
            if answer.closes:
                sock.close()
                sock = None
    finally:
        if sock is not None:
            sock.close()


def _refuse_unasked(sock: socket.socket, asked: int) -> None:
    """What has arrived between an answer and the next request belongs to none of them."""
    sock.setblocking(False)
    try:
        # Encrypted bytes can't be looked at without being taken; but for a fault there are none.
        early = sock.recv(1 << 12, 0 if isinstance(sock, ssl.SSLSocket) else socket.MSG_PEEK)
    except (BlockingIOError, ssl.SSLWantReadError):
        return
    if early:
        raise AnswerError(f"sent unrequested data, {quoted(early)}; expected one response per request")
    raise _closed_unsaid(asked)


def _closed_unsaid(asked: int, or_else: str = "") -> AnswerError:
    answers = "a response" if asked == 1 else f"{asked:,} responses"
    return AnswerError(
        f"closed the connection after {answers} without announcing it{or_else}; expected "
        "'Connection: close' in the last one"
    )


def _one_connection_each(trial: _Trial, exchanges: Sequence[Exchange]) -> Answer:
    """The last one's answer."""
    for exchange in exchanges:
        with trial.connect() as sock:
            answer = trial.ask(sock, exchange)
            if exchange.http != HTTP2:  # there no request asks for the connection's end
                _wait_for_its_end(sock, exchange, trial.deadline)
    return answer


def _wait_for_its_end(sock: socket.socket, exchange: Exchange, deadline: Deadline) -> None:
    """The server must close, and must send nothing after its answer."""
    Deadline(CLOSE_S, deadline).lend(sock)
    try:
        more = sock.recv(1 << 12)
    except TimeoutError:
        raise AnswerError(
            f"asked to close ('Connection: close'), it did not close within {CLOSE_S:g} s of its response; expected it "
            "to close the connection"
        ) from None
    except ConnectionResetError as error:
        raise AnswerError(
            "asked to close, it reset the connection (RST) after its response, which may destroy the response on its "
            "way; expected an orderly close"
        ) from error
    if more:
        raise AnswerError(f"{exchange.path}: bytes follow the complete response, {quoted(more)}; expected nothing more")


def _facts(trial: _Trial, closing: Answer, asked: Sequence[Exchange]) -> dict[str, parity.Fact]:
    answers = trial.answers
    first = answers[0]
    heads = sorted({answer.head_bytes for answer in answers})
    bodies = sorted({len(answer.body) for answer in answers})
    names = ", ".join(name for name, _ in first.headers)
    reused = len(answers) - trial.opened
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
        "keep-alive on the wire": f"{reused} of {len(answers)} answers on a reused connection, {trial.opened} opened",
    }
    if first.version != VERSION:
        facts["Connection: close"] = "honoured" if closing.closes else "closes without saying so"
    doubled = doubled_headers([*answers, closing])
    if any(exchange.content_type == "application/json" for exchange in asked):
        facts[parity.JSON_FORM] = "its own, declared" if trial.forms else "as the workload has it"
    if doubled:
        facts[parity.DOUBLED_HEADERS] = "; ".join(
            f"{name.title()} {len(values)} times ({', '.join(quoted(value.encode()) for value in values[:2])})"
            for name, values in doubled.items()
        )
    return facts


def _framing(answer: Answer) -> parity.Framing:
    if (answer.header("transfer-encoding") or "").lower() == "chunked":
        return parity.Framing.CHUNKED
    if answer.header("content-length") is not None:
        return parity.Framing.LENGTH
    return parity.Framing.FRAMES if answer.version == VERSION else parity.Framing.UNTIL_CLOSE
