"""What a race says of a claim. Pure: a claim and a record in, a finding out; can be worked out again at any time."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from dragstrip import analysis
from dragstrip.analysis.fitness import unfit
from dragstrip.claim.connection_ends import describe_ends
from dragstrip.claim.contenders import entry_of
from dragstrip.claim.definition import Claim
from dragstrip.record import Entrant, EventKind, Race
from dragstrip.validity import Check, by_passing, held_by_generator, inspect, may_pass, noise
from dragstrip.validity.wording import percent, void_text

HOLDS, DIRECTION, OVERTURNED = "holds", "holds in direction", "overturned"
SAME, UNDECIDED, CANNOT, UNTRIED = "same", "undecided", "can't run here", "not checked yet"

#: How a measurement can be void: by what may pass, or by what comes again.
PASSING, LASTING = "passing", "lasting"

#: The event that holds a run to an exact count, as JSON (``counted_run.CountedRun``).
COUNTED_EVENT = EventKind.COUNTED_RUN

#: Facts of the parity sheet whose difference tilts a comparison.
TILTING = (
    "processes, threads",
    "header bytes",
    "body framing",
    "keep-alive on the wire",
    "code cache",
)

#: Checks that say what a publisher could not see, where they warn.
TELLING = ("generator", "saturation", "errors", "launches")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of a claim in one setting.

    Args:
        outcome: one of the words above.
        detail: why, in words.
        ratio, low, high: the first contender's speed over the second's, with its interval (for "peak": answers a
            second); NaN where there is none.
        metric: what the ratio is of; "cpu" where the load generator was the limit, and throughput its own.
        void: "" where the measurement stands; "passing" where it may stand another time, else "lasting".
        again: another race may say more: what voided this one may pass, it has too few rounds for an interval, or it
            is undecided on a very disturbed machine.
        race: id of the race it rests on, "" if there is none.
        remarks: what was not equal, what the checks saw.
        stand_ins: like "mine raced for theirs, which is missing here".
    """

    outcome: str
    detail: str
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    metric: str = "throughput"
    void: str = ""
    again: bool = False
    race: str = ""
    remarks: tuple[str, ...] = ()
    stand_ins: tuple[str, ...] = ()


def assess(claim: Claim, setting: str, race: Race) -> Finding:
    """What a race says of a claim."""
    raced, stand_ins = _raced(claim, setting, race)
    http, wanted = race.load.http, claim.load(setting).http
    remarks = [] if http == wanted else [f"over HTTP/{http}; published over HTTP/{wanted}"]
    fallen = [entrant for entrant in raced if entrant.out]
    if fallen:
        told = "; ".join(f"{entrant.name} is out of the race: {entrant.out}" for entrant in fallen)
        return Finding(outcome=CANNOT, detail=told, race=race.id, remarks=tuple(remarks), stand_ins=stand_ins)
    if claim.fields.kind == "ends":
        found = _ends(race, [entrant.name for entrant in raced])
    else:
        found, more = _judged(claim, race, raced)
        remarks += more
    return replace(found, race=race.id, remarks=tuple(remarks), stand_ins=stand_ins)


def _judged(claim: Claim, race: Race, raced: Sequence[Entrant]) -> tuple[Finding, list[str]]:
    """The judgement of a race, and what the parity sheet and the checks say beside it."""
    names = [entrant.name for entrant in raced]
    # Looked at as if only these had raced: another one's fault is not theirs.
    alone = replace(race, entrants=tuple(raced))
    held = held_by_generator(alone) if race.plan.metric == "cpu" and claim.fields.kind != "peak" else ()
    judged = analysis.judge(race, metric="cpu" if held else "throughput")
    found = replace(_JUDGES[claim.fields.kind](claim, judged, names), metric=judged.metric)
    checks = inspect(alone)
    about = names[:1] if claim.fields.kind == "peak" else names
    void, why = _void(alone, checks)
    if not void and race.method >= 5:
        void, why = _without_verdict(alone, judged, about, checks)
    if void:
        found = replace(found, outcome=UNDECIDED, void=void, detail=f"void: {why}")
    found = _open(claim, alone, found)
    remarks = _unequal(raced)
    if held:
        told = f"decided by the servers' CPU time per request: the client, not {' or '.join(held)}, was the limit"
        remarks.append(f"{told}, so that rates under this load, the published ones too, may be the client's own")
    remarks += [pair.disturbed for pair in judged.pairs if pair.disturbed and {pair.a, pair.b} <= set(about)]
    remarks += [check.detail for check in checks if check.status == "warn" and check.check in TELLING]
    return found, remarks


def _void(race: Race, checks: Sequence[Check]) -> tuple[str, str]:
    """How a measurement is void and why; two empty texts if it stands."""
    why = next((check.detail for check in checks if check.status == "void"), "")
    if not why and race.finished == "void":
        last = next((void_text(why) for this in reversed(race.rounds) for why in this.void), "they were void")
        why = f"given up after too many void rounds, the last because: {last}"
    return ((PASSING if may_pass(race, checks) else LASTING) if why else "", why)


def _without_verdict(
    race: Race, judged: analysis.Verdict, names: Sequence[str], checks: Sequence[Check]
) -> tuple[str, str]:
    """How and why nothing stands of these contenders where no check voids the race (from method version 5 on).

    By then a fault of one contender's takes the verdicts of its own pairs, and a void block those of its own round.
    """
    reasons = unfit(race, judged.metric) | dict.fromkeys(judged.warming, "still warming up")
    spoilt = [name for name in names if name in reasons]
    if spoilt:
        whose = {why: [name for name in spoilt if reasons[name] == why] for why in dict.fromkeys(reasons.values())}
        return LASTING, "; ".join(f"{why}: {', '.join(those)}" for why, those in whose.items() if those)
    pairs = [pair.rounds for pair in judged.pairs if {pair.a, pair.b} <= set(names)]
    fewest = min([*pairs, *(judged.estimates[name].rounds for name in names)])
    if not judged.rounds or (fewest and not fewest < analysis.FLOOR <= judged.rounds):
        return "", ""
    seen = next(check.detail for check in checks if check.check == "void passes")
    told = f"{fewest} of {judged.rounds} rounds count for {' and '.join(names)} ({seen})"
    return PASSING if by_passing(race) else LASTING, told


def _open(claim: Claim, race: Race, found: Finding) -> Finding:
    """The finding, with whether another race may say more and, if so, how to have it.

    A decided claim stays decided, however disturbed the machine was: the interval has carried that.
    """
    detail, again = found.detail, found.void == PASSING
    if not found.void:
        again = sum(not this.void for this in race.rounds) < analysis.FLOOR
        if not again and race.method >= 5 and found.outcome == UNDECIDED:
            seen = noise(race)
            again = seen.level == "very disturbed"
            if again:
                detail += f"; the machine was very disturbed, others took {percent(seen.lost)} of the race's time"
    if again:
        does = "goes on with the race" if race.finished in ("", "interrupted") else "races it again"
        detail += f"; `dragstrip claims check {claim.id} --resume` {does}"
    return replace(found, again=again, detail=detail)


def is_done(claim: Claim, setting: str, race: Race) -> bool:
    """Whether an ended race has said of a claim what it can say here, so that another one would bring nothing new.

    Not where ``Finding.again`` says otherwise. A contender that fell out would again.
    """
    return not assess(claim, setting, race).again


def names_of(claim: Claim, setting: str) -> list[tuple[str, str | None]]:
    """Each contender's name in a race, with that of who may stand in for it."""
    found = []
    for word in claim.contenders(setting):
        other = claim.stand_in(word)
        found.append((entry_of(claim, word).name, entry_of(claim, other).name if other else None))
    return found


def answers(claim: Claim, setting: str, race: Race) -> bool:
    """Whether everybody that a claim is about, or who stands in, was entered in a race."""
    there = {entrant.name for entrant in race.entrants}
    return all(name in there or other in there for name, other in names_of(claim, setting))


def _raced(claim: Claim, setting: str, race: Race) -> tuple[list[Entrant], tuple[str, ...]]:
    """The race's entrants that a claim is about, in its order, and who of them stood in for whom."""
    there = {entrant.name: entrant for entrant in race.entrants}
    raced, stand_ins = [], []
    for name, other in names_of(claim, setting):
        used = name if name in there or other is None else other
        if used != name:
            stand_ins.append(f"{used} raced for {name}, which is missing here")
        raced.append(there[used])
    return raced, tuple(stand_ins)


def _ratio(claim: Claim, judged: analysis.Verdict, names: Sequence[str]) -> Finding:
    pair = _pair(judged, names[0], names[1])
    if pair is None:
        return Finding(outcome=UNDECIDED, detail="no round of both counts")
    ratio, low, high = pair
    word = _word(judged, names[0], names[1])
    outcome, detail = _against(claim, word, low, high)
    return Finding(outcome=outcome, detail=detail, ratio=ratio, low=low, high=high)


def _against(claim: Claim, word: str, low: float, high: float) -> tuple[str, str]:
    """The outcome for a ratio's interval; ``word``: of the first contender, as ``verdict.Pair`` has it."""
    published, tolerance = claim.fields.ratio, claim.fields.tolerance
    if word == "same":
        return SAME, "the two are the same within the race's margin"
    if word == "undecided":
        return UNDECIDED, "the interval includes 1, or the race was too short for one"
    if (word == "faster") != (published is None or published > 1):
        return OVERTURNED, "the other way round"
    if published is None:
        return HOLDS, "as claimed; no size was"
    if low <= published * (1 + tolerance) and high >= published / (1 + tolerance):
        return HOLDS, f"within {percent(tolerance)} of the published ratio"
    larger = (low > published) == (published > 1)
    return DIRECTION, f"the difference is {'larger' if larger else 'smaller'} than published"


def _same(claim: Claim, judged: analysis.Verdict, names: Sequence[str]) -> Finding:
    """No difference: every pair's interval within the claim's tolerance. The pair that differs most is shown."""
    pairs = [(_pair(judged, a, b), a, b) for a, b in combinations(names, 2)]
    known = [(pair, a, b) for pair, a, b in pairs if pair is not None]
    if len(known) < len(pairs):
        return Finding(outcome=UNDECIDED, detail="not every pair has a round that counts")
    (ratio, low, high), a, b = max(known, key=lambda one: abs(math.log(one[0][0])))
    limit = 1 + claim.fields.tolerance
    if all(1 / limit < pair[1] and pair[2] < limit for pair, _, _ in known):
        outcome, detail = HOLDS, f"all are the same within {percent(claim.fields.tolerance)}"
    elif any(pair[1] > limit or pair[2] < 1 / limit for pair, _, _ in known):
        outcome, detail = OVERTURNED, f"they differ by more than {percent(claim.fields.tolerance)}"
    else:
        outcome, detail = UNDECIDED, f"an interval reaches beyond {percent(claim.fields.tolerance)}"
    return Finding(outcome=outcome, detail=f"{detail}; most apart: {a} over {b}", ratio=ratio, low=low, high=high)


def _peak(claim: Claim, judged: analysis.Verdict, names: Sequence[str]) -> Finding:
    """A rate that no machine changes: the interval of the first contender's rate against the published one."""
    rate = judged.estimates[names[0]].throughput_per_s
    if rate is None or not math.isfinite(rate.low) or judged.rounds < analysis.FLOOR:
        return Finding(outcome=UNDECIDED, detail="too few rounds for an interval")
    (published,) = claim.fields.published.per_s
    limit = 1 + claim.fields.tolerance
    near = rate.low <= published * limit and rate.high >= published / limit
    outcome = HOLDS if near else OVERTURNED
    size = f"within {percent(claim.fields.tolerance)} of" if near else f"{rate.estimate / published:.2g} times"
    detail = f"{names[0]} served {size} the published {published:,.0f} answers a second"
    return Finding(outcome=outcome, detail=detail, ratio=rate.estimate, low=rate.low, high=rate.high)


def _ends(race: Race, names: Sequence[str]) -> Finding:
    """A run that never ends: whether each contender's run to the published count came to its end by itself."""
    runs = [json.loads(event.text) for event in race.events if event.kind == COUNTED_EVENT]
    latest = {run["contender"]: run for run in runs if run["contender"] in names}
    if set(latest) < set(names):
        return Finding(outcome=UNTRIED, detail="its run to an exact count has not been made")
    told = "; ".join(describe_ends(latest[name]) for name in names)
    stuck = [name for name in names if latest[name]["stuck"]]
    if not stuck:
        return Finding(outcome=OVERTURNED, detail=f"every run came to its end: {told}")
    outcome = HOLDS if len(stuck) == len(names) else DIRECTION
    return Finding(outcome=outcome, detail=f"requests were left without an answer ({', '.join(stuck)}): {told}")


_JUDGES = {"ratio": _ratio, "direction": _ratio, "same": _same, "peak": _peak}


def _pair(judged: analysis.Verdict, a: str, b: str) -> tuple[float, float, float] | None:
    """Ratio of a to b and its interval, whichever way round the race lists them; None if there is none yet."""
    for pair in judged.pairs:
        if {pair.a, pair.b} == {a, b} and math.isfinite(pair.ratio):
            found = (pair.ratio, pair.low, pair.high)
            return found if pair.a == a else (1 / found[0], 1 / found[2], 1 / found[1])
    return None


def _word(judged: analysis.Verdict, a: str, b: str) -> str:
    turned = {"faster": "slower", "slower": "faster"}
    for pair in judged.pairs:
        if {pair.a, pair.b} == {a, b}:
            return pair.verdict if pair.a == a else turned.get(pair.verdict, pair.verdict)
    return "undecided"


def _unequal(raced: Sequence[Entrant]) -> list[str]:
    """Facts of the parity sheet that differ between a claim's contenders."""
    found = []
    for fact in TILTING:
        values = [entrant.parity.get(fact, "") for entrant in raced]
        if all(values) and len(set(values)) > 1:
            told = ", ".join(f"{entrant.name} {value}" for entrant, value in zip(raced, values, strict=True))
            found.append(f"{fact} not equal: {told}")
    return found


@dataclass(frozen=True, slots=True)
class Row:
    """A claim and what became of it in each setting."""

    claim: Claim
    published: Finding
    fair: Finding | None
