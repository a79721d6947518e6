"""Does ``dragstrip compare --fail-if slower:3%`` fail for a planted regression and pass for the same server, live?

python benchmarks/compare_check.py [--tries 20] [--burn 0.10] [--rounds 15] [--metric throughput]

Each try races the server three times, always beside nginx-return: as it was, as it was again, and with a planted share
more CPU per request (``crates/engine/examples/planted.rs``; ``cargo build --release --examples`` builds it). The first
is compared with the second (wanted: exit 0) and with the third (wanted: exit 1). Prints each exit code, and ends with 1
unless all are right. About 60 s a try.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from dragstrip.store import Store

ROOT = Path(__file__).resolve().parents[1]
PLANTED = ROOT / "target" / "release" / "examples" / "planted"


def dragstrip(*words: str) -> subprocess.CompletedProcess[str]:
    """One command."""
    return subprocess.run([sys.executable, "-m", "dragstrip", *words], capture_output=True, text=True)


def race(server: str, rounds: int, metric: str, store: Path) -> str:
    """Races it beside the reference; the race's id. A void race is run again, three times at most."""
    for _ in range(3):
        words = ["nginx-return", "--serve", f"mine={server}", "--rounds", str(rounds), "--budget", "60s", "-q"]
        words += ["--metric", metric]
        done = dragstrip("race", *words, "--store", str(store))
        if done.returncode == 0:
            with Store(store) as kept:
                return kept.resolve("last")
        print(
            f"    race again (exit {done.returncode}): {done.stderr.strip() or done.stdout.splitlines()[0]}", flush=True
        )
    sys.exit("three races in a row ended without a result")


def main() -> None:
    """The command line."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--tries", type=int, default=20)
    wanted.add_argument("--burn", type=float, default=0.10)
    wanted.add_argument("--rounds", type=int, default=15)
    wanted.add_argument("--metric", choices=("throughput", "cpu"), default="throughput")
    wanted.add_argument("--planted", type=Path, default=PLANTED)
    told = wanted.parse_args()
    if not told.planted.exists():
        sys.exit(f"{told.planted} is missing: cargo build --release --example planted")
    right = {"same": 0, "slower": 0}
    with tempfile.TemporaryDirectory() as folder:
        # One name throughout, as in CI: what differs is what the command starts. Two ids may share a second, so each
        # race has a store of its own and is handed over as a file.
        for number in range(told.tries):
            files = []
            for part, burn in enumerate((0.0, 0.0, told.burn)):
                store = Path(folder) / f"{number}-{part}.sqlite"
                server = f"{told.planted} {{port}}" + (f" --burn {burn}" if burn else "")
                race(server, told.rounds, told.metric, store)
                files.append(Path(folder) / f"{number}-{part}.race")
                done = dragstrip("export", "last", str(files[-1]), "--store", str(store))
                assert done.returncode == 0, done.stderr
            for kind, new, code in (("same", files[1], 0), ("slower", files[2], 1)):
                done = dragstrip("compare", str(files[0]), str(new), "--fail-if", "slower:3%")
                right[kind] += done.returncode == code
                line = next((line for line in done.stdout.splitlines() if line.startswith("mine")), done.stderr.strip())
                print(f"{number + 1:3} {kind:6} exit {done.returncode} (wanted {code})  {line}", flush=True)
    for kind, count in right.items():
        print(f"{kind}: {count} of {told.tries} right")
    sys.exit(any(count != told.tries for count in right.values()))


if __name__ == "__main__":
    main()
