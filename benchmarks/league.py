"""A league of 60 contenders: error rate by simulation, and time, ties, memory and page of a real race.

    python benchmarks/league.py --simulate 200 --record     # writes Table S8 of docs/method/simulation.md
    python benchmarks/league.py --race                      # prints one race of 60 variants of five servers

The simulation draws a round's log speed of each contender, all alike or with scatters that differ up to tenfold, and
looks after each round from the tenth to the 20th. A race fails if any of its 1,770 pairs is separated
although all are equal. The real race has variants of one server that are equal: any two of them that are separated
would be an error.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
from pages import splice
from scipy import stats

from dragstrip import analysis
from dragstrip.analysis.group_sequential import level_within, stage_of
from dragstrip.analysis.simultaneous import pair_variances, range_factor
from dragstrip.record import Race
from dragstrip.store.database import Store

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "method" / "simulation.md"
CONTENDERS, FIRST, LAST, ALPHA = 60, 10, 20, 0.05
KINDS = {"nginx-return": 20, "nginx-static": 15, "nginx-lua": 9, "nginx-open-file-cache": 8, "nginx-njs": 8}

#: A pair below this many true standard errors is not told apart: the factor of 60 contenders is above 4.2.
FAR = 3.8


def told_apart(draw: np.random.Generator, scatter: np.ndarray) -> bool:
    """Whether a race of equal contenders tells any pair apart, at any look."""
    pairs = list(combinations(range(len(scatter)), 2))
    first, second = np.array(pairs).T
    x = draw.normal(size=(LAST, len(scatter))) * scatter
    d = x[:, first] - x[:, second]
    for n in range(FIRST, LAST + 1):
        mean, variance = d[:n].mean(axis=0), d[:n].var(axis=0, ddof=1)
        expected = scatter[first] ** 2 + scatter[second] ** 2
        errors = np.abs(mean) / np.sqrt(expected / n)
        if errors.max() < FAR:
            continue
        found = pair_variances(pairs, list(variance), [n] * len(pairs), len(scatter))
        level = level_within(n, *stage_of(n, ALPHA, (LAST,)))
        for at in np.argsort(-errors)[:20]:
            one = found[int(at)]
            if abs(mean[at]) > range_factor(len(scatter), one.freedom, level) * math.sqrt(one.variance / n):
                return True
    return False


def simulated(races: int) -> str:
    """Table S8."""
    rows = [
        "| 60 equal contenders, whose launches scatter | races | with a false verdict | 95 % interval |",
        "|-|-:|-:|-|",
    ]
    drawn = np.random.default_rng(7)
    cases = {"all alike": np.ones(CONTENDERS), "up to tenfold": 10 ** np.linspace(0, 1, CONTENDERS)}
    for name, scatter in cases.items():
        wrong = sum(told_apart(drawn, scatter) for _ in range(races))
        low, high = stats.binomtest(wrong, races).proportion_ci(method="wilson")
        rows.append(f"| {name} | {races} | {wrong} ({wrong / races:.1%}) | {low:.1%} to {high:.1%} |")
        print(rows[-1], flush=True)
    return "\n".join(rows)


def kind(name: str) -> str:
    """The server of a variant: variants of one server are equal."""
    return name.rpartition("-")[0]


def raced(store: Path, seed: int, rounds: int) -> str:
    """What one race needs and finds."""
    page = store.with_suffix(".html")
    names = [
        f"{kind.removeprefix('nginx-')}-{at + 1}={kind}:workers=1"
        for kind, count in KINDS.items()
        for at in range(count)
    ]
    words = [sys.executable, "-m", "dragstrip", "race", *names, "-c", "8", "--rounds", str(rounds), "--seed", str(seed)]
    began = time.monotonic()
    done = subprocess.Popen([*words, "--store", str(store), "--html", str(page), "--quiet"], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(done.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 3):
        raise SystemExit(f"the race ended with status {status}")
    took_s = time.monotonic() - began
    with Store(store) as opened:
        return described(opened.load("last"), took_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, page)


def described(race: Race, took_s: float, cpu_s: float, mebibytes: float, page: Path) -> str:
    """The rows of that table."""
    began = time.process_time()
    verdict = analysis.judge(race)
    judging_s = time.process_time() - began
    pairs = verdict.pairs
    apart = [pair for pair in pairs if str(pair.verdict) in ("faster", "slower")]
    equal = [pair for pair in pairs if kind(pair.a) == kind(pair.b)]
    wrong = [pair for pair in apart if kind(pair.a) == kind(pair.b)]
    order = sorted(race.entrants, key=lambda one: -statistics.fmean(_speeds(race, one.name)))
    tied = {frozenset((pair.a, pair.b)) for pair in pairs} - {frozenset((pair.a, pair.b)) for pair in apart}
    neighbours = sum(frozenset((a.name, b.name)) in tied for a, b in pairwise(order))
    rows = {
        "contenders, pairs, rounds": f"{len(race.entrants)}, {len(pairs):,}, {len(race.rounds)}",
        "whole race, with scrutineering and calibration": f"{took_s / 60:.1f} min",
        "Dragstrip's own CPU time and memory": f"{cpu_s:.0f} s, {mebibytes:.0f} MiB",
        "CPU time to judge all pairs once": f"{judging_s:.1f} s",
        "size of the page": f"{page.stat().st_size / 1e6:.1f} MB",
        "separated pairs": f"{len(apart):,} of {len(pairs):,}",
        "neighbouring ranks that are tied": f"{neighbours} of {len(order) - 1}",
        "separated pairs of equals, which would be errors": f"{len(wrong)} of {len(equal)}",
    }
    return "\n".join(["| of one race | |", "|-|-:|", *(f"| {name} | {value} |" for name, value in rows.items())])


def _speeds(race: Race, name: str) -> list[float]:
    """Responses per second of CPU time or of a block, for an order of ranks."""
    return [block.requests / block.counted_ns for one in race.rounds for block in one.blocks if block.contender == name]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulate", type=int, default=0, metavar="RACES")
    parser.add_argument("--race", action="store_true")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    if given.simulate:
        text = simulated(given.simulate)
        if given.record:
            splice(PAGE, "league", text)
    if given.race:
        with tempfile.TemporaryDirectory() as folder:
            text = raced(Path(folder) / "races.sqlite", given.seed, given.rounds)
        print(text)


if __name__ == "__main__":
    main()
