"""How soon a history shows a planted shift, and how often it shows one that is not there; beside other programs.

    python benchmarks/change_points.py --record                  # the table of docs/diff.md
    python benchmarks/change_points.py --otava PYTHON --record   # with apache-otava, which that Python can import

Every program sees the same simulated series, again after each race, as a history is really looked at. `ruptures` alone
is what ``dragstrip.analysis.change_points`` begins with: without the test of each candidate, and without the cut at a
change of machine. `apache-otava` has its own defaults.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from pages import splice

from dragstrip.analysis.change_points import MIN_RACES, PENALTY, changes
from dragstrip.analysis.history import Point

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from histories import points  # noqa: E402

#: Series of 25 races with a shift at the 20th; series of 100 without; series of 40 whose machine changes at the 20th.
SHIFTED, STEADY, MOVED = 100, 20, 50
SHIFTED_RACES, STEADY_RACES, MOVED_RACES, PLACE = 25, 100, 40, 20

#: Changes whose places differ by no more than this are the same one, seen at several looks.
NEAR = 3

#: Places of changes in a series, at each of its looks.
Looks = Callable[[Sequence[Sequence[Point]]], list[list[int]]]

OTAVA = """
import json, sys
from otava.analysis import compute_change_points
for line in sys.stdin:
    points, _ = compute_change_points(json.loads(line))
    print(json.dumps([int(point.index) for point in points]))
"""


def ours(looks: Sequence[Sequence[Point]]) -> list[list[int]]:
    """Dragstrip's own changes."""
    return [[change.place for change in changes(look)] for look in looks]


def ruptures_alone(looks: Sequence[Sequence[Point]]) -> list[list[int]]:
    """PELT's changes, with the same penalty."""
    import ruptures

    places = []
    for look in looks:
        values = np.array([point.log for point in look])
        scale = float(np.median([point.spread for point in look]))
        search = ruptures.KernelCPD(kernel="linear", min_size=MIN_RACES).fit(values / scale)
        places.append(search.predict(pen=PENALTY * math.log(len(values)))[:-1])
    return places


def otava(python: str) -> Looks:
    """The changes of apache-otava, in a Python of its own."""

    def places(looks: Sequence[Sequence[Point]]) -> list[list[int]]:
        lines = "".join(json.dumps([point.ratio for point in look]) + "\n" for look in looks)
        done = subprocess.run([python, "-c", OTAVA], input=lines, capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    return places


def looks_at(series: Sequence[Point], first: int) -> list[Sequence[Point]]:
    """The series after each of its races, from race number ``first`` on."""
    return [series[:end] for end in range(first, len(series) + 1)]


def row(name: str, look: Looks) -> str:
    """A program's line of the table."""
    soon = 0
    for seed in range(SHIFTED):
        series = points(np.random.default_rng(seed), SHIFTED_RACES, at=PLACE)
        soon += any(abs(place - PLACE) <= 1 for places in look(looks_at(series, PLACE + 1)) for place in places)
    false = 0
    for seed in range(STEADY):
        series = points(np.random.default_rng(1000 + seed), STEADY_RACES)
        seen = sorted({place for places in look(looks_at(series, 2 * MIN_RACES)) for place in places})
        false += sum(after - before > NEAR for before, after in pairwise([-2 * NEAR, *seen]))
    blamed = 0
    for seed in range(MOVED):
        series = points(np.random.default_rng(2000 + seed), MOVED_RACES, moved=PLACE)
        blamed += any(abs(place - PLACE) <= 2 for place in look([series])[0])
    return f"| {name} | {soon} of {SHIFTED} | {100 * false / (STEADY * STEADY_RACES):.2f} | {blamed} of {MOVED} |"


def main() -> None:
    """Prints the table, and writes it into the page if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--otava", metavar="PYTHON")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    programs: dict[str, Looks] = {"dragstrip history": ours, "`ruptures` alone (PELT)": ruptures_alone}
    if options.otava:
        programs["`apache-otava`"] = otava(options.otava)
    head = "| program | 3 % seen within 5 races | false changes in 100 races | machine's changes taken for the code's |"
    text = "\n".join([head, "|-|-:|-:|-:|", *(row(name, look) for name, look in programs.items())])
    sys.stdout.write(text + "\n")
    if options.record:
        splice(ROOT / "docs" / "diff.md", "change-points", text)


if __name__ == "__main__":
    main()
