"""HTTP/2 beside h2load and beside a raw loop of the same frames; unattended.

Shaped as ``benchmarks/engine.py``: pinned to one core, every case with every generator in turn, ratios within rounds.
The raw loop (``crates/engine/benches/raw.rs`` with STREAMS) sends the same frames and parses, checks and times nothing.
Each run is one line of ``runs/http2-HASH.jsonl``; an interrupted bench goes on. ``--record`` writes goals and table
into evidence/engine.md. Exit code 0, also if a goal is missed. ``--old`` compares with another build, in more cases.
"""

from __future__ import annotations

import hashlib
import statistics
import sys
from dataclasses import dataclass

import engine
import rivals
from engine import ENGINE, RAW, Results, folded, median
from pages import ENGINE_PAGE, circumstances, splice
from rivals import Cell, Command

#: (connections, streams of each).
SHAPES = ((100, 1), (10, 10))
CELLS = (
    *(Cell(f"minimal h2c, {c} × {s}", c, streams=s, seconds=3) for c, s in SHAPES),
    *(Cell(f"nginx h2c, {c} × {s}", c, server="nginx h2c", streams=s, seconds=3) for c, s in SHAPES),
    *(Cell(f"nginx TLS, {c} × {s}", c, server="nginx TLS", streams=s, seconds=3) for c, s in SHAPES),
)
#: Compared only with another build: one connection, one stream, and many streams.
MORE_SHAPES = ((1, 1), (1, 100))
CELLS_OF_BUILDS = (
    *CELLS,
    *(Cell(f"minimal h2c, {c} × {s}", c, streams=s, seconds=3) for c, s in MORE_SHAPES),
    *(Cell(f"nginx h2c, {c} × {s}", c, server="nginx h2c", streams=s, seconds=3) for c, s in MORE_SHAPES),
    Cell("nginx TLS, 1 × 1", 1, server="nginx TLS", streams=1, seconds=3),
)
WHAT = "CPU per request"


@dataclass(frozen=True)
class Goal:
    """CPU per request of this engine over another's in a case, at most."""

    cell: Cell
    over: str
    bound: float


def goals() -> list[Goal]:
    """All of them, in the order of the cases."""
    made = []
    for cell in CELLS:
        made.append(Goal(cell, "h2load", 0.70 if cell.encrypted else 0.60))
        if not cell.encrypted:
            made.append(Goal(cell, "raw", 1.15))
    return made


def generators(cell: Cell, here: dict[str, str]) -> dict[str, Command]:
    """Who is measured in a case."""
    taken: dict[str, Command] = {ENGINE: rivals.engine}
    if "h2load" in here:
        taken["h2load"] = rivals.RIVALS["h2load"][0]
    if not cell.encrypted:
        taken |= {name: rivals.raw(name.split()[1]) for name in RAW}
    return taken


def judged(results: Results) -> list[str]:
    """A line per goal: what was reached, least and most in a round, and whether that is enough."""
    lines = ["| | goal | reached | in rounds | |", "|-|-|-|-|-|"]
    for goal in goals():
        values = engine.ratios(results, goal.cell.name, goal.over, WHAT)
        if not values:
            continue
        reached = statistics.median(values)
        once = values[0] <= goal.bound
        missed = "**missed**, by no more than rounds differ" if once else "**missed**"
        word = "met" if reached <= goal.bound else missed
        over = "the raw loop" if goal.over == "raw" else goal.over
        seen = f"{values[0]:.2f}–{values[-1]:.2f}"
        lines.append(f"| {goal.cell.name}: {WHAT} over {over} | ≤ {goal.bound:.2f} | {reached:.2f} | {seen} | {word} |")
    ours = [ran for (_, name), rounds in results.items() if name == ENGINE for ran in rounds.values()]
    exact = sum(not ran.failed and ran.said == ran.requests for ran in ours)
    word = "met" if exact == len(ours) else "**missed**"
    lines.append(f"| runs without an error whose count is the server's own | all | {exact} of {len(ours)} | | {word} |")
    return lines


def table(results: Results) -> list[str]:
    """CPU µs per request and requests/s, by case and generator."""
    names = [ENGINE, "h2load", *RAW]
    there = [name for name in names if any(key[1] == name for key in results)]
    heads = ["CPU µs per request (requests/s)", *there]
    lines = [*folded("CPU time per request, every case and generator"), "| " + " | ".join(heads) + " |"]
    lines.append("|-" * len(heads) + "|")
    for cell in CELLS:
        found = [[median(results, cell.name, name, what) for what in (WHAT, "requests/s")] for name in there]
        texts = ["" if cpu is None or rate is None else f"{cpu:.2f} ({rate:,.0f})" for cpu, rate in found]
        if any(texts):
            lines.append(f"| {cell.name} | " + " | ".join(texts) + " |")
    return [*lines, "", "</details>"]


def main() -> int:
    """Words in, tables out."""
    given = engine.options((__doc__ or "").splitlines()[0]).parse_args()
    if missing := [one for one in engine.ready() if not one.startswith("wrk")]:
        print("http2: can't run:", *missing, sep="\n  ")
        return 2
    rivals.room()
    here = rivals.found()
    if given.old is not None:
        engine.compare_builds(given, CELLS_OF_BUILDS, here, "former-http2")
        return 0
    build = hashlib.sha256(rivals.DRIVE.read_bytes()).hexdigest()[:10]
    kept = engine.kept_runs(f"http2-{build}", given.fresh)
    cells = [cell for cell in CELLS if given.cells in cell.name]
    results = engine.bench(cells, given.rounds, kept, here, lambda cell: generators(cell, here))
    rounds = max((len(runs) for runs in results.values()), default=0)
    told = f"{circumstances()}; medians of {rounds} rounds, each run {CELLS[0].seconds} s."
    absent = [] if "h2load" in here else ["h2load is not here: left out."]
    lines = judged(results)
    text = "\n".join([told, *absent, "", engine.conclusion(lines), "", *lines, "", *table(results)])
    print(text)
    if given.record:
        splice(ENGINE_PAGE, "http2-bench", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
