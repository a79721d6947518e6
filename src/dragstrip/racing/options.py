"""What each option of a race may be: one table, for the command line's options and for calls from Python alike.

Whatever is stored was checked here first. A record with a text in place of a number would fail every later command.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from dragstrip.errors import BadUsage
from dragstrip.metrics import AUTO, KNOWN, METRICS, TICKS_NS, MetricChoice
from dragstrip.record import MAX_RATE_PER_S, MAX_TIMEOUT_S

#: Metrics that a race may be judged by; memory is shown in addition and decides nothing.
ASKED_METRICS = (AUTO, *(name for name in METRICS if KNOWN[name].may_decide))

#: The longest race: a week.
MAX_BUDGET_S = 7 * 86_400.0

#: Requests per second of an open loop; "auto": half of what the slowest contender serves; None: a closed loop.
OfferedRate: TypeAlias = float | Literal["auto"] | None


@dataclass(frozen=True, slots=True)
class IntRange:
    """A whole number from ``min`` to ``max``; numpy's integers are also valid."""

    min: int
    max: int

    def validate(self, value: Any) -> int:
        """The number as Python's own int; TypeError or ValueError if it is not valid."""
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
        if not self.min <= number <= self.max:
            raise ValueError
        return number

    def expected(self) -> str:
        """What would be valid."""
        return f"a whole number from {self.min:,} to {self.max:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatRange:
    """A number above 0, or from ``min`` on, up to ``max``, or below it if ``open_end``; or the word ``auto``."""

    max: float
    min: float | None = None
    open_end: bool = False
    auto: bool = False

    def validate(self, value: Any) -> float | Literal["auto"]:
        """The number as a float; TypeError, ValueError or OverflowError if it is not valid."""
        if self.auto and value == AUTO:
            return "auto"
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        number = float(value)
        low = number > 0 if self.min is None else number >= self.min
        high = number < self.max if self.open_end else number <= self.max
        if not (low and high and math.isfinite(number)):
            raise ValueError
        return number

    def expected(self) -> str:
        low = "above 0" if self.min is None else f"from {self.min:g}"
        auto = f" or {AUTO!r}" if self.auto else ""
        return f"a number {low} and {'below' if self.open_end else 'up to'} {self.max:g}{auto}"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several values of one type."""

    values: tuple[object, ...]

    def validate(self, value: Any) -> Any:
        """The value; ValueError if it is not valid."""
        if not isinstance(value, type(self.values[0])) or value not in self.values:
            raise ValueError
        return value

    def expected(self) -> str:
        return " or ".join(map(str, self.values))


@dataclass(frozen=True, slots=True)
class Text:
    """Any text."""

    example: str

    def validate(self, value: Any) -> str:
        """The text; TypeError if it is none."""
        if not isinstance(value, str):
            raise TypeError
        return value

    def expected(self) -> str:
        return f"a text like {self.example!r}"


CONNECTIONS = IntRange(1, 100_000)
THREADS = IntRange(1, 256)
#: As many as every server that Dragstrip ships accepts on a connection; some accept only 100 (RFC 9113, 6.5.2).
STREAMS = IntRange(1, 100)
ROUNDS = IntRange(2, 10_000)
LAST_ROUND = IntRange(10, 10_000)
PAUSE_AFTER = IntRange(1, 10_000)
SEED = IntRange(0, 2**63 - 1)
_FLAG = Choice((True, False))

#: By the field of ``racing.Request`` that it bounds.
BOUNDS: Mapping[str, IntRange | FloatRange | Choice | Text] = {
    "connections": CONNECTIONS,
    "threads": THREADS,
    "keepalive": _FLAG,
    "http": Choice(("1.1", "1.0")),
    "streams": STREAMS,
    "rate_per_s": FloatRange(max=MAX_RATE_PER_S, auto=True),
    "pace": Choice(tuple(TICKS_NS)),
    "timeout_s": FloatRange(max=MAX_TIMEOUT_S, min=0.001),
    "budget_s": FloatRange(max=MAX_BUDGET_S),
    "margin": FloatRange(max=1.0, open_end=True),
    "metric": Choice(tuple(str(MetricChoice(name, typical)) for typical in (False, True) for name in ASKED_METRICS)),
    "alpha": FloatRange(max=0.5),
    "seed": SEED,
    "rounds": ROUNDS,
    "last_round": LAST_ROUND,
    "pause_after": PAUSE_AFTER,
    "exclusive": _FLAG,
    "server_cores": Text("1 or 2-3"),
    "engine_cores": Text("0"),
    "io": Choice(("auto", "uring", "epoll")),
    "explicit": _FLAG,
    "fresh_scrutiny": _FLAG,
    "efficiency": _FLAG,
    "awake": Choice(("auto", "off")),
    "wait": Choice(("auto", "sleep", "poll")),
}

#: Fields that may be None, which means the default.
OPTIONAL = frozenset(
    {
        *("connections", "threads", "rate_per_s", "budget_s", "seed", "rounds", "last_round", "pause_after"),
        *("server_cores", "engine_cores"),
    }
)


def validated(name: str, value: Any) -> Any:
    """A value as it is to be kept.

    Raises:
        BadUsage: wrong type, or out of bounds; names the field, the value and what would be valid.
    """
    if value is None and name in OPTIONAL:
        return None
    try:
        return BOUNDS[name].validate(value)
    except (TypeError, ValueError, OverflowError) as error:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}…"
        expected = f"{BOUNDS[name].expected()}{' or None' if name in OPTIONAL else ''}"
        raise BadUsage(f"{name}={shown}: use {expected}") from error
