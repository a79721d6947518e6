"""How ``dragstrip load`` connects: HTTP/1.0, unix sockets, connections that end, TLS; against real servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from loads import Nginx, live, load, needs_nginx, told

pytestmark = [live, needs_nginx]


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Nginx]:
    """Started for one test, and ended with it."""
    server = Nginx(tmp_path)
    yield server
    server.ended()


class Old(BaseHTTPRequestHandler):
    """Speaks HTTP/1.0 and closes after each answer, whatever it is asked."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_http_1_0_is_spoken_as_ab_speaks_it_and_reuse_is_counted(nginx: Nginx) -> None:
    """With ab's keep-alive header connections are reused, without it each request has its own: never an error."""
    kept = told(nginx.url(), "-n", "1002", "-c", "10", "--http", "1.0")
    assert (kept["requests"], kept["errors"], kept["connections_opened"]) == (1002, {}, 10)
    assert (kept["answers_on_reused_connections"], kept["load"]["http"]) == (990, "1.0")
    closed = told(nginx.url(), "-n", "502", "-c", "10", "--http", "1.0", "--no-keepalive")
    assert (closed["requests"], closed["errors"], closed["answers_on_reused_connections"]) == (502, {}, 0)
    assert closed["connections_opened"] >= 500
    assert "in HTTP/1.0" in load(nginx.url(), "-n", "12", "--http", "1.0").stdout


def test_a_server_that_does_not_keep_http_1_0_alive_is_seen_as_such_and_not_as_an_error() -> None:
    """It closes each connection though asked to keep it, as many servers do; the report says so."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Old) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = told(f"http://127.0.0.1:{server.server_port}/", "-n", "102", "-c", "2", "--http", "1.0")
        server.shutdown()
    assert (found["requests"], found["errors"]) == (102, {})
    assert found["connections_opened"] >= 100
    assert any("ends each connection" in line for line in found["warnings"])
