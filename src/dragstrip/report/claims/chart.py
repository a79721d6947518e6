"""Published and measured ratios side by side, as one picture for the page of docs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from dragstrip.claim.finding import Finding, Outcome, Row
from dragstrip.report import figures
from dragstrip.report.race import charts

#: The three marks of a claim, from top to bottom in its lane.
SERIES = ("published", "measured, its load", "measured, fair settings")
_SHAPES = ("diamond", "circle", "square")

#: Pixels for one claim, and for the picture's width.
LANE, WIDTH = 34, 560


def svg(rows: Sequence[Row]) -> str:
    """Every claim about a ratio: its published size, and both measured ones with their intervals, on a log scale."""
    about = [row for row in rows if row.claim.fields.kind in ("ratio", "direction", "same")]
    return charts.svg(_chart([mark for row in about for mark in _marks(row)]))


def _marks(row: Row) -> list[dict[str, Any]]:
    claim = row.claim
    name = f"{claim.id}{' (missing here)' if row.published.outcome == Outcome.CANNOT else ''}"
    marks: list[dict[str, Any]] = []
    published = 1.0 if claim.fields.kind == "same" else claim.fields.ratio
    if published is not None:
        marks.append({"claim": name, "series": SERIES[0], "at": published})
    for series, finding in zip(SERIES[1:], (row.published, row.fair), strict=True):
        # A void measurement shows nothing.
        if finding is not None and not finding.void and figures.finite(finding.ratio) is not None:
            marks.append({"claim": name, "series": series, **_span(finding)})
    return marks or [{"claim": name, "series": SERIES[0], "at": None}]


def _span(found: Finding) -> dict[str, Any]:
    low, high = figures.finite(found.low), figures.finite(found.high)
    return {"at": found.ratio, "low": low, "high": high}


def _chart(data: Sequence[dict[str, Any]]) -> charts.Chart:
    names = list(dict.fromkeys(mark["claim"] for mark in data))
    colours = charts.LIGHT
    base = alt.Chart(alt.InlineData(values=list(data))).encode(
        y=alt.Y("claim:N", sort=names, axis=alt.Axis(title=None, grid=True, labelLimit=320)),
        yOffset=alt.YOffset("series:N", sort=list(SERIES), scale=alt.Scale(domain=list(SERIES), padding=0.5)),
        color=alt.Color("series:N", sort=list(SERIES), scale=alt.Scale(domain=list(SERIES)), title=None),
    )
    shown = [mark[key] for mark in data for key in ("at", "low", "high") if mark.get(key)] or [1.0]
    # Nice bounds of a log scale are powers of ten: half of the width would stay empty.
    scale = alt.Scale(type="log", nice=False, domain=[min(shown) / 1.2, max(shown) * 1.2])
    x = alt.X("at:Q", scale=scale, title="the first contender's speed over the second's (log scale)")
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=x, shape=alt.Shape("series:N", scale=alt.Scale(domain=list(SERIES), range=list(_SHAPES)), title=None)
    )
    spans = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", scale=scale), x2="high:Q")
    even = alt.Chart(alt.InlineData(values=[{"at": 1}])).mark_rule(color=colours["quiet"], strokeDash=[4, 3])
    layers = alt.layer(even.encode(x=alt.X("at:Q", scale=scale)), spans, marks)
    spec: charts.Chart = layers.properties(width=WIDTH, height={"step": LANE, "for": "position"}).to_dict()
    return spec | {"config": charts.config(colours), "background": colours["ground"], "padding": 14}
