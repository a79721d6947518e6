"""What a race's records show of machine and generator before any ratio is computed. Pure.

Which metric decides if the user left it open, and which contenders can't be compared by it. Both read which programs
had the cores and which were busy, never which contender was faster. Shared by the judgement and the checks
(``docs/METHOD.md``, "The metric").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median

import numpy as np

from dragstrip.analysis.columns import with_column
from dragstrip.analysis.cpu_shares import engine_share, lost_to_machine, server_busy, usual_waits
from dragstrip.analysis.interval import EARLY, FLOOR, FloatArray
from dragstrip.metrics import AUTO, KNOWN, SUSTAINED, MetricChoice
from dragstrip.record import Block, Launch, LaunchCount, Race, Round

#: The generator is the limit if it is busier than the first and the server less busy than the second.
ENGINE_FULL, SERVER_IDLE = 0.95, 0.90

#: A database that was busy for at least this share of its time was the limit, and the servers in front of it are tied.
DATABASE_FULL = 0.90

#: From this share of the cores' time on that other programs and the hypervisor take, throughput is the machine's.
TAKEN = 0.05

#: On one core, threads of one server take no more than this share of it from each other.
MAX_OWN = 0.08

#: A contender still gets faster if its speed rises by more than this share in a round.
RISING = 0.05

#: A mean over rounds is beyond a limit for good if it is so by this many of its standard errors.
SURE_ERRORS = 4.0


class UnfitReason(StrEnum):
    """Why a contender's number by a metric is not its own."""

    GENERATOR = "generator"  #: the load generator was its limit
    RATE = "rate"  #: it did not sustain the offered rate
    WARMING = "warming"  #: it still warms up
    DATABASE = "database"  #: the database was its limit
    SAME_RATE = "same rate"  #: throughput is what was offered, the same to all


#: Text before the names of the contenders concerned.
_UNFIT = {
    UnfitReason.GENERATOR: "limited by the load generator",
    UnfitReason.RATE: "could not sustain the offered rate",
    UnfitReason.WARMING: "still warming up",
    UnfitReason.DATABASE: "limited by the database",
    UnfitReason.SAME_RATE: "offered the same rate, which their throughput can't exceed",
}


def unfit_text(groups: Iterable[tuple[UnfitReason, tuple[str, ...]]]) -> str:
    """Why contenders get no verdict: each reason once, then their names; "" without any."""
    return "; ".join(f"{_UNFIT[why]}: {', '.join(names)}" for why, names in groups)


@dataclass(frozen=True, slots=True)
class SameRate:
    """CPU time decides: all contenders were offered the same rate; ``waits``: and their responses wait."""

    waits: bool = False


@dataclass(frozen=True, slots=True)
class GeneratorLimit:
    """CPU time decides: the load generator was the limit of these contenders' throughput; ``waits``: responses wait."""

    contenders: tuple[str, ...]
    waits: bool = False


@dataclass(frozen=True, slots=True)
class TimeTaken:
    """CPU time decides: other programs took this share of the time; ``stolen``: the hypervisor was among them."""

    share: float
    stolen: bool


MetricReason = SameRate | GeneratorLimit | TimeTaken


@dataclass(frozen=True, slots=True)
class MetricDecision:
    """The metric that decides, whether by the median over passes, and why it was chosen.

    Args:
        reason: None if the user named the metric, or if nothing speaks against throughput.
    """

    metric: str
    typical: bool
    reason: MetricReason | None


def shares_lane(race: Race) -> bool:
    """Whether engine or database run on the servers' cores: of several workloads only some may ask the database."""
    asked = any(LaunchCount.DATABASE_EXEC_NS in launch.counts for round_ in race.rounds for launch in round_.launches)
    database = race.machine.database_cores if asked else ()
    return bool(set(race.server_cores) & {*race.engine_cores, *database})


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseUse:
    """What one contender made of the race's database over its blocks.

    Args:
        executed: its statements there; wanted: the statements that its responses needed.
        cpu_ns: CPU time of its backends; None if it is not known of every launch.
        answered: requests. lasted_ns: its blocks' time.
        cores: the share of the database's cores' time that its backends had, as far as it is known.
        connections: the share of its connections' time that was spent within a statement, while requests were sent.
    """

    executed: int
    wanted: float
    cpu_ns: int | None
    answered: int
    lasted_ns: int
    cores: float
    connections: float

    @property
    def busy(self) -> float:
        """How busy it kept the database: a database also limits by locks and sleeps, which take no core."""
        return max(self.cores, self.connections)


def database_use(race: Race) -> dict[str, DatabaseUse]:
    """The use by each contender with known database counts, over the rounds that are not void."""
    cores = max(len(race.machine.database_cores), 1)
    asking: dict[str, list[tuple[Launch, list[Block]]]] = {entrant.name: [] for entrant in race.entrants}
    for round_ in race.rounds:
        for launch in () if round_.void else round_.launches:
            if LaunchCount.DATABASE_EXEC_NS in launch.counts and launch.contender in asking:
                blocks = [block for block in round_.blocks if block.contender == launch.contender]
                asking[launch.contender].append((launch, blocks))
    return {name: _use(launches, cores) for name, launches in asking.items() if launches}


def _use(launches: Sequence[tuple[Launch, Sequence[Block]]], cores: int) -> DatabaseUse:
    """Of launches, with their blocks; ``cores``: the database's."""

    def total(name: LaunchCount) -> int:
        return sum(launch.count(name) or 0 for launch, _ in launches)

    cpu_ns = total(LaunchCount.DATABASE_CPU_NS)
    blocks = [block for _, blocks in launches for block in blocks]
    lasted_ns = sum(block.duration_ns for block in blocks)
    connected_ns = sum(
        # In a block's drain fewer and fewer connections have anything to do.
        sum(block.lead_ns + block.counted_ns for block in blocks)
        * (launch.count(LaunchCount.DATABASE_CONNECTIONS) or 1)
        for launch, blocks in launches
    )
    return DatabaseUse(
        executed=total(LaunchCount.DATABASE_STATEMENTS),
        wanted=sum(launch.counts.get(LaunchCount.DATABASE_WANTED, 0.0) for launch, _ in launches),
        cpu_ns=cpu_ns if all(LaunchCount.DATABASE_CPU_NS in launch.counts for launch, _ in launches) else None,
        answered=sum(block.answered for block in blocks),
        lasted_ns=lasted_ns,
        cores=cpu_ns / max(lasted_ns * cores, 1),
        connections=min(total(LaunchCount.DATABASE_EXEC_NS) / max(connected_ns, 1), 1.0),
    )


def cores_of(race: Race, rounds: Sequence[Round]) -> dict[str, int]:
    """How many cores each contender can use: as many as it has threads, at most the servers' lane."""
    cores = len(race.server_cores)
    threads = {entrant.name: 0 for entrant in race.entrants}
    for launch in (launch for round_ in rounds for launch in round_.launches):
        if launch.contender in threads:
            threads[launch.contender] = max(threads[launch.contender], launch.threads)
    return {name: max(min(cores, count or cores), 1) for name, count in threads.items()}


def by_contender(race: Race, rounds: Sequence[Round]) -> dict[str, list[Block]]:
    """The blocks that are not void of each contender that is still in the race."""
    valid: dict[str, list[Block]] = {entrant.name: [] for entrant in race.entrants if not entrant.out}
    for block in (block for round_ in rounds for block in round_.blocks):
        if block.contender in valid and not block.void:
            valid[block.contender].append(block)
    return {name: blocks for name, blocks in valid.items() if blocks}


def taken(race: Race, round_: Round, waits: Mapping[str, float]) -> Callable[[Block], float]:
    """The share of a block's time that others had the engine's core or the server's, by the kernel's run-queue waits.

    Threads of one server also wait for each other: only what exceeds its own waits counts. If the servers have one
    core, its own waits can't exceed the little that a busy server leaves idle; the rest is the time of other programs.

    Args:
        waits: by contender, what its threads wait for each other (``cpu_shares.usual_waits`` of the race).
    """
    if shares_lane(race):
        return lambda _: 0.0  # engine, servers and database wait for each other: waits say nothing
    cores = len(race.server_cores)
    usual = {name: min(wait, MAX_OWN) for name, wait in waits.items()} if cores == 1 else waits
    single = {launch.contender: launch.threads == 1 for launch in round_.launches}

    def share(block: Block) -> float:
        alone = single.get(block.contender, False)
        return lost_to_machine(block, cores=cores, single_threaded=alone, usual=usual)

    return share


def lost(blocks: Sequence[Block], share: Callable[[Block], float]) -> float:
    """Share of these blocks' time lost to waits for other programs and to steal, which Linux reports in 10 ms steps."""
    lasted_ns = sum(block.duration_ns for block in blocks)
    lost_ns = sum(share(block) * block.duration_ns + block.steal_ns for block in blocks)
    return float(min(lost_ns / max(lasted_ns, 1), 1.0))


def lost_shares(race: Race, rounds: Sequence[Round]) -> dict[str, float]:
    """Each contender's share of its blocks' time that the machine took, over these rounds."""
    waits = usual_waits((b for r in rounds if not r.void for b in r.blocks), len(race.server_cores))
    spent: dict[str, list[tuple[float, int]]] = {}
    for round_ in rounds:
        share = taken(race, round_, waits)
        for name, blocks in by_contender(race, [round_]).items():
            lasted_ns = sum(block.duration_ns for block in blocks)
            spent.setdefault(name, []).append((lost(blocks, share), lasted_ns))
    return {name: sum(s * ns for s, ns in parts) / max(sum(ns for _, ns in parts), 1) for name, parts in spent.items()}


def limited(blocks: Sequence[Block], cores: int) -> bool:
    """The generator was the limit of these blocks: it was full and the server was not."""
    busy = [share for share in (server_busy(block, cores) for block in blocks) if share is not None]
    full = median(engine_share(block) for block in blocks) >= ENGINE_FULL
    return full and bool(busy) and median(busy) < SERVER_IDLE


def choose(race: Race, wanted: str | None = None) -> MetricDecision:
    """The metric that decides a race.

    For "auto": throughput; but CPU time per request if the generator was the limit, if an open loop offers the same
    rate to all, or if the machine took too much. What the machine took is ignored if responses wait, and the
    generator's limit counts only if it leaves no two contenders to compare. The evidence comes from the first ten valid
    rounds, so that later ones don't change the metric. Before the fifth it is throughput, and nothing is decided yet;
    from the fifth to the tenth it can change, for which the levels of these looks allow (``EARLY_SHARE``).

    Args:
        wanted: a metric, ``typical-`` before it or not; None for the race's own.

    Raises:
        BadUsage: the metric is unknown.
    """
    asked = MetricChoice.of(wanted or race.plan.metric)
    metric, reason = _chosen(race) if asked.name == AUTO else (asked.name, None)
    return MetricDecision(metric, asked.typical, reason)


def _chosen(race: Race) -> tuple[str, MetricReason | None]:
    race = _choosing(race)
    rounds, blocks = race.rounds, by_contender(race, race.rounds)
    if any(map(_unread, blocks.values())):
        return "throughput", None  # at one offered rate it compares no contenders
    if race.load.rate_per_s:
        return "cpu", SameRate(race.waits)
    if len(rounds) < EARLY:
        return "throughput", None
    cores = cores_of(race, rounds)
    held = [name for name, valid in blocks.items() if limited(valid, cores[name])]
    # A server uses no CPU time while it waits: by CPU time it would look no worse than a server that is at
    # work.
    if held and (not race.waits or len(blocks) - len(held) < 2):
        return "cpu", GeneratorLimit(tuple(held), race.waits)
    if race.waits:
        return "throughput", None
    shares = lost_shares(race, rounds)
    share = sum(shares.values()) / max(len(shares), 1)
    if share > TAKEN:
        used = [block for valid in blocks.values() for block in valid]
        stolen = sum(block.steal_ns for block in used) > 0.01 * sum(block.duration_ns for block in used)
        return "cpu", TimeTaken(share, stolen)
    return "throughput", None


def _choosing(race: Race) -> Race:
    """The race as far as it chooses its metric: its first ten valid rounds, and who was still in after them."""
    rounds = tuple(round_ for round_ in race.rounds if not round_.void)[:FLOOR]
    last = rounds[-1].index if len(rounds) == FLOOR else math.inf
    entrants = [
        replace(one, out="", out_round=None) if one.out_round is not None and one.out_round > last else one
        for one in race.entrants
    ]
    return replace(with_column(race, 0, entrants), rounds=rounds)


def _unread(blocks: Sequence[Block]) -> bool:
    """Whether CPU time could not be read in at least half of a contender's rounds; a round lacks it by one block."""
    lacking = {block.round for block in blocks if block.server_cpu_ns is None}
    return 2 * len(lacking) >= len({block.round for block in blocks})


def unfit(race: Race, metric: str) -> dict[str, UnfitReason]:
    """Contenders whose numbers by this metric are not their own so far, with the reason.

    Their pairs get no verdict; the pairs of the others keep theirs.
    """
    rounds = [round_ for round_ in race.rounds if not round_.void]
    cores, reasons, asked = cores_of(race, rounds), dict[str, UnfitReason](), database_use(race)
    for name, blocks in by_contender(race, rounds).items():
        if race.load.rate_per_s and metric == "throughput":
            reasons[name] = UnfitReason.SAME_RATE
        elif name in asked and asked[name].busy > DATABASE_FULL:
            reasons[name] = UnfitReason.DATABASE
        elif metric == "throughput" and limited(blocks, cores[name]):
            reasons[name] = UnfitReason.GENERATOR
        elif race.load.rate_per_s and KNOWN[metric].quantile and _behind(blocks) > 1 - SUSTAINED:
            reasons[name] = UnfitReason.RATE
        elif not race.load.rate_per_s and _rising(blocks):
            reasons[name] = UnfitReason.WARMING
    return reasons


def _behind(blocks: Sequence[Block]) -> float:
    """The share of the offered requests that did not leave."""
    offered = sum(block.offered or 0 for block in blocks)
    return 1 - sum(block.departed or 0 for block in blocks) / offered if offered else 0.0


def _rising(blocks: Sequence[Block]) -> bool:
    rises = rises_of(blocks)
    return _surely_above(rises, 0.0) and float(rises.mean()) > RISING


def _surely_above(numbers: FloatArray, limit: float) -> bool:
    """Whether a mean over rounds is above a limit by ``SURE_ERRORS`` errors: more rounds would not change that."""
    if len(numbers) < FLOOR:
        return False
    error = float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    return float(numbers.mean()) - SURE_ERRORS * error > limit


def lasting(race: Race, metric: str, reasons: Mapping[str, UnfitReason]) -> frozenset[str]:
    """Those of these unfit contenders that more rounds would not make fit, by the mean and the error over rounds.

    Never one that still warms up: on a disturbed machine noise can look like a rise, and more rounds show which it is.
    """
    rounds = [round_ for round_ in race.rounds if not round_.void]
    cores = cores_of(race, rounds)
    by_round = [(replace(race, rounds=(round_,)), by_contender(race, [round_])) for round_ in rounds]

    def certain(name: str, why: UnfitReason) -> bool:
        ran = [(one, blocks[name]) for one, blocks in by_round if name in blocks]
        match why:
            case UnfitReason.SAME_RATE:
                return True
            case UnfitReason.GENERATOR:
                held = [float(limited(blocks, cores[name])) for _, blocks in ran]
                return _surely_above(np.array(held), 0.5)
            case UnfitReason.RATE:
                return _surely_above(np.array([_behind(blocks) for _, blocks in ran]), 1 - SUSTAINED)
            case UnfitReason.DATABASE:
                used = [database_use(one).get(name) for one, _ in ran]
                return _surely_above(np.array([use.busy for use in used if use]), DATABASE_FULL)
        return False

    return frozenset(name for name, why in reasons.items() if certain(name, why))


def rises_of(blocks: Sequence[Block]) -> FloatArray:
    """Per round: the least-squares rise of the log rate from the first pass to the last."""
    by_round: dict[int, list[tuple[int, float]]] = {}
    for block in blocks:
        if block.requests > 0:
            by_round.setdefault(block.round, []).append((block.pass_index, math.log(block.requests / block.counted_ns)))
    rises = []
    for points in by_round.values():
        at, value = np.array(points).T
        off = at - at.mean()
        if len(points) >= 3 and off.any():
            rises.append(float(off @ value / (off @ off)) * (at.max() - at.min()))
    return np.array(rises, dtype=np.float64)
