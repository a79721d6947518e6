"""Checks on races over several machines: their links, retransmissions, how the load was split, interrupts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from dragstrip.quantities import as_percent
from dragstrip.record import Block, EventKind, Race
from dragstrip.validity.check import Check, CheckName, Finding, Status, check_result
from dragstrip.validity.environment import events_of

#: Share of a link's line rate from which it, and not the server, may set the pace. Frames queue up well before 1.
LINK_FULL = 0.8

#: Share of TCP's segments that were sent again. One costs a round trip, often 200 ms (RFC 6298).
RETRANSMITTED = 0.001

#: Share of the quickest contender's median latency that an empty round trip takes.
ROUND_TRIP = 0.5

#: Share of one core's time that interrupts take, from which packets wait for that core while others have time.
INTERRUPTS = 0.5

#: A generator's responses, as a share of its part in an even split.
UNEVEN = 0.5


def links(race: Race, by_name: Mapping[str, Sequence[Block]]) -> Check:
    """The one check of them. ``by_name``: as ``environment.surroundings``."""
    machines = _summed(race, EventKind.LINK)
    uses = list(_uses(machines, by_name))
    findings, most = [full for share, full in uses if share > LINK_FULL], 0.0
    for name, sums in machines.items():
        again = sums["retransmitted"] / sums["segments"] if sums["segments"] else 0.0
        most = max(most, again)
        if again > RETRANSMITTED:
            remedy = "see cables, switch and queues between the machines (ip -s link, nstat)"
            text = f"{name} retransmitted {as_percent(again)} of its TCP segments"
            findings.append(Finding(Status.WARN, text, remedy))
        busiest = max((key for key in sums if key.isdigit()), key=lambda core: sums[core], default="")
        share = sums[busiest] / sums["lasted_ns"] if busiest and sums["lasted_ns"] else 0.0
        if share > INTERRUPTS:
            remedy = "spread the link's queues over more cores (ethtool -L, /proc/irq/*/smp_affinity)"
            text = f"interrupts took {as_percent(share)} of core {busiest} of {name}"
            findings.append(Finding(Status.WARN, text, remedy))
    findings += [*_uneven(race), *_far(race, by_name)]
    use = max((share for share, _ in uses), default=None)
    used = "their line rate is unknown" if use is None else f"at most {as_percent(use)} of their line rate"
    calm = f"{as_percent(most)} of the segments retransmitted; round trip {_round_trip(race)[1] / 1000:,.0f} µs"
    return check_result(CheckName.LINKS, findings, f"links: {used}; {calm}")


def _summed(race: Race, kind: EventKind) -> dict[str, dict[str, float]]:
    """By machine: the numbers of all its rounds, added up; a line rate is the last one's."""
    machines: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for event in events_of(race, kind):
        sums = machines[event.subject]
        for name, value in event.numbers.items():
            sums[name] = value if name == "line_mbps" else sums[name] + value
    return machines


def _uses(
    machines: Mapping[str, Mapping[str, float]], by_name: Mapping[str, Sequence[Block]]
) -> Iterator[tuple[float, Finding]]:
    """The share of a machine's line rate that each contender's blocks took, and the finding if that is too much.

    How much a link carried for each byte of a response, and for each request, is known of whole rounds.
    """
    for machine, sums in machines.items():
        line_per_ns = sums["line_mbps"] * 1e6 / 8 / 1e9
        if not line_per_ns or not sums["bytes_in"] or not sums["requests"]:
            continue
        answers, asked = ("sent", "received") if sums["serves"] else ("received", "sent")
        per_byte = sums[f"{answers}_bytes"] / sums["bytes_in"]
        per_request = sums[f"{asked}_bytes"] / sums["requests"]
        for name, blocks in by_name.items():
            used = [block for block in blocks if not block.void and block.duration_ns]
            if used:
                answering = median(per_byte * block.bytes_in / block.duration_ns for block in used)
                asking = median(per_request * block.sent / block.duration_ns for block in used)
                share = max(answering, asking) / line_per_ns
                of_link = f"{as_percent(share)} of the {round(sums['line_mbps']):,} Mbit/s of {machine}'s data link"
                text = f"{name} took {of_link}, which may set its pace"
                remedy = "take a faster link, a smaller response, or compare by --metric cpu"
                yield share, Finding(Status.WARN, text, remedy, contender=name)


def _uneven(race: Race) -> Iterator[Finding]:
    """A generator whose share of all responses is far below its share of all connections: its link or it is slower."""
    shares = {name: sums["answered"] for name, sums in _summed(race, EventKind.GENERATOR).items()}
    total = sum(shares.values())
    for name, answered in shares.items():
        if total and answered / total * len(shares) < UNEVEN:
            got = f"generator {name} got {as_percent(answered / total)} of all responses"
            remedy = "see `dragstrip fleet check`, and give every generator the same kind of link"
            yield Finding(Status.WARN, f"{got}, one of {len(shares)}: it or its link is slower", remedy)


def _round_trip(race: Race) -> tuple[str, float]:
    """The generator that is farthest off, and its quickest exchange with the servers' machine."""
    trips: dict[str, list[float]] = defaultdict(list)
    for event in events_of(race, EventKind.GENERATOR):
        trips[event.subject].append(event.numbers.get("round_trip_ns", 0.0))
    far = {name: median(values) for name, values in trips.items()}
    return max(far.items(), key=lambda trip: trip[1], default=("", 0.0))


def _far(race: Race, by_name: Mapping[str, Sequence[Block]]) -> Iterator[Finding]:
    """If most of a latency is the way there and back, servers seem to differ by less than they do."""
    machine, trip_ns = _round_trip(race)
    typical = {name: median(block.p50_ns for block in blocks) for name, blocks in by_name.items() if blocks}
    if not typical:
        return
    name = min(typical, key=typical.__getitem__)
    if typical[name] and trip_ns / typical[name] > ROUND_TRIP:
        way = f"{trip_ns / 1000:,.0f} µs of {name}'s median latency of {typical[name] / 1000:,.0f} µs"
        remedy = "take machines nearer to each other, or compare throughput with more connections (-c)"
        yield Finding(Status.WARN, f"the round trip from {machine} takes {way}", remedy, contender=name)
