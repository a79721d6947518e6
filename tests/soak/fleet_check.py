"""Races over several machines against the truth: a planted 10 % must be found, the same server twice not told apart.

    python tests/soak/fleet_check.py [--races 10] [--budget 30] [--write]

One servers' machine and two generators, each a network namespace of this machine with an sshd, a clock and a cgroup of
its own (``tests/fleets.py``); wants root. Every race appends a line to ``docs/calibration/fleet.jsonl``, also one that
failed, so that a run that was cut off goes on; lines of an earlier method or release don't count.
``--write`` puts the table into ``docs/evidence/fleet.md``.

What such races say of speed means nothing: all machines take the same cores. What is looked at is whether the
verdict is the truth's.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import pages
import race_lines
from pages import ROOT

sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "src"))

import fleets

PAGE = ROOT / "docs" / "evidence" / "fleet.md"
LINES = ROOT / "docs" / "calibration" / "fleet.jsonl"
CONTENDERS = ROOT / "benchmarks" / "contenders"

#: Where cargo puts the server with the planted fault: cargo build --release -p dragstrip-engine --example planted.
PLANTED = ROOT / "target" / "release" / "examples" / "planted"


@dataclass(frozen=True)
class Kind:
    """One kind of race, and the verdict on its first contender that is the truth's."""

    name: str
    contenders: tuple[str, str]
    right: frozenset[str]


KINDS = (
    Kind("planted 10 %", ("base=planted", "slow=planted:burn=0.10"), frozenset({"faster"})),
    Kind("the same server twice", ("base=planted", "again=planted"), frozenset({"same", "undecided"})),
)


def race(machines: fleets.Machines, fleet: Path, kind: Kind, budget_s: float) -> dict[str, Any]:
    """One race; what came of it, as one line."""
    out = machines.folder / "race.json"
    out.unlink(missing_ok=True)
    began, load = time.monotonic(), os.getloadavg()[0]
    done = machines.client(
        "race", *kind.contenders, "--contenders", str(CONTENDERS), "--fleet", str(fleet), "--budget", f"{budget_s:g}s",
        "--json", str(out), "--quiet", timeout=20 * budget_s + 300,
    )  # fmt: skip
    line = {"kind": kind.name, "budget_s": budget_s, "load": round(load, 1), "took_s": round(time.monotonic() - began)}
    if not out.exists():
        return line | {"failed": (done.stdout + done.stderr)[-500:]}
    told = json.loads(out.read_text())
    pair = next((one for one in told["pairs"] if one["metric"] == told["columns"][0]["metric"]), None)
    if pair is None:
        return line | {"failed": f"no pair: {told['finished']}"}
    if pair["a"] != "base":  # the pair in the other order
        turned = {"faster": "slower", "slower": "faster"}
        ends = {name: 1 / pair[of] if pair[of] else None for name, of in (("low", "high"), ("high", "low"))}
        pair |= {"verdict": turned.get(pair["verdict"], pair["verdict"]), "ratio": 1 / pair["ratio"], **ends}
    fields = {name: pair[name] for name in ("verdict", "ratio", "low", "high", "rounds")}
    return line | fields | {"method": told["method"]["version"], "metric": pair["metric"], "finished": told["finished"]}


def table(lines: Sequence[dict[str, Any]]) -> str:
    """What came of all races, with when and on what."""
    rows = ["| race | races | right | wrong | no verdict | ratios | rounds |", "|-|-:|-:|-:|-:|-|-|"]
    for kind in KINDS:
        mine = [one for one in lines if one["kind"] == kind.name]
        told = [one for one in mine if "verdict" in one]
        right = sum(one["verdict"] in kind.right for one in told)
        ratios = sorted(one["ratio"] for one in told if one["ratio"] is not None)
        wrong = sum(one["verdict"] in {"faster", "slower"} - kind.right for one in told)
        between = f"{ratios[0]:.3f} to {ratios[-1]:.3f}" if ratios else ""
        rounds = sorted(one["rounds"] for one in told)
        counted = f"{rounds[0]} to {rounds[-1]}" if rounds else ""
        rest = len(mine) - right - wrong
        rows.append(f"| {kind.name} | {len(mine)} | {right} | {wrong} | {rest} | {between} | {counted} |")
    budgets = sorted({one["budget_s"] for one in lines})
    head = (
        f"Three namespaces on one machine, {', '.join(f'{one:g}' for one in budgets)} s a race: the ratios mean "
        "nothing by themselves, since all machines take the same two cores. "
    )
    return f"{head}Measured: {pages.circumstances()}.\n\n" + "\n".join(rows)


def main() -> None:
    """Runs what is missing."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--races", type=int, default=10, help="of each kind, those on the disk among them")
    arguments.add_argument("--budget", type=float, default=30.0, help="seconds for the rounds of one race")
    arguments.add_argument("--planted", type=Path, default=PLANTED, help="the server with the planted fault")
    arguments.add_argument("--write", action="store_true", help="the table into docs/evidence/fleet.md")
    given = arguments.parse_args()
    if why := fleets.why_not():
        sys.exit(f"fleet_check: {why}")
    if not given.planted.exists():
        sys.exit(f"{given.planted} is missing: cargo build --release -p dragstrip-engine --example planted")
    with fleets.Machines() as machines:
        fleet = machines.fleet(path=str(given.planted.parent))
        for _ in range(given.races):
            for kind in KINDS:
                if sum(one["kind"] == kind.name for one in race_lines.read(LINES)) < given.races:
                    line = race_lines.append(LINES, race(machines, fleet, kind, given.budget))
                    sys.stdout.write(json.dumps(line) + "\n")
                    sys.stdout.flush()
    if given.write:
        pages.splice(PAGE, "planted", table(race_lines.read(LINES)))


if __name__ == "__main__":
    main()
