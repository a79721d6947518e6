"""CPU time by stack as one tree: each function under its caller, with the time of all that it calls there.

The same test as for functions, over launches. The wider nodes are one family; narrow ones are shown without a test,
because each member of a family costs all others power.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dragstrip.analysis.function_names import INTERRUPTS_ON, function
from dragstrip.analysis.interval import FloatArray
from dragstrip.analysis.launch_differences import LaunchDifference, LaunchNumbers, differences, shares
from dragstrip.analysis.layers import LEAST_SAMPLES, sampled_us
from dragstrip.record import CodePlace, Profile, Stack

#: Nodes with a smaller share of the whole are left out; it grows until at most ``MAX_NODES`` are left.
LEAST_SHARE, MAX_NODES = 0.001, 2_000

#: Nodes with a smaller share of the whole are not tested.
LEAST_TESTED = 0.01

#: The name of the node that has everything.
WHOLE = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallNode:
    """A function under its callers.

    Args:
        name: with its file. depth: 0 for the whole.
        start_us: where it begins if nodes are drawn to scale.
        cpu_us: CPU µs per response of each contender.
        difference: of the second contender to the first, never significant if the node was not tested; None in the
            tree of a single contender.
    """

    name: str
    place: CodePlace
    depth: int
    start_us: float
    cpu_us: tuple[float, ...]
    difference: LaunchDifference | None = None

    @property
    def width_us(self) -> float:
        """How wide it is if nodes are drawn to scale: the mean over contenders."""
        return sum(self.cpu_us) / len(self.cpu_us)


@dataclass(slots=True)
class _Branch:
    """A node while it is made: samples by launch, and what it calls by name."""

    name: str
    place: CodePlace
    samples: FloatArray
    calls: dict[str, _Branch] = field(default_factory=dict)


def call_tree(contenders: Sequence[Sequence[Profile]], *, alpha: float = 0.05) -> tuple[CallNode, ...]:
    """The tree of one contender, or of two versions of a server.

    Each node is before those that it calls, the widest first. Empty unless every launch has enough samples and its CPU
    time.
    """
    launches = [launch for mine in contenders for launch in mine]
    known_us = [us for launch in launches if (us := sampled_us(launch)) is not None]
    totals = np.array([sum(stack.samples for stack in launch.stacks) for launch in launches], dtype=float)
    if not all(contenders) or len(known_us) < len(launches) or totals.min() < LEAST_SAMPLES:
        return ()
    whole_us = np.array(known_us)
    counts = [len(mine) for mine in contenders]
    ends = np.cumsum(counts)
    sides = [slice(int(end) - count, int(end)) for count, end in zip(counts, ends, strict=True)]

    def numbers(branch: _Branch) -> list[LaunchNumbers]:
        return [shares(*(values[side].tolist() for values in (branch.samples, totals, whole_us))) for side in sides]

    shown = list(_laid_out(_grown(launches), totals / whole_us, sides))
    if len(sides) == 1:
        return tuple(node for node, _ in shown)
    # Nodes with the same samples, such as a function and its only caller, are one test.
    least_us = LEAST_TESTED * shown[0][0].width_us
    tested: dict[bytes, LaunchDifference] = {}
    for is_wide in (True, False):
        family = {branch.samples.tobytes(): branch for node, branch in shown if (node.width_us >= least_us) is is_wide}
        pairs = [(first, second) for first, second in map(numbers, family.values())]
        made = differences(pairs, alpha=alpha, scatter_alike=True)
        found = (known if is_wide else replace(known, significant=False) for known in made)
        tested |= dict(zip(family, found, strict=True))
    return tuple(replace(node, difference=tested[branch.samples.tobytes()]) for node, branch in shown)


def _grown(launches: Sequence[Profile]) -> _Branch:
    """All stacks in one tree."""
    whole = _Branch(WHOLE, CodePlace.USER, np.zeros(len(launches)))
    for at, launch in enumerate(launches):
        named = [(function(frame), frame.place) for frame in launch.frames]
        for stack in launch.stacks:
            whole.samples[at] += stack.samples
            branch = whole
            for name, place in _outermost_first(launch, stack, named):
                if name == branch.name:  # a function that calls itself is one node
                    continue
                if name not in branch.calls:
                    branch.calls[name] = _Branch(name, place, np.zeros(len(launches)))
                branch = branch.calls[name]
                branch.samples[at] += stack.samples
    return whole


def _outermost_first(
    launch: Profile, stack: Stack, named: Sequence[tuple[str, CodePlace]]
) -> Iterator[tuple[str, CodePlace]]:
    """Names and places of a stack's frames, without innermost functions that only switch interrupts on."""
    frames = list(stack.frames)
    while frames and launch.frames[frames[0]].name in INTERRUPTS_ON:
        del frames[0]
    for at in reversed(frames):
        yield named[at]


def _laid_out(whole: _Branch, samples_per_us: FloatArray, sides: Sequence[slice]) -> Iterator[tuple[CallNode, _Branch]]:
    """The nodes that are wide enough, with their places; each before those that it calls."""

    def node(branch: _Branch, depth: int) -> CallNode:
        cpu_us = tuple(float((branch.samples[side] / samples_per_us[side]).mean()) for side in sides)
        return CallNode(name=branch.name, place=branch.place, depth=depth, start_us=0.0, cpu_us=cpu_us)

    def walk(shown: CallNode, branch: _Branch, least_us: float) -> Iterator[tuple[CallNode, _Branch]]:
        yield shown, branch
        calls = [(node(call, shown.depth + 1), call) for call in branch.calls.values()]
        start_us = shown.start_us
        for called, call in sorted(calls, key=lambda item: -item[0].width_us):
            if called.width_us >= least_us:
                yield from walk(replace(called, start_us=start_us), call, least_us)
                start_us += called.width_us

    root = node(whole, 0)
    least_us = LEAST_SHARE * root.width_us
    while len(nodes := list(walk(root, whole, least_us))) > MAX_NODES:
        least_us *= 1.5
    yield from nodes
