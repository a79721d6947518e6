"""Several contenders on simulated machines that misbehave: do all intervals hold at once, and is a tie seen as one?

Called by ``simulate.py``. The truth of a pair is the difference of the contenders' mean log speeds over launches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dragstrip.analysis import EARLY, FLOOR
from dragstrip.analysis.group_sequential import level_within, stage_of
from dragstrip.analysis.interval import early_half
from dragstrip.analysis.simultaneous import MIN_OF_OWN, pair_variances, range_factor

Array = NDArray[np.float64]
ALPHA = 0.05

#: A block (10 + 25 ms) is a tick; a round is launching and then eight passes of all.
TICK_S, LAUNCH_TICKS, PASSES, ROUNDS = 0.035, 8, 8, 60
SPEEDS = np.log([1.0, 1.01, 1.03, 1.1])
PAIRS = list(combinations(range(len(SPEEDS)), 2))
FIRST, SECOND = np.array(PAIRS).T


@dataclass(frozen=True)
class Trouble:
    """One way in which a machine, or launches, misbehave; relative standard deviations.

    Args:
        launch: between launches; tails: degrees of freedom of Student's t that they follow (infinite: normal).
        drift: of slow drift (AR(1), 20 s); phase: of fast phases (AR(1), 0.1 s); block: of a lone block.
        bursts: chance per block that a burst begins, which slows what it meets for four blocks by a third to a half.
        slow_kind: share of the last contender's launches that have only ``slow`` of the speed.
    """

    name: str
    launch: float = 0.01
    tails: float = np.inf
    drift: float = 0.01
    phase: float = 0.01
    block: float = 0.01
    bursts: float = 0.0
    slow_kind: float = 0.0
    slow: float = 0.95


TROUBLES = (
    Trouble("AR(1) drift of 5 %", drift=0.05),
    Trouble("fast phases of 5 %", phase=0.05),
    Trouble("bursts on the lane", bursts=0.01),
    Trouble("launches differ by 3 %", launch=0.03),
    Trouble("launches of heavy tails (t, 3 degrees)", tails=3.0),
    Trouble("launches of two kinds (30 % are 5 % slower)", slow_kind=0.3),
    Trouble("all of these", 0.02, 3.0, 0.05, 0.05, 0.01, 0.01, 0.3),
)


def weather(drift: float, phase: float, races: int, ticks: int, rng: np.random.Generator) -> Array:
    """The machine's own speed over time (races, ticks): two AR(1) processes, of 20 s and of 0.1 s, by their sd."""
    total = np.zeros((races, ticks))
    for sd, time_constant_s in ((drift, 20.0), (phase, 0.1)):
        keep = np.exp(-TICK_S / time_constant_s)
        kicks = rng.normal(0, sd * np.sqrt(1 - keep**2), (races, ticks))
        state = rng.normal(0, sd, races)
        for tick in range(ticks):
            state = keep * state + kicks[:, tick]
            total[:, tick] += state
    return total


def _weather(trouble: Trouble, races: int, ticks: int, rng: np.random.Generator) -> Array:
    """The machine's own log speed at each tick (races, ticks), lone blocks and bursts in it."""
    total = rng.normal(0, trouble.block, (races, ticks)) + weather(trouble.drift, trouble.phase, races, ticks, rng)
    begins = rng.random((races, ticks)) < trouble.bursts
    depth = np.log(rng.uniform(0.5, 0.67, (races, ticks)))
    for length in range(4):
        total[:, length:] += np.where(begins, depth, 0.0)[:, : ticks - length]
    return total


def _launches(trouble: Trouble, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Log speeds of launches, without the contenders' own; the last axis is the contender."""
    drawn = rng.standard_normal(shape)
    if np.isfinite(trouble.tails):
        drawn = rng.standard_t(trouble.tails, shape) / np.sqrt(trouble.tails / (trouble.tails - 2))
    effects = trouble.launch * drawn
    slow = rng.random(shape[:-1]) < trouble.slow_kind
    effects[..., -1] += np.where(slow, np.log(trouble.slow), 0.0)
    return np.asarray(effects)


def truth(trouble: Trouble) -> Array:
    """Each contender's mean log speed over launches."""
    shift = np.zeros(len(SPEEDS))
    shift[-1] = trouble.slow_kind * np.log(trouble.slow)
    return np.asarray(SPEEDS + shift)


def rounds_of(
    trouble: Trouble, races: int, rng: np.random.Generator, speeds: Array = SPEEDS, rounds: int = ROUNDS
) -> Array:
    """Round numbers (races, rounds, contenders): log totals of fresh launches, blocks in random order."""
    count = len(speeds)
    ticks = LAUNCH_TICKS + PASSES * count
    met = _weather(trouble, races, rounds * ticks, rng).reshape(races, rounds, ticks)[..., LAUNCH_TICKS:]
    met = met.reshape(races, rounds, PASSES, count)
    order = rng.random(met.shape).argsort(axis=-1)
    mine = np.take_along_axis(met, order, axis=-1) + _launches(trouble, (races, rounds, count), rng)[:, :, None, :]
    return np.asarray(np.log(np.exp(mine).mean(axis=2)) + speeds)


def level(n: int, rounds: int) -> float:
    """The nominal level of the look at round ``n`` of a race planned for ``rounds``, as the judgement has it."""
    return level_within(n, *stage_of(n, ALPHA, (rounds,)))


def halves(numbers: Array, rounds: int) -> Array:
    """Half-widths of all pairs' intervals at a look, as the judgement has them.

    Args:
        numbers: the log numbers so far (rounds, contenders). rounds: the planned last one.
    """
    n, contenders = numbers.shape
    pairs = list(combinations(range(contenders), 2))
    first, second = np.array(pairs).T
    own = (numbers[:, first] - numbers[:, second]).var(axis=0, ddof=1)
    found = pair_variances(pairs, list(own), [n] * len(pairs), contenders)
    at = level(n, rounds)
    half = np.array([range_factor(contenders, one.freedom, at) * np.sqrt(one.variance / n) for one in found])
    if n >= FLOOR:
        return half
    means = (numbers[:, first] - numbers[:, second]).mean(axis=0)
    return np.array([early_half(*pair) for pair in zip(means, half, strict=True)])


def least_factor(n: int, contenders: int, rounds: int) -> float:
    """No interval at round ``n`` is fewer of its own standard errors wide, so that most looks need no closer one."""
    return range_factor(contenders, 10_000, level(n, rounds)) * float(np.sqrt(MIN_OF_OWN))


def held(numbers: Array, true: Array) -> tuple[float, float]:
    """Share of races in which all pairs' intervals hold at every look at once, and at the last round alone."""
    _, rounds, contenders = numbers.shape
    first, second = np.array(list(combinations(range(contenders), 2))).T
    d = numbers[..., first] - numbers[..., second] - (true[first] - true[second])
    inside = np.ones((len(d), rounds), dtype=bool)
    for n in range(EARLY, rounds + 1):
        off, error = np.abs(d[:, :n].mean(axis=1)), d[:, :n].std(axis=1, ddof=1) / np.sqrt(n)
        for race in np.flatnonzero((off > least_factor(n, contenders, rounds) * error).any(axis=1)):
            inside[race, n - 1] = bool((off[race] <= halves(numbers[race, :n], rounds)).all())
    return float(inside.all(axis=1).mean()), float(inside[:, -1].mean())


#: How many times as fast one of two contenders is, in the table of early looks; and what launches do to it.
APART = (1.0, 1.1, 1.25, 2.0)
FEW = (*TROUBLES, Trouble("launches of two kinds (30 % at 85 % of the speed)", slow_kind=0.3, slow=0.85))


def early(races: int) -> Iterator[str]:
    """Two contenders, looked at after each of the rounds 5 to 9: what is decided before the tenth, and how well."""
    yield "| two contenders, rounds 5 to 9 | " + " | ".join(f"{times:g} times" for times in APART) + " |"
    yield "|-|" + "-|" * len(APART)
    for trouble in FEW:
        cells = []
        for times in APART:
            speeds = np.array([0.0, np.log(times)])
            true = float(np.diff(speeds)[0] + trouble.slow_kind * np.log(trouble.slow))
            own = rounds_of(trouble, races, np.random.default_rng(20268), speeds, FLOOR - 1)
            decided, missed = _decided_early(own, true)
            cells.append(f"{decided / races:.1%}, {missed / races:.2%}")
        yield f"| {trouble.name} | {' | '.join(cells)} |"
    yield (
        "\nEach cell: races decided before the tenth round; races whose interval then misses the true ratio, or that "
        "name a wrong winner. The sound share of all is 5 %."
    )


def _decided_early(own: Array, true: float) -> tuple[int, int]:
    """How many races are decided at a round before FLOOR, and in how many of them the interval misses the truth."""
    d = own[..., 1] - own[..., 0]
    open_, decided, missed = np.ones(len(d), dtype=bool), 0, 0
    for n in range(EARLY, FLOOR):
        mean, error = d[:, :n].mean(axis=1), d[:, :n].std(axis=1, ddof=1) / np.sqrt(n)
        factor = range_factor(2, n - 1, level(n, ROUNDS))
        half = np.array([early_half(*pair) for pair in zip(mean, factor * error, strict=True)])
        ends = open_ & np.isfinite(half)
        decided += int(ends.sum())
        missed += int((ends & (np.abs(mean - true) > half)).sum())
        open_ &= ~ends
    return decided, missed


def runs_in_a_row(trouble: Trouble, races: int, rng: np.random.Generator, runs: int) -> Array:
    """The same time, one contender after the other: one-second means (races, contender, runs, seconds)."""
    count = len(SPEEDS)
    seconds = int(ROUNDS * (LAUNCH_TICKS + PASSES * count) * TICK_S / count / runs)
    ticks = int(1 / TICK_S)
    met = np.exp(_weather(trouble, races, count * runs * seconds * ticks, rng))
    means = np.log(met.reshape(races, count, runs, seconds, ticks).mean(axis=-1))
    effects = np.moveaxis(_launches(trouble, (races, runs, count), rng), -1, 1)
    return np.asarray(means + effects[..., None] + SPEEDS[None, :, None, None])


def naively_held(values: Array, true: Array) -> float:
    """Share of races in which all pairs' Welch intervals hold, by the numbers on the last axis; Bonferroni."""
    n = values.shape[-1]
    mean, square = values.mean(axis=-1), values.var(axis=-1, ddof=1) / n
    d = mean[:, FIRST] - mean[:, SECOND] - (true[FIRST] - true[SECOND])
    both = square[:, FIRST] + square[:, SECOND]
    freedom = both**2 * (n - 1) / (square[:, FIRST] ** 2 + square[:, SECOND] ** 2)
    half = stats.t.isf(ALPHA / len(PAIRS) / 2, freedom) * np.sqrt(both)
    return float((np.abs(d) <= half).all(axis=1).mean())


def coverage(races: int) -> Iterator[str]:
    """All six intervals of four contenders at once: Dragstrip's and the naive ways', for each trouble."""
    yield (
        "| four contenders: all six intervals hold, nominal 95 % | Dragstrip, every look "
        "| its last round | three runs each in a row | one long run each | the first and the last alone, every look |"
    )
    yield "|-|-|-|-|-|-|"
    for trouble in TROUBLES:
        rng, true = np.random.default_rng(20264), truth(trouble)
        numbers = rounds_of(trouble, races, rng)
        every, last = held(numbers, true)
        alone, _ = held(numbers[..., [0, -1]], true[[0, -1]])
        three = naively_held(runs_in_a_row(trouble, races, rng, 3).mean(axis=-1), true)
        one = naively_held(runs_in_a_row(trouble, races, rng, 1)[:, :, 0, :], true)
        yield f"| {trouble.name} | {every:.1%} | {last:.1%} | {three:.1%} | {one:.1%} | {alone:.1%} |"


def twelve(races: int, noise: Array) -> Iterator[str]:
    """Twelve contenders of which three are identical, each other 3 % from the next; 66 pairs, every look.

    Args:
        noise: recorded log ratios of two equal contenders, one per round.
    """
    rng = np.random.default_rng(20265)
    speeds = np.concatenate([np.zeros(3), 0.03 * np.arange(1, 10)])
    counts = np.zeros(4)
    for _ in range(races):
        # Half the pair's variance is either contender's own.
        own = rng.choice(noise, (ROUNDS, 12)) * rng.choice([-1.0, 1.0], (ROUNDS, 12)) / np.sqrt(2) + speeds
        counts += _twelve(own, speeds)
    yield "| twelve contenders, three identical, 60 rounds, looked at after every one | races |"
    yield "|-|-|"
    titles = ("the three in one tie group at the end", "... and at every look", "nothing of the true order inverted")
    for title, count in zip((*titles, "all 63 true differences told apart"), counts, strict=True):
        yield f"| {title} | {count / races:.1%} |"


def _twelve(own: Array, speeds: Array) -> tuple[bool, bool, bool, bool]:
    first, second = np.array(list(combinations(range(12), 2))).T
    d, true = own[:, first] - own[:, second], speeds[first] - speeds[second]
    tied, always, upright, called = True, True, True, np.zeros(len(true), dtype=bool)
    for n in range(EARLY, len(own) + 1):
        mean, error = d[:n].mean(axis=0), d[:n].std(axis=0, ddof=1) / np.sqrt(n)
        odd = (true == 0) | (np.sign(mean) != np.sign(true))
        if n < len(own) and not (np.abs(mean) > least_factor(n, 12, len(own)) * error)[odd].any():
            continue
        called = np.abs(mean) > halves(own[:n], len(own))
        tied = not called[true == 0].any()
        always &= tied
        upright &= not (called & (true != 0) & (np.sign(mean) != np.sign(true))).any()
    return tied, always, upright, bool(called[true != 0].all())
