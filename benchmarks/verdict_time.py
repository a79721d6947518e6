"""Seconds from Enter to the verdict, with another checkout in turn: what the changes since then save.

    python benchmarks/verdict_time.py --other ../before --times 10 --minutes 30

The other checkout is built (`make build`). Each line-up is raced with both, one after the other, and which is first is
drawn. Races use scrutineering's stored results, so the first race of each is not counted. Each race is one line in
``runs/verdict-time.jsonl``; called again, it goes on with what is missing (exit code 75 until then). Other programs on
the machine lengthen both; the ratio is of medians, with the range of paired races. A second table shows where the
seconds of today's method go.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import race_lines
from calibration_kinds import CONTENDERS, NODE
from evidence_parts import GOES_ON
from pages import ROOT, circumstances, splice

from dragstrip.record import Race
from dragstrip.store.database import Store

PAGE = ROOT / "docs" / "evidence" / "verdicts.md"
LINES = ROOT / "runs" / "verdict-time.jsonl"

LINE_UPS = {
    "nginx-return, nginx-static": ("nginx-return", "nginx-static"),
    "nginx-return, node": ("nginx-return", "node"),
    "node, tornado": ("node", "tornado"),
    "node, with 3 % more CPU time": NODE.arguments(0.03, CONTENDERS),
    "the default line-up": ("--line-up", "default"),
}

#: Where a race's seconds go; what is left is between these.
STRETCHES = ("program and checks", "starts", "warm-up", "blocks")


def stretches(stored: Race, took_s: float) -> dict[str, float]:
    """Seconds of a race by what they were for: outside its rounds, from start to first response, and so on."""
    launches = [launch for raced in stored.rounds for launch in raced.launches]
    seconds = (
        took_s - (stored.rounds[-1].ended_ns - stored.rounds[0].started_ns) / 1e9,
        sum(launch.ready_ns for launch in launches) / 1e9,
        sum(launch.warm_up_ns for launch in launches) / 1e9,
        sum(block.duration_ns for raced in stored.rounds for block in raced.blocks) / 1e9,
    )
    return {name: round(value, 2) for name, value in zip(STRETCHES, seconds, strict=True)}


def race(checkout: Path, words: tuple[str, ...]) -> dict[str, Any]:
    """One race by a checkout's Dragstrip: seconds until its verdict, rounds, undecided pairs, today's stretches."""
    store = ROOT / "runs" / f"verdict-time-{checkout.name}"
    store.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "race.json"
        began = time.monotonic()
        done = subprocess.run(
            [checkout / ".venv/bin/python", "-m", "dragstrip", "race", *words, "--quiet", "--json", str(file)],
            env=os.environ | {"XDG_DATA_HOME": str(store)},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        took_s = time.monotonic() - began
        if not file.exists():
            sys.exit(f"{checkout}: {done.stderr}")
        report = json.loads(file.read_text())
    metric = report["columns"][0]["metric"]
    pairs = [pair for pair in report["pairs"] if pair["metric"] == metric]
    found = {
        "took_s": round(took_s, 2),
        "rounds": max((pair["rounds"] for pair in pairs), default=0),
        "undecided": sum(pair["verdict"] == "undecided" for pair in pairs),
    }
    if checkout == ROOT:
        with Store(store / "dragstrip" / "races.sqlite", write=False) as opened:
            found["stretches"] = stretches(opened.load("last"), took_s)
    return found


def table(lines: list[dict[str, Any]]) -> str:
    """Seconds and rounds with both, and the ratio."""
    rows = [
        "| line-up | races of each | before: s, median (range) | rounds | after: s, median (range) | rounds "
        "| after / before, median of pairs (range) | undecided pairs, before and after |",
        "|-|-:|-:|-:|-:|-:|-:|-:|",
    ]
    for name in LINE_UPS:
        mine = [line for line in lines if line["line_up"] == name]
        if mine:
            before, after = ([line[side] for line in mine] for side in ("before", "after"))
            ratios = [new["took_s"] / old["took_s"] for new, old in zip(after, before, strict=True)]
            cells = []
            for side in (before, after):
                seconds = [race_["took_s"] for race_ in side]
                cells += [f"{median(seconds):.1f} ({min(seconds):.1f}–{max(seconds):.1f})"]
                cells += [f"{median(one['rounds'] for one in side):g}"]
            open_ = "; ".join(str(sum(race_["undecided"] for race_ in side)) for side in (before, after))
            span = f"{median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
            rows.append(f"| {name} | {len(mine)} | {' | '.join(cells)} | {span} | {open_} |")
    rows += ["", "Where the seconds go after the change, medians of the same races:", ""]
    rows += [f"| line-up | {' | '.join(STRETCHES)} | between these | all |", f"|-|{'-:|' * (len(STRETCHES) + 2)}"]
    for name in LINE_UPS:
        mine = [line["after"] for line in lines if line["line_up"] == name]
        if mine:
            spent = [median(one["stretches"][stretch] for one in mine) for stretch in STRETCHES]
            between = median(one["took_s"] - sum(one["stretches"].values()) for one in mine)
            whole = median(one["took_s"] for one in mine)
            rows.append(f"| {name} | {' | '.join(f'{value:.1f} s' for value in (*spent, between, whole))} |")
    return "\n".join([circumstances(), "", *rows])


def main() -> int:
    """The command line."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--other", type=Path, required=True, help="another built checkout")
    wanted.add_argument("--times", type=int, default=10, help="races of each line-up with each (default 10)")
    wanted.add_argument("--minutes", type=float, default=30.0, help="of this sitting (default 30)")
    wanted.add_argument("--write", action="store_true", help="write what there is into the page, and race nothing")
    given = wanted.parse_args()
    other = given.other.resolve()
    lines = race_lines.read(LINES)
    until = time.monotonic() + 60 * given.minutes
    if not given.write:
        for words in LINE_UPS.values():
            for checkout in (other, ROOT):
                if not any((ROOT / "runs" / f"verdict-time-{checkout.name}").glob("**/*.sqlite")) or not lines:
                    race(checkout, (*words, "--rounds", "2"))
    for turn in range(0 if given.write else given.times):
        for name, words in LINE_UPS.items():
            if sum(line["line_up"] == name for line in lines) > turn:
                continue
            if time.monotonic() > until:
                return GOES_ON
            sides = [("before", other), ("after", ROOT)]
            random.shuffle(sides)
            found = {side: race(checkout, words) for side, checkout in sides}
            lines.append(race_lines.append(LINES, {"line_up": name} | found))
            print(json.dumps(lines[-1]), flush=True)
    splice(PAGE, "verdict-time", table(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
