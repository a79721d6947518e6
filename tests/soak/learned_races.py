"""Races of one's own commands with learned JSON: how often A against A is called, and a planted 5 % is found.

``learned_races.py [--races N] [--budget TIME] [--record]`` prints a line for each race and counts at the end;
``--record`` writes the counts into docs/evidence/own-servers.md. The servers are Node's; most of a request's time is a
loop, which is 5 % longer in the slower one. Two fields of the JSON change.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from pages import ROOT, circumstances, splice

PAGE = ROOT / "docs" / "evidence" / "own-servers.md"
#: Turns of the loop for each request, and how many times as long the slower one's is: the rest of a request costs some.
TURNS, LONGER = 300_000, 1.055

SERVER = """\
const turns = Number(process.argv[2]);
require("http").createServer((request, response) => {
  let sum = 0;
  for (let at = 0; at < turns; at++) sum = (sum * 31 + at) | 0;
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify({ id: 42, at: Date.now(), trace: Math.random(), odd: (sum | 1) & 1 }));
}).listen(process.env.PORT, "127.0.0.1");
"""


def main() -> None:
    """Races pairs in turn; exit code 1 if more than one A/A is called, or less than nine of ten planted are found."""
    words = argparse.ArgumentParser()
    words.add_argument("--races", type=int, default=10)
    words.add_argument("--budget", default="", help="of each race; by default the race's own")
    words.add_argument("--record", action="store_true", help="write the counts into docs/evidence/own-servers.md")
    told = words.parse_args()
    called = found = 0
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "server.js").write_text(SERVER)
        for number in range(told.races):
            same, planted = (_raced(folder, told.budget, longer) for longer in (1.0, LONGER))
            called += same in ("a", "b")
            found += planted == "a"
            print(f"{number + 1}: A against A: {same}; 5 % planted: {planted}", flush=True)
    print(summary(told.races, called, found))
    if told.record:
        splice(PAGE, "learned-races", f"{summary(told.races, called, found)} ({circumstances()})")
    sys.exit(called > max(told.races // 10, 1) or found < 0.9 * told.races)


def summary(races: int, called: int, found: int) -> str:
    """The counts in a sentence."""
    return f"Of {races} races each: A against A was called in {called}, a planted 5 % was found in {found}."


def _raced(folder: str, budget: str, longer: float) -> str:
    """Who is faster, "a" or "b"; otherwise the verdict on the pair."""
    serve = [f"a=node server.js {TURNS}", f"b=node server.js {round(TURNS * longer)}"]
    command = [sys.executable, "-m", "dragstrip", "race", "--path", "/", "-c", "8", "-q", "--json", "-"]
    command += ["-d", budget] if budget else []
    command += [word for text in serve for word in ("--serve", text)]
    env = os.environ | {"DRAGSTRIP_STORE": f"{folder}/races.sqlite"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(done.stderr)
    record = json.loads(done.stdout)
    (column,) = record["columns"]
    (pair,) = (pair for pair in record["pairs"] if pair["metric"] == column["metric"])
    better = {"faster": pair["a"], "slower": pair["b"]}
    return str(better.get(pair["verdict"], pair["verdict"]))


if __name__ == "__main__":
    main()
