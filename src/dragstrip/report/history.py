"""A server's history: on the terminal, as JSON, and as a page with a chart for each workload."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import altair as alt
from markupsafe import Markup
from rich.console import Console, RenderableType
from rich.text import Text

from dragstrip.analysis.change_points import ChangePoint, changes, cuts
from dragstrip.analysis.history import HistoryPoint, Series
from dragstrip.metrics import KNOWN
from dragstrip.report import figures, glyphs, pages
from dragstrip.report.race import charts
from dragstrip.store.json_values import JSON_SCHEMA, JsonObject, plain

#: Races that the terminal lists, the latest ones; the page has all.
MAX_LINES = 30


@dataclass(frozen=True, slots=True)
class JudgedSeries:
    """A series with its changes, and the places at which its environment differs from the environment before."""

    series: Series
    changes: tuple[ChangePoint, ...]
    cuts: Mapping[int, tuple[str, ...]]

    @classmethod
    def of(cls, series: Series) -> Self:
        """Looks for the changes of a series."""
        return cls(series, tuple(changes(series.points)), cuts(series.points))


def change_text(change: ChangePoint) -> str:
    """A change, in words."""
    ends = change.ratio, change.low, change.high
    word, ends = ("faster", ends) if change.ratio > 1 else ("slower", (1 / ends[0], 1 / ends[2], 1 / ends[1]))
    at, span = figures.times(*ends)
    return f"{word}: {at} × ({span}), {_range(change)}"


def cut_text(judged: JudgedSeries, place: int) -> str:
    """What the environment has been since a race, as far as it differs from the environment of the race before."""
    now = judged.series.points[place].environment
    return "; ".join(f"{name.replace('_', ' ')} {_value_text(getattr(now, name))}" for name in judged.cuts[place])


def _value_text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _range(change: ChangePoint) -> str:
    """The races, or the commits, between which it happened."""
    before, after = change.before, change.after
    if before.commit and after.commit:
        return f"commits {before.commit[:7]}..{after.commit[:7]}"
    if before.version != after.version:
        return f"version {before.version or 'unknown'} to {after.version or 'unknown'}"
    return f"between race {before.race} and race {after.race}"


def head(series: Series) -> str:
    """What a series shows, in a line."""
    by = KNOWN[series.metric].compared
    return f"{series.subject} at {series.requested}, {by} relative to {series.reference}, {len(series.points)} races"


def show(console: Console, judged: JudgedSeries) -> None:
    """Prints a series: the latest races with their intervals, and what changed in which."""
    series, breaks = judged.series, judged.cuts
    by_place = {change.place: change for change in judged.changes}
    usual = statistics.median(point.ratio for point in series.points)
    shown = list(enumerate(series.points))[-MAX_LINES:]
    axis = glyphs.Axis.of([(point.low / usual, point.high / usual) for _, point in shown], 0.01)
    table = glyphs.table(expand=True)
    for name, justify in (("race", "left"), ("started", "left"), ("commit or version", "left"), ("ratio", "right")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("around the median", ratio=1, no_wrap=True)
    for place, point in shown:
        if place in breaks:
            table.add_row("", "", Text(f"┄ now {cut_text(judged, place)}", style="yellow"), "", "")
        change = by_place.get(place)
        style = "" if change is None else glyphs.VERDICT_STYLE["faster" if change.ratio > 1 else "slower"]
        whisker = glyphs.Whisker(point.ratio / usual, point.low / usual, point.high / usual, axis, style)
        table.add_row(
            point.race,
            figures.local(point.started),
            point.commit[:7] or point.version,
            figures.ratio(point.ratio),
            whisker,
        )
    lines: list[RenderableType] = [Text(head(series), style="bold"), Text(), table, Text()]
    for change in judged.changes:
        lines.append(Text.assemble(("● ", "bold"), (change.after.race, "bold"), f" {change_text(change)}"))
    if not judged.changes:
        lines.append(Text("no change of the server was found", style="dim"))
    for place in breaks:
        lines.append(Text(f"┄ race {series.points[place].race}: {cut_text(judged, place)}", style="yellow"))
    glyphs.emit(console, *lines, Text())


def as_json(listed: Sequence[JudgedSeries]) -> JsonObject:
    """All points and changes, by series."""
    return {"schema": JSON_SCHEMA, "series": [_series_json(judged) for judged in listed]}


def _series_json(judged: JudgedSeries) -> JsonObject:
    series = judged.series
    return {
        "name": series.subject,
        "reference": series.reference,
        "workload": series.workload,
        "requested": series.requested,
        "metric": series.metric,
        "points": [plain(point) for point in series.points],
        "changes": [
            {
                "race": change.after.race,
                "after": change.before.race,
                "from_commit": change.before.commit,
                "to_commit": change.after.commit,
                "ratio": change.ratio,
                "low": change.low,
                "high": change.high,
                "p_value": change.p_value,
            }
            for change in judged.changes
        ],
        "environment_changes": [
            {"race": series.points[place].race, "changed": list(names)} for place, names in judged.cuts.items()
        ],
    }


def chart(judged: JudgedSeries) -> str:
    """An SVG whose colours are the page's own: ratios with intervals, changes as lines, other machines as dashes."""
    series = judged.series
    rows = [_row(place, point) for place, point in enumerate(series.points)]
    x = alt.X("place:O", title="races, oldest first", axis=alt.Axis(labelAngle=0, ticks=False, labelOverlap=True))
    scale = alt.Scale(zero=False, padding=12)
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x)
    changed = alt.Chart(alt.InlineData(values=[rows[change.place] for change in judged.changes])).encode(x=x)
    cut = alt.Chart(alt.InlineData(values=[rows[place] for place in judged.cuts])).encode(x=x)
    layers = alt.layer(
        cut.mark_rule(style="void", strokeDash=[4, 3], aria=False),
        changed.mark_rule(style="one", strokeWidth=2, aria=False),
        base.mark_rule(style="whisker", aria=False).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_point(filled=True, size=50, style="estimate", aria=False).encode(
            y=alt.Y("ratio:Q", title=f"speed relative to {figures.visible(series.reference)}", scale=scale)
        ),
    ).properties(height=260)
    described = f"{head(series)}; solid lines mark changes, dashed lines another machine, kernel, load or method"
    finished = charts.finished(layers, described)
    return charts.svg(charts.sized(finished, 900) | {"config": charts.config(charts.PAGE)})


def _row(place: int, point: HistoryPoint) -> JsonObject:
    return {"place": place + 1, "ratio": point.ratio, "low": point.low, "high": point.high}


def sections(listed: Sequence[JudgedSeries]) -> list[dict[str, object]]:
    """What the page and ``dragstrip serve`` show of each series."""
    return [
        {
            "head": head(judged.series),
            "chart": Markup(chart(judged)),
            "changes": [(change.after.race, change_text(change)) for change in judged.changes],
            "breaks": [(judged.series.points[place].race, cut_text(judged, place)) for place in judged.cuts],
            "points": list(reversed(judged.series.points)),
        }
        for judged in listed
    ]


def page(listed: Sequence[JudgedSeries]) -> str:
    """One self-contained page."""
    template = pages.templates(Path(__file__).parent).get_template("history.html.j2")
    return template.render(sections=sections(listed), link=False)
