"""Sampled stacks of a server while it is loaded; what the kernel refuses is missing, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from dragstrip.errors import EngineError
from dragstrip.record import CodePlace, Counter, Stack, StackFrame
from dragstrip.why.process_counters import CountersReading

if TYPE_CHECKING:
    from dragstrip._engine import SampledStacks, Sampler

#: Where just-in-time compilers write names of their code.
_PERF_MAP = "/tmp/perf-{pid}.map"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledLoad:
    """What was sampled: stacks with their frames, and how complete they are."""

    frames: tuple[StackFrame, ...] = ()
    stacks: tuple[Stack, ...] = ()
    reading: CountersReading = field(default_factory=lambda: CountersReading(totals={}))


class StackSampling:
    """Samples some processes from its creation to ``finish``; leaving the context removes their compilers' maps.

    Args:
        cores: on which they run. maps: their runtime writes maps.
    """

    def __init__(self, pids: Sequence[int], cores: Sequence[int], *, maps: bool = False) -> None:
        from dragstrip._engine import Sampler

        self._pids, self._maps = tuple(pids), maps
        self._sampler: Sampler | None = None
        self._refused = "its processes can't be seen"
        if not pids:
            return
        try:
            self._sampler = Sampler(list(pids), cores=list(cores))
        except EngineError as error:
            self._refused = str(error)

    def finish(self) -> SampledLoad:
        """Ends sampling; the processes must still run."""
        if self._sampler is None:
            return SampledLoad(reading=CountersReading(totals={}, missing={Counter.SAMPLES: self._refused}))
        named = any(Path(_PERF_MAP.format(pid=pid)).exists() for pid in self._pids)
        sampler, self._sampler = self._sampler, None
        sampled = _of(sampler.stop())
        if named or not self._maps:
            return sampled
        missing = {**sampled.reading.missing, Counter.NAMED_CODE: "its runtime wrote no file /tmp/perf-PID.map"}
        return replace(sampled, reading=CountersReading(totals=sampled.reading.totals, missing=missing))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._sampler is not None:
            self._sampler.stop()
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
            frames=frames, stacks=stacks, reading=CountersReading(totals=totals | {Counter.KERNEL_SAMPLES: in_kernel})
        )
    reason = "this user may not sample the kernel (/proc/sys/kernel/perf_event_paranoid)"
    return SampledLoad(
        frames=frames, stacks=stacks, reading=CountersReading(totals=totals, missing={Counter.KERNEL_SAMPLES: reason})
    )
