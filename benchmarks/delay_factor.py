"""How much faster an event loop is than a blocking server at the workload delay, beside what arithmetic foretells.

A blocking server answers one request in 15 ms, an event loop as many as there are connections in what it waits. The
servers are plain Lua, which sleeps for 15 ms, and nginx with Lua, whose timer of whole milliseconds waits for 16. Exit
code 1 where the factor is missed by over 10 %.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from pages import circumstances

LOOP, BLOCKING = "nginx-lua", "lua"
LOOP_MS, BLOCKING_MS = 16.0, 15.0
WITHIN = 0.10


def race(connections: int, rounds: int) -> tuple[float, dict[str, float]]:
    """The ratio that a race found, and answers a second by server."""
    with tempfile.TemporaryDirectory(prefix="dragstrip-delay-") as folder:
        told, store = Path(folder) / "race.json", Path(folder) / "races.sqlite"
        words = ["--workload", "delay", "-c", str(connections), "--rounds", str(rounds), "--budget", "2m", "--quiet"]
        command = [sys.executable, "-m", "dragstrip", "race", LOOP, BLOCKING, *words, "--timeout", "20s"]
        subprocess.run([*command, "--json", str(told), "--store", str(store)], check=False)
        found = json.loads(told.read_text())
    rates = {one["name"]: one["throughput_per_s"]["estimate"] for one in found["contenders"]}
    (ratio,) = {
        pair["ratio"] if pair["a"] == LOOP else 1 / pair["ratio"]
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
        foretold = connections * BLOCKING_MS / LOOP_MS
        off = ratio / foretold - 1
        missed |= abs(off) > WITHIN
        print(
            f"{connections} connections: foretold {foretold:.1f}, found {ratio:.2f} ({off:+.1%}): {LOOP} "
            f"{rates[LOOP]:.0f}/s, {BLOCKING} {rates[BLOCKING]:.1f}/s"
        )
    sys.exit(missed)


if __name__ == "__main__":
    main()
