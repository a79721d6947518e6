"""What a report says of an open loop besides: offered and reached, both latencies, and lag."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING

from hdrh.histogram import HdrHistogram
from rich.table import Table

from dragstrip.loading.arrivals import describe_offer
from dragstrip.loading.percentiles import QUANTILES, decoded
from dragstrip.metrics import LATE_NS, SUSTAINED, TICKS_NS
from dragstrip.report import figures
from dragstrip.store.json_values import JsonObject

if TYPE_CHECKING:
    from dragstrip.loading.result import LoadResult

LOOPS = {False: "closed loop", True: "open loop, from when each request was meant to leave"}
STAMPS = {"kernel": "answers stamped by the kernel", "user": "user-space clock"}


def loop(result: LoadResult) -> str:
    """Which loop and whose clock the latencies are of."""
    return f"{LOOPS[result.request.offer is not None]}, {STAMPS[result.stamps]}"


def sentence(result: LoadResult) -> str:
    """What was offered and what became of it; "" for a closed loop."""
    offer = result.request.offer
    if not offer or result.reached_share is None:
        return ""
    if result.sustained:
        return f"offered {describe_offer(offer)}: sustained ({figures.percent(result.reached_share)} left on time)"
    return f"offered {describe_offer(offer)}: not sustained, only {figures.percent(result.reached_share)} left in time"


def above(result: LoadResult, q: float) -> str:
    """How many answers took longer than this percentile, as a whole number."""
    many = result.in_time * (100 - q) / 100
    return figures.count(round(many)) if many >= 1 else "<1"


def percentiles(result: LoadResult, latencies: HdrHistogram, shown: Callable[[float | None], str]) -> Table:
    """Latency from the planned and from the actual departure, and the lag between the two."""
    columns = {
        "at most": latencies,
        "from actual send": decoded(result.latency_sent_hdr),
        "send delay": decoded(result.lag_hdr),
    }
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    for name in (*columns, "above"):
        table.add_column(name, justify="right", no_wrap=True)
    for label, q in QUANTILES.items():
        cells = [shown(times.get_value_at_percentile(q) if times else None) for times in columns.values()]
        table.add_row(label, *cells, above(result, q))
    table.add_row("max", *(shown(times.get_max_value() if times else None) for times in columns.values()), "0")
    table.add_row("mean", *(shown(times.get_mean_value() if times else None) for times in columns.values()), "")
    return table


def warnings(result: LoadResult) -> list[str]:
    """What keeps the numbers from being what was asked for."""
    offer, share = result.request.offer, result.reached_share
    if not offer or share is None:
        return []
    found = []
    if not result.sustained:
        unsent = f", {result.unsent:,} of them never" if result.unsent else ""
        found.append(
            f"not sustained: {result.offered - result.departed:,} of {result.offered:,} requests did not leave in time"
            f"{unsent}; under such a load latency grows for as long as the run lasts, so it reflects the length of "
            "the run more than the server; offer less, or open more connections (-c) if the server can take them"
        )
    lag = decoded(result.lag_hdr)
    allowed_ns = LATE_NS + TICKS_NS[offer.precision]
    if lag and result.sustained and lag.get_value_at_percentile(99.0) > allowed_ns:
        late = f"{figures.figure(lag.get_value_at_percentile(99.0) / 1e6)} ms"
        found.append(
            f"one request in a hundred left more than {late} late: no connection was free, or the load generator did "
            "not wake up in time; more connections (-c) or a core of its own would tell which"
        )
    return found


def as_json(result: LoadResult) -> JsonObject | None:
    """The open loop's own fields; None for a closed one."""
    offer = result.request.offer
    if not offer:
        return None
    steps = [
        {"from_per_s": step.from_per_s, "to_per_s": step.to_per_s, "length_s": step.length_s} for step in offer.steps
    ]
    return {
        "rate_per_s": offer.rate_per_s,
        "ramp_per_s": list(offer.ramp) if offer.ramp else None,
        "steps": steps,
        "pace": offer.precision,
        "arrivals": offer.arrivals,
        "seed": offer.seed,
        "offered": result.offered,
        "departed": result.departed,
        "unsent": result.unsent,
        "offered_per_s": result.offered / result.duration_s if result.duration_s else 0.0,
        "reached_share": result.reached_share,
        "sustained": result.sustained,
        "latency_sent_us": _quantiles(decoded(result.latency_sent_hdr)),
        "lag_us": _quantiles(decoded(result.lag_hdr)),
        "latency_sent_hdr": base64.b64encode(result.latency_sent_hdr).decode("ascii"),
        "lag_hdr": base64.b64encode(result.lag_hdr).decode("ascii"),
    }


def _quantiles(times: HdrHistogram | None) -> dict[str, float | None]:
    if not times:
        return dict.fromkeys([*QUANTILES, "max"])
    quantiles_us = {label: times.get_value_at_percentile(q) / 1000 for label, q in QUANTILES.items()}
    return quantiles_us | {"max": times.get_max_value() / 1000}


def reached(result: LoadResult) -> tuple[float, str]:
    """The share of what was offered that left, and how a limit on it is told."""
    share = result.reached_share or 0.0
    return share, f"reached {figures.percent(share)} of the offered rate ({SUSTAINED:.0%} counts as sustained)"
