"""The order of contenders: by paired ratios, and never against a separated pair. All reports use this one.

A contender's own mean is over its own rounds. Contenders that are decided stop early and machines drift, so the order
of such means can contradict the verdicts, which are paired.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

import numpy as np

from dragstrip.analysis.pairs import Pair
from dragstrip.metrics import PairVerdict


def ranking(names: Sequence[str], pairs: Iterable[Pair]) -> tuple[str, ...]:
    """Contenders best first: by the mean log ratios of all pairs, but each before those that it is separated from.

    Args:
        names: who is ranked, in line-up order.
    """
    known = [pair for pair in pairs if pair.a in names and pair.b in names]
    score = _scores(names, known)
    return consistent(sorted(names, key=lambda name: -score[name]), ahead(known))


class JudgedPairs(Protocol):
    """A pair with its verdict, of a."""

    @property
    def a(self) -> str:
        """The first."""

    @property
    def b(self) -> str:
        """The second."""

    @property
    def verdict(self) -> PairVerdict:
        """Of the first."""


def ahead(pairs: Iterable[JudgedPairs]) -> list[tuple[str, str]]:
    """Each separated pair, the better contender first."""
    apart = (pair for pair in pairs if pair.verdict.separated)
    return [(pair.a, pair.b) if pair.verdict is PairVerdict.FASTER else (pair.b, pair.a) for pair in apart]


def consistent(preferred: Sequence[str], before: Collection[tuple[str, str]]) -> tuple[str, ...]:
    """The preferred order, changed as little as needed for each first of ``before`` to precede its second.

    Verdicts that go round in a circle can't all be kept: its members stay together, in the preferred order.
    """
    followers = {name: {late for early, late in before if early == name} & set(preferred) for name in preferred}
    for via in preferred:  # the transitive closure
        for name in preferred:
            if via in followers[name]:
                followers[name] |= followers[via]
    left, order = list(preferred), list[str]()
    while left:
        # Nothing that is left precedes it, but for members of its own circle.
        first = next(
            name
            for name in left
            if all(other in followers[name] for other in left if name in followers[other] and other != name)
        )
        circle = [name for name in left if name == first or {first, name} <= followers[first] & followers[name]]
        order += circle
        left = [name for name in left if name not in circle]
    return tuple(order)


def over_columns(preferred: Sequence[str], columns: Iterable[Iterable[tuple[str, str]]]) -> tuple[str, ...]:
    """The preferred order, changed as little as needed: each pair is in the order of the first column with it.

    Args:
        columns: of each its separated pairs, the better contender first.
    """
    first: dict[frozenset[str], tuple[str, str]] = {}
    for column in columns:
        for pair in column:
            first.setdefault(frozenset(pair), pair)
    return consistent(preferred, first.values())


def _scores(names: Sequence[str], pairs: Sequence[Pair]) -> dict[str, float]:
    """Each contender's mean log speed relative to the others: least squares over the pairs' means and rounds.

    Every round's own level cancels in each pair, and with two contenders the ratio itself decides.
    """
    place = {name: at for at, name in enumerate(names)}
    normal, right = np.zeros((len(names), len(names))), np.zeros(len(names))
    for pair in pairs:
        if pair.rounds and 0 < pair.ratio < math.inf:
            a, b, log = place[pair.a], place[pair.b], math.log(pair.ratio)
            normal[[a, b], [a, b]] += pair.rounds
            normal[[a, b], [b, a]] -= pair.rounds
            right[[a, b]] += pair.rounds * log, -pair.rounds * log
    solved = np.linalg.lstsq(normal, right, rcond=None)[0]
    return {name: round(float(solved[at]), 12) for name, at in place.items()}
