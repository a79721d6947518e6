"""How long a lab's report takes: python benchmarks/lab_report.py [--cells 1000] [--record]

A lab of sampled races of four contenders: 10 workloads, 10 loads and 10 revisions, all stored. Measures each report's
command, the served page's response, and the page in Chromium if that is installed. Times are medians of five.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import browser
import psutil
import samples
from pages import ROOT, circumstances, splice

from dragstrip.lab.ledger import STORE_NAME, CellRow, Ledger, Stored
from dragstrip.lab.task import Kind
from dragstrip.report.lab import heat
from dragstrip.store.database import Store

PAGE = ROOT / "docs" / "lab.md"

MATRIX = """
[lab]
name = "sampled"
[[line_ups]]
name = "four"
contenders = ["new", "quick", "slow", "steady"]
"""


def made(folder: Path, cells: int) -> None:
    """A lab in ``folder/lab`` and its matrix; a tenth of the races are generated, the others are copies of them."""
    (folder / "matrix.toml").write_text(MATRIX)
    place = folder / "lab"
    place.mkdir()
    rates = {"new": 3.9e4, "quick": 4e4, "slow": 1e4, "steady": 3e4}
    races = [samples.race(rates, seed=seed, rounds=12, passes=4) for seed in range(max(cells // 10, 1))]
    texts = [heat.digest(race) for race in races]
    ledger = Ledger(place)
    rows = [
        CellRow(
            name=f"{at:016x}", line_up="four", workload=f"workload-{at // 10 % 10}", load=f"{at // 100} connections",
            revision=f"v{at % 10}", machine="epyc", weight=1.0, place=at,
        )
        for at in range(cells)
    ]  # fmt: skip
    ledger.plan(rows)
    with Store(place / STORE_NAME) as store:
        for at, row in enumerate(rows):
            race = replace(races[at % len(races)], id=f"{at:012x}")
            store.begin(race)
            kept = Stored(
                cell=row.name, race=race.id, strip="e1", rounds=12, decided=True, over=True, void=False, more=None
            )
            ledger.end(ledger.begin(row.name, "e1", 12), Kind.STORED, "", kept, texts[at % len(races)])
    ledger.close()


def medians_s(call: Callable[[], object], cpu_s: Callable[[], float]) -> tuple[float, float]:
    """The median time and CPU time of five calls."""
    times = []
    for _ in range(5):
        begun, cpu = time.perf_counter(), cpu_s()
        call()
        times.append((time.perf_counter() - begun, cpu_s() - cpu))
    return statistics.median(wall for wall, _ in times), statistics.median(cpu for _, cpu in times)


def of_children_s() -> float:
    """CPU time of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def of_tree_s(process: psutil.Process) -> float:
    """CPU time of a process and of its children that live."""
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def measured(folder: Path) -> list[tuple[str, float, float]]:
    """What was done, its seconds, and its CPU seconds."""
    words = [sys.executable, "-m", "dragstrip", "lab"]
    of = [str(folder / "matrix.toml"), "--folder", str(folder / "lab")]
    found = []
    for name, verb, options in (
        ("`lab status`", "status", []),
        ("`lab report --html`", "report", ["--html", str(folder / "lab.html")]),
        ("`lab report --json`", "report", ["--json", str(folder / "lab.json")]),
        ("`lab report --parquet`", "report", ["--parquet", str(folder / "lab.parquet")]),
    ):
        line = [*words, verb, *of, *options]
        call = partial(subprocess.run, line, stdout=subprocess.DEVNULL, check=True)
        found.append((name, *medians_s(call, of_children_s)))
    with ExitStack() as resources:
        process = resources.enter_context(
            subprocess.Popen([*words, "serve", *of, "--port", "0"], stdout=subprocess.PIPE, text=True)
        )
        resources.callback(process.terminate)
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        served = partial(of_tree_s, psutil.Process(process.pid))
        found.append(("`lab serve`: its response", *medians_s(lambda: urllib.request.urlopen(address).read(), served)))
        page = resources.enter_context(browser.browser()).new_page()
        ours = partial(of_tree_s, psutil.Process())
        found.append(("the same page in Chromium, with the response", *medians_s(lambda: page.goto(address), ours)))
    return found


def main() -> None:
    """Measures, prints the table, and writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--record", action="store_true", help="write the table into docs/lab.md")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dragstrip-lab-") as at:
        folder = Path(at)
        made(folder, asked.cells)
        rows = measured(folder)
        size = (folder / "lab.html").stat().st_size
    lines = [
        f"{asked.cells:,} cells of four contenders; the page has {size / 1e6:.1f} MB ({circumstances()}, load average "
        f"{os.getloadavg()[0]:.1f}).",
        "",
    ]
    lines += ["| report | seconds | of CPU |", "|-|-:|-:|"]
    lines += [f"| {name} | {seconds:.2f} | {cpu:.2f} |" for name, seconds, cpu in rows]
    print("\n".join(lines))
    if asked.record:
        splice(PAGE, "lab-report", "\n".join(lines))


if __name__ == "__main__":
    main()
