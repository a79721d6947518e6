"""What a race's surroundings did: other programs, the clock, memory that grows, contenders that work while idle.

Everything here is seen outside measured blocks and becomes an event of the race; ``validity`` judges them. Method:
``docs/METHOD.md``, "What voids or warns".
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dragstrip import machine
from dragstrip.process.supervisor import descendants
from dragstrip.record import Event, EventKind

#: Another program counts from this share of one core on, over a round; the busiest few are named.
INTRUDER_SHARE, MAX_INTRUDERS = 0.10, 3

#: A core's frequency that differs so much from the first round's.
FREQUENCY_OFF = 0.05

#: A contender's memory grows if it gains more than this share, and more than this many bytes, per second. A heap that a
#: collector still lets grow after the warm-up (Node: 3 % and 1.6 MB in the first second) stays below.
GROWTH_PER_S, GROWTH_BYTES_PER_S = 0.01, 4 * 2**20


def event(kind: EventKind, subject: str = "", text: str = "", **numbers: float) -> Event:
    """An event that happens now."""
    return Event(at_ns=time.monotonic_ns(), kind=kind, subject=subject, text=text, numbers=numbers)


class Surroundings(Protocol):
    """What compares the machine, or several, before and after each round."""

    def before(self) -> None: ...
    def after(self) -> list[Event]: ...


@dataclass
class MachineMonitor:
    """Compares the machine before and after each round; ``cores`` are the race's."""

    cores: Sequence[int]
    _cpu_ns: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    _throttled: int | None = None
    _first_khz: Mapping[int, int] = field(default_factory=dict)
    _began_s: float = 0.0

    def before(self) -> None:
        self._cpu_ns, self._began_s = machine.cpu_by_process(self.cores), time.monotonic()
        self._throttled = machine.throttled(self.cores)
        self._first_khz = self._first_khz or machine.frequencies_khz(self.cores)

    def after(self) -> list[Event]:
        """The round is over, its servers are stopped."""
        return [*self._intruders(), *self._clock()]

    def _intruders(self) -> Iterator[Event]:
        own = {os.getpid(), *descendants(os.getpid())}
        lasted_ns = max(time.monotonic() - self._began_s, 1e-3) * 1e9
        shares = {
            (pid, name): (cpu_ns - self._cpu_ns.get(pid, (name, 0))[1]) / lasted_ns
            for pid, (name, cpu_ns) in machine.cpu_by_process(self.cores).items()
            if pid not in own
        }
        for (pid, name), share in sorted(shares.items(), key=lambda item: -item[1])[:MAX_INTRUDERS]:
            if share > INTRUDER_SHARE:
                yield event(EventKind.INTRUDER, name, pid=pid, share=share)

    def _clock(self) -> Iterator[Event]:
        throttled = machine.throttled(self.cores)
        if throttled is not None and self._throttled is not None and throttled > self._throttled:
            yield event(EventKind.HEAT)
        for core, khz in machine.frequencies_khz(self.cores).items():
            first = self._first_khz.get(core, khz)
            if abs(khz / max(first, 1) - 1) > FREQUENCY_OFF:
                yield event(EventKind.FREQUENCY, core=core, khz=khz, first_khz=first)


def memory_growth_events(name: str, before_bytes: int, after_bytes: int, seconds: float) -> list[Event]:
    """An event if a contender's memory grew over its blocks faster than it may."""
    per_s = (after_bytes - before_bytes) / max(seconds, 1e-3)
    if before_bytes <= 0 or per_s <= max(GROWTH_PER_S * before_bytes, GROWTH_BYTES_PER_S):
        return []
    return [event(EventKind.GROWING, name, bytes_per_s=per_s, share_per_s=per_s / before_bytes)]
