"""A league of 60 contenders: error rate by simulation, and time, ties, memory and page of a real race.

    python benchmarks/league.py --simulate 200 --record     # writes Table S8 of docs/method/simulation.md
    python benchmarks/league.py --race                      # prints one race of 60 variants of five servers
    python benchmarks/league.py --equal 10 --minutes 30 --record    # races of 60 equal contenders; writes Table S9

Each race of equal contenders is one line of ``docs/calibration/league.jsonl``. It may be ended at any moment, and goes
on with the next race; exit code 75: some races are still to be run. A race is wrong if any look at it, from the fifth
round on, separates any of its pairs. ``--table`` writes the table of the stored races and runs none.

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
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, pairwise
from pathlib import Path

import measuring_code
import numpy as np
import race_lines
from pages import splice
from scipy import stats

from dragstrip import analysis
from dragstrip.analysis.group_sequential import level_within, stage_of
from dragstrip.analysis.simultaneous import pair_variances, range_factor
from dragstrip.record import Race
from dragstrip.store.database import Store
from dragstrip.validity import disturbance

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "method" / "simulation.md"
CONTENDERS, FIRST, LAST, ALPHA = 60, 10, 20, 0.05
LINES = ROOT / "docs" / "calibration" / "league.jsonl"
EQUAL, ROUNDS, EARLIEST, GOES_ON = "nginx-return", 10, 5, 75
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


@dataclass(frozen=True)
class Equal:
    """A race of equal contenders, as a line of the file has it.

    Args:
        separated: pairs that its last look separates. ever: the most pairs that any look separates.
        out: contenders that were taken out.
        took_s: of the whole race, with scrutineering and calibration; rounds_s: of its rounds.
        launch_s, warm_up_s, blocks_s: of all rounds, by what was done for all contenders.
        judge_s: CPU time to judge all pairs once.
        others: share of the cores' time that other programs and the hypervisor took.
    """

    seed: int
    commit: str
    when: str
    contenders: int
    rounds: int
    pairs: int
    separated: int
    ever: int
    out: int
    took_s: float
    rounds_s: float
    launch_s: float
    warm_up_s: float
    blocks_s: float
    judge_s: float
    cpu_s: float
    others: float | None


def raced_equal(store: Path, seed: int) -> Equal:
    """One race of 60 variants of one server.

    Raises:
        SystemExit: the race failed.
    """
    names = [f"equal-{at + 1}={EQUAL}:workers=1" for at in range(CONTENDERS)]
    words = [sys.executable, "-m", "dragstrip", "race", *names, "-c", "8", "--rounds", str(ROUNDS)]
    words += ["--seed", str(seed), "--store", str(store), "--quiet"]
    began = time.monotonic()
    done = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(done.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 3):
        raise SystemExit(f"the race ended with status {status}")
    took_s = time.monotonic() - began
    with Store(store) as opened:
        race = opened.load("last")
    began = time.process_time()
    separated = separated_in(race)
    judge_s = time.process_time() - began
    looks = [replace(race, rounds=race.rounds[:n]) for n in range(EARLIEST, len(race.rounds))]
    launches = [launch for one in race.rounds for launch in one.launches]
    blocks = [block for one in race.rounds for block in one.blocks]
    return Equal(
        seed=seed,
        commit=measuring_code.head(),
        when=time.strftime("%Y-%m-%d"),
        contenders=len(race.entrants),
        rounds=sum(not one.void for one in race.rounds),
        pairs=len(race.entrants) * (len(race.entrants) - 1) // 2,
        separated=separated,
        ever=max([separated, *map(separated_in, looks)]),
        out=sum(bool(one.out) for one in race.entrants),
        took_s=round(took_s, 1),
        rounds_s=round(sum((one.ended_ns - one.started_ns) / 1e9 for one in race.rounds), 1),
        launch_s=round(sum(launch.ready_ns for launch in launches) / 1e9, 1),
        warm_up_s=round(sum(launch.warm_up_ns for launch in launches) / 1e9, 1),
        blocks_s=round(sum(block.duration_ns for block in blocks) / 1e9, 1),
        judge_s=round(judge_s, 1),
        cpu_s=round(used.ru_utime + used.ru_stime, 1),
        others=round(noise.lost, 3) if (noise := disturbance.noise(race)).lost is not None else None,
    )


def separated_in(race: Race) -> int:
    """How many pairs a look at a race separates."""
    return sum(str(pair.verdict) in ("faster", "slower") for pair in analysis.judge(race).pairs)


def stored() -> list[Equal]:
    """The races of the file that rest on today's measuring code."""
    return [Equal(**line) for line in race_lines.read(LINES)]


def equal_races(wanted: int, minutes: float) -> int:
    """Runs the races that the file lacks; the exit code."""
    until = time.monotonic() + 60 * minutes if minutes else math.inf
    with tempfile.TemporaryDirectory(prefix="league-") as folder:
        while len(done := stored()) < wanted:
            if time.monotonic() + max([one.took_s for one in done], default=0.0) > until:
                return GOES_ON
            seed = max([one.seed for one in done], default=0) + 1
            one = raced_equal(Path(folder) / "races.sqlite", seed)
            print(race_lines.append(LINES, asdict(one)), flush=True)
    return 0


def equal_table(races: Sequence[Equal]) -> str:
    """Table S9."""
    wrong = sum(one.ever > 0 for one in races)
    low, high = stats.binomtest(wrong, len(races)).proportion_ci(method="wilson")
    pairs = sum(one.pairs for one in races)
    rounds = sum(one.rounds for one in races)
    parts = {
        "launches": sum(one.launch_s for one in races),
        "warm-up": sum(one.warm_up_s for one in races),
        "blocks": sum(one.blocks_s for one in races),
    }
    whole = sum(one.rounds_s for one in races)
    parts["connections, references, counts, stops"] = whole - sum(parts.values())
    lost = [one.others for one in races if one.others is not None]
    shares = "; ".join(f"{name} {value / whole:.0%}" for name, value in parts.items())
    rows = {
        "races, contenders, rounds of each": f"{len(races)}, {CONTENDERS}, {ROUNDS}",
        "races with a false verdict at any look": f"{wrong} ({wrong / len(races):.1%}, 95 % interval {low:.1%} to "
        f"{high:.1%})",
        "pairs that the last look separates": f"{sum(one.separated for one in races)} of {pairs:,}",
        "contenders taken out": str(sum(one.out for one in races)),
        "whole race, median": f"{statistics.median(one.took_s for one in races) / 60:.1f} min",
        "round of 60, mean": f"{whole / max(rounds, 1):.1f} s",
        "of a round": shares,
        "share of the cores' time that other programs took, median": f"{statistics.median(lost):.0%}"
        if lost
        else "unknown",
        "CPU time to judge all pairs once, median": f"{statistics.median(one.judge_s for one in races):.1f} s",
    }
    return "\n".join(
        ["| 60 equal contenders | |", "|-|-:|", *(f"| {name} | {value} |" for name, value in rows.items())]
    )


def _speeds(race: Race, name: str) -> list[float]:
    """Responses per second of CPU time or of a block, for an order of ranks."""
    return [block.requests / block.counted_ns for one in race.rounds for block in one.blocks if block.contender == name]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulate", type=int, default=0, metavar="RACES")
    parser.add_argument("--race", action="store_true")
    parser.add_argument("--equal", type=int, default=0, metavar="RACES")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no race that would end later; 0: no limit")
    parser.add_argument("--table", action="store_true", help="write the table of stored races of equal contenders")
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
    code = equal_races(given.equal, given.minutes) if given.equal else 0
    if given.table or (given.equal and given.record and not code):
        splice(PAGE, "league-equal", equal_table(stored()))
    return code


if __name__ == "__main__":
    sys.exit(main())
