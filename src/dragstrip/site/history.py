"""A contender over time, drawn: estimates with intervals by race, and a line wherever something changed."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from dragstrip.report import figures
from dragstrip.report.race import charts
from dragstrip.site.views import RatePoint


def chart(points: Sequence[RatePoint]) -> str:
    """An SVG for a page: its colours are the page's own."""
    data = [
        {
            "place": place,
            "label": figures.local(point.started),
            "at": point.interval.estimate,
            "low": figures.finite(point.interval.low),
            "high": figures.finite(point.interval.high),
            "change": "; ".join(point.changes),
            "workload": point.requested,
        }
        for place, point in enumerate(points)
    ]
    x = alt.X("place:O", title="races, oldest first", axis=alt.Axis(labelAngle=0, ticks=False))
    scale = alt.Scale(zero=False, padding=12)
    y = alt.Y("at:Q", title="requests per second", scale=scale, axis=alt.Axis(labelExpr=charts.NUMBER))
    base = alt.Chart(alt.InlineData(values=data)).encode(x=x)
    changed = alt.Chart(alt.InlineData(values=[row for row in data if row["change"]])).encode(x=x)
    layers = alt.layer(
        changed.mark_rule(style="void", strokeDash=[4, 3], aria=False),
        base.mark_rule(style="whisker", aria=False).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_point(filled=True, size=60, aria=False).encode(
            y=y, color=alt.Color("workload:N", title=None), shape=alt.Shape("workload:N", title=None)
        ),
    ).properties(height=280)
    finished = charts.finished(layers, f"throughput over {len(points)} races; dashed lines mark changes")
    return charts.svg(charts.sized(finished, 900) | {"config": charts.config(charts.PAGE)})
