"""Learns a launch's reference responses: the heads and the JSON that the engine compares with under load."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dragstrip import json_by_value as values
from dragstrip.scrutiny.reader import EndedError, Response, ResponseError, quoted
from dragstrip.scrutiny.responses import (
    TROUBLE,
    ask,
    changed_form,
    coding_of,
    correct,
    describe_error,
    fetch,
    names_time,
)
from dragstrip.scrutiny.server import Server
from dragstrip.scrutiny.session import session_for, session_over
from dragstrip.workload import IDENTITY, Exchange
from dragstrip.workload.exchange import OWN_FORM, Compare

#: Name, value, and whether the value must be the same under load: one field of the engine's reference head.
Field = tuple[bytes, bytes, bool]
Head = tuple[Field, ...]

#: Headers whose values must equal a reference response's. Others (Date, cookies, numbers of requests) may vary.
SAME_VALUE = (
    "content-type", "content-encoding", "connection", "transfer-encoding", "server", "vary", "cache-control",
    "content-language", "accept-ranges",
)  # fmt: skip

#: HTTP/1's status line as fields of a head, under names that no server can send.
_VERSION, _REASON = b":version", b":reason"

#: Maximum number of different requests of each kind that are sent for reference responses; the first is sent twice.
_MAX_PER_KIND = 4

#: The number in an integer's notation that every program writes.
_DIGITS = re.compile(rb"[0-9]+")

#: The sender in the requests of races, and in a browser's.
_OURS = b"\r\nUser-Agent: dragstrip\r\n"
_STRANGER = b"\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n"

#: How often each of the two sends a request: a head that varies by itself proves nothing.
_TIMES = 3

#: Fields that may change in the last head of a connection that the server ends.
_OF_CONNECTIONS = {b"connection", b"keep-alive"}


def with_own_form(server: Server, exchanges: Sequence[Exchange]) -> tuple[Exchange, ...]:
    """The same exchanges; those not compared byte by byte have the contender's own bytes as the correct body.

    If these contain the time, only their length is compared; if the server chooses rows, all but their numbers.

    Each of these is sent twice, over a new connection each time; both responses must be correct, and the same.

    Raises:
        OSError, ResponseError: a response is not correct, or not the same; in words.
    """
    return tuple(
        _learned(server, exchange)
        if exchange.compare in (*OWN_FORM, "digest") or exchange.encodings or exchange.chosen
        else exchange
        for exchange in exchanges
    )


def _learned(server: Server, exchange: Exchange) -> Exchange:
    first, second = (ask(server, exchange) for _ in range(2))
    if exchange.compare in ("world", "worlds", "updates"):
        if _shape(first.body) != _shape(second.body):
            raise ResponseError(_changed_shape(exchange, first.body, second.body))
        return replace(exchange, body=_shape(first.body), compare="bytes", pattern=True, learned=True)
    if exchange.compare == "digest":
        return replace(exchange, body=first.body, compare="bytes", learned=True)
    if exchange.compare == "values":
        return _in_own_form(exchange, first, second)
    if reason := changed_form(exchange, first.body, second.body):
        raise ResponseError(reason)
    varies = first.body != second.body or names_time(first.body, coding_of(first))
    return replace(exchange, body=first.body, compare="length" if varies else "bytes", learned=True)


def _in_own_form(exchange: Exchange, first: Response, second: Response) -> Exchange:
    """What the engine can compare of a JSON text: every byte but those of values that change, its length, or nothing.

    Values that change are compared by their type."""
    length: Compare = "length" if len(first.body) == len(second.body) and not exchange.changing else "status"
    if coding_of(first) == IDENTITY:
        patterns = [values.pattern(one.body, exchange.changing) for one in (first, second)]
        if patterns[0] is not None and patterns[0] == patterns[1]:
            return replace(exchange, body=patterns[0], compare="bytes", pattern=bool(exchange.changing), learned=True)
    elif first.body == second.body and not names_time(first.body, coding_of(first)):
        return replace(exchange, body=first.body, compare="bytes", learned=True)
    return replace(exchange, body=first.body if length == "length" else b"", compare=length, learned=True)


def _shape(body: bytes) -> bytes:
    """The pattern of a body whose numbers may vary."""
    return _DIGITS.sub(values.DIGITS, body)


def _changed_shape(exchange: Exchange, before: bytes, given: bytes) -> str:
    return (
        f"{exchange.shown} sent correct rows in one form and then in another: {quoted(before)}, then {quoted(given)}; "
        "expected the same form each time"
    )


def reference_heads(server: Server, exchanges: Sequence[Exchange]) -> list[list[Head]]:
    """The heads that correct responses may have, by kind of request, in the order of the kinds; messages have none.

    A server may end a connection that the load would keep, if its last head says so: that head is also correct.

    Raises:
        OSError, ResponseError: the server sent no correct response, in words.
    """
    by_kind: dict[int, list[Exchange]] = {}
    for exchange in (exchange for exchange in exchanges if session_for(exchange).has_heads):
        by_kind.setdefault(exchange.kind, []).append(exchange)
    by_kind_heads = []
    for kind in sorted(by_kind):
        of_kind = by_kind[kind]
        most = len(of_kind) if of_kind[0].encodings else _MAX_PER_KIND  # each may have another coding
        picked = of_kind[:: max(len(of_kind) // most, 1)][:most]
        heads: dict[Head, None] = {}
        for response in _responses(server, [picked[0], *picked]):
            head = _head(response)
            heads[head] = None
            if not response.closes and response.version.startswith("HTTP/1"):
                # A connection's last head announces its end.
                others = (field for field in head if field[0] not in _OF_CONNECTIONS)
                heads[(*others, (b"connection", b"close", True))] = None
        by_kind_heads.append(list(heads))
    return by_kind_heads


def _responses(server: Server, exchanges: Sequence[Exchange]) -> list[Response]:
    """The correct responses to these requests, over as few connections as the server allows."""
    responses: list[Response] = []
    waiting = list(exchanges)
    while waiting:
        with server.connect() as sock:
            session = session_over(sock, waiting[0])
            asked = 0
            while waiting:
                try:
                    response = fetch(session, waiting[0])
                except EndedError:  # a server may end a connection after a response without announcing it
                    if not asked:
                        raise
                    break
                asked += 1
                responses.append(correct(waiting.pop(0), response))
                if response.closes:
                    break
    return responses


def _head(response: Response) -> Head:
    fields = [
        (name.lower().encode("latin-1"), value.encode("latin-1"), name.lower() in SAME_VALUE)
        for name, value in response.headers
    ]
    if response.version.startswith("HTTP/1"):
        reason = response.reason.encode("latin-1", "replace")
        fields += [(_VERSION, response.version.encode(), True), (_REASON, reason, reason.isascii())]
    return tuple(fields)


def partiality(server: Server, exchange: Exchange) -> str | None:
    """How the head differs for a client that calls itself a browser, or that it gets no response; None: it does not."""
    if _OURS not in exchange.request:
        return None
    stranger = replace(exchange, request=exchange.request.replace(_OURS, _STRANGER, 1))
    heads: dict[bool, set[frozenset[tuple[str, str]]]] = {True: set(), False: set()}
    try:
        for _ in range(_TIMES):  # in turns, each over a new connection
            for usual, asked in ((True, exchange), (False, stranger)):
                heads[usual] |= {_settled(response) for response in _responses(server, [asked])}
    except TROUBLE as error:
        return f"asked as a browser (User-Agent): {describe_error(error)}"
    if heads[True] & heads[False]:
        return None
    mine, theirs = (min(heads[usual], key=sorted) for usual in (True, False))
    differences = "; ".join(
        f"{client} gets {', '.join(f'{name}: {value}'.rstrip(': ') for name, value in sorted(given - without))}"
        for client, given, without in (("Dragstrip", mine, theirs), ("a browser", theirs, mine))
        if given - without
    )
    return f"sends a browser (User-Agent) another head than Dragstrip: {differences}; expected the same head"


def _settled(response: Response) -> frozenset[tuple[str, str]]:
    """The names of a response's headers, and the values that stay the same."""
    head = _head(response)
    return frozenset((name.decode("latin-1"), value.decode("latin-1") if same else "") for name, value, same in head)


def compared(exchanges: Sequence[Exchange], *, by_length: bool) -> str:
    """What the engine compares under load, for the parity sheet."""
    bodies = "status only" if all(exchange.any_body for exchange in exchanges) else "every byte of the body"
    if all(exchange.compare == "values" for exchange in exchanges):
        bodies = "the body as JSON: every value, and the types of values that change"
    if all(exchange.compare == "length" for exchange in exchanges):
        bodies = "the body's length"
    if by_length:
        bodies = "the body's length, every byte in samples"
    return session_for(exchanges[0]).compared(", ".join(SAME_VALUE), bodies)
