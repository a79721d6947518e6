"""How noisy this machine is, and what a race can see on it: a forecast by the method's own formula, and null races.

A round's number is the log ratio of two servers' totals; its standard deviation between a server and itself is the
noise floor. Method: ``docs/METHOD.md``, "The interval".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dragstrip import analysis
from dragstrip.racing import schedule
from dragstrip.record import DEFAULT_CONNECTIONS, Race

if TYPE_CHECKING:
    from dragstrip._engine import Engine, ReferenceServer

#: A pilot: so many rounds of two servers each, fresh every time, in blocks with the lead-in that their contender's
#: definition would name (``[warm_up] lead_ms``): they are at full speed at once.
PILOT_ROUNDS = 10
LEAD_NS = 2_000_000
CONNECTIONS = DEFAULT_CONNECTIONS
REQUEST, BODY = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"hello world\n"

#: What launching, warming up and stopping two quick servers takes, beside the blocks.
LAUNCHING_S = 0.25

#: Found in nine of ten races: so many standard errors beyond the interval's half-width.
POWER_ERRORS = 1.2816
ALPHA = 0.05
BUDGETS_S = (60, 300)

#: Differences of which it is foretold how soon they are found.
SHARES = (0.1, 0.03, 0.01)


@dataclass(frozen=True, slots=True)
class Noise:
    """The standard deviation of a round's log ratio between a server and itself, and how long a round takes.

    Args:
        steal: the share of the cores' time that the host took during the blocks, where that was looked at.
    """

    sd: float
    round_s: float
    rounds: int
    steal: float = 0.0

    def smallest(self, budget_s: float) -> float:
        """The smallest difference (a share) that a race of two finds in nine of ten, within a budget."""
        n = schedule.planned_rounds(budget_s, self.round_s)
        half = analysis.factor_within(n, ALPHA, n)
        return math.expm1((half + POWER_ERRORS) * self.sd / math.sqrt(n))

    def seconds_to(self, share: float, budget_s: float = BUDGETS_S[0]) -> float | None:
        """After what time nine of ten races of two have found such a difference; None: not within the budget."""
        planned = schedule.planned_rounds(budget_s, self.round_s)
        for n in range(analysis.FLOOR, planned + 1):
            half = analysis.factor_within(n, ALPHA, planned)
            if (half + POWER_ERRORS) * self.sd / math.sqrt(n) <= math.log1p(share):
                return n * self.round_s
        return None

    def numbers(self) -> dict[str, Any]:
        """JSON-able."""
        smallest = {f"smallest_in_{budget_s}_s": self.smallest(budget_s) for budget_s in BUDGETS_S}
        soonest = {f"seconds_to_{100 * share:g}_percent": self.seconds_to(share) for share in SHARES}
        return {"round_sd": self.sd, "round_s": self.round_s, "rounds": self.rounds} | smallest | soonest


def pilot(
    engine: Engine,
    new_server: Callable[[], ReferenceServer],
    *,
    ways: Sequence[Callable[[], AbstractContextManager[None]]] = (nullcontext,),
    cores: Sequence[int] = (),
) -> tuple[Noise, ...]:
    """A server of ours against itself: fresh ones each round, short blocks in random order, as a race has them.

    Args:
        ways: circumstances to be held during the blocks; each has all its rounds, in turn with the others'.
        cores: whose steal is looked at.
    """
    lead_ns, counted_ns = schedule.block_lengths({}, [LEAD_NS])
    passes = schedule.usual_passes((lead_ns + counted_ns) / 1e9)
    found: list[list[tuple[float, float]]] = [[] for _ in ways]
    for index in range(PILOT_ROUNDS):
        for way, mine in zip(ways, found, strict=True):
            servers = {name: new_server() for name in "ab"}
            try:
                order = schedule.round_order(0, index, list(servers), passes)
                ports = {name: server.port for name, server in servers.items()}
                with way():
                    mine.append(_round(engine, ports, order, lead_ns, counted_ns, cores))
            finally:
                for server in servers.values():
                    server.stop()
    round_s = LAUNCHING_S + 2 * passes * (lead_ns + counted_ns) / 1e9
    return tuple(_pilot_noise(mine, round_s) for mine in found)


def _pilot_noise(rounds: Sequence[tuple[float, float]], round_s: float) -> Noise:
    ratios, steals = zip(*rounds, strict=True)
    return Noise(float(np.std(ratios, ddof=1)), round_s, len(rounds), float(np.mean(steals)))


def _round(
    engine: Engine,
    ports: dict[str, int],
    order: schedule.RoundOrder,
    lead_ns: int,
    counted_ns: int,
    cores: Sequence[int],
) -> tuple[float, float]:
    """The log ratio, and the share of the cores' time that the host took."""
    from dragstrip._engine import BlockPlan, Exchange, SessionPlan, Target

    hello = Exchange(REQUEST, 200, BODY)
    sessions = {
        name: engine.open(
            SessionPlan(
                Target("127.0.0.1", port),
                [hello],
                connections=CONNECTIONS,
                keepalive=True,
                timeout_ns=2_000_000_000,
            )
        )
        for name, port in ports.items()
    }
    try:
        engine.run([BlockPlan(session, counted_ns=50_000_000) for session in sessions.values()])
        names = [name for one in order.passes for name in one]
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


def of_race(race: Race) -> Noise | None:
    """The noise that a race of two met; None before its second round."""
    numbers = analysis.round_numbers(race)
    logs = numbers.log_speeds(numbers.totals)
    if logs.shape[1] != 2:
        return None
    ratios = (logs[:, 0] - logs[:, 1])[~np.isnan(logs).any(axis=1)]
    if len(ratios) < 2:
        return None
    lasted_s = _lasted_s([r.ended_ns - r.started_ns for r in race.rounds if not r.void])
    return Noise(sd=float(ratios.std(ddof=1)), round_s=lasted_s, rounds=len(ratios))


def _lasted_s(nanoseconds: Sequence[int]) -> float:
    return float(np.median(nanoseconds)) / 1e9


def null_race(race: Race, judged: analysis.Verdict, *, void: bool) -> dict[str, Any]:
    """What a race of a server against itself came to, for those who cite it; JSON-able."""
    pair, noise = judged.pairs[0], of_race(race)
    wrong = pair.verdict in ("faster", "slower")
    told = "void" if void else "a difference where there is none" if wrong else pair.verdict
    return {
        "race": race.id,
        "at": race.started,
        "verdict": told,
        "low": pair.low if math.isfinite(pair.low) else None,
        "high": pair.high if math.isfinite(pair.high) else None,
        "spent_s": pair.spent_s,
    } | (noise.numbers() if noise else {})
