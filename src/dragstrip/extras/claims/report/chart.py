"""Published and measured ratios side by side, as one picture for the page of docs."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from dragstrip.extras.claims.finding import ClaimRow, Outcome
from dragstrip.report import figures
from dragstrip.report.race import charts

#: The three marks of a claim, from top to bottom in its lane.
SERIES = ("published", "measured, its load", "measured, fair settings")
_SHAPES = ("diamond", "circle", "square")

#: A ratio in a claim's lane: the claim, which mark it is, and its interval; a mark without a ratio keeps the lane.
Mark = dict[str, str | float | None]

#: Pixels for one claim, and for the picture's width.
LANE, WIDTH = 34, 560


def svg(rows: Sequence[ClaimRow]) -> str:
    """Every claim about a ratio: its published size, and both measured ones with their intervals, on a log scale."""
    about = [row for row in rows if row.claim.fields.kind in ("ratio", "direction", "same")]
    return charts.svg(_chart([mark for row in about for mark in _marks(row)]))


def _marks(row: ClaimRow) -> list[Mark]:
    fields = row.claim.fields
    name = f"{row.claim.id}{' (missing here)' if row.published.outcome == Outcome.CANNOT else ''}"
    published = 1.0 if fields.kind == "same" else fields.ratio
    marks: list[Mark] = [] if published is None else [{"claim": name, "series": SERIES[0], "at": published}]
    for series, finding in zip(SERIES[1:], (row.published, row.fair), strict=True):
        # A void measurement shows nothing.
        if finding is not None and not finding.void and figures.finite(finding.ratio) is not None:
            low, high = figures.finite(finding.low), figures.finite(finding.high)
            marks.append({"claim": name, "series": series, "at": finding.ratio, "low": low, "high": high})
    return marks or [{"claim": name, "series": SERIES[0], "at": None}]


def _chart(data: Sequence[Mark]) -> charts.Chart:
    names = list(dict.fromkeys(str(mark["claim"]) for mark in data))
    colours = charts.LIGHT
    base = alt.Chart(alt.InlineData(values=list(data))).encode(
        y=alt.Y("claim:N", sort=names, axis=alt.Axis(title=None, grid=True, labelLimit=320)),
        yOffset=alt.YOffset("series:N", sort=list(SERIES), scale=alt.Scale(domain=list(SERIES), padding=0.5)),
        color=alt.Color("series:N", sort=list(SERIES), scale=alt.Scale(domain=list(SERIES)), title=None),
    )
    ends = [mark.get(key) for mark in data for key in ("at", "low", "high")]
    shown = [end for end in ends if isinstance(end, float) and end] or [1.0]
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
