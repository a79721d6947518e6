"""What a server does with connections, found by trying it: limits, HTTP/1.0, who is served while one is busy."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest
from test_scrutiny import BODY, exchange, honest, plain, serving

from dragstrip import parity
from dragstrip.parity import Fairness, KeepAlive, OldHttp, OldHttpKind, UnknownPath
from dragstrip.scrutiny import Server, connection_behaviour, fairness


def tried(answer) -> dict[str, parity.Fact]:  # type: ignore[no-untyped-def]
    with serving(answer) as port:
        return connection_behaviour(Server("127.0.0.1", port), exchange())


def closing_after(count: int, *, says: bool):  # type: ignore[no-untyped-def]
    """A server that closes each connection after this many responses, with or without the header."""
    asked: dict[str, int] = {"on this": 0}

    def answer(request: bytes, _number: int) -> tuple[bytes, bool]:
        asked["on this"] += 1
        if asked["on this"] < count:
            return plain(), False
        asked["on this"] = 0
        return plain(BODY, *(["Connection: close"] if says else [])), True

    return answer


@pytest.mark.parametrize(("count", "says"), [(1, True), (7, True), (100, True), (100, False)])
def test_a_keep_alive_limit_is_found_to_the_request(count: int, says: bool) -> None:
    """Whether the server says that it closes or not."""
    found = tried(closing_after(count, says=says))[parity.KEEP_ALIVE]
    assert found == KeepAlive(count, closed=True, announced=says)


def test_a_server_without_a_limit_is_said_to_have_none_in_so_many() -> None:
    """How many were tried is part of the fact: more was not seen."""
    found = tried(honest)[parity.KEEP_ALIVE]
    assert isinstance(found, KeepAlive)
    assert not found.closed
    assert found.responses > 1


def changing(request: bytes, number: int) -> tuple[bytes, bool]:
    """A server whose bodies change, also in length, and every other one is chunked."""
    body = b"x" * (1 + number % 7) + b"%d" % number
    if number % 2:
        return plain(body), False
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body), False


def test_bodies_that_change_do_not_hide_how_long_a_connection_is_kept() -> None:
    """A response ends where its framing says, whatever its body is."""
    found = tried(changing)[parity.KEEP_ALIVE]
    assert isinstance(found, KeepAlive), found
    assert not found.closed
    assert found.responses > 1000


def old(request: bytes) -> bool:
    return b" HTTP/1.0\r\n" in request


@pytest.mark.parametrize(
    ("answer", "kind", "problem"),
    [
        (lambda r, _n: (plain(BODY, "Connection: keep-alive"), False), OldHttpKind.KEEPS, ""),
        (lambda r, _n: (plain(BODY, "Connection: close"), True), OldHttpKind.CLOSES, ""),
        (lambda r, _n: (plain(BODY), old(r)), OldHttpKind.CLOSES, ""),
        (lambda r, _n: (plain(BODY, "Connection: keep-alive"), old(r)), OldHttpKind.BREAKS, ""),
        (
            lambda r, _n: (plain(b"upgrade!\n") if old(r) else plain(), False),
            OldHttpKind.WRONG,
            "/ sent a body of 9",
        ),
    ],
)
def test_http_1_0_is_asked_as_ab_asks(answer, kind: OldHttpKind, problem: str) -> None:  # type: ignore[no-untyped-def]
    """Kept only where the answer says so and the next one comes; a wrong answer is a fact, not a refusal."""
    found = tried(answer)[parity.OLD_HTTP]
    assert isinstance(found, OldHttp)
    assert found.kind is kind
    assert found.problem.startswith(problem)
    assert bool(found.problem) == bool(problem)


def test_whoever_answers_every_path_alike_is_seen() -> None:
    """A server that routes does more work than one that does not look."""
    assert tried(honest)[parity.UNKNOWN_PATH] == UnknownPath(200, same_body=True)
    routes = tried(lambda r, n: honest(r, n) if r.startswith(b"GET / ") else (plain(b"", status="404 No"), True))
    assert routes[parity.UNKNOWN_PATH] == UnknownPath(404, same_body=False)


def test_whoever_answers_every_path_with_fields_that_change_is_seen() -> None:
    """What changes by itself does not make it another body; a body that is not compared says nothing."""
    learned = replace(exchange(body=b'{"id":1,"at":0}'), compare="values", changing=("/at",), content_type="")
    for expected, same in ((learned, True), (replace(learned, compare="status", body=b"", changing=()), False)):
        with serving(lambda _r, number: (plain(b'{"id":1,"at":%d}' % number), False)) as port:
            found = connection_behaviour(Server("127.0.0.1", port), expected)
        assert found[parity.UNKNOWN_PATH] == UnknownPath(200, same_body=same)


def test_connections_that_are_all_served_are_fair() -> None:
    """A thread for each of them, one kept busy."""
    with serving(honest) as port:
        found = fairness(Server("127.0.0.1", port), exchange(), connections=32)
    assert found.problems == ()
    fact = found.facts[parity.FAIRNESS]
    assert isinstance(fact, Fairness)
    assert fact.connections == 32
    assert fact.longest_s > 0
    with serving(lambda r, n: (plain(BODY, "Connection: close"), True)) as port:
        assert fairness(Server("127.0.0.1", port), exchange(), connections=8).problems == ()
    assert fairness(Server("127.0.0.1", 1), exchange(), connections=1).facts[parity.FAIRNESS] == Fairness(1)


@contextmanager
def lingering() -> Iterator[int]:
    """One worker without keep-alive that waits up to two seconds for its client to close, as gunicorn's does."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.settimeout(2)
                connection.recv(65536)
                connection.sendall(plain(BODY, "Connection: close"))
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def test_a_worker_that_waits_for_its_client_to_close_starves_nobody() -> None:
    """Whoever gets a whole response closes its end at once, as the engine does under load."""
    with lingering() as port:
        assert fairness(Server("127.0.0.1", port), exchange(), connections=8).problems == ()
