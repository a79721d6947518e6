"""Values that vary from request to request: drawn from a seed, so that the same seed draws the same ones."""

from __future__ import annotations

import math
import random
import string
from collections.abc import Collection, Iterator

from dragstrip.contender.budget import spend
from dragstrip.workload.fields import Varying

#: What a drawn text is made of: nothing that a query, JSON or HTML would have to escape.
LETTERS = string.ascii_letters + string.digits

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
    for one in _draws(rng, varying, tries=50 * count):
        if len(drawn) == count or len(drawn) + len(spare) == most:
            break
        (spare if key(one) in without else drawn).setdefault(key(one), one)
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


def one(rng: random.Random, varying: Varying) -> Drawn:
    """One draw.

    Raises:
        TemplateRefused: the definition's draws are more than one definition may have.
    """
    spend(8 + 4 * (len(varying.numbers) + len(varying.choices)), 64)
    found: Drawn = {name: rng.randint(*varying.numbers[name]) for name in sorted(varying.numbers)}
    found |= {name: rng.choice(varying.choices[name]) for name in sorted(varying.choices)}
    for name in sorted(varying.texts):
        length = rng.randint(*varying.texts[name])
        spend(8 + length // 4, 64 + 9 * length)  # the letters' list before the text
        found[name] = "".join(rng.choices(LETTERS, k=length))
    return found


def _draws(rng: random.Random, varying: Varying, tries: int) -> Iterator[Drawn]:
    for _ in range(tries):
        yield one(rng, varying)
