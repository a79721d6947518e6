"""``dragstrip load --http 2``: in the clear and over TLS, counts held against nginx's own log."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from loads import Nginx, free_port, live, load, load_json, needs_nginx

from dragstrip.extras.compat import outputs

pytestmark = [live, needs_nginx]


def nginx_version() -> tuple[int, ...]:
    said = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=True).stderr
    return tuple(int(part) for part in re.search(r"/(\d+)\.(\d+)\.(\d+)", said).groups())


@pytest.fixture
def ports(tmp_path: Path) -> tuple[Nginx, str, str]:
    """One nginx that speaks HTTP/2 on two ports, and their URLs: in the clear, and over TLS."""
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = [
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
        "-addext",
        "basicConstraints=CA:FALSE",
        "-keyout",
        "key.pem",
    ]
    subprocess.run(["openssl", *words, *names, "-out", "cert.pem"], cwd=tmp_path, check=True, capture_output=True)
    clear, encrypted = free_port(), free_port()
    listen = (
        f"listen 127.0.0.1:{clear} http2; listen 127.0.0.1:{encrypted} ssl http2; "
        f"ssl_certificate {tmp_path}/cert.pem; ssl_certificate_key {tmp_path}/key.pem; keepalive_requests 300;"
    )
    return Nginx(tmp_path, listen), f"http://127.0.0.1:{clear}/", f"https://localhost:{encrypted}/"


def test_every_request_over_one_ten_and_a_hundred_streams_is_in_the_servers_log(
    ports: tuple[Nginx, str, str], tmp_path: Path
) -> None:
    """nginx ends each connection after 300 requests, by a GOAWAY frame: what it had not looked at is sent again."""
    server, clear, encrypted = ports
    sent = 0
    for url, trust in ((clear, []), (encrypted, ["--cacert", str(tmp_path / "cert.pem")])):
        for streams in (1, 10, 100):
            found = load_json(url, *trust, "--http", "2", "--streams", str(streams), "-c", "3", "-n", "3002")
            assert (found["requests"], found["errors"], found["unanswered"]) == (3002, {}, 0)
            assert found["connections_opened"] >= 10
            assert (found["load"]["http"], found["load"]["streams"]) == ("2", streams)
            assert (found["load"]["tls"] is None) == (url == clear)
            sent += 3002
    assert len(server.ended()) == sent


def test_an_open_loop_bodies_and_the_first_byte_go_over_http_2(ports: tuple[Nginx, str, str]) -> None:
    """What other versions have, this one has."""
    server, clear, _ = ports
    found = load_json(clear, "--http", "2", "-R", "2000", "-d", "0.2s", "-c", "2", "--streams", "4", "--first-byte")
    assert (found["open_loop"]["offered"], found["errors"]) == (400, {})
    # On a busy machine some requests don't leave, and some responses come after the end.
    assert found["first_byte_us"]["count"] == found["requests"] - found["plain_requests"] - found["late"] > 0
    posted = load_json(clear, "--http", "2", "-m", "POST", "-b", "x" * 5000, "-n", "102", "-c", "2", "-H", "X-Mark: m")
    assert (posted["requests"], posted["errors"]) == (102, {})
    closed = load_json(clear, "--h2c", "--no-keepalive", "-n", "52", "-c", "2")
    assert (closed["requests"], closed["errors"], closed["answers_on_reused_connections"]) == (52, {}, 0)
    log = server.ended()
    assert len(log) == found["requests"] + 102 + 52
    assert sum(line.startswith("/ 200 POST m ") and line.endswith(" 5000") for line in log) == 102


def test_h2loads_shape_names_the_protocol_as_alpn_does(ports: tuple[Nginx, str, str]) -> None:
    """h2c in the clear, h2 over TLS after TLS's own lines; header bytes are not shown, since they were not counted."""
    server, clear, encrypted = ports
    words = ("--http", "2", "-n", "52", "-c", "2", "--streams", "5", "--style", "h2load")
    shown = load(clear, *words).stdout
    assert "\nApplication protocol: h2c\n\nfinished in " in shown
    assert re.search(r"^traffic: \S+ \(\d+\) total, 600B \(600\) data$", shown, re.MULTILINE), shown
    shown = load(encrypted, "--insecure", *words).stdout
    assert re.search(r"^TLS Protocol: TLSv1\.\d\nCipher: \S+\nApplication protocol: h2$", shown, re.MULTILINE), shown
    assert outputs.parse(shown).http == "2"
    server.ended()


def test_a_server_without_http_2_and_words_that_contradict_it_are_refused(
    ports: tuple[Nginx, str, str], tmp_path: Path
) -> None:
    """Before anything is sent, with what would do."""
    server, clear, encrypted = ports
    framed = load(clear, "-n", "12")
    # From 1.25.1 on nginx answers both versions at such a port.
    said = (1, True, True) if nginx_version() < (1, 25, 1) else (0, False, False)
    assert (framed.returncode, "responds in HTTP/2" in framed.stderr, "--http 2" in framed.stderr) == said
    old = load(server.url(), "--http", "2", "-n", "12")
    assert (old.returncode, "HTTP/2" in old.stderr) == (1, True)
    other = tmp_path / "other"
    other.mkdir()
    port = free_port()
    words = f"listen 127.0.0.1:{port} ssl; ssl_certificate {tmp_path}/cert.pem; ssl_certificate_key {tmp_path}/key.pem;"
    plain = Nginx(other, words)
    refused = load(f"https://localhost:{port}/", "--insecure", "--http", "2", "-n", "12")
    assert refused.returncode == 1
    assert "ALPN" in refused.stderr or "no application protocol" in refused.stderr.lower()
    plain.ended()
    for words_given, remedy in (
        (["--streams", "4"], "--http 2"),
        (["--http", "2", "--pipeline", "4"], "--streams 4"),
        (["--http", "2", "--streams", "4", "--no-keepalive"], "--streams"),
    ):
        shown = load(clear, *words_given)
        assert (shown.returncode, remedy in shown.stderr) == (2, True), shown.stderr
    shown = load(encrypted, "--insecure", "--http", "2", "--streams", "10", "-n", "52", "-c", "2").stdout
    assert "in HTTP/2 with 10 streams on each" in " ".join(shown.split())
    server.ended()


@pytest.mark.skipif(shutil.which("nghttpd") is None, reason="nghttpd is not installed: make check-deps")
def test_nghttpd_saw_each_request_of_one_ten_and_a_hundred_streams(tmp_path: Path) -> None:
    """A server on nghttp2: it allows 100 streams a connection, and keeps the dynamic table in use."""
    (tmp_path / "index.html").write_text("hello world\n")
    port, sent = free_port(), 0
    words = ["nghttpd", "--no-tls", "-a", "127.0.0.1", "-v", "-d", str(tmp_path), str(port)]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(words, stdout=log, stderr=log) as server:
        try:
            while True:
                assert server.poll() is None, (tmp_path / "log").read_text()
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
            for streams in (1, 10, 100, 200):
                url = f"http://127.0.0.1:{port}/"
                found = load_json(url, "--http", "2", "--streams", str(streams), "-c", "3", "-n", "1002")
                assert (found["requests"], found["errors"], found["unanswered"]) == (1002, {}, 0)
                sent += 1002
        finally:
            server.terminate()
    log = (tmp_path / "log").read_text()
    assert (log.count("; Open new stream"), log.count("GOAWAY frame <")) == (sent, 0)
