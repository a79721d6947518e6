"""How often the judgement calls a difference where there is none, on rounds recorded beside an ordered disturbance.

    python benchmarks/simulate_disturbed.py [--races 200] [--write docs/evidence/verdicts.md]

Races are resampled: whole rounds of ``tests/noise/disturbed.csv.gz`` (``benchmarks/disturbed_record.py`` recorded
them), drawn with replacement, the two names swapped in each by a coin, so that neither is the faster one whatever
happened to the launches. ``dragstrip.analysis.judge`` judges each as a race that goes on is judged: after every round,
by the current version of the method. A planted difference takes answers away from one name. Where only one server was
hit, nothing is swapped: there the question is whether a wrong word comes without its warning. Fixed seeds, no server.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "benchmarks"))

from answers_page import put  # noqa: E402
from calibration_page import share  # noqa: E402
from disturbed_record import MAY_LACK, RECORDINGS, TIMES  # noqa: E402

from dragstrip import analysis  # noqa: E402
from dragstrip.analysis import cpu_shares  # noqa: E402
from dragstrip.machine_facts import Facts  # noqa: E402
from dragstrip.record import METHOD_VERSION, Backend, Block, Column, Entrant, Launch, Load, Plan, Race, Round  # noqa: E402

NOISE = ROOT / "tests" / "noise" / "disturbed.csv.gz"
NAMES = {recording.name: recording for recording in RECORDINGS}
#: What a race of two of the default budget looks at, about.
LOOKS = 30
OTHER = {"a": "b", "b": "a"}
APART = frozenset({"faster", "slower"})


def recordings(path: Path = NOISE) -> dict[str, list[Round]]:
    """Every recording's rounds, with nothing void."""
    with gzip.open(path, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        name: [_round(int(index), list(lines)) for index, lines in groupby(mine, key=lambda row: row["round"])]
        for name, mine in ((name, list(lines)) for name, lines in groupby(rows, key=lambda row: row["race"]))
    }


def _round(index: int, rows: Sequence[dict[str, str]]) -> Round:
    launches = {row["contender"]: row for row in rows}
    return Round(
        index=index,
        started_ns=0,
        ended_ns=1000 * int(rows[0]["round_us"]),
        launches=tuple(_launch(index, row) for row in launches.values()),
        blocks=tuple(_block(index, row) for row in rows),
    )


def _launch(index: int, row: dict[str, str]) -> Launch:
    return Launch(
        contender=row["contender"], round=index, cores=(1,), address="", ready_ns=0, warm_up_ns=0,
        settled=row["settled"] == "1", exit_status=0, died=False, cpu_source="", log_tail="",
        counts={"processes": 1, "threads": int(row["threads"])},
    )  # fmt: skip


def _block(index: int, row: dict[str, str]) -> Block:
    told: dict[str, Any] = {name: int(row[name]) for name in ("requests", "answered")}
    told |= {f"{name}_ns": 1000 * int(row[f"{name}_us"]) for name in (*TIMES, "steal")}
    for name in MAY_LACK:
        text = row[name.replace("_ns", "_us")]
        told[name] = None if not text else int(text) * (1000 if name.endswith("_ns") else 1)
    return Block(
        contender=row["contender"], round=index, pass_index=int(row["pass"]), position=int(row["position"]),
        started_ns=0, sent=told["answered"], failed=0, in_flight=0, errors={}, bytes_in=0, bytes_out=0, connects=0,
        latency_hdr=b"", latency_sum_ns=0, turn_sum_ns=0, clock_step_ns=0, early_stamps=0,
        p50_ns=0, p90_ns=0, p99_ns=0, p999_ns=0, max_ns=0, engine_switches=0, engine_threads=1, gave_up=False, **told,
    )  # fmt: skip


def swapped(this: Round) -> Round:
    """The same round with the two names exchanged."""
    return replace(
        this,
        launches=tuple(replace(launch, contender=OTHER[launch.contender]) for launch in this.launches),
        blocks=tuple(replace(block, contender=OTHER[block.contender]) for block in this.blocks),
    )


def planted(this: Round, truth: float) -> Round:
    """The same round with b slower: ``truth`` times fewer responses in the same time and CPU time."""

    def slower(block: Block) -> Block:
        if block.contender == "a":
            return block
        fewer = {name: round(getattr(block, name) / truth) for name in ("requests", "sent", "answered")}
        return replace(block, **fewer)

    return replace(this, blocks=tuple(map(slower, this.blocks)))


def race_of(rounds: Sequence[Round]) -> Race:
    """A race of two that these rounds were, judged by the current version of the method."""
    first = rounds[0].blocks[0]
    passes = 1 + max(block.pass_index for block in rounds[0].blocks)
    entrants = (
        Entrant(name=name, title=name, kind="definition", version="", language="", parameters={}, definition_hash="")
        for name in OTHER
    )
    plan = Plan(
        lead_ns=first.lead_ns, counted_ns=first.counted_ns, passes=passes, budget_s=60.0,
        planned_rounds=LOOKS, metric="auto",
    )  # fmt: skip
    load = Load(connections=32, threads=1, keepalive=True, timeout_ns=2_000_000_000)
    column = Column(name="hello", workload="hello", load=load, plan=plan, entrants=tuple(entrants))
    return Race(
        id="0" * 12, seed=1, started="2026-01-01T00:00:00+00:00", started_ns=0,
        columns=(column,),
        software="", method=METHOD_VERSION, machine=Facts(), server_cores=(1,), engine_cores=(0,),
        backend=Backend.EPOLL,
        rounds=tuple(replace(this, index=at) for at, this in enumerate(rounds)),
    )  # fmt: skip


@dataclass
class Seen:
    """What all looks at one race said, by what decides and by each metric."""

    called: dict[str, bool]
    missed: dict[str, bool]
    unwarned: bool = False
    found: bool = False


def looks(race: Race, truth: float) -> Seen:
    """Judges after every round from the tenth on; a race that has decided is looked at to its end all the same."""
    seen = Seen({}, {})
    for count in range(analysis.FLOOR, len(race.rounds) + 1):
        judged = analysis.judge_column(replace(race, rounds=race.rounds[:count]))
        by = {judged.metric: judged.pairs, **judged.beside}
        for name, pairs in (("what decides", judged.pairs), *((name, by[name]) for name in ("throughput", "cpu"))):
            for pair in pairs:
                called, missed = pair.verdict in APART, pair.low > truth or pair.high < truth
                seen.called[name] = seen.called.get(name, False) or called
                seen.missed[name] = seen.missed.get(name, False) or missed
                if name == "what decides":
                    seen.unwarned |= called and not pair.disturbed
                    seen.found |= pair.verdict == "faster"
    return seen


def sd_of(rounds: Sequence[Round], metric: str) -> float:
    """Standard deviation of a round's log ratio, in per cent."""
    numbers = analysis.round_numbers(race_of(rounds), metric)
    logs = numbers.log_speeds(numbers.totals)
    return float(100 * np.nanstd(logs[:, 0] - logs[:, 1], ddof=1))


def lost(rounds: Sequence[Round]) -> tuple[float, float]:
    """The share of the blocks' time in which others had the engine's core, and the server's."""
    blocks = [block for this in rounds for block in this.blocks]
    taken = [(cpu_shares.taken_by_others(block, 1) or 0.0) * block.duration_ns for block in blocks]
    time_ns = sum(block.duration_ns for block in blocks)
    return sum(block.engine_wait_ns for block in blocks) / time_ns, sum(taken) / time_ns


def drawn(rounds: Sequence[Round], chance: np.random.Generator, *, swap: bool) -> list[Round]:
    """One race's rounds."""
    both = (rounds, [swapped(this) for this in rounds]) if swap else (rounds, rounds)
    return [both[int(chance.integers(2))][int(chance.integers(len(rounds)))] for _ in range(LOOKS)]


def alike(found: dict[str, list[Round]], races: int) -> Iterator[str]:
    """A server against itself, swapped at random."""
    yield (
        "| a server against itself, on recorded rounds | taken from the engine's core | from the server's "
        "| scatter of throughput | of CPU time | wrong verdicts: deciding metric | throughput | CPU time |"
    )
    yield "|-|-|-|-|-|-|-|-|"
    totals, every = dict.fromkeys(("what decides", "throughput", "cpu"), 0), 0
    for name, rounds in found.items():
        chance = np.random.default_rng([20268, len(name), *map(ord, name)])
        seen = [looks(race_of(drawn(rounds, chance, swap=True)), 1.0) for _ in range(races)]
        counts = {metric: sum(one.called.get(metric, False) for one in seen) for metric in totals}
        totals, every = {metric: totals[metric] + counts[metric] for metric in totals}, every + races
        scatter = " | ".join(f"{sd_of(rounds, metric):.1f} %" for metric in ("throughput", "cpu"))
        had = " | ".join(f"{share_lost:.0%}" for share_lost in lost(rounds))
        calls = " | ".join(f"{count / races:.1%}" for count in counts.values())
        yield f"| {title(name)} | {had} | {scatter} | {calls} |"
    yield f"| **all** | | | | | {' | '.join(share(count, every) for count in totals.values())} |"


def slower(found: dict[str, list[Round]], races: int, truth: float = 1.10) -> Iterator[str]:
    """The same rounds with a difference planted."""
    yield f"| {truth - 1:.0%} injected | found by round {LOOKS} | outside the interval at any look |"
    yield "|-|-|-|"
    for name, rounds in found.items():
        chance = np.random.default_rng([20269, *map(ord, name)])
        made = ([planted(this, truth) for this in drawn(rounds, chance, swap=True)] for _ in range(races))
        seen = [looks(race_of(each), truth) for each in made]
        found_in, missed = sum(one.found for one in seen), sum(one.missed["what decides"] for one in seen)
        yield f"| {title(name)} | {found_in / races:.1%} | {missed / races:.1%} |"


def one_sided(found: dict[str, list[Round]], races: int) -> Iterator[str]:
    """Only b was hit; not swapped."""
    yield "| a server against itself, only the second disturbed | wrong verdict without warning | wrong verdict |"
    yield "|-|-|-|"
    for name, rounds in found.items():
        chance = np.random.default_rng([20270, *map(ord, name)])
        seen = [looks(race_of(drawn(rounds, chance, swap=False)), 1.0) for _ in range(races)]
        called = sum(one.called["what decides"] for one in seen)
        yield f"| {title(name)} | {sum(one.unwarned for one in seen) / races:.1%} | {called / races:.1%} |"


def title(name: str) -> str:
    """A recording, as a reader would say it."""
    return f"{NAMES[name].a}, {NAMES[name].duty} %"


def report(races: int, path: Path = NOISE) -> str:
    """All tables as Markdown."""
    found = recordings(path)

    twice = {name: rounds for name, rounds in found.items() if NAMES[name].a == NAMES[name].b}
    every = {name: rounds for name, rounds in twice.items() if not NAMES[name].one_sided}
    only = {name: rounds for name, rounds in twice.items() if NAMES[name].one_sided}
    head = (
        "### Simulated, on rounds recorded with such a disturbance\n\n"
        f"Written by `benchmarks/simulate_disturbed.py --races {races}`; method {METHOD_VERSION}, {LOOKS} rounds, "
        "every look from the tenth round on counted, whole rounds drawn with replacement from the recorded ones."
    )
    parts = [alike(every, races), slower(every, max(races // 4, 10)), one_sided(only, max(races // 4, 10))]
    return "\n\n".join([head, *("\n".join(part) for part in parts)])


def main() -> None:
    """Prints the tables, or writes them between a page's marks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--races", type=int, default=200, help="simulated races of each recording (default 200)")
    parser.add_argument("--noise", type=Path, default=NOISE)
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables between the marks of FILE")
    words = parser.parse_args()
    tables = report(words.races, words.noise)
    if words.write is None:
        print(tables)
        return
    put(words.write.resolve(), "disturbed-simulated", tables)


if __name__ == "__main__":
    main()
