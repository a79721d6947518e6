"""Instructions per request in each shape of session, counted by valgrind; with ``--old``, next to another build.

Other programs don't change these counts, so they show a change of a thousandth on a busy machine. Each shape is run
twice with different numbers of requests: the difference belongs to the requests alone. With many connections the
counts depend on how many responses share a wake-up, so each count is the median of several pairs of runs.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import rivals
from pages import ENGINE_PAGE, circumstances, splice
from rivals import Cell

#: Requests of the two runs of a pair.
FEW, MANY = 2_000, 18_000
#: A shape may cost this many times the other build's instructions.
LIMIT = 1.005


@dataclass(frozen=True)
class Shape:
    """One kind of session: the driver's connections, back end and options."""

    name: str
    connections: int
    io: str
    options: tuple[str, ...] = ()
    server: str = "minimal"


H2 = ("--answer", "12")
SHAPES = (
    Shape("kept, io_uring, 1 connection", 1, "uring"),
    Shape("kept, io_uring, 100 connections", 100, "uring"),
    Shape("kept, epoll, 1 connection", 1, "epoll"),
    Shape("kept, epoll, 100 connections", 100, "epoll"),
    Shape("kept, a read that waits, 1 connection", 1, "auto"),
    Shape("a connection each, linked, 100 at a time", 100, "auto", ("--close",)),
    Shape("pipelined, 10 connections × 16", 10, "auto", ("--pipeline", "16")),
    Shape("TLS, 10 connections", 10, "auto", ("--tls", *H2), server="nginx TLS"),
    Shape("HTTP/2, io_uring, 100 × 1", 100, "uring", ("--streams", "1", *H2)),
    Shape("HTTP/2, io_uring, 10 × 10", 10, "uring", ("--streams", "10", *H2)),
    Shape("HTTP/2, epoll, 10 × 10", 10, "epoll", ("--streams", "10", *H2)),
    Shape("HTTP/2 over TLS, 10 × 10", 10, "auto", ("--streams", "10", "--tls", *H2), server="nginx TLS"),
)


def counted(valgrind: str, drive: Path, shape: Shape, port: int, core: int) -> float:
    """Instructions per request in one pair of runs."""
    totals = []
    for requests in (FEW, MANY):
        words = ["127.0.0.1", str(port), "/", str(shape.connections), "600", str(core), str(requests), shape.io]
        tool = [valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        ran = subprocess.run([*tool, str(drive), *words, *shape.options], capture_output=True, text=True, check=True)
        total = re.search(r"Collected : (\d+)", ran.stderr)
        if not total or f"answered {requests}" not in ran.stdout or "failed 0" not in ran.stdout:
            raise SystemExit(f"{shape.name}: the run failed: {ran.stdout}{ran.stderr[-500:]}")
        totals.append(int(total[1]))
    return (totals[1] - totals[0]) / (MANY - FEW)


def main() -> int:
    """Prints a table; exit code 1 if a shape costs more than ``LIMIT`` times the other build's instructions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="pairs of runs per shape and build")
    parser.add_argument("--shapes", default="", help="only shapes whose name contains this")
    parser.add_argument("--old", type=Path, help="another build of the driver")
    parser.add_argument("--old-name", default="", help="what that build is, such as its commit")
    parser.add_argument("--record", action="store_true", help="write the table into docs/evidence/engine.md")
    given = parser.parse_args()
    valgrind = shutil.which("valgrind")
    if not valgrind:
        print("instructions: valgrind is not on PATH")
        return 2
    builds = [rivals.DRIVE, *([given.old] if given.old else [])]
    core = min(os.sched_getaffinity(0))
    lines, worse = [], []
    for shape in (shape for shape in SHAPES if given.shapes in shape.name):
        cell = Cell(shape.name, shape.connections, server=shape.server)
        with rivals.serve(cell, core) as (port, _):
            pairs = [[counted(valgrind, build, shape, port, core) for build in builds] for _ in range(given.runs)]
        medians = [statistics.median(column) for column in zip(*pairs, strict=True)]
        line = f"| {shape.name} | {medians[0]:.0f} |"
        if given.old:
            ratios = [mine / theirs for mine, theirs in pairs]
            line += f" {medians[1]:.0f} | {medians[0] / medians[1]:.3f} | {min(ratios):.3f}–{max(ratios):.3f} |"
            worse += [shape.name] if medians[0] > LIMIT * medians[1] else []
        lines.append(line)
        print(line, flush=True)
    heads = ["", "instructions per request", *(["earlier build", "ratio", "in pairs of runs"] if given.old else [])]
    beside = f"; earlier build: {given.old_name or given.old}" if given.old else ""
    table = [f"| {' | '.join(heads)} |", "|-" + "|-:" * (len(heads) - 1) + "|", *lines]
    if given.record:
        splice(ENGINE_PAGE, "instructions", "\n".join([f"{circumstances()}{beside}.", "", *table]))
    print(*(f"worse: {name}" for name in worse), sep="\n")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
