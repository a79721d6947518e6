"""Charts of a run of load: latency by percentile, and rate, failures and latencies over time."""

from __future__ import annotations

from collections.abc import Callable

import altair as alt

from dragstrip.report import figures
from dragstrip.report.load.report import LoadReport, ReportedSlice
from dragstrip.report.race.charts import NUMBER, Chart, finished, log_axis, percentile_lines
from dragstrip.report.race.latency import curve_of

#: From this many slices on there is something to see over time.
LEAST_SLICES = 2

#: Points of each line at most.
MAX_POINTS = 2000

#: What the lines of latency are called, for people.
_LINES = {"p50_us": "p50", "p99_us": "p99", "max_us": "max"}


def charts(report: LoadReport) -> dict[str, Chart]:
    """The charts that have something to show, by name."""
    drawn = {"latency": latency(report)} if report.latencies else {}
    if len(report.slices) >= LEAST_SLICES:
        drawn["rate"] = rate(report)
        if report.latencies:
            drawn["times"] = times(report)
    return drawn


def latency(report: LoadReport) -> Chart:
    """Latency by percentile on a scale of nines; an open loop also has it from the actual send."""
    names = {"at most": "from when it was meant to leave" if report.open_loop else "latency"}
    histograms = {names.get(name, name): one for name, one in report.histograms.items() if one}
    curves = {name: curve_of(one) for name, one in histograms.items()}
    quantiles = ", ".join(
        f"{label} {figures.latency_text(None if us is None else us * 1000)}"
        for label, us in report.latency_us.items()
        if label in ("p50", "p90", "p99", "p99.9", "max")
    )
    return percentile_lines(curves, "latency, µs", f"latency by percentile of {report.subject}: {quantiles}")


def rate(report: LoadReport) -> Chart:
    """Correct responses per second over time, and failures per second where there were any."""
    rows: list[dict[str, object]] = []
    for at_s, part in _drawn(report, lambda one: -one.rate_per_s):
        rows.append({"name": "correct responses", "s": _short(at_s), "at": _short(part.rate_per_s)})
        if report.errors:
            failed_per_s = sum(part.errors.values()) / max(part.duration_s, 1e-9)
            rows.append({"name": "failures", "s": _short(at_s), "at": _short(failed_per_s)})
    low, high = min(p.rate_per_s for p in report.slices), max(p.rate_per_s for p in report.slices)
    about = f"correct responses per second over time: {figures.figure(low)} to {figures.figure(high)}"
    failed = sum(report.errors.values())
    about += f"; {failed:,} failures" if failed else "; no failure"
    y = alt.Y("at:Q", title="per second", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=5, labelExpr=NUMBER))
    return _over_time(report, rows, y, ["correct responses", *(["failures"] if report.errors else [])], about)


def times(report: LoadReport) -> Chart:
    """Median, 99th percentile and maximum of each slice over time, on a log scale."""
    rows: list[dict[str, object]] = [
        {"name": name, "s": _short(at_s), "at": _short(us)}
        for at_s, part in _drawn(report, lambda one: one.max_us or 0.0)
        for key, name in _LINES.items()
        if (us := getattr(part, key))
    ]
    known = [us for part in report.slices for us in (part.p50_us, part.max_us) if us]
    low, slowest = min(known, default=1.0), max(known, default=1.0)
    scale = alt.Scale(type="log", nice=False, domain=[0.9 * low, 1.1 * slowest])
    y = alt.Y("at:Q", title="latency, µs", scale=scale, axis=log_axis(low, slowest))
    about = (
        f"p50, p99 and maximum of latency over time; the slowest response took {figures.latency_text(slowest * 1000)}"
    )
    return _over_time(report, rows, y, list(_LINES.values()), about)


def every(report: LoadReport) -> int:
    """Of how many slices one is drawn."""
    return max(-(-len(report.slices) // MAX_POINTS), 1)


def _drawn(report: LoadReport, worst: Callable[[ReportedSlice], float]) -> list[tuple[float, ReportedSlice]]:
    """The slices that are drawn, each with the middle of its time in seconds: of several the worst."""
    step, slices = every(report), [(at_s + part.duration_s / 2, part) for at_s, part in report.intervals]
    groups = (slices[at : at + step] for at in range(0, len(slices), step))
    return [max(group, key=lambda one: worst(one[1])) for group in groups]


def _over_time(report: LoadReport, rows: list[dict[str, object]], y: alt.Y, names: list[str], about: str) -> Chart:
    domain = alt.Scale(domain=[0, _short(report.duration_s)], nice=False)
    x = alt.X("s:Q", title="seconds of the load", scale=domain, axis=alt.Axis(tickCount=6, grid=False))
    colour = alt.Color("name:N", sort=names, scale=alt.Scale(domain=names), title=None)
    dash = alt.StrokeDash(
        "name:N", scale=alt.Scale(domain=names, range=[[1, 0], [6, 3], [2, 2]][: len(names)]), title=None
    )
    tips = [alt.Tooltip("name:N"), alt.Tooltip("s:Q", title="s", format=".1f"), alt.Tooltip("at:Q", title="value")]
    lines = alt.Chart(alt.InlineData(values=rows)).mark_line(aria=False, strokeWidth=2, point={"size": 18})
    lines = lines.encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tips)
    return finished(lines.properties(height=240), about)


def _short(value: float) -> float:
    """Five significant digits: a page holds thousands of them."""
    return float(f"{value:.5g}")
