"""Values that vary from request to request, and files that vary from launch to launch.

A seed draws them, so that the same seed draws the same ones, and no copy of another launch's file is correct.
"""

from __future__ import annotations

import math
import random
import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dragstrip.contender.template import render, spend
from dragstrip.workload.fields import DataFields, Varying

#: What a drawn text is made of: nothing that a query, JSON or HTML would have to escape.
LETTERS = string.ascii_letters + string.digits

#: Rows of the race's database, with the ids 1 to this.
TABLE_ROWS = 10_000

#: One draw: a value for each name.
Drawn = dict[str, int | str]


def distinct(
    rng: random.Random, varying: Varying, count: int, *, without: Collection[tuple[int | str, ...]] = ()
) -> list[Drawn]:
    """Up to ``count`` different draws; fewer where there are no more. One empty draw where nothing varies.

    Args:
        without: draws that are not to come again, as ``key`` has them; if no others are found, they may.
    """
    if not varying.names():
        return [{}]
    most = _different(varying)
    drawn: dict[tuple[int | str, ...], Drawn] = {}
    spare: dict[tuple[int | str, ...], Drawn] = {}
    for _ in range(50 * count):
        values = draw(rng, varying)
        if len(drawn) == count or len(drawn) + len(spare) == most:
            break
        (spare if key(values) in without else drawn).setdefault(key(values), values)
    return list(drawn.values()) or list(spare.values())[:count]


def _different(varying: Varying) -> int:
    """How many different draws there are."""
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
        TemplateRefused: the definition's draws are more than one definition may have.
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
    """What one launch finds.

    Args:
        files: their contents, by their paths within ``{data}``.
        rows: what the answers' templates know: drawn rows, by name.
        table: ``n`` of each row of the race's database as it is now, of id 1 first; answers' templates know it so.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    rows: Mapping[str, Sequence[Drawn]] = field(default_factory=dict)
    table: Sequence[int] = ()


def drawn(wanted: DataFields, seed: str, before: Data) -> Data:
    """One more file of a launch, and its rows; the same seed gives the same ones.

    Raises:
        TemplateRefused: its template is refused, or it has more than a definition may.
    """
    rng = random.Random(f"{seed} {wanted.file}")
    if wanted.bytes_:
        spend(1, wanted.bytes_)
        return replace(before, files={**before.files, wanted.file: rng.randbytes(wanted.bytes_)})
    mine: list[Drawn] = [{"id": number, **draw(rng, wanted)} for number in range(1, wanted.rows + 1)]
    content = render(wanted.content, {"rows": mine}).encode()
    rows = {**before.rows, wanted.name: mine} if wanted.name else before.rows
    return replace(before, files={**before.files, wanted.file: content}, rows=rows)
