"""The checks on a whole race: each says in a sentence what was seen and, where it matters, what to do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from dragstrip.analysis.cpu_shares import engine_share, engine_wait, server_busy, taken_by_others
from dragstrip.analysis.fitness import SERVER_IDLE, choose, limited, rises_of
from dragstrip.metrics import LATE_NS, SUSTAINED, TICKS_NS
from dragstrip.record import Block, Launch, Race, VoidKind
from dragstrip.validity.block import MOST_FAILED, WRONG_KINDS, accounting_faults, failures
from dragstrip.validity.check import PASS, QUIET, RANK, VOID, WARN, Check, Finding, check_result
from dragstrip.validity.environment import surroundings
from dragstrip.validity.launch import launch_findings, round_speeds
from dragstrip.validity.parity import tilts
from dragstrip.validity.transient import MOST_VOID_PASSES, causes, void_passes
from dragstrip.validity.wording import percent, void_text

#: (warn above, void above), as shares.
WAIT = (0.05, 0.15)
STEAL = (0.01, 0.05)
LITTLE = (0.02, 0.10)

#: Warn where connections spend more of their time than this in the engine and the server is not busy.
MOST_TURN = 0.05

#: Others took less than this share of a calm block.
CALM = 0.02

TREND = (0.01, 0.05)
VOID_PASSES = (0.10, MOST_VOID_PASSES)

#: The generator's own load at which a warning is due, while the server is less busy than the second.
ENGINE_NEAR, SERVER_FULL = 0.85, 0.95

#: The share of the generator's own ceiling from which a contender's throughput is marked.
CEILING_NEAR = 0.8

#: Fewest rounds that decide anything (``analysis.FLOOR``).
LEAST_ROUNDS = 10

#: A trend must exceed so many of its standard errors: nobody asked, and there are many contenders.
TREND_ERRORS = 4.0

REMEDIES: Mapping[VoidKind, str] = {
    VoidKind.ENGINE_WAITED: QUIET,
    VoidKind.SERVER_WAITED: QUIET,
    VoidKind.STEAL: "race on a machine whose cores are not shared, or at another time",
    VoidKind.GENERATOR: "give the engine more cores (--engine-cores, --threads) or the servers fewer",
    VoidKind.CLOCK: "let the clock be slewed, not set, while racing (chrony: makestep; timedatectl set-ntp false)",
    VoidKind.ACCOUNTING: "this is a fault of the engine: please report it with `dragstrip export`",
    VoidKind.ERRORS: "see the contender's log; try fewer connections (-c)",
    VoidKind.WRONG_ANSWERS: "see the excerpt of the first wrong answer",
}


@dataclass(frozen=True, slots=True)
class _Side:
    """What one contender that is still in the race left, void rounds apart."""

    name: str
    kind: str
    cores: int
    blocks: tuple[Block, ...]
    launches: tuple[Launch, ...]

    @property
    def single(self) -> bool:
        """Its tree has one thread in every launch: it can only wait for others."""
        return bool(self.launches) and all(launch.threads == 1 for launch in self.launches)

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

    def taken(self) -> float | None:
        """Median share of its cores' time that others took at most; None if unreadable."""
        return self.middle(lambda block: taken_by_others(block, self.cores))


def is_void(checks: Sequence[Check]) -> bool:
    """Whether the race can't be stood behind (exit code 3)."""
    return any(check.status == VOID for check in checks)


def inspect(race: Race) -> tuple[Check, ...]:
    """All checks on a race, in the order of the page. Contenders that are out are not looked at, they have no number.

    A race whose rounds are all void is looked at as it is, so that the cause is told.
    """
    measured = _sides(race)
    return (
        _rounds(race),
        _lanes(race),
        _generator(race, measured),
        _engine_wait(race, measured),
        _server_wait(race, measured),
        _steal(race, measured),
        _accounting(race, measured),
        _errors(race, measured),
        _little(race, measured),
        _turn_round(race, measured),
        _offered(race, measured) if race.load.rate_per_s else _saturation(measured),
        _launches(measured),
        _trend(race, measured),
        _void_passes(race),
        *surroundings(race, {side.name: side.blocks for side in measured}),
        *_parity(race),
    )


def _sides(race: Race) -> list[_Side]:
    """What each contender that is still in the race left, if it left anything."""
    rounds = [this for this in race.rounds if not this.void] or list(race.rounds)
    sides = []
    for entrant in race.entrants:
        if not entrant.out:
            launches = tuple(one for this in rounds for one in this.launches if one.contender == entrant.name)
            blocks = tuple(block for this in rounds for block in this.blocks if block.contender == entrant.name)
            threads = max((launch.threads for launch in launches), default=0) or len(race.server_cores)
            cores = max(min(len(race.server_cores), threads), 1)
            sides.append(_Side(entrant.name, entrant.kind, cores, blocks, launches))
    return [side for side in sides if side.blocks]


def _parity(race: Race) -> Iterator[Check]:
    """One warning for each thing that tilts the race; what differs without tilting it is on the sheet only."""
    found = tilts(race)
    if not found:
        yield Check(check="parity", status=PASS, detail="nothing on the parity sheet tilts the race")
    for fact, detail in found:
        yield check_result(f"parity, {fact}", [Finding(WARN, detail)], "")


def _level(value: float, limits: tuple[float, float], *, most: str = VOID) -> str:
    """ "warn" above the first limit, ``most`` above the second."""
    return most if value > limits[1] else WARN if value > limits[0] else PASS


def _noise_only(race: Race) -> str:
    """The most that a check of the machine's noise or of one contender's fitness may come to.

    Up to method version 4 they voided the race; from 5 on noise is in the intervals, and a contender that can't be
    compared takes its own pairs' verdicts, not those of the others (``fitness.unfit``).
    """
    return WARN if race.method >= 5 else VOID


def _rounds(race: Race) -> Check:
    valid = sum(not this.void for this in race.rounds)
    void = len(race.rounds) - valid
    again = f"; {void} more were void and run again" if void else ""
    if valid >= LEAST_ROUNDS:
        return Check(check="rounds", status=PASS, detail=f"{valid} rounds of fresh launches{again}")
    seen = f"{valid} valid rounds, {LEAST_ROUNDS} are the least{again}"
    remedy = "with fewer, rare slow launches mislead; give it a larger --budget"
    return check_result("rounds", [Finding(WARN, seen, remedy)], "")


def _lanes(race: Race) -> Check:
    shared = _shared(race)
    if not shared:
        detail = f"servers on cores {_list(race.server_cores)}, engine on cores {_list(race.engine_cores)}"
        return Check(check="lanes", status=PASS, detail=detail)
    seen = f"servers and engine share core {_list(shared)}: what the engine spends is missing from the servers"
    remedy = "trust the CPU per request more, or give each cores of its own (--server-cores, --engine-cores)"
    return check_result("lanes", [Finding(WARN, seen, remedy, mark=";")], "")


def _shared(race: Race) -> list[int]:
    return sorted(set(race.server_cores) & set(race.engine_cores))


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _ceiling_per_s(race: Race) -> float | None:
    """What this machine's generator can send over as many connections, where `dragstrip doctor` has measured it."""
    known = race.machine.get("generator_ceiling")
    if not known:
        return None
    same = [point for point in known["points"] if point["keepalive"] == race.load.keepalive]
    if not same:
        return None
    nearest = min(same, key=lambda point: abs(math.log(point["connections"] / race.load.connections)))
    return float(nearest["ceiling_per_s"]) * race.load.threads / float(known["threads"])


def held_by_generator(race: Race) -> tuple[str, ...]:
    """Contenders whose throughput is the engine's more than their own: it was near its limit or at it, they not."""
    found = []
    for side in _sides(race):
        busy = side.busy()
        near = median(engine_share(block) for block in side.blocks) >= ENGINE_NEAR
        found += [side.name] if near and busy is not None and busy < SERVER_FULL else []
    return tuple(found)


def _generator(race: Race, sides: Sequence[_Side]) -> Check:
    ceiling_per_s, more_engine = _ceiling_per_s(race), REMEDIES[VoidKind.GENERATOR]

    def findings() -> Iterable[Finding]:
        for side in sides:
            share = median(engine_share(block) for block in side.blocks)
            busy = side.busy()
            server = "unreadable" if busy is None else percent(busy)
            seen = f"against {side.name} the engine used {percent(share)} of its cores, the server {server} of its own"
            if limited(side.blocks, side.cores):
                # CPU time per request is not changed by a client that can't send more.
                told = f"the generator is the limit: {seen}"
                if choose(race).metric == "cpu":
                    told = f"{told}, whose throughput is the generator's; the CPU time per request decides"
                    yield Finding(WARN, told, about=(side.name,))
                else:
                    yield Finding(_noise_only(race), told, more_engine, (side.name,), ";")
            elif share >= ENGINE_NEAR and (busy is None or busy < SERVER_FULL):
                yield Finding(WARN, f"the generator is near its limit: {seen}", more_engine, (side.name,), ";")
            rate_per_s = median(block.requests * 1e9 / max(block.counted_ns, 1) for block in side.blocks)
            if ceiling_per_s and rate_per_s >= CEILING_NEAR * ceiling_per_s:
                near = (
                    f"{side.name} was served {percent(rate_per_s / ceiling_per_s)} of what the generator can send here"
                )
                yield Finding(WARN, f"{near} (dragstrip doctor)", more_engine, (side.name,))

    most = max((median(map(engine_share, side.blocks)) for side in sides), default=0.0)
    return check_result("generator", findings(), f"the engine used at most {percent(most)} of its cores")


def _engine_wait(race: Race, sides: Sequence[_Side]) -> Check:
    share = median([engine_wait(block) for side in sides for block in side.blocks] or [0.0])
    seen = f"the engine waited {percent(share)} of the time for its cores (median over blocks)"
    if _shared(race):
        return Check(check="engine wait", status=PASS, detail=f"{seen}; it shares them with the servers")
    finding = Finding(_level(share, WAIT, most=_noise_only(race)), f"{seen}, taken by others", QUIET)
    return check_result("engine wait", [finding], seen)


def _server_wait(race: Race, sides: Sequence[_Side]) -> Check:
    """Several threads may wait for each other while the core is idle for another reason: they warn, never void."""
    if _shared(race):
        return Check(check="server wait", status=PASS, detail="says nothing: servers share cores with the engine")
    findings, most, unread = [], 0.0, []
    for side in sides:
        taken = side.taken()
        if taken is None:
            unread.append(side.name)
            continue
        most = max(most, taken)
        level = (
            _level(taken, WAIT, most=_noise_only(race))
            if side.single
            else min(_level(taken, WAIT), WARN, key=RANK.__getitem__)
        )
        seen = f"others took up to {percent(taken)} of {side.name}'s time on its cores"
        findings.append(Finding(level, seen, QUIET, (side.name,)))
    unknown = f"; unreadable: {', '.join(unread)}" if unread else ""
    return check_result("server wait", findings, f"others took at most {percent(most)} of any server's time{unknown}")


def _steal(race: Race, sides: Sequence[_Side]) -> Check:
    cores = len(set(race.server_cores) | set(race.engine_cores)) or 1
    stolen = sum(block.steal_ns for side in sides for block in side.blocks)
    lasted = sum(block.duration_ns for side in sides for block in side.blocks) * cores
    share = stolen / lasted if lasted else 0.0
    seen = f"the hypervisor took {percent(share)} of the race's cores"
    finding = Finding(_level(share, STEAL, most=_noise_only(race)), seen, REMEDIES[VoidKind.STEAL])
    return check_result("steal", [finding], seen)


def _accounting(race: Race, sides: Sequence[_Side]) -> Check:
    faults = [why for side in sides for block in side.blocks for why in accounting_faults(block, race.load.connections)]
    told = f"{len(faults)} faults, the first: {''.join(map(void_text, faults[:1]))}"
    findings = [Finding(VOID if faults else PASS, told, REMEDIES[VoidKind.ACCOUNTING], mark=";")]
    return check_result(
        "accounting", findings, "in every block: sent = answered + failed + in flight, quantiles in order"
    )


def _errors(race: Race, sides: Sequence[_Side]) -> Check:
    def findings() -> Iterable[Finding]:
        for side in sides:
            failed, sent = sum(map(failures, side.blocks)), sum(block.sent for block in side.blocks)
            if not failed:
                continue
            kinds: Counter[str] = Counter()
            for block in side.blocks:
                kinds.update(block.errors)
            wrong = any(kinds[kind] for kind in WRONG_KINDS)
            by_kind = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common() if count)
            # Blocks with errors are void by themselves, and who fails in most of them is out of the race.
            status = VOID if wrong else _noise_only(race) if failed > MOST_FAILED * sent else WARN
            seen = f"{side.name}: {failed} errors to {sent} requests ({by_kind})"
            yield Finding(status, seen, REMEDIES[VoidKind.ERRORS], (side.name,), ";")

    answered = sum(block.answered for side in sides for block in side.blocks)
    return check_result("errors", findings(), f"none: all {answered} answers were right")


def _little(race: Race, sides: Sequence[_Side]) -> Check:
    """Every connection waits for an answer or for the engine, at any time: the two add up to all of them."""
    if race.load.rate_per_s:
        return Check(check="Little's law", status=PASS, detail="an open loop keeps no connection busy: not looked at")
    seen = "connections = rate × (mean latency + the engine's own turn-round), within"
    findings, most = [], 0.0
    for side in sides:
        used = _undisturbed(race, side)
        counted_ns = sum(block.counted_ns for block in used)
        answered, connects = sum(block.answered for block in used), sum(block.connects for block in used)
        if not counted_ns:
            continue
        busy = sum(block.latency_sum_ns + block.turn_sum_ns for block in used) / counted_ns
        off = abs(busy / race.load.connections - 1)
        most = max(most, off)
        level = _level(off, LITTLE)
        # Between a connection that the server ended and the next one there may be time that is neither.
        reconnects = connects > 0.001 * answered and busy < race.load.connections
        told = f"{side.name}: {busy:.1f} of {race.load.connections} connections were at work on average"
        if reconnects:
            least = min(level, WARN, key=RANK.__getitem__)
            findings.append(Finding(least, f"{told}, as it closes connections", about=(side.name,)))
        else:
            apart = "rate and latency don't belong together"
            findings.append(Finding(level, f"{told}, off by {percent(off)}", apart, (side.name,)))
    return check_result("Little's law", findings, f"{seen} {percent(most)}")


def _undisturbed(race: Race, side: _Side) -> Sequence[Block]:
    """Blocks in which hardly anything was taken from the cores, by method 5: an answer that waited out a burst of
    another program's brings the latency of before its block into it."""
    if race.method < 5:
        return side.used
    return [block for block in side.used if engine_wait(block) + (taken_by_others(block, side.cores) or 0.0) < CALM]


def _turn_round(race: Race, sides: Sequence[_Side]) -> Check:
    """Answers that wait in the engine keep a busy server's queue shorter, and an idle server idle."""
    if race.load.rate_per_s:
        return Check(
            check="turn-round", status=PASS, detail="an open loop's requests wait for the clock: not looked at"
        )
    findings, most = [], 0.0
    for side in sides:
        counted_ns = sum(block.counted_ns for block in side.used) * race.load.connections
        share = sum(block.turn_sum_ns for block in side.used) / max(counted_ns, 1)
        most, busy = max(most, share), side.busy()
        if share > MOST_TURN and (busy is None or busy < SERVER_IDLE):
            told = f"{side.name}: connections spent {percent(share)} of the time waiting in the generator"
            told = f"{told}, not for the server"
            findings.append(Finding(WARN, told, REMEDIES[VoidKind.GENERATOR], (side.name,), ";"))
    seen = f"connections spent at most {percent(most)} of the time waiting in the generator"
    busy_all_the_same = "" if most <= MOST_TURN else ", and the servers were busy all the same"
    return check_result("turn-round", findings, seen + busy_all_the_same)


def _offered(race: Race, sides: Sequence[_Side]) -> Check:
    """Whether every contender was offered the rate, and on time; blocks are not judged one by one, slow ones count."""
    findings, allowed_ns = [], LATE_NS + TICKS_NS[race.load.pace]
    for side in sides:
        offered = sum(block.offered or 0 for block in side.used)
        share = sum(block.departed or 0 for block in side.used) / max(offered, 1)
        lag_ns = side.middle(lambda block: block.lag_p99_ns)
        if offered and share < SUSTAINED:
            told = f"{side.name}: only {percent(share)} of the offered {race.load.rate_per_s:,g}/s left in time"
            remedy = "not sustained, so its latency is that of a queue; lower --rate"
            findings.append(Finding(_noise_only(race), told, remedy, (side.name,)))
        elif lag_ns is not None and lag_ns > allowed_ns:
            told = f"{side.name}: one request in a hundred left over {lag_ns / 1000:,.0f} µs late"
            remedy = "no connection was free (more by -c), or the engine woke late"
            findings.append(Finding(WARN, told, remedy, (side.name,)))
    return check_result("offered rate", findings, f"{race.load.rate_per_s:,g}/s was offered to all, and on time")


def _saturation(sides: Sequence[_Side]) -> Check:
    findings = []
    for side in sides:
        busy, cores = side.busy(), side.cores
        if busy is not None and busy < SERVER_IDLE:
            told = f"{side.name} kept {percent(busy)} of its {'core' if cores == 1 else f'{cores} cores'} busy"
            remedy = "its throughput is no capacity; try more connections (-c)"
            findings.append(Finding(WARN, told, f"bound by waiting, {remedy}", (side.name,)))
    unread = [side.name for side in sides if side.busy() is None]
    unknown = f", except {', '.join(unread)}, whose CPU time can't be read" if unread else ""
    return check_result(
        "saturation", findings, f"the servers kept their cores at least {percent(SERVER_IDLE)} busy{unknown}"
    )


def _launches(sides: Sequence[_Side]) -> Check:
    speeds = {side.name: round_speeds(side.used) for side in sides}
    findings = []
    for side in sides:
        others = [speeds[other.name] for other in sides if other.name != side.name]
        findings += launch_findings(side.name, side.launches, speeds[side.name], others)
    findings += [
        Finding(
            WARN,
            f"{side.name} was already running",
            "how its launches differ is not in the interval",
            (side.name,),
        )
        for side in sides
        if side.kind == "url"
    ]
    return check_result("launches", findings, "all came up, warmed up, and were of one kind")


def _trend(race: Race, sides: Sequence[_Side]) -> Check:
    findings, most = [], 0.0
    for side in sides:
        rises = rises_of(side.used)
        if len(rises) < LEAST_ROUNDS:
            continue
        mean, error = float(rises.mean()), float(rises.std(ddof=1)) / math.sqrt(len(rises))
        most = max(most, abs(mean))
        if abs(mean) > TREND_ERRORS * error:
            way = "rose" if mean > 0 else "fell"
            told = f"{side.name}'s throughput {way} by {percent(abs(mean))} from a round's first block to its last"
            level = _level(abs(mean), TREND, most=_noise_only(race))
            findings.append(Finding(level, told, "give it a longer warm-up in its definition", (side.name,)))
    return check_result(
        "trend", findings, f"no trend within the rounds beyond its noise (largest mean {percent(most)})"
    )


def _void_passes(race: Race) -> Check:
    passes, why = void_passes(race), causes(race)
    lost = sum(map(bool, passes.values()))
    seen = f"{lost} of {len(passes)} passes void"
    cause = why.most_common(1)[0][0] if why else None
    remedy = REMEDIES.get(cause, QUIET) if cause else QUIET
    level = _level(lost / max(len(passes), 1), VOID_PASSES, most=_noise_only(race))
    findings = [Finding(level, f"{seen}, mostly because: {cause}", remedy, mark=";")]
    return check_result("void passes", findings, f"{seen}{f' ({cause})' if cause else ''}")
