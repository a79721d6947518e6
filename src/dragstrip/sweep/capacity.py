"""What a sweep's blocks show: latency at each rate, and the capacity under an objective. Pure; needs no engine.

Method: ``docs/METHOD.md``, "Latency against rate". Blocks of one launch at one rate are one number, however many
responses they have; intervals are over launches.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from hdrh.histogram import HdrHistogram

from dragstrip.analysis.interval import quantile as t_quantile
from dragstrip.loading.percentiles import QUANTILES, decoded
from dragstrip.metrics import ANSWERS, SUSTAINED
from dragstrip.quantities import errors, percent
from dragstrip.record import Void
from dragstrip.validity.messages import void_text

#: At most this share of sweeps overstate a capacity's lower end. The first rates have an equal part of it, because they
#: count in ascending order up to the first that does not hold; so has each of the steps after them (Bonferroni).
ALPHA, STEPS = 0.05, 5

#: Fewest launches for an interval; largest share of failed requests that still counts as service (as in blocks).
MIN_LAUNCHES, MAX_FAILED = 3, 0.001

#: A bracket is narrow enough if its ends differ by at most this share.
NEAR = 0.05

#: Quantiles that a sweep reports for each rate; an objective may use any of these.
SHOWN_QUANTILES = tuple(name for name in QUANTILES if name in ANSWERS)

#: A launch determines a quantile if it has at least this share of the responses that were planned for it.
MIN_ANSWERS_SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A service level: this quantile of the latency, from when requests were meant to leave, stays below the limit."""

    quantile: str
    limit_us: float

    def typed(self) -> str:
        """As on the command line: p99=5ms."""
        whole = self.limit_us >= 1000
        return f"{self.quantile}={self.limit_us / 1000 if whole else self.limit_us:g}{'ms' if whole else 'us'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One block of a sweep: raw, never rewritten.

    Args:
        launch: its number in the sweep; a contender's samples of one launch are from one process.
        latency_hdr: HdrHistogram V2 compressed, nanoseconds since the scheduled time; requests of the counted part.
        void: why the machine made it invalid; empty if it counts. A slow or failing server does not.
        generator: why the load generator was the limit; None: it was not.
        The rest is as in ``record.Block``.
    """

    contender: str
    rate_per_s: float
    launch: int
    counted_ns: int
    offered: int
    departed: int
    unsent: int
    requests: int
    answered: int
    failed: int
    errors: Mapping[str, int]
    latency_hdr: bytes
    lag_p99_ns: int
    server_cpu_ns: int | None
    engine_cpu_ns: int
    void: tuple[Void, ...] = ()
    generator: Void | None = None


@dataclass(frozen=True, slots=True)
class RateSpan:
    """An estimate and its interval over launches; infinite if there are too few launches."""

    estimate: float
    low: float
    high: float


class PointOutcome(StrEnum):
    """Whether the objective held at a rate."""

    MET = "met"
    MISSED = "missed"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the objective is not known to hold at a rate, in words.

    Args:
        outcome: what it leads to. noisy: more launches might decide.
    """

    text: str
    outcome: PointOutcome = PointOutcome.UNDECIDED
    noisy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One contender at one offered rate.

    Args:
        launches: number that count. reached: share of offered requests that left in time. failed: share that failed.
        latency_us: by quantile, without quantiles that have too few responses.
        server_cpu_us: per response, median over launches; None if unknown.
        reason: why the objective is not known to hold; None if it holds.
    """

    rate_per_s: float
    launches: int
    reached: float
    failed: float
    latency_us: Mapping[str, RateSpan] = field(default_factory=dict)
    server_cpu_us: float | None = None
    reason: Reason | None

    @property
    def outcome(self) -> PointOutcome:
        """Whether the objective held."""
        return self.reason.outcome if self.reason else PointOutcome.MET

    @property
    def noisy(self) -> bool:
        """Whether it is undecided, and more launches might decide."""
        return self.reason is not None and self.reason.noisy


@dataclass(frozen=True, slots=True)
class Capacity:
    """The highest rate up to which the objective held at every measured rate, and the next measured rate.

    Args:
        met_per_s: None if it held at no rate. over_per_s: None if it held at every rate.
        reason: why it is not known to hold at ``over_per_s``; None if it held at every rate.
    """

    met_per_s: float | None
    over_per_s: float | None
    reason: Reason | None

    @property
    def width(self) -> float:
        """The bracket's width relative to its lower end; infinite if one end is missing."""
        return math.inf if self.met_per_s is None or self.over_per_s is None else self.over_per_s / self.met_per_s - 1


def ratio_of(other: Capacity, first: Capacity) -> tuple[float, float]:
    """The limits of a contender's capacity over the first one's: 0 below, infinite above, if a bracket has no such end.

    An upper end counts if the objective is known to be missed there, not if it is only not known to be met.
    """
    (low, high), (first_low, first_high) = ends_of(other), ends_of(first)
    return low / first_high if first_high else 0.0, high / first_low if first_low else math.inf


def ends_of(bracket: Capacity) -> tuple[float, float]:
    """Between which rates, per second, the capacity is known to be."""
    missed = bracket.reason is not None and bracket.reason.outcome is PointOutcome.MISSED
    return bracket.met_per_s or 0.0, bracket.over_per_s if missed and bracket.over_per_s else math.inf


def points(samples: Sequence[Sample], objective: Objective) -> tuple[SweepPoint, ...]:
    """One contender's points, by rate.

    Args:
        samples: of one contender.
    """
    rates = sorted({sample.rate_per_s for sample in samples})
    return tuple(_point(rate, [sample for sample in samples if sample.rate_per_s == rate], objective) for rate in rates)


def capacity(measured: Sequence[SweepPoint]) -> Capacity:
    """Goes up to the first rate at which the objective is not known to hold; above it, holding is chance."""
    met = None
    for point in measured:
        if point.reason is not None:
            return Capacity(met, point.rate_per_s, point.reason)
        met = point.rate_per_s
    return Capacity(met, None, None)


def next_rates(
    measured: Sequence[SweepPoint], *, outwards: bool, again: Container[float], near: float = NEAR
) -> tuple[float, ...]:
    """The rates to measure next: rates that noise left open, otherwise one that halves the bracket; none at the end.

    Args:
        near: a bracket as narrow as this share is not halved.
        outwards: may go below the first and above the last rate, because the user did not choose the rates.
        again: rates that were already measured twice; they are not measured again.
    """
    missed = next((point.rate_per_s for point in measured if point.outcome is PointOutcome.MISSED), math.inf)
    below = [point for point in measured if point.rate_per_s < missed]
    if open_ := tuple(point.rate_per_s for point in below if point.noisy and point.rate_per_s not in again):
        return open_
    ends = capacity(measured)
    met, over = ends.met_per_s, ends.over_per_s
    if met is not None and over is not None:
        between = float(f"{math.sqrt(met * over):.3g}")
        return (between,) if ends.width > near and met < between < over else ()
    if not outwards:
        return ()
    if over is not None:
        return (float(f"{over / 3:.2g}"),) if over == missed else ()
    return () if met is None else (float(f"{met * 1.25:.2g}"),)


def _point(rate_per_s: float, samples: Sequence[Sample], objective: Objective) -> SweepPoint:
    good = [sample for sample in samples if not sample.void]
    launches = sorted({sample.launch for sample in good})
    offered, failed = sum(sample.offered for sample in good), sum(sample.failed for sample in good)
    reached = sum(sample.departed for sample in good) / offered if offered else 0.0
    by_launch = [[sample for sample in good if sample.launch == launch] for launch in launches]
    merged = [_merged(of_launch) for of_launch in by_launch]
    latency_us = {
        name: span
        for name in SHOWN_QUANTILES
        if (span := _over_launches([_quantile(sample, name) for sample in merged])) is not None
    }
    share = failed / max(failed + sum(sample.answered for sample in good), 1)
    reason = _reason(good, samples, reached, share, latency_us.get(objective.quantile), objective)
    return SweepPoint(
        rate_per_s=rate_per_s,
        launches=len(launches),
        reached=reached,
        failed=share,
        latency_us=latency_us,
        server_cpu_us=_cpu_us(by_launch),
        reason=reason,
    )


def _reason(
    good: Sequence[Sample],
    samples: Sequence[Sample],
    reached: float,
    failed: float,
    span: RateSpan | None,
    objective: Objective,
) -> Reason | None:
    """Why the objective is not known to hold; None if it holds."""
    quantile, limit_us, launches = objective.quantile, objective.limit_us, len({sample.launch for sample in good})
    if launches < MIN_LAUNCHES:
        causes = Counter(void.kind for sample in samples for void in sample.void)
        cause = causes.most_common(1)[0][0] if causes else None
        tried = len({sample.launch for sample in samples})
        told = f" ({cause})" if cause else ""
        return Reason(f"only {launches} of {tried} launches count{told}", noisy=True)
    limited = [sample.generator for sample in good if sample.generator]
    held = reached >= SUSTAINED and failed <= MAX_FAILED and span is not None and span.high < limit_us
    if held:
        return None
    if 2 * len(limited) > len(good):
        return Reason(void_text(limited[0]))
    if failed > MAX_FAILED:
        met: Counter[str] = Counter()
        for sample in good:
            met.update(sample.errors)
        return Reason(f"{percent(failed)} failed: {errors(met)}", PointOutcome.MISSED)
    if reached < SUSTAINED:
        return Reason(f"not sustained, only {percent(reached)} left in time", PointOutcome.MISSED)
    if span is None:
        return Reason(f"too few responses to determine {quantile}")
    was = f"{quantile} was {span.estimate / 1000:.3g} ms ({span.low / 1000:.3g}–{span.high / 1000:.3g})"
    return Reason(was, PointOutcome.MISSED) if span.low >= limit_us else Reason(f"too close to call: {was}", noisy=True)


def _merged(samples: Sequence[Sample]) -> HdrHistogram | None:
    """One launch's latencies at one rate, from all its blocks: pauses count, whichever block they were in."""
    total: HdrHistogram | None = None
    for sample in samples:
        latencies = decoded(sample.latency_hdr)
        if latencies is not None and total is not None:
            total.add(latencies)
        total = total or latencies
    return total


def _quantile(merged: HdrHistogram | None, name: str) -> float:
    """In µs; NaN if there are too few responses."""
    if merged is None or merged.get_total_count() < MIN_ANSWERS_SHARE * ANSWERS[name]:
        return math.nan
    return float(merged.get_value_at_percentile(QUANTILES[name])) / 1000


def _over_launches(values: Sequence[float]) -> RateSpan | None:
    """Geometric mean over launches and its t interval, each side at the share of ALPHA that one step has."""
    logs = np.log([value for value in values if value > 0])
    if not len(logs) or len(logs) < len(values):
        return None  # some launches lack the quantile; the quicker ones alone would be biased
    middle = float(logs.mean())
    if len(logs) < MIN_LAUNCHES:
        return RateSpan(math.exp(middle), 0.0, math.inf)
    half = t_quantile(len(logs), 2 * ALPHA / (1 + STEPS)) * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    return RateSpan(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def _cpu_us(launches: Sequence[Sequence[Sample]]) -> float | None:
    costs_us = []
    for samples in launches:
        spent = [sample.server_cpu_ns for sample in samples if sample.server_cpu_ns is not None]
        answered = sum(sample.answered for sample in samples)
        if len(spent) == len(samples) and answered:
            costs_us.append(sum(spent) / answered / 1000)
    return float(np.median(costs_us)) if costs_us else None
