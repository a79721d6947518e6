"""Is `dragstrip diff` right, and does `bisect` find the commit? Real repositories with a planted commit, really raced.

    python benchmarks/revisions.py same --runs 80            # the same commit twice: calls of a difference are wrong
    python benchmarks/revisions.py same --runs 20 --disturb  # the same beside a co-tenant of 20 %
    python benchmarks/revisions.py planted --runs 20         # a commit that costs 5 %: found, and within what time
    python benchmarks/revisions.py bisect --runs 10          # twelve commits, one of which costs 5 %
    python benchmarks/revisions.py gate --runs 40        # --fail-if slower:3% with commits that cost 0, 2, 4 and 5 %
    python benchmarks/revisions.py all --minutes 30          # what these still lack; then the table
    python benchmarks/revisions.py --record                  # the table of evidence/revisions.md, from the runs so far

Servers are one in Go and one in Node, in turn. How much work costs 5 % is measured first, by a race against much more
of it. Each run is a line of docs/calibration/revisions.jsonl as soon as it has ended, so a sitting may be cut off. Only
runs of today's method and release count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import race_lines
from evidence_parts import GOES_ON
from pages import splice

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from repositories import Made  # noqa: E402

LINES, PAGE = ROOT / "docs" / "calibration" / "revisions.jsonl", ROOT / "docs" / "evidence" / "revisions.md"
PLANTED = 0.05

#: Part, whether beside a co-tenant, and how many runs ``all`` wants.
PLAN = (("same", False, 8), ("same", True, 2), ("planted", False, 4), ("gate", False, 8), ("bisect", False, 2))

#: A gate, the costs of the commits that it has to judge, and the budget of each diff.
GATE, GATED, GATE_BUDGET = "slower:3%", (0.0, 0.02, 0.04, 0.05), "45s"

#: Runs of a part in turn, before the next part has its turn.
IN_TURN = 4

#: The same server twice is raced until its budget ends; the rate of wrong calls is the same for every budget.
SAME_BUDGET = "30s"

GO = """\
package main

import (
	"flag"
	"fmt"
	"net/http"
)

var kept int

func work() {
	sum := kept
	for i := 0; i < LOOPS; i++ {
		sum = sum*31 ^ i
	}
	kept = sum
}

func main() {
	port := flag.Int("port", 8080, "")
	flag.Parse()
	http.HandleFunc("/users/1", func(w http.ResponseWriter, r *http.Request) {
		work()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":1}`)
	})
	http.ListenAndServe(fmt.Sprintf("127.0.0.1:%d", *port), nil)
}
"""
NODE = """\
const http = require("http");
let kept = 0;
function work() {
  let sum = kept;
  for (let i = 0; i < LOOPS; i++) sum = (Math.imul(sum, 31) ^ i) | 0;
  kept = sum;
}
http.createServer((request, response) => {
  work();
  response.writeHead(200, { "Content-Type": "application/json", "Content-Length": 8 });
  response.end('{"id":1}');
}).listen(Number(process.argv[2]), "127.0.0.1");
"""
PROJECT = {
    "go": '[build]\ncommand = "go build -o .server ."\n[serve]\ncommand = "./.server -port {port}"\n',
    "node": '[serve]\ncommand = "node server.js {port}"\n',
}
RACE = '[race]\nworkloads = ["/users/1"]\n'


def repository(folder: Path, kind: str, costs: Sequence[int]) -> Made:
    """A repository with a commit for each of these numbers of loops."""
    made = Made(folder)
    source, name = (GO, "main_go") if kind == "go" else (NODE, "server_js")
    more = {"go_mod": "module example.com/server\n\ngo 1.21\n"} if kind == "go" else {}
    for number, loops in enumerate(costs):
        text = source.replace("LOOPS", str(loops)) + f"// commit {number}\n"
        made.commit(f"commit {number}", **{name: text, "dragstrip_toml": PROJECT[kind] + RACE, **more})
    return made


def dragstrip(made: Made, store: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], float]:
    """One command in the repository, and its seconds."""
    begun = time.monotonic()
    env = {**os.environ, "DRAGSTRIP_CACHE": str(store.parent / "cache")}
    command = [str(ROOT / ".venv" / "bin" / "dragstrip"), *words, "-q", "--store", str(store)]
    done = subprocess.run(command, cwd=made.folder, env=env, capture_output=True, text=True, check=False)
    return done, time.monotonic() - begun


def ratio(made: Made, store: Path, *words: str) -> tuple[dict[str, Any], float]:
    """The deciding pair of a diff as HEAD over BASE, and the seconds that the command took."""
    pair, seconds, _ = ruled(made, store, *words)
    return pair, seconds


def ruled(made: Made, store: Path, *words: str) -> tuple[dict[str, Any], float, list[dict[str, Any]]]:
    """The same, and the outcomes of thresholds."""
    out = store.parent / "diff.json"
    done, seconds = dragstrip(made, store, "diff", *words, "--json", str(out))
    if done.returncode not in (0, 1, 3):
        sys.exit(done.stdout + done.stderr)
    race = json.loads(out.read_text())
    first = race["contenders"][0]["name"]
    pair = next(pair for pair in race["pairs"] if pair["metric"] == race["columns"][0]["metric"])
    turned = pair["a"] == first
    values = {name: pair[name] for name in ("ratio", "low", "high")}
    if turned and pair["low"]:
        values = {"ratio": 1 / pair["ratio"], "low": 1 / pair["high"], "high": 1 / pair["low"]}
    opposite = {"faster": "slower", "slower": "faster"}
    verdict = opposite.get(pair["verdict"], pair["verdict"]) if turned else pair["verdict"]
    found = values | {"verdict": verdict, "rounds": pair["rounds"], "metric": pair["metric"]}
    return found, seconds, race.get("rules", [])


def loops_of(kind: str, folder: Path) -> int:
    """How many loops cost ``PLANTED`` of a response: by a race against 20,000 loops."""
    made = repository(folder / f"{kind}-cost", kind, [0, 20_000])
    pair, _ = ratio(made, folder / "cost.sqlite", "HEAD~1", "HEAD", "--metric", "cpu")
    return round(20_000 * PLANTED / (1 / float(pair["ratio"]) - 1))


def run(options: argparse.Namespace, kind: str, loops: int, folder: Path, number: int) -> dict[str, Any]:
    """One run of a part: its line."""
    store = folder / "races.sqlite"
    if options.part == "bisect":
        culprit = 1 + os.urandom(1)[0] % 11
        made = repository(folder / "repository", kind, [0 if number < culprit else loops for number in range(12)])
        done, seconds = dragstrip(made, store, "bisect", "HEAD~11", "HEAD", "--json", str(folder / "search.json"))
        search = json.loads((folder / "search.json").read_text())
        likeliest = max(search["commits"], key=lambda commit: commit["probability"])
        right = done.returncode == 0 and likeliest["subject"] == f"commit {culprit}"
        return {"right": right, "seconds": seconds, "steps": len(search["steps"]), "sure": likeliest["probability"]}
    if options.part == "gate":
        cost = GATED[number % len(GATED)]
        made = repository(folder / "repository", kind, [0, round(loops * cost / PLANTED)])
        gated = ("HEAD~1", "HEAD", "--budget", GATE_BUDGET, "--fail-if", GATE)
        pair, seconds, (rule,) = ruled(made, store, *gated)
        right = rule["outcome"] == ("fails" if cost > 0.03 else "holds")
        return {"right": right, "seconds": seconds, "cost": cost, "outcome": rule["outcome"], **pair}
    costs = [0, loops] if options.part == "planted" else [0]
    made = repository(folder / "repository", kind, costs)
    words = ("HEAD~1", "HEAD") if options.part == "planted" else ("HEAD", "HEAD", "--budget", SAME_BUDGET)
    pair, seconds = ratio(made, store, *words)
    wanted = ("slower",) if options.part == "planted" else ("same", "undecided")
    return {"right": pair["verdict"] in wanted, "seconds": seconds, **pair}


def table() -> list[str]:
    """The runs so far, by part and server."""
    runs = [line for line in race_lines.read(LINES) if line["part"] != "gate"]
    lines = ["| part | server | runs | right | seconds, median | seconds, longest |", "|-|-|-:|-:|-:|-:|"]
    names = {"same": "the same commit twice", "planted": "a commit that costs 5 %", "bisect": "bisect over 12 commits"}
    keys = ("part", "disturbed", "server")
    for key in dict.fromkeys(sorted(tuple(line[name] for name in keys) for line in runs)):
        part, disturbed, server = key
        mine = [line for line in runs if tuple(line[name] for name in keys) == key]
        times = sorted(line["seconds"] for line in mine)
        right = sum(line["right"] for line in mine)
        name = f"{names[part]}{', beside a co-tenant of 20 %' if disturbed else ''}"
        figures = f"{len(mine)} | {right} | {times[len(times) // 2]:.0f} | {times[-1]:.0f}"
        lines.append(f"| {name} | {server} | {figures} |")
    return [*lines, *gates()]


def gates() -> list[str]:
    """The gate's outcomes by the commit's cost."""
    runs = [line for line in race_lines.read(LINES) if line["part"] == "gate"]
    head = f"`--fail-if {GATE} --budget {GATE_BUDGET}`, a commit that costs"
    lines = ["", f"| {head} | server | runs | fails | open | holds | rounds, median | seconds, median |"]
    lines.append("|-|-|-:|-:|-:|-:|-:|-:|")
    for cost, server in sorted({(line["cost"], line["server"]) for line in runs}):
        mine = [line for line in runs if (line["cost"], line["server"]) == (cost, server)]
        outcomes = [sum(line["outcome"] == outcome for line in mine) for outcome in ("fails", "open", "holds")]
        middles = [sorted(line[name] for line in mine)[len(mine) // 2] for name in ("rounds", "seconds")]
        counts = " | ".join(f"{number:.0f}" for number in (len(mine), *outcomes, *middles))
        lines.append(f"| {100 * cost:g} % | {server} | {counts} |")
    return lines if runs else []


def measure(options: argparse.Namespace, costs: dict[str, int]) -> None:
    """The runs of one part; each becomes a line.

    Args:
        costs: the loops of each server that cost ``PLANTED``, as far as they are measured; more are added.
    """
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="revisions-") as place:
        folder = Path(place)
        kinds = ("go",) if options.part == "gate" else ("go", "node")
        if options.part != "same":
            costs.update({kind: loops_of(kind, folder) for kind in kinds if kind not in costs})
        loops = {kind: 0 if options.part == "same" else costs[kind] for kind in kinds}
        for number in range(options.runs):
            kind = kinds[number % len(kinds)]
            here = folder / f"run-{number}"
            here.mkdir()
            disturbing = (
                subprocess.Popen(
                    [sys.executable, str(ROOT / "benchmarks" / "disturb.py"), "--duty", "20", "--seconds", "900"],
                    stdout=subprocess.DEVNULL,
                )
                if options.disturb
                else None
            )
            try:
                result = run(options, kind, loops[kind], here, number)
            finally:
                if disturbing is not None:
                    disturbing.terminate()
                    disturbing.wait()
            line = {
                "at": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit,
                "part": options.part, "server": kind, "disturbed": options.disturb, "loops": loops[kind], **result,
            }  # fmt: skip
            sys.stdout.write(f"{race_lines.append(LINES, line)}\n")
            sys.stdout.flush()


def lacking() -> list[tuple[str, bool, int]]:
    """Part, whether beside a co-tenant, and the runs that ``PLAN`` still lacks."""
    runs = race_lines.read(LINES)
    had = {
        (part, disturbed): sum((line["part"], line["disturbed"]) == (part, disturbed) for line in runs)
        for part, disturbed, _ in PLAN
    }
    return [(part, disturbed, wanted - had[part, disturbed]) for part, disturbed, wanted in PLAN
            if wanted > had[part, disturbed]]  # fmt: skip


def everything(options: argparse.Namespace) -> None:
    """All parts in turn until they are complete, or until the minutes are over.

    Raises:
        SystemExit: with ``GOES_ON`` if parts still lack runs.
    """
    until = time.monotonic() + 60 * options.minutes
    costs: dict[str, int] = {}
    while left := lacking():
        for options.part, options.disturb, runs in left:
            if time.monotonic() > until:
                sys.exit(GOES_ON)
            options.runs = min(runs, IN_TURN)
            measure(options, costs)


def main() -> None:
    """Runs parts, or writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["same", "planted", "gate", "bisect", "all"])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30.0, help="`all` begins no run after so many minutes")
    parser.add_argument("--disturb", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if options.part == "all":
        everything(options)
        options.record = True
    elif options.part:
        measure(options, {})
    text = "\n".join(table())
    sys.stdout.write(text + "\n")
    if options.record:
        splice(PAGE, "revisions", text)


if __name__ == "__main__":
    main()
