"""How noisy this machine is, and what a race can see on it: a forecast by the method's own formula, and null races.

A round's number is the log ratio of two servers' totals; its standard deviation between a server and itself is the
noise floor. Method: docs/METHOD.md, "The interval".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dragstrip import analysis
from dragstrip.doctor.reference_load import connect
from dragstrip.machine import Lanes
from dragstrip.machine_facts import NullRace
from dragstrip.racing import schedule
from dragstrip.record import DEFAULT_CONNECTIONS, Race
from dragstrip.store.json_values import JsonObject

if TYPE_CHECKING:
    from dragstrip._engine import Engine

#: A pilot: rounds of two fresh servers, in blocks with this lead-in (a definition's ``[warm_up] lead_ms``): these
#: servers are at full speed at once.
PILOT_ROUNDS = 10
LEAD_NS = 2_000_000

#: Seconds for launching, warming up and stopping two quick servers, in addition to the blocks.
LAUNCHING_S = 0.25

#: Nine of ten races find a difference of this many standard errors beyond the interval's half-width.
POWER_ERRORS = 1.2816
ALPHA = 0.05
BUDGETS_S = (60, 300)

#: Differences for which the forecast shows how soon races find them.
SHARES = (0.1, 0.03, 0.01)


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The standard deviation of a round's log ratio between a server and itself, and how long a round takes.

    Args:
        steal: the share of the cores' time that the hypervisor took during the blocks, if a pilot measured it.
    """

    sd: float
    round_s: float
    rounds: int
    steal: float = 0.0

    def smallest(self, budget_s: float) -> float:
        """The smallest difference (a share) that a race of two finds in nine of ten, within a budget."""
        n = schedule.planned_rounds(budget_s, self.round_s)
        return math.expm1(self._visible(n, n))

    def seconds_to(self, share: float) -> float | None:
        """The time after which nine of ten races of two have found this difference; None: more than a minute."""
        planned = schedule.planned_rounds(BUDGETS_S[0], self.round_s)
        rounds = range(analysis.FLOOR, planned + 1)
        return next((n * self.round_s for n in rounds if self._visible(n, planned) <= math.log1p(share)), None)

    def _visible(self, n: int, planned: int) -> float:
        """The log ratio that nine of ten races have found after ``n`` rounds."""
        return (analysis.factor_within(n, ALPHA, planned) + POWER_ERRORS) * self.sd / math.sqrt(n)

    def numbers(self) -> JsonObject:
        """The noise, and what a race can see with it."""
        numbers: JsonObject = {"round_sd": self.sd, "round_s": self.round_s, "rounds": self.rounds}
        numbers |= {f"smallest_in_{budget_s}_s": self.smallest(budget_s) for budget_s in BUDGETS_S}
        return numbers | {f"seconds_to_{100 * share:g}_percent": self.seconds_to(share) for share in SHARES}


def pilot(
    engine: Engine, lanes: Lanes, ways: Sequence[Callable[[], AbstractContextManager[None]]]
) -> tuple[NoiseFloor, ...]:
    """A server against itself: fresh ones each round, short blocks in random order, as a race has them.

    Args:
        ways: contexts that are held during the blocks; each has all its rounds, and the contexts take turns.
    """
    lead_ns, counted_ns = schedule.block_lengths({}, [LEAD_NS])
    passes = schedule.usual_passes((lead_ns + counted_ns) / 1e9)
    rounds: list[list[tuple[float, float]]] = [[] for _ in ways]
    for index in range(PILOT_ROUNDS):
        names = [name for drawn in schedule.round_order(0, index, ["a", "b"], passes).passes for name in drawn]
        for way, way_rounds in zip(ways, rounds, strict=True):
            with _two_servers(lanes) as ports, way():
                way_rounds.append(_round(engine, ports, names, lead_ns, counted_ns, lanes.all))
    round_s = LAUNCHING_S + 2 * passes * (lead_ns + counted_ns) / 1e9
    noises = []
    for way_rounds in rounds:
        ratios, steals = zip(*way_rounds, strict=True)
        noises.append(NoiseFloor(float(np.std(ratios, ddof=1)), round_s, len(ratios), float(np.mean(steals))))
    return tuple(noises)


@contextmanager
def _two_servers(lanes: Lanes) -> Iterator[Mapping[str, int]]:
    """Two fresh servers; their ports."""
    from dragstrip._engine import ReferenceServer

    servers = {name: ReferenceServer(lanes.server) for name in "ab"}
    try:
        yield {name: server.port for name, server in servers.items()}
    finally:
        for server in servers.values():
            server.stop()


def _round(
    engine: Engine, ports: Mapping[str, int], names: Sequence[str], lead_ns: int, counted_ns: int, cores: Sequence[int]
) -> tuple[float, float]:
    """The log ratio, and the share of the cores' time that the hypervisor took; ``names``: of the blocks in order."""
    from dragstrip._engine import BlockPlan

    sessions = {name: connect(engine, port, DEFAULT_CONNECTIONS) for name, port in ports.items()}
    try:
        engine.run([BlockPlan(session, counted_ns=50_000_000) for session in sessions.values()])
        blocks = [BlockPlan(sessions[name], lead_ns=lead_ns, counted_ns=counted_ns) for name in names]
        tallies = engine.run(blocks, steal_cores=cores)
    finally:
        for session in sessions.values():
            engine.close(session)
    answered, time_ns = dict.fromkeys(sessions, 0), dict.fromkeys(sessions, 0)
    for name, tally in zip(names, tallies, strict=True):
        answered[name] += tally.requests
        time_ns[name] += tally.counted_ns
    first, second = (math.log(max(answered[name], 1) / max(time_ns[name], 1)) for name in sorted(sessions))
    lasted_ns = sum(tally.duration_ns for tally in tallies) * max(len(cores), 1)
    return first - second, sum(tally.steal_ns for tally in tallies) / max(lasted_ns, 1)


def of_race(race: Race) -> NoiseFloor | None:
    """The noise in a race of two; None before its second round."""
    numbers = analysis.round_numbers(race)
    logs = numbers.log_speeds(numbers.totals)
    if logs.shape[1] != 2:
        return None
    ratios = (logs[:, 0] - logs[:, 1])[~np.isnan(logs).any(axis=1)]
    if len(ratios) < 2:
        return None
    lasted_s = float(np.median([r.ended_ns - r.started_ns for r in race.rounds if not r.void])) / 1e9
    return NoiseFloor(sd=float(ratios.std(ddof=1)), round_s=lasted_s, rounds=len(ratios))


def null_race(race: Race, judged: analysis.Verdict, *, void: bool) -> NullRace:
    """The result of a race of a server against itself, for reports that cite it."""
    pair, noise = judged.pairs[0], of_race(race)
    wrong = pair.verdict.separated
    return NullRace(
        race=race.id,
        at=race.started,
        verdict="void" if void else "a difference where there is none" if wrong else str(pair.verdict),
        low=pair.low if math.isfinite(pair.low) else None,
        high=pair.high if math.isfinite(pair.high) else None,
        spent_s=pair.spent_s,
        round_sd=noise.sd if noise else None,
        round_s=noise.round_s if noise else None,
        rounds=noise.rounds if noise else None,
    )
