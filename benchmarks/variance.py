"""How much of a race's scatter is between launches, and where a second of a contender's time helps most.

    python benchmarks/variance.py --races 3 --minutes 15     # races each server against itself; goes on where it ended
    python benchmarks/variance.py --record                   # writes what is there into docs/method/details.md

A nested analysis of variance of the log ratio of two contenders that are one server: passes within rounds, and rounds,
whose launches are fresh. A round of m passes costs c + m·p seconds, and its mean has the variance L² + P²/m (Kalibera &
Jones, *Rigorous benchmarking in reasonable time*, 2013, section 5). A difference below a tenth needs ten rounds at
least, however small the variance. So the best number of passes is the m that finds 3 % soonest in ten rounds or more.
Each race is one line in runs/variance.jsonl. Exit code 75: some races are still to be run.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import race_lines
from evidence_parts import GOES_ON
from measuring_code import ROOT
from pages import circumstances, splice

from dragstrip.analysis.interval import FLOOR
from dragstrip.record import Block, Race
from dragstrip.store.database import Store

PAGE = ROOT / "docs" / "method" / "details.md"
LINES = ROOT / "runs" / "variance.jsonl"
SERVERS = ("nginx-return", "node", "tornado")
ROUNDS = 24

#: A difference of 3 % is found in nine of ten races after (BOUND + POWER)² (scatter / 3 %)² rounds: the bound of a look
#: in the middle of a race, and the normal quantile of 90 %.
BOUND, POWER, WANTED = 2.6, 1.28, 0.03

#: Passes are planned within these bounds (``racing.schedule``).
LEAST, MOST = 3, 60


def measured(race: Race, by_cpu: bool) -> dict[str, float]:
    """The components of one race of two contenders: standard deviations, passes per round, seconds."""
    first, second = (entrant.name for entrant in race.entrants)
    rounds = []
    for raced in race.rounds:
        passes: dict[int, dict[str, Block]] = {}
        for block in raced.blocks:
            if block.requests and not block.void:
                passes.setdefault(block.pass_index, {})[block.contender] = block
        whole = [blocks for blocks in passes.values() if len(blocks) == 2]
        logs = [_log(blocks[first], by_cpu) - _log(blocks[second], by_cpu) for blocks in whole]
        if len(logs) > 1 and not raced.void:
            rounds.append(np.array(logs))
    count = float(np.mean([len(logs) for logs in rounds]))
    within = float(np.mean([logs.var(ddof=1) for logs in rounds]))
    between = float(np.var([logs.mean() for logs in rounds], ddof=1)) - within / count
    period_s = float(np.median(np.diff([raced.started_ns for raced in race.rounds]))) / 1e9
    pass_s = sum(block.duration_ns for raced in race.rounds for block in raced.blocks) / 1e9 / sum(map(len, rounds))
    return {
        "passes": count,
        "launch_sd": math.sqrt(max(between, 0.0)),
        "pass_sd": math.sqrt(within),
        "launch_s": period_s - count * pass_s,
        "pass_s": pass_s,
    }


def _log(block: Block, by_cpu: bool) -> float:
    if by_cpu:
        return -math.log((block.server_cpu_ns or 1) / block.answered)
    return math.log(block.requests / block.counted_ns)


def seconds(found: dict[str, float], passes: float) -> float:
    """Seconds in which a race with that many passes per round finds a difference of 3 % nine times of ten."""
    scatter = found["launch_sd"] ** 2 + found["pass_sd"] ** 2 / passes
    rounds = max(((BOUND + POWER) / WANTED) ** 2 * scatter, FLOOR)
    return rounds * (found["launch_s"] + passes * found["pass_s"])


def best_passes(found: dict[str, float]) -> int:
    """The passes of a round with which the race finds it soonest."""
    return min(range(LEAST, MOST + 1), key=lambda passes: seconds(found, passes))


def raced(server: str, seed: int) -> dict[str, Any]:
    """One race of a server against itself."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "races.sqlite"
        words = ["race", f"first={server}", f"second={server}", "--rounds", str(ROUNDS), "--budget", "5m"]
        command = [sys.executable, "-m", "dragstrip", *words, "--seed", str(seed), "--store", str(store), "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            sys.exit(done.stderr)
        with Store(store) as opened:
            race = opened.load("last")
    parts = {"throughput": measured(race, by_cpu=False), "CPU": measured(race, by_cpu=True)}
    return {"server": server, **parts}


def table(lines: list[dict[str, Any]]) -> str:
    """Medians over races, with what they mean for the passes of a round."""
    rows = [
        "| server, metric | races | between launches | between passes | a launch takes | a pass takes "
        "| passes now | 3 % found in | best passes | 3 % found in | now / best |",
        "|-|-:|-:|-:|-:|-:|-:|-:|-:|-:|-:|",
    ]
    for server in SERVERS:
        mine = [line for line in lines if line["server"] == server]
        for metric in ("throughput", "CPU") if mine else ():
            found = {key: median(line[metric][key] for line in mine) for key in mine[0][metric]}
            best = best_passes(found)
            now_s, best_s = seconds(found, found["passes"]), seconds(found, best)
            cells = [f"{found['launch_sd']:.1%}", f"{found['pass_sd']:.1%}"]
            cells += [f"{found['launch_s']:.2f} s", f"{found['pass_s'] * 1e3:.0f} ms", f"{found['passes']:.0f}"]
            cells += [f"{now_s:.0f} s", f"{best:.0f}", f"{best_s:.0f} s", f"{now_s / best_s:.2f}"]
            rows.append(f"| {server}, {metric} | {len(mine)} | {' | '.join(cells)} |")
    return "\n".join([circumstances(), "", *rows])


def main() -> int:
    """The command line."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--races", type=int, default=3, help="of each server (default 3)")
    wanted.add_argument("--minutes", type=float, default=15.0, help="of this sitting (default 15)")
    wanted.add_argument("--record", action="store_true", help="write what there is into the page, and race nothing")
    given = wanted.parse_args()
    lines = race_lines.read(LINES)
    until = time.monotonic() + 60 * given.minutes
    for turn in range(0 if given.record else given.races):
        for server in SERVERS:
            if sum(line["server"] == server for line in lines) > turn:
                continue
            if time.monotonic() > until:
                return GOES_ON
            lines.append(race_lines.append(LINES, raced(server, turn + 1)))
            print(json.dumps(lines[-1]), flush=True)
    splice(PAGE, "variance", table(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
