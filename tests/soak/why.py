"""Does `dragstrip diff --why` name the planted function? Real repositories of four runtimes, really raced.

    python tests/soak/why.py planted --runs 8        # functions of 10 and 5 % of the CPU time, runtimes in turn
    python tests/soak/why.py same --runs 8           # the same server twice: any difference is a false alarm
    python tests/soak/why.py all --minutes 60        # what these still lack; then the table of docs/evidence/why.md
    python tests/soak/why.py --record                # the table of docs/evidence/why.md, from the runs so far

Both functions are planted in the same revision. What a call of them costs is measured apart, by a loop in the same
program, before each run. Each run is a line of docs/calibration/why.jsonl as soon as it has ended, so a sitting may be
cut off.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import race_lines
from evidence_parts import GOES_ON
from pages import splice
from revisions import ROOT, dragstrip

sys.path.insert(0, str(ROOT / "tests"))

from repositories import Made

LINES, PAGE = ROOT / "docs" / "calibration" / "why.jsonl", ROOT / "docs" / "evidence" / "why.md"
SERVERS = Path(__file__).with_name("why_servers")

#: How many runs ``all`` wants of each runtime.
PLAN = {"planted": 2, "same": 1}

#: The planted functions' shares of the CPU time per response.
SHARES = {"planted": 0.10, "second": 0.05}

#: Loops by which a call's cost is measured before the loops of a share are known.
TRIAL = 1000

CALL = "planted(LOOPS)"


def python() -> str:
    """A Python of 3.12 or later, which names its functions: $PYTHON, or the newest; its own program, not a shim.

    Raises:
        SystemExit: there is none.
    """
    ask = "import sys; print(sys.executable if sys.version_info >= (3, 12) else '')"
    for name in (os.environ.get("PYTHON", ""), "python3.14", "python3.13", "python3.12", "python3"):
        if found := shutil.which(name):
            said = subprocess.run([found, "-c", ask], capture_output=True, text=True, check=False).stdout.strip()
            if said:
                return said
    raise SystemExit("the Python server needs a Python of 3.12 or later: PYTHON=/path/to/python3.12")


KINDS = {
    "c": ("server.c", "cc -O2 -o .server server.c", "./.server"),
    "go": ("server.go", "go build -o .server server.go", "./.server"),
    "node": ("server.js", "", "node server.js"),
    "python": ("server.py", "", "{python} server.py"),
}


def command_of(kind: str) -> str:
    """The command that starts the server, without its port."""
    command = KINDS[kind][2]
    return command.format(python=python()) if "{python}" in command else command


def source_of(kind: str, loops: Mapping[str, int]) -> dict[str, str]:
    """The server's file by its name. It calls the functions that have loops.

    The second function is a copy of the first with another constant, so that no compiler merges them.
    """
    name = KINDS[kind][0]
    text = (SERVERS / name).read_text()
    first = re.search(r"(?ms)^(?:__attr\S+ void|//go:noinline\nfunc|function|def) planted.*?(?:^}\n|\n\n)", text)
    if first is None:
        raise SystemExit(f"{name} has no function planted")
    second = first[0].replace("planted", "second").replace("31", "63")
    calls = "; ".join(f"{function}({count})" for function, count in loops.items())
    text = text.replace(first[0], f"{first[0]}\n{second}").replace(CALL, calls or ("pass" if kind == "python" else ""))
    return {name.replace(".", "_"): text}


def repository(folder: Path, kind: str, costs: Sequence[Mapping[str, int]]) -> Made:
    """A repository with a commit for each of these numbers of loops."""
    build = KINDS[kind][1]
    project = f'[build]\ncommand = "{build}"\n' if build else ""
    project += f'[serve]\ncommand = "{command_of(kind)} {{port}}"\n[race]\nworkloads = ["/users/1"]\n'
    made = Made(folder)
    for number, loops in enumerate(costs):
        made.commit(f"commit {number}", dragstrip_toml=project, note_txt=f"{number}\n", **source_of(kind, loops))
    return made


@contextmanager
def program(kind: str, folder: Path) -> Iterator[list[str]]:
    """The words that start the server without its port."""
    name, build, _ = KINDS[kind]
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(next(iter(source_of(kind, {}).values())))
    if build:
        subprocess.run(["sh", "-c", build], cwd=folder, check=True)
    yield [word if word != "./.server" else str(folder / ".server") for word in command_of(kind).split()]


def call_us(kind: str, loops: int, folder: Path) -> float:
    """CPU µs of a call with these loops: the median of five programs."""
    with program(kind, folder) as words:
        measured = [
            float(subprocess.check_output([*words, "time", str(loops)], cwd=folder, text=True)) for _ in range(5)
        ]
    return median(measured)


def response_us(kind: str, folder: Path) -> float:
    """CPU µs of a response without the function."""
    with program(kind, folder) as words:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        running = subprocess.Popen([*words, str(port)], cwd=folder)
        try:
            time.sleep(1.0)
            load = [str(ROOT / ".venv" / "bin" / "dragstrip"), "load", f"http://127.0.0.1:{port}/users/1", "-c", "32"]
            subprocess.run([*load, "-d", "2s", "-q"], check=True, capture_output=True)
            begun_ns, out = cpu_ns(running.pid), folder / "load.json"
            subprocess.run([*load, "-d", "4s", "-q", "--json", str(out)], check=True, capture_output=True)
            return (cpu_ns(running.pid) - begun_ns) / 1e3 / int(json.loads(out.read_text())["requests"])
        finally:
            running.kill()
            running.wait()


def cpu_ns(pid: int) -> int:
    """CPU time of all threads so far."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            total += int((task / "schedstat").read_text().split()[0])
    return total


def loops_of(kind: str, folder: Path) -> dict[str, int]:
    """How many loops cost the share of each function."""
    of_one = TRIAL * response_us(kind, folder) / call_us(kind, TRIAL, folder)
    return {function: max(round(share * of_one), 1) for function, share in SHARES.items()}


def run(kind: str, loops: Mapping[str, int], folder: Path) -> dict[str, Any]:
    """One diff with its causes: what was found, and how near the planted functions' numbers are to their costs."""
    made, store, out = (
        repository(folder / "repository", kind, [{}, loops]),
        folder / "races.sqlite",
        folder / "out.json",
    )
    truth_us = {function: call_us(kind, count, folder / "program") for function, count in loops.items()}
    done, seconds = dragstrip(
        made, store, "diff", "HEAD~1", "HEAD", "--anyway", "--rounds", "2", "--metric", "cpu", "--why",
        "--json", str(out),
    )  # fmt: skip
    if done.returncode not in (0, 1, 3):
        raise SystemExit(done.stdout + done.stderr)
    why = json.loads(out.read_text())["columns"][0]["why"]
    differences = {
        kind_of: {row.get("name") or row["counter"]: row["contenders"][1]["difference"] for row in why[kind_of]}
        for kind_of in ("counters", "calls", "layers", "functions")
    }
    differing = {
        kind_of: [name for name, difference in rows.items() if difference and difference["significant"]]
        for kind_of, rows in differences.items()
    }
    found_us = {
        function: difference["estimate"]
        for name, difference in differences["functions"].items()
        for function in loops
        if name in differing["functions"] and name.removeprefix("main.").startswith(f"{function} [")
    }
    cpu = next(row for row in why["counters"] if row["counter"] == "cpu_ns")["contenders"]
    return {
        "differing": differing,
        "found_us": found_us,
        "truth_us": truth_us,
        "base_us": cpu[0]["estimate"],
        "unexplained_share": why["explained"][0]["unexplained_share"] if why["explained"] else None,
        "launches": [entry["launches"] for entry in why["contenders"]],
        "rooted": [entry["rooted_share"] for entry in why["contenders"]],
        "seconds": seconds,
    }


def commit() -> str:
    """The commit of the code that measures."""
    words = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def table() -> list[str]:
    """The runs so far, by runtime."""
    runs = race_lines.read(LINES)
    lines = [
        "| server | runs | 10 % named | its µs over the true µs | within 20 % | 5 % named | its µs over the true µs "
        "| the same server twice: runs | with a false alarm | launches of a revision, fewest |",
        "|-|-:|-:|-:|-:|-:|-:|-:|-:|-:|",
    ]
    for kind in KINDS:
        planted, same = ([run for run in runs if (run["part"], run["server"]) == (part, kind)] for part in PLAN)
        cells = [kind, len(planted)]
        for function in SHARES:
            near = [run["found_us"][function] / run["truth_us"][function] for run in planted
                    if function in run["found_us"]]  # fmt: skip
            cells += [len(near), f"{min(near):.2f} to {max(near):.2f}" if near else "–"]
            if function == "planted":
                cells.append(sum(abs(ratio - 1) <= 0.2 for ratio in near))
        alarms = sum(any(run["differing"].values()) for run in same)
        fewest = min((min(run["launches"]) for run in planted + same), default=0)
        lines.append(f"| {' | '.join(map(str, [*cells, len(same), alarms, fewest]))} |")
    return lines


def measure(part: str, kinds: Sequence[str], until: float) -> None:
    """A run of a part for each of these runtimes; each becomes a line."""
    for kind in kinds:
        if time.monotonic() > until:
            raise SystemExit(GOES_ON)
        with tempfile.TemporaryDirectory(prefix="dragstrip-why-") as place:
            loops = loops_of(kind, Path(place) / "trial") if part == "planted" else {}
            result = run(kind, loops, Path(place))
        line = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit(), "part": part,
            "server": kind, "loops": loops, **result,
        }  # fmt: skip
        sys.stdout.write(f"{race_lines.append(LINES, line)}\n")
        sys.stdout.flush()


def lacking() -> list[tuple[str, str]]:
    """Part and runtime of the runs that ``PLAN`` still lacks, in the order in which they are run."""
    runs = race_lines.read(LINES)
    left = {}
    for part, wanted in PLAN.items():
        for kind in KINDS:
            had = sum((line["part"], line["server"]) == (part, kind) for line in runs)
            left[part, kind] = max(wanted - had, 0)
    order = []
    while any(left.values()):
        for key, count in left.items():
            if count:
                order.append(key)
                left[key] -= 1
    return order


def main() -> None:
    """Runs parts, or writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=[*PLAN, "all"])
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--minutes", type=float, default=60.0, help="`all` begins no run after this many minutes")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    if options.part == "all":
        for part, kind in lacking():
            measure(part, [kind], until)
        options.record = True
    elif options.part:
        measure(options.part, [options.kinds[at % len(options.kinds)] for at in range(options.runs)], float("inf"))
    text = "\n".join(table())
    sys.stdout.write(text + "\n")
    if options.record:
        splice(PAGE, "planted", text)


if __name__ == "__main__":
    main()
