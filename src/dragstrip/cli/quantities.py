"""Types of options that are a number: counts, rates, durations and shares, read by ``dragstrip.quantities``."""

from __future__ import annotations

import re

import click

from dragstrip import quantities
from dragstrip.racing.options import MAX_BUDGET_S, IntRange

#: More than any machine answers in a year; the engine counts with 64 bits.
MOST_COUNTED = 10**15

#: No command runs for longer than a year.
_LONGEST_S = 366 * 86_400.0


class Count(click.IntRange):
    """A whole number within bounds: ``20000``, ``20k``, ``1M`` or ``1e3``.

    Args:
        auto: the word ``auto`` is 0.
    """

    name = "number"

    def __init__(self, least: int | None = 1, most: int | None = MOST_COUNTED, *, auto: bool = False) -> None:
        super().__init__(least, most)
        self.auto = auto

    def _describe_range(self) -> str:
        """For the help."""
        return "" if self.max == MOST_COUNTED else f"{self.min or 0} to {self.max or MOST_COUNTED:,}"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        if isinstance(value, int):
            return value
        text = str(value)
        if self.auto and text == "auto":
            return 0
        count = quantities.whole(text)
        if count is None or not (self.min or 0) <= count <= (self.max or MOST_COUNTED):
            span = f"from {self.min or 0} to {self.max or MOST_COUNTED:,}"
            remedy = "use 20000 or 20k" if (self.max or MOST_COUNTED) >= 20_000 else f"use {max(self.min or 0, 2)}"
            self.fail(f"{value!r} is not a valid number {span}; {remedy}{' or auto' if self.auto else ''}", param, ctx)
        return count


def whole_number(bound: IntRange) -> Count:
    """A number of a race's plan, within the same bounds as in a call from Python."""
    return Count(bound.min, bound.max)


class Duration(click.ParamType[float]):
    """``60s``, ``1m30s``, ``5ms``, ``500us`` or plain seconds, as wrk and hey users write them, above zero; as seconds.

    Args:
        least_s, most_s: bounds besides, None for those of every command.
    """

    name = "duration"

    def __init__(self, least_s: float | None = None, most_s: float | None = None) -> None:
        self.least_s, self.most_s = least_s, most_s

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds, above zero."""
        if isinstance(value, float):
            return value
        seconds = quantities.seconds(str(value))
        if seconds is None or seconds <= 0:
            self.fail(f"{value!r} is not a duration above zero; use 10s, 1m30s, 5ms or 500us", param, ctx)
        if seconds > _LONGEST_S:
            self.fail(f"{value!r} is longer than a year; use 10s, 1m30s, 5ms or 500us", param, ctx)
        if (self.least_s and seconds < self.least_s) or (self.most_s and seconds > self.most_s):
            self.fail(f"{value!r} is out of bounds; use {self.least_s:g}s to {self.most_s:g}s", param, ctx)
        return seconds


class ExtraSeconds(float):
    """Seconds that a race gets on top of what it had."""


class Budget(Duration):
    """A duration, or ``+2m``, so much more for a race that is resumed."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; ``ExtraSeconds`` where they are to be added."""
        text = str(value)
        is_extra = text.startswith("+")
        seconds = super().convert(text[1:] if is_extra else value, param, ctx)
        if seconds > MAX_BUDGET_S:
            self.fail(f"{text!r} is longer than a week; use 60s, 2m or 1h", param, ctx)
        return ExtraSeconds(seconds) if is_extra else seconds


class Rate(click.ParamType[float]):
    """``20000``, ``20k``, ``0.5``, ``1e5`` or ``1M`` per second."""

    name = "rate"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Requests per second; 0 is left to its user to refuse."""
        if isinstance(value, float):
            return value
        rate = quantities.number(str(value).removesuffix("/s"))
        if rate is None:
            self.fail(f"{value!r} is not a valid rate; use 20000, 20k or 0.5 (requests per second)", param, ctx)
        return float(rate)


class Share(click.ParamType[float]):
    """``1%`` or ``0.01``, below 100 %.

    Args:
        least: 0 takes 0 too (none may fail); None wants it above 0.
    """

    name = "share"

    def __init__(self, least: float | None = None) -> None:
        self.least = least

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """A share as a float."""
        if isinstance(value, float):
            return value
        share = share_of(str(value))
        if share is None or share >= 1 or (share <= 0 if self.least is None else share < self.least):
            bounds = (
                "between 0 and 100 %; use 1% or 0.01" if self.least is None else "from 0 to below 100 %; use 0.1% or 0"
            )
            self.fail(f"{value!r} is not a share {bounds}", param, ctx)
        return share


def share_of(text: str) -> float | None:
    """``1%`` or ``0.01`` as 0.01; None if it is not such a number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%)?", text)
    return float(match[1]) / (100 if match[2] else 1) if match else None
