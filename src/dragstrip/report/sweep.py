"""A sweep in the terminal, capacity first and then latency at each rate, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from dragstrip.record import Entrant, Event
from dragstrip.report import figures, glyphs
from dragstrip.report.race.messages import event_text, void_text
from dragstrip.store.json_values import JSON_SCHEMA, JsonObject, encode
from dragstrip.sweep.capacity import (
    ALPHA,
    STEPS,
    TOLD,
    Capacity,
    Objective,
    Outcome,
    Point,
    Reason,
    ReasonKind,
    Sample,
    Span,
    capacity,
)
from dragstrip.sweep.file import Sweep

#: Width of the chart in cells; maximum number of notes about the machine.
WIDTH, MAX_NOTES = 14, 4

#: A terminal this wide shows every quantile; a narrower one the median and the one that is asked for.
WIDE = 110

_STYLE = {Outcome.MET: "blue", Outcome.MISSED: "yellow", Outcome.UNDECIDED: "dim"}


def show(console: Console, sweep: Sweep) -> None:
    """Everything about a sweep that a terminal has room for."""
    parts = list[RenderableType]()
    head = (
        f"{sweep.workload}, {sweep.load.connections} connections, open loop, {sweep.launches} fresh launches at a rate"
    )
    parts.append(Text(f"{head}, seed {sweep.seed}{_ended(sweep)}", style="dim"))
    for entrant in sweep.entrants:
        parts += ["", *_contender(sweep, entrant, wide=console.width >= WIDE)]
    parts.append("")
    # One note per subject; the record has all events.
    notes = list({_about(event): event_text(event) for event in reversed(sweep.events)}.values())[::-1]
    parts += [Text.assemble(("▲ ", "yellow"), note) for note in notes[:MAX_NOTES]]
    if len(notes) > MAX_NOTES:
        parts.append(Text.assemble(("▲ ", "yellow"), f"and {len(notes) - MAX_NOTES} more such; they are in the record"))
    parts.append(Text(meaning(sweep.objective), style="dim"))
    glyphs.emit(console, *parts)


def _ended(sweep: Sweep) -> str:
    return "" if sweep.finished == "done" else "; interrupted: what was measured until then"


def meaning(objective: Objective) -> str:
    """What the words mean, for under the tables."""
    return (
        f"{objective.typed()} is met where the interval of {objective.quantile}, over launches, lies below the limit "
        "and 99 % of what was offered left in time. Latency runs from when a request was meant to leave. Capacity "
        "counts upwards to the first rate at which that is not known to hold; its lower end is too high in at most "
        f"{figures.percent(ALPHA)} of sweeps."
    )


def _contender(sweep: Sweep, entrant: Entrant, *, wide: bool) -> list[RenderableType]:
    found = sweep.points(entrant.name)
    title = Text.assemble((entrant.name, "bold"), f" {entrant.version}".rstrip())
    lines: list[RenderableType] = [title]
    if entrant.out:
        lines.append(Text.assemble(("■ ", "bold magenta"), f"out: {entrant.out}"))
    if found:
        lines.append(Text(headline(capacity(found), sweep.objective)))
        lines.append(_table(found, sweep.objective, wide=wide))
    if entrant.kind == "url":
        lines.append(Text.assemble(("▲ ", "yellow"), "was already running: how its launches differ is not in it"))
    return lines


def headline(found: Capacity, objective: Objective) -> str:
    """The capacity in a sentence, as a bracket, or why there is none."""
    under = f"capacity under {objective.typed()}"
    why = reason_text(found.reason) if found.reason else ""
    over = "" if found.over_per_s is None else f"at {_rate(found.over_per_s)} {why}"
    if found.met_per_s is None:
        return f"{under}: not found; already {over}"
    if found.over_per_s is None:
        return f"{under}: {_rate(found.met_per_s)} or more; it was met at every rate that was offered"
    return f"{under}: {_rate(found.met_per_s)}, and below {_rate(found.over_per_s)}; {over}"


def reason_text(reason: Reason) -> str:
    """Why an objective is not known to hold at a rate, in words."""
    match reason.kind:
        case ReasonKind.FEW_LAUNCHES:
            cause = f" ({reason.cause})" if reason.cause else ""
            return f"only {reason.launches} of {reason.tried} launches count{cause}"
        case ReasonKind.GENERATOR:
            return void_text(reason.generator) if reason.generator else "generator the limit"
        case ReasonKind.FAILED:
            return f"{figures.percent(reason.share)} failed: {figures.errors(reason.errors)}"
        case ReasonKind.NOT_SUSTAINED:
            return f"not sustained, only {figures.percent(reason.share)} left in time"
        case ReasonKind.FEW_ANSWERS:
            return f"too few answers to tell {reason.quantile}"
        case ReasonKind.SLOW:
            return f"{reason.quantile} was {_span(reason.span)}"
        case ReasonKind.TOO_CLOSE:
            return f"too close to call: {reason.quantile} was {_span(reason.span)}"


def _span(span: Span | None) -> str:
    if span is None:
        return figures.NONE
    return f"{span.estimate / 1000:.3g} ms ({span.low / 1000:.3g}–{span.high / 1000:.3g})"


def _about(event: Event) -> tuple[object, ...]:
    """What an event is about: a program's process, a core, a contender."""
    return event.kind, event.subject, event.numbers.get("pid"), event.numbers.get("core")


def _rate(rate_per_s: float) -> str:
    return f"{rate_per_s:,g}/s" if rate_per_s < 1e6 else f"{rate_per_s:,.0f}/s"


def _table(found: Sequence[Point], objective: Objective, *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    asked = objective.quantile
    quantiles = TOLD if wide else TOLD[:1]
    others = [name for name in quantiles if name != asked and any(name in point.latency_us for point in found)]
    table.add_column("offered/s", justify="right", no_wrap=True)
    table.add_column("reached", justify="right", no_wrap=True)
    for name in others:
        table.add_column(f"{name} µs", justify="right", no_wrap=True)
    table.add_column(f"{asked} µs", justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    table.add_column(f"{asked}, log", width=WIDTH, no_wrap=True)
    table.add_column("CPU µs", justify="right", no_wrap=True)
    table.add_column(objective.typed())
    shown = [point.latency_us[asked].estimate for point in found if asked in point.latency_us]
    ends = min([*shown, objective.limit_us]) / 1.5, max([*shown, objective.limit_us]) * 1.5
    for point in found:
        span = point.latency_us.get(asked)
        table.add_row(
            f"{point.rate_per_s:,g}",
            figures.percent(math.floor(1000 * min(point.reached, 1)) / 1000),
            *(
                figures.microseconds(point.latency_us[n].estimate) if n in point.latency_us else figures.NONE
                for n in others
            ),
            figures.microseconds(span.estimate) if span else figures.NONE,
            f"{figures.microseconds(span.low)}–{figures.microseconds(span.high)}"
            if span and span.high < math.inf
            else "",
            bar(span.estimate if span else None, objective.limit_us, ends),
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


def as_json(sweep: Sweep) -> JsonObject:
    """What ``--json`` writes and the file of a sweep holds (schema 1): results and every sample; unknown is null."""
    return {
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
    found = sweep.points(entrant.name)
    return {
        "name": entrant.name,
        "version": entrant.version,
        "out": entrant.out,
        "capacity": _capacity_json(capacity(found)) if found else None,
        "points": list(map(_point_json, found)),
    }


def _capacity_json(found: Capacity) -> JsonObject:
    return {
        "found": found.met_per_s is not None,
        "met_per_s": found.met_per_s,
        "over_per_s": found.over_per_s,
        "why": reason_text(found.reason) if found.reason else "",
    }


def _point_json(point: Point) -> JsonObject:
    return {
        "rate_per_s": point.rate_per_s,
        "launches": point.launches,
        "reached": point.reached,
        "failed": point.failed,
        "latency_us": {quantile: _span_json(span) for quantile, span in point.latency_us.items()},
        "server_cpu_us": point.server_cpu_us,
        "verdict": point.outcome,
        "why": reason_text(point.reason) if point.reason else "",
        "noisy": point.noisy,
    }


def _span_json(span: Span) -> dict[str, float | None]:
    return {key: value if math.isfinite(value) else None for key, value in asdict(span).items()}
