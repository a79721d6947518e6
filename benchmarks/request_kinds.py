"""What a POST and a mix of requests cost the engine beside hello, and hello beside another build: ``make bench``.

Generator and server are pinned to one core. In each round every case is run in turn, in another order each time;
compared are the medians of the ratios of CPU time per request within rounds. ``--old PATH`` is another build of
``crates/engine/examples/drive.rs``, with which hello is run, too. Exit code 0, also where a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path

import rivals
from pages import circumstances

#: Beside hello: the words of the engine's driver, and how many times hello's CPU time a request may cost.
CASES = {"hello": (), "POST of 1 KiB": ("--post", "1024"), "mix of four": ("--mix",)}
GOALS = {"POST of 1 KiB": 1.15, "mix of four": 1.15}
OLD = "hello, old build"


def main() -> None:
    """Prints each ratio, and whether its goal is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=2, help="of each run")
    parser.add_argument("--old", type=Path, help="another build of the driver")
    asked = parser.parse_args()
    cell = rivals.Cell("minimal", asked.connections, seconds=asked.seconds)
    core = min(os.sched_getaffinity(0))
    names = [*CASES, *([OLD] if asked.old else [])]
    ran: dict[str, list[float]] = {name: [] for name in names}
    for number in range(asked.rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            with rivals.serve(cell, core) as (port, count):
                command = [*rivals.engine(cell, port, core), *CASES.get(name, ())]
                command[0] = str(asked.old) if name == OLD and asked.old else command[0]
                one = rivals.run(command, core, count, cell.seconds)
            if one.failed or not one.requests:
                raise SystemExit(f"{name}: the run failed: {one}")
            ran[name].append(one.cpu_us / one.requests)
    print(circumstances())
    for name in names:
        ratio = statistics.median(mine / hello for mine, hello in zip(ran[name], ran["hello"], strict=True))
        goal = GOALS.get(name)
        told = f", goal {goal:g}: {'met' if ratio <= goal else 'missed'}" if goal else ""
        print(f"{name}: {statistics.median(ran[name]):.3f} µs CPU a request, {ratio:.3f} of hello{told}")


if __name__ == "__main__":
    main()
