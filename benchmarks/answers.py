"""Does every race end in an answer, and a right one, on a disturbed machine? Races beside an ordered disturbance.

    python benchmarks/answers.py --minutes 120
    python benchmarks/answers.py --minutes 20 --kinds '^same: node' --each 15
    python benchmarks/answers.py --write

``benchmarks/disturb.py`` makes the disturbance. Every race is a ``dragstrip race`` as a user starts it, and one line
in ``docs/calibration/disturbed.jsonl``, on the disk before the next begins: it may be ended at any moment (Ctrl-C) and
goes on where it was. Kinds and duties take turns at random, so that what the machine does by itself hits all alike.
Long races without an ordered disturbance, the references, stand for the truth where none is planted. ``--write`` puts
the tables into docs/evidence/verdicts.md; ``--list`` tells what there is and what is to come.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "benchmarks"))

import answers_page  # noqa: E402
import calibration  # noqa: E402
import race_lines  # noqa: E402
from disturbed_record import MARK, marked  # noqa: E402
from evidence_parts import GOES_ON  # noqa: E402

from dragstrip.record import METHOD_VERSION  # noqa: E402

DISTURB = ROOT / "benchmarks" / "disturb.py"
Line = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One kind of race.

    Args:
        words: of the command line, behind ``race``; ``{defs}`` is a folder of marked definitions.
        duties: per cent, each a row of its own; 0: nothing is ordered.
        truth: the first one's speed over the second's; None: the race named ``reference: …`` says.
        only: the server whose marked copy alone is hit; "": all cores are, all the time.
        each: races of each duty that are wanted for a release, unless ``--each`` says another number.
    """

    name: str
    words: tuple[str, ...]
    duties: tuple[int, ...]
    budget_s: float
    each: int
    truth: float | None = 1.0
    only: str = ""
    needs: tuple[str, ...] = ()


SERVERS = {"nginx-return": "nginx", "node": "node", "go-native": "go", "tornado": ""}
NGINX_NODE = ("nginx-return", "node")
PLANTED = ("base=planted", "slow=planted:burn=0.10", "--contenders", str(calibration.CONTENDERS))
LINE_UP = ("--line-up", "default")

#: Each kind of load once, before two fast servers.
LOADS = {
    "kept": (),
    "closed": ("--no-keepalive",),
    "HTTP/1.0": ("--http", "1.0"),
    "1 connection": ("-c", "1"),
    "1000 connections": ("-c", "1000"),
    "HTTP/2": ("--http", "2"),
    "TLS": ("--tls",),
    "TLS, closed": ("--tls", "--no-keepalive"),
    "a rate, CPU time": ("--rate", "auto", "--metric", "cpu"),
    "a rate, latency": ("--rate", "auto", "--metric", "latency-p99"),
    "efficiency": ("--efficiency",),
    **{name: ("--workload", name) for name in ("multiply", "json", "post", "static", "delay", "pipelined")},
    **{name: ("--workload", name, "--tls") for name in ("handshakes", "resumptions")},
}  # fmt: skip
FAST, HTTP_2 = ("nginx-lua", "go-native"), ("nginx-return", "nginx-lua")  # Go's own library has HTTP/2 from Go 1.24 on

#: Node takes a second and more to warm up at each launch: in 20 s it has four rounds, and a verdict wants ten.
BUDGETS_S = {"node": 60.0}

KINDS = (
    *(
        Kind(f"same: {name}", (f"a={name}", f"b={name}"), (0, 20, 40), BUDGETS_S.get(name, 20.0), 2,
             needs=(program,) if program else ())
        for name, program in SERVERS.items()
    ),
    Kind("planted 10 %", PLANTED, (20,), 60, 2, truth=1.10),
    Kind("nginx-return against node", NGINX_NODE, (0, 20, 40), 60, 2, None, needs=("nginx", "node")),
    *(
        Kind(f"one-sided: {name}", (f"a={name}", f"b-{name}", "--contenders", "{defs}"), (20, 40),
             BUDGETS_S.get(name, 20.0), 1, only=name, needs=(program,))
        for name, program in (("nginx-return", "nginx"), ("node", "node"))
    ),
    *(
        Kind(f"load: {name}", (*(HTTP_2 if name == "HTTP/2" else FAST), *words), (20,), 60, 1, None,
             needs=("nginx", "go"))
        for name, words in LOADS.items()
    ),
    *(
        Kind(f"same: {name}, nginx-return", ("a=nginx-return", "b=nginx-return", *LOADS[name]), (0,), 20, 4,
             needs=("nginx",))
        for name in ("closed", "pipelined")
    ),
    Kind("line-up", LINE_UP, (0, 20), 90, 1, None),
    Kind("reference: planted 10 %", (*PLANTED, "--rounds", "60"), (0,), 600, 1, truth=1.10),
    Kind("reference: nginx-return against node", (*NGINX_NODE, "--rounds", "40"), (0,), 600, 1, None),
    Kind("reference: line-up", (*LINE_UP, "--rounds", "40"), (0,), 900, 1, None),
)  # fmt: skip


# --- one race ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def disturbance(kind: Kind, duty: int, scratch: Path, seed: int) -> Iterator[Path]:
    """The ordered one, while this lasts; yields the file in which it tells afterwards what it took."""
    took = scratch / "took.json"
    if not duty:
        yield took
        return
    words = ["--duty", str(duty), "--seconds", "3600", "--seed", str(seed), "--json", str(took)]
    words += ["--only-pattern", MARK] if kind.only else []
    with subprocess.Popen([sys.executable, str(DISTURB), *words]) as process:
        try:
            yield took
        finally:
            process.send_signal(signal.SIGTERM)


def race(kind: Kind, duty: int) -> Line:
    """Runs one race of this kind; what came of it, as one JSON-able line."""
    with tempfile.TemporaryDirectory(prefix="dragstrip-answers-") as folder:
        scratch, seed = Path(folder), random.SystemRandom().randrange(1 << 32)
        out = scratch / "race.json"
        words = [word.replace("{defs}", str(marked(kind.only, scratch)) if kind.only else "") for word in kind.words]
        words += ["--budget", f"{kind.budget_s:g}s", "--json", str(out), "-q"]
        words += ["--store", str(scratch / "races.sqlite")]
        began, stolen_before, load = time.monotonic(), calibration.stolen_s(), os.getloadavg()[0]
        with disturbance(kind, duty, scratch, seed) as took:
            exit_code, said = dragstrip(words)
        took_s = time.monotonic() - began
        line: Line = {
            "kind": kind.name,
            "duty": duty,
            "budget_s": kind.budget_s,
            "exit": exit_code,
            "truth": kind.truth,
            "took_s": round(took_s, 2),
            "host": round((calibration.stolen_s() - stolen_before) / (took_s * (os.cpu_count() or 1)), 5),
            "load": round(load, 2),
            "disturb_seed": seed if duty else None,
            "disturber": json.loads(took.read_text())["cores"] if took.exists() else None,
        }
        if not out.exists():
            return line | {"method": METHOD_VERSION, "failed": said[-500:]}
        return line | told_of(kind, json.loads(out.read_text()))


def dragstrip(words: Sequence[str]) -> tuple[int, str]:
    """One race: its exit code and what it said. Where this is ended, it is ended first."""
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    env["PATH"] = f"{calibration.PLANTED.parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "dragstrip", "race", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, start_new_session=True, cwd=ROOT
    ) as process:
        try:
            said, _ = process.communicate(timeout=1800)
        except BaseException:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            raise
        return process.returncode, said


def told_of(kind: Kind, told: dict[str, Any]) -> Line:
    """What a race's JSON says, in short."""
    column = told["columns"][0]
    metric = column["metric"]
    pairs = [short(pair) for pair in told["pairs"] if pair["metric"] == metric]
    line: Line = {
        "race": told["race"],
        "at": told["started"],
        "software": told["software"],
        "method": told["method"]["version"],
        "metric": metric,
        "asked": told["plan"]["metric"],
        "metric_reason": column["metric_reason"],
        "noise": told.get("noise"),
        "more_s": told.get("more_s"),
        "seed": told["seed"],
        "cpu": told["machine"].get("cpu"),
        "kernel": told["machine"].get("kernel"),
        "finished": told["finished"],
        "void": told["void"],
        "headline": told["headline"][:300],
        "rounds": told["rounds"],
        "void_rounds": len(told["void_rounds"]),
        "checks": {check["check"]: check["status"] for check in told["validity"] if check["status"] != "pass"},
        "warnings": [check["detail"][:160] for check in told["validity"] if check["status"] != "pass"],
        "pairs": pairs,
    }
    if len(pairs) == 1:
        other = [short(pair) for pair in told["pairs"] if pair["metric"] != metric]
        line["beside"] = other
        line["wrong"] = is_wrong(pairs[0], kind.truth) and not told["void"]
    return line


def short(pair: dict[str, Any]) -> Line:
    """A pair's fields that are kept."""
    names = (
        "a",
        "b",
        "verdict",
        "ratio",
        "low",
        "high",
        "rounds",
        "spent_s",
        "median_ratio",
        "disturbed",
        "widened",
        "note",
    )
    found = {name: pair.get(name) for name in names if pair.get(name) not in (None, "")}
    found = {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in found.items()}
    return found | {"metric": pair["metric"]}


def is_wrong(pair: Line, truth: float | None) -> bool:
    """Called against the truth: a difference where none is planted, or the wrong side."""
    if truth is None:
        return False
    return pair["verdict"] in ({"faster", "slower"} if truth == 1 else {"slower"} if truth > 1 else {"faster"})


# --- which one next ---------------------------------------------------------------------------------------------


def cells(kinds: Sequence[Kind]) -> list[tuple[Kind, int]]:
    """Every kind at each of its duties."""
    return [(kind, duty) for kind in kinds for duty in kind.duties]


def counted(lines: Sequence[Line]) -> Counter[tuple[str, int]]:
    """Races so far by kind and duty."""
    return Counter((line["kind"], line["duty"]) for line in lines if not line.get("failed"))


def following(kinds: Sequence[Kind], done: Counter[tuple[str, int]], each: int | None) -> tuple[Kind, int] | None:
    """One of those that are furthest behind what is wanted of them, by chance; None where there is enough of all."""

    def part(cell: tuple[Kind, int]) -> float:
        kind, duty = cell
        wanted = kind.each if each is None or kind.name.startswith("reference") else each
        return done[kind.name, duty] / wanted if wanted else 1.0

    behind = min(map(part, cells(kinds)), default=1.0)
    if behind >= 1:
        return None
    return random.SystemRandom().choice([cell for cell in cells(kinds) if part(cell) == behind])


def ready(kinds: Sequence[Kind]) -> list[Kind]:
    """Those that can run here; what is missing is said."""
    found = []
    for kind in kinds:
        missing = [f"{program} is not installed" for program in kind.needs if not shutil.which(program)]
        if "=planted" in " ".join(kind.words) and not calibration.PLANTED.exists():
            missing.append("cargo build --release -p dragstrip-engine --example planted")
        if missing:
            print(f"left out: {kind.name} ({', '.join(missing)})", flush=True)
        else:
            found.append(kind)
    return found


def run(told: argparse.Namespace) -> None:
    """Races until the time is over or there is enough of all, each appended as soon as it is done."""
    kinds = ready([kind for kind in KINDS if re.search(told.kinds, kind.name)])
    until, failed = time.monotonic() + 60 * told.minutes, Counter[tuple[str, int]]()
    while time.monotonic() < until:
        cell = following(kinds, counted(race_lines.read(told.file)) + failed, told.each)
        if cell is None:
            return
        kind, duty = cell
        line = race(kind, duty)
        race_lines.append(told.file, line)
        # A race that does not run at all is not tried for ever.
        failed[kind.name, duty] += bool(line.get("failed"))
        print(f"{time.strftime('%H:%M:%S')} {answers_page.in_words(line)}", flush=True)


def show(lines: Sequence[Line], each: int | None) -> None:
    """Each kind and duty: how many races there are of how many."""
    done = counted(lines)
    for kind, duty in cells(KINDS):
        wanted = kind.each if each is None else each
        print(f"{kind.name:40} {duty:3} %  {done[kind.name, duty]:4} of {wanted}")


def _interrupted(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    """The command line."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--minutes", type=float, default=60.0, help="no race is begun after so long (default 60)")
    wanted.add_argument("--each", type=int, help="races of each kind at each duty, instead of the number it has itself")
    wanted.add_argument(
        "--kinds",
        type=calibration.pattern,
        default="",
        metavar="PATTERN",
        help="only kinds whose name matches: '^same'",
    )
    wanted.add_argument(
        "--until-enough", action="store_true", help=f"exit code {GOES_ON} until there are enough races of all kinds"
    )
    wanted.add_argument("--list", action="store_true", help="what there is, and what is to come")
    wanted.add_argument("--write", action="store_true", help="race nothing, write the page from what there is")
    wanted.add_argument("--file", type=Path, default=ROOT / "docs" / "calibration" / "disturbed.jsonl")
    wanted.add_argument("--page", type=Path, default=ROOT / "docs" / "evidence" / "verdicts.md")
    told = wanted.parse_args()
    if told.list:
        show(race_lines.read(told.file), told.each)
        return
    if not told.write:
        signal.signal(signal.SIGTERM, _interrupted)
        with contextlib.suppress(KeyboardInterrupt):
            run(told)
        kinds = ready([kind for kind in KINDS if re.search(told.kinds, kind.name)])
        if told.until_enough and following(kinds, counted(race_lines.read(told.file)), told.each) is not None:
            sys.exit(GOES_ON)
        return
    lines = race_lines.read(told.file)
    if not lines:
        sys.exit("no race of today's method and release: the page stays as it is")
    answers_page.write_page(lines, told.page.resolve())
    print(f"written: {told.page}")


if __name__ == "__main__":
    main()
