"""CPU per request of Dragstrip's engine beside wrk's, on the same nginx ``return 200``; standard library only.

Interleaved pairs in alternating order, generator and server pinned apart (or, with ``--one-core``, together,
which is steadier on a shared machine). CPU time is the whole process's, user and system, as the kernel tells its
parent when it ends; requests are those that each generator says were answered. A pair's ratio is below 1
where the engine is cheaper. Exit code 1 where a median ratio is above ``--gate``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
DRIVE = TARGET / "release" / "examples" / "drive"

NGINX = """
worker_processes 1; daemon off; pid {at}/pid; error_log {at}/error.log; worker_rlimit_nofile 16384;
events {{ worker_connections 8192; }}
http {{
    access_log off; keepalive_requests 1000000000; keepalive_timeout 1h; default_type text/plain;
    client_body_temp_path {at}/a; proxy_temp_path {at}/b; fastcgi_temp_path {at}/c; uwsgi_temp_path {at}/d;
    scgi_temp_path {at}/e;
    server {{ listen 127.0.0.1:{port} backlog=8192; location / {{ return 200 "hello world\\n"; }} }}
}}
"""


@dataclass(frozen=True)
class Run:
    """One generator's run."""

    requests: int
    cpu_us: float
    rate_per_s: float

    @property
    def us_per_request(self) -> float:
        """Whole-process CPU time per answered request."""
        return self.cpu_us / self.requests


def preflight() -> list[str]:
    """What is missing, in words; builds the engine's bare driver where cargo is there."""
    missing = [
        f"{command}: not on PATH; {remedy}"
        for command, remedy in (("nginx", "apt-get install nginx-light"), ("wrk", "apt-get install wrk"))
        if shutil.which(command) is None
    ]
    if shutil.which("cargo") is None:
        if not DRIVE.exists():
            missing.append(f"{DRIVE}: not built, and cargo is not on PATH; install Rust 1.88 or later")
    elif not missing:
        build = ["cargo", "build", "--release", "--quiet", "--package", "dragstrip-engine", "--example", "drive"]
        if subprocess.run(build, cwd=ROOT, check=False).returncode != 0:
            missing.append("the engine's example `drive` does not build; see cargo's message above")
    return missing


@contextmanager
def nginx(core: int) -> Iterator[int]:
    """An nginx with one worker on one core; yields its port, ends it and its scratch directory."""
    with tempfile.TemporaryDirectory(prefix="dragstrip-bench-") as scratch:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
        config = Path(scratch) / "nginx.conf"
        config.write_text(NGINX.format(at=scratch, port=port))
        command = ["taskset", "-c", str(core), "nginx", "-p", scratch, "-c", str(config)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            while True:
                if process.poll() is not None:
                    raise SystemExit(f"nginx ended: {(Path(scratch) / 'error.log').read_text().strip()}")
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
            yield port
        finally:
            process.send_signal(signal.SIGQUIT)
            process.wait()


#: How each generator says what it did: requests answered, and per second.
ENGINE_SAYS = (r"answered (\d+)", r"requests/s (\d+)")
WRK_SAYS = (r"(\d+) requests in", r"Requests/sec: +([\d.]+)")


def measure(command: Sequence[str], says: tuple[str, str]) -> Run:
    """Runs a generator to its end; its CPU time from the kernel, its requests from what it prints."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    requests, rate = (re.search(pattern, text) for pattern in says)
    wrong = re.search(r"Non-2xx|Socket errors|failed [1-9]", text)
    if process.returncode != 0 or requests is None or rate is None or wrong:
        raise SystemExit(f"{' '.join(command)} failed ({process.returncode}):\n{text}")
    return Run(int(requests[1]), (usage.ru_utime + usage.ru_stime) * 1e6, float(rate[1]))


def pair(port: int, connections: int, seconds: int, core: int, engine_first: bool) -> tuple[Run, Run]:
    """(engine, wrk), run one after the other in the order asked for."""
    pinned = ["taskset", "-c", str(core)]
    engine = [*pinned, str(DRIVE), "127.0.0.1", str(port), "/", str(connections), str(seconds), str(core)]
    wrk = [*pinned, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", f"http://127.0.0.1:{port}/"]
    if engine_first:
        return measure(engine, ENGINE_SAYS), measure(wrk, WRK_SAYS)
    last = measure(wrk, WRK_SAYS)
    return measure(engine, ENGINE_SAYS), last


def compare(connections: int, pairs: int, seconds: int, server_core: int, core: int) -> float:
    """Prints one table; returns the median of the pairs' ratios."""
    print(f"\n{connections} connections, generator on core {core}, nginx on core {server_core}")
    print(f"{'pair':>4} {'engine µs':>10} {'wrk µs':>10} {'ratio':>7} {'engine req/s':>13} {'wrk req/s':>11}")
    ratios = []
    with nginx(server_core) as port:
        pair(port, connections, 1, core, True)  # both warm, caches and heap; not counted
        for number in range(pairs):
            engine, wrk = pair(port, connections, seconds, core, number % 2 == 0)
            ratios.append(engine.us_per_request / wrk.us_per_request)
            print(
                f"{number + 1:>4} {engine.us_per_request:>10.3f} {wrk.us_per_request:>10.3f} {ratios[-1]:>7.3f}"
                f" {engine.rate_per_s:>13.0f} {wrk.rate_per_s:>11.0f}"
            )
    median = statistics.median(ratios)
    print(f"median of the paired ratios {median:.3f}, range {min(ratios):.3f} to {max(ratios):.3f}")
    return median


def main() -> int:
    """Words in, tables out."""
    cores = sorted(os.sched_getaffinity(0))
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("--connections", type=int, nargs="+", default=[100], metavar="N")
    words.add_argument("--pairs", type=int, default=5)
    words.add_argument("--seconds", type=int, default=2, help="per run; wrk takes whole seconds only")
    words.add_argument("--one-core", action="store_true", help="generator and server share a core")
    words.add_argument("--gate", type=float, default=1.0, help="highest median ratio that passes")
    given = words.parse_args()
    missing = preflight()
    if missing:
        print("engine_vs_wrk: can't run:", *missing, sep="\n  ")
        return 2
    core, server_core = cores[0], cores[0] if given.one_core else cores[-1]
    medians = [compare(count, given.pairs, given.seconds, server_core, core) for count in given.connections]
    passed = max(medians) <= given.gate
    print(f"\n{'PASS' if passed else 'FAIL'}: every median ratio {'is' if passed else 'should be'} <= {given.gate}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
