"""What voided passes, and which faults may be gone at another time, as opposed to faults that come again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dragstrip.record import Ending, Race, Void, VoidKind


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
