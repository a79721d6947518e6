"""Which faults of a measurement may pass: what else the machine did just then, as against what comes again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dragstrip.inquiry.findings import VOID, Check
from dragstrip.record import Race

#: Checks that void by what others did on the race's cores.
_CHECKS = frozenset({"engine wait", "server wait", "steal"})

#: The same as kinds of reasons of a block or a round.
_KINDS = frozenset({"engine waited", "server waited", "steal", "clock"})

#: A round's reason that only repeats those of its blocks.
_REPEATS = "too few passes"


def causes(race: Race) -> Counter[str]:
    """Kinds of reasons that voided rounds, and blocks of contenders still in the race; how often each was met."""
    racing = {entrant.name for entrant in race.entrants if not entrant.out}
    why: Counter[str] = Counter()
    for this in race.rounds:
        why.update(reason.split(":")[0] for reason in this.void)
        why.update(kind.split(":")[0] for block in this.blocks if block.contender in racing for kind in block.void)
    if len(why) > 1:
        why.pop(_REPEATS, None)
    return why


def may_pass(race: Race, checks: Sequence[Check]) -> bool:
    """Whether a void measurement may come out sound at another time, on the same machine with the same programs.

    Others on its cores, steal and a clock that is set pass. A generator that is the limit, wrong answers, failures, a
    speed that still rises, an engine's fault come again: what one of those voids would be void each time. Where both
    are met the first count: the others may have come of them, and are left alone if another time brings them again.
    """
    void = {check.check for check in checks if check.status == VOID}
    if void & _CHECKS:
        return True
    if "void passes" not in void and race.finished != "void":
        return False
    met = causes(race).most_common(1)
    return not met or met[0][0] in _KINDS
