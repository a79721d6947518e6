"""Where a lab's budget decides more cells, by real races: python benchmarks/lab_night.py [--minutes 40] [--record]

Forty cells of two servers each, whose truth is known: the same server twice, or one that burns more CPU time for each
request (``crates/engine/examples/planted.rs``). Their first rounds are raced once; then two copies of the lab go on,
one with ``spend = "even"``, one with ``spend = "undecided"``, by the same budgets in turn. What was raced is in
``runs/lab-night-STATE``, so the program may be ended at any time, and goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from evidence_parts import GOES_ON
from measuring_code import ROOT, state
from pages import circumstances, splice

from dragstrip.metrics import PairVerdict
from dragstrip.report.lab import heat, summary

PAGE = ROOT / "docs" / "lab.md"
#: Of this state of the measuring code; another state's cells would count as raced.
FOLDER = ROOT / "runs" / f"lab-night-{state()}"
PLANTED = ROOT / "target" / "release" / "examples" / "planted"

#: Cells by the share of its own CPU time that the second server burns more for each request.
CELLS = {0.0: 12, 0.02: 8, 0.03: 8, 0.05: 6, 0.10: 6}

#: Rounds of the lab, seconds that each step adds to the budget of each way, and steps.
FIRST, MOST, SLICE = 10, 80, 10
STEP_S, STEPS = 75.0, 6

#: Each way and its name on the page.
WAYS = {"even": "all cells alike", "undecided": "closest to a decision"}

MATRIX = """
[lab]
name = "night"
first_rounds = {first}
most_rounds = {most}
slice_rounds = {slice}
spend = "{spend}"
budget = "{budget:.0f}s"
"""


@dataclass(frozen=True, slots=True)
class Reached:
    """What a way had reached at a step: cells decided, wrong calls, rounds, machine time, and the load average."""

    way: str
    step: int
    decided: int
    wrong: int
    rounds: int
    machine_s: float
    load: float


def matrix(way: str, budget_s: float, planted: Path) -> Path:
    """The matrix of a way; cells of one truth differ in their connections."""
    text = MATRIX.format(first=FIRST, most=MOST, slice=SLICE, spend=way, budget=max(budget_s, 1.0))
    most = max(CELLS.values())
    for burn, count in CELLS.items():
        commands = [f"base={planted} {{port}}", f"other={planted} {{port}} --burn {burn:g}"]
        text += f'[[line_ups]]\nname = "{_name(burn)}"\ncontenders = {json.dumps(commands)}\n'
        if count < most:
            loads = ", ".join(_load(at) for at in range(count, most))
            text += f'[[leave_out]]\nline_ups = ["{_name(burn)}"]\nloads = [{loads}]\n'
    text += f"[axes]\nloads = [{', '.join(map(_load, range(most)))}]\n"
    file = FOLDER / f"{way}.toml"
    file.write_text(text)
    return file


def _name(burn: float) -> str:
    return f"planted-{burn:.0%}".rstrip("%")


def _load(at: int) -> str:
    return f"{{connections = {32 + at}}}"


def lab(way: str, place: Path, budget_s: float, planted: Path) -> None:
    """Runs a lab until its budget is spent.

    Raises:
        SystemExit: it fails.
    """
    file = matrix(way, budget_s, planted)
    words = [sys.executable, "-m", "dragstrip", "lab", "run", str(file), "--folder", str(place)]
    with (FOLDER / f"{place.name}.log").open("ab") as log:
        code = subprocess.run(words, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    if code:
        raise SystemExit(f"{place}: exit code {code}; see {log.name}")


def spent_s(place: Path) -> float:
    """Machine time of a lab."""
    return sum(summary.counted(place).machine_s().values())


def reached(way: str, step: int, place: Path) -> Reached:
    """What a lab's cells are now, against the truth."""
    counted = summary.counted(place)
    wrong = 0
    for cell in heat.judged(counted):
        burn = next(burn for burn in CELLS if _name(burn) == cell.cell.line_up)
        for ratio in cell.ratios:
            verdict = PairVerdict(ratio.verdict)
            if (ratio.a, ratio.b) == ("other", "base"):
                verdict = {PairVerdict.FASTER: PairVerdict.SLOWER, PairVerdict.SLOWER: PairVerdict.FASTER}.get(
                    verdict, verdict
                )
            right = (PairVerdict.FASTER,) if burn else (PairVerdict.SAME,)
            wrong += verdict is not PairVerdict.UNDECIDED and verdict not in right
    rounds = sum(stored.rounds for stored in counted.stored.values())
    machine_s = sum(counted.machine_s().values())
    return Reached(way, step, counted.decided, wrong, rounds, machine_s, os.getloadavg()[0])


def first(planted: Path) -> None:
    """The first rounds of every cell, then a copy of the lab for each way."""
    place = FOLDER / "first"
    lab("even", place, 0.0, planted)
    for way in WAYS:
        if not (FOLDER / way).exists():
            shutil.rmtree(part := FOLDER / f"{way}.part", ignore_errors=True)
            shutil.copytree(place, part)
            part.rename(FOLDER / way)


def read() -> list[Reached]:
    """What was reached so far."""
    file = FOLDER / "reached.jsonl"
    return [Reached(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def note(result: Reached) -> None:
    """Stores a result."""
    with (FOLDER / "reached.jsonl").open("a") as file:
        file.write(json.dumps(asdict(result)) + "\n")
    print(result, flush=True)


def run(until_s: float, planted: Path) -> bool:
    """Races what is missing; whether all is there.

    Args:
        until_s: by the monotonic clock: no further step begins afterwards.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    first(planted)
    done = {(result.way, result.step) for result in read()}
    begun_s = spent_s(FOLDER / "first")
    for way in WAYS:
        if (way, 0) not in done:
            note(reached(way, 0, FOLDER / way))
    for step in range(1, STEPS + 1):
        for way in WAYS if step % 2 else reversed(WAYS):
            if (way, step) in done:
                continue
            if time.monotonic() > until_s:
                return False
            lab(way, FOLDER / way, begun_s + step * STEP_S, planted)
            note(reached(way, step, FOLDER / way))
    return True


def table(results: Sequence[Reached]) -> str:
    """The table of all steps."""
    count = sum(CELLS.values())
    by = {(result.way, result.step): result for result in results}
    truth = ", ".join(f"{number} at {burn:.0%}".replace("%", " %") for burn, number in CELLS.items() if burn)
    loads = [result.load for result in results]
    lines = [
        f"{count} cells: {CELLS[0.0]} of the same server twice, {truth} more CPU time for each request. Cells decided; "
        "in parentheses the incorrect verdicts, and the rounds of all cells. Load average "
        f"{min(loads):.1f} to {max(loads):.1f} on two cores ({circumstances()}).",
        "",
        f"| machine time, minutes | {' | '.join(WAYS.values())} |",
        "|-:|-|-|",
    ]
    for step in range(STEPS + 1):
        row = [by.get((way, step)) for way in WAYS]
        if any(result is None for result in row):
            continue
        whole = [result for result in row if result]
        minutes = sum(result.machine_s for result in whole) / len(whole) / 60
        fields = [f"{result.decided} ({result.wrong}; {result.rounds})" for result in whole]
        lines.append(f"| {minutes:.1f} | {' | '.join(fields)} |")
    return "\n".join(lines)


def main() -> None:
    """Races what is missing, prints the table, and writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="after these, no further step begins")
    parser.add_argument("--planted", type=Path, default=PLANTED, help="the server with the planted fault")
    parser.add_argument("--record", action="store_true", help="write the table into docs/lab.md")
    asked = parser.parse_args()
    if not asked.planted.exists():
        sys.exit(f"{asked.planted} is missing: cargo build --release -p dragstrip-engine --example planted")
    whole = run(time.monotonic() + 60 * asked.minutes, asked.planted.absolute())
    text = table(read())
    print(text)
    if not whole:
        sys.exit(GOES_ON)
    if asked.record:
        splice(PAGE, "lab-night", text)


if __name__ == "__main__":
    main()
