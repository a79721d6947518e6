"""CPU time by layer for every contender that runs here, at hello and json: the tables of docs/why.md.

    python benchmarks/why_layers.py --minutes 20           # launches that are missing; then the tables
    python benchmarks/why_layers.py --record               # the tables, from the launches so far

Each launch is an extra launch of ``dragstrip why``, with the load of a race of 32 connections, and a line of
docs/calibration/why-layers.jsonl as soon as it has ended. Exit code 75 until every contender has one at each workload.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import race_lines
from evidence_parts import GOES_ON
from measuring_code import CAUSES
from pages import ROOT, circumstances, splice

from dragstrip import contender
from dragstrip.analysis.layers import by_layer, sampled_share, unnamed_share
from dragstrip.contender import Missing
from dragstrip.errors import DragstripError
from dragstrip.profile.launch import ProfilePlan, profile_launch
from dragstrip.racing.setup import LOCAL
from dragstrip.record import Counter, Load, Profile
from dragstrip.report.race.layer_file import layers
from dragstrip.workload import load as load_workload

LINES, PAGE = ROOT / "docs" / "calibration" / "why-layers.jsonl", ROOT / "docs" / "why.md"
WORKLOADS = ("hello", "json")

#: Blocks as in a race.
LEAD_NS, COUNTED_NS = 10_000_000, 50_000_000

#: Columns of the tables: the head, and the layers that it sums up.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "send": ("kernel: send",),
    "receive": ("kernel: receive",),
    "wait": ("kernel: wait for events", "kernel: io_uring"),
    "locks": ("kernel: locks between threads",),
    "connections": ("kernel: connections",),
    "other kernel": ("kernel: other",),
    "C library": ("C library",),
    "compiled": ("compiled by the runtime",),
    "GC": ("garbage collection",),
    "JSON": ("JSON",),
    "own code": ("own code and its libraries",),
}


def facts(profile: Profile, workload: str) -> dict[str, Any]:
    """What the tables need of a launch."""
    counts = profile.counts
    parts = by_layer([profile], layers())
    cpu_ns = counts.get(Counter.CPU_NS)
    us = {name: float(parts.cpu_us(name).mean) for name in parts.names} if parts else {}
    user = counts.get(Counter.USER_SAMPLES)
    return {
        "contender": profile.contender,
        "workload": workload,
        "cpu_us": cpu_ns / 1e3 / profile.answered if cpu_ns else None,
        "layers": {name or "none": round(value, 4) for name, value in us.items()},
        "samples": counts.get(Counter.SAMPLES),
        "sampled": sampled_share([profile]),
        "rooted": counts[Counter.ROOTED_SAMPLES] / user if user else None,
        "unnamed": unnamed_share([profile]),
        "missing": dict(profile.missing),
    }


def known() -> dict[tuple[str, str], dict[str, Any]]:
    """The last launch of each contender at each workload."""
    return {(one["workload"], one["contender"]): one for one in race_lines.read(LINES, CAUSES)}


def ready(workload: str) -> Iterator[contender.Entry]:
    """Contenders that can run here and serve the workload."""
    served = load_workload(workload)
    for name in contender.names():
        entry = contender.entry(name)
        if entry.serves(workload) and not isinstance(LOCAL.check(entry), Missing):
            yield replace(entry.for_workload(served.served_as, asks_database=False), profiled=True)


def measure(until_s: float) -> bool:
    """Launches what is missing; False if time was too short."""
    lanes = LOCAL.lanes(None, None)
    load = Load(connections=32, threads=len(lanes.engine), keepalive=True, timeout_ns=2_000_000_000)
    for name in WORKLOADS:
        workload, done = load_workload(name), {at for at, one in known().items() if one["layers"]}
        waiting = [entry for entry in ready(name) if (name, entry.name) not in done]
        if not waiting:
            continue
        with LOCAL.race_setup(workload, load, lanes, 1, "auto", "auto", "poll") as setup:
            for at, entry in enumerate(waiting):
                if time.monotonic() > until_s:
                    return False
                try:
                    LOCAL.build(entry)
                    setup.stand_by([entry])
                    plan = ProfilePlan(entry=entry, index=at, column=0, lead_ns=LEAD_NS, counted_ns=COUNTED_NS)
                    line = race_lines.append(LINES, facts(profile_launch(setup, plan), name), CAUSES)
                except DragstripError as error:
                    print(f"{entry.name} at {name}: {error}")
                    continue
                print(f"{name:6} {entry.name:24} {line['cpu_us'] or 0:8.2f} µs, sampled {line['sampled'] or 0:.3f}")
    return True


def table(workload: str) -> list[str]:
    """A workload's table, the thriftiest contender first."""
    found = [one for (at, _), one in known().items() if at == workload and one["cpu_us"]]
    lines = [
        f"| {workload} | CPU | {' | '.join(COLUMNS)} | no layer | sampled | reach root | no name |",
        f"|-{'|-:' * (len(COLUMNS) + 5)}|",
    ]
    for one in sorted(found, key=lambda one: float(one["cpu_us"])):
        parts = [sum(one["layers"].get(name, 0.0) for name in names) for names in COLUMNS.values()]
        rest = sum(one["layers"].values()) - sum(parts)
        cells = [_us(part) for part in (*parts, rest)] if one["layers"] else ["?"] * (len(parts) + 1)
        shares = [f"{one[key]:.0%}" if one[key] is not None else "?" for key in ("sampled", "rooted", "unnamed")]
        lines.append(f"| {one['contender']} | {_us(one['cpu_us'])} | {' | '.join([*cells, *shares])} |")
    return lines


def _us(value: float) -> str:
    return "" if round(value, 2) == 0 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def text() -> str:
    """The section: what was measured, and both tables."""
    found = list(known().values())
    with_stacks = [one for one in found if one["layers"]]
    apart = max(abs(sum(one["layers"].values()) / one["cpu_us"] - 1) for one in with_stacks)
    sampled = sorted(one["sampled"] for one in with_stacks)
    return (
        f"One launch of each contender at each workload, a shared machine ({circumstances()}). CPU time per response "
        f"and its layers in µs. Layers add up to the CPU time within {apart:.1%}. The samples cover "
        f"{sampled[len(sampled) // 2]:.1%} of the CPU time that the kernel counted (median; {sampled[0]:.1%} to "
        f"{sampled[-1]:.1%}).\n\n" + "\n\n".join("\n".join(table(name)) for name in WORKLOADS)
    )


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=0.0, help="for all launches together")
    parser.add_argument("--record", action="store_true", help="write the tables into docs/why.md")
    wanted = parser.parse_args()
    complete = measure(time.monotonic() + 60 * wanted.minutes) if wanted.minutes else True
    if wanted.record or complete:
        splice(PAGE, "why-layers", text())
    return 0 if complete else GOES_ON


if __name__ == "__main__":
    sys.exit(main())
