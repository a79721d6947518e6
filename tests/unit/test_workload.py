"""Workloads: the requests and their right answers, byte for byte."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragstrip import workload
from dragstrip.errors import BadDefinition, BadUsage
from dragstrip.workload import Asking

GOOD = """\
name = "add"
title = "adds"

[request]
path = "/add?a={{ a }}"

[answer]
content_type = "text/plain"
body = "{{ a + 1 }} {{ mark }}"

[load]
count = 4
numbers.a = [1, 9]

[probes]
numbers.a = [0, 99]
always = [{ a = 0 }, { a = 99 }]
"""


def define(folder: Path, text: str) -> workload.Workload:
    file = folder / f"{abs(hash(text))}.toml"
    file.write_text(text)
    return workload.load(file)


def test_hello_is_one_request_with_twelve_bytes_of_plain_text() -> None:
    """The whole exchange as it goes over the wire."""
    hello = workload.load("hello")
    (kept,) = Asking(hello).exchanges()
    assert kept.request == b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: dragstrip\r\nAccept: */*\r\n\r\n"
    assert (kept.path, kept.status, kept.content_type, kept.body) == ("/", 200, "text/plain", b"hello world\n")
    assert len(kept.body) == 12
    assert Asking(hello).probes() == (kept,)
    (closed,) = Asking(hello).exchanges(keepalive=False)
    assert closed.request == kept.request[:-2] + b"Connection: close\r\n\r\n"


def test_multiply_answers_the_page_that_the_design_shows() -> None:
    """2*3 as the first probe, with the contender's mark in it."""
    probe = Asking(workload.load("multiply"), mark="abcd").probes()[0]
    assert probe.path == "/multiply?a=2&b=3"
    right = b"<html><body><p>Hello abcd!</p><p>PATH=/multiply</p><p>RESULT: 2*3=6</p></body></html>\n"
    assert (probe.body, probe.content_type, probe.status) == (right, "text/html", 200)


@given(st.integers(min_value=0, max_value=2**63))
def test_a_load_has_sixteen_different_requests_of_one_length_fixed_by_the_seed(seed: int) -> None:
    """And their answers have one length too, whatever the seed."""
    multiply = workload.load("multiply")
    pool = Asking(multiply, mark="abcd", seed=seed).exchanges()
    assert len({exchange.path for exchange in pool}) == len(pool) == 16
    assert len({len(exchange.body) for exchange in pool}) == 1
    assert len({len(exchange.request) for exchange in pool}) == 1
    assert pool == Asking(multiply, mark="abcd", seed=seed).exchanges()


@given(st.integers(min_value=0, max_value=2**63), st.integers(min_value=1, max_value=60))
def test_probes_ask_the_fixed_cases_and_others_within_what_every_language_counts_in(seed: int, count: int) -> None:
    """Zeros and the largest numbers always; products below 2^31; each answer is the true product."""
    probes = Asking(workload.load("multiply"), mark="abcd", seed=seed).probes(count=count)
    assert len(probes) == count
    paths = []
    for probe in probes:
        match = re.fullmatch(r"/multiply\?a=(\d+)&b=(\d+)", probe.path)
        assert match
        a, b = int(match[1]), int(match[2])
        paths.append((a, b))
        assert a * b < 2**31
        assert f"RESULT: {a}*{b}={a * b}</p>".encode() in probe.body
    assert {(2, 3), (0, 0), (0, 7), (1, 46340), (46340, 46340)} >= set(paths[:5])


def test_another_seed_asks_other_probes_and_loads_another_pool() -> None:
    """What isn't computed is found out: no fixed list of answers serves two races."""
    multiply = workload.load("multiply")
    assert Asking(multiply, mark="abcd", seed=1).probes() != Asking(multiply, mark="abcd", seed=2).probes()
    assert Asking(multiply, mark="abcd", seed=1).exchanges() != Asking(multiply, mark="abcd", seed=2).exchanges()


def test_marks_change_the_body_and_never_its_length() -> None:
    """So that all contenders answer the same number of bytes."""
    multiply = workload.load("multiply")
    first, second = (Asking(multiply, mark=mark).exchanges()[0].body for mark in ("abcd", "wxyz"))
    assert first != second
    assert len(first) == len(second)


@pytest.mark.parametrize("mark", ["", "abc", "abcde", "a\nbc"])
def test_a_contender_without_a_proper_mark_is_refused(mark: str) -> None:
    """Only where the answer has the mark in it."""
    with pytest.raises(BadUsage, match='mark = "4 characters"'):
        Asking(workload.load("multiply"), mark=mark).exchanges()
    assert Asking(workload.load("hello"), mark=mark).exchanges()


def test_an_unknown_workload_is_refused_with_those_there_are() -> None:
    """By name and by path."""
    with pytest.raises(BadUsage, match="did you mean multiply"):
        workload.load("multipy")
    with pytest.raises(BadUsage, match=r"nowhere\.toml"):
        workload.load("./nowhere.toml")


def test_a_workload_of_ones_own_is_loaded_from_its_file(tmp_path: Path) -> None:
    """The fixed cases come first, then drawn ones."""
    add = define(tmp_path, GOOD)
    assert add.name == "add"
    assert [probe.body for probe in Asking(add, mark="abcd").probes(count=2)] == [b"1 abcd", b"100 abcd"]
    assert len(Asking(add, mark="abcd").exchanges()) == 4


def test_a_pool_larger_than_its_numbers_allow_has_each_of_them_once(tmp_path: Path) -> None:
    """Nine numbers make nine requests, though a hundred were wished for."""
    pool = Asking(define(tmp_path, GOOD.replace("count = 4", "count = 100")), mark="abcd").exchanges()
    assert len({exchange.path for exchange in pool}) == len(pool) == 9


@pytest.mark.parametrize(
    ("before", "after", "line", "field", "words"),
    [
        ("count = 4", "cuont = 4", 12, "load.cuont", ["did you mean count"]),
        ("count = 4", "count = 0", 12, "load.count", ["given 0"]),
        ("[1, 9]", "[9, 1]", 13, "load.numbers.a", ["given [9, 1]", "[first, last]"]),
        ("[1, 9]", "[1]", 13, "load.numbers.a", ["given [1]", "at least 2 values"]),
        ("[1, 9]", "[1, 2, 3]", 13, "load.numbers.a", ["has 3 entries", "at most 2"]),
        ("[1, 9]", '[1, "9"]', 13, "load.numbers.a.1", ["given '9'", "a whole number"]),
        ("[0, 99]", "[0, 99]\nnumbers.b = [0, 1]", 16, "probes.numbers", ["['a', 'b']", "['a']"]),
        ("{ a = 99 }", "{ b = 99 }", 17, "probes.always.1", ["['b']", "['a']"]),
        ('"/add?a={{ a }}"', '"add"', 5, "request.path", ["given 'add'"]),
        ('"/add?a={{ a }}"', '"/add a={{ a }}"', 5, "request.path", ["without spaces"]),
        ('"/add?a={{ a }}"', '"/add?a={{ mark }}"', 5, "request.path", ["unknown name 'mark'", "a"]),
        ('"/add?a={{ a }}"', '"/add?a={{ a }"', 5, "request.path", ["not a valid template"]),
        ('"{{ a + 1 }} {{ mark }}"', '"{{ c }}"', 9, "answer.body", ["unknown name 'c'", "mark"]),
        ('"text/plain"', '"Text/Plain; charset=x"', 8, "answer.content_type", ["pattern"]),
        ('"text/plain"', '"text/plain"\nstatus = 99', 9, "answer.status", ["given 99"]),
        ('title = "adds"', "", None, "title", ["is missing"]),
    ],
)
def test_a_bad_workload_is_refused_with_file_line_field_and_remedy(
    tmp_path: Path, before: str, after: str, line: int | None, field: str, words: list[str]
) -> None:
    """The message says where, what was given and what would do."""
    assert before in GOOD
    with pytest.raises(BadDefinition) as refusal:
        define(tmp_path, GOOD.replace(before, after, 1))
    assert (refusal.value.line, refusal.value.field) == (line, field)
    for word in (".toml", *words):
        assert word in str(refusal.value)


@pytest.mark.parametrize("name", workload.names())
def test_every_shipped_workload_is_loaded_by_the_name_of_its_file(name: str) -> None:
    """Contenders list that name."""
    assert workload.load(name).name == name


MIX = """\
name = "shop"
title = "looks and buys"

[[request]]
name = "look"
weight = 3
path = "/thing/{{ id }}/{{ colour }}"

[request.answer]
content_type = "text/plain"
body = "{{ things[id - 1].name }} in {{ colour }}"
earliest_ms = 1.5

[request.load]
numbers.id = [1, 3]
choices.colour = ["red", "blue"]

[request.probes]
numbers.id = [1, 3]
choices.colour = ["red", "blue", "green"]

[[request]]
name = "buy"
method = "POST"
path = "/buy"
headers = { "X-Note" = "{{ note }}", Accept = "text/plain" }
body = "{{ note }}"
framing = "chunked"

[request.answer]
status = 303
compare = "status"

[request.load]
count = 2
texts.note = [3, 3]

[request.probes]
texts.note = [0, 9]

[load]
connections = 7
pipelining = 4

[[data]]
file = "things.txt"
name = "things"
rows = 3
texts.name = [5, 5]
content = "{% for row in rows %}{{ row.id }} {{ row.name }}\\n{% endfor %}"

[[data]]
file = "pictures/one.bin"
bytes = 100
"""


def test_answers_wait_where_they_have_an_earliest_time_or_come_out_of_a_database_or_the_file_says_so(
    tmp_path: Path,
) -> None:
    """One of several is enough; a word of the file's own is the last."""
    waiting = {name for name in workload.names() if workload.load(name).waits}
    suites = {"tfb-db", "tfb-queries", "tfb-updates", "tfb-fortunes"}
    suites |= {"arena-async-db", "arena-crud", "arena-api-4", "arena-api-16"}
    assert waiting == {"db", "delay", "queries", *suites}
    assert define(tmp_path, MIX).waits
    assert not define(tmp_path, MIX.replace("earliest_ms = 1.5", "earliest_ms = 1.5\nwaits = false")).waits
    assert not define(tmp_path, MIX.replace("earliest_ms = 1.5", "")).waits
    assert define(tmp_path, MIX.replace("earliest_ms = 1.5", "waits = true")).waits


def test_a_workload_of_several_requests_has_each_with_its_own_answer(tmp_path: Path) -> None:
    """Methods, headers, bodies and framing go over the wire as they are written; answers know the launch's rows."""
    shop = define(tmp_path, MIX)
    data = shop.data("one")
    pool = Asking(shop, data=data, seed=3).exchanges()
    assert (shop.kind_names, shop.traffic.connections, shop.traffic.pipelining) == (("look", "buy"), 7, 4)
    looks, buys = ([exchange for exchange in pool if exchange.kind == kind] for kind in (0, 1))
    assert (len(looks), len(buys)) == (6, 2)
    names = [line.split(" ")[1] for line in data.files["things.txt"].decode().splitlines()]
    for look in looks:
        match = re.fullmatch(r"/thing/(\d)/(red|blue)", look.path)
        assert match
        assert look.body == f"{names[int(match[1]) - 1]} in {match[2]}".encode()
        assert (look.earliest_ns, look.any_body, look.shown) == (1_500_000, False, f"{look.path} (look)")
    head, _, body = buys[0].request.partition(b"\r\n\r\n")
    note = buys[0].sends
    assert head.split(b"\r\n") == [
        b"POST /buy HTTP/1.1", b"Host: 127.0.0.1", b"User-Agent: dragstrip", b"X-Note: " + note,
        b"Accept: text/plain", b"Transfer-Encoding: chunked",
    ]  # fmt: skip
    assert body == b"3\r\n" + note + b"\r\n0\r\n\r\n"
    assert (buys[0].any_body, buys[0].status, buys[0].chunked) == (True, 303, True)


@given(st.integers(min_value=0, max_value=2**32))
@pytest.mark.thorough
def test_the_sequence_of_a_mix_has_each_kind_by_its_weight(seed: int) -> None:
    """Exactly, in an order of the seed's; each exchange of a kind comes as often as another."""
    shared = workload.load("post")
    pool = Asking(shared, seed=seed).exchanges()
    order = shared.sequence(pool, seed)
    assert order == shared.sequence(pool, seed) != shared.sequence(pool, seed + 1)
    kinds = [pool[place].kind for place in order]
    assert kinds.count(0) == kinds.count(1) == len(kinds) / 2
    assert len({order.count(place) for place in range(len(pool))}) == 1
    assert workload.load("hello").sequence(Asking(workload.load("hello")).exchanges(), seed) == ()


def test_every_launch_finds_other_files_and_their_answers_know_it(tmp_path: Path) -> None:
    """The same text gives the same ones; what was right before is known as such."""
    shop = define(tmp_path, MIX)
    first, second = shop.data("one"), shop.data("two")
    assert first == shop.data("one")
    assert all(first.files[name] != second.files[name] for name in first.files)
    assert len(first.files["pictures/one.bin"]) == 100
    before, now = (Asking(shop, data=data, before=first, seed=1).exchanges()[0] for data in (first, second))
    assert before.stale is None
    assert now.stale == before.body != now.body


@given(st.integers(min_value=0, max_value=2**63))
@pytest.mark.thorough
def test_probes_are_outside_the_pool(seed: int) -> None:
    """As far as there is anything else: whoever is right for the pool alone is found out."""
    for name in ("json", "post"):
        loaded = workload.load(name)
        data = loaded.data("any")
        pool = {
            (exchange.path, exchange.sends, exchange.chunked)
            for exchange in Asking(loaded, seed=seed, data=data).exchanges()
        }
        probes = Asking(loaded, seed=seed, data=data).probes()
        # The first two of each kind are fixed cases.
        drawn = [probe for kind in range(len(loaded.kinds)) for probe in [p for p in probes if p.kind == kind][2:]]
        assert drawn
        assert not [probe for probe in drawn if (probe.path, probe.sends, probe.chunked) in pool]


def test_json_in_a_form_of_ones_own_is_asked_for_only_where_it_is_declared() -> None:
    """Else every byte counts."""
    json = workload.load("json")
    data = json.data("any")
    assert {exchange.compare for exchange in Asking(json, data=data).exchanges()} == {"bytes"}
    assert {exchange.compare for exchange in Asking(json, data=data, own_form=True).exchanges()} == {"json"}


@pytest.mark.parametrize(
    ("before", "after", "line", "field", "words"),
    [
        ('name = "buy"', 'name = "look"', 23, "request.1.name", ["'look' a second time"]),
        ("weight = 3", "weight = 0", 6, "request.0.weight", ["given 0"]),
        ('method = "POST"', 'method = "po st"', 24, "request.1.method", ["given 'PO ST'"]),
        ('framing = "chunked"', 'framing = "pieces"', 28, "request.1.framing", ["'length' or 'chunked'"]),
        ('"X-Note" = "{{ note }}"', '"Connection" = "close"', 26, "request.1.headers", ["is set by Dragstrip"]),
        ('"X-Note" = "{{ note }}"', '"X Note" = ""', 26, "request.1.headers", ["not a valid header name"]),
        ('"X-Note" = "{{ note }}"', '"X-Note" = "{{ id }}"', 26, "request.1.headers", ["unknown name 'id'", "note"]),
        ('body = "{{ note }}"', 'body = "{{ nota }}"', 27, "request.1.body", ["did you mean note"]),
        ('body = "{{ note }}"', 'body_file = "nowhere"', 27, "request.1.body_file", ["can't be read"]),
        ('compare = "status"', 'compare = "status"\nbody = "x"', 33, "request.1.answer.body", ["leave it out"]),
        ("numbers.id = [1, 3]\nchoices", "numbers.colour = [1, 3]\nchoices", 14, "request.0.load", ["'colour'"]),
        ("texts.note = [3, 3]", "texts.note = [4, 3]", 36, "request.1.load.texts.note", ["[4, 3]"]),
        ('colour = ["red", "blue"]', "colour = []", 16, "request.0.load.choices.colour", ["at least 1"]),
        ("bytes = 100", 'bytes = 100\ncontent = "x"', 52, "data.1", ["either `bytes` or `content`"]),
        ('file = "pictures/one.bin"', 'file = "../one.bin"', 53, "data.1.file", ["pattern"]),
        ('file = "pictures/one.bin"', 'file = "things.txt"', 53, "data.1.file", ["a second time"]),
        ('content_type = "text/plain"\n', "", 9, "request.0.answer.content_type", ["is missing"]),
        ('body = "{{ things[id - 1].name }} in {{ colour }}"', 'data = "{{ id }}"', 11, "request.0.answer.data", []),
        ("things[id - 1].name", "things[id].weight", 11, "request.0.answer.body", ["asks a list"]),
        ("pipelining = 4", "pipelining = 0", 43, "load.pipelining", ["given 0"]),
        ('framing = "chunked"', 'body_bytes = "9"', 28, "request.1.body_bytes", ["can't be combined with `body`"]),
        ('body = "{{ note }}"', 'body_bytes = "{{ note }}"', 27, "request.1.body_bytes", ["becomes", "bytes"]),
        ('body = "{{ note }}"', 'body_bytes = "99999999"', 27, "request.1.body_bytes", ["becomes '99999999'"]),
        ("earliest_ms = 1.5", 'encodings = ["deflate"]', 12, "request.0.answer.encodings.0", ["'deflate'"]),
        ("earliest_ms = 1.5", 'headers = ["Not a header"]', 12, "request.0.answer.headers.0", ["pattern"]),
        ("bytes = 100", 'bytes = 100\nencodings = ["zip"]', 55, "data.1.encodings.0", ["'zip'"]),
        ("pipelining = 4", "requests_per_connection = 0", 43, "load.requests_per_connection", ["given 0"]),
    ],
)
def test_a_bad_mix_is_refused_with_file_line_field_and_remedy(
    tmp_path: Path, before: str, after: str, line: int | None, field: str, words: list[str]
) -> None:
    """Lines are those of the request's own tables."""
    assert before in MIX
    with pytest.raises(BadDefinition) as refusal:
        define(tmp_path, MIX.replace(before, after, 1))
    assert refusal.value.field.startswith(field)
    assert refusal.value.line == line
    for word in words:
        assert word in str(refusal.value)


def test_a_contender_s_own_path_takes_the_place_of_what_does_not_vary() -> None:
    """In a path with a value that varies, the value stays at its end."""
    plain, varying = workload.load("tfb-json"), workload.load("tfb-queries")
    assert [exchange.path for exchange in Asking(plain, path="/api/greet?as=json").exchanges()] == [
        "/api/greet?as=json"
    ]
    assert {exchange.path for exchange in Asking(varying, path="/q/").exchanges()} == {
        exchange.path.replace("/queries?queries=", "/q/") for exchange in Asking(varying).exchanges()
    }


ECHO = """
name = "echo"
title = "sends each message back"

[request]
path = "/ws"
message = "{{ type }}"
body_bytes = "{{ size }}"

[answer]
compare = "echo"

[load]
count = 5
choices.type = ["text", "binary"]
numbers.size = [1, 9]

[probes]
choices.type = ["text", "binary"]
numbers.size = [0, 99]
"""


def test_messages_follow_the_head_of_the_upgrade_and_come_back_in_their_type(tmp_path: Path) -> None:
    """Text has letters and digits; no message says anything about its connection."""
    echo = define(tmp_path, ECHO)
    for keepalive in (True, False):
        exchanges = [*Asking(echo, seed=1).exchanges(keepalive=keepalive), *Asking(echo).probes(keepalive=keepalive)]
        assert {exchange.message for exchange in exchanges} == {"text", "binary"}
        for exchange in exchanges:
            assert exchange.request == exchange.head + exchange.sends
            assert (exchange.status, exchange.http, exchange.body) == (101, "websocket", exchange.sends)
            assert exchange.message == "binary" or re.fullmatch(rb"[A-Za-z0-9]*", exchange.sends)
            assert b"Content-Length" not in exchange.head
            assert b"Connection" not in exchange.head
    assert not Asking(echo).plain


@pytest.mark.parametrize(
    ("before", "after", "field", "words"),
    [
        ('"/ws"', '"/ws/{{ size }}"', "request.path", ["has a value that varies", "let only the message vary"]),
        ('"/ws"', '"/ws"\nmethod = "POST"', "request.method", ["has no effect on a message over WebSocket"]),
        ('"/ws"', '"/ws"\nframing = "chunked"', "request.framing", ["has no effect on a message over WebSocket"]),
        ('["text", "binary"]', '["text", "ping"]', "request.message", ["becomes 'ping'", "give text or binary"]),
        ('["text", "binary"]', '["text", ""]', "request.message", ["becomes ''", "give text or binary"]),
        ('compare = "echo"', 'compare = "status"', "answer.compare", ["given 'status' for a message"]),
        ('compare = "echo"', 'compare = "echo"\nbody = "x"', "answer.body", ["the request's body comes back"]),
        ('compare = "echo"', 'compare = "echo"\nstatus = 200', "answer.status", ["is of HTTP"]),
        ("count = 5", "pipelining = 5", "load.pipelining", ["does not suit WebSocket"]),
        ("count = 5", 'http = "2"', "load.http", ["does not suit WebSocket"]),
        ("count = 5", "requests_per_connection = 5", "load.requests_per_connection", ["does not suit WebSocket"]),
    ],
)
def test_what_messages_have_not_is_refused_by_name(
    tmp_path: Path, before: str, after: str, field: str, words: list[str]
) -> None:
    assert before in ECHO
    with pytest.raises(BadDefinition) as refusal:
        define(tmp_path, ECHO.replace(before, after, 1))
    assert refusal.value.field == field
    for word in words:
        assert word in str(refusal.value)


def test_all_requests_of_a_workload_are_messages_or_none_is(tmp_path: Path) -> None:
    kinds = '[[request]]\nname = "{name}"\npath = "{path}"\n{message}\n[request.answer]\ncompare = "echo"\n'
    text = 'name = "two"\ntitle = "two kinds"\n' + kinds.format(name="a", path="/ws", message='message = "text"')
    mixed = kinds.format(name="b", path="/ws", message="").replace('"echo"', '"status"')
    with pytest.raises(BadDefinition, match=r"request.1.message.*is missing, but another request has it"):
        define(tmp_path, text + mixed)
    with pytest.raises(BadDefinition, match=r"request.1.path.*differs from the first request's"):
        define(tmp_path, text + kinds.format(name="b", path="/other", message='message = "text"'))


def test_a_load_that_varies_without_probes_is_refused_by_the_table_that_is_there(tmp_path: Path) -> None:
    """Not by the name of a table that the file lacks."""
    with pytest.raises(BadDefinition, match=r"load\.numbers.*varies \['a'\].*add \[probes\] with the same names"):
        define(tmp_path, GOOD.partition("[probes]")[0])


def test_a_method_may_be_in_small_letters(tmp_path: Path) -> None:
    """What is sent has capitals."""
    made = define(tmp_path, GOOD.replace("[request]", '[request]\nmethod = "post"'))
    assert made.kinds[0].request.method == "POST"


@pytest.mark.parametrize("empty", ['status = 204\nbody = ""', 'body = ""'])
def test_a_response_without_a_body_needs_no_content_type(tmp_path: Path, empty: str) -> None:
    text = f'name = "gone"\ntitle = "none"\n[request]\npath = "/gone"\n[answer]\n{empty}\n'
    assert Asking(define(tmp_path, text), mark="m").exchanges()[0].content_type == ""


def test_a_file_that_does_not_exist_is_named_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match=r"--workload .*users\.toml: the file /.* does not exist"):
        workload.load(tmp_path / "users.toml")
