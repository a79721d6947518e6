"""A run of load in the terminal: the whole report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from hdrh.histogram import HdrHistogram
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from dragstrip.loading.percentiles import QUANTILES
from dragstrip.report import figures, glyphs
from dragstrip.report.load.bins import Bin, bins
from dragstrip.report.load.latency import latency_text
from dragstrip.report.load.report import LoadReport
from dragstrip.report.race import notes
from dragstrip.validity.check import Status

#: Maximum rows of the picture, and the widths in cells from which it is shown next to the percentiles.
MAX_ROWS, BESIDE, BESIDE_OPEN = 12, 76, 104

KIND_MEANS = {
    "connect": "no connection could be opened",
    "refused": "connection refused",
    "reset": "connection reset while a response was pending",
    "closed_early": "connection closed before the response was complete",
    "timeout": "no complete response within the time limit (--timeout)",
    "bad_response": "malformed HTTP",
    "wrong_status": "status differs from the reference response's",
    "wrong_length": "a body of another length than the reference response's",
    "wrong_body": "other bytes than the reference response's",
    "send": "the request could not be sent",
    "tls": "TLS handshake failed, or data could not be decrypted",
    "refused_stream": "the server refused a stream (REFUSED_STREAM); its request was sent again",
    "wrong_head": "other headers than the reference response's",
    "request_cut": "the response was complete before its request was sent: the server has not read all of it",
}


def whole_lines(text: str) -> str:
    """A text that ends its last line."""
    return text if text.endswith("\n") or not text else text + "\n"


def show(console: Console, report: LoadReport) -> None:
    """Prints the whole report, without what a script printed."""
    said = report.sentences
    parts: list[RenderableType] = [Text(said.headline, style="bold")]
    if said.offered:
        kept = report.open_loop is not None and report.open_loop.sustained
        parts.append(Text(said.offered, style="" if kept else "bold magenta"))
    parts.append(Text())
    if report.latencies:
        head = Text(f"latency ({report.latency_clock})", style="bold")
        parts += [head, *_latencies(report, report.latencies, console.width), Text()]
    parts += [Text(line) for line in times(report)]
    parts += [*_statuses(report), *_checks(report), Text("\n".join(said.facts), style="dim"), Text()]
    for limit in report.limits:
        mark, style = ("●", "blue") if limit.met else ("■", "bold magenta")
        parts.append(Text.assemble((f"{mark} {'met' if limit.met else 'missed'} ", style), limit.text))
    parts += [Text(f"▲ {note}", style="yellow") for note in noted(report)]
    glyphs.emit(console, *parts)


def noted(report: LoadReport) -> list[str]:
    """Its warnings, like ones in one."""
    return [note.text for note in notes.grouped([notes.RaceNote(Status.WARN, "", line) for line in report.warnings])]


def times(report: LoadReport) -> list[str]:
    """Times other than latencies, a line each: to connect, and to the first byte."""
    lines = []
    for name, recorded in (("time to connect", report.connect_us), ("time to first byte", report.first_byte_us)):
        if recorded:
            values = [f"{q} {latency_text(recorded[q] * 1000)}" for q in ("p50", "p90", "p99", "max")]
            lines.append(f"{name} ({int(recorded['count']):,}): {', '.join(values)}")
    return lines


def _latencies(report: LoadReport, latencies: HdrHistogram, width: int) -> list[RenderableType]:
    """Percentiles and picture, side by side if there is room, so that the whole report fits on a screen."""
    table = glyphs.table("", numbers=(*report.histograms, "above"))
    for row in percentiles(report):
        table.add_row(*row)
    picture = _picture([bin_ for bin_ in bins(latencies, MAX_ROWS) if bin_.count])
    if width < (BESIDE_OPEN if report.open_loop else BESIDE):
        return [table, Text(), picture]
    both = Table.grid(padding=(0, 2, 0, 0), expand=True)
    both.add_column()
    both.add_column(ratio=1)
    both.add_row(table, picture)
    return [both]


def percentiles(report: LoadReport) -> list[tuple[str, ...]]:
    """The table of latencies: label, a cell for each of ``LoadReport.histograms``, and how many responses are above.

    An open loop also has latency from the actual send, and how late that was.
    """
    rows: list[tuple[str, ...]] = []

    def add(label: str, value_ns: Callable[[HdrHistogram], float | None], above: str = "") -> None:
        cells = [latency_text(value_ns(one) if one else None) for one in histograms.values()]
        rows.append((label, *cells, above))

    histograms: Mapping[str, HdrHistogram | None] = report.histograms
    in_time = report.latencies.get_total_count() if report.latencies else 0
    for label, q in QUANTILES.items():
        above = in_time * (100 - q) / 100
        count = figures.count(round(above)) if above >= 1 else "<1"
        add(label, partial(HdrHistogram.get_value_at_percentile, percentile=q), count)
    add("max", HdrHistogram.get_max_value, "0")
    if report.open_loop:
        add("mean", HdrHistogram.get_mean_value)
    else:
        mean_us = report.latency_us["mean"]
        add("mean", lambda _: None if mean_us is None else mean_us * 1000)
        add("sd", HdrHistogram.get_stddev)
    return rows


def _picture(histogram_bins: Sequence[Bin]) -> Table:
    table = glyphs.table(numbers=("bound", "responses", "share"), header=False, expand=True)
    table.add_column(ratio=1, no_wrap=True)
    most, total = max(bin_.count for bin_ in histogram_bins), sum(bin_.count for bin_ in histogram_bins)
    for bin_ in histogram_bins:
        share = bin_.count / total
        shown = f"{share:.1%}" if share >= 0.0005 or not bin_.count else "<0.1%"
        table.add_row(f"up to {latency_text(bin_.to_ns)}", figures.count(bin_.count), shown, _Line(bin_.count / most))
    return table


@dataclass(frozen=True, slots=True)
class _Line:
    """A bar without an interval; a share above 0 gets at least a cell."""

    share: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = round(self.share * min(options.max_width, 60))
        yield Text("█" * max(width, 1 if self.share else 0), style=glyphs.BAR)


def check_sentence(report: LoadReport) -> str:
    """Which responses were checked, how, and how many were correct."""
    what, failures = report.sentences.checked, sum(report.errors.values())
    if not failures:
        return f"every response was checked and correct: {what}"
    return f"every response was checked: {report.requests:,} correct ({what}), {failures:,} not:"


def failures(report: LoadReport) -> list[tuple[str, str, str, str]]:
    """Each kind of failure: its count, its name, what it means, and the first one's beginning ("" if unknown)."""
    rows = []
    for kind, count in report.errors.items():
        learned = kind != "wrong_status" or report.plain_requests
        means = KIND_MEANS.get(kind, "") if learned else "another status than the correct one"
        first = repr(report.error_samples[kind][:200]) if kind in report.error_samples else ""
        rows.append((f"{count:,}", kind.replace("_", " "), means, first))
    return rows


def _checks(report: LoadReport) -> list[RenderableType]:
    rows = failures(report)
    mark, style = ("■ ", "bold magenta") if rows else ("● ", "blue")
    parts: list[RenderableType] = [Text.assemble((mark, style), check_sentence(report))]
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 2))
    for count, kind, means, first in rows:
        table.add_row(Text(count, justify="right"), kind, means)
        if first:
            table.add_row("", "", Text(f"the first: {first}", style="dim"))
    return [*parts, table] if rows else parts


def statuses(report: LoadReport) -> list[tuple[str, str, str, str]]:
    """Readable responses by status code, as in hey and oha: code, phrase, count and share; none if all had one."""
    counts = {int(code): count for code, count in report.status_codes.items()}
    if len(counts) < 2:
        return []  # the checks name it
    total = sum(counts.values())
    phrases = {code: HTTPStatus(code).phrase if code in set(HTTPStatus) else "" for code in counts}
    return [(f"{code}", phrases[code], f"{n:,}", figures.percent(n / total)) for code, n in counts.items()]


def _statuses(report: LoadReport) -> list[RenderableType]:
    rows = statuses(report)
    if not rows:
        return []
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 2))
    for code, phrase, *numbers in rows:
        table.add_row(code, phrase, *(Text(cell, justify="right") for cell in numbers))
    return [Text("responses by status", style="bold"), table, Text()]
