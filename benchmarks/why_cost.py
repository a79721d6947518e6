"""What sampling costs a server in CPU time, and that extra launches leave a race as it is: a section of docs/why.md.

Stretches of load with and without the sampler take turns on one launch of each server, as a race's blocks do. Then the
same seed is raced twice, once with ``--why``, and both races are judged with and without their extra launches.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

from pages import ROOT, circumstances, splice

from dragstrip import analysis, contender
from dragstrip.analysis.interval import student_t
from dragstrip.profile.stacks import StackSampling
from dragstrip.racing.launching import Servers
from dragstrip.racing.setup import LOCAL, block_plan
from dragstrip.racing.warm_up import wait_until_idle, warm_up
from dragstrip.record import Load, Race
from dragstrip.store.database import Store
from dragstrip.workload import load as load_workload

PAGE = ROOT / "docs" / "why.md"
NAMES = ("nginx-return", "go-native", "node", "luajit", "tornado")

#: Pairs of stretches for each server, and the length of a stretch.
PAIRS, STRETCH_NS = 30, 300_000_000

#: What the sampler may cost.
MOST = 0.04

DRAGSTRIP = [sys.executable, "-m", "dragstrip"]


def ratios(name: str) -> Iterator[float]:
    """CPU time per response with the sampler over without it, pair by pair."""
    workload, lanes, order = load_workload("hello"), LOCAL.lanes(None, None), random.Random(1)
    load = Load(connections=32, threads=len(lanes.engine), keepalive=True, timeout_ns=2_000_000_000)
    entry = contender.entry(name).for_workload("hello", asks_database=False)
    with LOCAL.race_setup(workload, load, lanes, 1, "auto", "auto", "poll") as setup, Servers(setup.engine) as servers:
        LOCAL.build(entry)
        setup.stand_by([entry])
        launched = servers.add(setup.launch(entry))
        launched.warm_up = warm_up(setup, launched)
        wait_until_idle(launched.running)

        def cpu_us(*, sampled: bool) -> float:
            pids = launched.running.pids() if sampled else ()
            with StackSampling(pids, lanes.server), setup.awake.held():
                (tally,) = setup.engine.run([block_plan(launched.connected(), counted_ns=STRETCH_NS)])
            return (tally.server_cpu_ns or 0) / 1e3 / tally.answered

        for _ in range(PAIRS):
            first = order.random() < 0.5
            cost = {sampled: cpu_us(sampled=sampled) for sampled in (first, not first)}
            yield cost[True] / cost[False]


def cost_row(name: str) -> tuple[str, float]:
    """A row of the table, and the lower end of the interval."""
    logs = [math.log(ratio) for ratio in ratios(name)]
    half = student_t(len(logs) - 1, 0.05) * stdev(logs) / math.sqrt(len(logs))
    low, at, high = (math.exp(mean(logs) + by) - 1 for by in (-half, 0.0, half))
    return f"| {name} | {at:+.1%} | {low:+.1%} to {high:+.1%} |", low


def raced(folder: Path, *more: str) -> Race:
    """A race of two servers with a seed."""
    store = folder / f"{len(more)}.sqlite"
    words = ["race", "nginx-return", "luajit", "--rounds", "4", "--seed", "7", "-q", *more]
    done = subprocess.run(
        [*DRAGSTRIP, *words],
        env={**os.environ, "DRAGSTRIP_STORE": str(store)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}")
    with Store(store) as opened:
        return opened.load("last")


def order(race: Race) -> list[list[str]]:
    """Contenders in the order of their blocks, by round."""
    return [[block.contender for block in round_.blocks[:2]] for round_ in race.rounds]


def same(plain: Race, why: Race) -> list[str]:
    """What of two races with one seed is the same, one line each; the second has extra launches."""
    (first,), (second,) = plain.columns, why.columns
    without = replace(why, profiles=())
    facts = {
        "load": first.load == second.load,
        "rounds": (len(plain.rounds), first.plan.planned_rounds) == (len(why.rounds), second.plan.planned_rounds),
        "order of the first blocks of each round": order(plain) == order(why),
        "judgement with and without the extra launches": analysis.judge(why) == analysis.judge(without),
        "extra launches begin after the last round": min(p.started_ns for p in why.profiles)
        > max(round_.ended_ns for round_ in why.rounds),
    }
    return [f"| {name} | {'yes' if holds else '**no**'} |" for name, holds in facts.items()]


def main() -> int:
    """Measures; 1 if the sampler costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--record", action="store_true", help="write the section into docs/why.md")
    wanted = parser.parse_args()
    rows = [cost_row(name) for name in NAMES]
    with tempfile.TemporaryDirectory() as folder:
        alike = same(raced(Path(folder)), raced(Path(folder), "--why"))
    lines = [
        f"CPU time per response with the sampler, against without it: {PAIRS} pairs of stretches of "
        f"{STRETCH_NS / 1e9:g} s on one launch each ({circumstances()}).\n",
        "| server | more CPU time | 95 % interval |",
        "|-|-:|-|",
        *(row for row, _ in rows),
        "\nTwo races with one seed, the second with `--why`:\n",
        "| the same | |",
        "|-|-|",
        *alike,
    ]
    print("\n".join(lines))
    if wanted.record:
        splice(PAGE, "why-cost", "\n".join(lines))
    return int(any(low > MOST for _, low in rows) or any("no" in line.split("|")[2] for line in alike))


if __name__ == "__main__":
    sys.exit(main())
