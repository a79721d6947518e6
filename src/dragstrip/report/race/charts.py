"""A race's charts, by Altair: one description each for the page, PNG and SVG.

Colours are names of the theme (``style`` in Vega's words). The page fills in its own CSS variables, so that light and
dark need no second chart; a file gets the colours of ``LIGHT`` or ``DARK``. Text from outside is only ever data, never
part of an expression or a field's name.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence

import altair as alt

from dragstrip.analysis import Interval, Pair, round_numbers
from dragstrip.metrics import KNOWN
from dragstrip.record import Race
from dragstrip.report import figures, glyphs
from dragstrip.report.race import chart_data, summary
from dragstrip.report.race import columns as columns_of
from dragstrip.report.race import latency as latency_of
from dragstrip.report.race.badge import column_badge, race_badge
from dragstrip.report.race.summary import JudgedRace, Part, Row
from dragstrip.store.json_values import Json, JsonObject
from dragstrip.validity.messages import void_text

#: Maximum number of blocks drawn for a race; void blocks are always drawn.
MAX_BLOCKS = 6000

#: Okabe & Ito (2008), distinct for all kinds of colour blindness; dashes distinguish further ones, also on paper.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b58900", "#6a3d9a", "#555f6b")
DARK_PALETTE = ("#56b4e9", "#e8853d", "#2fc9a0", "#e5a3c6", "#9ad0f5", "#f0e442", "#b79ae0", "#b4bdc9")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])

LIGHT: Mapping[str, str] = {
    "ground": "#fff", "ink": "#16191d", "quiet": "#565e69", "line": "#d5d9df", "bar": "#7fb3d9", "ink-bar": "#0b3c5d",
    "used": "#0072b2", "level": "#16191d", "dropped": "#8d96a3", "void": "#a3195b",
    **{f"series-{k}": colour for k, colour in enumerate(PALETTE)},
}  # fmt: skip
DARK: Mapping[str, str] = {
    "ground": "#14171b", "ink": "#e8eaed", "quiet": "#a3abb6", "line": "#373d46", "bar": "#2b6c9b",
    "ink-bar": "#d6ecfb", "used": "#56b4e9", "level": "#fff", "dropped": "#7c8694", "void": "#f277ad",
    **{f"series-{k}": colour for k, colour in enumerate(DARK_PALETTE)},
}  # fmt: skip

#: The page's names for colours: the browser looks them up whenever the theme changes.
PAGE: Mapping[str, str] = {name: f"var(--{name})" for name in LIGHT}

Chart = JsonObject

#: How an axis writes a number: Vega's own way would give all labels one prefix, and write 0 as "0k".
NUMBER = "abs(datum.value) >= 10000 ? format(datum.value, '~s') : format(datum.value, ',~r')"

#: Characters of a line of a picture's title.
TITLE_CHARACTERS = 96


def config(colours: Mapping[str, str]) -> JsonObject:
    """Vega's theme for these colours."""
    text = {"labelColor": colours["ink"], "titleColor": colours["quiet"], "titleFontWeight": "normal"}
    axis = {**text, "gridColor": colours["line"], "domainColor": colours["quiet"], "tickColor": colours["quiet"]}
    return {
        "background": None,
        "font": "system-ui, 'Liberation Sans', 'DejaVu Sans', sans-serif",
        "view": {"stroke": None},
        "axis": {**axis, "labelFontSize": 12, "titleFontSize": 12, "labelLimit": 260},
        "legend": {**text, "labelFontSize": 12, "orient": "bottom", "columns": 4, "symbolSize": 140, "labelLimit": 260},
        "header": {"labelColor": colours["ink"], "labelFontSize": 13, "labelFontWeight": "bold", "labelLimit": 400},
        "range": {"category": [colours[f"series-{k}"] for k in range(len(PALETTE))]},
        # "color" and not "fill": Vega-Lite writes its own default colour into each mark that has none by that name.
        "style": {
            "bar-fill": {"color": colours["bar"]},
            "whisker": {"color": colours["ink-bar"], "strokeWidth": 2},
            "estimate": {"color": colours["ink-bar"]},
            "value": {"color": colours["ink"], "fontSize": 12},
            "tie": {"color": colours["ink"], "strokeWidth": 3},
            "band": {"color": colours["line"], "opacity": 0.7},
            "one": {"color": colours["ink"], "strokeWidth": 1},
            "faster": {"color": colours["used"]},
            "slower": {"color": colours["used"]},
            "same": {"color": colours["ink"]},
            "undecided": {"color": colours["dropped"]},
            "used": {"color": colours["used"], "opacity": 0.6},
            "dropped": {"color": colours["dropped"], "opacity": 0.9},
            "void": {"color": colours["void"]},
            "level": {"color": colours["level"], "strokeWidth": 2},
        },
    }


def ranking(part: Part) -> Chart:
    """Estimates as bars with their intervals, best first; a bracket joins tied contenders."""
    known = KNOWN[part.verdict.metric]
    title = "requests per second" if known.more_is_better else f"{known.head} (less is better)"
    return _bars([(row.name, row.main) for row in part.rows], title, part.rows)


def cpu(part: Part) -> Chart:
    """CPU time of the contender's whole process tree per request."""
    costs = [(row.name, row.estimate.server_cpu_us_per_request) for row in part.rows]
    return _bars([(name, cost) for name, cost in costs if cost], "server CPU per request, µs")


def memory(part: Part) -> Chart:
    """Peak memory of the whole process tree, median over launches."""
    peaks = [(row.name, row.estimate.peak_memory_bytes) for row in part.rows]
    bars = [
        (name, Interval(estimate=peak / 2**20, low=math.nan, high=math.nan, level=0.0)) for name, peak in peaks if peak
    ]
    return _bars(bars, "peak memory, MiB")


def _bars(bars: Sequence[tuple[str, Interval]], title: str, ties: Sequence[Row] = ()) -> Chart:
    data: list[dict[str, object]] = [
        {"name": name, "at": bar.estimate, "low": figures.finite(bar.low), "high": figures.finite(bar.high)}
        | {"text": figures.figure(bar.estimate), "span": figures.span(bar.low, bar.high) or "no interval"}
        | {"end": figures.finite(bar.high) or bar.estimate}
        for name, bar in bars
    ]
    names = [name for name, _ in bars]
    columns = len(ties[0].ties) if ties else 0
    label = alt.Axis(title=None, ticks=False, domain=False, labelPadding=8 + 9 * columns)
    y = alt.Y("name:N", scale=alt.Scale(domain=names), axis=label)
    most = max((figures.finite(bar.high) or bar.estimate for _, bar in bars), default=1.0) or 1.0
    values = even_ticks(0, 1.25 * most)
    ticks = alt.Axis(values=values, labelExpr=NUMBER, grid=True, labelOverlap="parity", labelSeparation=6)
    x = alt.X("at:Q", title=title, scale=alt.Scale(domain=[0, 1.25 * most], nice=False), axis=ticks)
    tooltip = [
        alt.Tooltip("name:N", title="contender"),
        alt.Tooltip("text:N", title=title),
        alt.Tooltip("span:N", title="interval"),
    ]
    base = alt.Chart(_values(data)).encode(y=y)
    layers = [
        base.mark_bar(style="bar-fill", height=14).encode(x=x, tooltip=tooltip),
        base.mark_rule(style="whisker", aria=False).encode(x="low:Q", x2="high:Q"),
        base.mark_tick(style="estimate", aria=False, thickness=3, size=18).encode(x="at:Q"),
        base.mark_text(style="value", aria=False, align="left", dx=7).encode(x="end:Q", text="text:N"),
    ]
    # One rule per tie group, in the room that the labels leave left of the axis.
    for column in range(columns):
        ends_of = [row for row in ties if row.ties[column] in ("top", "bottom")]
        for top, bottom in zip(ends_of[::2], ends_of[1::2], strict=True):
            group = alt.Chart(_values([{"first": top.name, "last": bottom.name}]))
            first, left = alt.Y("first:N", scale=alt.Scale(domain=names)), alt.value(-6 - 9 * column)
            layers.append(group.mark_rule(style="tie", aria=False).encode(y=first, y2="last:N", x=left))
    listed = "; ".join(f"{row['name']} {row['text']} ({row['span']})" for row in data)
    return finished(alt.layer(*layers).properties(height={"step": 30}), f"{title}, by contender: {listed}")


def pairs(part: Part) -> Chart:
    """A forest plot: each telling pair's ratio with its interval, against 1 and the margin around it."""
    verdict = part.verdict
    shown = summary.shown_pairs(verdict, part.names, every=False)
    bounded = [pair for pair in shown if figures.finite(pair.low) is not None and pair.low > 0]
    axis = glyphs.Axis.of([(pair.low, pair.high) for pair in bounded], verdict.margin)
    # A name of two lines: the parts before and after the bar.
    names = [f"{pair.a.replace('|', '¦')}|against {pair.b.replace('|', '¦')}" for pair in bounded]
    kinds = ["void" if {pair.a, pair.b} & part.void_contenders else str(pair.verdict) for pair in bounded]
    words = [kind if kind == "void" else figures.called(pair) for kind, pair in zip(kinds, bounded, strict=True)]
    data: list[dict[str, object]] = [
        {"pair": name, "kind": kind, "at": pair.ratio, "low": pair.low, "high": pair.high}
        | {"span": figures.times(pair.ratio, pair.low, pair.high)[1]}
        | {"text": f"{_at(pair)} ×, {word}{' ▲' if pair.disturbed else ''}"}
        for name, kind, word, pair in zip(names, kinds, words, bounded, strict=True)
    ]
    title = KNOWN[verdict.metric].over
    scale = alt.Scale(type="log", nice=False, domain=[axis.low, axis.high])
    ticks = alt.Axis(
        values=_ticks(axis.low, axis.high),
        labelExpr="format(datum.value, ',~r')",
        grid=False,
        labelOverlap="parity",
        labelSeparation=6,
    )
    label = alt.Axis(title=None, ticks=False, domain=False, labelPadding=8, labelExpr="split(datum.label, '|')")
    y = alt.Y("pair:N", scale=alt.Scale(domain=names), axis=label)
    x = alt.X("at:Q", title=title, scale=scale, axis=ticks)
    tips = [alt.Tooltip("pair:N"), alt.Tooltip("text:N", title="ratio"), alt.Tooltip("span:N", title="interval")]
    band = alt.Chart(_values([{"at": 1 / (1 + verdict.margin), "to": 1 + verdict.margin}]))
    layers: list[alt.Chart] = [
        band.mark_rect(style="band", aria=False).encode(x=x, x2="to:Q"),
        alt.Chart(_values([{"at": 1}])).mark_rule(style="one", aria=False).encode(x=x),
    ]
    for kind in dict.fromkeys(kinds):
        base = alt.Chart(_values([row for row in data if row["kind"] == kind])).encode(y=y)
        layers += [
            base.mark_rule(style=kind, aria=False, strokeWidth=3).encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
            base.mark_circle(style=kind, aria=False, size=90, opacity=1).encode(x=x, tooltip=tips),
            base.mark_text(style="value", aria=False, align="left", dx=8).encode(x=alt.value("width"), text="text:N"),
        ]
    ratios = "; ".join(
        f"{pair.a} against {pair.b} {_at(pair)} × ({kind})" for kind, pair in zip(kinds, bounded, strict=True)
    )
    return finished(alt.layer(*layers).properties(height={"step": 36}), f"{title}: {ratios}")


def _at(pair: Pair) -> str:
    return figures.times(pair.ratio, pair.low, pair.high)[0]


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers on a logarithmic scale: 1, 2, 5, 10 …, or each tenfold of a long scale; even steps of a short one.

    Of ratios, 1 is among them.
    """
    if high / low <= 3:
        return even_ticks(low, high)
    tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if high / low < 1e4 else (1,)
    return [tick for ten in tens for factor in factors if low <= (tick := float(f"{factor}e{ten}")) <= high]


def even_ticks(low: float, high: float) -> list[float]:
    """Up to seven multiples of 1, 2 or 5 times a power of ten (Heckbert 1990)."""
    least = (high - low) / 6
    ten = math.floor(math.log10(least))
    step = next(step for at in (ten, ten + 1) for factor in (1, 2, 5) if (step := float(f"{factor}e{at}")) >= least)
    return [float(f"{step * at:.12g}") for at in range(math.ceil(low / step), math.floor(high / step) + 1)]


def blocks(part: Part) -> Chart:
    """Every block as a point over time, each contender on its own scale; void ones are strokes."""
    race, metric, names = part.race, part.verdict.metric, part.names
    numbers = round_numbers(race, metric)
    start_ns = race.rounds[0].started_ns if race.rounds else 0
    fates = [shown for shown in chart_data.blocks(race) if shown.block.contender in names]
    plain = sum(shown.kind is not chart_data.Fate.VOID for shown in fates)
    step = max(1, -(-plain // MAX_BLOCKS))
    points: list[dict[str, object]] = []
    limits = {name: _limits(fates, name, metric) for name in names}
    kept = 0
    for shown in fates:
        number = chart_data.value(shown.block, metric)
        kept += shown.kind is not chart_data.Fate.VOID
        if number is None or (shown.kind is not chart_data.Fate.VOID and kept % step):
            continue
        low, high = limits[shown.block.contender]
        started_s = round((shown.block.started_ns - start_ns) / 1e9, 3)
        point: dict[str, object] = {
            "name": shown.block.contender,
            "s": started_s,
            "at": _short(min(max(number, low), high)),
        }
        points.append(point | {"kind": shown.kind, "why": "; ".join(map(void_text, shown.block.void))})
    points += [
        {"name": name, "s": round(begin, 3), "until": round(end, 3), "at": _short(number), "kind": "level"}
        for name in names
        for begin, end, number in chart_data.levels(race, numbers, name)
    ]
    # Facets of a layered chart share one data set; each layer picks its own kind.
    data = _values(points)
    x = alt.X("s:Q", title="seconds of the race", axis=alt.Axis(tickCount=6, grid=False))
    y = alt.Y("at:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=3, labelExpr=NUMBER))
    base = alt.Chart().encode(x=x, y=y)

    dropped, used, level, void = (
        base.transform_filter(alt.FieldEqualPredicate(field="kind", equal=kind))
        for kind in ("dropped", "used", "level", "void")
    )
    tips = [alt.Tooltip("name:N"), alt.Tooltip("why:N", title="void")]
    layers = alt.layer(
        dropped.mark_point(style="dropped", aria=False, size=18, shape="diamond"),
        used.mark_circle(style="used", aria=False, size=18),
        level.mark_rule(style="level", aria=False).encode(x2="until:Q"),
        void.mark_tick(style="void", aria=False, size=16, thickness=2, orient="vertical").encode(tooltip=tips),
        data=data,
    ).properties(height=76)
    header = alt.Header(title=None, labelAnchor="start", labelOrient="top", labelPadding=4)
    chart = layers.facet(row=alt.Row("name:N", sort=names, header=header), spacing=10).resolve_scale(y="independent")
    counts = ", ".join(f"{name} {sum(shown.block.contender == name for shown in fates)}" for name in names)
    return finished(chart, f"every block over time; blocks of each contender: {counts}")


def columns(judged: JudgedRace) -> Chart:
    """A line per contender over the columns: how many times each column's best is ahead."""
    shown = columns_of.table(judged)
    names = [name for name, cells in shown.rows if any(cell.ratio for cell in cells)]
    drawn = [
        (name, head, cell, cell.ratio)
        for name, cells in shown.rows
        for (head, _), cell in zip(shown.heads, cells, strict=True)
        if cell.ratio
    ]
    data: list[dict[str, object]] = [
        {"name": name, "column": head, "at": _short(ratio), "text": cell.text}
        | {"low": figures.finite(cell.low), "high": figures.finite(cell.high)}
        for name, head, cell, ratio in drawn
    ]
    most = max((figures.finite(cell.high) or _short(ratio) for *_, cell, ratio in drawn), default=2.0)
    low, high = 0.93, 1.1 * most
    scale = alt.Scale(type="log", nice=False, domain=[low, high], reverse=True)
    ticks = alt.Axis(values=_ticks(low, high), labelExpr="format(datum.value, ',~r')", labelOverlap="parity")
    heads = alt.Scale(domain=[head for head, _ in shown.heads])
    x = alt.X("column:N", title=None, scale=heads, axis=alt.Axis(labelAngle=0))
    y = alt.Y("at:Q", title="times behind the best of each column (log)", scale=scale, axis=ticks)
    colour = alt.Color("name:N", title=None, scale=alt.Scale(domain=names))
    dash = alt.StrokeDash("name:N", title=None, scale=_dashes(names))
    tips = [alt.Tooltip("name:N", title="contender"), alt.Tooltip("column:N"), alt.Tooltip("text:N", title="ratio")]
    base = alt.Chart(_values(data)).encode(x=x, color=colour)
    layers = alt.layer(
        base.mark_line(aria=False, strokeWidth=2).encode(y=y, strokeDash=dash),
        base.mark_rule(aria=False, strokeWidth=2).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_point(aria=False, filled=True, size=70, opacity=1).encode(y=y, tooltip=tips),
    ).properties(height=320)
    listed = "; ".join(f"{name} at {head}: {cell.text}" for name, head, cell, _ in drawn)
    moved = "; ".join(f"{change.first} and {change.second} change places" for change in summary.changes(judged.parts))
    about = f"how many times the best is ahead of each contender, by column: {listed}. {moved or 'No change shown'}"
    return finished(layers, about)


def _dashes(names: Sequence[str]) -> alt.Scale:
    """Colours come round again after eight contenders; the dash distinguishes them, as in the legend."""
    return alt.Scale(domain=list(names), range=[DASHES[at // len(PALETTE) % len(DASHES)] for at in range(len(names))])


def _limits(fates: Sequence[chart_data.BlockFate], name: str, metric: str) -> tuple[float, float]:
    numbers = [(shown.kind, chart_data.value(shown.block, metric)) for shown in fates if shown.block.contender == name]
    used = [number for kind, number in numbers if kind is chart_data.Fate.USED and number is not None]
    return chart_data.edges(used or [number for _, number in numbers if number is not None])


def latency(part: Part) -> Chart:
    """Latency at saturation by percentile, the axis in nines."""
    names, title = part.names, "latency at saturation, µs"
    curves = {name: latency_of.curve(part.race, name) for name in names}
    medians = "; ".join(f"{row.name} p50 {figures.microseconds(row.latency_us.get('p50'))}" for row in part.rows)
    about = f"latency at saturation by percentile, in microseconds: {medians}"
    return percentile_lines(curves, title, about)


def log_axis(low: float, high: float) -> alt.Axis:
    """An axis with even ticks between two values above 0: 1, 2 and 5 of each power of ten, of many powers only 1."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 5) if len(powers) <= 5 else (1,)
    ticks = [digit * 10.0**power for power in powers for digit in digits]
    within = [tick for tick in ticks if low <= tick <= high]
    # On a narrow scale Vega's own ticks, which are almost even there.
    return alt.Axis(labelExpr=NUMBER, **({"values": within} if len(within) > 1 else {"tickCount": 5}))


def percentile_lines(curves: Mapping[str, Sequence[tuple[float, float]]], title: str, description: str) -> Chart:
    """Latencies by percentile, a line each, the axis in nines as HdrHistogram's plotter has it.

    Args:
        curves: by name, each point a percentile and its latency in µs; see ``race.latency.curve_of``.
    """
    names = list(curves)
    points = [(name, share, us) for name, curve in curves.items() for share, us in curve if us > 0]
    data: list[dict[str, object]] = [
        {"name": name, "tail": _short(1 / max(1 - share / 100, 1e-9)), "us": _short(us), "share": f"{share:.6g} %"}
        for name, share, us in points
    ]
    # A fixed expression over numbers of our own: 1, 10, 100 … read as 0 %, 90 %, 99 % ….
    label = "datum.value <= 1 ? '0 %' : format(100 * (1 - 1 / datum.value), '.6~r') + ' %'"
    tails = [1, 2, 10, 100, 1000, 10_000, 100_000, 1_000_000]
    nines = alt.Axis(values=tails, labelExpr=label, grid=True, labelSeparation=8)
    x = alt.X("tail:Q", title="percentile", scale=alt.Scale(type="log", nice=False), axis=nines)
    # From the least to the most there is: a scale that began at a round number would be half empty.
    ends = [_short(us) for *_, us in points] or [1.0]
    scale = alt.Scale(type="log", nice=False, domain=[0.95 * min(ends), 1.05 * max(ends)])
    y = alt.Y("us:Q", title=title, scale=scale, axis=log_axis(min(ends), max(ends)))
    colour = alt.Color("name:N", sort=names, scale=alt.Scale(domain=names), title=None)
    tooltip = [alt.Tooltip("name:N"), alt.Tooltip("share:N", title="percentile"), alt.Tooltip("us:Q", title="µs")]
    dash = alt.StrokeDash("name:N", scale=_dashes(names), title=None)
    lines = alt.Chart(_values(data)).mark_line(aria=False, strokeWidth=2)
    lines = lines.encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tooltip)
    return finished(lines.properties(height=320), description)


CHARTS: Mapping[str, Callable[[Part], Chart]] = {
    "ranking": ranking,
    "pairs": pairs,
    "blocks": blocks,
    "latency": latency,
    "cpu": cpu,
    "memory": memory,
}


def draw(name: str, part: Part, *, dark: bool = False) -> Chart:
    """A chart that needs no page: sized, coloured, on its own ground, with its subject as its title."""
    return _alone(CHARTS[name](part), column_badge(part).line, part.race, dark=dark)


def draw_columns(judged: JudgedRace, *, dark: bool = False) -> Chart:
    """The chart of all columns, as ``draw`` makes one."""
    return _alone(columns(judged), race_badge(judged).line, judged.record, dark=dark)


def _alone(chart: Chart, verdict: str, race: Race, *, dark: bool) -> Chart:
    """The verdict as its title, and below it what was requested, when, and on which machine."""
    colours = DARK if dark else LIGHT
    where = [race.machine.cpu or "unknown processor", f"{len({*race.server_cores, *race.engine_cores})} cores"]
    below = [summary.title(race), f"{race.started[:10]}, {', '.join(where)}, race {race.id}"]
    head: Chart = {
        "text": _folded(verdict),
        "subtitle": [line for text in below for line in _folded(text)],
        "anchor": "start",
        "color": colours["ink"],
        "subtitleColor": colours["quiet"],
        "subtitlePadding": 4,
        "offset": 12,
    }
    ground: Chart = {"title": head, "config": config(colours), "background": colours["ground"], "padding": 14}
    return sized(chart, 760) | ground


def _folded(text: str) -> list[str]:
    """Lines that a picture is wide enough for."""
    return textwrap.wrap(figures.visible(text), TITLE_CHARACTERS) or [""]


def sized(chart: Chart, width: int) -> Chart:
    """The same chart at this width in pixels; a faceted one has it one level down."""
    inner = chart.get("spec")
    return chart | ({"spec": {**inner, "width": width}} if isinstance(inner, Mapping) else {"width": width})


def svg(chart: Chart) -> str:
    """The chart as a picture of lines."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(json.dumps(chart)))


def png(chart: Chart, scale: float = 2) -> bytes:
    """The chart as a picture of dots, for screens of twice the usual density."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(json.dumps(chart), scale=scale))


def _values(rows: Sequence[Mapping[str, object]]) -> alt.InlineData:
    return alt.InlineData(values=[dict(row) for row in rows])


def finished(chart: alt.TopLevelMixin, description: str) -> Chart:
    """The chart's description as Vega-Lite takes it, without a theme yet; text from outside is made harmless."""
    spec: Chart = json.loads(chart.to_json(indent=None, validate=False))
    spec.pop("config", None)
    return {key: _shown(item) for key, item in (spec | {"description": description}).items()}


def _shown(value: Json) -> Json:
    """The same with control characters shown as such: one in a name ends vl-convert, and the process with it."""
    if isinstance(value, str):
        return figures.visible(value)
    if isinstance(value, Mapping):
        return {key: _shown(item) for key, item in value.items()}
    return [_shown(item) for item in value] if isinstance(value, Sequence) else value


def _short(value: float) -> float:
    """Five significant digits: a page holds thousands of them."""
    return float(f"{value:.5g}")
