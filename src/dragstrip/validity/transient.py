"""What voided passes, and which faults may pass: what else the machine did just then, as against what comes again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dragstrip.record import Race, Void, VoidKind
from dragstrip.validity.check import Check, CheckName, Status

#: Checks that void by what others did on the race's cores.
_CHECKS = frozenset({CheckName.ENGINE_WAIT, CheckName.SERVER_WAIT, CheckName.STEAL})

#: The same as kinds of reasons of a block or a round.
_KINDS = frozenset({VoidKind.ENGINE_WAITED, VoidKind.SERVER_WAITED, VoidKind.STEAL, VoidKind.CLOCK})

#: More void passes than this share void the race.
MOST_VOID_PASSES = 1 / 3

#: A round's reason that only repeats those of its blocks.
_REPEATS = VoidKind.TOO_FEW_PASSES


def void_passes(race: Race) -> dict[tuple[int, int], frozenset[VoidKind]]:
    """Each pass of contenders still in the race, by round and index: the kinds of reasons that void it.

    Empty where the pass counts. A round's reasons void all its passes.
    """
    racing = {entrant.name for entrant in race.entrants if not entrant.out}
    why: dict[tuple[int, int], frozenset[VoidKind]] = {}
    for this in race.rounds:
        whole = _kinds(this.void)
        for block in this.blocks:
            if block.contender in racing:
                key = (this.index, block.pass_index)
                why[key] = why.get(key, whole) | _kinds(block.void)
    return why


def _kinds(reasons: Sequence[Void]) -> frozenset[VoidKind]:
    return frozenset(reason.kind for reason in reasons)


def void_share(race: Race, *, more: int = 0) -> float:
    """Share of the passes that are void; with so many more rounds, if nothing of them were."""
    passes = void_passes(race)
    of = len(passes) + more * race.plan.passes
    return sum(map(bool, passes.values())) / of if of else 0.0


def causes(race: Race) -> Counter[VoidKind]:
    """Kinds of reasons that voided passes of contenders still in the race; how many passes each."""
    why = Counter(kind for kinds in void_passes(race).values() for kind in sorted(kinds))
    # A round that left no block has no passes, but a reason.
    why.update(kind for this in race.rounds if not this.blocks for kind in _kinds(this.void))
    if len(why) > 1:
        why.pop(_REPEATS, None)
    return why


def may_pass(race: Race, checks: Sequence[Check]) -> bool:
    """Whether a void measurement may come out sound at another time, on the same machine with the same programs.

    Others on its cores, steal and a clock that is set pass. A generator that is the limit, wrong answers, failures, a
    speed that still rises, an engine's fault come again: what one of those voids would be void each time. Where both
    are met the first count: the others may have come of them, and are left alone if another time brings them again.
    """
    void = {check.name for check in checks if check.status is Status.VOID}
    if void & _CHECKS:
        return True
    if CheckName.VOID_PASSES not in void and race.finished != "void":
        return False
    return by_passing(race)


def by_passing(race: Race) -> bool:
    """Whether what voided most of its void passes may pass; also where none is void."""
    met = causes(race).most_common(1)
    return not met or met[0][0] in _KINDS
