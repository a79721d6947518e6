"""JSON texts compared by value: fields that change, their types, and the patterns that the engine compares with."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragstrip import json_by_value
from dragstrip.json_by_value import NUMBER, STRING, WORD

#: JSON as other programs write it.
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(), part, max_size=4),
    max_leaves=12,
)
ORDER = {"id": 7, "at": "2026-11-28T10:00:00", "lines": [{"n": 1, "ok": True}, {"n": 2.5, "ok": None}], "a/b~": "x"}


def text(value: object, **words: object) -> bytes:
    return json.dumps(value, **words).encode()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, []),
        ({"at": "2027"}, ["/at"]),
        ({"at": "2027", "id": 8}, ["/id", "/at"]),
        ({"lines": [{"n": 9, "ok": False}, {"n": 2.5, "ok": None}]}, ["/lines/0/n", "/lines/0/ok"]),
        ({"lines": []}, ["/lines"]),
        ({"lines": [{"n": 1, "ok": True}, {"n": "2", "ok": None}]}, ["/lines/1"]),
        ({"a/b~": "y"}, ["/a~1b~0"]),
        ({"id": "seven"}, [""]),
        ({"more": 1}, ["/more"]),
        ({"lines": [{"n": 1}, {"n": 2.5, "ok": None}]}, ["/lines/0/ok"]),
    ],
)
def test_fields_that_change_are_found_by_their_pointers(change: dict[str, object], found: list[str]) -> None:
    """A value of another type, or other members, make the object or array around it the field that changes."""
    assert list(json_by_value.changing([ORDER, ORDER | change])) == found


@pytest.mark.parametrize(
    ("change", "free", "reason"),
    [
        ({}, (), None),
        ({"id": 8}, ("/id",), None),
        ({"id": 8}, (), "the field /id is 8 (number); expected 7 (number)"),
        ({"id": "8"}, ("/id",), 'the field /id is "8" (string); expected 7 (number)'),
        ({"id": 7.0}, (), "the field /id is 7.0 (number); expected 7 (number)"),
        ({"more": 1}, (), "the field /more is 1 (number); expected no such field"),
        ({"more": 1}, ("/more",), None),
        (
            {"lines": [{"n": 1}, {"n": 2.5, "ok": None}]},
            (),
            "the field /lines/0/ok is missing; expected true (boolean)",
        ),
        ({"lines": []}, (), "the field /lines/0 is missing"),
        ({"lines": {}}, ("/lines",), "the field /lines is {} (object)"),
        ({"lines": []}, ("/lines",), None),
    ],
)
def test_a_difference_is_named_by_its_field(
    change: dict[str, object], free: tuple[str, ...], reason: str | None
) -> None:
    """Spacing and the order of keys are no difference."""
    given_text = text(dict(reversed(list((ORDER | change).items()))), indent=1)
    said = json_by_value.fault(text(ORDER), given_text, free)
    assert said == reason or (said is not None and reason is not None and said.startswith(reason))


def test_what_is_not_json_is_a_difference() -> None:
    """So are two values under one key, and a text that is nested too deep."""
    for body in (b"<html>", b"", b'{"id":1,"id":2}', b"\xff", b"[" * 100_000):
        assert "not JSON" in (json_by_value.fault(text(ORDER), body, ()) or ""), body[:20]


def test_a_pattern_stands_for_values_by_their_type() -> None:
    """Objects and arrays have no pattern."""
    free = ["/id", "/at", "/lines/0/ok", "/lines/1/ok", "/a~1b~0"]
    body = text(ORDER, separators=(", ", ":"))
    pattern = json_by_value.pattern(body, free)
    assert pattern == (
        b'{"id":' + NUMBER + b', "at":"' + STRING + b'", "lines":[{"n":1, "ok":' + WORD
        + b'}, {"n":2.5, "ok":null}], "a/b~":"' + STRING + b'"}'
    )  # fmt: skip
    assert json_by_value.fits(body, pattern)
    assert json_by_value.fits(body.replace(b":7", b":-7.5e3").replace(b'"x"', rb'"\"\\"'), pattern)
    for wrong in (
        body.replace(b":7", b':"7"'),
        body.replace(b'"n":1', b'"n":2'),
        body + b" ",
        body.replace(b"null", b"1"),
    ):
        assert not json_by_value.fits(wrong, pattern), wrong
    assert json_by_value.pattern(body, ["/lines"]) is None


@given(VALUES, VALUES)
def test_the_fields_that_change_make_both_right(first: object, second: object) -> None:
    """Whatever two responses are: with what was found between them, each is correct by the other; a pattern fits."""
    free = tuple(json_by_value.changing([first, second]))
    kinds = json_by_value.kind_of(first) == json_by_value.kind_of(second)
    if kinds or not free:
        assert json_by_value.fault(text(first), text(second), free) is None
    pattern = json_by_value.pattern(text(first), free)
    assert pattern is None or json_by_value.fits(text(first), pattern)


@given(VALUES)
def test_every_value_is_located_where_it_stands(value: object) -> None:
    """A pattern without free fields is the body itself, whatever its spacing."""
    for words in ({}, {"indent": 2}, {"separators": (",", ":"), "ensure_ascii": False}):
        try:
            body = json.dumps(value, **words).encode()  # type: ignore[arg-type]
        except UnicodeEncodeError:
            continue
        assert json_by_value.pattern(body, ()) == body
        found = {pointer: (start, end) for pointer, start, end in json_by_value._located(body.decode())}
        assert set(found) == set(json_by_value.pointers(json_by_value.parsed(body)))
        for start, end in found.values():
            json.loads(body.decode()[start:end])


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("1e400", "1e401", False),
        ("1e400", "1E+400", True),
        ("1e-400", "1e-401", False),
        ("1e9999999999999999999", "1e9999999999999999998", False),
        ("18446744073709551616", "18446744073709551617", False),
        ("1" * 5000, "1" * 5000, True),
        ("-0", "0", False),
        ("-0.0", "0.0", False),
        ("0.0", "0e7", True),
        ("24", "24.0", False),
        ("1e2", "100.0", True),
        ("0.1", "0.10000000000000001", True),  # the same double
    ],
)
def test_numbers_are_the_same_by_value_and_notation(first: str, second: str, same: bool) -> None:
    """What doubles would make equal is told apart, and shown as it came."""
    fault = json_by_value.fault(f'{{"a": {first}}}'.encode(), f'{{"a": {second}}}'.encode(), ())
    assert fault == (None if same else f"the field /a is {second} (number); expected {first} (number)")
    changed = list(json_by_value.changing([json_by_value.parsed(one.encode()) for one in (first, second)]))
    assert bool(changed) is not same


def test_json_that_is_nested_too_deep_is_not_compared_by_value() -> None:
    """Its comparison would exceed Python's recursion."""
    for depth in (99, 100, 101, 10_000):
        body = b"[" * depth + b"1" + b"]" * depth
        assert (json_by_value.settled([body, body]) is None) is (depth > 100)


def test_what_is_not_a_number_of_json_is_not_json() -> None:
    """Python reads and writes NaN, no other program does."""
    assert "is not JSON" in str(json_by_value.fault(b"[1]", b"[NaN]", ()))
