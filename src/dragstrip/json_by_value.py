"""Compares JSON texts by value: fields that change by themselves by their type, all others by value.

Fields are named by JSON Pointers (RFC 6901). ``pattern`` makes of a correct body what the engine compares under load.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from math import isinf
from typing import NoReturn

#: In a pattern, the bytes that stand for what varies, as the engine reads them (``exchange.rs``): decimal digits, a
#: number of JSON, what is between the quotation marks of a string of JSON, and a word like ``true``.
DIGITS, NUMBER, STRING, WORD = b"\xfc", b"\xfd", b"\xfe", b"\xff"

#: A value with its pointer, and where its text begins and ends.
Located = tuple[str, int, int]

#: What JSON has between values (RFC 8259, 2), and every value that is not an object or an array.
_BLANK = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null')

#: What the bytes of a pattern stand for, as regular expressions.
_VARYING = {
    DIGITS: rb"[0-9]+",
    NUMBER: rb"[0-9.eE+-]+",
    STRING: rb'(?:[^"\\\x00-\x1f]|\\[^\x00-\x1f])*',
    WORD: rb"[a-z]+",
}

#: Objects and arrays in each other. Other readers have such limits, too.
MAX_DEPTH = 100

#: Characters of a value that a message shows.
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a JSON text, as it is written: doubles make 1e400 and 1e401 the same, and 2**64 and 2**64 + 1."""

    text: str

    def same(self, other: Number) -> bool:
        """Whether both have the same value and notation: 24.0 is not 24, as for a program that needs 24.

        Decimal fractions are the same if their doubles are, because programs write a double with more or fewer digits.
        """
        if self.text == other.text or self._whole or other._whole:
            return self.text == other.text
        double = float(self.text)
        if double == float(other.text) and double and not isinf(double):
            return True
        try:
            first, second = Decimal(self.text), Decimal(other.text)
        except InvalidOperation:  # an exponent beyond all bounds
            return False
        return first == second and first.is_signed() == second.is_signed()

    @property
    def _whole(self) -> bool:
        return not set(self.text) & set(".eE")


def parsed(body: bytes) -> object:
    """The value of a JSON text, with a ``Number`` for each number.

    Raises:
        ValueError: it is not JSON in UTF-8, nested too deep, or an object has a key twice.
    """
    try:
        value: object = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=once,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_refuse_constant,
        )
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    level, depth = [value], 0
    while level := [child for one in level for _, child in children(one)]:
        if (depth := depth + 1) > MAX_DEPTH:  # what compares values recurses
            raise ValueError("it is nested too deep")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object's members; each key may occur once, since programs differ in which of two values they take."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key occurs twice")
    return members


def below(pointer: str, key: object) -> str:
    """The pointer of a member or an element."""
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


def children(value: object, pointer: str = "") -> Iterator[tuple[str, object]]:
    """Members or elements of a value, each with its pointer; none of a plain value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        yield below(pointer, key), child


def leaves(value: object, pointer: str = "") -> Iterator[str]:
    """Pointers of all plain values, and of empty objects and arrays."""
    if not isinstance(value, dict | list) or not value:
        yield pointer
    for at, child in children(value, pointer):
        yield from leaves(child, at)


def pointers(value: object, pointer: str = "") -> Iterator[str]:
    """Pointers of all values, the whole one's first."""
    yield pointer
    for at, child in children(value, pointer):
        yield from pointers(child, at)


def is_within(pointer: str, pointers: Collection[str]) -> bool:
    """Whether a field is one of these, or below one of them."""
    return any(pointer == one or pointer.startswith(f"{one}/") for one in pointers)


def kind_of(value: object) -> str:
    """The name of a value's type in JSON."""
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", Number: "number", int: "number", float: "number"}
    return names.get(type(value), "null")


def changing(samples: Sequence[object], pointer: str = "") -> Iterator[str]:
    """Pointers of the fields in which values differ, or which only some values have; of an array of another length, its
    own.

    A field whose type differs makes the object or the array around it one that changes.
    """
    first = samples[0]
    if all(same(first, other) for other in samples[1:]):
        return
    if isinstance(first, dict | list):
        parts = [dict(children(sample, pointer)) for sample in samples]
        alike = all(kind_of(sample) == kind_of(first) for sample in samples)
        names = dict.fromkeys(at for part in parts for at in part)
        if alike and (isinstance(first, dict) or all(part.keys() == parts[0].keys() for part in parts)):
            sets = {at: [part[at] for part in parts if at in part] for at in names}
            if all(len({kind_of(value) for value in values}) == 1 for values in sets.values()):
                for at, values in sets.items():
                    yield from changing(values, at) if len(values) == len(samples) else [at]
                return
    yield pointer


def same(first: object, second: object) -> bool:
    """Whether two values are equal, whatever the order of members; numbers as ``Number.same`` says."""
    if isinstance(first, Number) and isinstance(second, Number):
        return first.same(second)
    if kind_of(first) != kind_of(second):
        return False
    if not isinstance(first, dict | list):
        return type(first) is type(second) and first == second
    ours, theirs = dict(children(first)), dict(children(second))
    return ours.keys() == theirs.keys() and all(same(part, theirs[at]) for at, part in ours.items())


def fault(right: bytes, given: bytes, free: Collection[str]) -> str | None:
    """How a body's value differs from the correct one's, in words; None if it does not.

    Args:
        free: pointers of the fields that are compared by their type alone, and may be missing.
    """
    try:
        value = parsed(given)
    except ValueError as error:
        return f"sent a body that is not JSON ({str(error)[:_SHOWN]}): {shown(given.decode('utf-8', 'replace'))}"
    return _difference(parsed(right), value, free, "")


def _difference(right: object, given: object, free: Collection[str], pointer: str) -> str | None:
    at = f"the field {pointer}" if pointer else "its JSON"
    if kind_of(right) != kind_of(given):
        return f"{at} is {_worded(given)}; expected {_worded(right)}"
    if pointer in free:
        return None
    if not isinstance(right, dict | list):
        return None if same(right, given) else f"{at} is {_worded(given)}; expected {_worded(right)}"
    due, got = dict(children(right, pointer)), dict(children(given, pointer))
    if lacking := next((one for one in due if one not in got and one not in free), None):
        return f"the field {lacking} is missing; expected {_worded(due[lacking])}"
    if more := next((one for one in got if one not in due and one not in free), None):
        return f"the field {more} is {_worded(got[more])}; expected no such field"
    found = (_difference(due[one], got[one], free, one) for one in due if one in got)
    return next((difference for difference in found if difference), None)


def _worded(value: object) -> str:
    return f"{shown(_written(value))} ({kind_of(value)})"


def _written(value: object) -> str:
    """A value as JSON, its numbers as they were."""
    if isinstance(value, dict):
        members = (f"{_written(key)}: {_written(member)}" for key, member in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return value.text if isinstance(value, Number) else json.dumps(value, ensure_ascii=False)


def shown(text: str) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def pattern(body: bytes, free: Collection[str]) -> bytes | None:
    """A body in which bytes stand for the values of these fields; None if one of them is an object or an array.

    Raises:
        ValueError: the body is not JSON.
    """
    parsed(body)  # what follows relies on a valid text
    text, pieces, done = body.decode("utf-8"), list[bytes](), 0
    for pointer, start, end in sorted(_located(text), key=lambda part: part[1]):
        if pointer not in free:
            continue
        stands = _stands_for(text[start])
        if stands is None:
            return None
        pieces += [text[done:start].encode(), stands]
        done = start if not stands else end
    return b"".join([*pieces, text[done:].encode()])


def settled(bodies: Sequence[bytes]) -> tuple[tuple[str, ...], bytes] | None:
    """Of responses to the same request: the fields that change, and the pattern that all of them fit.

    None if they are not JSON, or change in more than values of fields.
    """
    try:
        values = [parsed(body) for body in bodies]
        free = tuple(changing(values))
        patterns = {pattern(body, free) for body in bodies}
    except ValueError:
        return None
    (first, *others) = patterns
    return (free, first) if first is not None and not others else None


def fits(body: bytes, pattern: bytes) -> bool:
    """Whether a body fits a pattern, as the engine decides it (``exchange.rs``)."""
    return _expression(pattern).fullmatch(body) is not None


@lru_cache(maxsize=256)
def _expression(pattern: bytes) -> re.Pattern[bytes]:
    parts = re.split(b"([" + DIGITS + b"-" + WORD + b"])", pattern)
    return re.compile(b"".join(_VARYING.get(part, re.escape(part)) for part in parts))


def _stands_for(begins: str) -> bytes | None:
    """What stands for a value that begins like this; b"" for null, which has one text."""
    if begins in "{[":
        return None
    if begins == '"':
        return b'"' + STRING + b'"'
    return {"t": WORD, "f": WORD, "n": b""}.get(begins, NUMBER)


def _located(text: str) -> Iterator[Located]:
    """Every value of a valid JSON text."""
    located: list[Located] = []
    _locate(text, _skip(text, 0), "", located.append)
    yield from located


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _locate(text: str, start: int, pointer: str, found: Callable[[Located], None]) -> int:
    """Reports the value that begins here and all values in it; returns where it ends."""
    end = _locate_members(text, start, pointer, found) if text[start] in "{[" else _end(text, start)
    found((pointer, start, end))
    return end


def _end(text: str, start: int) -> int:
    plain = _PLAIN.match(text, start)
    return plain.end() if plain else start


def _locate_members(text: str, start: int, pointer: str, found: Callable[[Located], None]) -> int:
    at, number = _skip(text, start + 1), 0
    while text[at] not in "}]":
        key: object = number
        if text[start] == "{":
            key = json.loads(text[at : (ends := _end(text, at))])
            at = _skip(text, _skip(text, ends) + 1)  # after the colon
        at = _skip(text, _locate(text, at, below(pointer, key), found))
        number += 1
        if text[at] == ",":
            at = _skip(text, at + 1)
    return at + 1
