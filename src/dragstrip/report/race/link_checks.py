"""The sentences of the check of links between several machines. Values in, text out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dragstrip.report.figures import as_percent
from dragstrip.validity.check import Saw


def _links_calm(_: str, use: float | None, again: float, round_trip_ns: float) -> str:
    used = "their line rate is unknown" if use is None else f"at most {as_percent(use)} of their line rate"
    return f"links: {used}; {as_percent(again)} of the segments sent again; round trip {round_trip_ns / 1000:,.0f} µs"


def _link_full(who: str, machine: str, share: float, mbps: int) -> str:
    return f"{who} took {as_percent(share)} of the {mbps:,} Mbit/s of {machine}'s data link, which may set its pace"


def _retransmitted(_: str, machine: str, share: float) -> str:
    return f"{machine} sent {as_percent(share)} of its TCP segments again"


def _round_trip(who: str, machine: str, round_trip_ns: float, p50_ns: float) -> str:
    way = f"{round_trip_ns / 1000:,.0f} µs of {who}'s median latency of {p50_ns / 1000:,.0f} µs"
    return f"the way from {machine} and back takes {way}"


def _interrupts(_: str, machine: str, core: int, share: float) -> str:
    return f"interrupts took {as_percent(share)} of core {core} of {machine}"


def _uneven(_: str, machine: str, share: float, count: int) -> str:
    return f"generator {machine} got {as_percent(share)} of all answers, one of {count}: it or its link is slower"


#: What was seen, by its kind.
SEEN: Mapping[Saw, Callable[..., str]] = {
    Saw.LINKS_CALM: _links_calm,
    Saw.LINK_FULL: _link_full,
    Saw.RETRANSMITTED: _retransmitted,
    Saw.ROUND_TRIP: _round_trip,
    Saw.INTERRUPTS: _interrupts,
    Saw.UNEVEN: _uneven,
}

#: What to do about it.
REMEDIES: Mapping[Saw, str] = {
    Saw.LINK_FULL: "take a faster link, a smaller answer, or compare by --metric cpu",
    Saw.RETRANSMITTED: "see cables, switch and queues between the machines (ip -s link, nstat)",
    Saw.ROUND_TRIP: "take machines nearer to each other, or compare throughput with more connections (-c)",
    Saw.INTERRUPTS: "spread the link's queues over more cores (ethtool -L, /proc/irq/*/smp_affinity)",
    Saw.UNEVEN: "see `dragstrip fleet check`, and give every generator the same kind of link",
}
