"""Loads of servers that public bug reports describe: counts are true, and the report names the cause."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from servers.kinds import whole

from dragstrip.errors import BadUsage, DragstripError
from dragstrip.extras.compat.wrk_script import WrkScript
from dragstrip.loading.request import LoadRequest, ScriptFile
from dragstrip.loading.request_pool import PoolRequest
from dragstrip.loading.result import LoadResult
from dragstrip.loading.run import run
from dragstrip.process.certificate import make
from dragstrip.report.load.latency import histogram
from dragstrip.report.load.sentences import headline
from dragstrip.report.load.warnings import warnings

RIGHT = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CLOSING = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


class Quiet:
    """No progress."""

    shown = False

    def begun(self, *_: object) -> None: ...
    def slice_done(self, *_: object) -> None: ...


def loaded(port: int, **more: object) -> LoadResult:
    """A short run over few connections; ``host`` and ``path`` make the URL."""
    host = more.pop("host", "127.0.0.1")
    given = {"url": f"http://{host}:{port}/", "connections": 2, "requests": 40} | more
    return run(LoadRequest(**given), Quiet(), WrkScript)  # type: ignore[arg-type]


@contextmanager
def serving(
    handle: Callable[[socket.socket], None], *, host: str = "127.0.0.1", backlog: int = 128, one_at_a_time: bool = False
) -> Iterator[int]:
    """A server with a thread for each connection, or with one for all; its port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    open_: list[socket.socket] = []
    with socket.create_server((host, 0), family=family, backlog=backlog) as listener:

        def attend(stream: socket.socket) -> None:
            with contextlib.suppress(OSError):
                handle(stream)

        def listen() -> None:
            with contextlib.suppress(OSError):
                while True:
                    stream = listener.accept()[0]
                    open_.append(stream)
                    if one_at_a_time:
                        attend(stream)
                    else:
                        threading.Thread(target=attend, args=(stream,), daemon=True).start()

        threading.Thread(target=listen, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        for stream in open_:
            with contextlib.suppress(OSError):
                stream.close()


def answering(*responses: bytes, closes: bool = False) -> Callable[[socket.socket], None]:
    """Sends these in turn."""

    def handle(stream: socket.socket) -> None:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pending, number = bytearray(), 0
        while whole(stream, pending) is not None:
            stream.sendall(responses[number % len(responses)])
            number += 1
            if closes:
                stream.shutdown(socket.SHUT_RDWR)
                return

    return handle


@pytest.mark.parametrize("io", ["epoll", "auto"])
@pytest.mark.parametrize("keepalive", [True, False])
def test_an_upload_that_is_not_read_is_not_counted_as_correct(io: str, keepalive: bool) -> None:
    """The share of the request that was sent is in the report."""

    def handle(stream: socket.socket) -> None:
        stream.recv(4096)
        stream.sendall(RIGHT)
        time.sleep(60)

    with serving(handle) as port:
        result = loaded(
            port, method="POST", body=b"x" * 20_000_000, requests=8, io=io, keepalive=keepalive, expect_status=200,
            check="status",
        )  # fmt: skip
    assert (result.answered, result.errors) == (0, {"request_cut": 8})
    assert "of the request's 20,0" not in result.samples["request_cut"]
    assert "bytes were sent (" in result.samples["request_cut"]


@pytest.mark.parametrize("header", ["keep-alive", "Keep-Alive"])
def test_techempowers_wrk_line_works(header: str) -> None:
    """Its -H 'Connection: keep-alive' is what Dragstrip does anyway."""
    with serving(answering(RIGHT)) as port:
        result = loaded(port, headers=(("Connection", header),))
    assert (result.errors, result.connects) == ({}, 2)
    assert "kept alive" in headline(result)


def test_keep_alive_and_no_keepalive_contradict_each_other() -> None:
    with serving(answering(RIGHT)) as port, pytest.raises(BadUsage, match="contradict"):
        loaded(port, headers=(("Connection", "keep-alive"),), keepalive=False)
    with serving(answering(RIGHT)) as port, pytest.raises(BadUsage, match="give keep-alive, or close"):
        loaded(port, headers=(("Connection", "Upgrade"),))


def closing_requests(tmp_path: Path) -> dict[str, dict[str, object]]:
    fixed = 'wrk.headers["Connection"] = "close"'
    made = 'local n = 0 function request() n = n + 1 return wrk.format("GET", "/" .. n, {Connection = "close"}) end'
    return {
        "-H": {"headers": (("Connection", "close"),)},
        "raw": {"pool": (PoolRequest(raw=CLOSING),)},
        "pool": {"pool": (PoolRequest(path="/a", headers=(("Connection", "close"),)),)},
        "mixed pool": {"pool": (PoolRequest(path="/a"), PoolRequest(path="/b", headers=(("Connection", "close"),)))},
        "fixed script": {"script": ScriptFile(name="s.lua", source=fixed.encode())},
        "script": {"script": ScriptFile(name="s.lua", source=made.encode())},
    }


@pytest.mark.parametrize("kind", ["-H", "raw", "pool", "mixed pool", "fixed script", "script"])
def test_a_request_that_closes_its_connection_is_read_as_a_server_reads_it(kind: str, tmp_path: Path) -> None:
    """No request fails, although the server does not repeat ``Connection: close``; the server is not blamed."""

    def handle(stream: socket.socket) -> None:
        pending = bytearray()
        while (head := whole(stream, pending)) is not None:
            stream.sendall(RIGHT)
            if b"connection: close" in head.lower():
                stream.shutdown(socket.SHUT_RDWR)
                return

    with serving(handle) as port:
        result = loaded(port, **closing_requests(tmp_path)[kind])
    assert (result.requests, result.errors) == (40, {})
    assert not any("although" in line for line in warnings(result))
    if kind != "mixed pool":
        assert "kept alive" not in headline(result)
    else:
        assert any("1 of 2 requests ask the server to close" in line for line in warnings(result))


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab", "shorter than its Content-Length"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nab", "ends after .* bytes"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "contradict each other"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "as another request"),
    ],
)
def test_a_raw_request_that_a_server_reads_in_another_way_is_refused(raw: bytes, why: str) -> None:
    with serving(answering(RIGHT)) as port, pytest.raises(BadUsage, match=why):
        loaded(port, pool=(PoolRequest(raw=raw),))


def test_a_raw_request_without_a_host_is_noted() -> None:
    with serving(answering(RIGHT)) as port:
        result = loaded(port, pool=(PoolRequest(raw=b"GET / HTTP/1.1\r\n\r\n"),))
    assert any("no Host header" in line for line in warnings(result))


@pytest.mark.parametrize(
    "folded", [b"X-Long: one,\r\n two", b"X-Long:\r\n\tone", b"X-Long: one \r\n  \t two\r\n three"]
)
def test_a_folded_header_is_read_alike_by_all_readers(folded: bytes) -> None:
    """RFC 9112, 5.2: the fold is a blank."""
    with serving(answering(b"HTTP/1.1 200 OK\r\n" + folded + b"\r\nContent-Length: 2\r\n\r\nok")) as port:
        assert loaded(port).errors == {}


@pytest.mark.parametrize(("bound", "host"), [
    ("::1", "localhost"), ("127.0.0.1", "localhost"), ("::1", "[::1]"), ("127.0.0.1", "0.0.0.0"), ("::1", "[::]"),
    ("127.0.0.1", "app.localhost"), ("::1", "app.localhost"), ("127.0.0.1", "[::ffff:127.0.0.1]"),
])  # fmt: skip
def test_every_name_of_this_machine_leads_to_its_server(bound: str, host: str) -> None:
    with serving(answering(RIGHT), host=bound) as port:
        result = loaded(port, host=host)
    assert (result.requests, result.errors, result.request.offer) == (40, {}, None)


def test_a_short_backlog_costs_no_seconds() -> None:
    """The kernel would repeat a connection after a second; here a new socket tries again at once."""
    with serving(answering(RIGHT), backlog=5) as port:
        result = loaded(port, connections=200, requests=2000)
    assert (result.requests, result.errors, result.opened) == (2000, {}, 200)
    assert max(part.connect_hdr != b"" for part in result.slices)


def test_a_server_that_accepts_few_connections_is_measured_and_the_report_says_how_many() -> None:
    with serving(answering(RIGHT), backlog=1, one_at_a_time=True) as port:
        result = loaded(
            port, connections=20, duration_s=1.0, requests=None, check="status", expect_status=200, timeout_s=1
        )
    assert result.opened is not None
    assert 0 < result.opened < 20
    assert any(f"accepted {result.opened} of 20 connections" in line for line in warnings(result))


def test_starved_connections_are_named_with_how_many_were_at_work() -> None:
    """A pool of threads that each keep a connection: the others get nothing."""
    room = threading.Semaphore(3)

    def handle(stream: socket.socket) -> None:
        with room:
            answering(RIGHT)(stream)

    with serving(handle) as port:
        result = loaded(
            port, connections=8, duration_s=0.6, requests=None, check="status", expect_status=200, timeout_s=1.0
        )
    assert result.errors.get("timeout", 0) >= 5
    assert any("leaves connections without any response" in line for line in warnings(result))


def test_requests_that_arrive_together_and_are_not_answered_are_named() -> None:
    """One response per read, whatever was read: not pipelining."""

    def handle(stream: socket.socket) -> None:
        while stream.recv(65536):
            stream.sendall(RIGHT)

    with serving(handle) as port:
        result = loaded(
            port, pipeline=8, requests=None, duration_s=0.4, timeout_s=0.5, check="status", expect_status=200
        )
    assert result.answered_ahead < 8
    assert "1 of them answered" in headline(result)
    assert any("does not support pipelining" in line for line in warnings(result))


def test_responses_in_another_order_than_their_requests_are_a_fault_of_the_server() -> None:
    """--check status would hide it."""
    numbers = iter(range(10**9))

    def handle(stream: socket.socket) -> None:
        pending = bytearray()
        while (head := whole(stream, pending)) is not None:
            asked = head.split()[1][-1:]
            swapped = {b"a": b"b", b"b": b"a"}[asked] if next(numbers) >= 4 else asked
            stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + swapped)

    with serving(handle) as port:
        result = loaded(port, pool=(PoolRequest(path="/a"), PoolRequest(path="/b")), pipeline=4)
    assert result.errors.keys() <= {"wrong_body"}
    advice = warnings(result)
    assert any("the reference of another request" in line for line in advice)
    assert not any("--check" in line for line in advice)


def test_a_delayed_acknowledgement_is_named() -> None:
    """Head and body in two writes, and Nagle's algorithm."""

    def handle(stream: socket.socket) -> None:
        pending = bytearray()
        while whole(stream, pending) is not None:
            stream.sendall(RIGHT[:-2])
            stream.sendall(RIGHT[-2:])

    with serving(handle) as port:
        result = loaded(port, connections=1, requests=90)
    named = any("delayed acknowledgement" in line for line in warnings(result))
    latencies = histogram(result)
    assert latencies
    middle = [latencies.get_value_at_percentile(q) for q in (50, 75)]
    assert named or not all(39_000_000 <= value <= 46_000_000 for value in middle), middle
    assert middle[0] >= 39_000_000


def test_a_response_without_an_end_is_named_as_such() -> None:
    endless = answering(b"HTTP/1.1 200 OK\r\n\r\nok")
    with serving(endless) as port, pytest.raises(DragstripError, match="neither Content-Length nor Transfer-Encoding"):
        loaded(port, timeout_s=0.5)


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 29\r\n\r\nNo required certificate, says",
            "No required certificate",
        ),
        (
            b"HTTP/1.1 301 Moved\r\nLocation: https://a/\r\nContent-Length: 0\r\n\r\n",
            "Location: https://a/; it has no body",
        ),
        (b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", "Retry-After: 7"),
    ],
)
def test_a_refused_reference_has_the_servers_own_words(response: bytes, said: str) -> None:
    with serving(answering(response)) as port, pytest.raises(BadUsage, match=said):
        loaded(port)


def test_failed_requests_are_in_the_first_line() -> None:
    bad = b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nok"
    answers = [RIGHT] * 9 + [bad]
    with serving(answering(*answers)) as port:
        result = loaded(port, connections=1, requests=102)
    assert "92 correct responses, and 10 requests failed, in" in headline(result)


@contextmanager
def encrypted(folder: Path, *, wants_client: bool = False, alpn: str = "", oldest: bool = False) -> Iterator[int]:
    """A server with TLS that answers every request."""
    made = make(folder)
    (folder / "chain.pem").write_bytes(made.identity.certificate)
    (folder / "key.pem").write_bytes(made.identity.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "chain.pem", folder / "key.pem")
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(made.file)
    if alpn:
        context.set_alpn_protocols([alpn])
    if oldest:
        context.maximum_version = ssl.TLSVersion.TLSv1_2

    def handle(stream: socket.socket) -> None:
        with contextlib.suppress(ssl.SSLError), context.wrap_socket(stream, server_side=True) as shaken:
            answering(RIGHT)(shaken)

    with serving(handle) as port:
        yield port


@pytest.mark.parametrize("oldest", [False, True])
def test_a_server_that_asks_for_a_client_certificate_is_named_as_such(tmp_path: Path, oldest: bool) -> None:
    """TLS 1.3 and 1.2 end the handshake with different alerts."""
    refused = pytest.raises(DragstripError, match=r"asks? for a client certificate")
    with encrypted(tmp_path, wants_client=True, oldest=oldest) as port, refused:
        loaded(port, url=f"https://127.0.0.1:{port}/", insecure=True)


def test_a_large_upload_over_tls_is_sent_whole(tmp_path: Path) -> None:
    """More than rustls keeps at a time."""
    length = 3_000_000

    def read(stream: socket.socket) -> None:
        pending = bytearray()
        while whole(stream, pending) is not None:
            while len(pending) < length:
                pending += stream.recv(1 << 16)
            del pending[:length]
            stream.sendall(RIGHT)

    made = make(tmp_path)
    (tmp_path / "chain.pem").write_bytes(made.identity.certificate)
    (tmp_path / "key.pem").write_bytes(made.identity.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "chain.pem", tmp_path / "key.pem")

    def handle(stream: socket.socket) -> None:
        with context.wrap_socket(stream, server_side=True) as shaken:
            read(shaken)

    with serving(handle) as port:
        result = loaded(
            port, url=f"https://127.0.0.1:{port}/", insecure=True, method="POST", body=bytes(length), requests=8
        )
    assert (result.requests, result.errors) == (8, {})
