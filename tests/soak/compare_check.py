"""Does ``dragstrip compare --fail-if slower:3%`` fail a planted regression, and only that? Many tries, live.

python tests/soak/compare_check.py [--tries 20] [--minutes 0] [--burn 0.10] [--rounds 10] [--metric throughput|cpu]

Each try runs three races of the same line-up (a planted server beside nginx-return): twice as it is, once burning 10 %
more CPU per request (``crates/engine/examples/planted.rs``; ``cargo build --release --examples`` builds it). The first
is compared with the second (wanted: exit 0) and with the third (wanted: exit 1). A try is one line in
``runs/compare.jsonl`` as soon as it is over; called again, it goes on with those that are lacking. Ten rounds, the
fewest that decide anything, fixed before the race. Prints each exit code, and ends with 1 unless all are right.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import race_lines

from dragstrip.record import METHOD_VERSION

ROOT = Path(__file__).resolve().parents[2]
PLANTED = ROOT / "target" / "release" / "examples" / "planted"

#: Maximum runs in a row of a race that the machine disturbed.
MAX_RUNS = 3


def dragstrip(*words: str) -> subprocess.CompletedProcess[str]:
    """One command."""
    return subprocess.run([sys.executable, "-m", "dragstrip", *words], capture_output=True, text=True)


def race(server: str, told: argparse.Namespace, store: Path) -> str:
    """Races it beside the reference; the race's id. One that comes to no result is run again."""
    words = ["nginx-return", "--serve", f"mine={server}", "--rounds", str(told.rounds), "--budget", "60s", "-q"]
    for _ in range(MAX_RUNS):
        done = dragstrip("race", *words, "--metric", told.metric, "--store", str(store))
        if done.returncode == 0:
            with closing(sqlite3.connect(store)) as kept:
                return str(kept.execute("SELECT id FROM race ORDER BY rowid DESC").fetchone()[0])
        said = " ".join((done.stderr.strip() or done.stdout).split())
        print(f"    race again (exit {done.returncode}): {said[:200]}", flush=True)
    sys.exit(f"{MAX_RUNS} races in a row ended without a result; what was tried is kept, the same call goes on")


def one_try(told: argparse.Namespace) -> dict[str, Any]:
    """Three races and two comparisons: the exit codes, what was said, and how long it took."""
    began, found = time.monotonic(), dict[str, Any]()
    with tempfile.TemporaryDirectory() as folder:
        store, ids = Path(folder) / "races.sqlite", []
        for burn in (0.0, 0.0, told.burn):
            # One name throughout, as in CI: what differs is what the command starts.
            ids.append(race(f"{told.planted} {{port}}" + (f" --burn {burn}" if burn else ""), told, store))
        for kind, new in (("same", ids[1]), ("slower", ids[2])):
            done = dragstrip("compare", ids[0], new, "--fail-if", "slower:3%", "--store", str(store))
            line = next((line for line in done.stdout.splitlines() if line.startswith("mine")), done.stderr.strip())
            found |= {kind: done.returncode, f"{kind}_told": line}
    return found | {"took_s": round(time.monotonic() - began, 1)}


def settings(told: argparse.Namespace) -> dict[str, Any]:
    """What tries must have alike to be counted together."""
    return {"method": METHOD_VERSION, "burn": told.burn, "rounds": told.rounds, "metric": told.metric}


def kept(told: argparse.Namespace) -> list[dict[str, Any]]:
    """Tries of the same settings that earlier calls made with today's versions."""
    return [line for line in race_lines.read(told.file) if settings(told).items() <= line.items()]


def main() -> None:
    """The command line."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--tries", type=int, default=20, help="with those that were made before")
    wanted.add_argument("--minutes", type=float, default=0.0, help="no try is begun that is not over by then; 0: any")
    wanted.add_argument("--burn", type=float, default=0.10)
    wanted.add_argument("--rounds", type=int, default=10)
    wanted.add_argument("--metric", choices=("throughput", "cpu"), default="throughput")
    wanted.add_argument("--planted", type=Path, default=PLANTED)
    wanted.add_argument("--file", type=Path, default=ROOT / "runs" / "compare.jsonl")
    told = wanted.parse_args()
    if not told.planted.exists():
        sys.exit(f"{told.planted} is missing: cargo build --release --example planted")
    tries, began = kept(told), time.monotonic()
    while len(tries) < told.tries:
        usual_s = statistics.median([one["took_s"] for one in tries] or [60.0])
        if told.minutes and time.monotonic() - began + usual_s > 60 * told.minutes:
            break
        found = one_try(told)
        line = {"at": datetime.now(UTC).isoformat(timespec="seconds")} | settings(told) | found
        tries.append(race_lines.append(told.file, line))
        for kind, code in (("same", 0), ("slower", 1)):
            print(f"{len(tries):3} {kind:6} exit {found[kind]} (wanted {code})  {found[f'{kind}_told']}", flush=True)
    right = {kind: sum(one[kind] == code for one in tries) for kind, code in (("same", 0), ("slower", 1))}
    for kind, count in right.items():
        print(f"{kind}: {count} of {len(tries)} right")
    if tries:
        print(f"a try took {statistics.median(one['took_s'] for one in tries):.0f} s (median)")
    sys.exit(len(tries) < told.tries or any(count < len(tries) for count in right.values()))


if __name__ == "__main__":
    main()
