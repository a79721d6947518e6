"""Options of an open loop: rates, ramps and steps."""

from __future__ import annotations

from dataclasses import dataclass

import click

from dragstrip.cli.options import Command
from dragstrip.cli.quantities import Count, Duration, Rate
from dragstrip.errors import BadUsage
from dragstrip.loading.arrivals import ARRIVALS, MOST_PER_S, PRECISIONS, Offer, Step
from dragstrip.racing.options import AUTO_RATE


class AnyRate(Rate):
    """The same, or ``auto``: half of what the slowest contender can serve."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Requests per second, above 0, or ``AUTO_RATE``."""
        if value == "auto":
            return AUTO_RATE
        rate_per_s = super().convert(value, param, ctx)
        if not 0 < rate_per_s <= MOST_PER_S:
            self.fail(
                f"rate {value!r} is out of range; use more than 0 and at most {MOST_PER_S:,.0f} per second", param, ctx
            )
        return rate_per_s


class Ramp(click.ParamType[tuple[float, float]]):
    """``1k:20k``: rates at the begin and at the end."""

    name = "ramp"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        """Both rates."""
        if isinstance(value, tuple):
            return value
        first, colon, last = str(value).partition(":")
        if not colon:
            self.fail(f"{value!r} is not a valid ramp; use 1k:20k (from 1,000 to 20,000 per second)", param, ctx)
        return Rate().convert(first, param, ctx), Rate().convert(last, param, ctx)


class Steps(click.ParamType[tuple[Step, ...]]):
    """``1k:10s,2k:10s``: a rate and how long it lasts, one after the other."""

    name = "steps"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Step, ...]:
        """The steps."""
        if isinstance(value, tuple):
            return value
        return tuple(self._step(step.strip(), param, ctx) for step in str(value).split(","))

    def _step(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> Step:
        rate, colon, length = text.partition(":")
        if not colon:
            self.fail(f"{text!r} is not a valid step; use 1k:10s (1,000 per second for 10 s)", param, ctx)
        rate_per_s = Rate().convert(rate, param, ctx)
        return Step(from_per_s=rate_per_s, to_per_s=rate_per_s, length_s=Duration().convert(length, param, ctx))


@dataclass(frozen=True, kw_only=True)
class OpenLoopOptions:
    """The options of ``open_loop_options`` as given; None for those that were not."""

    rate: float | None
    ramp: tuple[float, float] | None
    steps: tuple[Step, ...] | None
    pace: str | None
    arrivals: str | None
    seed: int | None


def open_loop_options(command: Command) -> Command:
    """``-R``, ``--ramp``, ``--steps``, ``--pace``, ``--arrivals`` and ``--seed``, for ``OpenLoopOptions``."""
    for option in reversed(
        [
            click.option(
                "--rate",
                "-R",
                type=Rate(),
                default=None,
                help="Open loop: send this many requests per second, whatever the server does.",
            ),
            click.option(
                "--ramp",
                type=Ramp(),
                default=None,
                metavar="FROM:TO",
                help="Open loop: rate changes linearly from FROM to TO over the run.",
            ),
            click.option(
                "--steps",
                type=Steps(),
                default=None,
                metavar="R:TIME,…",
                help="Open loop: rates one after another, e.g. 1k:10s,2k:10s.",
            ),
            click.option(
                "--pace",
                type=click.Choice(PRECISIONS),
                default=None,
                help=(
                    "Open loop: wake up for each request (precise, the default), every 210 µs (balanced) or every 1 ms"
                    " (thrifty)."
                ),
            ),
            click.option(
                "--arrivals",
                type=click.Choice(ARRIVALS),
                default=None,
                help="Open loop: gaps between requests. [default: constant]",
            ),
            click.option(
                "--seed",
                type=Count(0, 2**63 - 1),
                default=None,
                help="Seed for random arrivals and drawn paths. [default: 1]",
            ),
        ]
    ):
        command = option(command)
    return command


def offer(options: OpenLoopOptions, *, draws: bool = False) -> Offer | None:
    """The open loop that was asked for; None for a closed one.

    Args:
        draws: the seed has something else to draw, too.

    Raises:
        BadUsage: what belongs to an open loop was given, and no rate.
    """
    if options.rate is None and options.ramp is None and options.steps is None:
        for name, value in (("pace", options.pace), ("arrivals", options.arrivals), ("seed", options.seed)):
            if value is not None and not (draws and name == "seed"):
                raise BadUsage(f"--{name} {value} needs an open loop; add -R RATE")
        return None
    return Offer(
        rate_per_s=options.rate,
        ramp=options.ramp,
        steps=options.steps or (),
        precision=options.pace or PRECISIONS[0],
        arrivals=options.arrivals or ARRIVALS[0],
        seed=1 if options.seed is None else options.seed,
    )
