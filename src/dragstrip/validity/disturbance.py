"""How much a race was disturbed as a whole: what the machine costs in the intervals' width, what voided passes. Pure.

Method: ``docs/METHOD.md``, "Noise". Steal, run-queue waits and other programs void nothing:
what they cost is measured here and shown next to the verdict.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dragstrip.analysis.cpu_shares import usual_waits
from dragstrip.analysis.fitness import by_contender, choose, lost_shares, shares_lane, taken
from dragstrip.record import Block, Ending, Race, Void, VoidKind

Level = Literal["quiet", "disturbed", "very disturbed", "unknown"]

#: Lost shares and factors from which on a machine counts as disturbed, and as very disturbed.
LOST, FACTOR = (0.02, 0.15), (1.5, 3.0)

#: A block in which others took less than this is as on a quiet machine; minimum number of such blocks in a round of
#: each contender, and minimum number of rounds, for which a scatter is computed.
CALM, MIN_CALM, MIN_ROUNDS = 0.01, 3, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How disturbed the machine was.

    Args:
        level: "quiet", "disturbed" or "very disturbed"; "unknown" if no round counts, or if the race
            shares its cores with the engine or the database.
        lost: the share of the race's time on its cores that other programs and the hypervisor took, 0 to 1; None if
            the level is unknown.
        factor: how many times as wide the intervals are as they would be on a quiet machine, from 1 on; None if
            it can't be determined.
    """

    level: Level
    lost: float | None
    factor: float | None


def noise(race: Race) -> Noise:
    """How much the machine disturbed this race: by time lost, and by how much more blocks scatter than calm ones do."""
    rounds = [round_ for round_ in race.rounds if not round_.void]
    shares = lost_shares(race, rounds)
    if not shares:
        return Noise(level="unknown", lost=None, factor=None)
    # A block's share adds up what was taken from the engine's core and from the server's: of both, that is the half.
    lost, factor = sum(shares.values()) / len(shares) / 2, _factor(race)
    grade = max(sum(lost > limit for limit in LOST), sum((factor or 1.0) > limit for limit in FACTOR))
    if grade == 0 and shares_lane(race):
        # Waits for a shared core may be the race's own or other programs': a quiet machine can't be recognised.
        return Noise(level="unknown", lost=None, factor=None)
    levels: tuple[Level, ...] = ("quiet", "disturbed", "very disturbed")
    return Noise(level=levels[grade], lost=lost, factor=factor)


def _factor(race: Race) -> float | None:
    """Scatter of round numbers from all blocks over that from calm blocks alone, as if those were as many.

    Each contender's log number less the mean of all in the round: what rounds share cancels in every pair as well.
    """
    metric = choose(race).metric
    rounds = [round_ for round_ in race.rounds if not round_.void]
    waits = usual_waits((block for round_ in rounds for block in round_.blocks), len(race.server_cores))
    every, calm, shares = [], [], []
    for round_ in rounds:
        share = taken(race, round_, waits)
        valid = by_contender(race, [round_])
        quiet = {
            name: [block for block in blocks if share(block) < CALM and not block.steal_ns]
            for name, blocks in valid.items()
        }
        if len(valid) < 2 or min(map(len, quiet.values())) < MIN_CALM:
            continue
        every.append(_apart([_value(blocks, metric) for blocks in valid.values()]))
        calm.append(_apart([_value(blocks, metric) for blocks in quiet.values()]))
        shares.append(sum(map(len, quiet.values())) / sum(map(len, valid.values())))
    if len(every) < MIN_ROUNDS:
        return None
    scatter = [math.sqrt(sum(value * value for row in _centred(all_) for value in row)) for all_ in (every, calm)]
    # Of fewer blocks, a mean scatters more: by the square root of how many fewer.
    return max(scatter[0] / (scatter[1] * math.sqrt(sum(shares) / len(shares))), 1.0) if scatter[1] > 0 else None


def _apart(values: Sequence[float]) -> tuple[float, ...]:
    middle = sum(values) / len(values)
    return tuple(value - middle for value in values)


def _centred(rounds: Sequence[Sequence[float]]) -> list[list[float]]:
    """Each contender's values less their mean over rounds; contenders that were not in all rounds are left out."""
    if len({len(row) for row in rounds}) > 1:
        most = max(len(row) for row in rounds)
        rounds = [row for row in rounds if len(row) == most]
    means = [sum(column) / len(rounds) for column in zip(*rounds, strict=True)]
    return [[value - mean for value, mean in zip(row, means, strict=True)] for row in rounds]


def _value(blocks: Sequence[Block], metric: str) -> float:
    """A round's log CPU time per response if CPU time decides, otherwise its log rate."""
    if metric == "cpu":
        spent, of = sum(block.server_cpu_ns or 0 for block in blocks), sum(block.answered for block in blocks)
    else:
        spent, of = sum(block.requests for block in blocks), sum(block.counted_ns for block in blocks)
    return math.log(max(spent, 1) / max(of, 1))


def void_passes(race: Race) -> dict[tuple[int, int], frozenset[VoidKind]]:
    """Each pass of contenders still in the race, by round and index: the kinds of reasons that void it.

    Empty if the pass counts. A round's reasons void all its passes.
    """
    racing = {entrant.name for entrant in race.entrants if not entrant.out}
    why: dict[tuple[int, int], frozenset[VoidKind]] = {}
    for round_ in race.rounds:
        whole = _kinds(round_.void)
        for block in round_.blocks:
            if block.contender in racing:
                key = (round_.index, block.pass_index)
                why[key] = why.get(key, whole) | _kinds(block.void)
    return why


def _kinds(reasons: Sequence[Void]) -> frozenset[VoidKind]:
    return frozenset(reason.kind for reason in reasons)


def causes(race: Race) -> Counter[VoidKind]:
    """Kinds of reasons that voided passes of contenders still in the race; how many passes each."""
    why = Counter(kind for kinds in void_passes(race).values() for kind in sorted(kinds))
    # A round that left no block has no passes, but a reason.
    why.update(kind for round_ in race.rounds if not round_.blocks for kind in _kinds(round_.void))
    return why


def may_pass(race: Race) -> bool:
    """Whether a void measurement may be valid at another time, on the same machine with the same programs.

    A clock that is set may not be set again. A generator that is the limit, incorrect responses, failures, an engine's
    fault come again: what one of those voids would be void each time.
    """
    return race.finished is Ending.VOID and by_passing(race)


def by_passing(race: Race) -> bool:
    """Whether most of its void passes are void by a clock that was set, or none is void."""
    met = causes(race).most_common(1)
    return not met or met[0][0] == VoidKind.CLOCK
