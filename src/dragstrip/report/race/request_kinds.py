"""Each kind of request of a workload that has several: its share and its latency, shown and never tested.

As in ``latency``, histograms are merged, percentiles are not, and only blocks that count are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hdrh.histogram import HdrHistogram

from dragstrip.record import Block, Race
from dragstrip.report.race.latency import added, decoded, quantiles_us


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRow:
    """One contender's answers to one kind of request.

    Args:
        share: of its right answers, 0 to 1. requests: right ones. failed: the others, also in void blocks.
        latency_us: by quantile, microseconds; empty where nothing was right.
    """

    contender: str
    kind: str
    share: float
    requests: int
    failed: int
    latency_us: Mapping[str, float]


@dataclass(slots=True)
class _Sum:
    requests: int = 0
    failed: int = 0
    latency: HdrHistogram | None = field(default=None)


def kind_rows(race: Race) -> list[KindRow]:
    """Each kind of request in the workload's order, by contender that is not out; none where there is one kind."""
    sums: dict[tuple[str, str], _Sum] = {}
    for round_ in race.rounds:
        for block in round_.blocks:
            _add(sums, block, counts=not round_.void and not block.void)
    out = {entrant.name for entrant in race.entrants if entrant.out}
    answered: dict[str, int] = {}
    for (contender, _), one in sums.items():
        answered[contender] = answered.get(contender, 0) + one.requests
    return [
        KindRow(
            contender=contender,
            kind=kind,
            share=one.requests / answered[contender] if answered[contender] else 0.0,
            requests=one.requests,
            failed=one.failed,
            latency_us=quantiles_us(one.latency) if one.latency else {},
        )
        for (contender, kind), one in sums.items()
        if contender not in out
    ]


def _add(sums: dict[tuple[str, str], _Sum], block: Block, *, counts: bool) -> None:
    for kind, counted in block.kinds.items():
        one = sums.setdefault((block.contender, kind), _Sum())
        one.failed += counted.failed
        if not counts:
            continue
        one.requests += counted.requests
        if counted.latency_hdr:
            one.latency = added(one.latency, decoded(counted.latency_hdr))
