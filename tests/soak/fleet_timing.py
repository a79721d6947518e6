"""How near to each other two generators begin a block, and what a slow link takes from one: ratios of one run.

    python tests/soak/fleet_timing.py [--blocks 40] [--write]

One servers' machine and two generators, each a network namespace of this machine with a clock of its own
(``tests/fleets.py``); wants root. Both generators run the same blocks at the same time, so each ratio is of two numbers
that were measured side by side. Then one of them gets a link of 256 kbit/s. ``--write`` puts the table into
``docs/evidence/fleet.md``.

Tests decide by counts and by order; how quick something is, this tells.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import pages
from pages import ROOT

sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "src"))

import fleets

PAGE = ROOT / "docs" / "evidence" / "fleet.md"
BLOCK_S, CONNECTIONS = 0.1, 4


def run(machines: fleets.Machines, blocks: int) -> dict[str, Any]:
    """Runs blocks of a closed loop on both generators at once."""
    words = ("nginx-return", str(CONNECTIONS), "-", str(BLOCK_S), *["0"] * blocks)
    return fleets.finish_run(fleets.begin_run(machines, *words))


def apart_ns(done: dict[str, Any]) -> list[int]:
    """Of each block, how far apart the two began it, by the observer's clock."""
    return [max(both) - min(both) for both in zip(*done["began_ns"], strict=True)]


def ratios(done: dict[str, Any]) -> dict[str, float]:
    """What is compared, by its name."""
    apart, block_ns = apart_ns(done), BLOCK_S * 1e9
    first, second = (sum(own) for own in done["sent"])
    return {
        "begins apart, half of the blocks at most, by a block's length": statistics.median(apart) / block_ns,
        "begins apart, the most, by a block's length": max(apart) / block_ns,
        "begins apart, half of the blocks at most, by the longer round trip": statistics.median(apart)
        / max(done["round_trip_ns"]),
        "requests, first generator by second": first / second,
    }


def main() -> None:
    """Measures, and prints the table."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--blocks", type=int, default=40, help="of each run")
    arguments.add_argument("--write", action="store_true", help="the table into docs/evidence/fleet.md")
    given = arguments.parse_args()
    if why := fleets.why_not():
        sys.exit(f"fleet_timing: {why}")
    with fleets.Machines() as machines:
        alike = ratios(run(machines, given.blocks))
        with machines.slow("one") as missing:
            if missing:
                sys.exit(f"fleet_timing: {missing}")
            slow = ratios(run(machines, given.blocks))
    head = (
        f"Namespaces of one machine, {given.blocks} blocks of {BLOCK_S:g} s, {CONNECTIONS} connections; each ratio is "
        f"of numbers from the same blocks. Measured: {pages.circumstances()}, load average {os.getloadavg()[0]:.0f}."
    )
    rows = [f"| {what} | {ratio:.2g} | {slow[what]:.2g} |" for what, ratio in alike.items()]
    columns = "| | two alike | first at 256 kbit/s |"
    text = "\n".join([head, "", columns, "|-|-:|-:|", *rows])
    sys.stdout.write(text + "\n")
    if given.write:
        pages.splice(PAGE, "timing", text)


if __name__ == "__main__":
    main()
