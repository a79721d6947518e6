"""The offer of an open loop, whose requests leave by the clock whatever the server does: values and their checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragstrip.errors import BadUsage
from dragstrip.metrics import TICKS_NS
from dragstrip.record import MAX_RATE_PER_S

if TYPE_CHECKING:
    from dragstrip._engine import OpenLoop

#: The engine's longest block.
MAX_S = 3600.0

PRECISIONS, ARRIVALS = tuple(TICKS_NS), ("constant", "poisson")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferStep:
    """A period in which the rate changes linearly from one value to the other; 0 is a pause."""

    from_per_s: float
    to_per_s: float
    length_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An open loop.

    Args:
        rate_per_s: constant during the run; None if ``ramp`` or ``steps`` set it.
        ramp: rates at the start and at the end; the rate changes linearly over the run's duration.
        steps: consecutive periods, which together are the run's duration.
        precision: "precise" wakes the generator for each departure, "balanced" every 210 µs, "thrifty" every 1 ms.
        usual: the user did not request an open loop; another machine gets this one by default.
        arrivals: "constant" gaps, or gaps of a "poisson" process, drawn from ``seed``.
    """

    rate_per_s: float | None = None
    ramp: tuple[float, float] | None = None
    steps: tuple[OfferStep, ...] = ()
    precision: str = "precise"
    arrivals: str = "constant"
    seed: int = 1
    usual: bool = False

    def length_s(self) -> float | None:
        """The total duration of the steps; None without steps."""
        return sum(step.length_s for step in self.steps) if self.steps else None

    def most_per_s(self) -> float:
        """The highest rate."""
        steps = [rate for step in self.steps for rate in (step.from_per_s, step.to_per_s)]
        return max(self.rate_per_s or 0.0, *(self.ramp or (0.0,)), *steps, 0.0)

    def open_loop(self, duration_s: float) -> OpenLoop:
        """The offer in the engine's form, for a run of ``duration_s``."""
        from dragstrip._engine import OpenLoop, RateStep

        steps = self.steps
        if not steps:
            first, last = self.ramp or (self.rate_per_s or 0.0, self.rate_per_s or 0.0)
            steps = (OfferStep(from_per_s=first, to_per_s=last, length_s=duration_s),)
        engine_steps, end_s = [], 0.0
        for step in steps:
            end_s += step.length_s
            until_ns = round(end_s * 1e9)
            engine_steps.append(RateStep(from_per_s=step.from_per_s, to_per_s=step.to_per_s, until_ns=until_ns))
        return OpenLoop(engine_steps, arrivals=self.arrivals, precision=self.precision, seed=self.seed)


def check(offer: Offer, requests: int | None, duration_s: float | None) -> None:
    """Refuses an offer that can't be made.

    Raises:
        BadUsage: names the option, the given value and valid ones.
    """
    given = [offer.rate_per_s is not None, offer.ramp is not None, bool(offer.steps)]
    if sum(given) != 1:
        raise BadUsage("-R, --ramp and --steps each set the offered rate; give one of them")
    rates = [*(offer.ramp or ()), *(rate for step in offer.steps for rate in (step.from_per_s, step.to_per_s))]
    rates += [offer.rate_per_s] if offer.rate_per_s is not None else []
    if not 0 < (rate := max(rates)) <= MAX_RATE_PER_S:
        raise BadUsage(f"an offered rate of {rate:g}/s can't be sent; give more than 0, up to {MAX_RATE_PER_S:,.0f}")
    if requests is not None and offer.rate_per_s is None:
        raise BadUsage("-n with --ramp or --steps: these end by time; leave -n out, or give -R")
    if offer.steps and duration_s is not None:
        raise BadUsage("-d with --steps: the steps' own times are the duration; leave -d out")
    if (length_s := offer.length_s() or duration_s or 0.0) > MAX_S:
        raise BadUsage(f"an open loop of {length_s:g} s: give at most {MAX_S:g} s, or run it again")


def describe_offer(offer: Offer) -> str:
    """The offer in a few words, for a report."""
    if offer.ramp:
        rate = f"a ramp from {offer.ramp[0]:,g} to {offer.ramp[1]:,g}/s"
    elif offer.steps:
        rate = "steps of " + ", ".join(f"{step.from_per_s:,g}/s for {step.length_s:g} s" for step in offer.steps)
    else:
        rate = f"{offer.rate_per_s:,g}/s"
    poisson = f", Poisson arrivals (seed {offer.seed})" if offer.arrivals == "poisson" else ""
    return f"{rate}{poisson}, {offer.precision}"
