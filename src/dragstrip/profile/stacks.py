"""Sampled stacks of a server while it is loaded; what the kernel refuses is missing, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dragstrip.profile.process_counters import Reading
from dragstrip.record import CodePlace, Counter, Stack, StackFrame

if TYPE_CHECKING:
    from dragstrip._engine import SampledStacks, Sampler

#: Where just-in-time compilers write names of their code.
_PERF_MAP = "/tmp/perf-{pid}.map"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledLoad:
    """What was sampled: stacks with their frames, and how complete they are."""

    frames: tuple[StackFrame, ...] = ()
    stacks: tuple[Stack, ...] = ()
    reading: Reading = field(default_factory=lambda: Reading(totals={}))


class StackSampling:
    """Samples some processes from its creation to ``finish``.

    Args:
        cores: on which they run.
    """

    def __init__(self, pids: Sequence[int], cores: Sequence[int]) -> None:
        from dragstrip._engine import EngineError, Sampler

        self._pids = tuple(pids)
        self._sampler: Sampler | None = None
        self._refused = "its processes can't be seen"
        if not pids:
            return
        try:
            self._sampler = Sampler(list(pids), cores=list(cores))
        except EngineError as error:
            self._refused = str(error)

    def finish(self) -> SampledLoad:
        """Ends sampling; the processes must still run. Removes the maps that their compilers wrote."""
        if self._sampler is None:
            return SampledLoad(reading=Reading(totals={}, missing={Counter.SAMPLES: self._refused}))
        try:
            return _of(self._sampler.stop())
        finally:
            for pid in self._pids:
                with suppress(OSError):
                    Path(_PERF_MAP.format(pid=pid)).unlink()


def _of(sampled: SampledStacks) -> SampledLoad:
    places: dict[tuple[str, str, str], int] = {}
    stacks = tuple(
        Stack(samples=samples, frames=tuple(places.setdefault(frame, len(places)) for frame in frames))
        for frames, samples in sampled.stacks
    )
    frames = tuple(StackFrame(place=CodePlace(place), module=module, name=name) for place, module, name in places)
    in_kernel = sum(s.samples for s in stacks if s.frames and frames[s.frames[0]].place is CodePlace.KERNEL)
    totals = {
        Counter.SAMPLES: sampled.samples,
        Counter.USER_SAMPLES: sampled.user_samples,
        Counter.ROOTED_SAMPLES: sampled.rooted,
        Counter.LOST_SAMPLES: sampled.lost,
    }
    if sampled.kernel:
        return SampledLoad(
            frames=frames, stacks=stacks, reading=Reading(totals=totals | {Counter.KERNEL_SAMPLES: in_kernel})
        )
    reason = "this user may not sample the kernel (/proc/sys/kernel/perf_event_paranoid)"
    return SampledLoad(
        frames=frames, stacks=stacks, reading=Reading(totals=totals, missing={Counter.KERNEL_SAMPLES: reason})
    )
