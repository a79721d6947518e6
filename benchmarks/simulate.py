"""How often the usual ways and Dragstrip's call a difference where there is none: simulated, and on recorded noise.

    python benchmarks/simulate.py [--write docs/evidence/simulation.md]

Fixed seeds, some minutes, no server and no load. ``--write`` puts the tables between the file's
``simulate:begin`` and ``simulate:end`` marks, so that no figure there was typed by hand.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import simulate_many
from numpy.typing import NDArray
from pages import splice
from scipy import stats
from simulation import (
    ALPHA,
    NOISE,
    QUIET,
    ROUNDS,
    TYPICAL,
    Array,
    blocks,
    look,
    numbers,
    recorded,
    resampled,
    slices,
    t_over,
)

from dragstrip.analysis import EARLY

ROOT = Path(__file__).resolve().parents[1]

#: What each table shows, in order; pages cite the tables by these numbers.
TITLES = (
    "wrong calls of the usual ways and of Dragstrip, on a simulated machine",
    "two contenders on recorded noise",
    "six contenders at once",
    "four contenders on machines that misbehave",
    "twelve contenders, three of them identical",
    "two ways to order the blocks of a round",
    "verdicts before the tenth round",
)


def usual_ways(races: int) -> Iterator[str]:
    """Wrong calls of several designs, A against A."""
    yield "| one minute, A against A: wrong calls, nominal 5 % | quiet machine | typical |"
    yield "|-|-|-|"
    rows: dict[str, list[str]] = {}
    for machine in (QUIET, TYPICAL):
        rng = np.random.default_rng(20261)
        one, three = slices(machine, races, rng, 1), slices(machine, races, rng, 3).mean(axis=-1)
        once, fours, every = (blocks(machine, races, rng, rounds) for rounds in (ROUNDS, 4, 1))
        number = every.mean(axis=2)
        wrong = {
            "all of A, then all of B; t-test on 1 s slices": stats.ttest_ind(
                one[:, 0, 0], one[:, 1, 0], axis=-1, equal_var=False
            ).pvalue,
            "three runs of each, AAABBB; Welch": stats.ttest_ind(
                three[:, 0], three[:, 1], axis=-1, equal_var=False
            ).pvalue,
            "one launch each, interleaved blocks; t on rounds": t_over(once.mean(axis=2)),
            "a new launch every four rounds; t on rounds": t_over(fours.mean(axis=2)),
            "a new launch every round; t on block pairs": t_over(every.reshape(races, -1)),
            "a new launch every round; t on one number per round": t_over(number),
        }
        calls = {name: np.asarray(p) < ALPHA for name, p in wrong.items()}
        calls["the same, looked at after every round"] = look(number, naive=True).ever
        calls["**Dragstrip: the same looks, its own interval**"] = look(number).ever
        for name, called in calls.items():
            rows.setdefault(name, []).append(f"{called.mean():.1%}")
    for name, cells in rows.items():
        yield f"| {name} | {' | '.join(cells)} |"


def on_recorded_noise(races: int) -> Iterator[str]:
    """A/A and planted differences on the pilot's rounds."""
    yield "| recorded noise, looked at after every round | sd | called | coverage | rounds, median | 9 of 10 |"
    yield "|-|-|-|-|-|-|"
    arms, rounds = recorded(), 120
    names = {"aa": "the same twice", "ab1": "about 1 % planted", "ab3": "about 2.6 % planted"}
    for kind in ("totals", "median over passes", "CPU per request"):
        for arm, title in names.items():
            rng = np.random.default_rng(20262)
            values = numbers(arms[arm], kind)
            null = arm == "aa"
            seen = look(resampled(values, races, rounds, rng, null=null), truth=0.0 if null else float(values.mean()))
            yield (
                f"| {kind}: {title} | {values.std(ddof=1):.2%} | {seen.differ.mean():.1%} | {seen.covered.mean():.1%} "
                f"| {np.median(seen.stop):.0f} | {np.quantile(seen.stop, 0.9):.0f} |"
            )
    lag = {kind: numbers(arms["aa"], kind) for kind in ("totals", "CPU per request")}
    told = ", ".join(f"{kind} {np.corrcoef(values[1:], values[:-1])[0, 1]:+.3f}" for kind, values in lag.items())
    yield f"\nCorrelation of successive recorded rounds, the same twice: {told}; chance alone gives ±{800**-0.5:.3f}."


def orders() -> Iterator[str]:
    """Two contenders' order within a round: what the machine's fast phases leave over, by the recorded blocks.

    Differences between launches are removed; the rest is split into blocks of 30 ms, a third of them lead-in, and sides
    are assigned to these blocks again.
    """
    yield "| the machine's part in a round's log ratio, four passes of 10 + 20 ms | every pass drawn | alternating |"
    yield "|-|-|-|"
    with gzip.open(NOISE, "rt", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["arm"] == "aa"]
    rows.sort(key=lambda row: (int(row["round"]), int(row["position"])))
    answers, cpu = (np.array([float(row[name]) for row in rows]) for name in ("answers", "server_cpu_ns"))
    first = np.array([row["side"] == "A" for row in rows]).reshape(-1, 24)
    every = np.random.default_rng(20267).choice([-1.0, 1.0], (300, 1, 4, 1)) * np.array([1.0, -1.0])
    signs = (every.reshape(300, 1, 8), np.tile([1.0, -1.0], 4))
    for name, values in (("throughput", answers), ("CPU per request", cpu / answers)):
        left = np.log(values).reshape(-1, 24)
        for side in (first, ~first):
            left = left - side * (left * side).sum(axis=1, keepdims=True) / side.sum(axis=1, keepdims=True)
        block = left.reshape(-1, 8, 3)[:, :, 1:].mean(axis=2)
        found = [np.sqrt(((block * sign).sum(axis=-1) ** 2).mean()) / 4 for sign in signs]
        yield f"| {name} | {found[0]:.2%} | {found[1]:.2%} |"


def several(races: int) -> Iterator[str]:
    """Six contenders (two equal, then 1, 3, 10 and 50 % faster) on the recorded noise of totals, family-wise."""
    yield "| six contenders, all 15 pairs at once, after each of 60 rounds | races |"
    yield "|-|-|"
    rng = np.random.default_rng(20263)
    noise = numbers(recorded()["aa"], "totals")
    speeds = np.log([1, 1, 1.01, 1.03, 1.1, 1.5])
    pairs = list(combinations(range(6), 2))
    counts = np.zeros(4)
    for _ in range(races):
        # Half the pair's variance is either contender's own.
        own = rng.choice(noise, (60, 6)) * rng.choice([-1.0, 1.0], (60, 6)) / np.sqrt(2) + speeds
        false, missed, settled = _family(own, speeds, pairs)
        counts += (false, missed, false or missed, settled)
    titles = (
        "a wrong call at any look (equal ones told apart, or an inversion)",
        "an interval that misses the truth, of any pair at any look",
        "either",
        "every pair 2 % or more apart told apart by round 60",
    )
    for title, count in zip(titles, counts, strict=True):
        yield f"| {title} | {count / races:.1%} |"


def _family(own: Array, speeds: Array, pairs: list[tuple[int, int]]) -> tuple[bool, bool, bool]:
    first, second = np.array(pairs).T
    d, truth = own[:, first] - own[:, second], speeds[first] - speeds[second]
    false = missed = False
    called: NDArray[np.bool_] = np.zeros(len(pairs), dtype=bool)
    for n in range(EARLY, len(own) + 1):
        mean, error = d[:n].mean(axis=0), d[:n].std(axis=0, ddof=1) / np.sqrt(n)
        least = simulate_many.least_factor(n, own.shape[1], len(own))
        if n < len(own) and not (np.abs(mean - truth) > least * error).any():
            continue
        half = simulate_many.halves(own[:n], len(own))
        called = np.abs(mean) > half
        false |= bool((called & (np.sign(mean) != np.sign(truth))).any())
        missed |= bool((np.abs(mean - truth) > half).any())
    return false, missed, bool(called[np.abs(truth) > 0.0196].all())


def report(races: int) -> str:
    """All tables as Markdown."""
    totals = numbers(recorded()["aa"], "totals")
    parts: list[list[str]] = [
        list(usual_ways(races)),
        list(on_recorded_noise(races)),
        list(several(max(races // 20, 10))),
        list(simulate_many.coverage(max(races // 4, 10))),
        list(simulate_many.twelve(max(races // 40, 10), totals)),
        list(orders()),
        list(simulate_many.early(races)),
    ]
    *usual, own = ([float(cell.rstrip("% ")) for cell in row.split("|")[2:4]] for row in parts[0][2:])
    head = (
        f"In short: Dragstrip's own interval called a difference that is not there in at most {max(own):.1f} % of the "
        f"simulated races of equals, where {ALPHA:.0%} is allowed. The usual ways of comparing did so in "
        f"{min(map(min, usual)):.0f} to {max(map(max, usual)):.0f} %.\n\n"
        f"Written by `benchmarks/simulate.py --races {races}`; fixed seeds."
    )
    tables = (
        f"**Table S{number}: {title}**\n\n" + "\n".join(part)
        for number, (title, part) in enumerate(zip(TITLES, parts, strict=True), start=1)
    )
    return "\n\n".join([head, *tables])


def main() -> None:
    """Prints the tables, or writes them between a file's marks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--races", type=int, default=4000, help="simulated races per row (default 4000)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables between the marks of FILE")
    words = parser.parse_args()
    tables = report(words.races)
    if words.write is None:
        print(tables)
        return
    splice(words.write.resolve(), "simulate", tables)


if __name__ == "__main__":
    main()
