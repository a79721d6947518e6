"""A lab under random kill -9: python benchmarks/lab_chaos.py CARRIER [--cells 1000] [--kills 50] [--record]

Carriers: children, dask (a scheduler and a worker for each strip, which are started again when they were killed) and
slurm (Debian's packages: a controller and a daemon for each strip, all on this machine). Strips race samples
(``tests/stub_strip.py``), because 1,000 real races would take days; all else is real. During the run a strip joins,
another one is away for a while, and some records are damaged. Ends with an error if a cell is lost or doubled, or if
two races met on a strip.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import clusters
import labs
import measuring_code
from pages import ROOT, circumstances, splice

PAGE, RESULTS = ROOT / "docs" / "lab.md", ROOT / "runs" / "lab-chaos.json"

CARRIERS = ("children", "dask", "slurm")

#: Records that are damaged, and seconds for which a strip is away.
DAMAGED, AWAY_S = 5, 30.0


@dataclass
class Carried:
    """A carrier that runs: options of ``lab run``, and what is also killed."""

    options: Sequence[str] = ()
    others: Mapping[str, Callable[[], int]] = field(default_factory=dict)


@contextmanager
def dask(folder: Path, strips: Sequence[str]) -> Iterator[Carried]:
    """A scheduler on loopback, and a worker for each strip."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    program, pages = [sys.executable, "-m", "dask"], ["--dashboard-address", "127.0.0.1:0"]
    where = ["--host", "127.0.0.1"]
    commands = {"scheduler": [*program, "scheduler", *where, "--port", address.rpartition(":")[2], *pages]}
    for name in strips:
        options = ["--nthreads", "2", "--no-nanny", "--memory-limit", "0", "--resources", f"strip-{name}=1"]
        local = ["--local-directory", str(folder / "dask")]
        commands[name] = [*program, "worker", address, *where, *pages, *options, *local]
    with clusters.Kept(commands, folder) as kept:
        others = {"workers": lambda: kept.pid(*strips), "schedulers": lambda: kept.pid("scheduler")}
        yield Carried(["--dask", address], others)


@contextmanager
def slurm(folder: Path, strips: Sequence[str]) -> Iterator[Carried]:
    """A controller and a daemon for each strip, of Debian's packages, on this machine."""
    with clusters.slurm(folder, strips) as kept:
        yield Carried((), {"controllers": lambda: kept.pid("controller"), "daemons": lambda: kept.pid(*strips)})


@contextmanager
def children(folder: Path, strips: Sequence[str]) -> Iterator[Carried]:
    """Nothing is started."""
    yield Carried()


def disturbed(file: Path, strips: Sequence[str], cells: int, joins: str) -> Callable[[], None]:
    """What happens in addition to kills, by the share of raced cells: a strip joins, one is away, records are damaged.

    Args:
        joins: what is added to the matrix.
    """
    logs, done = file.parent / "logs", dict[str, float]()

    def once(name: str, due: bool, call: Callable[[], object]) -> None:
        if due and name not in done:
            done[name] = time.monotonic()
            call()

    def look() -> None:
        share = labs.raced(file) / cells
        once("joins", share > 0.2, lambda: file.write_text(file.read_text() + joins))
        once("gone", share > 0.3, (logs / f"gone-{strips[-2]}").touch)
        once("back", time.monotonic() > done.get("gone", math.inf) + AWAY_S, (logs / f"gone-{strips[-2]}").unlink)
        for number in range(DAMAGED):
            once(f"damaged {number}", share > 0.1 * number, (logs / f"break-{strips[number % len(strips)]}").touch)

    return look


def run(carrier: str, cells: int, count: int, kills: int, seed: int) -> dict[str, object]:
    """Runs it; what happened."""
    with tempfile.TemporaryDirectory(prefix="dragstrip-chaos-") as at:
        folder = Path(at)
        strips = [f"s{number}" for number in range(count)]
        begin = {"children": children, "dask": dask, "slurm": slurm}[carrier]
        with labs.door(folder) as place, begin(folder, strips) as carried:
            how = {"children": "", "dask": labs.VIA, "slurm": labs.SLURM}[carrier]
            file = labs.matrix(folder, cells=cells, strips=count - 1, how=how, door=place)
            joins = labs.strip(folder, strips[-1], how=how, door=place)
            begun = time.monotonic()
            killed = labs.chaos(
                file, kills=kills, seed=seed, pause_s=2.0, options=carried.options, others=carried.others,
                cells=cells, now_and_then=disturbed(file, strips, cells, joins), stub_s=0.2,
            )  # fmt: skip
            seconds = time.monotonic() - begun
            try:
                lost = labs.assert_each_once(file, cells)
            except AssertionError:
                shutil.copytree(file.parent / "logs", RESULTS.with_name("lab-chaos-failed"), dirs_exist_ok=True)
                raise
            raced = labs.raced(file)
            refused = len(labs.refusals(file))
            used = labs.used(file)
    assert used == set(strips), f"strips without a race: {set(strips) - used}"
    assert refused <= DAMAGED
    return {
        "cells": cells, "strips": count, "killed": killed, "lost attempts": lost, "refused": refused,
        "raced again": raced - cells, "seconds": round(seconds),
        "where": f"{circumstances()}, commit {measuring_code.head()}",
    }  # fmt: skip


def table(results: Mapping[str, Mapping[str, object]]) -> str:
    """The table of all carriers that were run."""
    lines = [
        "| carrier | cells, strips | kill -9 | stored, lost, double, met | damaged records refused | races repeated |"
        " attempts lost | minutes |",
        "|-|-|-|-|-:|-:|-:|-:|",
    ]
    for carrier in CARRIERS:
        if (one := results.get(carrier)) is None:
            continue
        killed = one["killed"]
        assert isinstance(killed, dict)
        said = ", ".join(f"{count} {name}" for name, count in killed.items())
        fields = (
            carrier, f"{one['cells']:,}, {one['strips']}", f"{sum(killed.values())}: {said}",
            f"{one['cells']:,}, 0, 0, 0", one["refused"], one["raced again"], one["lost attempts"],
            round(int(str(one["seconds"])) / 60),
        )  # fmt: skip
        lines.append(f"| {' | '.join(map(str, fields))} |")
    return "\n".join([*lines, "", *(f"{name}: {one['where']}." for name, one in results.items())])


def main() -> None:
    """Runs it, prints the table, and writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("carrier", choices=(*CARRIERS, "none"), help="none: writes the results of earlier runs")
    for name, usual in (("cells", 1000), ("strips", 8), ("kills", 50), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--record", action="store_true", help="write the table into docs/lab.md")
    asked = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if asked.carrier != "none":
        results[asked.carrier] = run(asked.carrier, asked.cells, asked.strips, asked.kills, asked.seed)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1))
    print(table(results))
    if asked.record:
        splice(PAGE, "lab-chaos", table(results))


if __name__ == "__main__":
    main()
