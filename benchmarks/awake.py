"""Does a server pay for waking its client? Injected costs, cores awake or not, engines that sleep or poll.

    python benchmarks/awake.py --seconds 240             # into docs/CALIBRATION.md, between its own marks

Four servers of `planted.rs` that differ in what is burnt for each request alone: 0 (twice), 30 and 100 µs of its
thread's CPU time. In each round all are launched afresh, and each is loaded in turn in every circumstance, in random
order. So what other programs do meets all circumstances alike, and ratios between them stand on a busy machine, too.
Whether a core that has nothing else to do sleeps shows only where it has nothing else to do: best on an idle machine.
`--first` (root) has engine and servers go before other programs, which then fill what the cores have left.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median, stdev

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "benchmarks"))

from pages import circumstances, splice  # noqa: E402

from dragstrip import machine  # noqa: E402
from dragstrip._engine import BlockPlan, Engine, EngineError, Exchange, SessionPlan, Tally, Target  # noqa: E402
from dragstrip.analysis.interval import quantile  # noqa: E402
from dragstrip.process import keep_awake  # noqa: E402
from dragstrip.process.ports import free_port  # noqa: E402

PLANTED = ROOT / "target" / "release" / "examples" / "planted"
PAGE = ROOT / "docs" / "CALIBRATION.md"
#: By name: µs of CPU time that each request is to cost more.
BURNS = {"base": 0, "twin": 0, "more": 30, "most": 100}
#: How the engine waits, and whether cores are kept awake; the last is what all are held against.
CELLS = (("sleep", False), ("sleep", True), ("poll", False), ("poll", True))
HELLO = Exchange(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, b"hello world\n")
CONNECTIONS, LEAD_NS, COUNTED_NS, TIMES = 32, 2_000_000, 12_000_000, 6
#: An interval over fewer says nothing.
MIN_ROUNDS = 5
#: A block in which engine or server waited for its core for so large a share of the time was disturbed.
WAITED = 0.05


@dataclass
class Sum:
    """What one server did in one circumstance of one round."""

    requests: int = 0
    counted_ns: int = 0
    answered: int = 0
    cpu_ns: int = 0
    runs: int = 0
    steal_ns: int = 0
    duration_ns: int = 0
    blocks: int = 0
    disturbed: int = 0

    def add(self, tally: Tally) -> None:
        """One more block."""
        self.requests += tally.requests
        self.counted_ns += tally.counted_ns
        self.answered += tally.answered
        self.cpu_ns += tally.server_cpu_ns or 0
        self.runs += tally.server_runs or 0
        self.steal_ns += tally.steal_ns
        self.duration_ns += tally.duration_ns
        self.blocks += 1
        waits_ns = (tally.engine_wait_ns, tally.server_wait_ns or 0)
        self.disturbed += any(wait_ns > WAITED * tally.duration_ns for wait_ns in waits_ns)

    @property
    def cpu_us(self) -> float:
        """Per request."""
        return self.cpu_ns / max(self.answered, 1) / 1000

    @property
    def rate(self) -> float:
        """Requests a second."""
        return max(self.requests, 1) * 1e9 / max(self.counted_ns, 1)


Round = dict[tuple[str, tuple[str, bool]], Sum]


@dataclass
class Bench:
    """What all rounds share."""

    engines: dict[str, Engine]
    core: int
    cores: list[int]
    kept: keep_awake.Awake
    first: bool
    rng: random.Random = field(default_factory=lambda: random.Random(1))

    @contextlib.contextmanager
    def servers(self) -> Iterator[dict[str, tuple[int, int]]]:
        """Port and process of each, launched afresh."""
        up: dict[str, tuple[int, int]] = {}
        processes = []
        try:
            for name, burn_us in BURNS.items():
                port = free_port()
                words = ["taskset", "-c", str(self.core), str(PLANTED), str(port), "--burn-us", str(burn_us)]
                processes.append(subprocess.Popen(words, start_new_session=True))
                if self.first:
                    go_first(processes[-1].pid)
                up[name] = port, processes[-1].pid
            yield up
        finally:
            for process in processes:
                process.kill()
                process.wait()

    def round(self) -> Round:
        """Every server in every circumstance, in random order."""
        found: Round = {(name, cell): Sum() for name in BURNS for cell in CELLS}
        with self.servers() as up, contextlib.ExitStack() as open_things:
            sessions = {}
            for wait, engine in self.engines.items():
                for name, (port, pid) in up.items():
                    session = sessions[wait, name] = opened(engine, port)
                    open_things.callback(engine.close, session)
                    thread = f"/proc/{pid}/task/{pid}/schedstat"
                    engine.watch(session, cgroup_cpu_stat=None, schedstats=[thread])
            for _ in range(TIMES):
                for cell in self.rng.sample(CELLS, len(CELLS)):
                    wait, on = cell
                    names = self.rng.sample(list(BURNS), len(BURNS))
                    blocks = [BlockPlan(sessions[wait, name], lead_ns=LEAD_NS, counted_ns=COUNTED_NS) for name in names]
                    with self.kept.held() if on else contextlib.nullcontext():
                        tallies = self.engines[wait].run(blocks, steal_cores=self.cores)
                    for name, tally in zip(names, tallies, strict=True):
                        found[name, cell].add(tally)
        return found


def opened(engine: Engine, port: int) -> int:
    """A session with a server that may not be up yet."""
    until = time.monotonic() + 5
    while True:
        try:
            return engine.open(
                SessionPlan(
                    Target("127.0.0.1", port),
                    [HELLO],
                    connections=CONNECTIONS,
                    keepalive=True,
                    timeout_ns=2_000_000_000,
                )
            )
        except EngineError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def go_first(pid: int | str) -> None:
    """Its session is scheduled before others' (sched(7), autogroup)."""
    Path(f"/proc/{pid}/autogroup").write_text("-20")


def span(values: Sequence[float]) -> str:
    """A ratio's mean and 95 % interval over rounds, from its logarithms, as a change in per cent."""
    middle = fmean(values)
    half = quantile(len(values), 0.05) * stdev(values) / math.sqrt(len(values))
    low, mid, high = (100 * math.expm1(at) for at in (middle - half, middle, middle + half))
    return f"{mid:+.1f} % ({low:+.1f} to {high:+.1f})"


def rows(rounds: Sequence[Round]) -> Iterator[str]:
    """The tables' lines."""
    yield "| engine | cores | steal | scatter, rate | by CPU | disturbed | CPU µs/request at 0, 30, 100 µs more |"
    yield "|-|-|-|-|-|-|-|"
    for cell in CELLS:
        mine = [{name: one[name, cell] for name in BURNS} for one in rounds]
        every = [one for each in mine for one in each.values()]
        steal = sum(one.steal_ns for one in every) / sum(one.duration_ns for one in every) / 2
        disturbed = sum(one.disturbed for one in every) / sum(one.blocks for one in every)
        rate = stdev(math.log(each["base"].rate / each["twin"].rate) for each in mine)
        cpu = stdev(math.log(each["base"].cpu_us / each["twin"].cpu_us) for each in mine)
        costs = ", ".join(f"{median(each[name].cpu_us for each in mine):.2f}" for name in ("base", "more", "most"))
        yield (
            f"| {cell[0]}s | {'kept awake' if cell[1] else 'as they are'} | {100 * steal:.2f} % | {100 * rate:.1f} % | "
            f"{100 * cpu:.1f} % | {disturbed:.0%} | {costs} |"
        )
    yield ""
    yield "| against polling, kept awake | CPU/request, 0 µs more | 30 µs more | 100 µs more | rate, 0 over 100 |"
    yield "|-|-|-|-|-|"
    for cell in CELLS[:-1]:
        told = [
            span([math.log(one[name, cell].cpu_us / one[name, CELLS[-1]].cpu_us) for one in rounds])
            for name in ("base", "more", "most")
        ]
        ratios = [
            math.log(one["base", cell].rate / one["most", cell].rate)
            - math.log(one["base", CELLS[-1]].rate / one["most", CELLS[-1]].rate)
            for one in rounds
        ]
        yield f"| {cell[0]}s, {'kept awake' if cell[1] else 'as they are'} | {' | '.join(told)} | {span(ratios)} |"


def page(rounds: Sequence[Round], kept: keep_awake.Awake, load: tuple[float, ...], *, first: bool) -> str:
    """The part of the page."""
    lines = [
        f"{circumstances()}; load average {load[0]:.1f} at the start, {os.getloadavg()[0]:.1f} at the end"
        f"{'; engine and servers before other programs (`--first`)' if first else ''}. Awake: {kept.text}. "
        f"{len(rounds)} rounds of fresh servers. Written by `benchmarks/awake.py`.",
        "",
        *rows(rounds),
        "",
        tilt(rounds),
    ]
    return "\n".join(lines)


def tilt(rounds: Sequence[Round]) -> str:
    """By how much each way's charge depends on how slow the server is: the slow one's change over the fast one's."""
    told = []
    for cell in CELLS[:-1]:
        change = [
            math.log(one["most", cell].cpu_us / one["most", CELLS[-1]].cpu_us)
            - math.log(one["base", cell].cpu_us / one["base", CELLS[-1]].cpu_us)
            for one in rounds
        ]
        told.append(f"{cell[0]}s, {'kept awake' if cell[1] else 'as they are'}: {span(change)}")
    return (
        "Bias of CPU per request, the server with 100 µs more against the one without, relative to polling with "
        f"cores kept awake: {'; '.join(told)}."
    )


def main() -> None:
    """The command line."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--seconds", type=float, default=240.0, help="in all (default 240)")
    wanted.add_argument("--first", action="store_true", help="before other programs (root)")
    wanted.add_argument("--dry", action="store_true", help="print the part of the page instead of writing it")
    given = wanted.parse_args()
    if not PLANTED.exists():
        sys.exit(f"{PLANTED} is missing: cargo build --release -p dragstrip-engine --example planted")
    lanes, load = machine.lanes(None, None), os.getloadavg()
    text = page(*measure(lanes, given.seconds, first=given.first), load, first=given.first)
    if given.dry:
        sys.stdout.write(f"{text}\n")
    else:
        splice(PAGE, "awake", text)


def measure(lanes: machine.Lanes, seconds: float, *, first: bool) -> tuple[list[Round], keep_awake.Awake]:
    """All rounds, and how cores were kept awake."""
    own = Path("/proc/self/autogroup")
    before = own.read_text().split()[-1] if first else ""
    if first:
        go_first("self")
    engines = {wait: Engine([lanes.engine[0]], wait=wait) for wait in ("sleep", "poll")}
    rounds: list[Round] = []
    until = time.monotonic() + seconds
    cores = [lanes.engine[0], lanes.server[0]]
    try:
        with keep_awake.hold(cores) as kept:
            bench = Bench(engines, lanes.server[0], cores, kept, first)
            while time.monotonic() < until or len(rounds) < MIN_ROUNDS:
                rounds.append(bench.round())
    finally:
        if first:
            own.write_text(before)  # the terminal's other programs are in the same group
    return rounds, kept


if __name__ == "__main__":
    main()
