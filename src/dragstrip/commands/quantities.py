"""Types of options that are numbers: counts, rates, durations and shares, read by ``dragstrip.quantities``."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Literal, TypeVar

import click

from dragstrip import quantities
from dragstrip.racing.options import MAX_BUDGET_S, IntRange
from dragstrip.record import MAX_RATE_PER_S

Value = TypeVar("Value")

#: More responses than any machine sends in a year; the engine counts with 64 bits.
MAX_COUNT = 10**15

#: No command runs for longer than a year.
_MAX_S = 366 * 86_400.0


class TextType(click.ParamType[Value]):
    """A text that a function turns into a value.

    Args:
        name: what it is, for the help.
        read: raises a ValueError, whose text is the refusal.
    """

    def __init__(self, name: str, read: Callable[[str], Value]) -> None:
        self.name, self._read = name, read

    def convert(self, value: str | Value, param: click.Parameter | None, ctx: click.Context | None) -> Value:
        """The parsed value; a default that is not a string is returned as it is."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Count(click.IntRange):
    """A whole number within bounds: ``20000``, ``20k``, ``1M`` or ``1e3``.

    Args:
        auto: the word ``auto`` is 0.
    """

    name = "number"

    def __init__(self, least: int = 1, most: int = MAX_COUNT, *, auto: bool = False) -> None:
        super().__init__(least, most)
        self.least, self.most, self.auto = least, most, auto

    def _describe_range(self) -> str:
        """For the help."""
        return "" if self.most == MAX_COUNT else f"{self.least} to {self.most:,}"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        if isinstance(value, int):
            return value
        text = str(value)
        if self.auto and text == "auto":
            return 0
        count = quantities.whole(text)
        if count is None or not self.least <= count <= self.most:
            remedy = "use 20000 or 20k" if self.most >= 20_000 else f"use {max(self.least, 2)}"
            remedy += " or auto" if self.auto else ""
            self.fail(f"{value!r} is not a valid number from {self.least} to {self.most:,}; {remedy}", param, ctx)
        return count


def whole_number(bound: IntRange) -> Count:
    """A number of a race's plan, within the same bounds as in a call from Python."""
    return Count(bound.min, bound.max)


def duration_s(text: str, least_s: float = 0.0, most_s: float = _MAX_S) -> float:
    """``60s``, ``1m30s``, ``5ms``, ``500us`` or plain seconds, as wrk and hey users write them, above zero."""
    seconds = quantities.seconds(text)
    if seconds is None or seconds <= 0:
        raise ValueError(f"{text!r} is not a duration above zero; use 10s, 1m30s, 5ms or 500us")
    if seconds > _MAX_S:
        raise ValueError(f"{text!r} is longer than a year; use 10s, 1m30s, 5ms or 500us")
    if not least_s <= seconds <= most_s:
        raise ValueError(f"{text!r} is out of bounds; use {least_s:g}s to {most_s:g}s")
    return seconds


class ExtraSeconds(float):
    """Seconds that a race gets on top of what it had."""


def _budget_s(text: str) -> float:
    """A duration; ``+2m`` is ``ExtraSeconds`` for a race that is resumed."""
    seconds = duration_s(text.removeprefix("+"))
    if seconds > MAX_BUDGET_S:
        raise ValueError(f"{text!r} is longer than a week; use 60s, 2m or 1h")
    return ExtraSeconds(seconds) if text.startswith("+") else seconds


def rate_per_s(text: str) -> float:
    """``20000``, ``20k``, ``0.5``, ``1e5`` or ``1M`` per second; 0 is left to the caller to refuse."""
    rate = quantities.number(text.removesuffix("/s"))
    if rate is None:
        raise ValueError(f"{text!r} is not a valid rate; use 20000, 20k or 0.5 (requests per second)")
    return float(rate)


def _rate_or_auto(text: str) -> float | Literal["auto"]:
    """A rate above 0, or "auto": half of what the slowest contender can serve."""
    if text == "auto":
        return "auto"
    rate = rate_per_s(text)
    if not 0 < rate <= MAX_RATE_PER_S:
        raise ValueError(f"rate {text!r} is out of range; use more than 0 and at most {MAX_RATE_PER_S:,.0f} per second")
    return rate


def share_of(text: str) -> float | None:
    """``1%`` or ``0.01`` as 0.01; None if it is not such a number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%)?", text)
    return float(match[1]) / (100 if match[2] else 1) if match else None


def _share(text: str, *, zero: bool) -> float:
    """A share below 100 %, above 0; with ``zero`` also 0."""
    share = share_of(text)
    if share is None or share >= 1 or (share == 0 and not zero):
        bounds = "from 0 to below 100 %; use 0.1% or 0" if zero else "between 0 and 100 %; use 1% or 0.01"
        raise ValueError(f"{text!r} is not a share {bounds}")
    return share


def _threshold(text: str) -> tuple[str, str, float]:
    """``slower:3%`` or ``faster:5%``, as its text, its direction and its share."""
    match = re.fullmatch(r"(slower|faster):(.+)", text)
    share = share_of(match[2]) if match else None
    if match is None or share is None or share >= 1:
        raise ValueError(f"{text!r} is not a valid threshold; use slower:3% or faster:0.05")
    return text, match[1], share


DURATION = TextType("duration", duration_s)
BUDGET = TextType("duration", _budget_s)
RATE = TextType("rate", rate_per_s)
RATE_OR_AUTO = TextType("rate", _rate_or_auto)
SHARE = TextType("share", partial(_share, zero=False))
SHARE_OR_ZERO = TextType("share", partial(_share, zero=True))
THRESHOLD = TextType("rule", _threshold)
