"""One planted system call per response: does ``dragstrip why`` name it, and how precisely?

Standard library and Dragstrip. Two servers (``tests/servers/costly.py``) differ by a write to /dev/null per response.
They are raced briefly and launched ten times four times each for ``why``; each four of both are a comparison of their
own. ``--record`` writes into docs/why.md. Run as root: other users' calls are traced.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pages import ROOT, circumstances, splice

from dragstrip.analysis.causes import causes
from dragstrip.analysis.launch_differences import LEAST_LAUNCHES
from dragstrip.record import Race
from dragstrip.store.database import Store

PAGE = ROOT / "docs" / "why.md"
SERVER = ROOT / "tests" / "servers" / "costly.py"

#: The planted call, its class if calls are traced, and how far its estimate may be from 1.
PLANTED, CLASS, WITHIN = "write", "write", 0.001

#: Calls that differ by less than this are of no interest, planted or not.
LEAST = 0.01


@dataclass(frozen=True)
class Comparison:
    """One comparison of four launches with four.

    Args:
        named: the planted call differs. estimate: of it, per response; None if it has none.
        alarms: other calls that differ.
    """

    named: bool
    estimate: float | None
    alarms: tuple[str, ...]


def measured(store_path: Path, comparisons: int) -> Race:
    """A race of both servers with enough extra launches."""
    env = {**os.environ, "DRAGSTRIP_STORE": str(store_path)}
    launches = comparisons * LEAST_LAUNCHES
    serve = f"{sys.executable} {SERVER} {{port}}"
    race = ["race", "--serve", f"plain={serve}", "--serve", f"planted={serve} write", "--rounds", "2", "-q"]
    for words in (race, ["why", "last", "--launches", str(launches), "--budget", "60m", "-q"]):
        done = subprocess.run(
            [sys.executable, "-m", "dragstrip", *words], env=env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{done.stdout}{done.stderr}")
    with Store(store_path) as store:
        return store.load("last")


def compared(race: Race) -> Iterator[Comparison]:
    """Comparisons of launches that no other comparison has."""
    launches = {name: [p for p in race.profiles if p.contender == name] for name in ("plain", "planted")}
    for at in range(0, min(map(len, launches.values())) - LEAST_LAUNCHES + 1, LEAST_LAUNCHES):
        some = tuple(profile for of_one in launches.values() for profile in of_one[at : at + LEAST_LAUNCHES])
        table = causes(replace(race, profiles=some))
        if table is None:
            raise SystemExit("no launch was measured")
        sign = 1 if table.names[0] == "plain" else -1
        differing = {
            row.name: sign * found.interval.estimate
            for row in table.calls
            if (found := row.cells[1].difference) is not None and found.significant
        }
        yield Comparison(
            named=PLANTED in differing,
            estimate=differing.get(PLANTED),
            alarms=tuple(n for n, by in differing.items() if n not in (PLANTED, "all") and abs(by) >= LEAST),
        )


def text(found: list[Comparison], *, traced: bool) -> str:
    """The section: how often it was named, and how far from 1."""
    known = [one.estimate for one in found if one.estimate is not None]
    exact = sum(abs(estimate - 1) <= WITHIN for estimate in known)
    spread = f"{min(known):.4f} to {max(known):.4f}" if known else "none"
    how = "traced" if traced else "counted by the kernel"
    return (
        f"Calls {how}; {LEAST_LAUNCHES} launches of each server for each comparison ({circumstances()}).\n\n"
        f"| comparisons | injected call named | estimate per response | within {WITHIN:.1%} | other calls named |\n"
        f"|-:|-:|-|-:|-:|\n"
        f"| {len(found)} | {sum(one.named for one in found)} | {spread} | {exact} | "
        f"{sum(bool(one.alarms) for one in found)} |"
    )


def main() -> int:
    """Measures; 1 if a planted call was not named, or imprecisely."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--comparisons", type=int, default=10)
    parser.add_argument("--record", action="store_true", help="write the table into docs/why.md")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        race = measured(Path(folder) / "races.sqlite", wanted.comparisons)
    found = list(compared(race))
    traced = any(profile.traced_calls for profile in race.profiles)
    print(text(found, traced=traced))
    for one in found:
        print(one)
    if wanted.record:
        splice(PAGE, "why-calls", text(found, traced=traced))
    return int(not all(one.named and abs((one.estimate or 0) - 1) <= WITHIN for one in found))


if __name__ == "__main__":
    sys.exit(main())
