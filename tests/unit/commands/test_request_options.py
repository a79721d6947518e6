"""The request on the command line: what its options become, and what is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from dragstrip.commands.options import gathered
from dragstrip.commands.request_options import RequestOptions, asked_for, typed_requests, without_secrets
from dragstrip.errors import BadUsage
from dragstrip.workload import Workload
from dragstrip.workload.typed import TypedRequest


def options(*words: str) -> RequestOptions:
    """The options that a command of these alone receives."""
    received: list[RequestOptions] = []
    click.command()(gathered(RequestOptions)(received.append)).main(list(words), standalone_mode=False)
    return received[0]


def shown(*words: str, default_path: str | None = None) -> list[str]:
    """What is requested: workloads by their names, typed requests as they are shown."""
    asked = asked_for(options(*words), default_path=default_path)
    return [one.name if isinstance(one, Workload) else one.shown for one in asked]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", ["hello"]),
        ("--workload json,post", ["json", "post"]),
        ("--workload json --workload post", ["json", "post"]),
        ("--path /a?x=1,2", ["GET /a?x=1,2"]),
        ("--workload /a", ["GET /a"]),
        ("--workload json,/a --path /b", ["json", "GET /b", "GET /a"]),
        ("--path /a --path /a", ["GET /a"]),
        ("--path /a -b x", ["POST /a"]),
        ("--path /a -b x -m PUT", ["PUT /a"]),
        ("--path /a -m HEAD", ["HEAD /a"]),
    ],
)
def test_what_is_requested_has_a_column_each(words: str, expected: list[str]) -> None:
    """A word of --workload that begins with / is a path; a body makes a POST, as in curl."""
    assert shown(*words.split()) == expected


def test_the_path_of_a_url_counts_if_no_other_is_given() -> None:
    """The method and the body of the options go with it; a workload or a path that is named counts in its place."""
    assert shown("-b", "x", default_path="/users") == ["POST /users"]
    with pytest.raises(BadUsage, match="a URL has the path /users; give one of the two"):
        shown("--path", "/a", default_path="/users")
    assert shown("--workload", "json", default_path="/users") == ["json"]


def test_a_typed_request_has_everything_that_was_typed(tmp_path: Path) -> None:
    """Cookies and credentials are headers; the body of a file is its bytes."""
    file = tmp_path / "order.json"
    file.write_bytes(b'{"a": 1}\n')
    words = ("-H", "Accept: text/html", "-C", "a=b", "-C", "c=d", "-a", "me:secret", "-T", "application/json")
    checks = ("--status", "201", "--ignore", "/id", "--ignore", "/at/0")
    assert typed_requests(options("--path", "/orders", "-b", f"@{file}", *words, *checks)) == (
        TypedRequest(
            path="/orders",
            method="POST",
            headers=(
                ("Accept", "text/html"),
                ("Content-Type", "application/json"),
                ("Cookie", "a=b; c=d"),
                ("Authorization", "Basic bWU6c2VjcmV0"),
            ),
            body=b'{"a": 1}\n',
            status=201,
            ignore=("/id", "/at/0"),
        ),
    )
    assert typed_requests(options("--path", "/", "-D", str(file)))[0].body == b'{"a": 1}\n'
    assert typed_requests(options("--path", "/", "-b", ""))[0].body == b""
    assert typed_requests(options("--path", "/"))[0].body is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-m", "POST"], "-m is for a request of your own, and no path is given; add --path /, or leave -m out"),
        (["--workload", "json", "-H", "a: b"], "-H is for a request of your own"),
        (["--check", "status"], "--check is for a request of your own"),
        (["--path", "users"], "--path 'users' does not begin with /; use /users"),
        (["--path", "http://127.0.0.1/a"], "the host"),
        (["--path", "/a b"], "percent-encode"),
        (["--path", "/\u00e9"], "percent-encode"),
        (["--path", "/a#b"], "fragment"),
        (["--path", "/", "-m", "GE T"], "-m 'GE T' is not a valid method; use GET or POST"),
        (["--path", "/", "-m", "CONNECT"], "tunnel"),
        (["--path", "/", "-H", "a b: c"], "-H 'a b: c' is not a valid header"),
        (["--path", "/", "-H", "a: b\r\nc: d"], "is not a valid header"),
        (["--path", "/", "-H", "host: x"], "-H 'host: …' can't be set, because Dragstrip sets it; leave it out"),
        (["--path", "/", "-H", "Connection: close"], "--no-keepalive"),
        (["--path", "/", "-H", "Content-Length: 3"], "the body's own length"),
        (["--path", "/", "-H", "Transfer-Encoding: chunked"], "bodies are sent with their length"),
        (["--path", "/", "-H", "a: b", "-H", "A: c"], "-H 'A: …' is given twice"),
        (["--path", "/", "-C", "a=b", "-H", "Cookie: c=d"], "--cookie and -H 'Cookie: …' set the same header"),
        (["--path", "/", "-b", "x", "-D", "file"], "-b and -D file both set the body"),
        (["--path", "/", "-D", "10s"], "h2load's -D is -d TIME"),
        (["--path", "/", "-T", "5"], "not a valid content type"),
        (["--path", "/", "-b", "@/no/such"], "-b @/no/such: /no/such can't be read"),
        (["--path", "/", "--ignore", "id"], "--ignore 'id' is not a valid JSON Pointer (RFC 6901); use /id"),
        (["--path", "/", "--ignore", "/a~b"], "use /a~0b"),
        (["--path", "/", "--ignore", ""], "not a valid JSON Pointer"),
        (["--path", "/", "--ignore", "/a", "--check", "status"], "--check status compares no field"),
    ],
)
def test_an_odd_request_is_refused_with_what_is_valid(words: list[str], message: str) -> None:
    """By the option, with what was given and what would be valid."""
    with pytest.raises(BadUsage) as refused:
        asked_for(options(*words))
    assert message in str(refused.value)


def test_a_command_is_printed_again_without_its_secrets() -> None:
    """In every form in which an option has its value; what is no secret stays."""
    typed = [
        "bisect",
        "v1",
        "-H",
        "Authorization: Bearer x",
        "-HX-Api-Key: y",
        "--header=Accept: text/html",
        "-C",
        "a=z",
    ]
    typed += ["--cookie=b=c=d", "-a", "me:pass", "--path", "/a=b", "-c", "4"]
    assert list(without_secrets(typed)) == [
        *("bisect", "v1", "-H", "Authorization: …", "-HX-Api-Key: …", "--header=Accept: text/html", "-C", "a=…"),
        *("--cookie=b=…", "-a", "me:…", "--path", "/a=b", "-c", "4"),
    ]
