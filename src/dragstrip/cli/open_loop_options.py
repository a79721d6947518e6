"""The words of an open loop: rates, ramps, steps."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from dragstrip.cli.options import Duration
from dragstrip.errors import BadUsage
from dragstrip.loading.arrivals import ARRIVALS, MOST_PER_S, PRECISIONS, Offer, Step
from dragstrip.racing.schedule import AUTO_RATE


class Rate(click.ParamType[float]):
    """``20000``, ``20k``, ``0.5`` or ``1M`` a second."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Requests a second; 0 is left to its user to refuse."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmM])?(/s)?", str(value))
        if not match:
            self.fail(f"{value!r} is no rate; use 20000, 20k or 0.5 (requests a second)", param, ctx)
        return float(match[1]) * {None: 1, "k": 1000, "m": 1_000_000}[match[2] and match[2].lower()]


class AnyRate(Rate):
    """The same, or ``auto``: half of what the slowest contender can serve."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Requests a second, above 0, or ``schedule.AUTO_RATE``."""
        if value == "auto":
            return AUTO_RATE
        rate_per_s = super().convert(value, param, ctx)
        if not 0 < rate_per_s <= MOST_PER_S:
            self.fail(f"{value!r} can't be offered; more than 0, up to {MOST_PER_S:,.0f} a second", param, ctx)
        return rate_per_s


class Ramp(click.ParamType[tuple[float, float]]):
    """``1k:20k``: rates at the begin and at the end."""

    name = "ramp"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        """Both rates."""
        if isinstance(value, tuple):
            return value
        first, colon, last = str(value).partition(":")
        if not colon:
            self.fail(f"{value!r} is no ramp; use 1k:20k (from 1,000 to 20,000 a second)", param, ctx)
        return Rate().convert(first, param, ctx), Rate().convert(last, param, ctx)


class Steps(click.ParamType[tuple[Step, ...]]):
    """``1k:10s,2k:10s``: a rate and how long it lasts, one after the other."""

    name = "steps"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Step, ...]:
        """The steps."""
        if isinstance(value, tuple):
            return value
        return tuple(self._step(word.strip(), param, ctx) for word in str(value).split(","))

    def _step(self, word: str, param: click.Parameter | None, ctx: click.Context | None) -> Step:
        rate, colon, length = word.partition(":")
        if not colon:
            self.fail(f"{word!r} is no step; use 1k:10s (1,000 a second for 10 s)", param, ctx)
        rate_per_s = Rate().convert(rate, param, ctx)
        return Step(from_per_s=rate_per_s, to_per_s=rate_per_s, length_s=Duration().convert(length, param, ctx))


def offer_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``-R``, ``--ramp``, ``--steps``, ``--pace``, ``--arrivals`` and ``--seed``, to be read by ``offer``."""
    for option in reversed(
        [
            click.option("--rate", "-R", type=Rate(), default=None, help="Open loop: so many a second, come what may."),
            click.option("--ramp", type=Ramp(), default=None, metavar="FROM:TO", help="Open loop: from rate to rate."),
            click.option("--steps", type=Steps(), default=None, metavar="R:TIME,…", help="Open loop: 1k:10s,2k:10s."),
            click.option(
                "--pace",
                type=click.Choice(PRECISIONS),
                default=None,
                help="Open loop: a wake-up per request (precise, the default), per 210 µs, per 1 ms.",
            ),
            click.option("--arrivals", type=click.Choice(ARRIVALS), default=None, help="Open loop: gaps; constant."),
            click.option("--seed", type=click.IntRange(0, 2**63), default=None, help="Of Poisson arrivals; 1."),
        ]
    ):
        command = option(command)
    return command


def offer(words: dict[str, Any]) -> Offer | None:
    """The open loop that was asked for; None for a closed one.

    Raises:
        BadUsage: what belongs to an open loop was given, and no rate.
    """
    if words["rate"] is None and words["ramp"] is None and words["steps"] is None:
        for name in ("pace", "arrivals", "seed"):
            if words[name] is not None:
                raise BadUsage(f"--{name} {words[name]} is of an open loop, and none was asked for; give -R RATE, too")
        return None
    return Offer(
        rate_per_s=words["rate"],
        ramp=words["ramp"],
        steps=words["steps"] or (),
        precision=words["pace"] or PRECISIONS[0],
        arrivals=words["arrivals"] or ARRIVALS[0],
        seed=1 if words["seed"] is None else words["seed"],
    )
