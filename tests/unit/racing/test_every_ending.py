"""No race ends without an answer while its budget pays for another round, and every rendering shows the same ending.

The real loop and the real judgement are driven over synthetic rounds whose faults are drawn: of the machine, the load
generator, the database, the offered rate, single rounds, launches. Only the clock is not real. ``-m soak`` drives
100,000 races; the named ones are the faults that an audit found in version 0.1 before that (issue 45).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
import samples

from dragstrip import analysis
from dragstrip.analysis import NO_GATE, Gate
from dragstrip.errors import BadUsage
from dragstrip.racing.loop import RoundLoop
from dragstrip.racing.progress import Silent
from dragstrip.racing.race_loop import RaceLoop
from dragstrip.racing.resume import _refuse_ended
from dragstrip.racing.round import RoundOutcome, RoundPlan
from dragstrip.record import Block, Ending, Event, Load, Plan, Race, Round
from dragstrip.report.race import badge, formats, headline, markdown, thresholds
from dragstrip.report.race.export import race_json
from dragstrip.report.race.summary import JudgedRace, Standing

MS, S = samples.MS, samples.S
PASSES = 3

#: What can go wrong with one contender's round; and in which rounds, by the number of the column's round.
FAULTS = ("generator", "rate", "database", "rising", "cold", "unread", "slow")
WHEN: Mapping[str, Callable[[int, random.Random], bool]] = {
    "first": lambda at, _: at == 0,
    "sixth to ninth": lambda at, _: 5 <= at < 9,
    "tenth on": lambda at, _: at >= 9,
    "now and then": lambda _, drawn: drawn.random() < 0.1,
    "every third": lambda at, _: at % 3 == 0,
    "always": lambda *_: True,
}


@dataclass(frozen=True, kw_only=True)
class Course:
    """One synthetic race.

    Args:
        speeds: requests per second by contender.
        faults: of a contender: what, and when; void: in which rounds of a column all is void.
        falls: contenders that fall out, with the round.
        round_s: seconds that each contender adds to a round.
        pause: rounds after which the race is interrupted and resumed.
    """

    seed: int = 1
    speeds: Mapping[str, float]
    faults: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    void: str = ""
    falls: Mapping[str, int] = field(default_factory=dict)
    scatter: float = 0.004
    columns: int = 1
    void_column: bool = False
    waits: bool = False
    metric: str = "auto"
    rate_per_s: float = 0.0
    planned: int = 30
    budget_s: float = 30.0
    fixed: bool = False
    round_s: float = 0.3
    rules: tuple[tuple[str, str, float], ...] = ()
    pause: int | None = None

    def lasts(self, name: str) -> bool:
        """Whether the contender's fault is one that more rounds don't change."""
        unread = self.rate_per_s and self.metric == "auto" and ("unread", "always") in self.faults.values()
        what, when = self.faults.get(name, ("", ""))
        return bool(unread) or (what in ("generator", "rate", "database") and when in ("always", "tenth on"))


class Track:
    """Plays rounds by their plans, as the course has them, and checks what a round may not change."""

    def __init__(self, course: Course) -> None:
        self.course, self.now_ns, self.drawn = course, samples.START_NS, random.Random(course.seed)
        self.metrics: dict[int, str] = {}

    def run(self, loop: RoundLoop, plan: RoundPlan) -> tuple[RoundOutcome, Sequence[Event]]:
        course, at = self.course, len(loop.race.rounds)  # type: ignore[attr-defined]
        lasts_s = course.round_s * len(plan.launches) * self.drawn.uniform(0.95, 1.05)
        begin_ns, self.now_ns = self.now_ns, self.now_ns + round(lasts_s * S)
        faulty = {name: what for name, (what, when) in course.faults.items() if WHEN[when](at, self.drawn)}
        pace = {name: math.exp(self.drawn.gauss(0, course.scatter)) for name in plan.launches}
        blocks = tuple(
            self._block(name, plan.index, at_pass, pace[name], faulty.get(name, ""))
            for at_pass in range(PASSES)
            for name in plan.launches
        )
        launches = tuple(
            samples.launch(
                name,
                plan.index,
                {"threads": 1} | self._asked(faulty.get(name)),
                settled=faulty.get(name) != "cold",
            )
            for name in plan.launches
        )
        void = (course.void and WHEN[course.void](at, self.drawn)) or (course.void_column and loop.column == 1)  # type: ignore[attr-defined]
        record = Round(
            index=plan.index,
            started_ns=begin_ns,
            ended_ns=self.now_ns,
            launches=launches,
            blocks=blocks,
            void=samples.voided("too few blocks") if void else (),
        )
        loop.spent_s += (self.now_ns - begin_ns) / 1e9
        out = {name: "died" for name, when in course.falls.items() if when == at and name in plan.launches}
        return RoundOutcome(round=record, planned=(), out=out), ()

    def _asked(self, fault: str | None) -> dict[str, float]:
        """What a launch made of the database, if the race has one."""
        if not any(what == "database" for what, _ in self.course.faults.values()):
            return {}
        busy = 0.97 if fault == "database" else 0.5
        return {"database_exec_ns": round(busy * PASSES * 35 * MS)} | _ASKED

    def _block(self, name: str, index: int, at_pass: int, pace: float, fault: str) -> Block:
        rate = self.course.rate_per_s or self.course.speeds[name]
        rate *= pace * (0.83 if fault == "slow" else 1 + 0.08 * at_pass if fault == "rising" else 1.0)
        requests = max(round(rate * 0.025), 1)
        held = fault == "generator"
        busy = 0.6 if held else 0.97
        more: dict[str, Any] = {"latency_sum_ns": 32 * 25 * MS, "p50_ns": round(32 * 25 * MS / requests)}
        if self.course.rate_per_s:
            more |= {"offered": 1000, "departed": 950 if fault == "rate" else 1000}
            more |= {"p50_ns": round(1e6 * pace), "requests": 1000}
        return samples.block(
            name,
            **{"requests": requests} | more,
            round=index,
            pass_index=at_pass,
            latency_hdr=samples.hdr(800_000),
            p90_ns=10**9,
            p99_ns=10**9,
            p999_ns=10**9,
            max_ns=10**9,
            engine_cpu_ns=round((0.99 if held else 0.5) * 25 * MS),
            server_cpu_ns=None if fault == "unread" and not at_pass else round(busy * 35.4 * MS / pace),
            server_wait_ns=0,
        )


_ASKED = {"database_connections": 1, "database_statements": 100, "database_wanted": 100.0, "database_cpu_ns": 0}


class Kept:
    """A store that keeps nothing: the loop's own record is looked at."""

    def append_round(self, *_: object) -> None: ...

    append_event = entrant_out = finish = append_round


def start(course: Course) -> Race:
    """The race before its first round."""
    plan = Plan(
        lead_ns=10 * MS,
        counted_ns=25 * MS,
        passes=PASSES,
        budget_s=course.budget_s,
        planned_rounds=course.planned,
        metric=course.metric,
        rounds_fixed=course.fixed,
    )
    load = Load(connections=32, threads=1, keepalive=True, timeout_ns=2 * S, rate_per_s=course.rate_per_s)
    one = samples.race(dict(course.speeds), rounds=0, plan=plan, load=load, finished=Ending.NONE, waits=course.waits)
    columns = [replace(one.columns[0], name=f"column {at}") for at in range(course.columns)]
    return replace(one, columns=tuple(columns))


def loop_of(race: Race, course: Course, pause: int | None = None) -> RaceLoop:
    """Its loop, at its beginning or resumed."""
    setup: Any = SimpleNamespace(load=race.load, surroundings=lambda: None)
    ready = [{e.name: _qualified() for e in column.entrants if not e.out} for column in race.columns]
    kept: Any = Kept()
    return RaceLoop(kept, Silent(), race, [(setup, one) for one in ready], pause, Gate(course.rules))


@cache
def _qualified() -> Any:
    return SimpleNamespace(calibration=SimpleNamespace(p50_ns=800_000))


def driven(course: Course, monkeypatch: pytest.MonkeyPatch) -> tuple[Race, RaceLoop]:
    """The race at its end; interrupted and resumed before if the course says so."""
    track, race = Track(course), start(course)
    monkeypatch.setattr(RoundLoop, "_run", lambda loop, plan: track.run(loop, plan))
    if course.pause:
        race = replace(loop_of(race, course, course.pause).drive(), finished=Ending.NONE)
    loop = loop_of(race, course)
    return loop.drive(), loop


def no_answer(course: Course, race: Race, loop: RaceLoop) -> Iterator[str]:
    """What is wrong with how a race ended; nothing if it has its answer."""
    left_s, first = race.plan.budget_s - sum(r.ended_ns - r.started_ns for r in race.rounds) / 1e9, race.entrants[0]
    for column, as_race in zip(loop.columns, analysis.by_column(race), strict=True):
        verdict, how = analysis.judge_column(as_race), column.finished
        valid = sum(not round_.void for round_ in as_race.rounds)
        each_s = [(r.ended_ns - r.started_ns) / 1e9 / len(r.launches) for r in as_race.rounds[-3:]]
        next_s = min(each_s, default=0.0) * len(column.needed or column.contenders)
        open_ = [pair for pair in verdict.pairs if not pair.decided]
        unfit = [pair for pair in open_ if course.lasts(pair.a) or course.lasts(pair.b)]
        missing = [pair for pair in Gate(course.rules).open_pairs(verdict, first.name) if pair not in unfit]
        if how is Ending.TOO_FEW:
            if sum(not entrant.out for entrant in as_race.entrants) >= 2:
                yield "two contenders are left"
        elif how is Ending.VOID:
            if valid and not course.fixed:
                yield f"void, with {valid} valid rounds"
        elif how is Ending.DECIDED:
            if open_:
                yield f"decided after {valid} rounds, and {len(open_)} of {len(verdict.pairs)} pairs are open"
            if missing and left_s >= next_s:
                yield f"decided, {len(missing)} thresholds are open and {left_s:.1f} s are left"
        elif how is Ending.ROUNDS:
            if valid < course.planned:
                yield "not all of its rounds"
        elif how is Ending.BUDGET:
            if left_s >= next_s:
                yield f"out of budget, with {left_s:.1f} s left and rounds of {next_s:.1f} s"
            if not open_ and not missing:
                yield "out of budget, and nothing is open"
        elif str(how) == "not comparable":
            if set(open_) != set(unfit) or not open_:
                yield f"not comparable after {valid} rounds, and {len(open_)} pairs are open"
            if missing and left_s >= next_s:
                yield "not comparable, and thresholds are open"
        else:
            yield f"ended: {how!r}"
    if race.finished is Ending.DECIDED and any(column.finished is Ending.VOID for column in loop.columns):
        yield "decided, and a column is void"
    if race.rounds and -left_s > 0.1 * race.plan.budget_s and len(race.rounds) > course.columns and not course.fixed:
        yield f"{-left_s:.1f} s over"


def disagreements(course: Course, race: Race) -> Iterator[str]:
    """Renderings of the ending that don't say the same."""
    judged = JudgedRace.of(race)
    rules = thresholds.rulings(judged, course.rules)
    shown, said, standing = badge.race_badge(judged).line, headline.headline(judged), judged.standing
    content = race_json(judged, rules)
    if (content["finished"], content["outcome"]) != (race.finished, standing):
        yield f"JSON has {content['finished']}, {content['outcome']}; the race {race.finished}, {standing}"
    if judged.ended is not race.finished:
        yield f"ended {race.finished}, shown as {judged.ended}"
    if bool(headline.no_result_reason(judged)) != (standing.exit_code == 3):
        yield f"{standing}: no reason, or one too many"
    if f"ended: {race.finished}" not in markdown.race(judged, rules):
        yield "Markdown does not say how it ended"
    for part, suite in zip(judged.parts, ElementTree.fromstring(formats.junit(judged, rules)), strict=True):
        case = next(case for case in suite if case.get("classname") == "race")
        if (case.get("name"), case.find("failure") is not None) != (part.standing, part.standing.exit_code > 0):
            yield f"JUnit: {case.get('name')}, {part.standing}"
        line, early = badge.column_badge(part).line, [p for p in part.verdict.pairs if not math.isfinite(p.low)]
        if line.startswith("VOID") != (part.standing is Standing.VOID):
            yield f"{line}; {part.standing}"
        if line.startswith("NOT COMPARABLE") != (part.standing is Standing.NOT_COMPARABLE):
            yield f"{line}; {part.standing}"
        if "TOO EARLY" in line and not any(not pair.unfit for pair in early):
            yield f"{line}; {part.standing}"
        if part.standing is not Standing.DECIDED and line.startswith(("FASTE", "SAME", "LESS", "LOWE", "LEAST")):
            yield f"{line}; {part.standing}"
    if standing is Standing.VOID and "void" not in said:
        yield f"{standing}; {said}"
    if len(judged.parts) == 1 and "too early" in said and not any(not p.unfit for p in judged.verdict.pairs):
        yield f"{standing}; {said}"
    if ("NOT COMPARABLE" in shown) != (standing is Standing.NOT_COMPARABLE):
        yield f"{shown}; {standing}"


TWO, THREE = {"a": 40_000.0, "b": 40_000.0}, {"a": 40_000.0, "b": 36_000.0, "c": 44_000.0}
EIGHT = {name: 40_000.0 * (1 + 0.08 * at) for at, name in enumerate("abcdefg")} | {"h": 40_100.0}

#: What the audit found: the loop at 249e8e46 ends each of them without an answer, or loses one.
FOUND: Mapping[str, Course] = {
    "V0 generator": Course(speeds=TWO, faults=dict.fromkeys("ab", ("generator", "always"))),
    "V1 rate, first round": Course(
        speeds=TWO, faults=dict.fromkeys("ab", ("rate", "first")), metric="latency-p50", rate_per_s=40_000.0
    ),
    "V2 rate, rounds 6 to 9": Course(
        speeds=TWO, faults=dict.fromkeys("ab", ("rate", "sixth to ninth")), metric="latency-p50", rate_per_s=40_000.0
    ),
    "V3 database, first round": Course(speeds=TWO, faults=dict.fromkeys("ab", ("database", "first")), waits=True),
    "V4 generator, where responses wait": Course(
        speeds=THREE, faults=dict.fromkeys("abc", ("generator", "first")), waits=True
    ),
    "V5 one of three": Course(speeds=THREE, faults={"c": ("generator", "first")}, waits=True),
    "V6 one block without CPU time": Course(
        speeds=TWO,
        faults={"a": ("generator", "always"), "b": ("unread", "sixth to ninth")},
        scatter=0.03,
    ),
    "V7 launches of two kinds": Course(
        speeds={"a": 80_000.0, "b": 40_000.0}, faults={"a": ("slow", "every third")}, planned=15, budget_s=9.0
    ),
    "V8 void rounds after valid ones": Course(speeds=THREE | {"b": 40_050.0}, void="tenth on", scatter=0.03),
    "V9 contenders that rest": Course(speeds=EIGHT, planned=14, budget_s=35.0, scatter=0.02),
    "V10 one column is void": Course(speeds=THREE, columns=2, void_column=True),
    "V12 a pair that is unfit": Course(
        speeds=TWO, faults=dict.fromkeys("ab", ("rate", "always")), metric="latency-p50", rate_per_s=40_000.0
    ),
}


#: Eight contenders take as long as all the others together.
LONG = "V9 contenders that rest"


@pytest.mark.parametrize(
    "course",
    [
        pytest.param(course, id=name, marks=[pytest.mark.thorough] if name == LONG else [])
        for name, course in FOUND.items()
    ],
)
def test_what_the_audit_found_ends_in_an_answer(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each as the audit had it."""
    race, loop = driven(course, monkeypatch)
    assert not list(no_answer(course, race, loop))
    assert not list(disagreements(course, race))


def drawn_course(seed: int) -> Course:
    """Any race at all."""
    drawn = random.Random(seed)
    count = drawn.choice((2, 2, 2, 3, 3, 4, 5, 8, 12))
    names = "abcdefghijkl"[:count]
    apart = drawn.choice((0.0, 0.0, 0.02, 0.05, 0.3))
    speeds = {name: 40_000.0 * (1 + apart * at) for at, name in enumerate(names)}
    kind = drawn.choice(("closed", "closed", "waits", "rate", "latency"))
    faults: dict[str, tuple[str, str]] = {}
    if drawn.random() < 0.8:
        what, when = drawn.choice(FAULTS), drawn.choice(list(WHEN))
        hit = names if drawn.random() < 0.4 else drawn.sample(names, drawn.randint(1, count))
        faults = dict.fromkeys(hit, (what, when))
    if drawn.random() < 0.3:
        faults[drawn.choice(names)] = drawn.choice(FAULTS), drawn.choice(list(WHEN))
    metric = {"closed": drawn.choice(("auto", "auto", "throughput", "cpu")), "latency": "latency-p50"}.get(kind, "auto")
    rules: Sequence[tuple[tuple[str, str, float], ...]] = (
        (("slower:3%", "slower", 0.03),),
        (("faster:1%", "faster", 0.01), ("slower:3%", "slower", 0.03)),
    )
    return Course(
        seed=seed,
        speeds=speeds,
        faults=faults,
        void=drawn.choice(("", "", "", *WHEN)),
        falls={drawn.choice(names): drawn.choice((0, 3, 9, 12, 20))} if drawn.random() < 0.2 else {},
        scatter=drawn.choice((0.002, 0.01, 0.03)),
        columns=drawn.choice((1, 1, 1, 2, 3)),
        void_column=drawn.random() < 0.1,
        waits=kind == "waits",
        metric=metric,
        rate_per_s=40_000.0 if kind in ("rate", "latency") else 0.0,
        planned=drawn.choice((10, 15, 30)),
        budget_s=drawn.choice((1.0, 3.0, 6.0, 6.0, 12.0)) * count / 2,
        fixed=drawn.random() < 0.1,
        rules=drawn.choice([(), (), *rules]),
        pause=drawn.choice((None, None, 3, 11)),
    )


def faults_of(seeds: range, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is wrong with any of these races."""
    found = []
    for seed in seeds:
        course = drawn_course(seed)
        race, loop = driven(course, monkeypatch)
        wrong = [*no_answer(course, race, loop), *disagreements(course, race)]
        found += [f"{fault}: {course}" for fault in wrong]
    return found


def test_drawn_races_end_in_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of what the long run drives."""
    assert faults_of(range(8), monkeypatch) == []


@pytest.mark.soak
@pytest.mark.parametrize("part", range(100))
def test_a_hundred_thousand_races_end_in_an_answer(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand in each part."""
    assert faults_of(range(1000 * part, 1000 * (part + 1)), monkeypatch) == []


def test_what_was_called_decided_and_is_open_can_be_resumed() -> None:
    """A race of an earlier version that compared nothing (V11), one with an open threshold, one that ended as unfit."""
    held = Course(speeds=TWO, faults=dict.fromkeys("ab", ("generator", "always")), waits=True)
    track, race = Track(held), start(held)
    loop: Any = SimpleNamespace(race=race, spent_s=0.0, column=0)
    plan = RoundPlan(index=0, launches=("a", "b"), blocks=(), judge=lambda blocks, _: tuple(blocks))
    (outcome, _) = track.run(loop, plan)
    nothing = replace(race, rounds=(outcome.round,), finished=Ending.DECIDED)
    _refuse_ended(nothing, None, NO_GATE)
    _refuse_ended(replace(nothing, finished=Ending.NOT_COMPARABLE), None, NO_GATE)
    decided = samples.race({"a": 40_000.0, "b": 38_900.0}, rounds=20, noise=0.004)
    with pytest.raises(BadUsage, match="has ended"):
        _refuse_ended(decided, None, NO_GATE)
    with pytest.raises(BadUsage, match="has ended"):
        _refuse_ended(decided, None, Gate((("slower:50%", "slower", 0.5),)))
    _refuse_ended(decided, None, Gate((("slower:2.8%", "slower", 0.028),)))
