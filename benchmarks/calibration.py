"""Is the error rate what it says, here? Many short races of known truth, live, each kind in turn, for as long as told.

    python benchmarks/calibration.py --minutes 60
    python benchmarks/calibration.py --minutes 20 --kinds '^same'
    python benchmarks/calibration.py --minutes 60 --every-kind     # short races at every workload and protocol

Unattended, and to be ended at any moment (Ctrl-C): every race is one line in ``docs/calibration/races.jsonl``, on the
disk before the next begins, with its machine and the method's version, and every further run adds to it. A race that
was called wrongly is kept whole (``runs/calibration/wrong/``, for ``dragstrip import``). Afterwards, and by
``--write-only`` at any time, docs/evidence/verdicts.md gets the shares with their 95 % binomial intervals (Clopper &
Pearson 1934), and a chart. Only races of the same method and release count.

Truths: *same* kinds race a server against itself; *planted* ones against itself with a set share more CPU per request,
or with pauses of its own; in *machine pauses* another process takes the servers' core for 30 ms in every second. Five
races of six are of the former.

``--every-kind`` runs the kinds of ``calibration_kinds`` instead: their lines are in ``docs/calibration/kinds.jsonl``,
and their table is a section of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
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
from statistics import median
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "benchmarks"))

import calibration_kinds  # noqa: E402
import race_lines  # noqa: E402
from calibration_page import FORECAST, write_page  # noqa: E402
from evidence_parts import GOES_ON  # noqa: E402
from pages import splice  # noqa: E402

from dragstrip import machine  # noqa: E402
from dragstrip.record import METHOD_VERSION  # noqa: E402

PLANTED = ROOT / "target" / "release" / "examples" / "planted"
CONTENDERS = ROOT / "benchmarks" / "contenders"

#: A process that takes a core for 30 ms in every second, as a machine's own pause; ends with its parent's pipe.
BURST = """
import os, select, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
while not select.select([0], [], [], 0.97)[0]:
    until = time.monotonic() + 0.03
    while time.monotonic() < until:
        pass
"""


@dataclass(frozen=True)
class Kind:
    """One kind of race.

    Args:
        truth: a's speed over b's; 1.0 where nothing is planted.
        right: verdicts of a that are right for the metric that decides.
        share: how many of this kind in a cycle.
        needs: programs without which it is left out.
        bursts: the machine pauses while it runs.
    """

    name: str
    words: tuple[str, ...]
    truth: float
    right: frozenset[str]
    budget_s: int
    share: int = 1
    needs: tuple[str, ...] = ()
    bursts: bool = False


SAME, FASTER = frozenset({"same", "undecided"}), frozenset({"faster"})


def _twice(name: str) -> tuple[str, ...]:
    return (f"one={name}", f"two={name}")


def _planted(fault: str = "") -> tuple[str, ...]:
    return ("base=planted", f"slow=planted{fault}", "--contenders", str(CONTENDERS))


#: The doctor runs again after this many races.
FORECAST_EVERY = 20

#: Races of each kind for a page, per share of the kind in a cycle: about 32 minutes in all.
ENOUGH = 2

#: Budget of a server against itself, s: "same" and an undecided pair are both correct.
SAME_S = 25

KINDS = (
    Kind("same: nginx-return", _twice("nginx-return"), 1.0, SAME, SAME_S, share=20, needs=("nginx",)),
    Kind("planted 10 %", _planted(":burn=0.10"), 1.10, FASTER, 60),
    Kind("same: nginx-lua", _twice("nginx-lua"), 1.0, SAME, SAME_S, share=2, needs=("nginx",)),
    Kind("planted 3 %", _planted(":burn=0.03"), 1.03, FASTER, 60),
    Kind("same: luajit", _twice("luajit"), 1.0, SAME, SAME_S, share=3, needs=("luajit",)),
    Kind("planted 1 %", _planted(":burn=0.01"), 1.01, FASTER, 90),
    Kind("same, by CPU: nginx-return", (*_twice("nginx-return"), "--metric", "cpu"), 1.0, SAME, SAME_S, 8, ("nginx",)),
    Kind("planted 1 %, by CPU", (*_planted(":burn=0.01"), "--metric", "cpu"), 1.01, FASTER, 60),
    Kind("same: node", _twice("node"), 1.0, SAME, SAME_S, share=1, needs=("node",)),
    Kind("planted 3 %: node", calibration_kinds.NODE.arguments(0.03, CONTENDERS), 1.03, FASTER, 90, needs=("node",)),
    # 30 ms in each second: in 970 ms it serves what the other serves in 1000.
    Kind("planted pauses, 3 %", _planted(":pause_ms=30,every_ms=1000"), 1 / 0.97, FASTER, 60),
    Kind("same, machine pauses: planted", _planted(), 1.0, SAME, SAME_S, bursts=True),
)


#: Stands for the folder with the contenders in a kind's words.
FOLDER = Path("{contenders}")

EVERY_KIND = tuple(
    Kind(
        calibration_kinds.name_of(case, planted),
        case.arguments(planted, FOLDER),
        1.0 + planted,
        FASTER if planted else SAME,
        case.budget_s,
        share=case.races(planted),
        needs=case.needs,
    )
    for planted in calibration_kinds.SHARES
    for case in calibration_kinds.CASES
)


def cycle(kinds: Sequence[Kind], done: Counter[str]) -> Iterator[Kind]:
    """Kinds for ever, the one that is furthest behind its share next."""
    while True:
        kind = min(kinds, key=lambda kind: done[kind.name] / kind.share)
        done[kind.name] += 1
        yield kind


@contextlib.contextmanager
def bursts(core: int | None) -> Iterator[None]:
    """Another process takes the core for 30 ms in every second; None for no such process."""
    if core is None:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", BURST, str(core)], stdin=subprocess.PIPE)
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def dragstrip(*words: str, timeout_s: float) -> str:
    """One command and what it said; where this is ended, it is ended first, with its servers."""
    command, env = [sys.executable, "-m", "dragstrip", *words], os.environ | {"PYTHONPATH": str(ROOT / "src")}
    env["PATH"] = f"{PLANTED.parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, start_new_session=True
    ) as process:
        try:
            return process.communicate(timeout=timeout_s)[0]
        except BaseException:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            raise


def stolen_s() -> float:
    """Seconds that the hypervisor took from all of the machine's cores since boot.

    Read here around each race, whatever the race itself reads and says of it: what tells a clean race from one that
    the machine disturbed must not be the checks that are on trial.
    """
    return machine.steal_ns(range(os.cpu_count() or 1)) / 1e9


def race(kind: Kind, folder: Path, core: int) -> dict[str, Any]:
    """Runs one race of this kind; what came of it, as one JSON-able line. ``folder``: for races called wrongly."""
    with tempfile.TemporaryDirectory(prefix="dragstrip-calibration-") as scratch:
        out, store = Path(scratch) / "race.json", Path(scratch) / "races.sqlite"
        given = list(kind.words)
        if str(FOLDER) in given:
            given[given.index(str(FOLDER))] = str(calibration_kinds.prepared(Path(scratch) / "contenders"))
            Path(scratch).chmod(0o755)
        words = ("race", *given, "--budget", f"{kind.budget_s}s", "--json", str(out), "-q", "--store", str(store))
        began, stolen_before = time.monotonic(), stolen_s()
        with bursts(core if kind.bursts else None):
            said = dragstrip(*words, timeout_s=600)
        took_s = time.monotonic() - began
        host = (stolen_s() - stolen_before) / (took_s * (os.cpu_count() or 1))
        if not out.exists():
            return {"kind": kind.name, "failed": said[-500:], "took_s": round(took_s, 2)}
        line = _line(kind, json.loads(out.read_text()), took_s) | {"host": _short(host)}
        if line["wrong"]:
            (folder / "wrong").mkdir(parents=True, exist_ok=True)
            target = folder / "wrong" / f"{line['race']}.sqlite"
            dragstrip("export", line["race"], str(target), "--store", str(store), timeout_s=60)
        return line


def _line(kind: Kind, told: dict[str, Any], took_s: float) -> dict[str, Any]:
    fields = ("ratio", "low", "high", "verdict", "rounds", "spent_s", "median_ratio")
    columns = {
        column["name"]: {
            pair["metric"]: {name: _short(pair[name]) for name in fields}
            for pair in told["pairs"]
            if pair["column"] == column["name"]
        }
        for column in told["columns"]
    }
    column, pairs = told["columns"][0], next(iter(columns.values()))
    decisive = [columns[one["name"]].get(one["metric"], {}).get("verdict") for one in told["columns"]]
    # Called against the truth: a difference where none is planted, or the wrong side.
    wrong_words = {"faster", "slower"} if kind.truth == 1 else {"slower"}
    return {
        "kind": kind.name,
        "truth": kind.truth,
        "race": told["race"],
        "at": told["started"],
        "software": told["software"],
        "method": told["method"]["version"],
        "metric": column["metric"],
        "seed": told["seed"],
        "cpu": told["machine"].get("cpu"),
        "kernel": told["machine"].get("kernel"),
        "finished": told["finished"],
        "void": told["void"],
        "right": not told["void"] and all(verdict in kind.right for verdict in decisive),
        "wrong": not told["void"] and any(verdict in wrong_words for verdict in decisive),
        "pairs": pairs,
        **({"columns": columns} if len(columns) > 1 else {}),
        "pauses": column["pauses"],
        "checks": {check["check"]: check["status"] for check in told["validity"] if check["status"] != "pass"},
        "details": [check["detail"] for check in told["validity"] if check["status"] == "void"],
        "looked_at": [check["check"] for check in told["validity"]],
        "took_s": round(took_s, 2),
        "rounds": told["rounds"],
        "passes": column["plan"]["passes"],
        "block_ms": [column["plan"]["lead_ns"] / 1e6, column["plan"]["counted_ns"] / 1e6],
    }


def _short(value: Any) -> Any:
    """A number in six digits: the file is kept."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def forecast() -> dict[str, Any]:
    """What the doctor foretells of this machine now, as one JSON-able line: no race, but a measure of the races."""
    with tempfile.TemporaryDirectory(prefix="dragstrip-calibration-") as scratch:
        out = Path(scratch) / "doctor.json"
        words = ("doctor", "--seconds", "50ms", "--json", str(out), "--store", str(Path(scratch) / "races.sqlite"))
        said = dragstrip(*words, timeout_s=120)
        if not out.exists():
            return {"kind": FORECAST, "failed": said[-500:]}
        told = json.loads(out.read_text())
    (noise,) = [finding["numbers"] for finding in told["findings"] if finding["name"] == "noise"]
    return {
        "kind": FORECAST,
        "method": METHOD_VERSION,
        "noise": {name: _short(value) for name, value in noise.items()},
    }


def ready(kinds: Sequence[Kind]) -> list[Kind]:
    """Those that can run here; what is missing is said."""
    found = []
    for kind in kinds:
        path = f"{PLANTED.parent}{os.pathsep}{os.environ['PATH']}"
        missing = [program for program in kind.needs if not shutil.which(program, path=path)]
        if missing:
            print(f"left out: {kind.name} ({', '.join(missing)} is not installed)", flush=True)
        else:
            found.append(kind)
    return found


def pattern(text: str) -> re.Pattern[str]:
    """A regular expression of the command line."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from error


def main() -> None:
    """The command line."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument(
        "--minutes", type=float, default=60.0, help="no race is begun that is not over by then (default 60)"
    )
    wanted.add_argument("--races", type=int, default=0, help="at most so many; 0 for as many as the time allows")
    wanted.add_argument(
        "--kinds", type=pattern, default="", metavar="PATTERN", help="only kinds whose name matches: '^same', 'node'"
    )
    wanted.add_argument(
        "--until-enough", action="store_true", help=f"exit code {GOES_ON} until each kind has {ENOUGH} races per share"
    )
    wanted.add_argument("--list", action="store_true", help="the kinds, how many races each has, seconds of one")
    wanted.add_argument("--every-kind", action="store_true", help="short races at every workload and protocol")
    wanted.add_argument(
        "--file", type=Path, help="the races' lines (default docs/calibration/races.jsonl, or kinds.jsonl)"
    )
    wanted.add_argument("--folder", type=Path, default=ROOT / "runs" / "calibration", help="for races called wrongly")
    wanted.add_argument("--page", type=Path, default=ROOT / "docs" / "evidence" / "verdicts.md")
    wanted.add_argument("--write-only", action="store_true", help="race nothing, write the page from what there is")
    told = wanted.parse_args()
    kinds = EVERY_KIND if told.every_kind else KINDS
    told.file = told.file or ROOT / "docs" / "calibration" / ("kinds.jsonl" if told.every_kind else "races.jsonl")
    if told.list:
        show(kinds, race_lines.read(told.file))
        return
    if not told.write_only:
        if not PLANTED.exists() and not told.every_kind:
            sys.exit(f"{PLANTED} is missing: cargo build --release -p dragstrip-engine --example planted")
        signal.signal(signal.SIGTERM, _interrupted)
        with contextlib.suppress(KeyboardInterrupt):
            run(kinds, told)
    needed = 1 if told.every_kind else ENOUGH
    if told.until_enough and not told.write_only and not enough(kinds, race_lines.read(told.file), needed):
        print("not enough races yet; the page stays as it is")
        sys.exit(GOES_ON)
    if told.every_kind:
        splice(told.page.resolve(), "kinds", calibration_kinds.table(race_lines.read(told.file)))
        print(f"written: {told.page}")
        return
    write_page(race_lines.read(told.file), [kind.name for kind in KINDS], told.page.resolve())
    print(f"written: {told.page}")


def _interrupted(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def show(kinds: Sequence[Kind], lines: Sequence[dict[str, Any]]) -> None:
    """Each kind: how many races there are, and what one costs."""
    for kind in kinds:
        mine = [line for line in lines if line["kind"] == kind.name and not line.get("failed")]
        print(f"{kind.name:32} {len(mine):4} races, {usual_s(kind, lines):4.0f} s each, share {kind.share}")


def enough(kinds: Sequence[Kind], lines: Sequence[dict[str, Any]], needed: int) -> bool:
    """Whether every kind that can run here has its races: as many as are needed, per share."""
    done = Counter(line["kind"] for line in lines if not line.get("failed"))
    return all(done[kind.name] >= needed * kind.share for kind in ready(kinds))


def usual_s(kind: Kind, lines: Sequence[dict[str, Any]]) -> float:
    """What a race of this kind takes, from start to end; its budget and a little where there is none yet."""
    took = [line["took_s"] for line in lines if line["kind"] == kind.name and not line.get("failed")]
    return median(took) if took else kind.budget_s + 5.0


def run(chosen: Sequence[Kind], told: argparse.Namespace) -> None:
    """Races until the time is over, each appended as soon as it is done."""
    core = machine.lanes(None, None).server[0]
    kinds = [kind for kind in ready(chosen) if re.search(told.kinds, kind.name)]
    if not kinds:
        sys.exit("no kind of race that can run here has a name that matches --kinds")
    lines = race_lines.read(told.file)
    done = Counter(line["kind"] for line in lines if not line.get("failed"))
    until = time.monotonic() + 60 * told.minutes
    for number, kind in enumerate(cycle(kinds, done)):
        if told.until_enough and enough(kinds, lines, 1 if told.every_kind else ENOUGH):
            return
        if time.monotonic() + usual_s(kind, lines) > until or (told.races and number >= told.races):
            return
        if number % FORECAST_EVERY == 0 and not told.every_kind:
            race_lines.append(told.file, forecast())
        lines.append(race_lines.append(told.file, race(kind, told.folder, core)))
        print(f"{number + 1:4} {kind.name}: {_said(lines[-1])}", flush=True)


def _said(line: dict[str, Any]) -> str:
    if "failed" in line:
        return f"failed: {line['failed']}"
    how = "void" if line["void"] else "WRONG" if line["wrong"] else "right" if line["right"] else "open"
    verdict = line["pairs"].get(line["metric"], {}).get("verdict")
    return f"{how} ({verdict}) after {line['rounds']} rounds, {line['took_s']:.0f} s"


if __name__ == "__main__":
    main()
