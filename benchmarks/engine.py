"""``make bench``: this engine beside other load generators, and beside the floor; standard library only, unattended.

Generator and server are pinned to one core, which is the steady way on a shared machine, except where a case says two.
In each round every case is run with every generator in turn, in another order each time; what is compared are the
medians of the ratios within rounds. Each run is one line of ``runs/bench-HASH.jsonl`` (of the engine's build): a bench
that was interrupted goes on, and more ``--rounds`` add to it. Prints each goal and whether it is met, and
writes table, goals and chart into docs/evidence/engine.md with ``--record``. Exit code 0, also where a goal is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import rivals
from pages import ENGINE_PAGE, ROOT, circumstances, splice
from rivals import Cell, Command, Ran

CELLS = (
    # Long enough for a generator's start, and for opening its connections, to be a small part.
    *(Cell(f"minimal, {c}", c, seconds=3) for c in (1, 10, 100, 1000)),
    *(Cell(f"nginx, {c}", c, server="nginx", seconds=3) for c in (1, 10, 100, 1000)),
    Cell("minimal, 10,000", 10_000, seconds=10),
    Cell("minimal, 100, closing", 100, keepalive=False, seconds=3),
    Cell("nginx, 100, closing", 100, server="nginx", keepalive=False, seconds=3),
    Cell("64 KiB, 10", 10, options=("--body", "65536"), seconds=3),
    Cell("1 MiB, 10", 10, options=("--body", "1048576"), seconds=3),
    Cell("50 µs, 100, two cores", 100, options=("--work-us", "50"), apart=True, seconds=3),
)
#: Beside wrk, which is measured everywhere, the others are in these only: a bench should end.
WIDE = {"minimal, 100", "nginx, 100", "minimal, 10,000", "minimal, 100, closing", "nginx, 100, closing"}
RAW = ("raw epoll", "raw uring", "raw coalesced")
ENGINE, FORMER = "dragstrip", "former build"


@dataclass(frozen=True)
class Goal:
    """``what`` of the engine over ``over``'s in a case, at most (or, ``least``, at least) ``bound``."""

    cell: str
    over: str
    bound: float
    what: str = "CPU per request"
    least: bool = False


GOALS = (
    *(Goal(f"minimal, {c}", "wrk", bound) for c, bound in ((1, 0.88), (10, 0.72), (100, 0.66), (1000, 0.62))),
    *(Goal(f"nginx, {c}", "wrk", bound) for c, bound in ((1, 0.88), (10, 0.82), (100, 0.70), (1000, 0.65))),
    *(Goal(f"{server}, {c}", "raw", 1.10) for server in ("minimal", "nginx") for c in (1, 10, 100, 1000)),
    Goal("minimal, 10,000", "raw", 1.10),
    *(Goal("minimal, 100", name, bound) for name, bound in (("weighttp", 0.8), ("h2load", 0.6), ("oha", 0.45))),
    Goal("minimal, 100", "hey", 0.22),
    Goal("minimal, 100", "gcannon", 1.0),
    Goal("50 µs, 100, two cores", "wrk", 0.45),
    Goal("50 µs, 100, two cores", "wrk", 1.0, what="requests/s", least=True),
    *(Goal(f"{server}, 100, closing", over, 0.65) for server in ("minimal", "nginx") for over in ("wrk", "ab")),
    Goal("64 KiB, 10", "wrk", 0.60),
    Goal("1 MiB, 10", "wrk", 0.25),
    Goal("minimal, 10,000", "wrk", 0.60),
)
MEMORY_GOAL_MB = 12.0

#: Round by round, what each generator left: by (cell, generator).
Results = dict[tuple[str, str], dict[int, Ran]]


def former(drive: Path) -> Command:
    """Another build of the engine's driver, such as of an earlier commit."""

    def command(cell: Cell, port: int, core: int) -> list[str]:
        return [str(drive), *rivals.engine(cell, port, core)[1:]]

    return command


def generators(cell: Cell, here: dict[str, str], old: Path | None) -> dict[str, Command]:
    """The generators measured in a case; with ``old`` only that build and this one."""
    taken: dict[str, Command] = {ENGINE: rivals.engine}
    if old is not None:
        return taken | {FORMER: former(old)}
    for name, (command, keeping, closing) in rivals.RIVALS.items():
        if name in here and (keeping if cell.keepalive else closing) and (name == "wrk" or cell.name in WIDE):
            taken[name] = command
    if cell.keepalive and not cell.options:
        taken |= {name: rivals.raw(name.split()[1]) for name in RAW}
    return taken


def bench(
    cells: Sequence[Cell], rounds: int, kept: Path, here: dict[str, str], choose: Callable[[Cell], dict[str, Command]]
) -> Results:
    """Runs what is not in the file yet; ``choose`` says who is measured in a case."""
    results = read(kept)
    cores = sorted(os.sched_getaffinity(0))
    with kept.open("a") as file:
        for number in range(rounds):
            for cell in cells:
                names = list(choose(cell).items())
                turn = number % len(names)
                todo = [
                    one for one in names[turn:] + names[:turn] if number not in results.get((cell.name, one[0]), {})
                ]
                if not todo:
                    continue
                server_core = cores[-1] if cell.apart else cores[0]
                print(f"round {number + 1} of {rounds}: {cell.name}: {', '.join(name for name, _ in todo)}", flush=True)
                for name, make in todo:
                    with rivals.serve(cell, server_core) as (port, count):
                        command = make(cell, port, cores[0])
                        command[0] = here.get(command[0], command[0])
                        ran = rivals.run(command, cores[0], count, cell.seconds)
                    line = {"cell": cell.name, "generator": name, "round": number, **asdict(ran)}
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
                    file.flush()
                    results.setdefault((cell.name, name), {})[number] = ran
    return results


def read(kept: Path) -> Results:
    """What earlier benches of the same build left."""
    results: Results = {}
    for line in kept.read_text().splitlines() if kept.exists() else ():
        try:
            told = json.loads(line)
        except ValueError:
            continue  # torn by what ended that bench
        key, number = (told.pop("cell"), told.pop("generator")), told.pop("round")
        results.setdefault(key, {})[number] = Ran(**told)
    return results


def figure(ran: Ran, what: str) -> float:
    """One figure of a run."""
    if what == "requests/s":
        return ran.requests / ran.seconds
    return ran.cpu_us / max(ran.requests, 1)


def median(results: Results, cell: str, name: str, what: str) -> float | None:
    """Over the rounds in which nothing failed."""
    values = [figure(ran, what) for ran in results.get((cell, name), {}).values() if not ran.failed]
    return statistics.median(values) if values else None


def ratios(results: Results, cell: str, over: str, what: str) -> list[float]:
    """The engine's figure over another's in each round, ascending; over "raw": over the cheapest raw loop's."""

    def beside(name: str) -> list[float]:
        theirs = results.get((cell, name), {})
        pairs = [(ran, theirs[number]) for number, ran in results.get((cell, ENGINE), {}).items() if number in theirs]
        return sorted(figure(a, what) / figure(b, what) for a, b in pairs if not (a.failed or b.failed))

    found = [values for name in (RAW if over == "raw" else (over,)) if (values := beside(name))]
    return max(found, key=statistics.median, default=[])


def judged(results: Results) -> list[str]:
    """A line per goal: what was reached, least and most in a round, and whether that is enough."""
    lines = ["| | goal | reached | in rounds | |", "|-|-|-|-|-|"]
    for goal in GOALS:
        values = ratios(results, goal.cell, goal.over, goal.what)
        if not values:
            continue
        reached, best = statistics.median(values), values[-1] if goal.least else values[0]
        met, once = (value >= goal.bound if goal.least else value <= goal.bound for value in (reached, best))
        word = "met" if met else "**missed**, by no more than rounds differ" if once else "**missed**"
        sign = "≥" if goal.least else "≤"
        what = f"{goal.cell}: {goal.what} over {'the raw loop' if goal.over == 'raw' else goal.over}"
        seen = f"{values[0]:.2f}–{values[-1]:.2f}"
        lines.append(f"| {what} | {sign} {goal.bound:.2f} | {reached:.2f} | {seen} | {word} |")
    many = results.get(("minimal, 10,000", ENGINE), {}).values()
    if many:
        peak_mb = max(ran.peak_kb for ran in many) / 1024
        word = "met" if peak_mb <= MEMORY_GOAL_MB else "**missed**"
        lines.append(f"| minimal, 10,000: memory at the most, MB | ≤ {MEMORY_GOAL_MB:.0f} | {peak_mb:.1f} | | {word} |")
    ours = [ran for (_, name), rounds in results.items() if name == ENGINE for ran in rounds.values()]
    # One request more is the first fetch, from which the engine's driver learns the right answer.
    exact = sum(not ran.failed and ran.said == ran.requests - 1 for ran in ours)
    word = "met" if exact == len(ours) else "**missed**"
    lines.append(f"| runs without an error whose count is the server's own | all | {exact} of {len(ours)} | | {word} |")
    return lines


def against_former(results: Results, cells: Sequence[Cell]) -> list[str]:
    """A line per case: this build's CPU per request over the former one's; worse if it costs more in every round."""
    lines = ["| | CPU µs per request | former | ratio | in rounds | |", "|-|-|-|-|-|-|"]
    for cell in cells:
        values = ratios(results, cell.name, FORMER, "CPU per request")
        if not values:
            continue
        each = [median(results, cell.name, name, "CPU per request") or 0.0 for name in (ENGINE, FORMER)]
        word = "**worse**" if values[0] > 1 else "better" if values[-1] < 1 else "no more than rounds differ"
        figures = f"{each[0]:.2f} | {each[1]:.2f} | {statistics.median(values):.3f}"
        lines.append(f"| {cell.name} | {figures} | {values[0]:.3f}–{values[-1]:.3f} | {word} |")
    return lines


def compare_builds(given: argparse.Namespace, cells: Sequence[Cell], here: dict[str, str], name: str) -> None:
    """Runs another build and this one in turn and prints their ratios; runs are kept by ``name``."""
    cells = [replace(cell, seconds=given.seconds or cell.seconds) for cell in cells if given.cells in cell.name]
    builds = "-".join(hashlib.sha256(build.read_bytes()).hexdigest()[:10] for build in (rivals.DRIVE, given.old))
    kept = kept_runs(f"{name}-{builds}-{given.seconds}", given.fresh)
    results = bench(cells, given.rounds, kept, here, lambda cell: generators(cell, here, given.old))
    counts = sorted({len(runs) for runs in results.values()})
    rounds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    above = f"{circumstances()}; {rounds} rounds; the former build: {given.old_name or given.old}."
    print(above, "", *against_former(results, cells), sep="\n")


def kept_runs(name: str, fresh: bool) -> Path:
    """The file with the runs of earlier benches; ``fresh`` removes it first."""
    kept = ROOT / "runs" / f"{name}.jsonl"
    kept.parent.mkdir(exist_ok=True)
    if fresh:
        kept.unlink(missing_ok=True)
    return kept


def table(results: Results) -> list[str]:
    """CPU µs per request, requests/s of the engine and memory, by case and generator; the wide tables are folded."""
    names = [ENGINE, *rivals.RIVALS, *RAW]
    there = [name for name in names if any(key[1] == name for key in results)]
    heads = ["CPU µs per request", *there]
    lines = [
        *folded("CPU time per request, every case and generator"),
        "| " + " | ".join(heads) + " |",
        "|-" * len(heads) + "|",
    ]
    for cell in CELLS:
        found = [median(results, cell.name, name, "CPU per request") for name in there]
        if any(value is not None for value in found):
            texts = ["" if value is None else f"{value:.2f}" for value in found]
            lines.append(f"| {cell.name} | " + " | ".join(texts) + " |")
    lines += ["", "</details>", "", *folded("Requests per second and memory, every case and generator")]
    lines += ["| requests/s, and memory at the most in MB | " + " | ".join(there) + " |", "|-" * len(heads) + "|"]
    for cell in CELLS:
        texts = []
        for name in there:
            rate = median(results, cell.name, name, "requests/s")
            peak_kb = max((ran.peak_kb for ran in results.get((cell.name, name), {}).values()), default=0)
            texts.append("" if rate is None else f"{rate:,.0f}, {peak_kb / 1024:.0f}")
        if any(texts):
            lines.append(f"| {cell.name} | " + " | ".join(texts) + " |")
    return [*lines, "", "</details>"]


def folded(title: str) -> list[str]:
    """The head of a part that is shown when it is asked for."""
    return [f'<details markdown="1"><summary>{title}</summary>', ""]


def conclusion(goals: Sequence[str]) -> str:
    """How many of the goals were met, in a sentence."""
    rows = [row for row in goals if row.startswith("| ") and not row.startswith("| |")]
    missed = [row for row in rows if "**missed**" in row]
    noise = sum("no more than rounds differ" in row for row in missed)
    close = f" {noise} of the {len(missed)} misses are no larger than rounds differ." if missed else ""
    return f"**{len(rows) - len(missed)} of {len(rows)} goals are met.**{close}"


def chart(results: Results) -> str:
    """CPU per request over wrk's, by case, as bars; the goal is the mark. SVG, no script."""
    goals = {goal.cell: goal.bound for goal in GOALS if goal.over == "wrk" and goal.what == "CPU per request"}
    found = [(name, ratios(results, name, "wrk", "CPU per request")) for name in goals]
    rows = [(name, statistics.median(values)) for name, values in found if values]
    left, wide, step = 190, 420, 24
    height = step * len(rows) + 48
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + wide + 60} {height}" font-family="sans-serif" '
        'font-size="13" fill="#888"><title>CPU per request of the engine over wrk</title>'
    ]
    for index, (name, value) in enumerate(rows):
        y, goal = 8 + index * step, goals[name]
        colour = "#2a9d6f" if value <= goal else "#d0812c"
        length = min(value, 1.1) * wide / 1.1
        parts += [
            f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{name}</text>',
            f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{step - 7}" fill="{colour}"/>',
            f'<path d="M{left + goal * wide / 1.1:.1f} {y - 3}v{step - 1}" stroke="#888" stroke-width="2"/>',
            f'<text x="{left + length + 8:.1f}" y="{y + 13}">{value:.2f}</text>',
        ]
    one, foot = left + wide / 1.1, height - 12
    parts.append(f'<path d="M{one:.1f} 4v{height - 36}" stroke="#888" stroke-dasharray="3 3"/>')
    parts.append(f'<text x="{left}" y="{foot}">CPU per request, wrk = 1 (dashed); the mark is the goal</text></svg>')
    return "\n".join(parts) + "\n"


def ready() -> list[str]:
    """What is missing, in words; builds the engine's programs where cargo is there."""
    missing = [f"{name}: not on PATH" for name in ("nginx", "wrk", "taskset") if shutil.which(name) is None]
    if shutil.which("cargo"):
        command = ["cargo", "build", "--release", "--quiet", "-p", "dragstrip-engine", "--examples", "--benches"]
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            missing.append("the engine's examples do not build; see cargo's message above")
    elif not rivals.DRIVE.exists():
        missing.append(f"{rivals.DRIVE}: not built, and cargo is not on PATH")
    return missing


def options(description: str) -> argparse.ArgumentParser:
    """The options that this bench and HTTP/2's share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=5, help="of all cases; earlier rounds in the file count")
    parser.add_argument("--cells", default="", help="only cases whose names contain this")
    parser.add_argument("--record", action="store_true", help="write into docs/evidence/engine.md")
    parser.add_argument("--fresh", action="store_true", help="forget earlier rounds of this build")
    parser.add_argument("--old", type=Path, help="another build's examples/drive: print a comparison with it alone")
    parser.add_argument("--old-name", default="", help="what that build is, such as its commit")
    parser.add_argument("--seconds", type=int, default=0, help="with --old: length of each run; 0: each case's own")
    return parser


def main() -> int:
    """Words in, tables out."""
    given = options((__doc__ or "").splitlines()[0]).parse_args()
    if missing := ready():
        print("bench: can't run:", *missing, sep="\n  ")
        return 2
    rivals.room()
    here = rivals.found()
    absent = [name for name in rivals.RIVALS if name not in here]
    print(f"beside {', '.join(here)}; not on PATH, so left out: {', '.join(absent) or 'none'}")
    if given.old is not None:
        compare_builds(given, CELLS, here, "former")
        return 0
    build = hashlib.sha256(rivals.DRIVE.read_bytes()).hexdigest()[:10]
    kept = kept_runs(f"bench-{build}", given.fresh)
    cells = [cell for cell in CELLS if given.cells in cell.name]
    results = bench(cells, given.rounds, kept, here, lambda cell: generators(cell, here, None))
    rounds = max((len(runs) for runs in results.values()), default=0)
    told = [f"{circumstances()}; medians of {rounds} rounds; left out: {', '.join(absent) or 'none'}.", ""]
    goals = judged(results)
    text = "\n".join([*told, conclusion(goals), "", *goals, "", *table(results)])
    print(text)
    if given.record:
        picture = ROOT / "docs" / "pictures" / "engine.svg"
        picture.parent.mkdir(exist_ok=True)
        picture.write_text(chart(results))
        splice(ENGINE_PAGE, "bench", f"![CPU per request over wrk](../pictures/engine.svg)\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
