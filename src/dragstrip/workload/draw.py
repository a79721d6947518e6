"""Draws values that vary from request to request, and files that vary from launch to launch.

The same seed draws the same values. A copy of another launch's file is never correct.
"""

from __future__ import annotations

import gzip
import math
import random
import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dragstrip.contender.template import render, spend
from dragstrip.workload.fields import Coding, DataFields, Varying
from dragstrip.workload.tables import Tables, Written

#: Characters of drawn texts: none that a query, JSON or HTML would have to escape.
LETTERS = string.ascii_letters + string.digits

#: The ends of the names of compressed files, as web servers expect them next to a file.
SUFFIXES: Mapping[Coding, str] = {"gzip": ".gz", "br": ".br"}

#: Brotli's effort, 0 to 11: the largest takes half a second for the files of one launch.
_QUALITY = 6

#: One draw: a value for each name.
Drawn = dict[str, int | str]


def distinct(
    rng: random.Random, varying: Varying, count: int, *, without: Collection[tuple[int | str, ...]] = ()
) -> list[Drawn]:
    """Up to ``count`` different draws; one empty draw if nothing varies.

    Args:
        without: the keys of draws to avoid; if nothing else can be drawn, these are used.
    """
    if not varying.names():
        return [{}]
    possible = _possible(varying)
    drawn: dict[tuple[int | str, ...], Drawn] = {}
    spare: dict[tuple[int | str, ...], Drawn] = {}
    for _ in range(50 * count):
        values = draw(rng, varying)
        if len(drawn) == count or len(drawn) + len(spare) == possible:
            break
        (spare if key(values) in without else drawn).setdefault(key(values), values)
    return list(drawn.values()) or list(spare.values())[:count]


def _possible(varying: Varying) -> int:
    """The number of different draws that are possible."""
    spans = [last - first + 1 for first, last in varying.numbers.values()]
    spans += [len(set(values)) for values in varying.choices.values()]
    spans += [
        sum(len(LETTERS) ** length for length in range(first, min(last, first + 9) + 1))
        for first, last in varying.texts.values()
    ]
    return math.prod(spans)


def key(drawn: Drawn) -> tuple[int | str, ...]:
    """A draw's values in the order of their names."""
    return tuple(drawn[name] for name in sorted(drawn))


def draw(rng: random.Random, varying: Varying) -> Drawn:
    """One draw.

    Raises:
        TemplateRefused: the budget of the definition is used up.
    """
    spend(8 + 4 * (len(varying.numbers) + len(varying.choices)), 64)
    values: Drawn = {name: rng.randint(*varying.numbers[name]) for name in sorted(varying.numbers)}
    values |= {name: rng.choice(varying.choices[name]) for name in sorted(varying.choices)}
    for name in sorted(varying.texts):
        length = rng.randint(*varying.texts[name])
        spend(8 + length // 4, 64 + 9 * length)  # the letters' list before the text
        values[name] = "".join(rng.choices(LETTERS, k=length))
    return values


@dataclass(frozen=True, slots=True)
class Data:
    """The data of one launch.

    Args:
        files: contents of files, by their paths in ``{data}``.
        rows: drawn rows by their name in templates of responses.
        tables: the current rows of the race's database; their numbers are ``table`` in templates.
        written: what the contender has written into its own items, by id; grows with its responses.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    rows: Mapping[str, Sequence[Drawn]] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)
    written: dict[int, Written] = field(default_factory=dict)


def drawn(fields: DataFields, seed: str, before: Data) -> Data:
    """``before`` with one more file and its rows; the same seed gives the same content.

    Raises:
        TemplateRefused: its template is refused, or the budget of the definition is used up.
    """
    rng = random.Random(f"{seed} {fields.file}")
    if fields.bytes_:
        spend(1, fields.bytes_)
        return replace(before, files={**before.files, **_files(fields, rng.randbytes(fields.bytes_))})
    new_rows: list[Drawn] = [{"id": number, **draw(rng, fields)} for number in range(1, fields.rows + 1)]
    content = render(fields.content, {"rows": new_rows}).encode()
    rows = {**before.rows, fields.name: new_rows} if fields.name else before.rows
    return replace(before, files={**before.files, **_files(fields, content)}, rows=rows)


def _files(fields: DataFields, content: bytes) -> dict[str, bytes]:
    """A file with its compressed copies, by path."""
    copies = {f"{fields.file}{SUFFIXES[coding]}": _compressed(content, coding) for coding in fields.encodings}
    return {fields.file: content, **copies}


def _compressed(content: bytes, coding: Coding) -> bytes:
    spend(1 + len(content) // 256, len(content))
    if coding == "gzip":
        return gzip.compress(content, mtime=0)
    import brotli

    compressed: bytes = brotli.compress(content, quality=_QUALITY)
    return compressed
