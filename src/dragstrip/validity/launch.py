"""What one contender's launches were like: died, never settled, rarely slow, of two kinds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np
from numpy.typing import NDArray

from dragstrip.analysis import Pair
from dragstrip.quantities import as_percent
from dragstrip.record import Block, Launch, Race
from dragstrip.validity.check import Finding, Status

#: Linux's number of the signal that no process can ignore.
SIGKILL = 9

#: Fewest launches among which kinds can be recognised.
MIN_LAUNCHES = 10

#: Ashman's D above which two groups of launches are two kinds; the best split of one normal kind reaches 2.7.
TWO_KINDS = 5.0

#: Launches of two kinds need this many rounds, otherwise the mean depends on how many of each were met.
KINDS_ROUNDS = 20

#: A pair whose contender has slow launches needs this many: few of them may have been met so far.
UNEVEN_ROUNDS = 30

#: How far a quarter of launches that are 17 % slower would move a mean of log ratios, if none of them was met.
UNMET = 0.047

#: The smaller kind's share, from which on it is a kind and not a few rare ones.
KIND_SHARE = 0.15

#: A rare slow launch is this far below the median: both in robust standard deviations and as a share.
RARE_DEVIATIONS, RARE_SHARE = 6.0, 0.05


def round_speeds(blocks: Sequence[Block]) -> dict[int, float]:
    """One contender's log throughput per round, less its median over rounds."""
    requests, counted_ns = Counter[int](), Counter[int]()
    for block in blocks:
        requests[block.round] += block.requests
        counted_ns[block.round] += block.counted_ns
    logs = {index: math.log(count / counted_ns[index]) for index, count in requests.items() if count > 0}
    middle = median(logs.values()) if logs else 0.0
    return {index: value - middle for index, value in logs.items()}


@dataclass(frozen=True, slots=True)
class Uneven:
    """How one contender's launches differ from each other.

    Args:
        slow: rounds of rare slow launches, each with its speed as a share of the median's.
        kinds: if they are of two: the slower kind's share, and by how much it is slower.
    """

    slow: Mapping[int, float] = field(default_factory=dict)
    kinds: tuple[float, float] | None = None


def launch_findings(
    name: str, launches: Sequence[Launch], speeds: Mapping[int, float], others: Sequence[Mapping[int, float]]
) -> list[Finding]:
    """What is worth a warning; empty if all launches went well and were alike.

    Args:
        speeds: the contender's own ``round_speeds``; others: the other contenders'.
    """
    seen: list[tuple[str, str]] = []
    of_launches = f"of {len(launches)} launches"
    if died := ", ".join(str(launch.round) for launch in launches if launch.died):
        seen.append((f"{name} exited unexpectedly in round {died}", "see its log"))
    if killed := sum(launch.exit_status == -SIGKILL and not launch.died for launch in launches):
        remedy = "a stop signal that no process obeys costs 15 s each time; let its wrapper start it by exec"
        seen.append((f"{name} was ended by SIGKILL in {killed} {of_launches}", remedy))
    if unsettled := sum(not launch.settled for launch in launches):
        text = f"{name}'s warm-up had not ended in {unsettled} {of_launches}"
        seen.append((text, "give it longer in its definition (warm_up)"))
    shapes = {(launch.processes, launch.threads) for launch in launches}
    threads = [launch.threads for launch in launches] or [0]
    # Runtimes start a helper thread more or less as they need it; another number of processes is another set-up.
    if len({processes for processes, _ in shapes}) > 1 or max(threads) >= 2 * max(min(threads), 1):
        listed = ", ".join(f"{processes} and {threads}" for processes, threads in sorted(shapes))
        seen.append((f"{name} started with different numbers of processes and threads: {listed}", ""))
    seen += _uneven(name, speeds, uneven_launches(speeds, others))
    return [Finding(Status.WARN, text, remedy, each=True, contender=name) for text, remedy in seen]


def _uneven(name: str, speeds: Mapping[int, float], uneven: Uneven) -> Iterator[tuple[str, str]]:
    """Rare slow launches, or launches of two kinds, in words, and what to do."""
    if uneven.slow:
        listed = ", ".join(f"round {index} at {as_percent(share)} of it" for index, share in uneven.slow.items())
        count = f"{len(uneven.slow)} of {name}'s {len(speeds)} launches"
        yield f"{count} were far slower than its median: {listed}", ""
    if uneven.kinds:
        share, slower = uneven.kinds
        remedy = "the mean mixes both groups; find out what differs from start to start"
        if len(speeds) < KINDS_ROUNDS:
            remedy = f"take {KINDS_ROUNDS} rounds or more (--rounds {KINDS_ROUNDS})"
        groups = f"{as_percent(share)} of them are {as_percent(slower)} slower"
        yield f"{name}'s launches fall into two groups: {groups}", remedy


def uneven_launches(speeds: Mapping[int, float], others: Sequence[Mapping[int, float]]) -> Uneven:
    """Rare slow launches are listed and two kinds named, not silently averaged.

    Both must show in its own speeds, and in these less the median of the other contenders' in the same round.
    Otherwise a slow stretch of the machine, or another contender's slow launch, would be taken for its own.
    """
    if len(speeds) < MIN_LAUNCHES:
        return Uneven()
    rounds = sorted(speeds)
    logs = np.array([speeds[index] for index in rounds])
    met = np.array([median([other[index] for other in others if index in other] or [0.0]) for index in rounds])
    slow = _rare(logs) & _rare(logs - met)
    if slow.any():
        return Uneven(slow={rounds[i]: math.exp(logs[i]) for i in np.flatnonzero(slow)})
    share, slower = _kinds(logs)
    return Uneven(kinds=(share, slower) if share and _kinds(logs - met)[0] else None)


def _speeds(race: Race) -> dict[str, dict[int, float]]:
    """The ``round_speeds`` of all contenders that are still in the race."""
    used = [block for round_ in race.rounds if not round_.void for block in round_.blocks if not block.void]
    return {
        entrant.name: round_speeds([block for block in used if block.contender == entrant.name])
        for entrant in race.entrants
        if not entrant.out
    }


def of_two_kinds(race: Race) -> bool:
    """Whether a contender's launches look like two kinds, so that a verdict should wait for ``KINDS_ROUNDS`` rounds."""
    speeds = _speeds(race)
    return any(
        uneven_launches(speed, [other for rival, other in speeds.items() if rival != name]).kinds is not None
        for name, speed in speeds.items()
    )


def held(race: Race, pairs: Sequence[Pair]) -> frozenset[str]:
    """Contenders that go on although their pair is decided, because launches that it has not met could turn it.

    A pair is held until ``KINDS_ROUNDS``, or ``UNEVEN_ROUNDS`` if one of the two has had slow launches, unless it is
    so far apart that a quarter of slow launches would leave its verdict.
    """
    near = [pair for pair in pairs if pair.decided and _near(pair) and pair.rounds < UNEVEN_ROUNDS]
    if race.plan.rounds_fixed or not near:
        return frozenset()
    speeds = _speeds(race)
    uneven = {
        name
        for name in {name for pair in near for name in (pair.a, pair.b)}
        if uneven_launches(speeds[name], [other for rival, other in speeds.items() if rival != name]) != Uneven()
    }
    short = [pair for pair in near if pair.rounds < (UNEVEN_ROUNDS if {pair.a, pair.b} & uneven else KINDS_ROUNDS)]
    return frozenset(name for pair in short for name in (pair.a, pair.b))


def _near(pair: Pair) -> bool:
    return not pair.verdict.separated or min(abs(math.log(pair.low)), abs(math.log(pair.high))) < UNMET


def _rare(logs: NDArray[np.float64]) -> NDArray[np.bool_]:
    below = np.median(logs) - logs
    scatter = 1.4826 * float(np.median(np.abs(below)))
    slow: NDArray[np.bool_] = (below > RARE_DEVIATIONS * scatter) & (below > RARE_SHARE)
    return slow if slow.mean() < KIND_SHARE else np.zeros_like(slow)


def _kinds(logs: NDArray[np.float64]) -> tuple[float, float]:
    """Share of the slower kind and by how much it is slower; (0, 0) if there is one kind (Ashman et al. 1994)."""
    ordered = np.sort(logs)
    n = len(ordered)
    cut = min(range(1, n), key=lambda k: ordered[:k].var() * k + ordered[k:].var() * (n - k))
    slow, fast = ordered[:cut], ordered[cut:]
    apart = float(fast.mean() - slow.mean())
    within = math.sqrt(float(slow.var() + fast.var()))
    if min(cut, n - cut) < max(KIND_SHARE * n, 3) or apart < 0.01 or math.sqrt(2) * apart <= TWO_KINDS * within:
        return 0.0, 0.0
    return cut / n, 1 - math.exp(-apart)
