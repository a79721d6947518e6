"""What of a race can stand where a check says void: pairs of contenders that no such check names.

A check that is void by something of one contender (the generator was its limit, its answers were wrong) says nothing
against the others' ratios; one that names nobody is void for the whole race.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragstrip.record import Race
from dragstrip.report import figures
from dragstrip.report.race.parts import parts
from dragstrip.validity import Check, CheckName, Status

if TYPE_CHECKING:
    from dragstrip.analysis import ColumnVerdict, Pair, UnfitReason, Verdict


def void_contenders(race: Race, checks: Sequence[Check]) -> frozenset[str]:
    """Contenders whose numbers can't stand: those that void checks name; all where one of them names nobody."""
    everybody = frozenset(entrant.name for entrant in race.entrants)
    if race.finished == "void":
        return everybody
    found: frozenset[str] = frozenset()
    for check in checks:
        if check.status is Status.VOID:
            found |= check.about & everybody or everybody
    return found


def unjudged(verdict: ColumnVerdict) -> dict[str, UnfitReason]:
    """Contenders that the judgement compares with nobody, and why; nobody where that would leave fewer than two."""
    names = dict.fromkeys(name for pair in verdict.pairs for name in (pair.a, pair.b))
    found = {name: why for pair in verdict.pairs for why, about in pair.unfit for name in about}
    return found if len(names) - len(found) >= 2 else {}


def valid_pairs(race: Race, verdict: ColumnVerdict, checks: Sequence[Check]) -> list[Pair]:
    """A column's pairs with an interval, by the metric that decides, that no void check touches."""
    bad = void_contenders(race, checks)
    return [pair for pair in verdict.pairs if figures.finite(pair.low) is not None and not {pair.a, pair.b} & bad]


def is_column_void(race: Race, verdict: ColumnVerdict, checks: Sequence[Check]) -> bool:
    """Whether no measurement of a column is a result."""
    void = race.finished == "void" or any(check.status is Status.VOID for check in checks)
    return void and not valid_pairs(race, verdict, checks)


def is_void(race: Race, verdict: Verdict, checks: Sequence[Check]) -> bool:
    """Whether no measurement of a race is a result: every column is void."""
    return all(is_column_void(part.race, part.verdict, part.checks) for part in parts(race, verdict, checks))


def no_result_reason(race: Race, verdict: Verdict, checks: Sequence[Check]) -> str:
    """Why a race that is over has no result at all, and what would give one on this machine; "" where it has one."""
    if race.finished in ("", "interrupted", "too few contenders"):
        numbers = True  # it was not over: nothing is refused
    else:
        numbers = any(figures.finite(pair.ratio) is not None for pair in verdict.pairs)
    if numbers and not is_void(race, verdict, checks):
        return ""
    causes = [check for check in checks if check.status is Status.VOID]
    if causes:
        return f"no valid result, because of the check “{figures.check(causes[0].label)}”: {advice(race, causes[0])}"
    return f"no valid result, because no round has two valid contenders: {advice(race, None)}"


def advice(race: Race, check: Check | None) -> str:
    """What to do on this very machine, by its own facts: cores, virtual or not, whether its cores were kept awake."""
    cores = len({*race.server_cores, *race.engine_cores}) or 1
    steps = []
    if check is None:
        if race.machine.is_virtual:
            host = race.machine.virtual
            steps.append(f"this is a virtual machine ({host}), whose host may be busy: race again at another time")
        else:
            steps.append("end other programs on its cores and race again")
        if not race.machine.kept_awake:
            steps.append("keep its cores awake (--awake auto)")
        if cores <= 2:
            steps.append("with two cores or fewer, any other program disturbs the race")
    elif check.name is CheckName.LITTLES_LAW:
        more = "this machine has no cores to spare for it" if cores <= 2 else "give it more cores (--engine-cores)"
        steps.append(f"the load generator was the limit, and {more}; the CPU time per request can still be compared")
        steps.append("race again with --metric cpu")
    else:
        steps.append("`dragstrip verify NAME` shows what that contender does; the check's own line says what was seen")
    return "; ".join(steps)
