"""What a script costs the load generator per request, beside none and beside wrk with the same script.

``python benchmarks/scripts.py [-c 100] [--seconds 3] [--rounds 5] [--record]``: all take turns in each round, generator
and server on cores of their own; ratios are medians of ratios within rounds. CPU is the generator's, per answer: the
engine's own account, and of wrk the whole process's. Exit code 1 where a script that is proved to repeat itself costs
more than 1.05 of none.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "benchmarks"))

from pages import circumstances, splice  # noqa: E402

PAGE = ROOT / "docs" / "evidence" / "engine.md"
MOST = 1.05

#: The same bytes as without a script, so that only the script differs.
SAME = 'wrk.headers["User-Agent"] = "dragstrip" wrk.headers["Accept"] = "*/*"\n'

SCRIPTS = {
    "values in the wrk table": SAME,
    "a constant request()": SAME + "function init() bytes = wrk.format() end function request() return bytes end\n",
    "a request() that counts": SAME
    + 'local n = 0 function request() n = n + 1 return wrk.format("GET", "/" .. n) end\n',
    "response() with a status alone": SAME
    + "bad = 0 function response(status) if status > 399 then bad = bad + 1 end end",
}
FIXED = ("values in the wrk table", "a constant request()")


@contextmanager
def server(core: int) -> Iterator[int]:
    """The engine's minimal server in a process of its own; yields its port."""
    code = (
        "import sys; from dragstrip._engine import ReferenceServer; "
        f"server = ReferenceServer([{core}]); print(server.port, flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", code]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def environment() -> dict[str, str]:
    """This checkout's package, for programs of our own."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def ours(url: str, words: argparse.Namespace, script: Path | None) -> float:
    """The engine's CPU time per request, µs."""
    told = [sys.executable, "-m", "dragstrip", "load", url, "-t", "1", "-c", str(words.connections), "--json", "-"]
    told += ["-d", f"{words.seconds}s", *(["-s", str(script)] if script else [])]
    done = subprocess.run(told, capture_output=True, text=True, check=True, env=environment(), preexec_fn=pinned(words))
    return float(json.loads(done.stdout)["engine"]["cpu_us_per_request"])


def wrk(url: str, words: argparse.Namespace, script: Path | None) -> float:
    """wrk's CPU time per request, µs, as the kernel tells it when it has ended."""
    told = ["wrk", "-t1", f"-c{words.connections}", f"-d{max(int(words.seconds), 1)}s"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    told += [*(["-s", str(script)] if script else []), url]
    done = subprocess.run(told, capture_output=True, text=True, check=True, preexec_fn=pinned(words))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = re.search(r"(\d+) requests in", done.stdout)
    spent_us = 1e6 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return spent_us / int(found[1]) if found else float("nan")


def pinned(words: argparse.Namespace) -> Callable[[], None]:
    """Has a program run on the generator's core."""
    return lambda: os.sched_setaffinity(0, {words.core})


def main() -> int:
    """Runs all in turn and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-c", "--connections", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--core", type=int, default=0, help="the generator's")
    parser.add_argument("--server-core", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="write into docs/evidence/engine.md")
    words = parser.parse_args()
    runs: dict[str, list[float]] = {}
    rivals: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, server(words.server_core) as port:
        url = f"http://127.0.0.1:{port}/"
        files: dict[str, Path | None] = {"no script": None}
        for number, (name, text) in enumerate(SCRIPTS.items()):
            files[name] = script = Path(folder) / f"{number}.lua"
            script.write_text(text)
        for _ in range(words.rounds):
            for name, file in files.items():
                runs.setdefault(name, []).append(ours(url, words, file))
                if shutil.which("wrk"):
                    rivals.setdefault(name, []).append(wrk(url, words, file))
    lines = [
        f"{words.connections} connections, the engine's minimal server, {words.rounds} × {words.seconds:g} s, medians.",
        "",
        "| CPU per request | µs | over no script | in rounds | wrk's µs |",
        "|-|-:|-:|-:|-:|",
    ]
    missed = []
    for name, spent in runs.items():
        ratios = sorted(one / none for one, none in zip(spent, runs["no script"], strict=True))
        theirs = f"{median(rivals[name]):.2f}" if name in rivals else "–"
        told = f"{median(ratios):.2f} | {ratios[0]:.2f}–{ratios[-1]:.2f}"
        lines.append(f"| {name} | {median(spent):.2f} | {told} | {theirs} |")
        if name in FIXED and median(ratios) > MOST:
            missed.append(f"{name} costs {median(ratios):.3f} of no script; at most {MOST}")
    lines += (
        ["", *(f"**Missed**: {line}." for line in missed)] if missed else ["", "Goal of 1.05 for the first two: met."]
    )
    print("\n".join(lines))
    if words.record:
        load = f"load average {os.getloadavg()[0]:.0f}"
        splice(PAGE, "scripts", f"{circumstances()}, {load}; " + "\n".join(lines))
    return 1 if missed and not words.record else 0


if __name__ == "__main__":
    sys.exit(main())
