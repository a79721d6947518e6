"""Scrutineering against real sockets: what puts a contender out, and what goes to the parity sheet."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from dragstrip import contender
from dragstrip.racing.verify import verify
from dragstrip.scrutiny import Server, check_correctness, fault, fetch, is_right
from dragstrip.workload import Exchange, load

BODY = b"hello world\n"
Answer = Callable[[bytes, int], tuple[bytes, bool]]


def exchange(keepalive: bool = True, body: bytes = BODY, path: str = "/") -> Exchange:
    close = b"" if keepalive else b"Connection: close\r\n"
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode() + close + b"\r\n"
    return Exchange(path=path, request=request, status=200, content_type="text/plain", body=body)


def plain(
    body: bytes = BODY, *more: str, status: str = "200 OK", kind: str = "text/plain", length: bool = True
) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", *more]
    head += [f"Content-Length: {len(body)}"] if length else []
    return "\r\n".join([*head, "", ""]).encode() + body


def honest(request: bytes, _number: int) -> tuple[bytes, bool]:
    """The right answer; closes when asked to, and says so."""
    close = b"Connection: close" in request
    return plain(BODY, *(["Connection: close"] if close else [])), close


@contextmanager
def serving(answer: Answer) -> Iterator[int]:
    """A server whose every answer ``answer(request, number)`` writes: (bytes, close afterwards)."""
    listener = socket.create_server(("127.0.0.1", 0))
    counted = iter(range(1_000_000))

    def serve(connection: socket.socket) -> None:
        # A client that has seen enough resets the connection.
        with connection, suppress(ConnectionError):
            while request := connection.recv(65536):
                told, close = answer(request, next(counted))
                connection.sendall(told)
                if close:
                    return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def found(answer: Answer) -> tuple[tuple[str, ...], dict[str, str]]:
    with serving(answer) as port:
        findings = check_correctness(
            Server("127.0.0.1", port), keepalive=[exchange()] * 3, closing=[exchange(False)] * 3
        )
    return findings.problems, findings.facts


def test_an_honest_server_passes_and_its_facts_are_counted() -> None:
    """Head bytes as sent, framing, reuse on the wire."""
    problems, facts = found(honest)
    assert problems == ()
    assert str(facts["header bytes"]) == str(len(plain()) - len(BODY))
    assert str(facts["body bytes"]) == "12"
    assert facts["body framing"] == "Content-Length"
    assert facts["keep-alive on the wire"].startswith("7 of 9 answers on a reused connection")
    assert facts["Connection: close"] == "honoured"


def test_chunked_answers_are_right_and_told_as_such() -> None:
    """The same body, framed otherwise: allowed, shown."""

    def chunked(request: bytes, number: int) -> tuple[bytes, bool]:
        told = plain(b"", "Transfer-Encoding: chunked", length=False) + b"6\r\nhello \r\n6\r\nworld\n\r\n0\r\n\r\n"
        return told, b"Connection: close" in request

    problems, facts = found(chunked)
    assert problems == ()
    assert facts["body framing"] == "chunked"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (plain(b"hello worle\n"), "differs from the correct 12 bytes at byte 10"),
        (plain(b"hello world\n!"), "a body of 13 bytes"),
        (plain(BODY, status="500 Oops"), "status 500"),
        (plain(BODY, kind="text/html"), "content type text/html"),
        (plain(BODY, "Content-Encoding: gzip"), "is sent as gzip"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "sent something that is not HTTP/1: 'SSH-2.0-OpenSSH_9.2"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 99\r\n\r\nhello world\n",
            "after 12 bytes of body of the 99 in its Content-Length",
        ),
    ],
)
def test_a_wrong_answer_is_named_in_words(answer: bytes, words: str) -> None:
    """Each fault says what was answered and what is right, over both ways of connecting."""
    problems, facts = found(lambda _request, _number: (answer, True))
    assert problems
    assert all(words in problem for problem in problems)
    assert facts == {}


def test_whose_server_is_made_for_something_else_is_told_what_to_type() -> None:
    """A user's own mostly is, the first time: the path, whose response is then learned."""
    with serving(lambda _request, _number: (plain(kind="text/html"), True)) as port:
        (proof,) = verify([contender.entry(f"http://127.0.0.1:{port}/")], [load("hello")])
    assert "content type text/html; expected text/plain; if that response is correct, give its path" in proof.reason
    assert "in place of hello, like --path /" in proof.reason


def test_an_answer_that_depends_on_what_came_before_is_found() -> None:
    """Every request is put more than once: the fifth answer alone is wrong."""
    problems, _ = found(lambda r, n: (plain(b"Hello world\n"), False) if n == 4 else honest(r, n))
    assert len(problems) == 1
    assert "over keep-alive" in problems[0]


def test_bytes_after_a_closing_answer_are_found() -> None:
    """A server that sends more than it said would poison a shared connection."""

    def chatty(request: bytes, number: int) -> tuple[bytes, bool]:
        told, close = honest(request, number)
        return (told + b"junk", True) if close else (told, False)

    problems, _ = found(chatty)
    assert problems == ("with Connection: close: /: bytes follow the complete response, 'junk'; expected nothing more",)


def test_a_server_that_closes_after_each_answer_passes_and_is_shown() -> None:
    """No keep-alive is slow, not wrong; the sheet says what happened on the wire."""
    problems, facts = found(lambda _r, _n: (plain(BODY, "Connection: close"), True))
    assert problems == ()
    assert facts["keep-alive on the wire"].startswith("0 of 9 answers on a reused connection, 9 opened")


def test_headers_that_stand_twice_are_on_the_sheet() -> None:
    """Also if their values are equal, as they came over the wire; headers that may occur twice are accepted."""
    twice = ["Content-Length: 12", "Set-Cookie: a", "Set-Cookie: b", "Connection: close"]
    _, facts = found(lambda r, _n: (plain(BODY, *twice), True))
    assert facts["doubled headers"] == "Content-Length 2 times ('12', '12')"
    assert "doubled headers" not in found(honest)[1]


def test_what_a_trial_still_waits_for_is_told_and_has_an_end() -> None:
    """Each right answer is counted; all of them together have a deadline."""
    told: list[tuple[int, int]] = []
    slowly = threading.Event()

    def slow(request: bytes, number: int) -> tuple[bytes, bool]:
        slowly.wait(0.1)
        return honest(request, number)

    with serving(slow) as port:
        findings = check_correctness(
            Server("127.0.0.1", port),
            keepalive=[exchange()] * 3,
            closing=[],
            within_s=0.35,
            tell=lambda *at: told.append(at),
        )
    assert told == [(at + 1, 9) for at in range(len(told))]
    assert 0 < len(told) < 9
    assert "within" in findings.problems[0]


def test_a_probe_that_is_cut_short_tells_what_came_before() -> None:
    """The stage's last words are of a whole try."""
    with serving(lambda _r, n: (plain(b"no\n"), True) if n == 0 else (b"", threading.Event().wait(1))) as port:
        probe = is_right(exchange(False), within_s=0.5)
        first = probe("127.0.0.1", port)
        assert first is not None
        assert "sent a body of 3 bytes" in first
        assert probe("127.0.0.1", port) == first


def test_content_type_parameters_are_no_difference() -> None:
    """text/plain; charset=utf-8 is text/plain; the whole header is on the sheet."""
    with (
        serving(lambda _r, _n: (plain(BODY, kind="Text/Plain; charset=utf-8"), True)) as port,
        socket.create_connection(("127.0.0.1", port)) as sock,
    ):
        answer = fetch(sock, exchange())
    assert fault(exchange(), answer) is None


def test_the_stage_is_told_why_a_server_is_not_right_yet() -> None:
    """None once it is right, else the reason in words."""
    with serving(honest) as port:
        assert is_right(exchange(False))("127.0.0.1", port) is None
        assert "differs" in str(is_right(exchange(False, body=b"other\n"))("127.0.0.1", port))
    assert "refused" in str(is_right(exchange(False))("127.0.0.1", port)).lower()
