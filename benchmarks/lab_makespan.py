"""How long a lab takes, over the list-scheduling bound: python benchmarks/lab_makespan.py [--times 2] [--record]

Cells sleep for 10 to 14 s instead of a race; all else is real, and all strips are on this machine. Each carrier has the
same cells in turn, this many times; results are stored, so that the program continues if it was ended. For ``dask``
scheduler and workers run already; with ``dask local`` the client starts them. The bound is Graham's: no list schedule
of m strips takes longer than the sum of all cells over m, plus the longest cell times 1 - 1/m. The perfect schedule
starts the same cells in the same order, and loses no time between them. ``lab run`` is timed from its start to its
exit.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import lab_chaos
import labs
import stub_strip
from pages import ROOT, circumstances, splice

from dragstrip.lab.ledger import Attempt, Ledger

PAGE, RESULTS = ROOT / "docs" / "lab.md", ROOT / "runs" / "lab-makespan.jsonl"


@contextmanager
def local(folder: Path, strips: Sequence[str]) -> Iterator[lab_chaos.Carried]:
    """Nothing is started here."""
    yield lab_chaos.Carried(["--dask", "local"])


#: Each carrier: what starts it, and how a strip is reached.
CARRIERS = {
    "children": (lab_chaos.children, ""),
    "dask": (lab_chaos.dask, labs.VIA),
    "dask local": (local, labs.VIA),
    "slurm": (lab_chaos.slurm, labs.SLURM),
}

#: Seconds for Dask's workers to register.
READY_S = 180.0


@dataclass(frozen=True, slots=True)
class Taken:
    """What a lab took, s: all of ``lab run``; from its first slice's start to its last record; and what bounds it.

    Args:
        load: the load average at its end.
    """

    carrier: str
    whole_s: float
    slices_s: float
    perfect_s: float
    bound_s: float
    load: float | None = None


def perfect(cells: Sequence[float], strips: int) -> float:
    """The makespan of a list schedule of these cells, in this order, that loses no time."""
    free = [0.0] * strips
    for seconds in cells:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


def bound(cells: Sequence[float], strips: int) -> float:
    """Graham's bound of every list schedule of these cells."""
    return sum(cells) / strips + (1 - 1 / strips) * max(cells)


def _wait_for_workers(folder: Path, strips: Sequence[str]) -> None:
    """Waits until each worker has registered at the scheduler.

    Raises:
        SystemExit: they don't.
    """
    until = time.monotonic() + READY_S
    while not all("Registered to" in (folder / f"{name}.log").read_text() for name in strips):
        if time.monotonic() > until:
            raise SystemExit(f"Dask's workers did not register within {READY_S:g} s")
        time.sleep(0.2)


def run(carrier: str, cells: int, count: int) -> Taken:
    """Runs a lab of sleeping cells."""
    begin, how = CARRIERS[carrier]
    with tempfile.TemporaryDirectory(prefix="dragstrip-makespan-") as at:
        folder = Path(at)
        strips = [f"s{number}" for number in range(count)]
        with labs.door(folder) as place, begin(folder, strips) as carried:
            file = labs.matrix(folder, cells=cells, strips=count, how=how, door=place)
            if carrier == "dask":
                _wait_for_workers(folder, strips)
            log, begun = folder / "client.log", time.monotonic()
            code = labs.client(file, *carried.options, log=log).wait()
            whole_s = time.monotonic() - begun
            if code:
                raise SystemExit(f"{carrier}: exit code {code}\n{log.read_text()[-3000:]}")
            lost = labs.assert_each_once(file, cells)
            if lost:
                raise SystemExit(f"{carrier}: {lost} attempts were lost\n{log.read_text()[-3000:]}")
            with closing(Ledger(folder / "lab", write=False)) as ledger:
                attempts: list[Attempt] = sorted(ledger.attempts(), key=lambda attempt: attempt.begun)
    slept = [stub_strip.seconds(attempt.cell, attempt.n) for attempt in attempts]
    slices_s = max(attempt.ended or 0.0 for attempt in attempts) - attempts[0].begun
    return Taken(carrier, whole_s, slices_s, perfect(slept, count), bound(slept, count), os.getloadavg()[0])


def table(results: Sequence[Taken], cells: int, strips: int, seconds: tuple[float, float]) -> str:
    """The table of all carriers: each number of each run."""
    loads = [taken.load for taken in results if taken.load is not None]
    during = f", load average {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    lines = [
        f"{cells} cells of {seconds[0]:g} to {seconds[1]:g} s over {strips} strips: seconds of each run, in turn "
        f"({circumstances()}{during}).",
        "",
        "| carrier | `lab run` | first start to last record | perfect schedule | bound | `lab run` over the bound |",
        "|-|-:|-:|-:|-:|-:|",
    ]
    for carrier in dict.fromkeys(taken.carrier for taken in results):
        own = [taken for taken in results if taken.carrier == carrier]

        def each(number: Callable[[Taken], float], digits: int = 1, own: Sequence[Taken] = own) -> str:
            return ", ".join(dict.fromkeys(f"{number(taken):.{digits}f}" for taken in own))

        fields = (
            each(lambda taken: taken.whole_s),
            each(lambda taken: taken.slices_s),
            each(lambda taken: taken.perfect_s),
            each(lambda taken: taken.bound_s),
            each(lambda taken: taken.whole_s / taken.bound_s, 2),
        )
        lines.append(f"| {carrier} | {' | '.join(fields)} |")
    return "\n".join(lines)


def main() -> None:
    """Runs it, prints the table, and writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, usual in (("cells", 48), ("strips", 8)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("carriers", nargs="*", help=f"of {', '.join(CARRIERS)} [default: all]")
    parser.add_argument("--times", type=int, default=2, help="runs of each carrier, in turn")
    parser.add_argument("--seconds", type=float, nargs=2, default=(10.0, 14.0), metavar=("LEAST", "MOST"))
    parser.add_argument("--record", action="store_true", help="write the table into docs/lab.md")
    asked = parser.parse_args()
    os.environ["STUB_LEAST_S"], os.environ["STUB_S"] = map(str, asked.seconds)
    RESULTS.parent.mkdir(exist_ok=True)
    results = [Taken(**json.loads(line)) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    for time_, carrier in product(range(asked.times), asked.carriers or list(CARRIERS)):
        if sum(taken.carrier == carrier for taken in results) <= time_:
            results.append(run(carrier, asked.cells, asked.strips))
            with RESULTS.open("a") as file:
                file.write(json.dumps(asdict(results[-1])) + "\n")
            print(results[-1], flush=True)
    text = table(results, asked.cells, asked.strips, tuple(asked.seconds))
    print(text)
    if asked.record:
        splice(PAGE, "lab-makespan", text)
        RESULTS.unlink()


if __name__ == "__main__":
    main()
