"""After how much lead-in is a contender at full speed? What `[warm_up] lead_ms` of its definition may say.

    python benchmarks/lead_in.py nginx-return go-native --seconds 60

Starts each contender twice on one core, as a race of two does: while one is loaded, the other is idle and its caches go
cold. Blocks with lead-ins of 2, 4 and 10 ms, in turns, are compared with blocks after 40 ms of load, which are their
neighbours: the log ratio's median and its 95 % interval. A shorter lead-in than the usual 10 ms may be declared where
less than 1 % is lost by the whole of that interval.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "benchmarks"))

from calibration_page import quantile_with_ends  # noqa: E402

from dragstrip.contender import entrants  # noqa: E402
from dragstrip.racing.qualification import qualify_all, set_up  # noqa: E402
from dragstrip.racing.request import Request, lanes_of, load_of  # noqa: E402
from dragstrip.racing.schedule import COUNTED_LEADS  # noqa: E402
from dragstrip.racing.setup import block_plan  # noqa: E402
from dragstrip.racing.warm_up import warm_up  # noqa: E402
from dragstrip.report.race.live import Progress  # noqa: E402
from dragstrip.workload import load  # noqa: E402

LEADS_MS, TIMES = (2, 4, 10), 3
LONG_NS = (40_000_000, 10_000_000)


def measure(word: str, seconds: float) -> dict[int, list[float]]:
    """Log ratios of rates, short blocks over long ones, by lead-in in ms."""
    entries = entrants((f"one={word}", f"two={word}"))
    request = Request(entries=tuple(entries), workload=load("hello"))
    lanes = lanes_of(request)
    found: dict[int, list[float]] = {lead_ms: [] for lead_ms in LEADS_MS}
    with (
        Progress(Console(), quiet=True) as progress,
        set_up(request, load_of(request, lanes), lanes, 1, progress) as (setup, states),
    ):
        ready = qualify_all(setup, request.entries, states, progress).ready
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
    given = wanted.parse_args()
    for word in given.contenders:
        for lead_ms, ratios in measure(word, given.seconds).items():
            print(f"{word}: lead-in {lead_ms:2} ms: {effect(ratios)}, {len(ratios)} comparisons", flush=True)


if __name__ == "__main__":
    main()
