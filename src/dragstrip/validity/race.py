"""The checks on a whole race: what each saw, in words, and what to do about it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from dragstrip.analysis.interval import EARLY, FLOOR, LEAST_APART
from dragstrip.metrics import DELAYED_NS, GATHERED, LATE_NS, SUSTAINED, TICKS_NS
from dragstrip.quantities import as_percent
from dragstrip.record import Block, Ending, Launch, Race
from dragstrip.validity.block import WRONG_KINDS, accounting_faults, failures
from dragstrip.validity.check import Check, CheckName, Finding, Status, check_result
from dragstrip.validity.disturbance import causes, void_passes
from dragstrip.validity.environment import MISCOUNT, surroundings
from dragstrip.validity.launch import launch_findings, round_speeds
from dragstrip.validity.littles_law import (
    CALM,
    beyond,
    little_level,
    reconnected,
    undisturbed,
    without_pauses,
)
from dragstrip.validity.messages import ENGINE_FAULT, MORE_ENGINE, QUIET, SEE_LOG, VOID_REMEDIES, more_rounds, void_text
from dragstrip.validity.parity import tilts

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
class _PairSide:
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
        *_machines(race, blocks),
        *_parity(race),
    )


def _sides(race: Race) -> list[_PairSide]:
    """What each contender that is still in the race left, if it left anything."""
    rounds = [round_ for round_ in race.rounds if not round_.void] or list(race.rounds)
    cores, sides = cores_of(race, rounds), []
    for entrant in race.entrants:
        if not entrant.out:
            name = entrant.name
            launches = tuple(launch for round_ in rounds for launch in round_.launches if launch.contender == name)
            blocks = tuple(block for round_ in rounds for block in round_.blocks if block.contender == name)
            sides.append(_PairSide(name, entrant.kind, cores[name], blocks, launches))
    return [side for side in sides if side.blocks]


def _machines(race: Race, blocks: Mapping[str, Sequence[Block]]) -> Iterator[Check]:
    """Whether the links between machines set the pace; nothing for a race on one machine."""
    if race.machine.fleet:
        from dragstrip.validity.links import links  # races over several machines alone need it

        yield links(race, blocks)


def _database(race: Race, sides: Sequence[_PairSide]) -> Iterator[Check]:
    """Whether the database executed what the responses needed, and whether it was the limit; nothing without one."""
    used = database_use(race)
    if not used:
        return
    findings, most = [], 0.0
    for name in (side.name for side in sides if side.name in used):
        use = used[name]
        if use.busy > DATABASE_FULL:
            full = f"the database is the limit: {name} kept it {as_percent(use.busy)} busy"
            apart = "the servers in front of it can't be compared"
            remedy = f"{apart}; give the database more cores, or send it less work"
            findings.append(Finding(Status.WARN, full, remedy, contender=name))
        off = use.executed / use.wanted - 1 if use.wanted else 0.0
        most = max(most, abs(off))
        if abs(off) > MISCOUNT[0]:
            # Fewer than the responses need: some came from elsewhere. More: a server requests more than it sends.
            status = Status.VOID if off < -MISCOUNT[1] else Status.WARN
            than = f"{'fewer' if off < 0 else 'more'} than the {use.wanted:,.0f} that its responses needed"
            text = f"the database executed {use.executed:,} statements for {name}, {than}"
            remedy = "see what its handler does in addition to one statement per row"
            findings.append(Finding(status, text, remedy, contender=name))
    within = f"it executed the statements that the responses needed, within {as_percent(most)}"
    busy = as_percent(max(use.busy for use in used.values()))
    yield check_result(CheckName.DATABASE, findings, f"{within}, and was at most {busy} busy")


def _parity(race: Race) -> Iterator[Check]:
    """One warning for each thing that tilts the race; what differs without tilting it is on the sheet only."""
    tilting = list(tilts(race))
    if not tilting:
        yield check_result(CheckName.PARITY, (), "nothing on the parity sheet tilts the race")
    for fact, text in tilting:
        yield check_result(CheckName.PARITY, [Finding(Status.WARN, text)], fact=fact)


def _warns(value: float, limit: float) -> Status:
    return Status.WARN if value > limit else Status.PASS


def _rounds(race: Race) -> Check:
    valid = sum(not round_.void for round_ in race.rounds)
    void = len(race.rounds) - valid
    rerun = f"; {void} more were void and run again" if void else ""
    findings, least = [], EARLY if race.finished is Ending.DECIDED else FLOOR
    if valid < least:
        few = (
            f"{valid} valid rounds, at least {least} are needed for differences below {as_percent(LEAST_APART)}{rerun}"
        )
        remedy = f"with fewer rounds, rare slow launches can mislead{more_rounds(race.finished)}"
        findings.append(Finding(Status.WARN, few, remedy))
    return check_result(CheckName.ROUNDS, findings, f"{valid} rounds of fresh launches{rerun}")


def _lanes(race: Race) -> Check:
    findings, shared = [], _listed(_shared(race))
    if shared:
        text = f"servers and engine share core {shared}: the servers lose the CPU time that the engine uses"
        remedy = "trust the CPU per request more, or give each cores of its own (--server-cores, --engine-cores)"
        findings.append(Finding(Status.WARN, text, remedy, each=True))
    apart = f"servers on cores {_listed(race.server_cores)}, engine on cores {_listed(race.engine_cores)}"
    return check_result(CheckName.LANES, findings, apart)


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


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


def _generator(race: Race, sides: Sequence[_PairSide]) -> Check:
    findings = []
    ceiling_per_s = _ceiling_per_s(race)
    for side in sides:
        share, busy = side.engine_share(), side.busy()
        server = "unreadable" if busy is None else as_percent(busy)
        used = f"with {side.name}, the engine used {as_percent(share)} of its cores and the server {server} of its own"
        if limited(side.blocks, side.cores):
            text, remedy = f"the generator is the limit: {used}", MORE_ENGINE
            if choose(race).metric == "cpu":  # which a client that can't send more does not change
                text += ", so throughput measures the generator; CPU time per request decides"
                remedy = ""
            findings.append(Finding(Status.WARN, text, remedy, each=True, contender=side.name))
        elif share >= ENGINE_NEAR and (busy is None or busy < SERVER_FULL):
            text = f"the generator is near its limit: {used}"
            findings.append(Finding(Status.WARN, text, MORE_ENGINE, each=True, contender=side.name))
        rate_per_s = median(block.requests * 1e9 / max(block.counted_ns, 1) for block in side.blocks)
        if ceiling_per_s and rate_per_s >= CEILING_NEAR * ceiling_per_s:
            near = f"{as_percent(rate_per_s / ceiling_per_s)} of the load generator's maximum rate on this machine"
            text = f"{side.name} received {near} (dragstrip doctor)"
            findings.append(Finding(Status.WARN, text, MORE_ENGINE, contender=side.name))
    most = max((side.engine_share() for side in sides), default=0.0)
    return check_result(CheckName.GENERATOR, findings, f"the engine used at most {as_percent(most)} of its cores")


def _engine_wait(race: Race, sides: Sequence[_PairSide]) -> Check:
    share = median([engine_wait(block) for side in sides for block in side.blocks] or [0.0])
    waited = f"the engine waited {as_percent(share)} of the time for its cores (median over blocks)"
    if _shared(race):
        return check_result(CheckName.ENGINE_WAIT, (), f"{waited}; it shares them with the servers")
    taken = Finding(_warns(share, WAIT), f"{waited}, taken by other programs and the hypervisor", QUIET)
    return check_result(CheckName.ENGINE_WAIT, [taken], waited)


def _server_wait(race: Race, sides: Sequence[_PairSide]) -> Check:
    if shares_lane(race):
        shared = "not meaningful: servers share cores with the engine or the database"
        return check_result(CheckName.SERVER_WAIT, (), shared)
    taken = {side.name: side.taken() for side in sides}
    known = {name: share for name, share in taken.items() if share is not None}
    findings = [
        Finding(
            _warns(share, WAIT),
            f"other programs took up to {as_percent(share)} of {name}'s time on its cores",
            QUIET,
            contender=name,
        )
        for name, share in known.items()
    ]
    unread = _listed(name for name in taken if name not in known)
    most = as_percent(max(known.values(), default=0.0))
    text = f"other programs took at most {most} of any server's time{f'; unreadable: {unread}' if unread else ''}"
    return check_result(CheckName.SERVER_WAIT, findings, text)


def _steal(race: Race, sides: Sequence[_PairSide]) -> Check:
    cores = len(set(race.server_cores) | set(race.engine_cores)) or 1
    stolen = sum(block.steal_ns for side in sides for block in side.blocks)
    lasted = sum(block.duration_ns for side in sides for block in side.blocks) * cores
    share = stolen / lasted if lasted else 0.0
    text = f"the hypervisor took {as_percent(share)} of the race's cores"
    remedy = "race on a machine whose cores are not shared, or at another time"
    return check_result(CheckName.STEAL, [Finding(_warns(share, STEAL), text, remedy)], text)


def _accounting(race: Race, sides: Sequence[_PairSide]) -> Check:
    faults = [why for side in sides for block in side.blocks for why in accounting_faults(block, race.load.at_once)]
    blocks = [block for side in sides for block in side.blocks]
    # Such blocks are void, and if they are many, the others can't be trusted either.
    void = 2 * sum(bool(block.void) for block in blocks) > len(blocks)
    counted = any(accounting_faults(block, race.load.at_once) for side in sides for block in side.used)
    level = Status.VOID if void or counted else Status.WARN
    findings = [
        Finding(level, f"{len(faults)} faults, the first: {void_text(first)}", ENGINE_FAULT, each=True)
        for first in faults[:1]
    ]
    adds_up = "in every block: sent = answered + failed + in flight, quantiles in order"
    return check_result(CheckName.ACCOUNTING, findings, adds_up)


def _errors(race: Race, sides: Sequence[_PairSide]) -> Check:
    findings = []
    for side in sides:
        failed, sent = sum(map(failures, side.blocks)), sum(block.sent for block in side.blocks)
        if failed:
            kinds = sum((Counter(block.errors) for block in side.blocks), Counter[str]())
            # Blocks with errors are void by themselves, and a contender that fails in most of them is out.
            status = Status.VOID if any(kinds[kind] for kind in WRONG_KINDS) else Status.WARN
            by_kind = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
            text = f"{side.name}: {failed} errors to {sent} requests ({by_kind})"
            findings.append(Finding(status, text, SEE_LOG, each=True, contender=side.name))
    answered = sum(block.answered for side in sides for block in side.blocks)
    return check_result(CheckName.ERRORS, findings, f"none: all {answered} responses were correct")


def _little(race: Race, sides: Sequence[_PairSide]) -> Check:
    """Every connection waits for a response or for the engine, at any time: the two add up to all connections."""
    if race.load.rate_per_s:
        open_loop = "not checked: an open loop does not keep every connection busy"
        return check_result(CheckName.LITTLES_LAW, (), open_loop)
    findings, most, judged, unjudged = list[Finding](), 0.0, False, list[str]()
    # Neither CPU time nor the number of responses depends on when they are noticed.
    worst = Status.WARN if choose(race).metric == "cpu" else Status.VOID
    for side in (one for one in sides if one.used):
        if count := sum(beyond(block, race.load.at_once) for block in side.used):
            waited = f"in {count} of {len(side.used)} blocks its connections waited longer than the block lasted"
            findings.append(Finding(worst, f"{side.name}: {waited}", ENGINE_FAULT, contender=side.name))
        calm = without_pauses(undisturbed(side.used, side.cores), side.used)
        law = little_level(calm, len(side.used), race.load.at_once)
        if law is None:
            unjudged.append(side.name)
            continue
        level, busy, off = law
        judged, most = True, max(most, off)
        reconnects = reconnected(calm, busy, race.load.at_once)
        text = f"{side.name}: {busy:.1f} of {race.load.at_once} connections were at work on average"
        text += ", as it closes connections" if reconnects else f", off by {as_percent(off)}"
        remedy = "" if reconnects else "rate and latency contradict each other"
        if level is Status.VOID:
            level = Status.WARN if reconnects else worst
        findings.append(Finding(level, text, remedy, contender=side.name))
    names, few = _listed(unjudged), f"in too few of their blocks others took under {as_percent(CALM)}"
    disturbed = f"too disturbed to judge whether rate and latency agree: {names} ({few})"
    if unjudged and not _shared(race):
        findings.append(Finding(Status.WARN, disturbed, unjudged=True))
    agrees = f"connections = rate × (mean latency + the engine's own turnaround), within {as_percent(most)}"
    holds = f"{agrees}; too disturbed to judge: {names}" if unjudged else agrees
    return check_result(CheckName.LITTLES_LAW, findings, disturbed if unjudged and not judged else holds)


def _turnaround(race: Race, sides: Sequence[_PairSide]) -> Check:
    """Responses that wait in the engine keep a busy server's queue shorter, and an idle server idle."""
    if race.load.rate_per_s:
        return check_result(CheckName.TURNAROUND, (), "not checked: an open loop's requests wait for the clock")
    findings, most = [], 0.0
    for side in sides:
        counted_ns = sum(block.counted_ns for block in side.used) * race.load.at_once
        share = sum(block.turn_sum_ns for block in side.used) / max(counted_ns, 1)
        most, busy = max(most, share), side.busy()
        if share > MAX_TURN and (busy is None or busy < SERVER_IDLE):
            waited = f"connections spent {as_percent(share)} of the time waiting in the generator, not for the server"
            found = Finding(Status.WARN, f"{side.name}: {waited}", MORE_ENGINE, each=True, contender=side.name)
            findings.append(found)
    anyway = ", but the servers were busy anyway" if most > MAX_TURN else ""
    text = f"connections spent at most {as_percent(most)} of the time waiting in the generator{anyway}"
    return check_result(CheckName.TURNAROUND, findings, text)


def _offered(race: Race, sides: Sequence[_PairSide]) -> Check:
    """Whether every contender was offered the rate, and on time; blocks are not judged one by one, slow ones count."""
    findings, allowed_ns, rate = [], LATE_NS + TICKS_NS[race.load.pace], f"{race.load.rate_per_s:,g}/s"
    for side in sides:
        offered = sum(block.offered or 0 for block in side.used)
        share = sum(block.departed or 0 for block in side.used) / max(offered, 1)
        lag_ns = side.middle(lambda block: block.lag_p99_ns)
        if offered and share < SUSTAINED:
            text = f"{side.name}: only {as_percent(share)} of the offered {rate} left on time"
            remedy = "the rate was not sustained, so its latency is queueing delay; lower --rate"
            findings.append(Finding(Status.WARN, text, remedy, contender=side.name))
        elif lag_ns is not None and lag_ns > allowed_ns:
            text = f"{side.name}: 1 % of its requests left more than {lag_ns / 1000:,.0f} µs late"
            remedy = "no connection was free (more by -c), or the engine woke late"
            findings.append(Finding(Status.WARN, text, remedy, contender=side.name))
    return check_result(CheckName.OFFERED_RATE, findings, f"{rate} was offered to every contender, on time")


def _saturation(race: Race, sides: Sequence[_PairSide]) -> Check:
    findings, beside = [], database_use(race) if shares_lane(race) else {}
    lost = lost_shares(race, race.rounds)
    for side in sides:
        busy, cores = side.busy(), side.cores
        if busy is not None and side.name in beside:
            busy += beside[side.name].cores  # what its own backends had of the same cores
        if busy is not None and busy < SERVER_IDLE:
            text = f"{side.name} kept {as_percent(busy)} of its {'core' if cores == 1 else f'{cores} cores'} busy"
            findings.append(Finding(Status.WARN, text, _why_idle(side, busy, lost), contender=side.name))
    unread = _listed(side.name for side in sides if side.busy() is None)
    unknown = f", except {unread}, whose CPU time can't be read" if unread else ""
    saturated = f"the servers kept their cores at least {as_percent(SERVER_IDLE)} busy{unknown}"
    return check_result(CheckName.SATURATION, findings, saturated)


def _why_idle(side: _PairSide, busy: float, lost: Mapping[str, float]) -> str:
    """Why a server's cores were not busy, and what to do; ``lost``: shares of time that others took."""
    if busy + lost.get(side.name, 0.0) >= SERVER_IDLE:  # what it would have done is unknown
        return "other programs took the CPU time it lacked, so its throughput is not its capacity"
    if DELAYED_NS[0] <= (side.middle(lambda block: block.p50_ns) or 0) <= DELAYED_NS[1]:
        return GATHERED
    return "it was waiting, not saturated, so its throughput is not its capacity; try more connections (-c)"


def _launches(sides: Sequence[_PairSide]) -> Check:
    speeds = {side.name: round_speeds(side.used) for side in sides}
    findings = list[Finding]()
    for side in sides:
        others = [speeds[other.name] for other in sides if other.name != side.name]
        findings += launch_findings(side.name, side.launches, speeds[side.name], others)
    remedy = "the interval does not include launch-to-launch variation"
    findings += [
        Finding(Status.WARN, f"{side.name} was already running", remedy, contender=side.name)
        for side in sides
        if side.kind == "url"
    ]
    return check_result(CheckName.LAUNCHES, findings, "all launches started, warmed up and behaved alike")


#: What helps a contender that gets faster within the rounds, by its kind; and one that gets slower.
_WARMER = {
    "": "give it a longer warm-up in its definition",
    "serve": "a budget of a minute or more learns longer warm-ups; in a definition, dragstrip init has warm_up.least_s",
    "url": "load it longer before the race, by dragstrip load",
}
_SLOWER = "look for memory, caches and logs that grow while it serves"


def _trend(sides: Sequence[_PairSide]) -> Check:
    findings, most = [], 0.0
    for side in sides:
        rises = rises_of(side.used)
        if len(rises) < FLOOR:
            continue
        mean, error = float(rises.mean()), float(rises.std(ddof=1)) / math.sqrt(len(rises))
        most = max(most, abs(mean))
        if abs(mean) > TREND_ERRORS * error:
            change = f"{'rose' if mean > 0 else 'fell'} by {as_percent(abs(mean))}"
            text = f"{side.name}'s throughput {change} from a round's first block to its last"
            remedy = _WARMER.get(side.kind, _WARMER[""]) if mean > 0 else _SLOWER
            findings.append(Finding(_warns(abs(mean), TREND), text, remedy, contender=side.name))
    none = f"no trend within the rounds beyond its noise (largest mean {as_percent(most)})"
    return check_result(CheckName.TREND, findings, none)


def _void_passes(race: Race) -> Check:
    passes, why = void_passes(race), causes(race)
    lost = sum(map(bool, passes.values()))
    cause = why.most_common(1)[0][0] if why else None
    text = f"{lost} of {len(passes)} passes void{f', mostly because: {cause}' if cause else ''}"
    remedy = VOID_REMEDIES.get(cause, QUIET) if cause else QUIET
    level = _warns(lost / max(len(passes), 1), VOID_PASSES)
    return check_result(CheckName.VOID_PASSES, [Finding(level, text, remedy, each=True)], text)
