"""Every order that is shown is the order of the pairs, whatever the machine did and whoever stopped early."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import samples
from judging import of_blocks, racing
from rich.console import Console

from dragstrip.analysis import Verdict, consistent, judge_column
from dragstrip.analysis.interval import FloatArray
from dragstrip.extras.lab.choice import CellProgress
from dragstrip.extras.lab.ledger import CellRow, Stored
from dragstrip.extras.lab.report import heat
from dragstrip.metrics import PairVerdict
from dragstrip.record import Race
from dragstrip.report.race import charts, columns, export, markdown, terminal
from dragstrip.report.race.badge import column_badge
from dragstrip.report.race.headline import column_headline
from dragstrip.report.race.summary import JudgedRace, Part, leaders, pair_of

#: What a badge says of the first of several, and of the first of two.
BEST = re.compile(r"^(FASTEST|FASTER|LEAST CPU|LESS CPU) (n\d+)")


def drift_of(rng: np.random.Generator, rounds: int) -> FloatArray:
    """What the machine does to all alike: a step, a slope, slow noise, or nothing."""
    kind = rng.integers(4)
    if kind == 0:
        return np.where(np.arange(rounds) < 12, 0.0, math.log(0.9))
    if kind == 1:
        return np.arange(rounds) * math.log(rng.choice([0.996, 1.004]))
    if kind == 2:
        slow, sd = np.zeros(rounds), rng.choice([0.01, 0.02, 0.05])
        for at in range(1, rounds):
            slow[at] = 0.95 * slow[at - 1] + rng.normal(0, sd * math.sqrt(1 - 0.95**2))
        return slow
    return np.zeros(rounds)


def raced(seed: int, metric: str, *, moment: int = 0) -> Race:
    """Two to eight contenders, close to each other; all but two may stop after the tenth round.

    Args:
        moment: other noise, of the same contenders.
    """
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 9))
    levels, scatter = rng.normal(0, rng.choice([0.005, 0.03, 0.1]), count), rng.choice([0.003, 0.01, 0.02], count)
    rng = np.random.default_rng((seed, moment))
    rounds = int(rng.integers(12, 41))
    drift = drift_of(rng, rounds)
    logs: dict[str, FloatArray] = {}
    for at in rng.permutation(count):
        values = levels[at] + drift + rng.normal(0, scatter[at], rounds)
        logs[f"n{at}"] = values[: rounds if at < 2 else int(rng.integers(10, rounds + 1))]
    made = []
    for index in range(rounds):
        served = {name: round(20_000 * math.exp(values[index])) for name, values in logs.items() if index < len(values)}
        blocks = [
            samples.block(name, round=index, position=at, requests=requests, p50_ns=round(32 * 25e6 / requests))
            for at, (name, requests) in enumerate(served.items())
        ]
        made.append(of_blocks(index, blocks))
    return racing(list(logs), made, planned=rounds, metric=metric)


def orders(judged: JudgedRace, part: Part) -> Iterator[tuple[str, list[str]]]:
    """Every order of contenders that is shown of a race of one column, by where it is."""
    yield "rows", part.names
    shown = export.race_json(judged)["columns"][0]  # type: ignore[index,call-overload]
    yield "JSON", shown["ranking"]
    table = [line.split("|")[1].strip() for line in markdown.race(judged).splitlines() if line.startswith("| n")]
    yield "Markdown", table
    yield "columns", [name for name, _ in columns.table(judged).rows]
    drawn = charts.ranking(part)
    yield "chart", drawn["layer"][0]["encoding"]["y"]["scale"]["domain"]  # type: ignore[index,call-overload]
    console = Console(file=io.StringIO(), width=120, no_color=True)
    console.print(terminal.ranking(part.verdict, part.rows, beside=False))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    yield "terminal", [found[1] for line in text.splitlines() if (found := re.match(r"\W*(n\d+)\b", line))]
    (made,) = heat.heat_maps([cell_of(judged.record)])
    yield "heat map", list(made.contenders)


def cell_of(race: Race, workload: str = "hello") -> heat.JudgedLab:
    """A lab's cell with this race."""
    row = CellRow(name=race.id, line_up="all", workload=workload, load="", revision="", machine="", weight=1, place=0)
    stored = Stored(cell=row.name, race=race.id, strip="s", rounds=9, decided=True, over=True, void=False, more=None)
    return heat.JudgedLab(cell=row, progress=CellProgress.STORED, why="", stored=stored, digest=heat._digest(race))


def against(part: Part, order: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of an order whose second is decided to be the better."""
    pairs = ((a, b, pair_of(part.verdict, a, b)) for a, b in combinations(order, 2))
    return [(a, b) for a, b, pair in pairs if pair and pair.verdict is PairVerdict.SLOWER]


@pytest.mark.thorough
def test_no_order_contradicts_a_separated_pair_and_the_best_is_separated_from_all() -> None:
    """By the rows that all reports show, the tie groups, and who leads."""
    best = 0
    for seed in range(30):
        race = raced(seed, "throughput" if seed % 2 else "cpu")
        part = Part("hello", race, judge_column(race), ())
        for order in (part.names, *part.verdict.groups):
            assert not against(part, order), (seed, order)
        said = [found[2] for text in [column_badge(part).line] if (found := BEST.match(text))]
        headline = column_headline(part)
        said += [name for name in part.names if re.match(rf"{name} (is the fastest|needs the least CPU)", headline)]
        for name in (*said, *(leaders(part) if len(leaders(part)) == 1 else ())):
            best += 1
            others = [pair_of(part.verdict, name, other) for other in part.names if other != name]
            assert all(pair and pair.verdict is PairVerdict.FASTER for pair in others), (seed, name)
    assert best > 8


def test_all_reports_show_the_same_order() -> None:
    """Of races in which the order of the contenders' own means contradicts a pair."""
    for seed in (3, 5, 8):
        judged = JudgedRace.of(raced(seed, "throughput"))
        (part,) = judged.parts
        shown = dict(orders(judged, part))
        assert shown["heat map"] is not None
        assert not against(part, shown.pop("heat map")), seed
        assert all(order == part.names for order in shown.values()), (seed, shown)


@pytest.mark.thorough
def test_rows_of_several_columns_contradict_no_pair_of_the_first_and_none_that_all_separate_alike() -> None:
    """The table's rows, and a heat map's, of contenders that are equally fast in all columns."""
    for seed in range(5):
        races = [raced(seed, "throughput", moment=at) for at in range(3)]
        several = replace(
            races[0],
            columns=tuple(replace(race.columns[0], name=f"w{at}", workload=f"w{at}") for at, race in enumerate(races)),
            rounds=tuple(replace(one, column=at) for at, race in enumerate(races) for one in race.rounds),
        )
        parts = [Part(f"w{at}", race, judge_column(race), ()) for at, race in enumerate(races)]
        judged = JudgedRace(several, Verdict(tuple(part.verdict for part in parts)))
        cells = [cell_of(replace(race, id=f"{at:012x}"), f"w{at}") for at, race in enumerate(races)]
        (made,) = heat.heat_maps(cells)
        rows = [name for name, _ in columns.table(judged).rows]
        assert not against(parts[0], rows), seed
        for order in (rows, made.contenders):
            ways = [set(against(part, order)) for part in parts]
            turned = [set(against(part, order[::-1])) for part in parts]
            assert not [(a, b) for a, b in set().union(*ways) if not any((b, a) in one for one in turned)], seed


def test_verdicts_that_go_round_in_a_circle_have_no_best() -> None:
    """The circle stays together, behind what is ahead of it."""
    before = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("a", "e")]
    assert consistent("eabcd", before) == ("d", "a", "b", "c", "e")
