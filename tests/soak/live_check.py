"""Does a race say what is true, here and today? Same-against-same and a planted difference, many times over, live.

python tests/soak/live_check.py [--same 10] [--planted 10] [--burn 0.10] [--budget 40s]

Prints every race's call and how long its rounds took, then the shares with their 95 % binomial intervals (Clopper &
Pearson 1934). The planted server is ``crates/engine/examples/planted.rs``, which burns a set share more CPU for each
request than it needs; ``cargo build --release --examples`` builds it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from scipy.stats import binomtest

ROOT = Path(__file__).resolve().parents[2]
PLANTED = ROOT / "target" / "release" / "examples" / "planted"


def race(words: list[str], budget: str, where: Path) -> tuple[str, float, str]:
    """One race of two: its verdict word, seconds of measuring, and the ratio with its interval in words."""
    out = where / "race.json"
    out.unlink(missing_ok=True)
    command = [sys.executable, "-m", "dragstrip", "race", *words, "--budget", budget, "--json", str(out), "-q"]
    done = subprocess.run([*command, "--store", str(where / "races.sqlite")], capture_output=True, text=True)
    if not out.exists():
        sys.exit(f"the race left no result:\n{done.stdout}{done.stderr}")
    told = json.loads(out.read_text())
    (pair,) = [pair for pair in told["pairs"] if pair["metric"] == "throughput"]
    interval = "no interval" if pair["low"] is None else f"{pair['low']:.4f}–{pair['high']:.4f}"
    return pair["verdict"], pair["spent_s"], f"{pair['ratio']:.4f} ({interval})"


def series(title: str, words: list[str], times: int, budget: str, right: set[str], where: Path) -> None:
    """Runs one kind of race ``times`` times and prints the results."""
    print(f"\n{title}\n  dragstrip race {' '.join(words)} --budget {budget}", flush=True)
    calls, spent = [], []
    for number in range(times):
        verdict, spent_s, told = race(words, budget, where)
        calls.append(verdict in right)
        spent.append(spent_s)
        print(f"  {number + 1:3} {verdict:10} {told} in {spent_s:.1f} s", flush=True)
    if calls:
        share = binomtest(sum(calls), len(calls)).proportion_ci()
        told = f"right in {sum(calls)} of {len(calls)} ({share.low:.0%}–{share.high:.0%})"
        print(f"  {told}, median {statistics.median(spent):.1f} s")


def main() -> None:
    """The command line."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--same", type=int, default=10)
    wanted.add_argument("--planted", type=int, default=10)
    wanted.add_argument("--burn", type=float, default=0.10)
    wanted.add_argument("--budget", default="40s")
    told = wanted.parse_args()
    if told.planted and not PLANTED.exists():
        sys.exit(f"{PLANTED} is missing: cargo build --release --example planted")
    with tempfile.TemporaryDirectory() as folder:
        same = ["nginx-return", "nginx-return:workers=1"]
        series("the same server twice", same, told.same, told.budget, {"same", "undecided"}, Path(folder))
        slow = ["--serve", f"base={PLANTED} {{port}}", "--serve", f"slow={PLANTED} {{port}} --burn {told.burn}"]
        series(f"{told.burn:.0%} more CPU a request", slow, told.planted, told.budget, {"faster"}, Path(folder))


if __name__ == "__main__":
    main()
