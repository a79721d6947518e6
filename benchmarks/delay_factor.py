"""How much faster event loops are than a blocking server at the workload delay, beside what arithmetic foretells.

A server that blocks answers one request in what it waits, an event loop as many as there are connections in what that
one waits. Each asks its timer for a time of its own: where timers count whole milliseconds, one more than the 15 ms
that are wanted, since one may end up to a millisecond early. So the factor is connections × 15 / that time. A race
of one connection shows how long each really waits: a timer ends no sooner than asked, and most end later.

Other programs on the cores bias the factor: while one uses the engine's core, an event loop's responses are unread
and nothing is in flight, but a server that blocks works on at its queue. With builds running, the factor was missed
by up to 20 % for that reason. So everything runs at real-time priority, if that is allowed.

Exit code 1 where a factor is missed by over 10 %; ``--record`` writes all of it into docs/workloads.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pages import ROOT, circumstances, splice

PAGE = ROOT / "docs" / "workloads.md"
BLOCKING, BLOCKING_MS = "lua", 15.0
#: Milliseconds that each event loop asks its timer for: what its program in data/contenders says.
LOOPS = {"nginx-lua": 16.0, "node": 16.0, "go-native": 15.0}
WITHIN = 0.10


@dataclass(frozen=True)
class Seen:
    """One server at one number of connections: responses per second, and the median latency in milliseconds."""

    per_s: float
    latency_ms: float


def undisturbed() -> str:
    """Puts this process, and all that it starts, before other programs; says whether that was allowed."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return "beside other programs"
    return "at real-time priority"


def race(connections: int, rounds: int) -> dict[str, Seen]:
    """What one race of all of them found."""
    with tempfile.TemporaryDirectory(prefix="dragstrip-delay-") as folder:
        told, store = Path(folder) / "race.json", Path(folder) / "races.sqlite"
        words = ["--workload", "delay", "-c", str(connections), "--rounds", str(rounds), "--budget", "2m", "--quiet"]
        command = [sys.executable, "-m", "dragstrip", "race", *LOOPS, BLOCKING, *words, "--timeout", "20s"]
        subprocess.run([*command, "--json", str(told), "--store", str(store)], check=False)
        found = json.loads(told.read_text())
    return {
        one["name"]: Seen(one["throughput_per_s"]["estimate"], one["latency_us"]["p50"] / 1e3)
        for one in found["columns"][0]["contenders"]
    }


def row(name: str, connections: int, alone: dict[str, Seen], seen: dict[str, Seen]) -> tuple[str, bool]:
    """A line of the table, and whether the factor is as foretold."""
    foretold = connections * BLOCKING_MS / LOOPS[name]
    by_waits = connections * alone[name].per_s / alone[BLOCKING].per_s
    factor = seen[name].per_s / seen[BLOCKING].per_s
    off = factor / foretold - 1
    cells = (
        name, connections, f"{LOOPS[name]:g}", f"{1e3 / alone[name].per_s:.2f}", f"{seen[name].latency_ms:.2f}",
        f"{foretold:.2f}", f"{by_waits:.2f}", f"{factor:.2f}", f"{off:+.1%}",
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |", abs(off) <= WITHIN


def main() -> None:
    """Prints what was foretold and what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, nargs="*", default=[8, 16])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", action="store_true", help="write it into docs/workloads.md")
    asked = parser.parse_args()
    priority = undisturbed()
    alone = race(1, asked.rounds)
    lines = [
        f"{circumstances()}; {asked.rounds} rounds, {priority}. {BLOCKING} sets a timer of {BLOCKING_MS:g} ms; "
        f"with one connection its responses take {1e3 / alone[BLOCKING].per_s:.2f} ms.",
        "",
        "| event loop | connections | timer, ms | latency alone, ms | under load, ms | predicted factor "
        "| predicted from the waits | measured | deviation |",
        "|-|-:|-:|-:|-:|-:|-:|-:|-:|",
    ]
    held = True
    for connections in asked.connections:
        seen = race(connections, asked.rounds)
        for name in LOOPS:
            line, holds = row(name, connections, alone, seen)
            lines.append(line)
            held &= holds
    within = f"Each factor is within {WITHIN:.0%} of its prediction."
    lines += ["", within if held else "A factor is outside its limit."]
    print("\n".join(lines))
    if asked.record:
        splice(PAGE, "delay-factor", "\n".join(lines))
    sys.exit(not held and not asked.record)


if __name__ == "__main__":
    main()
