"""After how much load is a contender at full speed? What `[warm_up]` of its definition may say.

    python benchmarks/lead_in.py nginx-return go-native --seconds 60          # lead_ms
    python benchmarks/lead_in.py node --cold --workload json --launches 20    # least_s

For `lead_ms`:


Starts each contender twice on one core, as a race of two does: while one is loaded, the other is idle and its caches go
cold. Blocks with lead-ins of 2, 4 and 10 ms, in turns, are compared with blocks after 40 ms of load, which are their
neighbours: the log ratio's median and its 95 % interval. A shorter lead-in than the usual 10 ms may be declared where
less than 1 % is lost by the whole of that interval.

For `least_s`: loads a fresh launch for 2.5 s without a pause, many times. It prints each tenth of a second's responses
per CPU second, relative to the last second: the mean of the log ratio and twice its standard error. On a busy machine
give it priority over other programs (`nice -n -20`).
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean

import numpy as np
from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "benchmarks"))

from calibration_page import quantile_with_ends  # noqa: E402

from dragstrip.analysis.cpu_shares import speed_of  # noqa: E402
from dragstrip.contender import entrants  # noqa: E402
from dragstrip.racing.qualification import Qualified, qualify_all, set_up  # noqa: E402
from dragstrip.racing.request import Request, lanes_of, load_of  # noqa: E402
from dragstrip.racing.schedule import COUNTED_LEADS  # noqa: E402
from dragstrip.racing.setup import RaceSetup, block_plan  # noqa: E402
from dragstrip.racing.warm_up import warm_up  # noqa: E402
from dragstrip.report.race.live import LiveProgress  # noqa: E402
from dragstrip.workload import load  # noqa: E402

LEADS_MS, TIMES = (2, 4, 10), 3
LONG_NS = (40_000_000, 10_000_000)

#: A cold launch's slices; how many make a tenth of a second, are loaded, are the settled ones at the end, are shown.
SLICE_NS, TENTH, SLICES, SETTLED, SHOWN = 25_000_000, 4, 100, 40, 40


@contextmanager
def two_of(word: str, workload: str) -> Iterator[tuple[RaceSetup, Mapping[str, Qualified]]]:
    """Two contenders that are one server, qualified."""
    request = Request(entries=tuple(entrants((f"one={word}", f"two={word}"))), workload=load(workload))
    lanes = lanes_of(request)
    with (
        LiveProgress(Console(), quiet=True) as progress,
        set_up(request, load_of(request, lanes), lanes, 1, progress) as (setup, states),
    ):
        yield setup, qualify_all(setup, request.entries, states, progress).ready


def cold(word: str, workload: str, launches: int) -> list[tuple[int, float, float]]:
    """By tenths of a second from a launch's first request: ms, the log ratio to its settled speed, two errors."""
    speeds = []
    with two_of(word, workload) as (setup, ready):
        entry = ready["one"].entry
        for _ in range(launches):
            launched = setup.launch(entry)
            try:
                session = setup.connect(launched)
                setup.watch(launched.running, session)
                tallies = setup.engine.run([block_plan(session, counted_ns=SLICE_NS)] * SLICES)
                speeds.append([math.log(max(speed_of(tally), 1e-9)) for tally in tallies])
            finally:
                launched.running.stop()
    logs = np.array(speeds)
    logs -= logs[:, -SETTLED:].mean(axis=1, keepdims=True)
    tenths = logs.reshape(launches, -1, TENTH).mean(axis=2)
    errors = 2 * tenths.std(axis=0, ddof=1) / math.sqrt(launches)
    return [(100 * number, tenths[:, number].mean(), errors[number]) for number in range(SHOWN // TENTH)]


def measure(word: str, seconds: float) -> dict[int, list[float]]:
    """Log ratios of rates, short blocks over long ones, by lead-in in ms."""
    found: dict[int, list[float]] = {lead_ms: [] for lead_ms in LEADS_MS}
    with two_of(word, "hello") as (setup, ready):
        launched = [setup.launch(contender.entry) for contender in ready.values()]
        try:
            for one in launched:
                one.warm_up = warm_up(setup, one, ready[one.name].calibration.p50_ns)
            sessions = [one.connected() for one in launched]
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                for lead_ms, ratios in found.items():
                    lead_ns = 1_000_000 * lead_ms
                    short = [
                        block_plan(session, lead_ns=lead_ns, counted_ns=int(COUNTED_LEADS * lead_ns))
                        for session in sessions
                    ]
                    long = [block_plan(session, lead_ns=LONG_NS[0], counted_ns=LONG_NS[1]) for session in sessions]
                    rates = [
                        math.log(tally.requests / tally.counted_ns) for tally in setup.engine.run(short * TIMES + long)
                    ]
                    ratios += [fmean(rates[side : 2 * TIMES : 2]) - rates[2 * TIMES + side] for side in (0, 1)]
        finally:
            for one in launched:
                one.running.stop()
    return found


def effect(ratios: Sequence[float]) -> str:
    """The median, which the machine's own pauses move little, and its interval by order statistics."""
    middle, low, high = (100 * ratio for ratio in quantile_with_ends(ratios, 0.5))
    return f"{middle:+.2f} % ({low:+.2f} to {high:+.2f})"


def main() -> None:
    """The command line."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("contenders", nargs="+", metavar="CONTENDER")
    wanted.add_argument("--seconds", type=float, default=60.0, help="for each contender (default 60)")
    wanted.add_argument("--cold", action="store_true", help="from the first request of a launch")
    wanted.add_argument("--workload", default="hello", help="of --cold (default hello)")
    wanted.add_argument("--launches", type=int, default=20, help="of --cold (default 20)")
    given = wanted.parse_args()
    for word in given.contenders if given.cold else ():
        print(f"{word} at {given.workload}, {given.launches} launches")
        for start_ms, ratio, two_errors in cold(word, given.workload, given.launches):
            print(f"  {start_ms:4}–{start_ms + 100} ms: {100 * ratio:+7.2f} % ± {100 * two_errors:.2f}", flush=True)
    for word in () if given.cold else given.contenders:
        for lead_ms, ratios in measure(word, given.seconds).items():
            print(f"{word}: lead-in {lead_ms:2} ms: {effect(ratios)}, {len(ratios)} comparisons", flush=True)


if __name__ == "__main__":
    main()
