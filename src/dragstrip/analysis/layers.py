"""CPU time by layer and by function: each launch's sampled stacks as shares of its CPU time per response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dragstrip.analysis.function_names import owner
from dragstrip.analysis.launch_differences import LaunchNumbers, shares
from dragstrip.record import CodePlace, Counter, Profile, StackFrame

#: Samples per second of CPU time, as ``crates/profile`` takes them.
SAMPLES_PER_S = 499

#: Fewest samples of a launch, and over all launches of a function whose difference is tested.
LEAST_SAMPLES, LEAST_OF_FUNCTION = 100, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A part of a server, by patterns of functions and modules; ``data/layers.toml`` describes them.

    Args:
        place: of the innermost frame; None: anywhere. anywhere: any frame may match, not only the innermost.
    """

    name: str
    place: CodePlace | None = None
    functions: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    anywhere: bool = False

    def has(self, frames: Sequence[StackFrame]) -> bool:
        """Whether a stack, its innermost frame first, belongs to this layer."""
        if not frames or (self.place is not None and frames[0].place is not self.place):
            return False
        if not self.functions and not self.modules:
            return True
        return any(map(self._matches, frames if self.anywhere else frames[:1]))

    def _matches(self, frame: StackFrame) -> bool:
        file = frame.module.rpartition("/")[2]
        return any(fnmatchcase(frame.name, pattern) for pattern in self.functions) or any(
            fnmatchcase(file, pattern) for pattern in self.modules
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A contender's CPU time by parts, such as layers or functions.

    Args:
        counts: samples by part, for each launch. whole_us: CPU µs per response that each launch's samples are of.
    """

    counts: tuple[Mapping[str, int], ...]
    whole_us: tuple[float, ...]

    @property
    def names(self) -> frozenset[str]:
        """Parts that any sample is in."""
        return frozenset(name for counts in self.counts for name in counts)

    def samples(self, name: str) -> int:
        """Samples of a part over all launches."""
        return sum(counts.get(name, 0) for counts in self.counts)

    def cpu_us(self, name: str) -> LaunchNumbers:
        """CPU µs per response in a part, for each launch."""
        hits = [counts.get(name, 0) for counts in self.counts]
        return shares(hits, [sum(counts.values()) for counts in self.counts], self.whole_us)


def by_layer(launches: Sequence[Profile], layers: Sequence[Layer]) -> Parts | None:
    """CPU time by layer; "" has the samples that are in none. None unless every launch has enough samples."""
    return _parts(launches, [[_layer(frames, layers) for frames in _stacks(launch)] for launch in launches])


def by_function(launches: Sequence[Profile]) -> Parts | None:
    """CPU time of each function, by its name and file (``function_names.owner``); None as ``by_layer``."""
    return _parts(launches, [list(map(owner, _stacks(launch))) for launch in launches])


def unnamed_share(launches: Sequence[Profile]) -> float | None:
    """Share of samples whose innermost frame has no name; None without samples."""
    stacks = [(launch.frames, stack) for launch in launches for stack in launch.stacks]
    whole = sum(stack.samples for _, stack in stacks)
    unnamed = sum(stack.samples for frames, stack in stacks if not stack.frames or not frames[stack.frames[0]].name)
    return unnamed / whole if whole else None


def sampled_share(launches: Sequence[Profile]) -> float | None:
    """Share of the CPU time that samples cover; None unless the kernel was sampled, too.

    The sampler's clock is off while the kernel switches threads, so servers that switch often have less.
    """
    if not launches or any(
        not {Counter.KERNEL_SAMPLES, Counter.SAMPLES, Counter.CPU_NS} <= launch.counts.keys() for launch in launches
    ):
        return None
    cpu_s = sum(launch.counts[Counter.CPU_NS] for launch in launches) / 1e9
    return sum(launch.counts[Counter.SAMPLES] for launch in launches) / SAMPLES_PER_S / cpu_s if cpu_s else None


def _stacks(launch: Profile) -> list[list[StackFrame]]:
    return [[launch.frames[at] for at in stack.frames] for stack in launch.stacks]


def _layer(frames: Sequence[StackFrame], layers: Sequence[Layer]) -> str:
    return next((layer.name for layer in layers if layer.has(frames)), "")


def _parts(launches: Sequence[Profile], named: Sequence[Sequence[str]]) -> Parts | None:
    """Parts from the name of each stack's part; None without launches, CPU time or enough samples."""
    counted: list[Mapping[str, int]] = []
    for launch, names in zip(launches, named, strict=True):
        counts: dict[str, int] = {}
        for name, stack in zip(names, launch.stacks, strict=True):
            counts[name] = counts.get(name, 0) + stack.samples
        counted.append(counts)
    known_us = [us for launch in launches if (us := sampled_us(launch)) is not None]
    enough = all(sum(counts.values()) >= LEAST_SAMPLES for counts in counted)
    if not launches or not enough or len(known_us) < len(launches):
        return None
    return Parts(counts=tuple(counted), whole_us=tuple(known_us))


def sampled_us(launch: Profile) -> float | None:
    """CPU µs per response that the samples are of: in user mode only, if the kernel was not sampled."""
    which = Counter.CPU_NS if Counter.KERNEL_SAMPLES in launch.counts else Counter.USER_NS
    total_ns = launch.counts.get(which)
    return None if total_ns is None else total_ns / 1e3 / launch.answered
