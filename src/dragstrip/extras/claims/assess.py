"""What a race shows about a claim. Pure: a claim and a record in, a finding out, the same at any time."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from dragstrip import analysis
from dragstrip.analysis.fitness import UnfitReason, unfit, unfit_text
from dragstrip.extras.claims.contenders import entry_of
from dragstrip.extras.claims.definition import Claim
from dragstrip.extras.claims.finding import Again, ClaimFinding, CountedRun, Outcome, VoidFor
from dragstrip.metrics import PairVerdict
from dragstrip.quantities import as_percent, two_digits
from dragstrip.record import Ending, Entrant, EventKind, Race
from dragstrip.store.json_values import decode
from dragstrip.validity import Check, CheckName, Status, by_passing, held_by_generator, inspect, may_pass, noise
from dragstrip.validity.messages import void_text

#: Facts of the parity sheet whose difference tilts a comparison.
TILTING = (
    "processes, threads",
    "header bytes",
    "body framing",
    "keep-alive on the wire",
    "code cache",
)

#: Checks whose warnings are shown, because a publisher could not see what they found.
SHOWN_WARNINGS = (CheckName.GENERATOR, CheckName.SATURATION, CheckName.ERRORS, CheckName.LAUNCHES)


def assess(claim: Claim, setting: str, race: Race) -> ClaimFinding:
    """What a race shows about a claim."""
    raced, stand_ins = _raced(claim, setting, race)
    http, wanted = race.load.http, claim.load(setting).http
    remarks = [] if http == wanted else [f"over HTTP/{http}; published over HTTP/{wanted}"]
    fallen = [f"{entrant.name} is out of the race: {entrant.out}" for entrant in raced if entrant.out]
    if fallen:
        finding = ClaimFinding(claim=claim, outcome=Outcome.CANNOT, why="; ".join(fallen))
    elif claim.fields.kind == "ends":
        finding = _ends(claim, race, [entrant.name for entrant in raced])
    else:
        finding, more = _judged(claim, race, raced)
        remarks += more
    return replace(finding, race=race.id, remarks=tuple(remarks), stand_ins=stand_ins)


def _judged(claim: Claim, race: Race, raced: Sequence[Entrant]) -> tuple[ClaimFinding, list[str]]:
    """The judgement of a race, and what the parity sheet and the checks add to it."""
    names = [entrant.name for entrant in raced]
    # As if only these had raced: another contender's fault does not count against them.
    alone = analysis.with_column(race, 0, raced)
    held = held_by_generator(alone) if race.plan.metric == "cpu" and claim.fields.kind != "peak" else ()
    judged = analysis.judge_column(race, metric="cpu" if held else "throughput")
    finding = replace(_JUDGES[claim.fields.kind](claim, judged, names), metric=judged.metric)
    checks = inspect(alone)
    about = names[:1] if claim.fields.kind == "peak" else names
    voided = _void(alone, checks) or _without_verdict(alone, judged, about, checks)
    if voided is not None:
        void, why = voided
        finding = replace(finding, outcome=Outcome.UNDECIDED, void=void, why=why)
    finding = _with_again(alone, finding)
    remarks = _unequal(raced)
    if held:
        remarks.append(
            f"decided by the servers' CPU time per request: the client, not {' or '.join(held)}, was the limit, so "
            "that rates under this load, the published ones too, may be the client's own"
        )
    remarks += [pair.disturbed.text for pair in judged.pairs if pair.disturbed and {pair.a, pair.b} <= set(about)]
    remarks += [check.detail for check in checks if check.status is Status.WARN and check.name in SHOWN_WARNINGS]
    return finding, remarks


def _void(race: Race, checks: Sequence[Check]) -> tuple[VoidFor, str] | None:
    """How a measurement is void and why; None if it is valid."""
    why = next((check.detail for check in checks if check.status is Status.VOID), None)
    if why is None and race.finished is Ending.VOID:
        last = (void_text(void) for round_ in reversed(race.rounds) for void in round_.void)
        why = f"given up after too many void rounds, the last because: {next(last, 'they were void')}"
    return None if why is None else (VoidFor.PASSING if may_pass(race) else VoidFor.LASTING, why)


def _without_verdict(
    race: Race, judged: analysis.ColumnVerdict, names: Sequence[str], checks: Sequence[Check]
) -> tuple[VoidFor, str] | None:
    """How and why these contenders have no valid verdict in a race that no check voids; None if they have one.

    A contender's fault invalidates its own pairs, and a void block its own round.
    """
    reasons = unfit(race, judged.metric) | dict.fromkeys(judged.warming, UnfitReason.WARMING)
    spoilt = [name for name in names if name in reasons]
    if spoilt:
        contenders = {why: tuple(name for name in spoilt if reasons[name] == why) for why in reasons.values()}
        return VoidFor.LASTING, unfit_text((why, group) for why, group in contenders.items() if group)
    pairs = [pair.rounds for pair in judged.pairs if {pair.a, pair.b} <= set(names)]
    fewest = min([*pairs, *(judged.estimates[name].rounds for name in names)])
    if not judged.rounds or (fewest and not fewest < analysis.FLOOR <= judged.rounds):
        return None
    passes = next(check for check in checks if check.name is CheckName.VOID_PASSES)
    why = f"{fewest} of {judged.rounds} rounds count for {' and '.join(names)} ({passes.detail})"
    return (VoidFor.PASSING if by_passing(race) else VoidFor.LASTING), why


def _with_again(race: Race, finding: ClaimFinding) -> ClaimFinding:
    """The finding, with how another race may show more, if it may.

    A decided claim stays decided, however disturbed the machine was: the interval includes the disturbance.
    """
    again, disturbed = finding.void is VoidFor.PASSING, None
    if finding.void is None:
        again = sum(not round_.void for round_ in race.rounds) < analysis.FLOOR
        if not again and finding.outcome is Outcome.UNDECIDED:
            disturbance = noise(race)
            again = disturbance.level == "very disturbed"
            disturbed = disturbance.lost if again else None
    if not again:
        return finding
    return replace(finding, disturbed=disturbed, again=Again.GO_ON if race.finished.goes_on else Again.RACE)


def is_done(claim: Claim, setting: str, race: Race) -> bool:
    """Whether another race would show nothing new about a claim.

    ``Finding.again`` decides. A contender that was taken out would be taken out again.
    """
    return assess(claim, setting, race).again is None


def names_of(claim: Claim, setting: str) -> list[tuple[str, str | None]]:
    """Each contender's name in a race, with the name of its stand-in, if it has one."""
    names = []
    for word in claim.contenders(setting):
        other = claim.stand_in(word)
        names.append((entry_of(claim, word).name, entry_of(claim, other).name if other else None))
    return names


def covers(claim: Claim, setting: str, race: Race) -> bool:
    """Whether every contender of a claim, or its stand-in, was entered in a race."""
    entered = {entrant.name for entrant in race.entrants}
    return all(name in entered or other in entered for name, other in names_of(claim, setting))


def _raced(claim: Claim, setting: str, race: Race) -> tuple[list[Entrant], tuple[str, ...]]:
    """The race's entrants that a claim is about, in the claim's order, and which of them are substitutes."""
    entered = {entrant.name: entrant for entrant in race.entrants}
    raced, stand_ins = [], []
    for name, other in names_of(claim, setting):
        used = name if name in entered or other is None else other
        if used != name:
            stand_ins.append(f"{used} raced for {name}, which is missing here")
        raced.append(entered[used])
    return raced, tuple(stand_ins)


def _ratio(claim: Claim, judged: analysis.ColumnVerdict, names: Sequence[str]) -> ClaimFinding:
    first, second = names
    pair = _pair(judged, first, second)
    if pair is None:
        return ClaimFinding(claim=claim, outcome=Outcome.UNDECIDED, why="no round of both counts")
    outcome, why = _against(claim, _verdict_of(judged, first, second), pair)
    return _figured(claim, outcome, why, pair)


def _figured(claim: Claim, outcome: Outcome, why: str, interval: analysis.Interval) -> ClaimFinding:
    return ClaimFinding(
        claim=claim, outcome=outcome, why=why, ratio=interval.estimate, low=interval.low, high=interval.high
    )


def _against(claim: Claim, verdict: PairVerdict, interval: analysis.Interval) -> tuple[Outcome, str]:
    """A ratio's interval against the published ratio; ``verdict``: of the first over the second."""
    published, tolerance = claim.fields.ratio, claim.fields.tolerance
    if verdict is PairVerdict.SAME:
        return Outcome.SAME, "the two are the same within the race's margin"
    if verdict is PairVerdict.UNDECIDED:
        return Outcome.UNDECIDED, "the interval includes 1, or the race was too short for one"
    if (verdict is PairVerdict.FASTER) != (published is None or published > 1):
        return Outcome.OVERTURNED, "the other way round"
    if published is None:
        return Outcome.HOLDS, "as claimed; no size was"
    if interval.low <= published * (1 + tolerance) and interval.high >= published / (1 + tolerance):
        return Outcome.HOLDS, f"within {as_percent(tolerance)} of the published ratio"
    larger = (interval.low > published) == (published > 1)
    return Outcome.DIRECTION, f"the difference is {'larger' if larger else 'smaller'} than published"


def _same(claim: Claim, judged: analysis.ColumnVerdict, names: Sequence[str]) -> ClaimFinding:
    """No difference: every pair's interval within the claim's tolerance. The pair that differs most is shown."""
    pairs = {(a, b): _pair(judged, a, b) for a, b in combinations(names, 2)}
    known = {about: pair for about, pair in pairs.items() if pair is not None}
    if len(known) < len(pairs):
        why = "not every pair has a round that counts"
        return ClaimFinding(claim=claim, outcome=Outcome.UNDECIDED, why=why)
    about, interval = max(known.items(), key=lambda pair: abs(math.log(pair[1].estimate)))
    limit, within = 1 + claim.fields.tolerance, as_percent(claim.fields.tolerance)
    outcome, why = Outcome.UNDECIDED, f"an interval reaches beyond {within}"
    if all(1 / limit < pair.low and pair.high < limit for pair in known.values()):
        outcome, why = Outcome.HOLDS, f"all are the same within {within}"
    elif any(pair.low > limit or pair.high < 1 / limit for pair in known.values()):
        outcome, why = Outcome.OVERTURNED, f"they differ by more than {within}"
    return _figured(claim, outcome, f"{why}; most apart: {' over '.join(about)}", interval)


def _peak(claim: Claim, judged: analysis.ColumnVerdict, names: Sequence[str]) -> ClaimFinding:
    """A rate that no machine changes: the interval of the first contender's rate against the published one."""
    rate = judged.estimates[names[0]].throughput_per_s
    if rate is None or not math.isfinite(rate.low) or judged.rounds < analysis.FLOOR:
        return ClaimFinding(claim=claim, outcome=Outcome.UNDECIDED, why="too few rounds for an interval")
    (published,) = claim.fields.published.per_s
    limit = 1 + claim.fields.tolerance
    near = rate.low <= published * limit and rate.high >= published / limit
    within = f"within {as_percent(claim.fields.tolerance)} of"
    size = within if near else f"{two_digits(rate.estimate / published)} times"
    why = f"{names[0]} served {size} the published {published:,.0f} responses per second"
    return _figured(claim, Outcome.HOLDS if near else Outcome.OVERTURNED, why, rate)


def _ends(claim: Claim, race: Race, names: Sequence[str]) -> ClaimFinding:
    """A run that never ends: whether each contender's run to the published count ended by itself."""
    runs = [decode(CountedRun, json.loads(event.text)) for event in race.events if event.kind == EventKind.COUNTED_RUN]
    latest = {run.contender: run for run in runs if run.contender in names}
    if set(latest) < set(names):
        return ClaimFinding(claim=claim, outcome=Outcome.UNTRIED, why="its run to an exact count has not been made")
    raced = [latest[name] for name in names]
    stuck, ends = [run.contender for run in raced if run.stuck], "; ".join(run.text for run in raced)
    if not stuck:
        return ClaimFinding(claim=claim, outcome=Outcome.OVERTURNED, why=f"every run came to its end: {ends}")
    outcome = Outcome.HOLDS if len(stuck) == len(raced) else Outcome.DIRECTION
    why = f"requests were left without a response ({', '.join(stuck)}): {ends}"
    return ClaimFinding(claim=claim, outcome=outcome, why=why)


_JUDGES = {"ratio": _ratio, "direction": _ratio, "same": _same, "peak": _peak}


def _pair(judged: analysis.ColumnVerdict, a: str, b: str) -> analysis.Interval | None:
    """Ratio of a to b and its interval, whichever way round the race lists them; None if there is none yet."""
    for pair in judged.pairs:
        if {pair.a, pair.b} == {a, b} and math.isfinite(pair.ratio):
            return pair.interval if pair.a == a else pair.interval.inverted()
    return None


def _verdict_of(judged: analysis.ColumnVerdict, a: str, b: str) -> PairVerdict:
    """The verdict on a over b, whichever way round the race lists them."""
    for pair in judged.pairs:
        if {pair.a, pair.b} == {a, b}:
            return pair.verdict if pair.a == a else pair.verdict.turned
    return PairVerdict.UNDECIDED


def _unequal(raced: Sequence[Entrant]) -> list[str]:
    """Facts of the parity sheet that differ between a claim's contenders."""
    unequal = []
    for fact in TILTING:
        values = tuple((entrant.name, entrant.parity.get(fact, "")) for entrant in raced)
        if all(value for _, value in values) and len({value for _, value in values}) > 1:
            unequal.append(f"{fact} not equal: {', '.join(f'{name} {value}' for name, value in values)}")
    return unequal
