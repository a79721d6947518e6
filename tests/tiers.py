"""Runs the parts of a tier of tests one after the other, and says what each took.

    python tests/tiers.py test      # what the README's test command runs
    python tests/tiers.py check     # all of it, as CI runs it
    python tests/tiers.py soak      # the long ones
    python tests/tiers.py test --only unit,rust     # some of its parts

A part is a target of the Makefile. The table at the end has each part's seconds by the clock, and the seconds of CPU
time that it and all its processes took: other programs on the machine lengthen the first and hardly the second. With
--write the table goes into docs/testing.md. Exit code 1 where a part failed; the parts after it are run all the same.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "testing.md"


@dataclass(frozen=True)
class Part:
    """One target of the Makefile and what it proves, in a line."""

    target: str
    proves: str


UNIT = Part("test-unit", "arithmetic, definitions, reports and the house's rules, without a server")
RUST = Part("test-rust", "the engine: its parser, its two back ends, its counters")
LIVE = Part("test-live", "real servers: scrutineering, races, load, claims, interrupts, `kill -9`")
TIERS = {
    "test": (UNIT, RUST, LIVE),
    "check": (
        Part("lint", "formatters, linters, types; in Rust and Python"),
        Part("prose", "spelling and style of documents, docstrings and comments"),
        UNIT,
        RUST,
        LIVE,
        Part(
            "test-thorough", "the same by longer races and more cases: claims, the notebook, every misbehaving server"
        ),
        Part("test-contenders", "every contender that can be installed: each answer byte for byte, each limit"),
        Part("test-release", "the source package and the wheel, installed into an empty environment, race there"),
        Part("fuzz", "the response parser and HTTP/2's frames, on random and on mutated bytes"),
    ),
    "soak": (
        Part("soak-kill", "100 races cut off by `kill -9`: nothing is left, nothing is lost"),
        Part(
            "soak-rogue",
            "every way to misbehave, through whole commands, on both back ends; long races of workloads and versions",
        ),
        Part("soak-fleet", "machines that are lost, killed or slow; what `fleet install` copies"),
        Part("fuzz-cli", "1,000 random command lines and 1,000 random definition files"),
        Part("soak-fuzz", "the response parser and HTTP/2's frames on ten million inputs each"),
    ),
}
#: What a tier may take on two quiet cores, in seconds, once all is built; 0 where there is no limit.
BUDGET_S = {"test": 360, "check": 900, "soak": 0}


@dataclass(frozen=True)
class Took:
    """What a part came to."""

    part: Part
    seconds: float
    cpu_s: float
    code: int


def run(part: Part) -> Took:
    """Runs one part; its output goes where this program's does."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    print(f"\n== {part.target}: {part.proves}", flush=True)
    code = subprocess.run(["make", "--no-print-directory", part.target], cwd=ROOT, check=False).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(part, time.monotonic() - begun, cpu_s, code)


def table(tier: str, parts: list[Took]) -> list[str]:
    """The lines of a Markdown table, its sum last."""
    lines = [
        f"| `make {tier}` | proves | seconds | CPU seconds |",
        "|-|-|-:|-:|",
        *(
            f"| `{one.part.target}`{'' if one.code == 0 else ' **failed**'} | {one.part.proves}"
            f" | {one.seconds:.0f} | {one.cpu_s:.0f} |"
            for one in parts
        ),
    ]
    whole = f"| all | | {sum(one.seconds for one in parts):.0f} | {sum(one.cpu_s for one in parts):.0f} |"
    return [*lines, whole]


def write(tier: str, lines: list[str], load: float) -> None:
    """Puts a tier's table into docs/testing.md, with the machine and how busy it was."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from pages import circumstances, splice

    budget = f"It may take {BUDGET_S[tier] // 60} minutes on two quiet cores. " if BUDGET_S[tier] else ""
    told = f"{budget}Measured: {circumstances()}; load average {load:.1f} on {os.cpu_count()} cores."
    splice(PAGE, f"tier {tier}", "\n".join([told, "", *lines]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs a tier of tests and says what each part took.")
    parser.add_argument("tier", choices=TIERS)
    parser.add_argument("--only", default="", help="some parts, by their targets, with commas between them")
    parser.add_argument("--write", action="store_true", help="the table goes into docs/testing.md")
    chosen = parser.parse_args()
    parts = TIERS[chosen.tier]
    if chosen.only:
        wanted = chosen.only.split(",")
        parts = tuple(one for one in parts if one.target in wanted or one.target.removeprefix("test-") in wanted)
        if len(parts) != len(wanted):
            parser.error(f"--only {chosen.only}: {chosen.tier} has {', '.join(p.target for p in TIERS[chosen.tier])}")
    loads = [os.getloadavg()[0]]
    done = []
    for part in parts:
        done.append(run(part))
        loads.append(os.getloadavg()[0])
    lines, load = table(chosen.tier, done), sum(loads) / len(loads)
    print("", *lines, sep="\n")
    print(f"load average {load:.1f} on {os.cpu_count()} cores", end="")
    print(f"; on two quiet ones it may take {BUDGET_S[chosen.tier]} s" if BUDGET_S[chosen.tier] else "")
    if chosen.write:
        write(chosen.tier, lines, load)
    return int(any(one.code for one in done))


if __name__ == "__main__":
    sys.exit(main())
