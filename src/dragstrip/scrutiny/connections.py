"""Tries how a contender treats connections: its keep-alive limit, HTTP/1.0, whether all connections are served.

The results are facts for the parity sheet, with one exception: a server that lets a busy connection starve the others
is out. Closed-loop load would count the few connections that it serves, and wait for the rest.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

from dragstrip import parity
from dragstrip.parity import KeepAlive, OldHttp, OldHttpKind, UnknownPath, Untried
from dragstrip.scrutiny.reader import RESPONSE_S, Deadline, EndedError
from dragstrip.scrutiny.responses import TROUBLE, Findings, describe_error, fault, fetch, same_body
from dragstrip.scrutiny.server import Server
from dragstrip.workload import Exchange

#: Maximum number of requests on one connection to find when a server closes it, and seconds after which fewer do. Even
#: then at least ``MIN_REQUESTS`` are sent, more than the default limit of nginx and lighttpd, 1000. Only a slow server,
#: which makes that take ``PATIENCE_S``, gets fewer.
LIMIT_REQUESTS, LIMIT_S = 2500, 1.0
MIN_REQUESTS, PATIENCE_S = 1010, 5.0

#: Connections open at once while fairness is tried: more than the processes of a server with one per connection.
FAIR_CONNECTIONS = 64

#: Seconds within which each of them must get a response while one is kept busy.
FAIR_S = 2.0

#: Seconds that ``connection_behaviour`` takes at most: its busy connection, and four responses.
BEHAVIOUR_S = PATIENCE_S + 4 * RESPONSE_S

_UNKNOWN_PATH = "/dragstrip-asks-for-what-is-not-there"

_Fact = TypeVar("_Fact", KeepAlive, OldHttp, UnknownPath)


def plainest(exchanges: Sequence[Exchange]) -> Exchange:
    """The exchange whose end is easiest to recognise: its response has a body, which is compared and the shortest.

    Of several, it is the first whose request has no body.
    """
    with_body = [exchange for exchange in exchanges if exchange.body and not exchange.chunked]
    return min(with_body or exchanges, key=lambda exchange: (len(exchange.body), bool(exchange.sends)))


def connection_behaviour(server: Server, exchange: Exchange) -> dict[str, parity.Fact]:
    """Tries how a server treats a connection; returns facts for the parity sheet, by name.

    A fact that the server kept from being found is ``parity.Untried``.

    Args:
        exchange: with a request over HTTP/1.1 that keeps its connection.
    """
    return {
        parity.KEEP_ALIVE: _tried(lambda: _keep_alive(server, exchange)),
        parity.OLD_HTTP: _tried(lambda: _over_old_http(server, exchange)),
        parity.UNKNOWN_PATH: _tried(lambda: _unknown_path(server, exchange)),
    }


def fairness(server: Server, exchange: Exchange, *, connections: int) -> Findings:
    """Whether every open connection is served while one is kept busy: a fact, or a problem.

    Args:
        exchange: with a request that keeps its connection.
        connections: the race's number; at most ``FAIR_CONNECTIONS`` are opened.
    """
    connections = min(connections, FAIR_CONNECTIONS)
    if connections < 2:
        return Findings(facts={parity.FAIRNESS: parity.Fairness(connections)})
    try:
        served, longest_s = _served_beside_a_busy_one(server, exchange, connections)
    except OSError as error:
        return Findings(problems=(f"{connections} connections at once: {describe_error(error)}",))
    starved = connections - 1 - served
    if starved:
        return Findings(
            problems=(
                f"starves connections: while one was kept busy, {starved} of {connections - 1} others got no response "
                f"within {FAIR_S:g} s, so a few would be loaded and the rest wait; give it more workers, an "
                "event loop, or a proxy in front that shares them out",
            )
        )
    return Findings(facts={parity.FAIRNESS: parity.Fairness(connections, longest_s)})


def resumption(server: Server, exchange: Exchange) -> str:
    """Whether a second connection resumes the first one's TLS session: "yes", "no", or why it could not be tried."""
    try:
        with server.connect() as first:
            fetch(first, exchange)
            session = first.session if isinstance(first, ssl.SSLSocket) else None
        with server.connect(session=session) as second:
            fetch(second, exchange)
            return "yes" if isinstance(second, ssl.SSLSocket) and second.session_reused else "no"
    except TROUBLE as error:
        return str(Untried(describe_error(error)))


def _tried(trial: Callable[[], _Fact]) -> _Fact | Untried:
    try:
        return trial()
    except TROUBLE as error:
        return Untried(describe_error(error))


def _keep_alive(server: Server, exchange: Exchange) -> KeepAlive:
    """After how many responses the server closes a busy connection."""
    with server.connect() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        first = fetch(sock, exchange)
        if first.closes:
            return KeepAlive(1, closed=True, announced=True)
        began, count = time.monotonic(), 1
        while count < LIMIT_REQUESTS:
            spent_s = time.monotonic() - began
            if spent_s > PATIENCE_S or (spent_s > LIMIT_S and count >= MIN_REQUESTS):
                break
            try:
                response = fetch(sock, exchange)
            except (EndedError, ConnectionError):
                return KeepAlive(count, closed=True)
            count += 1
            if response.closes:
                return KeepAlive(count, closed=True, announced=True)
    return KeepAlive(count, closed=False)


def _over_old_http(server: Server, exchange: Exchange) -> OldHttp:
    """Whether connections are kept over HTTP/1.0 if requests ask for that as ``ab -k`` does."""
    old = replace(exchange, request=_with(exchange.request, version="HTTP/1.0", connection="Keep-Alive"))
    with server.connect() as sock:
        first = fetch(sock, old)
        reason = fault(old, first)
        if reason:
            return OldHttp(OldHttpKind.WRONG, reason)
        if first.closes:
            return OldHttp(OldHttpKind.CLOSES)
        try:
            reason = fault(old, fetch(sock, old))
        except TROUBLE:
            return OldHttp(OldHttpKind.BREAKS)
        return OldHttp(OldHttpKind.SECOND_WRONG, reason) if reason else OldHttp(OldHttpKind.KEEPS)


def _unknown_path(server: Server, exchange: Exchange) -> UnknownPath:
    """The response to an unknown path: a server that sends the same to every path does no routing."""
    strange = replace(exchange, request=_with(exchange.request, path=_UNKNOWN_PATH, connection="close"))
    with server.connect() as sock:
        response = fetch(sock, strange)
    return UnknownPath(response.status, same_body=same_body(exchange, response))


def _with(request: bytes, *, path: str = "", version: str = "", connection: str = "") -> bytes:
    """A request with another path, version or ``Connection`` header."""
    whole, _, body = request.partition(b"\r\n\r\n")
    first, *headers = whole.split(b"\r\n")
    method, old_path, old_version = first.split(b" ")
    others = [header for header in headers if not header.lower().startswith(b"connection:")]
    head = b" ".join((method, path.encode() or old_path, version.encode() or old_version))
    return b"\r\n".join((head, *others, f"Connection: {connection}".encode(), b"", body))


def _served_beside_a_busy_one(server: Server, exchange: Exchange, connections: int) -> tuple[int, float]:
    """How many of the other connections got a response in time, and the longest wait in seconds."""
    with ExitStack() as resources:
        opening = Deadline(RESPONSE_S)
        socks = [resources.enter_context(server.connect(opening)) for _ in range(connections)]
        selector = resources.enter_context(selectors.DefaultSelector())
        busy, others = socks[0], socks[1:]
        for sock in socks:
            selector.register(sock, selectors.EVENT_READ)
        busy.sendall(exchange.request)
        selector.select(FAIR_S)  # the busy connection is being served before the others send
        began = time.monotonic()
        for sock in others:
            sock.sendall(exchange.request)
        waiting, longest_s = set(others), 0.0
        while waiting and (left_s := began + FAIR_S - time.monotonic()) > 0:
            for key, _ in selector.select(left_s):
                ready = key.fileobj
                assert isinstance(ready, socket.socket)
                if (data := _read(ready)) is None:
                    continue
                if not data:
                    selector.unregister(ready)  # a connection per request: no connection keeps a worker for long
                    ready.close()  # gunicorn's worker waits for that, up to two seconds, before it serves the next
                elif ready in waiting:
                    waiting.discard(ready)
                    longest_s = time.monotonic() - began
                elif ready is busy:
                    busy.sendall(exchange.request)
        return len(others) - len(waiting), longest_s


def _read(sock: socket.socket) -> bytes | None:
    """The bytes that have come; b"" at the connection's end, None if only TLS's own came, such as a session ticket."""
    try:
        if isinstance(sock, ssl.SSLSocket):
            sock.setblocking(False)
        return sock.recv(65536)
    except ssl.SSLWantReadError:
        return None
    except OSError:
        return b""
    finally:
        sock.settimeout(RESPONSE_S)
