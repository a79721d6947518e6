"""What each word of a race may be: one table, for the command line's options and for calls from Python alike.

Whatever is stored was checked here first. A record with a text in place of a number would fail every later command.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dragstrip.errors import BadUsage
from dragstrip.metrics import AUTO, KNOWN, METRICS, TICKS_NS, TYPICAL

#: A race's metric as it may be asked for; memory is told beside others and decides nothing.
ASKED_METRICS = (AUTO, *(name for name in METRICS if KNOWN[name].may_decide))

#: The longest race: a week. The engine's histogram ends at a minute, so no later answer could be told.
LONGEST_S, LONGEST_TIMEOUT_S = 7 * 86_400.0, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole number from ``least`` to ``most``; ``or_none``: None stands for the usual."""

    least: int
    most: int
    or_none: bool = False

    def taken(self, value: Any) -> int | None:
        """The number as Python's own int (numpy's, too, are taken); TypeError or ValueError if it is none."""
        if value is None and self.or_none:
            return None
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
        if not self.least <= number <= self.most:
            raise ValueError
        return number

    def words(self) -> str:
        """What would do."""
        return f"a whole number from {self.least:,} to {self.most:,}{' or None' if self.or_none else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number above ``above`` and up to ``most`` (``least``: from it on)."""

    most: float
    above: float = 0.0
    least: float | None = None
    below: bool = False
    or_none: bool = False
    also: tuple[float, ...] = ()

    def taken(self, value: Any) -> float | None:
        """The number as a float; TypeError or ValueError if it is none."""
        if value is None and self.or_none:
            return None
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        number = float(value)
        if number in self.also:
            return number
        low = number > self.above if self.least is None else number >= self.least
        high = number < self.most if self.below else number <= self.most
        if not (math.isfinite(number) and low and high):
            raise ValueError
        return number

    def words(self) -> str:
        """What would do."""
        low = f"above {self.above:g}" if self.least is None else f"from {self.least:g}"
        high = f"below {self.most:g}" if self.below else f"up to {self.most:g}"
        return f"a number {low} and {high}{' or None' if self.or_none else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """One of several texts."""

    texts: tuple[str, ...]

    def taken(self, value: Any) -> str:
        """The text; ValueError if it is none of them."""
        if not isinstance(value, str) or value not in self.texts:
            raise ValueError
        return value

    def words(self) -> str:
        """What would do."""
        return " or ".join(self.texts)


@dataclass(frozen=True, slots=True)
class Text:
    """A text, or None."""

    example: str

    def taken(self, value: Any) -> str | None:
        """The text."""
        if value is not None and not isinstance(value, str):
            raise TypeError
        return value

    def words(self) -> str:
        """What would do."""
        return f"a text like {self.example!r}, or None,"


@dataclass(frozen=True, slots=True)
class YesNo:
    """True or False."""

    def taken(self, value: Any) -> bool:
        """The flag."""
        if value is not True and value is not False:
            raise TypeError
        return value

    def words(self) -> str:
        """What would do."""
        return "True or False"


CONNECTIONS = Whole(least=1, most=100_000)
THREADS = Whole(least=1, most=256, or_none=True)
#: As many as every server of ours takes at a time on a connection; some say no more than 100 (RFC 9113, 6.5.2).
STREAMS = Whole(least=1, most=100)
ROUNDS = Whole(least=2, most=10_000, or_none=True)
SEED = Whole(least=0, most=2**63 - 1, or_none=True)
BUDGET_S = Number(most=LONGEST_S)

#: By the field of ``racing.Request`` that it bounds.
BOUNDS: Mapping[str, Whole | Number | OneOf | Text | YesNo] = {
    "connections": replace(CONNECTIONS, or_none=True),
    "threads": THREADS,
    "keepalive": YesNo(),
    "http": OneOf(texts=("1.1", "1.0")),
    "streams": STREAMS,
    "pace": OneOf(texts=tuple(TICKS_NS)),
    "timeout_s": Number(most=LONGEST_TIMEOUT_S, least=0.001),
    "budget_s": replace(BUDGET_S, or_none=True),
    "margin": Number(most=1.0, below=True),
    "metric": OneOf(texts=(*ASKED_METRICS, *(f"{TYPICAL}{name}" for name in ASKED_METRICS))),
    "alpha": Number(most=0.5),
    "seed": SEED,
    "rounds": ROUNDS,
    "server_cores": Text("1 or 2-3"),
    "engine_cores": Text("0"),
    "io": OneOf(texts=("auto", "uring", "epoll")),
    "explicit": YesNo(),
    "fresh_scrutiny": YesNo(),
    "efficiency": YesNo(),
    "awake": OneOf(texts=("auto", "off")),
    "wait": OneOf(texts=("auto", "sleep", "poll")),
}


def taken(name: str, value: Any, bound: Whole | Number | OneOf | Text | YesNo | None = None) -> Any:
    """A value as it is to be kept.

    Raises:
        BadUsage: it is of another kind, or out of bounds; says which field, what was given and what would do.
    """
    bound = bound or BOUNDS[name]
    try:
        return bound.taken(value)
    except (TypeError, ValueError, OverflowError) as error:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}…"
        raise BadUsage(f"{name}={shown}: use {bound.words()}") from error
