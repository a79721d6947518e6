"""Runs the parts of a tier of tests one after the other, and prints the time of each.

    python tests/tiers.py test      # what the README's test command runs
    python tests/tiers.py check     # all of it, as CI runs it
    python tests/tiers.py soak      # the long ones
    python tests/tiers.py test --only unit,rust     # some of its parts

A part is a target of the Makefile. Parts that only compute run beside those that mostly wait for servers, one after the
other and with a lower priority; what they print is shown when they end. The table at the end has each part's seconds by
the clock, and the seconds of CPU time that it and all its processes took: other programs on the machine lengthen the
first and hardly the second. With --write the table goes into evidence/tests.md. Exit code 1 where a part failed; the
parts after it are run all the same.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "evidence" / "tests.md"
#: Tests that passed in a fresh root of this run, by tests/fresh.py.
PASSED = ROOT / "runs" / "fresh" / "passed.txt"


@dataclass(frozen=True)
class Part:
    """One target of the Makefile, and what it tests, in one line.

    Args:
        computes: it waits for no server, so it runs beside those that do.
        spares: it runs after the fresh roots, and leaves out what passed there.
    """

    target: str
    proves: str
    computes: bool = False
    spares: bool = False


UNIT = Part("test-unit", "arithmetic, definitions and reports, without a server", computes=True)
RUST = Part("test-rust", "the engine: its parser, its two back ends, its counters", computes=True)
LIVE = Part("test-live", "real servers: scrutineering, races, load, claims, interrupts, `kill -9`")
FRESH = Part("fresh", "the README's commands where nothing is installed, as root and as an ordinary user")
TIERS = {
    "test": (UNIT, RUST, LIVE),
    "check": (
        FRESH,
        Part("lint", "formatters, linters, types; in Rust and Python", computes=True),
        Part("prose", "spelling and style of documents, docstrings and comments", computes=True),
        replace(UNIT, computes=False, spares=True),
        RUST,
        replace(LIVE, spares=True),
        Part(
            "test-thorough",
            "longer races, more cases, the house's rules: claims, the notebook, every misbehaving server",
        ),
        Part("test-contenders", "every contender that can be installed: each response byte for byte, each limit"),
        Part("test-release", "the source package and the wheel, installed into an empty environment, race there"),
        Part("fuzz", "the response parser, HTTP/2's and WebSocket's frames, random and mutated bytes", computes=True),
    ),
    "soak": (
        Part("soak-kill", "100 races, and 40 of containers, cut off by `kill -9`: nothing is left, nothing is lost"),
        Part(
            "soak-rogue",
            "every way to misbehave, through whole commands, on both back ends; long races of workloads and versions",
        ),
        Part("soak-fleet", "machines that are lost, killed or slow; what `fleet install` copies"),
        Part("fuzz-cli", "1,000 random command lines and definition files each; 10,000 files of strangers in a jail"),
        Part("soak-fuzz", "the response parser and HTTP/2's frames on three million inputs each"),
    ),
}
#: Time limit of a tier on two quiet cores, in seconds, without building; 0: no limit.
BUDGET_S = {"test": 360, "check": 2400, "soak": 0}


@dataclass(frozen=True)
class Took:
    """Result of a part: its seconds, exit code and whole output."""

    part: Part
    seconds: float
    cpu_s: float
    code: int
    said: str


def run(part: Part) -> Took:
    """Runs one part; its output goes to this program's, at once or, if it computes, when it ends."""
    begun, said = time.monotonic(), list[str]()
    words = ["nice", "-n", "5"] if part.computes else []
    if not part.computes:
        print(title(part), flush=True)
    spared = {"DRAGSTRIP_PASSED": str(PASSED)} if part.spares and PASSED.exists() else {}
    process = subprocess.Popen(
        [*words, "make", "--no-print-directory", part.target],
        cwd=ROOT, env=os.environ | spared,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line)
        if not part.computes:
            print(line, end="", flush=True)
    # CPU time of the process and of its awaited children: another part may run at the same time.
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = code = os.waitstatus_to_exitcode(status)
    if part.computes:
        print(title(part), "".join(said), sep="\n", flush=True)
    return Took(part, time.monotonic() - begun, used.ru_utime + used.ru_stime, code, "".join(said))


def outcomes_of(text: str) -> Counter[str]:
    """Tests by outcome, as pytest's and cargo's last lines count them."""
    counts: Counter[str] = Counter()
    # Not the sum of a tier, which has no seconds: `make test` prints it below what it sums up.
    end = re.compile(r"=* ?\d+ (passed|failed|skipped).* in [\d.]+s|test result: ")
    ends = [line for line in text.splitlines() if end.match(line)]
    for number, outcome in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", "\n".join(ends)):
        counts[outcome.removesuffix("s") if outcome.startswith("error") else outcome] += int(number)
    return counts


def reasons_of(text: str) -> Counter[str]:
    """Reasons of skipped tests with their number, as pytest's summary (-ra) has them."""
    found = re.findall(r"^SKIPPED \[(\d+)\] \S+ (.*)$", text, re.MULTILINE)
    reasons: Counter[str] = Counter()
    for number, reason in found:
        reasons[reason] += int(number)
    return reasons


def tally(parts: Sequence[Took]) -> list[str]:
    """How many tests passed, failed and were skipped in all parts, with the reasons of those that were skipped."""
    counts, reasons = Counter[str](), Counter[str]()
    for one in parts:
        counts += outcomes_of(one.said)
        reasons += reasons_of(one.said)
    lines = [f"{counts['passed']} passed, {counts['failed'] + counts['error']} failed, {counts['skipped']} skipped"]
    return [*lines, *(f"- skipped {number} × {reason}" for reason, number in reasons.most_common())]


def title(part: Part) -> str:
    return f"\n== {part.target}: {part.proves}"


def run_all(parts: Sequence[Part]) -> list[Took]:
    """Results of all parts, in order; parts that compute run in parallel with the others."""
    took: dict[str, Took] = {}

    def one_after_the_other(chain: Sequence[Part]) -> None:
        for part in chain:
            took[part.target] = run(part)

    beside = threading.Thread(target=one_after_the_other, args=([part for part in parts if part.computes],))
    beside.start()
    one_after_the_other([part for part in parts if not part.computes])
    beside.join()
    return [took[part.target] for part in parts]


def table(tier: str, parts: list[Took], seconds: float) -> list[str]:
    """The lines of a Markdown table, the total last.

    Args:
        seconds: by the clock, from the first part's start to the last one's end.
    """
    lines = [
        f"| `make {tier}` | proves | seconds | CPU seconds |",
        "|-|-|-:|-:|",
        *(
            f"| `{one.part.target}`{'' if one.code == 0 else ' **failed**'} | {one.part.proves}"
            f"{' (in parallel)' if one.part.computes else ''}"
            f" | {one.seconds:.0f} | {one.cpu_s:.0f} |"
            for one in parts
        ),
    ]
    whole = f"| all | | {seconds:.0f} | {sum(one.cpu_s for one in parts):.0f} |"
    return [*lines, whole]


def write(tier: str, lines: list[str], load: float) -> None:
    """Puts a tier's table into docs/evidence/tests.md, with the machine and how busy it was."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from pages import circumstances, splice

    budget = f"Limit: {BUDGET_S[tier] // 60} minutes on two quiet cores. " if BUDGET_S[tier] else ""
    told = f"{budget}Measured: {circumstances()}; load average {load:.1f} at the start."
    splice(PAGE, f"tier {tier}", "\n".join([told, "", *lines]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs a tier of tests and says what each part took.")
    parser.add_argument("tier", choices=TIERS)
    parser.add_argument("--only", default="", help="some parts, by their targets, with commas between them")
    parser.add_argument("--write", action="store_true", help="the table goes into docs/evidence/tests.md")
    chosen = parser.parse_args()
    parts = TIERS[chosen.tier]
    if chosen.only:
        wanted = chosen.only.split(",")
        parts = tuple(one for one in parts if one.target in wanted or one.target.removeprefix("test-") in wanted)
        if len(parts) != len(wanted):
            parser.error(f"--only {chosen.only}: {chosen.tier} has {', '.join(p.target for p in TIERS[chosen.tier])}")
    PASSED.unlink(missing_ok=True)  # an earlier run's, of other sources
    if os.geteuid() != 0 and FRESH in parts:
        print("fresh roots are made by root only: left out", flush=True)
        parts = tuple(one for one in parts if one is not FRESH)
    # Built once here; otherwise parallel parts would each build it.
    built = subprocess.run(["make", "--no-print-directory", ".stamps/test-deps"], cwd=ROOT, check=False)
    if built.returncode != 0:
        return built.returncode
    load, begun = os.getloadavg()[0], time.monotonic()
    done = run_all(parts)
    lines = table(chosen.tier, done, time.monotonic() - begun)
    print("", *lines, "", *tally(done), "", sep="\n")
    print(f"load average {load:.1f} at the start, on {os.cpu_count()} cores", end="")
    print(f"; on two quiet ones it may take {BUDGET_S[chosen.tier]} s" if BUDGET_S[chosen.tier] else "")
    if chosen.write:
        write(chosen.tier, lines, load)
    return int(any(one.code for one in done))


if __name__ == "__main__":
    sys.exit(main())
