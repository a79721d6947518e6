"""``dragstrip load`` with several requests, each with its own right answer, and with raw ones; against a real nginx."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from loads import Nginx, live, load, load_json, needs_nginx

pytestmark = [live, needs_nginx]


def test_a_pool_is_cycled_and_each_answer_held_against_its_own(nginx: Nginx, tmp_path: Path) -> None:
    """Given answers are believed, others are learned by two plain requests each; a wrong one of four fails alone."""
    (tmp_path / "right.txt").write_text("hello world\n")
    pool = tmp_path / "pool.toml"
    pool.write_text("""
[[request]]
path = "/a"
[[request]]
method = "PUT"
path = "/b?x=1"
headers = { X-Mark = "m" }
body = "12345"
answer_file = "right.txt"
[[request]]
path = "/empty"
status = 204
answer = ""
[[request]]
path = "/c"
answer = "hello World\\n"
""")
    found = load_json(nginx.url(), "-n", "402", "-c", "4", "--pool", str(pool))
    assert (found["plain_requests"], found["different_requests"]) == (2, 4)
    assert (found["requests"], found["errors"]) == (302, {"wrong_body": 100})
    lines = Counter(line.rsplit(" ", 2)[0] for line in nginx.ended())
    assert lines == {"/a 200 GET -": 102, "/b 200 PUT m": 100, "/empty 204 GET -": 100, "/c 200 GET -": 100}
    assert found["status_codes"] == {"200": 302, "204": 100}


def test_a_pool_of_json_lines_is_pipelined_in_order(nginx: Nginx, tmp_path: Path) -> None:
    """Answers of three lengths, six on their way: each is matched with its own."""
    pool = tmp_path / "pool.jsonl"
    asked = [{"path": "/"}, {"path": "/empty"}, {"path": "/500", "status": 500}]
    pool.write_text("\n".join(map(json.dumps, asked)) + "\n\n")
    found = load_json(nginx.url(), "-n", "906", "-c", "2", "--pipeline", "6", "--pool", str(pool))
    assert (found["requests"], found["errors"], found["plain_requests"]) == (906, {}, 6)
    shown = load(nginx.url(), "-n", "20", "--pool", str(pool)).stdout
    assert "each of 3 different requests has its own correct response" in " ".join(shown.split())


def test_a_raw_request_leaves_byte_for_byte(nginx: Nginx, tmp_path: Path) -> None:
    """Header names as they are, no word of ours; a HEAD's answer has no body."""
    raw = tmp_path / "raw"
    raw.write_bytes(b"HEAD /raw HTTP/1.1\r\nhost: own.test\r\nx-mark:  a\r\n\r\n")
    assert load_json(nginx.url(), "-n", "52", "-c", "3", "--raw", str(raw))["requests"] == 52
    assert nginx.ended() == ["/raw 200 HEAD a own.test -"] * 52


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", '[[request]]\npath = "no"\n', "path"),
        (
            "a.toml",
            '[[request]]\npath = "/"\nheadres = {a = "b"}\n',
            "a.toml:3: request.0.headres: unknown key; did you mean headers?",
        ),
        ("a.toml", '[[requests]]\npath = "/"\n', "a.toml:1: requests: unknown key; did you mean request?"),
        ("a.toml", "request = []\n", "a.toml:1: request: given []; give at least 1"),
        (
            "a.jsonl",
            '{"path": "no"}\n',
            "a.jsonl:1: path: given 'no'; it should match pattern '^/[!-~]*$' (a path with its query",
        ),
        ("a.jsonl", "[1]\n", "a.jsonl:1: the line: given [1]; give a table of keys"),
        ("a.toml", '[[request]]\nbody = "a"\nbody_file = "b"\n', "body and body_file"),
        ("a.toml", '[[request]]\nanswer_file = "nowhere"\n', "nowhere can't be read"),
        ("a.jsonl", '{"path": "/"}\n{"pth": "/"}\n', "a.jsonl:2: pth: unknown key; did you mean path?"),
        ("a.jsonl", "GET /\n", "line 1: not valid JSON"),
        ("a.jsonl", "", "has 0 requests"),
    ],
)
def test_a_pool_that_makes_no_sense_is_refused_with_the_place(tmp_path: Path, name: str, text: str, said: str) -> None:
    """Before anything is sent."""
    (tmp_path / name).write_text(text)
    done = load("http://127.0.0.1:1/", "--pool", str(tmp_path / name))
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_a_raw_request_that_is_none_is_refused(tmp_path: Path) -> None:
    """Lines have to end as HTTP has them."""
    (tmp_path / "raw").write_text("GET / HTTP/1.1\nHost: a\n\n")
    done = load("http://127.0.0.1:1/", "--raw", str(tmp_path / "raw"))
    assert (done.returncode, "CR LF" in done.stderr) == (2, True)


def test_a_template_is_drawn_before_the_load_and_asked_evenly(nginx: Nginx) -> None:
    """Thirty addresses: two plain requests each, then ten of each, by the server's own log."""
    words = (nginx.url(), "-n", "360", "-c", "3", "-t", "1", "--url-template", "/item/{int:1..30}?x={choice:1,1.0}")
    found = load_json(*words, "--urls", "30", "--seed", "7")
    assert (found["plain_requests"], found["different_requests"], found["errors"]) == (60, 30, {})
    counted = Counter(line.split()[0] for line in nginx.ended())
    assert sum(counted.values()) == found["requests"] == 360
    assert all(path.startswith("/item/") for path in counted)


def test_a_sequence_that_repeats_is_learned_once(nginx: Nginx) -> None:
    """Two addresses in six requests of the cycle: four plain requests, not twelve."""
    found = load_json(
        nginx.url(), "-n", "64", "-c", "2", "--url-template", "/{seq:1..2}/{choice:a,a1,a2}", "--urls", "6"
    )
    assert found["plain_requests"] == 2 * found["different_requests"] <= 12
    assert (found["requests"], found["errors"]) == (64, {})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--url-template", "/{int:1..2}", "--raw", "r"], "--raw and --url-template can't be combined"),
        (["--url-template", "/{integer:1..2}"], "not a valid placeholder"),
        (["--urls", "5"], "add --url-template PATH"),
        (["--seed", "5"], "add -R RATE"),
    ],
)
def test_a_template_at_odds_with_the_rest_is_refused(words: list[str], said: str) -> None:
    """Before anything is sent."""
    done = load("http://127.0.0.1:1/", *words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
