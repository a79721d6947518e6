"""``load --check``: what is compared of each response, and pages that change."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import commands
import pytest
from loads import live, load_json
from test_scrutiny import plain, serving


@contextmanager
def changing(*lengths: int) -> Iterator[str]:
    """The URL of a server whose body is another one each time, as long as these in turn."""
    turns = itertools.count()

    class Changing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            turn = next(turns)
            length = lengths[min(turn, len(lengths) - 1)]
            self.send_response(200)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(f"{turn:0{length}}".encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Changing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@live
@pytest.mark.parametrize("check", ["length", "status"])
@pytest.mark.parametrize("words", [(), ("--no-keepalive",), ("--pipeline", "2")], ids=["kept", "closing", "pipelined"])
def test_a_page_with_a_time_in_it_is_loaded_by_length_or_status(check: str, words: tuple[str, ...]) -> None:
    """48 bytes that are others in each response: only what was asked for is compared."""
    with changing(48) as url:
        found = load_json(url, "-n", "100", "-c", "3", "--check", check, *words)
    assert (found["requests"], found["errors"], found["right_answer"]["checked"]) == (100, {}, check)


@live
def test_of_a_body_that_changes_as_much_is_checked_as_stays_and_a_line_says_so() -> None:
    """Its length if that stays; otherwise the status alone."""
    for lengths, checked, says in (((48,), "length", "lengths were checked"), ((48, 49), "status", "only statuses")):
        with changing(*lengths) as url:
            found = load_json(url, "-n", "10")
        assert found["right_answer"]["checked"] == checked
        assert says in found["sentences"]["checked"]


@live
def test_a_response_with_the_time_is_asked_for_three_times_and_each_is_counted() -> None:
    """The third one shows a time of whole seconds; the report's count is the server's own."""
    numbers = []

    def answer(_request: bytes, number: int) -> tuple[bytes, bool]:
        numbers.append(number)
        return plain(b"12:30:01" if number < 2 else b"12:30:02"), False

    with serving(answer) as port:
        found = load_json(f"http://127.0.0.1:{port}/", "-n", "20", "-c", "2")
    assert (found["plain_requests"], found["sent"], found["errors"]) == (3, len(numbers), {})
    assert found["right_answer"]["checked"] == "length"


@live
def test_a_body_that_changes_is_refused_if_more_was_asked_for() -> None:
    """The message says what would load it."""
    remedy = "--check length compares lengths, --check status only statuses"
    with changing(48) as url:
        refused = commands.dragstrip("load", url, "-n", "10", "--check", "full")
    assert (refused.returncode, remedy in " ".join(refused.stderr.split())) == (2, True)
    with changing(48, 49) as url:
        refused = commands.dragstrip("load", url, "-n", "10", "--check", "length")
    said = " ".join(refused.stderr.split())
    assert refused.returncode == 2
    assert "--check status compares only statuses" in said
    assert remedy not in said


@live
def test_by_length_a_body_of_another_length_is_wrong() -> None:
    """The first hundred responses are 48 bytes long, the others 40."""
    with changing(*[48] * 100, 40) as url:
        done = commands.dragstrip("load", url, "-n", "300", "-c", "3", "--check", "length", "--json", "-", "-q")
    found = json.loads(done.stdout)
    assert found["errors"].keys() == {"wrong_length"}
    assert sum(found["errors"].values()) + found["requests"] == 300
