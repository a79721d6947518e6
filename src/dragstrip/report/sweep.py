"""A sweep in the terminal and as JSON: capacity first, then latency at each rate as table and chart in one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from dragstrip.analysis.gates import Rule
from dragstrip.record import Entrant
from dragstrip.report import figures, glyphs
from dragstrip.report.comparison import Ruling, ruling
from dragstrip.report.comparison import RulingOutcome as RulingOutcome
from dragstrip.requested import title_of
from dragstrip.store.json_values import JSON_SCHEMA, Json, JsonObject, encode, picked
from dragstrip.sweep.capacity import (
    ALPHA,
    SHOWN_QUANTILES,
    STEPS,
    Capacity,
    Objective,
    PointOutcome,
    Sample,
    SweepPoint,
    capacity,
    ratio_of,
)
from dragstrip.sweep.file import Sweep
from dragstrip.validity.messages import event_text

#: Cells of the chart; the number of notes on what the machine did during the sweep.
WIDTH, MAX_NOTES = 14, 4

#: A terminal this wide shows every quantile; a narrower one only the median and the objective's quantile.
WIDE = 110

#: As a metric's sentence on a pair.
_CAPACITY = "{best} has {ratio} times the capacity of {other}"

_STYLE = {PointOutcome.MET: "blue", PointOutcome.MISSED: "yellow", PointOutcome.UNDECIDED: "dim"}


def show(console: Console, sweep: Sweep) -> None:
    """Everything about a sweep that a terminal has room for."""
    load = f"{title_of(sweep.workload, sweep.definition)}, {sweep.load.connections} connections, open loop"
    ended = "" if sweep.finished == "done" else "; interrupted: what was measured until then"
    head = f"{load}, {sweep.launches} fresh launches at a rate, seed {sweep.seed}{ended}"
    parts: list[RenderableType] = [Text(head, style="dim")]
    for entrant in sweep.entrants:
        parts += ["", *_contender(sweep, entrant, wide=console.width >= WIDE)]
    parts.append("")
    # One note on each process, core or contender; the record has them all.
    events = {(e.kind, e.subject, e.numbers.get("pid"), e.numbers.get("core")): e for e in reversed(sweep.events)}
    notes = [event_text(event) for event in reversed(events.values())]
    more = len(notes) - MAX_NOTES
    notes[MAX_NOTES:] = [f"and {more} more such; they are in the record"] if more > 0 else []
    parts += [Text.assemble(("▲ ", "yellow"), note) for note in notes]
    parts.append(Text(meaning(sweep.objective), style="dim"))
    glyphs.emit(console, *parts)


def meaning(objective: Objective) -> str:
    """What the words mean, for under the tables."""
    return (
        f"{objective.typed()} is met if the interval of {objective.quantile}, over launches, lies below the limit "
        "and 99 % of what was offered left in time. Latency runs from when a request was meant to leave. Capacity "
        "counts upwards to the first rate at which that is not known to hold; its lower end is too high in at most "
        f"{figures.percent(ALPHA)} of sweeps."
    )


def _contender(sweep: Sweep, entrant: Entrant, *, wide: bool) -> list[RenderableType]:
    points = sweep.points(entrant.name)
    lines: list[RenderableType] = [Text.assemble((entrant.name, "bold"), f" {entrant.version}".rstrip())]
    if entrant.out:
        lines.append(Text.assemble(("■ ", "bold magenta"), f"out: {entrant.out}"))
    if points:
        lines.append(Text(headline(capacity(points), sweep.objective)))
        lines.append(_table(points, sweep.objective, wide=wide))
    if entrant.kind == "url":
        lines.append(Text.assemble(("▲ ", "yellow"), "was already running: how its launches differ is not in it"))
    return lines


def headline(bracket: Capacity, objective: Objective) -> str:
    """The capacity in a sentence, as a bracket, or why there is none."""
    under = f"capacity under {objective.typed()}"
    why = bracket.reason.text if bracket.reason else ""
    over = "" if bracket.over_per_s is None else f"at {_rate(bracket.over_per_s)} {why}"
    if bracket.met_per_s is None:
        return f"{under}: not found; already {over}"
    if bracket.over_per_s is None:
        return f"{under}: {_rate(bracket.met_per_s)} or more; it was met at every rate that was offered"
    return f"{under}: {_rate(bracket.met_per_s)}, and below {_rate(bracket.over_per_s)}; {over}"


def _rate(rate_per_s: float) -> str:
    return f"{rate_per_s:,g}/s" if rate_per_s < 1e6 else f"{rate_per_s:,.0f}/s"


def _table(points: Sequence[SweepPoint], objective: Objective, *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    limited, quantiles = objective.quantile, SHOWN_QUANTILES if wide else SHOWN_QUANTILES[:1]
    others = [name for name in quantiles if name != limited and any(name in point.latency_us for point in points)]
    for head in ("offered/s", "reached", *(f"{name} µs" for name in (*others, limited))):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    table.add_column(f"{limited}, log", width=WIDTH, no_wrap=True)
    table.add_column("CPU µs", justify="right", no_wrap=True)
    table.add_column(objective.typed())
    shown = [point.latency_us[limited].estimate for point in points if limited in point.latency_us]
    ends = min([*shown, objective.limit_us]) / 1.5, max([*shown, objective.limit_us]) * 1.5
    for point in points:
        estimates = {name: span.estimate for name, span in point.latency_us.items()}
        span = point.latency_us.get(limited)
        table.add_row(
            f"{point.rate_per_s:,g}",
            figures.percent(math.floor(1000 * min(point.reached, 1)) / 1000),
            *(figures.microseconds(estimates.get(name)) for name in (*others, limited)),
            f"{figures.microseconds(span.low)}–{figures.microseconds(span.high)}"
            if span and span.high < math.inf
            else "",
            bar(estimates.get(limited), objective.limit_us, ends),
            figures.microseconds(point.server_cpu_us),
            Text(point.outcome, style=_STYLE[point.outcome]),
        )
    return table


def bar(value: float | None, limit: float, ends: tuple[float, float]) -> Text:
    """A bar on a log scale with the limit marked in it.

    Args:
        ends: the scale's, above 0, the first below the second.
    """

    def cell(at: float) -> int:
        share = math.log(at / ends[0]) / math.log(ends[1] / ends[0])
        return min(max(int(share * WIDTH), 0), WIDTH - 1)

    filled = -1 if value is None else cell(value)
    drawn = ["█" if at <= filled else " " for at in range(WIDTH)]
    drawn[cell(limit)] = "┃"
    return Text("".join(drawn), style=glyphs.BAR)


def rulings(sweep: Sweep, rules: Sequence[Rule]) -> list[Ruling]:
    """What becomes of each threshold for each contender but the first, by their capacities' brackets."""
    first, others = next(iter(sweep.entrants), None), sweep.entrants[1:]
    if first is None:
        return []
    brackets = {entrant.name: capacity(sweep.points(entrant.name)) for entrant in sweep.entrants}
    return [_ruling(rule, other, first, brackets) for rule in rules for other in others]


def _ruling(rule: Rule, other: Entrant, first: Entrant, brackets: Mapping[str, Capacity]) -> Ruling:
    if other.out:
        return Ruling(rule[0], other.name, RulingOutcome.FAILS, f"{other.name} is out: {other.out.splitlines()[0]}")
    low, high = ratio_of(brackets[other.name], brackets[first.name])
    if first.out or (low == 0 and high == math.inf):
        lack = f"{first.name} is out" if first.out else "the capacities have no ends that could be compared"
        return ruling(rule, other.name, None, lack=lack)
    return ruling(rule, other.name, (low, high), sentence=_CAPACITY, names=(other.name, first.name))


def as_json(sweep: Sweep, rules: Sequence[Rule] = ()) -> JsonObject:
    """The sweep, schema 1: what was found, and every sample; unknown numbers are null.

    Args:
        rules: thresholds; their outcomes are written if there are any, and are in no record.
    """
    ruled: list[Json] = list(map(asdict, rulings(sweep, rules)))
    return {
        **({"rules": ruled} if ruled else {}),
        "schema": JSON_SCHEMA,
        **encode(sweep),
        # What is unknown of an entrant or a sample is null.
        "entrants": list(map(asdict, sweep.entrants)),
        "samples": [dict.fromkeys(Sample.__slots__) | encode(sample) for sample in sweep.samples],
        "notes": list(dict.fromkeys(map(event_text, sweep.events))),
        "interval": {"alpha": ALPHA, "share_of_a_look": 1 / (1 + STEPS), "over": "launches"},
        "contenders": [_contender_json(sweep, entrant) for entrant in sweep.entrants],
    }


def _contender_json(sweep: Sweep, entrant: Entrant) -> JsonObject:
    points = sweep.points(entrant.name)
    return picked(entrant, "name", "version", "out") | {
        "capacity": _capacity_json(capacity(points)) if points else None,
        "points": list(map(_point_json, points)),
    }


def _capacity_json(bracket: Capacity) -> JsonObject:
    return {
        "found": bracket.met_per_s is not None,
        "met_per_s": bracket.met_per_s,
        "over_per_s": bracket.over_per_s,
        "why": bracket.reason.text if bracket.reason else "",
    }


def _point_json(point: SweepPoint) -> JsonObject:
    return picked(point, "rate_per_s", "launches", "reached", "failed", "latency_us", "server_cpu_us") | {
        "verdict": point.outcome,
        "why": point.reason.text if point.reason else "",
        "noisy": point.noisy,
    }
