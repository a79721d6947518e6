"""Recorded latencies against the truth by kernel stamps at both ends; standard library only, unattended, three minutes.

The server (``crates/engine/examples/proof.rs``) logs when each request reached its kernel and when the answer reached
the client's. Goals: p50 within 5 µs and p99 within 20 µs of the truth, up to 100 connections, coalesced (a slow server,
100 connections) or not; with planted delays and a planted stall every quantile within the histogram's resolution
(a thousandth) plus 100 µs, in closed and open loop. wrk's error stands beside. Minimum, p0.1 and p1, by both back
ends, on idle cores and beside a program that spins on each: never below the truth. ``--record`` writes it into
docs/evidence/engine.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import rivals
from engine import ready
from pages import ENGINE_PAGE, circumstances, splice
from rivals import Cell

P50_GOAL_US, P99_GOAL_US = 5.0, 20.0
PLANTED_GOAL_US, RESOLUTION = 100.0, 0.001

PLAIN = (
    *(Cell(f"{c} connection{'s' * (c > 1)}", c) for c in (1, 10, 100)),
    Cell("100 connections, 50 µs of work (coalesced)", 100, options=("--work-us", "50")),
)
#: In the clear; with several streams a connection, answers that share a read share the last one's stamp.
HTTP2 = (
    *(Cell(f"{c} connection{'s' * (c > 1)}", c, streams=1) for c in (1, 10, 100)),
    Cell("10 connections × 10 streams", 10, streams=10),
)
#: (case, open loop's rate per s or none). A closed loop over n connections meets a stall n times, an open loop for as
#: long as it lasts. The delay's share, 1 in 100, lies between the quantiles 0.985 and 0.995.
DELAY = ("--delay-ms", "10", "--every", "100")
STALL = ("--stall-ms", "1000", "--stall-at", "5000")
PLANTED = (
    (Cell("1 in 100 late by 10 ms, closed loop", 10, options=DELAY), None),
    (Cell("1 in 100 late by 10 ms, open loop at 2,000/s", 50, options=DELAY), 2000),
    (Cell("one stall of 1 s, closed loop", 10, options=STALL), None),
    (Cell("one stall of 1 s, open loop at 5,000/s", 100, options=STALL), 5000),
)
QUANTILES = (0.5, 0.9, 0.985, 0.995, 0.999, 1.0)
LOW = (0.0, 0.001, 0.01)
LOW_CONNECTIONS = (1, 16, 100)
BACKENDS = ("uring", "epoll")
#: The histogram's step for short latencies is 0.512 µs; its middle is shown.
STEP_US = 0.512


@dataclass(frozen=True)
class Told:
    """Latencies in µs by quantile, recorded and true."""

    said: dict[float, float]
    true: dict[float, float]

    def error_us(self, quantile: float) -> float:
        """Recorded less true."""
        return self.said[quantile] - self.true[quantile]


def quantiles(values_us: Sequence[float], wanted: Sequence[float]) -> dict[float, float]:
    """As HdrHistogram has them: the least value that at least this share is not above."""
    ordered = sorted(values_us)
    return {q: ordered[min(max(int(-(-q * len(ordered) // 1)) - 1, 0), len(ordered) - 1)] for q in wanted}


def parse(line: str) -> dict[float, float]:
    """The driver's ``0.5:12.3 …``."""
    return {float(q): float(value) for q, value in re.findall(r"([\d.]+):([\d.]+)", line)}


def measure(
    cell: Cell, cores: tuple[int, int], seconds: int, rate: int | None = None, wrk: bool = False, backend: str = "auto"
) -> Told:
    """One run of the engine (or wrk) against a server of its own."""
    server_core, core = cores
    with tempfile.TemporaryDirectory(prefix="dragstrip-truth-") as scratch:
        log = Path(scratch) / "stamps"
        with rivals.serve(cell, server_core, ("--stamps", str(log))) as (port, _):
            if wrk:
                command = ["wrk", "-t1", f"-c{cell.connections}", f"-d{seconds}s", "--latency"]
                command.append(f"http://127.0.0.1:{port}/")
            else:
                open_loop = ["--rate", str(rate), "--precision", "precise"] if rate else []
                lasting = dataclasses.replace(cell, seconds=seconds)
                command = [*rivals.engine(lasting, port, core, backend), *open_loop]
            done = subprocess.run(["taskset", "-c", str(core), *command], capture_output=True, text=True, check=True)
        pairs = list(struct.iter_unpack("<QQ", log.read_bytes()))
    if not (wrk or cell.streams):
        pairs = pairs[1:]  # the first fetch, from which the driver learns the right answer
    true = quantiles([(left - came) / 1000 for came, left in pairs], (*QUANTILES, *LOW, 0.99))
    if wrk:
        units = {"us": 1.0, "ms": 1e3, "s": 1e6}
        found = re.findall(r"(50|90|99)%\s+([\d.]+)(us|ms|s)", done.stdout)
        return Told({int(q) / 100: float(value) * units[unit] for q, value, unit in found}, true)
    said = parse(re.search(r"latency us: (.*)", done.stdout)[1])  # type: ignore[index]
    if rate:
        true = planned(pairs, rate, seconds, cell)
    return Told(said, true)


def planned(pairs: Sequence[tuple[int, int]], rate: int, seconds: int, cell: Cell) -> dict[float, float]:
    """What an open loop must record, from the planned departure, which the server can't know.

    A planned departure is a multiple of the gap from a begin that the earliest arrivals give: the smallest offset with
    which no request arrives before it was due. Requests are due in the order of their arrival, as long as
    none waits for a free connection out of turn, which the generator never lets happen.
    """
    gap_ns = 1e9 / rate
    ordered = sorted(pairs)
    begin_ns = min(came - number * gap_ns for number, (came, _) in enumerate(ordered))
    latencies = [(left - (begin_ns + number * gap_ns)) / 1000 for number, (_, left) in enumerate(ordered)]
    return quantiles(latencies, QUANTILES)


def plain(cores: tuple[int, int], rounds: int, seconds: int) -> list[str]:
    """The first table."""
    lines = [
        "| | true p50, p99 µs | recorded less true, p50 and p99 | | wrk's less true |",
        "|-|-|-|-|-|",
    ]
    for cell in PLAIN:
        ours = [measure(cell, cores, seconds) for _ in range(rounds)]
        middle = {q: statistics.median(told.error_us(q) for told in ours) for q in (0.5, 0.99)}
        true = {q: statistics.median(told.true[q] for told in ours) for q in (0.5, 0.99)}
        met = abs(middle[0.5]) <= P50_GOAL_US and abs(middle[0.99]) <= P99_GOAL_US
        beside = ""
        if shutil.which("wrk"):
            theirs = [measure(cell, cores, seconds, wrk=True) for _ in range(rounds)]
            errors = [statistics.median(told.error_us(q) for told in theirs) for q in (0.5, 0.99)]
            beside = f"{errors[0]:+,.1f}, {errors[1]:+,.1f}"
        lines.append(
            f"| {cell.name} | {true[0.5]:,.1f}, {true[0.99]:,.1f} | {middle[0.5]:+,.1f}, {middle[0.99]:+,.1f} "
            f"| {'met' if met else '**missed**'} | {beside} |"
        )
        print(lines[-1], flush=True)
    return lines


def http2(cores: tuple[int, int], rounds: int, seconds: int) -> list[str]:
    """The same over HTTP/2; the last case has no goal."""
    lines = ["| HTTP/2 | true p50, p99 µs | recorded less true, p50 and p99 | |", "|-|-|-|-|"]
    for cell in HTTP2:
        told = [measure(cell, cores, seconds) for _ in range(rounds)]
        middle = {q: statistics.median(one.error_us(q) for one in told) for q in (0.5, 0.99)}
        true = {q: statistics.median(one.true[q] for one in told) for q in (0.5, 0.99)}
        met = abs(middle[0.5]) <= P50_GOAL_US and abs(middle[0.99]) <= P99_GOAL_US
        word = "–" if cell.streams > 1 else "met" if met else "**missed**"
        figures = f"{true[0.5]:,.1f}, {true[0.99]:,.1f} | {middle[0.5]:+,.1f}, {middle[0.99]:+,.1f}"
        lines.append(f"| {cell.name} | {figures} | {word} |")
        print(lines[-1], flush=True)
    return lines


def planted(cores: tuple[int, int], seconds: int) -> list[str]:
    """The second table: recorded and true by quantile, and the largest difference."""
    heads = " | ".join(f"p{100 * q:g}" for q in QUANTILES)
    lines = [f"| recorded / true, ms | {heads} | largest excess, µs | |", "|-" * (len(QUANTILES) + 3) + "|"]
    for cell, rate in PLANTED:
        told = measure(cell, cores, seconds, rate)
        # What of a difference the histogram's step doesn't explain.
        excess = max(abs(told.error_us(q)) - RESOLUTION * told.true[q] for q in QUANTILES)
        cells = " | ".join(f"{told.said[q] / 1000:.3f} / {told.true[q] / 1000:.3f}" for q in QUANTILES)
        word = "met" if excess <= PLANTED_GOAL_US else "**missed**"
        lines.append(f"| {cell.name} | {cells} | {max(excess, 0):.0f} | {word} |")
        print(lines[-1], flush=True)
    return lines


@contextmanager
def spinning(cores: Sequence[int]) -> Iterator[None]:
    """A program beside server and generator that keeps these cores busy."""
    loop = [sys.executable, "-c", "while True: pass"]
    spinners = [subprocess.Popen(["taskset", "-c", str(core), *loop]) for core in cores]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


def low_tail(cores: tuple[int, int], rounds: int, seconds: int) -> list[str]:
    """The third table: minimum, p0.1 and p1; what is recorded below the truth in any round misses the goal."""
    lines = [
        "| low tail | true minimum, p0.1, p1 µs | recorded less true | least in a round | |",
        "|-|-|-|-|-|",
    ]
    for busy in (False, True):
        for backend in BACKENDS:
            for connections in LOW_CONNECTIONS:
                cell = Cell(f"{connections} connection{'s' * (connections > 1)}", connections)
                with spinning(sorted(set(cores)) if busy else ()):
                    told = [measure(cell, cores, seconds, backend=backend) for _ in range(rounds)]
                true = ", ".join(f"{statistics.median(one.true[q] for one in told):,.1f}" for q in LOW)
                error = ", ".join(f"{statistics.median(one.error_us(q) for one in told):+,.1f}" for q in LOW)
                least_us = min(one.error_us(q) for one in told for q in LOW)
                word = "met" if least_us >= -STEP_US / 2 else "**missed**"
                name = f"{backend}, {cell.name}, {'busy' if busy else 'idle'} cores"
                lines.append(f"| {name} | {true} | {error} | {least_us:+,.1f} | {word} |")
                print(lines[-1], flush=True)
    return lines


def main() -> int:
    """Words in, three tables out."""
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--seconds", type=int, default=2, help="per run")
    words.add_argument("--record", action="store_true", help="write into docs/evidence/engine.md")
    words.add_argument("--http2", action="store_true", help="HTTP/2 alone, which needs neither wrk nor nginx")
    words.add_argument("--low", action="store_true", help="the low tail alone, which needs neither wrk nor nginx")
    given = words.parse_args()
    if missing := [
        one for one in ready() if not ((given.low or given.http2) and "not on PATH" in one and rivals.DRIVE.exists())
    ]:
        print("latency_truth: can't run:", *missing, sep="\n  ")
        return 2
    rivals.room()
    every = sorted(os.sched_getaffinity(0))
    cores = (every[-1], every[0])
    above = f"{circumstances()}; server and generator on cores of their own."
    if not given.low:
        lines = http2(cores, given.rounds, given.seconds)
        if given.record:
            splice(ENGINE_PAGE, "latency-http2", "\n".join([above, "", *lines]))
    if given.http2:
        return 0
    if not given.low:
        lines = [*plain(cores, given.rounds, given.seconds), "", *planted(cores, given.seconds + 2)]
        if given.record:
            splice(ENGINE_PAGE, "latency", "\n".join([above, "", *lines]))
    lines = low_tail(cores, given.rounds, given.seconds)
    if given.record:
        splice(ENGINE_PAGE, "low-tail", "\n".join([above, "", *lines]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
