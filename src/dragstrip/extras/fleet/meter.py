"""Measures a machine's data link and its cores' interrupts while a run of blocks lasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from dragstrip.extras.fleet.messages import Traffic
from dragstrip.machine.link import LinkReading, line_mbps, read_link


class Meter:
    """Reads before and after runs.

    Args:
        device: the data link's interface; "" if unknown. cores: the cores whose interrupts count.
    """

    def __init__(self, device: str, cores: Sequence[int]) -> None:
        self._device, self._cores, self._mbps = device, tuple(cores), line_mbps(device)
        self._first: LinkReading | None = None

    def begin(self) -> None:
        self._first = read_link(self._device, self._cores)

    def end(self) -> Traffic:
        """The traffic since ``begin``; all zero if that was not called."""
        last = read_link(self._device, self._cores)
        first, self._first = self._first or last, None
        taken = zip(first.interrupt_ns, last.interrupt_ns, strict=True)
        return Traffic(
            lasted_ns=last.at_ns - first.at_ns,
            received_bytes=max(last.received_bytes - first.received_bytes, 0),
            sent_bytes=max(last.sent_bytes - first.sent_bytes, 0),
            segments=max(last.segments - first.segments, 0),
            retransmitted=max(last.retransmitted - first.retransmitted, 0),
            line_mbps=self._mbps,
            interrupt_ns={
                str(core): max(after - before, 0) for core, (before, after) in zip(self._cores, taken, strict=True)
            },
        )


def summed(traffic: Iterable[Traffic]) -> dict[str, float]:
    """The traffic of several runs as numbers of one event; interrupts by core number."""
    sums: Counter[str] = Counter()
    mbps = 0
    for reading in traffic:
        values = reading.model_dump()
        mbps = values.pop("line_mbps")
        sums.update(values.pop("interrupt_ns"))
        sums.update(values)
    return {**sums, "line_mbps": mbps}
