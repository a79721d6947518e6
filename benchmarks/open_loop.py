"""How late requests leave and what that costs, per pace and back end, side by side with wrk2 where it is here.

``python benchmarks/open_loop.py [--rate 20000] [-c 100] [--seconds 5] [--rounds 5] [--record]``: generators take turns
on one core, a minimal server (the engine's example ``planted``) on another. Lateness is when a request left less when
it was meant to, by the engine's own record; wrk2 keeps none, so its latency from the planned departure stands beside.
CPU is the generator's, per answer; medians over the rounds. Exit code 1 where a goal is missed: precise p50 at most
30 µs and p99 at most 100 µs; balanced p99 at most 250 µs, at no more CPU than wrk2 (where it is found).
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "benchmarks"))

import rivals  # noqa: E402
from pages import ENGINE_PAGE, circumstances, splice  # noqa: E402

PLANTED = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "examples" / "planted"
EXCHANGE = (b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n", 200, b"hello world\n")
PACES, BACKENDS = ("precise", "balanced", "thrifty"), ("uring", "epoll")
UNITS_US = {"us": 1.0, "ms": 1e3, "s": 1e6, "m": 60e6}


@dataclass(frozen=True)
class Run:
    """One generator's run, µs; lateness is None where the generator keeps no record of it."""

    cpu_us: float
    reached: float
    late: tuple[float, float, float] | None
    latency: tuple[float, float]


@contextmanager
def server(core: int) -> Iterator[int]:
    """A minimal server on one core; yields its port."""
    build = ["cargo", "build", "--release", "--quiet", "--package", "dragstrip-engine", "--example", "planted"]
    if shutil.which("cargo") and subprocess.run(build, cwd=ROOT, check=False).returncode:
        raise SystemExit("the example `planted` does not build; see cargo's message above")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    process = subprocess.Popen([PLANTED, str(port)], preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    try:
        for _ in range(500):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.01)
        yield port
    finally:
        process.kill()
        process.wait()


def ours(io: str, pace: str, port: int, words: argparse.Namespace) -> Run:
    """The engine's own run: half a second of lead-in, then the counted part."""
    from dragstrip._engine import BlockPlan, Engine, Exchange, OpenLoop, RateStep, SessionPlan, Target

    lead_ns, counted_ns = 500_000_000, int(words.seconds * 1e9)
    engine = Engine([words.core], io=io)
    try:
        session = engine.open(
            SessionPlan(
                Target("127.0.0.1", port),
                [Exchange(*EXCHANGE)],
                connections=words.connections,
                keepalive=True,
                timeout_ns=5_000_000_000,
            )
        )
        steps = [RateStep(from_per_s=words.rate, to_per_s=words.rate, until_ns=lead_ns + counted_ns)]
        open_loop = OpenLoop(steps, precision=pace, seed=1)
        (tally,) = engine.run([BlockPlan(session, lead_ns=lead_ns, counted_ns=counted_ns, open_loop=open_loop)])
    finally:
        engine.shutdown()
    return Run(
        cpu_us=tally.engine_cpu_ns / max(tally.requests, 1) / 1000,
        reached=(tally.departed or 0) / max(tally.offered or 0, 1),
        late=((tally.lag_p50_ns or 0) / 1000, (tally.lag_p99_ns or 0) / 1000, (tally.lag_max_ns or 0) / 1000),
        latency=(tally.p50_ns / 1000, tally.p99_ns / 1000),
    )


def wrk2(command: str, port: int, words: argparse.Namespace) -> Run:
    """wrk2's run, its CPU time as the kernel tells it when it has ended; its first seconds calibrate."""
    seconds = max(int(words.seconds), 1)
    told = [command, "-t1", f"-c{words.connections}", f"-d{seconds}s", f"-R{words.rate}", "--latency"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*told, f"http://127.0.0.1:{port}/"],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {words.core}),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent_us = 1e6 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    found = re.search(r"(\d+) requests in", done.stdout)
    answered = int(found[1]) if found else 1
    quantiles = dict(re.findall(r"^\s*(\d+\.\d+)%\s+([\d.]+[a-z]+)$", done.stdout, re.MULTILINE))
    p50, p99 = (_us(quantiles.get(name, "0us")) for name in ("50.000", "99.000"))
    return Run(spent_us / answered, answered / (words.rate * seconds), None, (p50, p99))


def _us(text: str) -> float:
    match = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text)
    return float(match[1]) * UNITS_US[match[2]] if match else 0.0


def row(name: str, runs: Sequence[Run]) -> str:
    """Medians over the rounds."""
    late = [run.late for run in runs if run.late]
    told = [f"{median(values):.0f}" for values in zip(*late, strict=True)] if late else ["–", "–", "–"]
    latency = [f"{median(values):.0f}" for values in zip(*(run.latency for run in runs), strict=True)]
    cpu, reached = median(run.cpu_us for run in runs), median(run.reached for run in runs)
    return f"| {name} | {' | '.join(told)} | {' | '.join(latency)} | {cpu:.2f} | {reached:.2%} |"


def missed(runs: dict[str, list[Run]]) -> list[str]:
    """Goals that were not reached by the default back end, in words."""

    def late(name: str, at: int) -> float:
        return median(run.late[at] for run in runs[name] if run.late)

    found = []
    for name, at, most in (("precise uring", 0, 30), ("precise uring", 1, 100), ("balanced uring", 1, 250)):
        if name in runs and late(name, at) > most:
            found.append(f"{name}: lateness {'p50' if at == 0 else 'p99'} {late(name, at):.0f} µs, at most {most}")
    if "wrk2" in runs and "balanced uring" in runs:
        mine, theirs = (median(run.cpu_us for run in runs[name]) for name in ("balanced uring", "wrk2"))
        if mine > theirs:
            found.append(f"balanced uring: {mine:.2f} µs CPU per request, wrk2 {theirs:.2f}")
    return found


def main() -> int:
    """Runs all in turn and prints one table."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rate", type=int, default=20_000)
    words.add_argument("-c", "--connections", type=int, default=100)
    words.add_argument("--seconds", type=float, default=5.0)
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--core", type=int, default=0, help="the generator's")
    words.add_argument("--server-core", type=int, default=1)
    words.add_argument("--io", choices=BACKENDS, default=None, help="one back end only")
    words.add_argument("--record", action="store_true", help="write into docs/evidence/engine.md")
    told = words.parse_args()
    rival = rivals.found().get("wrk2")
    backends = (told.io,) if told.io else BACKENDS
    runs: dict[str, list[Run]] = {}
    with server(told.server_core) as port:
        for _ in range(told.rounds):
            for pace in PACES:
                for io in backends:
                    runs.setdefault(f"{pace} {io}", []).append(ours(io, pace, port, told))
            if rival:
                runs.setdefault("wrk2", []).append(wrk2(rival, port, told))
    lines = [
        f"{told.rate:,}/s over {told.connections} connections, {told.rounds} × {told.seconds:g} s, medians, µs.",
        "",
        "| generator | late p50 | p99 | max | latency p50 | p99 | CPU/request | reached |",
        "|-|-:|-:|-:|-:|-:|-:|-:|",
        *(row(name, some) for name, some in runs.items()),
        "",
    ]
    lines += [] if rival else ["wrk2 is not on PATH.", ""]
    goals = missed(runs)
    lines += [f"**Missed**: {line}." for line in goals] or ["All goals met."]
    print("\n".join(lines))
    if told.record:
        splice(ENGINE_PAGE, "open-loop", f"{circumstances()}; " + "\n".join(lines))
    # A missed goal is evidence too, and then stands in the page.
    return 1 if goals and not told.record else 0


if __name__ == "__main__":
    sys.exit(main())
