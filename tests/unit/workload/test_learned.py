"""What is learned of a typed request's responses, and what a record keeps of it."""

from __future__ import annotations

import json

import pytest

from dragstrip.errors import BadUsage
from dragstrip.racing.columns import shown_names
from dragstrip.requested import described
from dragstrip.store import masking
from dragstrip.workload import Asking, load, loads, names
from dragstrip.workload.learned import SeenResponse, answered, file_of, unanswered
from dragstrip.workload.recorded import recorded, reopened
from dragstrip.workload.typed import TypedRequest

USER = TypedRequest(path="/users/42?x={{1}}")


def seen(*bodies: bytes, status: int = 200, **words: bool | str) -> list[SeenResponse]:
    return [SeenResponse(status=status, body=body, **words) for body in bodies]


@pytest.mark.parametrize(
    ("responses", "check", "compare", "compared"),
    [
        (seen(b"hello", b"hello"), "auto", "bytes", "the status and every byte of the body"),
        (seen(b"{{ x }}", b"{{ x }}"), "auto", "bytes", "the status and every byte of the body"),
        (seen(b"\xff\0", b"\xff\0"), "auto", "bytes", "the status and every byte of the body"),
        (
            seen(b"at 10", b"at 11"),
            "auto",
            "length",
            "the status and the body's length, because the body changed between two responses, and not only in fields "
            "of JSON",
        ),
        (
            seen(b"at 9", b"at 10"),
            "auto",
            "status",
            "the status only, no body, because the body's length changed between two responses",
        ),
        (seen(b'{"a":1}', b'{"a":1}'), "auto", "values", "the status and every value of the JSON"),
        (seen(b'{"a":1}', b'{"a":1}'), "full", "bytes", "the status and every byte of the body"),
        (seen(b'{"a":1}', b'{"a":1}'), "length", "length", "the status and the body's length"),
        (seen(b'{"a":1}', b'{"a":1}'), "status", "status", "the status only, no body"),
        (
            seen(b'{"a":1,"b":{"c":2}}', b'{"a":2,"b":{"c":2}}'),
            "auto",
            "values",
            "the status and the JSON: 1 of 2 fields by value, 1 by type because it changes (/a)",
        ),
        (
            seen(b'{"a":1}', b'{"a":"x"}'),
            "auto",
            "status",
            "the status only, no body, because the body's length changed between two responses",
        ),
        (
            seen(b"x", b"x", whole=False, coding="zstd"),
            "auto",
            "status",
            "the status only, no body, because the body's content coding can't be undone, or not within 1 MiB",
        ),
        (
            seen(b"xy", b"xz", coding="gzip"),
            "auto",
            "status",
            "the status only, no body, because the body, which is compressed, changed between two responses",
        ),
        (seen(b"", b""), "auto", "bytes", "the status and every byte of the body"),
        (seen(b"x" * 2**21, b"x" * 2**21), "auto", "digest", "the status and every byte of the body"),
        (
            seen(b'{"a":1,"b":1}', b'{"a":1}'),
            "auto",
            "values",
            "the status and the JSON: 1 of 2 fields by value, 1 by type because it changes (/b)",
        ),
    ],
)
def test_as_much_is_compared_as_stays_the_same(
    responses: list[SeenResponse], check: str, compare: str, compared: str
) -> None:
    """The definition is rendered to the very request and the very body."""
    made = answered(TypedRequest(path=USER.path, check=check), responses, "one")
    (exchange,) = Asking(made).exchanges()
    assert exchange.path == USER.path
    assert exchange.compare == compare
    nothing = bytes(len(responses[0].body))
    assert exchange.body == {"length": nothing, "digest": nothing, "status": b""}.get(compare, responses[0].body)
    (told,) = described(recorded(made))
    assert (told.request, told.compared) == (f"GET {USER.path} → 200", compared)


@pytest.mark.parametrize(
    ("typed", "responses", "says"),
    [
        (USER, seen(b"", b"", status=404), "--status 404"),
        (TypedRequest(path="/", status=201), seen(b"", b""), "--status 201 was given"),
        (USER, [*seen(b""), *seen(b"", status=500)], "different statuses (200, 500)"),
        (TypedRequest(path="/", check="full"), seen(b"a", b"b"), "--check full"),
        (TypedRequest(path="/", check="length"), seen(b"a", b"bc"), "bodies of 1 and 2 bytes"),
        (TypedRequest(path="/", check="length"), seen(b"a", b"a", coding="gzip"), "a body in gzip"),
        (USER, seen(b"a" * 2**20, b"a" * (2**20 + 1)), "up to 1,048,576 bytes; request another path (--path"),
        (TypedRequest(path="/", ignore=("/id",)), seen(b"a", b"a"), "does not respond to GET / with JSON"),
        (TypedRequest(path="/", ignore=("/id",)), seen(b'{"it":1}', b'{"it":1}'), "it sends /it"),
    ],
)
def test_what_can_not_be_compared_as_asked_is_refused(
    typed: TypedRequest, responses: list[SeenResponse], says: str
) -> None:
    """The message names the contender, what it sent, and what would help."""
    with pytest.raises(BadUsage) as refused:
        answered(typed, responses, "one")
    assert says in str(refused.value)
    assert "one" in str(refused.value)


def test_ignored_fields_are_compared_by_type() -> None:
    """Though their values stayed the same."""
    typed = TypedRequest(path="/", ignore=("/at",))
    (exchange,) = Asking(answered(typed, seen(b'{"at":1}', b'{"at":1}'), "one")).exchanges()
    assert (exchange.compare, exchange.changing) == ("values", ("/at",))


def test_before_anything_is_learned_any_status_but_503_is_correct() -> None:
    """It is what the probe of a start accepts."""
    (exchange,) = Asking(unanswered(USER)).exchanges()
    assert (exchange.status, exchange.compare, exchange.body) == (0, "status", b"")


def test_a_request_is_sent_as_it_was_typed() -> None:
    """With its headers and its body, whatever they contain; accepted codings are undone before the comparison."""
    typed = TypedRequest(
        path="/orders",
        method="POST",
        headers=(("X-A", "{{ b }}"), ("Accept-Encoding", "gzip")),
        body=b'{"a":{"b":{{1}}}}',
    )
    (exchange,) = Asking(answered(typed, seen(b"ok", b"ok", status=201), "one")).exchanges()
    assert exchange.request.startswith(b"POST /orders HTTP/1.1\r\n")
    assert b"\r\nX-A: {{ b }}\r\n" in exchange.request
    assert exchange.sends == b'{"a":{"b":{{1}}}}'
    assert (exchange.status, exchange.encodings, exchange.chunks) == (201, ("gzip", "identity"), False)
    assert b"\r\nAccept-Encoding: gzip\r\n" in exchange.request
    binary = TypedRequest(path="/", method="POST", body=b"\xff\0")
    assert Asking(unanswered(binary)).exchanges()[0].sends == b"\xff\0"


def test_a_coding_that_the_server_chose_is_accepted_and_not_asked_for() -> None:
    """The request stays as it was typed, also in the record; a header with codings that it can't undo stays, too."""
    made = answered(TypedRequest(path="/"), seen(b"a", b"a", coding="gzip"), "one")
    for workload in (made, reopened(recorded(made), "race x")):
        (exchange,) = Asking(workload).exchanges()
        assert (exchange.encodings, exchange.negotiated) == (("gzip", "identity"), False)
        assert b"Accept-Encoding" not in exchange.request
    usual = TypedRequest(path="/", headers=(("Accept-Encoding", "zstd, br;q=0.5"),))
    (exchange,) = Asking(answered(usual, seen(b"a", b"a"), "one")).exchanges()
    assert exchange.encodings == ("br", "identity")
    assert b"\r\nAccept-Encoding: zstd, br;q=0.5\r\n" in exchange.request


def test_secrets_are_in_no_record_and_are_asked_for_again() -> None:
    """Credentials, cookies and named headers; a wrong one is refused."""
    headers = (("Authorization", "Bearer sesame"), ("Cookie", "s=sesame"), ("X-Api-Key", "sesame"), ("X-Plain", "open"))
    made = answered(TypedRequest(path="/", headers=headers), seen(b"a", b"a"), "one")
    definition = recorded(made)
    assert "sesame" not in definition
    assert "open" in definition
    assert recorded(made) != definition  # salted
    again = reopened(definition, "race x", headers)
    assert Asking(again).exchanges() == Asking(made).exchanges()
    for given, says in (
        (headers[1:], "-H 'Authorization: …'"),
        ((("Authorization", "Bearer"), *headers[1:]), "another"),
    ):
        with pytest.raises(BadUsage) as refused:
            reopened(definition, "race x", given)
        assert says in str(refused.value)
        assert "sesame" not in str(refused.value)
    named = json.loads(definition) | {"request": {"path": "/", "mask": ["X-Plain"], "headers": {"X-Plain": "open"}}}
    assert "open" not in recorded(reopened(json.dumps(named), "race x"))


def test_a_secret_that_a_server_says_is_in_no_record() -> None:
    """Neither a token without its scheme, nor a cookie's value, nor a password; with them, the record is whole."""
    basic = "Basic dXNlcjpvcGVuLXNlc2FtZQ=="  # user:open-sesame
    headers = (("Authorization", basic), ("Cookie", "theme=dark; sid=4711-0815"))
    body = b'{"auth":"dXNlcjpvcGVuLXNlc2FtZQ==","password":"open-sesame","sid":"4711-0815","user":"user"}'
    made = answered(TypedRequest(path="/", headers=headers), seen(body, body), "one")
    definition = recorded(made)
    for secret in ("dXNlcjpvcGVuLXNlc2FtZQ==", "open-sesame", "4711-0815"):
        assert secret not in definition
        assert masking.hide(f"cannot log in with {secret}!").startswith("cannot log in with ***")
    assert masking.hide("theme of a user, Basic") == "theme of a user, Basic"
    (exchange,) = Asking(reopened(definition, "race x", headers)).exchanges()
    assert exchange.body == body


def test_a_typed_request_is_called_as_it_was_typed_unless_two_are_alike() -> None:
    """Hashes only keep requests of the same method and path apart."""
    typed = [
        TypedRequest(path="/two"),
        TypedRequest(path="/"),
        TypedRequest(path="/", headers=(("Accept", "text/plain"),)),
    ]
    made = [answered(one, seen(b"2", b"2"), "one") for one in typed]
    assert [workload.shown for workload in (made[0], load("hello"))] == ["GET /two", "hello"]
    names = shown_names(made)
    assert names[made[0].name] == "GET /two"
    assert [names[one.name] for one in made[1:]] == [one.name for one in made[1:]]


def test_a_typed_request_becomes_a_file_that_can_be_raced_elsewhere() -> None:
    """With the same request, but for its secrets."""
    headers = (("Authorization", "Bearer sesame"), ("Content-Type", "application/json"))
    typed = TypedRequest(
        path="/a?x={{1}}", method="POST", headers=headers, body=b'{"a": "\xc3\xa4\\n{{x}}"}', status=201
    )
    text = file_of(typed)
    assert "sesame" not in text
    made = loads(text, "a file")
    (exchange,) = Asking(made).exchanges()
    assert (made.name, exchange.path) == ("a-x-1", typed.path)
    assert exchange.request.endswith(typed.body or b"!")
    assert dict(made.kinds[0].request.headers)["Authorization"] == "..."
    assert made.kinds[0].answer.status == 201
    assert loads(file_of(TypedRequest(path="/", body=b"\xff")), "a file").name == "root"


@pytest.mark.parametrize("name", names())
def test_every_shipped_workload_opens_from_its_record(name: str) -> None:
    """With the same requests; and a reader is told what each requests."""
    made = load(name)
    again = reopened(recorded(made), "race x")
    assert again.fields == made.fields
    assert len(described(recorded(made))) == len(made.kinds)


def test_a_damaged_definition_says_nothing() -> None:
    """A record may come from anywhere."""
    for text in ("", "{}", "[]", "{", '{"request": {"path": 1}, "answer": 2}', '{"request": [], "answer": {}}'):
        assert described(text) == ()


def test_a_secret_that_is_a_key_of_the_definition_leaves_the_record_whole() -> None:
    """Only texts of a record are searched for it."""
    headers = (("Authorization", "Bearer request"),)
    made = answered(TypedRequest(path="/", headers=headers), seen(b"my request", b"my request"), "one")
    (exchange,) = Asking(reopened(recorded(made), "race x", headers)).exchanges()
    assert (exchange.body, exchange.path) == (b"my request", "/")


def test_a_damaged_definition_is_refused_by_name() -> None:
    """It came with a file from elsewhere."""
    for text in ("{", "[]", '{"request": 5}', '{"request": {"headers": 5}, "answer": {}}', '{"request": [7]}'):
        with pytest.raises(BadUsage, match="race x: its workload's definition is damaged"):
            reopened(text, "race x")
