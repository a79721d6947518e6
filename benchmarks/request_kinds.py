"""What a POST and a mix of requests cost the engine beside hello: ``make bench``.

Generator and server are pinned to one core. In each round every case is run in turn, in another order each time;
compared are the medians of the ratios of CPU time per request within rounds. ``--record`` writes them into
evidence/engine.md. Where valgrind is here, each case's own instructions a request stand beside that: others don't
change them. Exit code 0, also where a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess

import rivals
from pages import ENGINE_PAGE, circumstances, splice

#: Beside hello: the words of the engine's driver, and how many times hello's CPU time a request may cost.
CASES = {"hello": (), "POST of 1 KiB": ("--post", "1024"), "mix of four": ("--mix",)}
GOALS = {"POST of 1 KiB": 1.15, "mix of four": 1.15}

#: Requests of two runs; their difference is the cost of the additional requests alone.
FEW, MANY = 1_000, 9_000


def instructions(command: list[str], words: tuple[str, ...]) -> float | None:
    """Of the engine's own code for one request, over epoll; None where valgrind is not here.

    With one connection each answer wakes the engine once: the same work for each request, whatever the machine does.
    """
    valgrind = shutil.which("valgrind")
    if not valgrind:
        return None
    counted = []
    for requests in (FEW, MANY):
        # One connection, a time limit that is never reached, the first core, and the maximum of requests.
        drive = [*command[:4], "1", "120", "0", str(requests), "epoll", *words]
        tool = [valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        told = subprocess.run([*tool, *drive], capture_output=True, text=True, check=True)
        found = re.search(r"Collected : (\d+)", told.stderr)
        if not found:
            raise SystemExit(f"valgrind counted nothing: {told.stderr[-500:]}")
        counted.append(int(found[1]))
    return (counted[1] - counted[0]) / (MANY - FEW)


def report(ran: dict[str, list[float]], counted: dict[str, float | None], what: str) -> str:
    """A line on the circumstances, and a table of all cases: CPU time, and how many times hello's."""
    lines = [
        f"{circumstances()}; {what}",
        "",
        "| | CPU µs a request | times hello's | least and most | goal | instructions | times |",
    ]
    lines.append("|-|-:|-:|-:|-|-:|-:|")
    for name, spent in ran.items():
        ratios = sorted(mine / hello for mine, hello in zip(spent, ran["hello"], strict=True))
        ratio, goal = statistics.median(ratios), GOALS.get(name)
        told = f"at most {goal:g}: {'met' if ratio <= goal else 'missed'}" if goal else ""
        beside = f"{ratio:.3f} | {ratios[0]:.3f}–{ratios[-1]:.3f}" if name != "hello" else "1 | "
        own, hello = counted.get(name), counted.get("hello")
        exact = f"{own:.0f} | {own / hello:.3f}" if own and hello else " | "
        lines.append(f"| {name} | {statistics.median(spent):.3f} | {beside} | {told} | {exact} |")
    return "\n".join(lines)


def main() -> None:
    """Prints each ratio, and whether its goal is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=2, help="of each run")
    parser.add_argument("--record", action="store_true", help="write it into docs/evidence/engine.md")
    asked = parser.parse_args()
    cell = rivals.Cell("minimal", asked.connections, seconds=asked.seconds)
    core = min(os.sched_getaffinity(0))
    names = list(CASES)
    ran: dict[str, list[float]] = {name: [] for name in names}
    for number in range(asked.rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            with rivals.serve(cell, core) as (port, count):
                command = [*rivals.engine(cell, port, core), *CASES[name]]
                one = rivals.run(command, core, count, cell.seconds)
            if one.failed or not one.requests:
                raise SystemExit(f"{name}: the run failed: {one}")
            ran[name].append(one.cpu_us / one.requests)
    counted: dict[str, float | None] = {}
    with rivals.serve(cell, core) as (port, _):
        for name in names:
            counted[name] = instructions(rivals.engine(cell, port, core), CASES[name])
    load = f"load average {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    what = f"{load}; {asked.connections} connections, {asked.rounds} rounds of {asked.seconds} s each"
    told = report(ran, counted, what)
    print(told)
    if asked.record:
        splice(ENGINE_PAGE, "kinds", told)


if __name__ == "__main__":
    main()
