"""How much faster an event loop is than a blocking server at the workload delay, beside what arithmetic foretells.

A blocking server answers one request in 15 ms, an event loop as many as there are connections: that is the factor. Both
are ``tests/servers/workloads.py``, raced as anybody's servers are. Exit code 1 where it is missed by over 10 %.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from pages import ROOT, circumstances

SERVER = ROOT / "tests" / "servers" / "workloads.py"
WITHIN = 0.10


def race(connections: int, rounds: int) -> tuple[float, dict[str, float]]:
    """The ratio that a race found, and answers a second by server."""
    serve = []
    for name, fault in (("loop", "none"), ("blocking", "blocking")):
        serve += ["--serve", f"{name}={sys.executable} {SERVER} {{port}} {{data}} {fault}"]
    with tempfile.TemporaryDirectory(prefix="dragstrip-delay-") as folder:
        told, store = Path(folder) / "race.json", Path(folder) / "races.sqlite"
        words = ["--workload", "delay", "-c", str(connections), "--rounds", str(rounds), "--budget", "2m", "--quiet"]
        command = [sys.executable, "-m", "dragstrip", "race", *serve, *words, "--timeout", "20s"]
        subprocess.run([*command, "--json", str(told), "--store", str(store)], check=False)
        found = json.loads(told.read_text())
    rates = {one["name"]: one["throughput_per_s"]["estimate"] for one in found["contenders"]}
    (ratio,) = {
        pair["ratio"] if pair["a"] == "loop" else 1 / pair["ratio"]
        for pair in found["pairs"]
        if pair["metric"] == "throughput"
    }
    return ratio, rates


def main() -> None:
    """Prints what was foretold and what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, nargs="*", default=[8, 16])
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    print(circumstances())
    missed = False
    for connections in asked.connections:
        ratio, rates = race(connections, asked.rounds)
        off = ratio / connections - 1
        missed |= abs(off) > WITHIN
        print(
            f"{connections} connections: foretold {connections}, found {ratio:.2f} ({off:+.1%}): the loop "
            f"{rates['loop']:.0f}/s, the blocking server {rates['blocking']:.1f}/s"
        )
    sys.exit(missed)


if __name__ == "__main__":
    main()
