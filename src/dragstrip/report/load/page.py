"""A run of load as one HTML file that needs nothing else: no network, light and dark, screen and paper."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Template

from dragstrip.record import LoadVerdict
from dragstrip.report import figures, pages
from dragstrip.report.load import charts, terminal
from dragstrip.report.load.report import LoadReport
from dragstrip.store.json_values import JsonObject

#: Rows of the table over time at most: a page of a long run must still open on a phone. The data has all.
MAX_ROWS = 3600

#: The badge of each verdict: its colour, and its word.
_BADGES = {
    LoadVerdict.OK: ("faster", "OK"),
    LoadVerdict.MISSED: ("void", "LIMIT MISSED"),
    LoadVerdict.FAILED: ("void", "FAILED"),
    LoadVerdict.INTERRUPTED: ("undecided", "INTERRUPTED"),
}


def render(content: JsonObject, verdict: LoadVerdict, load_id: str = "") -> str:
    """The whole page as text.

    Args:
        content: the run's JSON. load_id: "" if the run is not stored.

    Raises:
        TypeError: the JSON is not valid.
    """
    report = LoadReport.of(content)
    drawn = charts.charts(report)
    colour, word = _BADGES[verdict]
    return _template().render(
        **pages.frame("load", content, drawn, software=report.software),
        report=report,
        load_id=load_id,
        title=f"{report.subject}: {figures.figure(report.rate_per_s)} per second",
        badge_colour=colour,
        badge=word,
        charts=drawn,
        every=charts.every(report),
        notes=terminal.noted(report),
        times=terminal.times(report),
        percentiles=terminal.percentiles(report),
        heads=[name if len(report.histograms) > 1 else "latency" for name in report.histograms],
        checked=terminal.check_sentence(report),
        failures=terminal.failures(report),
        statuses=terminal.statuses(report),
        slices=report.intervals[:MAX_ROWS],
    )


@cache
def _template() -> Template:
    environment = pages.templates(Path(__file__).parent)
    environment.filters |= {"us": lambda us: figures.latency_text(None if us is None else us * 1000)}
    return environment.get_template("page.html.j2")
