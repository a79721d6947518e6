"""Two thousand response heads, read alike by the reference reader (h11) and by the engine (httparse)."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import threading
from collections.abc import Iterator

import pytest

from dragstrip._engine import BlockPlan, Engine, Exchange, SessionPlan, Target
from dragstrip.scrutiny.reader import Deadline, ResponseError, read_response

#: How many heads are compared.
COUNT = 2000

BODY = b"ok"
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

_LINES = [
    "HTTP/1.1 200 OK", "HTTP/1.1 200 ", "HTTP/1.1 200", "HTTP/1.0 200 OK", "HTTP/1.1 201 Caf\xe9", "HTTP/1.1 204 No",
    "HTTP/1.1 304 Not", "HTTP/1.1 404 Not Found", "HTTP/1.1 599 X", "HTTP/1.1 99 X", "HTTP/1.1 1000 X",
    "HTTP/1.1 2x0 X",
    "HTTP/1.2 200 OK", "HTTP/2.0 200 OK", "HTTP/2 200 OK", "http/1.1 200 OK", "HTTP/1.1  200 OK", " HTTP/1.1 200 OK",
    "HTTP/1.1\t200 OK", "ICY 200 OK", "HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 200 OK",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK", "HTTP/1.1 101 Switch", "\r\nHTTP/1.1 200 OK", "HTTP/1.1 200 O\x00K",
]  # fmt: skip
_LENGTHS = [
    "Content-Length: 2", "content-length:2", "Content-Length: 02", "Content-Length: 2, 2",
    "Content-Length: 2\r\nContent-Length: 2",
    "Content-Length: 2\r\nContent-Length: 3", "Content-Length: 2, 3", "Content-Length: +2", "Content-Length: -2",
    "Content-Length: 0x2", "Content-Length: 2 ", "Content-Length:\t2", "Content-Length: 2.0", "Content-Length:",
    "Content-Length: 99999999999999999999", "Content-Length:\r\n 2", "Content-Length: 2\r\n ", "Content-Length : 2",
    "Transfer-Encoding: chunked", "Transfer-Encoding: Chunked", "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: gzip", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: chunked\r\nContent-Length: 2",
    "Transfer-Encoding:\r\n chunked",
    "Transfer-Encoding: identity", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "X: no length at all",
]  # fmt: skip
_FIELDS = [
    "", "X: 1", "X:", "X:  ", "X: a\tb", "X: caf\xe9", "X: a\r\n b", "X: a\r\n\tb", "X: a \r\n  \t b\r\n c", "X:\r\n a",
    "X: a\r\n ", "X: a\r\n \r\n b", " X: 1", "\tX: 1", "X : 1", "X\t: 1", "X", "X y: 1", ": 1", "X: a\x00b",
    "X: a\x01b",
    "X: a\x7fb", "X: a\rb", "X\x80: 1", "X(: 1", "X: \"q\"", "Connection: close", "Connection: keep-alive",
    "Connection: close\r\n , x", "Set-Cookie: a=1\r\nSet-Cookie: b=2", "X: " + "y" * 3000, "Date: Mon\r\nServer: s",
    "X: 1\n", "X: 1\nY: 2", "X: 1\r\r\nY: 2", "X: a\n b",
]  # fmt: skip
_DAMAGE = [b"\r", b"\n", b" ", b"\t", b":", b"\x00", b"\xff", b"a", b""]
_ENDS = ["\r\n\r\n", "\n\n", "\r\n\n", "\n\r\n"]


def heads() -> Iterator[bytes]:
    """Every pair of a line and a length, each field, every line end; then random damage to these."""
    plain = [f"{line}\r\n{length}" for line, length in itertools.product(_LINES, _LENGTHS)]
    plain += [f"HTTP/1.1 200 OK\r\n{field}\r\n{length}" for field in _FIELDS for length in (_LENGTHS[0], _LENGTHS[18])]
    plain += [f"HTTP/1.1 200 OK\r\n{_LENGTHS[0]}\r\n{field}" for field in _FIELDS]
    every = [(text + _ENDS[0]).encode("latin-1") for text in plain]
    every += [
        (f"HTTP/1.1 200 OK\r\nX: 1\r\n{length}".replace("\r\n", middle) + end).encode("latin-1")
        for length, middle, end in itertools.product(_LENGTHS[:2], ("\r\n", "\n"), _ENDS)
    ]
    yield from every
    chance = random.Random(14)
    for _ in range(COUNT - len(every)):
        head = bytearray(chance.choice(every))
        for _ in range(chance.randint(1, 2)):
            at = chance.randrange(len(head))
            head[at : at + chance.randint(0, 1)] = chance.choice(
                [b"\r", b"\n", b" ", b"\t", b":", b"\x00", b"\xff", b"a", b""]
            )
        yield bytes(head)


def body_of(head: bytes) -> bytes:
    return b"2\r\nok\r\n0\r\n\r\n" if b"chunked" in head.lower() else BODY


def by_reference(response: bytes) -> tuple[int, bytes] | str:
    """Status and body, or why the reference reader refuses the response."""
    client, server = socket.socketpair()
    with client, server:
        server.sendall(response)
        server.shutdown(socket.SHUT_WR)
        try:
            read = read_response(client, REQUEST, body_bytes=1 << 16, deadline=Deadline(5.0))
        except (ResponseError, OSError) as error:
            return str(error)
        return f"{read.cut} {read.surplus!r}" if read.cut or read.surplus else (read.status, read.body)


def by_engine(engine: Engine, port: int, expected: tuple[int, bytes] | str) -> str:
    """ "" if the engine reads the expected response, otherwise why not."""
    status, body = (200, BODY) if isinstance(expected, str) else expected
    exchange = Exchange(REQUEST, status, body, any_body=isinstance(expected, str))
    plan = SessionPlan(Target("127.0.0.1", port), [exchange], connections=1, keepalive=False, timeout_ns=5_000_000_000)
    session = engine.open(plan)
    done = engine.run([BlockPlan(session, counted_ns=10_000_000_000, max_requests=1)])[0]
    engine.close(session)
    return "" if done.answered == 1 else f"{next(iter(done.errors))}: {done.sample}"


@contextlib.contextmanager
def sending(responses: list[bytes]) -> Iterator[int]:
    """Sends these in turn, a connection each."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                for response in responses:
                    stream = listener.accept()[0]
                    with stream:
                        stream.recv(65536)
                        stream.sendall(response)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


@pytest.mark.live
@pytest.mark.parametrize("io", ["epoll", pytest.param("auto", marks=pytest.mark.thorough)])
def test_the_reference_reader_and_the_engine_read_every_head_alike(io: str) -> None:
    """A head that one refuses and the other accepts would be a load that fails after its reference passed."""
    responses = [head + body_of(head) for head in heads()]
    assert len(responses) == COUNT
    readings = [by_reference(response) for response in responses]
    assert 300 < sum(isinstance(reading, str) for reading in readings) < 1800
    engine = Engine([min(os.sched_getaffinity(0))], io=io)
    unlike, silent = [], []
    try:
        with sending(responses) as port:
            for response, reading in zip(responses, readings, strict=True):
                refused = by_engine(engine, port, reading)
                if isinstance(reading, str) != bool(refused):
                    unlike.append((response[:200], reading, refused))
                if refused.startswith("bad_response: HTTP/"):
                    silent.append((response[:200], refused))
    finally:
        engine.shutdown()
    assert not unlike, f"{len(unlike)}: {unlike[:12]}"
    assert not silent, f"refused without a reason: {silent[:5]}"
