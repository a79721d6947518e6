"""What sampling costs a server in CPU time, and that extra launches leave a race as it is: a section of docs/why.md.

Stretches of load with and without the sampler take turns on one launch of each server, as a race's blocks do. Then the
same seed is raced twice, once with ``--why``, and both races are judged with and without their extra launches.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
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
PAIRS, STRETCH_NS = 50, 300_000_000

#: The table to which only ``why`` adds.
ADDED = "profile"

#: By table, what a race measures, counts or reads from a clock, beside its id: two races with one seed differ there.
MEASURED: Mapping[str, Sequence[str]] = {
    "race": ("id", "started", "started_ns", "machine"),
    "contender": ("parity",),
    "round": ("started_ns", "ended_ns", "void"),
    "launch": ("address", "ready_ns", "warm_up_ns", "settled", "cpu_ns", "peak_memory_bytes", "served"),
    "block": (
        *("started_ns", "lead_ns", "duration_ns", "requests", "sent", "answered", "failed", "in_flight", "errors"),
        *("bytes_in", "bytes_out", "latency_hdr", "latency_sum_ns", "turn_sum_ns", "clock_step_ns", "early_stamps"),
        *("p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns", "server_cpu_ns", "server_wait_ns", "server_runs"),
        *("engine_cpu_ns", "engine_wait_ns", "engine_switches", "steal_ns", "void"),
    ),
    "event": ("id", "at_ns", "detail", "facts"),
}

#: Kinds of events that other programs and the machine cause.
OUTSIDE = ("other program", "heat", "frequency", "foreign")

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


def raced(store: Path, *more: str) -> Race:
    """A race of two servers with a seed, in a store of its own."""
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


def differing(plain: Path, why: Path) -> list[str]:
    """Tables and columns in which two stores differ, without what is measured or read from a clock."""
    found = []
    with closing(sqlite3.connect(plain)) as one, closing(sqlite3.connect(why)) as other:
        tables = [name for (name,) in one.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        for table in tables:
            if table == ADDED or table.startswith("sqlite_"):
                continue
            columns = [name for _, name, *_ in one.execute(f'PRAGMA table_info("{table}")')]
            kept = [name for name in columns if name not in ("race", *MEASURED.get(table, ()))]
            listed = ", ".join(f'"{name}"' for name in kept)
            where = f"WHERE kind NOT IN {OUTSIDE}" if table == "event" else ""
            query = f'SELECT {listed} FROM "{table}" {where} ORDER BY rowid'
            rows = [db.execute(query).fetchall() for db in (one, other)]
            if len(rows[0]) != len(rows[1]):
                found.append(f"{table}: {len(rows[0])} and {len(rows[1])} rows")
                continue
            found += [
                f"{table}.{name}"
                for at, name in enumerate(kept)
                if [row[at] for row in rows[0]] != [row[at] for row in rows[1]]
            ]
    return found


def same(stores: Sequence[Path]) -> list[str]:
    """What of two races with one seed is the same, one line each; the second has extra launches."""
    plain, why = raced(stores[0]), raced(stores[1], "--why")
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
    others = differing(*stores)
    facts["all rows of both stores, but for extra launches, measured numbers, and what others did"] = not others
    lines = [f"| {name} | {'yes' if holds else '**no**'} |" for name, holds in facts.items()]
    return lines + [f"| differing: {name} | **no** |" for name in others]


def main() -> int:
    """Measures; 1 if the sampler costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--record", action="store_true", help="write the section into docs/why.md")
    wanted = parser.parse_args()
    rows = [cost_row(name) for name in NAMES]
    with tempfile.TemporaryDirectory() as folder:
        alike = same([Path(folder) / name for name in ("plain.sqlite", "why.sqlite")])
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
