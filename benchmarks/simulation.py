"""Simulated races of two, on a simulated machine and on recorded noise: what the tables and the tests are made of."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import simulate_many
from numpy.typing import NDArray
from scipy import stats

from dragstrip.analysis import FLOOR
from dragstrip.analysis.interval import quantile

NOISE = Path(__file__).resolve().parents[1] / "tests" / "noise" / "pilot-nginx-10ms.csv.gz"
ALPHA, MARGIN = 0.05, 0.01

Array = NDArray[np.float64]


#: The simulation's clock ticks once a block (10 + 25 ms). A round: 8 ticks of launching, 8 passes of two blocks.
TICK_S, LAUNCH_TICKS, PASSES = simulate_many.TICK_S, 8, 8
ROUND_TICKS = LAUNCH_TICKS + 2 * PASSES
ROUNDS = int(60 / TICK_S) // ROUND_TICKS


@dataclass(frozen=True)
class Machine:
    """Relative standard deviations: between launches, of slow drift (20 s), of fast phases (0.1 s), of a lone block."""

    launch: float
    drift: float
    phase: float
    block: float


QUIET = Machine(launch=0.01, drift=0.005, phase=0.005, block=0.005)
TYPICAL = Machine(launch=0.01, drift=0.02, phase=0.03, block=0.01)


def weather(machine: Machine, races: int, ticks: int, rng: np.random.Generator) -> Array:
    """The machine's own speed over time (races, ticks), what every block meets."""
    return simulate_many.weather(machine.drift, machine.phase, races, ticks, rng)


def blocks(machine: Machine, races: int, rng: np.random.Generator, launch_every: int) -> Array:
    """A against A, interleaved in random order: log ratios (races, rounds, passes); new launches every few rounds."""
    meets = weather(machine, races, ROUNDS * ROUND_TICKS, rng).reshape(races, ROUNDS, ROUND_TICKS)[..., LAUNCH_TICKS:]
    speeds = (meets + rng.normal(0, machine.block, meets.shape)).reshape(races, ROUNDS, PASSES, 2)
    pairs = (speeds[..., 0] - speeds[..., 1]) * rng.choice([-1.0, 1.0], speeds.shape[:3])
    starts = -(-ROUNDS // launch_every)
    sides = rng.normal(0, machine.launch, (races, starts, 2))
    return np.asarray(pairs + np.repeat(sides[..., 0] - sides[..., 1], launch_every, axis=1)[:, :ROUNDS, None])


def slices(machine: Machine, races: int, rng: np.random.Generator, runs: int) -> Array:
    """All of A, then all of B, 30 s each: one-second means (races, side, runs, seconds), each run a launch."""
    ticks = int(1 / TICK_S)
    meets = weather(machine, races, 60 * ticks, rng) + rng.normal(0, machine.block, (races, 60 * ticks))
    seconds = meets.reshape(races, 2, runs, 30 // runs, ticks).mean(axis=-1)
    return np.asarray(seconds + rng.normal(0, machine.launch, (races, 2, runs, 1)))


def t_over(values: Array) -> Array:
    """Two-sided p of an ordinary one-sample t-test over the last axis."""
    return np.asarray(stats.ttest_1samp(values, 0, axis=-1).pvalue)


@dataclass(frozen=True)
class Looks:
    """Races of two looked at after every round and stopped at the first decision, else at the last round.

    ``ever``: separated at any look, if the race goes on to the last round regardless; ``missed``: the truth outside the
    interval at any look, similarly.
    """

    ever: NDArray[np.bool_]
    missed: NDArray[np.bool_]
    stop: NDArray[np.int64]
    differ: NDArray[np.bool_]
    same: NDArray[np.bool_]
    covered: NDArray[np.bool_]


def look(numbers: Array, *, truth: float = 0.0, naive: bool = False) -> Looks:
    """Walks through races' round numbers (races, rounds) as ``dragstrip race`` would; the last is the planned one.

    Args:
        naive: by an ordinary t-test, looked at after every round from the tenth on.
    """
    races, rounds = numbers.shape
    n = np.arange(1, rounds + 1)
    mean = np.cumsum(numbers, axis=1) / n
    squares = np.cumsum(numbers**2, axis=1) - n * mean**2
    error = np.sqrt(np.maximum(squares, 0) / np.maximum(n - 1, 1) / n)
    width = [
        quantile(k, ALPHA if naive else simulate_many.level(k, rounds)) if k >= FLOOR else np.inf for k in map(int, n)
    ]
    usable = np.isfinite(width)
    half = np.where(usable, np.where(usable, width, 0) * error, np.inf)
    differ = np.abs(mean) > half
    same = np.abs(mean) + half < np.log1p(MARGIN)
    decided = differ | same
    stop = np.where(decided.any(axis=1), decided.argmax(axis=1), rounds - 1)
    at = np.arange(races), stop
    outside = np.abs(mean - truth) > half
    return Looks(
        np.asarray(differ.any(axis=1)), np.asarray(outside.any(axis=1)), stop + 1, differ[at], same[at], ~outside[at]
    )


@dataclass(frozen=True)
class Recorded:
    """One arm of the recorded noise: (rounds, passes, sides) each."""

    answers: Array
    duration_ns: Array
    server_cpu_ns: Array
    server_wait_ns: Array
    engine_wait_ns: Array


def recorded() -> dict[str, Recorded]:
    """The arms of the pilot: "aa" twice the same, "ab1" and "ab3" B slowed by about 1 % and 2.6 %."""
    with gzip.open(NOISE, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    arms = {}
    for arm in ("aa", "ab1", "ab3"):
        mine = [row for row in rows if row["arm"] == arm]
        mine.sort(key=lambda row: (int(row["round"]), int(row["pass"]), row["side"]))
        columns = [np.array([float(row[name]) for row in mine]) for name in Recorded.__dataclass_fields__]
        arms[arm] = Recorded(*(column.reshape(-1, 12, 2) for column in columns))
    return arms


def numbers(arm: Recorded, kind: str) -> Array:
    """One log ratio per round, A's speed over B's.

    Args:
        kind: "totals", "median over passes" or "CPU per request".
    """
    answers = arm.answers.sum(axis=1)
    if kind == "median over passes":
        return np.asarray(np.median(np.log(arm.answers[..., 0] / arm.answers[..., 1]), axis=1))
    if kind == "CPU per request":
        cost = arm.server_cpu_ns.sum(axis=1) / answers
        return np.asarray(np.log(cost[:, 1] / cost[:, 0]))
    return np.asarray(np.log(answers[:, 0] / answers[:, 1]))


def resampled(values: Array, races: int, rounds: int, rng: np.random.Generator, *, null: bool) -> Array:
    """Races of rounds drawn with replacement; under the null the sides are swapped at random, so that no side wins."""
    drawn = rng.choice(values, (races, rounds))
    return drawn * rng.choice([-1.0, 1.0], drawn.shape) if null else drawn
