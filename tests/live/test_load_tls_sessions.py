"""``dragstrip load --tls full`` and ``--tls resumed``: whole handshakes and sessions taken up, by nginx's own log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from loads import Nginx, free_port, live, load, load_json, needs_nginx
from test_load_connections import Authority

pytestmark = [live, needs_nginx]


class Encrypted:
    """nginx over TLS, and by protocol, session and version how many requests its log has."""

    def __init__(self, at: Path, more: str = "", versions: str = "TLSv1.3") -> None:
        self.at, port = at, free_port()
        signer = Authority(at)
        self.ca = ["--cacert", str(signer.file)]
        self.url = f"https://127.0.0.1:{port}/"
        words = f"listen 127.0.0.1:{port} ssl http2; ssl_protocols {versions}; {signer.sign('good', 'IP:127.0.0.1')}"
        log = f"access_log {at}/sessions.log sessions;"
        form = "log_format sessions '$ssl_protocol $ssl_session_reused $server_protocol';"
        # A format stands outside of servers: the first one ends for it.
        self.nginx = Nginx(at, f"}} {form} server {{ {words} {log} {more}")

    def counted(self) -> Counter[str]:
        """After it has ended."""
        self.nginx.ended()
        return Counter((self.at / "sessions.log").read_text().splitlines())


@pytest.mark.parametrize(("http", "spoken"), [("1.1", "HTTP/1.1"), ("2", "HTTP/2.0")])
def test_sessions_are_taken_up_when_told_and_never_else(tmp_path: Path, http: str, spoken: str) -> None:
    """Of 500 connections over TLS 1.3 only the first of each slot, and one plain one, shake hands in whole."""
    for handshakes in ("full", "resumed"):
        at = tmp_path / handshakes
        at.mkdir()
        server = Encrypted(at)
        words = ["--tls", "resumed"] if handshakes == "resumed" else []  # full is the default
        found = load_json(server.url, *server.ca, "--http", http, "--no-keepalive", "-n", "502", "-c", "4", *words)
        seen = server.counted()
        assert (found["requests"], found["errors"]) == (502, {})
        tls = found["load"]["tls"]
        assert (tls["version"][:7], tls["handshakes"]) == ("TLSv1.3", handshakes)
        assert found["engine"]["io"] == "epoll (TLS 1.3)"
        assert tls["handshakes_per_s"] == pytest.approx(found["connections_opened"] / found["duration_s"])
        assert sum(seen.values()) == 502
        whole, taken_up = seen[f"TLSv1.3 . {spoken}"], seen[f"TLSv1.3 r {spoken}"]
        assert whole + taken_up == 502
        assert (taken_up, whole) == (0, 502) if handshakes == "full" else whole <= 1 + 4


def test_tls_1_2_takes_sessions_up_too_and_connections_that_end_do(tmp_path: Path) -> None:
    """By tickets of RFC 5077; and kept connections that end after five requests each."""
    server = Encrypted(tmp_path, versions="TLSv1.2")
    words = [*server.ca, "--tls", "resumed", "--close-after", "5", "-c", "2"]
    assert load_json(server.url, *words, "-n", "202")["errors"] == {}
    seen = server.counted()
    assert seen["TLSv1.2 . HTTP/1.1"] <= 1 + 2 * 5
    assert seen["TLSv1.2 r HTTP/1.1"] >= 202 - 1 - 2 * 5


def test_the_report_says_which_and_what_cannot_be_is_refused(tmp_path: Path) -> None:
    """A server that takes no session up, an address in the clear, and connections that are kept."""
    server = Encrypted(tmp_path, "ssl_session_tickets off; ssl_session_cache off;")
    refused = load(server.url, *server.ca, "--tls", "resumed", "--no-keepalive", "-n", "12")
    assert (refused.returncode, "does not resume the TLS session" in refused.stderr) == (1, True), refused.stderr
    shown = " ".join(load(server.url, *server.ca, "--no-keepalive", "-n", "12").stdout.split())
    assert "full handshakes)" in shown
    assert "TLS handshakes under load" in shown
    server.counted()
    clear = load("http://127.0.0.1:1/", "--tls", "full")
    assert (clear.returncode, "is not encrypted; use https://" in clear.stderr) == (2, True)


def test_sessions_of_connections_that_are_kept_are_few_and_the_report_says_so(tmp_path: Path) -> None:
    """They have one handshake each, most of them before there is any session."""
    server = Encrypted(tmp_path)
    shown = " ".join(load(server.url, *server.ca, "--tls", "resumed", "-n", "22", "-c", "2").stdout.split())
    assert "resumed sessions)" in shown
    assert "--no-keepalive or --close-after makes more" in shown
    server.counted()
