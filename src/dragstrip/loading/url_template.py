"""Addresses that vary: ``--url-template '/item/{int:1..1000}'``, drawn from a seed before anything is sent.

The addresses are drawn as a pool (``loading.request_pool``): nothing is formatted while the load runs. Without ``seq``
all addresses differ, so that each is requested equally often: the pool cycles through all addresses of the template in
random order, or through ``count`` of them.
"""

from __future__ import annotations

import itertools
import math
import random
import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragstrip.errors import BadUsage
from dragstrip.loading.request_pool import MAX_REQUESTS, PoolRequest

#: Addresses drawn by default: learning their responses takes two reference requests each.
DEFAULT_COUNT = 1000

#: Maximum characters of a text; a number has at most 18 digits.
MAX_TEXT = 1024

_PLACES = "{int:1..1000}, {choice:a,b}, {text:8} or {seq:1..1000}"
_LETTERS = string.ascii_lowercase + string.digits
_PIECE = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[^{}]+|[{}]")
_RANGE = re.compile(r"(\d{1,18})\.\.(\d{1,18})")
_PATH = re.compile(r"/[!-~]*")


@dataclass(frozen=True, slots=True)
class _Place:
    """A placeholder: its number of values, and each value by its index.

    Args:
        in_order: its values are taken in order, not drawn.
    """

    size: int
    value: Callable[[int], str]
    in_order: bool = False


def drawn(template: str, *, count: int | None = None, seed: int = 1) -> tuple[PoolRequest, ...]:
    """The requests of a template, as a pool to cycle through.

    Args:
        template: a path with its query; ``{{`` and ``}}`` are literal braces.
        count: their maximum number; None: ``DEFAULT_COUNT``.
        seed: the same seed draws the same addresses.

    Raises:
        BadUsage: the template is not valid; names the placeholder and valid ones.
    """
    count = DEFAULT_COUNT if count is None else count
    if not 1 <= count <= MAX_REQUESTS:
        raise BadUsage(f"--urls {count}: give 1 to {MAX_REQUESTS:,}")
    pieces = _parsed(template)
    places = [piece for piece in pieces if not isinstance(piece, str)]
    if not places:
        raise BadUsage(f"--url-template {template!r} has no placeholder; add {_PLACES}, or leave the option out")
    requests = []
    for indices in _indices(template, places, count, random.Random(seed)):
        words = (place.value(index) for place, index in zip(places, indices, strict=True))
        path = "".join(piece if isinstance(piece, str) else next(words) for piece in pieces)
        if not _PATH.fullmatch(path):
            raise BadUsage(
                f"--url-template {template!r}: {path!r} is not a valid path; start with / and percent-encode special "
                "characters (%20)"
            )
        requests.append(PoolRequest(path=path))
    return tuple(requests)


def _indices(template: str, places: Sequence[_Place], count: int, rng: random.Random) -> list[tuple[int, ...]]:
    """The index of each placeholder's value, in each request."""
    ordered = [place.size for place in places if place.in_order]
    if ordered:
        cycle = math.lcm(*ordered)
        if cycle > count:
            raise BadUsage(
                f"--url-template {template!r}: its sequence takes {cycle:,} addresses, and {count:,} are drawn; give "
                f"--urls {cycle} (up to {MAX_REQUESTS:,}), or a shorter one"
            )
        # Random values next to a sequence: as many rounds of it as ``count`` allows.
        total = cycle if all(place.in_order for place in places) else count - count % cycle
        return [
            tuple(number % place.size if place.in_order else rng.randrange(place.size) for place in places)
            for number in range(total)
        ]
    if math.prod(place.size for place in places) <= count:
        every = list(itertools.product(*(range(place.size) for place in places)))
        rng.shuffle(every)
        return every
    different: dict[tuple[int, ...], None] = {}
    while len(different) < count:
        different[tuple(rng.randrange(place.size) for place in places)] = None
    return list(different)


def _parsed(template: str) -> list[str | _Place]:
    pieces: list[str | _Place] = []
    for text in _PIECE.findall(template):
        if text in ("{{", "}}"):
            pieces.append(text[0])
        elif text in ("{", "}"):
            raise BadUsage(f"--url-template {template!r}: unmatched {text}; write {text * 2} for a literal {text}")
        else:
            pieces.append(_place(template, text) if text.startswith("{") else text)
    return pieces


def _place(template: str, text: str) -> _Place:
    def refused(why: str) -> BadUsage:
        return BadUsage(f"--url-template {template!r}: {text} {why}")

    kind, _, given = text[1:-1].partition(":")
    if kind in ("int", "seq"):
        match = _RANGE.fullmatch(given)
        if not match or int(match[1]) > int(match[2]):
            raise refused(f"has no valid range; use {{{kind}:1..1000}}, smaller number first")
        low, high = int(match[1]), int(match[2])
        return _Place(high - low + 1, lambda index: str(low + index), in_order=kind == "seq")
    if kind == "choice":
        words = given.split(",")
        if len(words) < 2 or len(set(words)) < len(words):
            raise refused("is not a valid choice; give at least two different texts: {choice:a,b}")
        return _Place(len(words), words.__getitem__)
    if kind == "text":
        if not re.fullmatch(r"\d{1,4}", given) or not 1 <= int(given) <= MAX_TEXT:
            raise refused(f"has no valid length; give 1 to {MAX_TEXT:,} characters: {{text:8}}")
        length = int(given)
        return _Place(len(_LETTERS) ** length, lambda index: _text(index, length))
    raise refused(f"is not a valid placeholder; use {_PLACES}")


def _text(index: int, length: int) -> str:
    """The text with this index, of all texts of ``length`` lower-case letters and digits."""
    letters = []
    for _ in range(length):
        index, letter = divmod(index, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return "".join(letters)
