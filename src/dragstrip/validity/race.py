"""The checks on a whole race: what each saw, as values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from dragstrip.analysis.columns import by_column
from dragstrip.analysis.cpu_shares import engine_share, engine_wait, server_busy, taken_by_others
from dragstrip.analysis.fitness import (
    DATABASE_FULL,
    SERVER_IDLE,
    choose,
    cores_of,
    database_use,
    limited,
    lost_shares,
    rises_of,
    shares_lane,
)
from dragstrip.analysis.interval import EARLY, FLOOR
from dragstrip.metrics import DELAYED_NS, LATE_NS, SUSTAINED, TICKS_NS
from dragstrip.record import Block, Ending, Launch, Race
from dragstrip.validity import observation
from dragstrip.validity.block import WRONG_KINDS, accounting_faults, failures
from dragstrip.validity.check import Check, CheckName, Finding, Status, check_result, warnings
from dragstrip.validity.environment import MISCOUNT, surroundings
from dragstrip.validity.launch import launch_observations, round_speeds
from dragstrip.validity.links import links
from dragstrip.validity.littles_law import (
    CALM,
    beyond,
    little_level,
    reconnected,
    undisturbed,
    without_pauses,
)
from dragstrip.validity.observation import ContenderShare, Observation, OwnShare, Plain, RaceShare, Share
from dragstrip.validity.parity import tilts
from dragstrip.validity.transient import causes, void_passes

#: Warn above these shares. Noise never makes a race void: the intervals carry it.
WAIT, STEAL, TREND, VOID_PASSES = 0.05, 0.01, 0.01, 0.10

#: Warn if connections spend more of their time than this in the engine and the server is not busy.
MAX_TURN = 0.05

#: The generator's own load at which a warning is due, while the server is less busy than the second.
ENGINE_NEAR, SERVER_FULL = 0.85, 0.95

#: The share of the generator's own ceiling from which a contender's throughput is marked.
CEILING_NEAR = 0.8

#: A trend must exceed this many of its standard errors, because many contenders are tested without a prior question.
TREND_ERRORS = 4.0


@dataclass(frozen=True, slots=True)
class _Side:
    """What one contender that is still in the race left, void rounds apart."""

    name: str
    kind: str
    cores: int
    blocks: tuple[Block, ...]
    launches: tuple[Launch, ...]

    @property
    def used(self) -> tuple[Block, ...]:
        """Its blocks that are not void themselves."""
        return tuple(block for block in self.blocks if not block.void)

    def middle(self, of: Callable[[Block], float | None]) -> float | None:
        """Median over its blocks; None if nothing is readable."""
        values = [value for value in map(of, self.blocks) if value is not None]
        return median(values) if values else None

    def busy(self) -> float | None:
        """Median share of its cores that it kept busy; None if its CPU time is unreadable."""
        return self.middle(lambda block: server_busy(block, self.cores))

    def engine_share(self) -> float:
        """Median share of its cores that the engine used against it."""
        return median(map(engine_share, self.blocks))

    def taken(self) -> float | None:
        """Median share of its cores' time that others took at most; None if unreadable."""
        return self.middle(lambda block: taken_by_others(block, self.cores))


def is_void(checks: Sequence[Check]) -> bool:
    """Whether a check makes the race or some of its contenders void (exit code 3)."""
    return any(check.status is Status.VOID for check in checks)


def inspect(race: Race) -> tuple[Check, ...]:
    """All checks on a race, in the order of the page. Contenders that are out are not looked at, they have no number.

    A race whose rounds are all void is inspected as it is, so that the checks show the cause. Each column is inspected
    by itself.
    """
    return tuple(
        replace(check, column=column.columns[0].name) for column in by_column(race) for check in _inspect_column(column)
    )


def _inspect_column(race: Race) -> tuple[Check, ...]:
    sides = _sides(race)
    blocks = {side.name: side.blocks for side in sides}
    return (
        _rounds(race),
        _lanes(race),
        _generator(race, sides),
        _engine_wait(race, sides),
        _server_wait(race, sides),
        _steal(race, sides),
        _accounting(race, sides),
        _errors(race, sides),
        _little(race, sides),
        _turnaround(race, sides),
        _offered(race, sides) if race.load.rate_per_s else _saturation(race, sides),
        _launches(sides),
        _trend(sides),
        _void_passes(race),
        *surroundings(race, blocks),
        *_database(race, sides),
        *links(race, blocks),
        *_parity(race),
    )


def _sides(race: Race) -> list[_Side]:
    """What each contender that is still in the race left, if it left anything."""
    rounds = [round_ for round_ in race.rounds if not round_.void] or list(race.rounds)
    cores, sides = cores_of(race, rounds), []
    for entrant in race.entrants:
        if not entrant.out:
            name = entrant.name
            launches = tuple(launch for round_ in rounds for launch in round_.launches if launch.contender == name)
            blocks = tuple(block for round_ in rounds for block in round_.blocks if block.contender == name)
            sides.append(_Side(name, entrant.kind, cores[name], blocks, launches))
    return [side for side in sides if side.blocks]


def _database(race: Race, sides: Sequence[_Side]) -> Iterator[Check]:
    """Whether the database executed what the responses needed, and whether it was the limit; nothing without one."""
    used = database_use(race)
    if not used:
        return
    findings, most = [], 0.0
    for name in (side.name for side in sides if side.name in used):
        use = used[name]
        if use.busy > DATABASE_FULL:
            full = ContenderShare(name, OwnShare.DATABASE_LIMIT, use.busy)
            findings.append(Finding(Status.WARN, full))
        off = use.executed / use.wanted - 1 if use.wanted else 0.0
        most = max(most, abs(off))
        if abs(off) > MISCOUNT[0]:
            # Fewer than the responses need: some came from elsewhere. More: a server requests more than it sends.
            status = Status.VOID if off < -MISCOUNT[1] else Status.WARN
            findings.append(Finding(status, observation.DatabaseMiscounted(name, use.executed, use.wanted)))
    asked = observation.DatabaseAsked(most, max(use.busy for use in used.values()))
    yield check_result(CheckName.DATABASE, findings, asked)


def _parity(race: Race) -> Iterator[Check]:
    """One warning for each thing that tilts the race; what differs without tilting it is on the sheet only."""
    tilting = list(tilts(race))
    if not tilting:
        yield check_result(CheckName.PARITY, (), Plain.NO_TILT)
    for tilt in tilting:
        yield check_result(CheckName.PARITY, [Finding(Status.WARN, tilt)], fact=tilt.fact)


def _warns(value: float, limit: float) -> Status:
    return Status.WARN if value > limit else Status.PASS


def _rounds(race: Race) -> Check:
    valid = sum(not round_.void for round_ in race.rounds)
    least = EARLY if race.finished is Ending.DECIDED else FLOOR
    counted = observation.Rounds(valid, len(race.rounds) - valid, least, race.finished)
    status = Status.PASS if valid >= least else Status.WARN
    return check_result(CheckName.ROUNDS, [Finding(status, counted)], counted)


def _lanes(race: Race) -> Check:
    lanes = observation.Lanes(race.server_cores, race.engine_cores, _shared(race))
    return check_result(CheckName.LANES, [Finding(Status.WARN if lanes.shared else Status.PASS, lanes)], lanes)


def _shared(race: Race) -> tuple[int, ...]:
    return tuple(sorted(set(race.server_cores) & set(race.engine_cores)))


def _ceiling_per_s(race: Race) -> float | None:
    """What this machine's generator can send over as many connections, if `dragstrip doctor` has measured it."""
    known = race.machine.generator_ceiling
    if not known:
        return None
    same = [point for point in known.points if point.keepalive == race.load.keepalive]
    if not same:
        return None
    nearest = min(same, key=lambda point: abs(math.log(point.connections / race.load.connections)))
    return nearest.ceiling_per_s * race.load.threads / known.threads


def held_by_generator(race: Race) -> tuple[str, ...]:
    """Contenders whose throughput is the engine's more than their own: only the engine was near its limit or at it."""
    return tuple(
        side.name
        for side in _sides(race)
        if side.engine_share() >= ENGINE_NEAR and (busy := side.busy()) is not None and busy < SERVER_FULL
    )


def _generator(race: Race, sides: Sequence[_Side]) -> Check:
    observed: list[Observation] = []
    ceiling_per_s = _ceiling_per_s(race)
    for side in sides:
        share, busy = side.engine_share(), side.busy()
        if limited(side.blocks, side.cores):
            # CPU time per request is not changed by a client that can't send more.
            by_cpu = choose(race).metric == "cpu"
            kind = observation.Generator.LIMIT_BY_CPU if by_cpu else observation.Generator.LIMIT
            observed.append(observation.EngineUse(side.name, kind, share, busy))
        elif share >= ENGINE_NEAR and (busy is None or busy < SERVER_FULL):
            observed.append(observation.EngineUse(side.name, observation.Generator.NEAR, share, busy))
        rate_per_s = median(block.requests * 1e9 / max(block.counted_ns, 1) for block in side.blocks)
        if ceiling_per_s and rate_per_s >= CEILING_NEAR * ceiling_per_s:
            near = ContenderShare(side.name, OwnShare.CEILING_NEAR, rate_per_s / ceiling_per_s)
            observed.append(near)
    most = max((side.engine_share() for side in sides), default=0.0)
    return check_result(CheckName.GENERATOR, warnings(observed), RaceShare(Share.ENGINE_CORES_USED, most))


def _engine_wait(race: Race, sides: Sequence[_Side]) -> Check:
    share = median([engine_wait(block) for side in sides for block in side.blocks] or [0.0])
    if _shared(race):
        return check_result(CheckName.ENGINE_WAIT, (), RaceShare(Share.ENGINE_WAITED_SHARED, share))
    taken = Finding(_warns(share, WAIT), RaceShare(Share.ENGINE_WAIT_TAKEN, share))
    return check_result(CheckName.ENGINE_WAIT, [taken], RaceShare(Share.ENGINE_WAITED, share))


def _server_wait(race: Race, sides: Sequence[_Side]) -> Check:
    if shares_lane(race):
        return check_result(CheckName.SERVER_WAIT, (), Plain.SERVER_WAIT_SHARED)
    taken = {side.name: side.taken() for side in sides}
    known = {name: share for name, share in taken.items() if share is not None}
    findings = [
        Finding(_warns(share, WAIT), ContenderShare(name, OwnShare.SERVER_WAIT_TAKEN, share))
        for name, share in known.items()
    ]
    unread = tuple(name for name in taken if name not in known)
    most = RaceShare(Share.SERVER_WAIT_MOST, max(known.values(), default=0.0), unread)
    return check_result(CheckName.SERVER_WAIT, findings, most)


def _steal(race: Race, sides: Sequence[_Side]) -> Check:
    cores = len(set(race.server_cores) | set(race.engine_cores)) or 1
    stolen = sum(block.steal_ns for side in sides for block in side.blocks)
    lasted = sum(block.duration_ns for side in sides for block in side.blocks) * cores
    share = stolen / lasted if lasted else 0.0
    steal = RaceShare(Share.STEAL, share)
    return check_result(CheckName.STEAL, [Finding(_warns(share, STEAL), steal)], steal)


def _accounting(race: Race, sides: Sequence[_Side]) -> Check:
    faults = [why for side in sides for block in side.blocks for why in accounting_faults(block, race.load.at_once)]
    blocks = [block for side in sides for block in side.blocks]
    # Such blocks are void, and if they are many, the others can't be trusted either.
    void = 2 * sum(bool(block.void) for block in blocks) > len(blocks)
    counted = any(accounting_faults(block, race.load.at_once) for side in sides for block in side.used)
    level = Status.VOID if void or counted else Status.WARN
    findings = [Finding(level, observation.AccountingFaults(len(faults), first)) for first in faults[:1]]
    return check_result(CheckName.ACCOUNTING, findings, Plain.ADDS_UP)


def _errors(race: Race, sides: Sequence[_Side]) -> Check:
    findings = []
    for side in sides:
        failed, sent = sum(map(failures, side.blocks)), sum(block.sent for block in side.blocks)
        if failed:
            kinds = sum((Counter(block.errors) for block in side.blocks), Counter[str]())
            # Blocks with errors are void by themselves, and a contender that fails in most of them is out.
            status = Status.VOID if any(kinds[kind] for kind in WRONG_KINDS) else Status.WARN
            findings.append(Finding(status, observation.Errors(side.name, failed, sent, dict(kinds.most_common()))))
    answered = sum(block.answered for side in sides for block in side.blocks)
    return check_result(CheckName.ERRORS, findings, observation.NoErrors(answered))


def _little(race: Race, sides: Sequence[_Side]) -> Check:
    """Every connection waits for a response or for the engine, at any time: the two add up to all connections."""
    if race.load.rate_per_s:
        return check_result(CheckName.LITTLES_LAW, (), Plain.LITTLE_OPEN_LOOP)
    findings, most, judged, unjudged = list[Finding](), 0.0, False, list[str]()
    # Neither CPU time nor the number of responses depends on when they are noticed.
    worst = Status.WARN if choose(race).metric == "cpu" else Status.VOID
    for side in (one for one in sides if one.used):
        if count := sum(beyond(block, race.load.at_once) for block in side.used):
            findings.append(Finding(worst, observation.LittleBeyond(side.name, count, len(side.used))))
        calm = without_pauses(undisturbed(side.used, side.cores), side.used)
        law = little_level(calm, len(side.used), race.load.at_once)
        if law is None:
            unjudged.append(side.name)
            continue
        level, busy, off = law
        judged, most = True, max(most, off)
        reconnects = reconnected(calm, busy, race.load.at_once)
        if level is Status.VOID:
            level = Status.WARN if reconnects else worst
        findings.append(Finding(level, observation.LittleOff(side.name, busy, race.load.at_once, off, reconnects)))
    if unjudged and not _shared(race):
        names = tuple(unjudged)
        findings.append(Finding(Status.WARN, RaceShare(Share.LITTLE_UNJUDGED, CALM, names)))
    kind = Share.LITTLE_UNJUDGED if unjudged and not judged else Share.LITTLE_HOLDS
    share = CALM if kind is Share.LITTLE_UNJUDGED else most
    return check_result(CheckName.LITTLES_LAW, findings, RaceShare(kind, share, tuple(unjudged)))


def _turnaround(race: Race, sides: Sequence[_Side]) -> Check:
    """Responses that wait in the engine keep a busy server's queue shorter, and an idle server idle."""
    if race.load.rate_per_s:
        return check_result(CheckName.TURNAROUND, (), Plain.TURN_OPEN_LOOP)
    observed, most = list[Observation](), 0.0
    for side in sides:
        counted_ns = sum(block.counted_ns for block in side.used) * race.load.at_once
        share = sum(block.turn_sum_ns for block in side.used) / max(counted_ns, 1)
        most, busy = max(most, share), side.busy()
        if share > MAX_TURN and (busy is None or busy < SERVER_IDLE):
            observed.append(ContenderShare(side.name, OwnShare.TURN_LONG, share))
    kind = Share.TURN_MOST_BUSY if most > MAX_TURN else Share.TURN_MOST
    return check_result(CheckName.TURNAROUND, warnings(observed), RaceShare(kind, most))


def _offered(race: Race, sides: Sequence[_Side]) -> Check:
    """Whether every contender was offered the rate, and on time; blocks are not judged one by one, slow ones count."""
    observed, allowed_ns = list[Observation](), LATE_NS + TICKS_NS[race.load.pace]
    for side in sides:
        offered = sum(block.offered or 0 for block in side.used)
        share = sum(block.departed or 0 for block in side.used) / max(offered, 1)
        lag_ns = side.middle(lambda block: block.lag_p99_ns)
        if offered and share < SUSTAINED:
            observed.append(observation.NotSustained(side.name, share, race.load.rate_per_s))
        elif lag_ns is not None and lag_ns > allowed_ns:
            observed.append(observation.LeftLate(side.name, lag_ns))
    return check_result(CheckName.OFFERED_RATE, warnings(observed), observation.Offered(race.load.rate_per_s))


def _saturation(race: Race, sides: Sequence[_Side]) -> Check:
    observed, beside = list[Observation](), database_use(race) if shares_lane(race) else {}
    lost = lost_shares(race, race.rounds)
    for side in sides:
        busy, cores = side.busy(), side.cores
        if busy is not None and side.name in beside:
            busy += beside[side.name].cores  # what its own backends had of the same cores
        if busy is not None and busy < SERVER_IDLE:
            disturbed = busy + lost.get(side.name, 0.0) >= SERVER_IDLE  # what it would have done is unknown
            typical_ns = side.middle(lambda block: block.p50_ns) or 0
            gathered = DELAYED_NS[0] <= typical_ns <= DELAYED_NS[1]
            observed.append(observation.NotSaturated(side.name, busy, cores, disturbed, gathered))
    unread = tuple(side.name for side in sides if side.busy() is None)
    saturated = RaceShare(Share.SATURATED, SERVER_IDLE, unread)
    return check_result(CheckName.SATURATION, warnings(observed), saturated)


def _launches(sides: Sequence[_Side]) -> Check:
    speeds = {side.name: round_speeds(side.used) for side in sides}
    observed = list[Observation]()
    for side in sides:
        others = [speeds[other.name] for other in sides if other.name != side.name]
        observed += launch_observations(side.name, side.launches, speeds[side.name], others)
    observed += [observation.AlreadyRunning(side.name) for side in sides if side.kind == "url"]
    return check_result(CheckName.LAUNCHES, warnings(observed), Plain.LAUNCHES_ALIKE)


def _trend(sides: Sequence[_Side]) -> Check:
    findings, most = [], 0.0
    for side in sides:
        rises = rises_of(side.used)
        if len(rises) < FLOOR:
            continue
        mean, error = float(rises.mean()), float(rises.std(ddof=1)) / math.sqrt(len(rises))
        most = max(most, abs(mean))
        if abs(mean) > TREND_ERRORS * error:
            trend = ContenderShare(side.name, OwnShare.TREND, mean)
            findings.append(Finding(_warns(abs(mean), TREND), trend))
    return check_result(CheckName.TREND, findings, RaceShare(Share.NO_TREND, most))


def _void_passes(race: Race) -> Check:
    passes, why = void_passes(race), causes(race)
    lost = sum(map(bool, passes.values()))
    cause = why.most_common(1)[0][0] if why else None
    counted = observation.VoidPasses(lost, len(passes), cause)
    level = _warns(lost / max(len(passes), 1), VOID_PASSES)
    return check_result(CheckName.VOID_PASSES, [Finding(level, counted)], counted)
