"""A run of load in the terminal: the whole report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from hdrh.histogram import HdrHistogram
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from dragstrip.loading.arrivals import describe_offer
from dragstrip.loading.percentiles import QUANTILES, decoded
from dragstrip.loading.request import RESUMED
from dragstrip.record import Backend, LoadEnding
from dragstrip.report import figures, glyphs
from dragstrip.report.load.bins import Bin, bins
from dragstrip.report.load.latency import clock_text, histogram, latency_text
from dragstrip.report.load.limits import Limit
from dragstrip.report.load.warnings import warnings
from dragstrip.report.race import notes
from dragstrip.validity.check import Status

if TYPE_CHECKING:
    from dragstrip.loading.result import LoadResult

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


#: Failures of connections that were never open.
NOT_CONNECTED = {"connect", "refused", "tls"}


def sentence(result: LoadResult) -> str:
    """The run in one sentence."""
    keep = "kept alive" if result.request.keepalive else "a new one for each request"
    if result.request.keepalive and result.answered > 1 and not result.reused:
        keep = "each closed after its response"
    if result.request.close_after:
        keep = f"each for {figures.count(result.request.close_after)} requests"
    if (ahead := result.request.pipeline) > 1:
        left = f", {result.answered_ahead} of them answered" if result.answered_ahead < ahead else ""
        keep += f", {ahead} requests in flight on each{left}"
    if result.target.tls:
        handshakes = "resumed sessions" if result.request.handshakes == RESUMED else "full handshakes"
        keep += f", encrypted ({', '.join(filter(None, (result.learned.tls, handshakes)))})"
    keep += "" if result.request.http == "1.1" else f", in HTTP/{result.request.http}"
    streams = result.request.streams if result.streams is None else result.streams
    keep += f" with {streams} streams on each" if result.request.streams > 1 else ""
    over = f"over {figures.count(result.connections)} connection{'s' if result.connections != 1 else ''}, {keep}"
    if not result.answered:
        how = "ended early: " if result.finished is LoadEnding.GAVE_UP else ""
        if result.errors and not result.errors.keys() - NOT_CONNECTED:
            why = result.samples[next(iter(result.errors))].removeprefix("connect: ")
            return f"{how}no connection to {result.request.url} could be opened ({why})"
        return f"{how}{result.request.url} sent no correct response in {result.duration_s:.2f} s {over}"
    stops = {LoadEnding.INTERRUPTED: "interrupted: ", LoadEnding.SCRIPT: "ended by its script: "}
    how = stops.get(result.finished, f"{result.trouble}: " if result.trouble else "")
    failed = f", and {figures.count(result.failed)} requests failed," if result.failed else ""
    return (
        f"{how}{result.request.url} sent {figures.count(result.requests)} "
        f"correct response{'s' if result.requests != 1 else ''}{failed} in "
        f"{result.duration_s:.2f} s: {figures.figure(result.rate_per_s)} per second {over}"
    )


def _offered(result: LoadResult) -> str:
    """What an open loop offered and what became of it; "" for a closed loop."""
    offer = result.request.offer
    if not offer or result.reached_share is None:
        return ""
    share = figures.percent(result.reached_share)
    became = f"sustained ({share} left on time)" if result.sustained else f"not sustained, only {share} left in time"
    return f"offered {describe_offer(offer)}: {became}"


def show(console: Console, result: LoadResult, limits: Sequence[Limit] = ()) -> None:
    """Prints the whole report; a script's own output comes before and after it, as it is."""
    script = result.script
    # The script's own output: not wrapped, not marked.
    console.file.write(whole_lines(script.before + script.during if script else ""))
    _show(console, result, limits)
    console.file.write(whole_lines(script.after if script else ""))


def whole_lines(text: str) -> str:
    """A text that ends its last line."""
    return text if text.endswith("\n") or not text else text + "\n"


def _show(console: Console, result: LoadResult, limits: Sequence[Limit]) -> None:
    parts: list[RenderableType] = [Text(sentence(result), style="bold")]
    if offered := _offered(result):
        parts.append(Text(offered, style="" if result.sustained else "bold magenta"))
    parts.append(Text())
    latencies = histogram(result)
    if latencies:
        head = Text(f"latency ({clock_text(result)})", style="bold")
        parts += [head, *_latencies(result, latencies, console.width), Text()]
    for name, recorded in (("time to connect", result.connect_hdr), ("time to first byte", result.first_byte_hdr)):
        if times := decoded(recorded):
            quantiles = [f"p{q} {latency_text(times.get_value_at_percentile(q))}" for q in (50, 90, 99)]
            quantiles.append(f"max {latency_text(times.get_max_value())}")
            parts.append(Text(f"{name} ({times.get_total_count():,}): {', '.join(quantiles)}"))
    parts += [*_statuses(result), *_checks(result), _facts(result), Text()]
    warned = [notes.Note(Status.WARN, "", line) for line in warnings(result)]
    for limit in limits:
        mark, style = ("●", "blue") if limit.met else ("■", "bold magenta")
        parts.append(Text.assemble((f"{mark} {'met' if limit.met else 'missed'} ", style), limit.text))
    parts += [Text(f"▲ {note.text}", style="yellow") for note in notes.grouped(warned)]
    glyphs.emit(console, *parts)


def _latencies(result: LoadResult, latencies: HdrHistogram, width: int) -> list[RenderableType]:
    """Percentiles and picture, side by side if there is room, so that the whole report fits on a screen."""
    is_open = result.request.offer is not None
    table = _percentiles(result, latencies)
    picture = _picture([bin_ for bin_ in bins(latencies, MAX_ROWS) if bin_.count])
    if width < (BESIDE_OPEN if is_open else BESIDE):
        return [table, Text(), picture]
    both = Table.grid(padding=(0, 2, 0, 0), expand=True)
    both.add_column()
    both.add_column(ratio=1)
    both.add_row(table, picture)
    return [both]


def _percentiles(result: LoadResult, latencies: HdrHistogram) -> Table:
    """An open loop also has latency from the actual send, and how late that was."""
    is_open = result.request.offer is not None
    times = {"at most": latencies}
    if is_open:
        times |= {"from actual send": decoded(result.latency_sent_hdr), "send delay": decoded(result.lag_hdr)}
    table = glyphs.table("", numbers=(*times, "above"))

    def add(label: str, value_ns: Callable[[HdrHistogram], float | None], above: str = "") -> None:
        cells = [latency_text(value_ns(histogram) if histogram else None) for histogram in times.values()]
        table.add_row(label, *cells, above)

    for label, q in QUANTILES.items():
        above = result.in_time * (100 - q) / 100
        count = figures.count(round(above)) if above >= 1 else "<1"
        add(label, partial(HdrHistogram.get_value_at_percentile, percentile=q), count)
    add("max", HdrHistogram.get_max_value, "0")
    if is_open:
        add("mean", HdrHistogram.get_mean_value)
    else:
        add("mean", lambda _: result.mean_ns)
        add("sd", HdrHistogram.get_stddev)
    return table


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


def _checked(result: LoadResult) -> str:
    """Which parts of each response were checked."""
    learned = result.learned
    if result.any_body:
        status = f"status {learned.status}" if learned.status else "a status from 200 to 399"
        return f"{status}; only statuses were checked, not bodies"
    what = f"status {learned.status} and the same {len(learned.body):,} bytes of body"
    if (different := len(set(result.request.pool))) > 1:
        what = f"each of {different:,} different requests has its own correct response"
    if result.request.check == "length":
        return f"status {learned.status} and {len(learned.body):,} bytes of body; lengths were checked, not bytes"
    if result.by_length:
        what += "; large bodies by their length, the first ones and one in 64 byte by byte (--check)"
    return what


def _checks(result: LoadResult) -> list[RenderableType]:
    what = _checked(result)
    if not result.errors:
        return [Text.assemble(("● ", "blue"), f"every response was checked and correct: {what}")]
    counts = f"{result.requests:,} correct ({what}), {sum(result.errors.values()):,} not:"
    parts: list[RenderableType] = [Text.assemble(("■ ", "bold magenta"), f"every response was checked: {counts}")]
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 2))
    samples = result.samples
    for kind, count in result.errors.items():
        learned = kind != "wrong_status" or result.plain
        means = KIND_MEANS.get(kind, "") if learned else "another status than the correct one"
        table.add_row(Text(f"{count:,}", justify="right"), kind.replace("_", " "), means)
        if kind in samples:
            table.add_row("", "", Text(f"the first: {samples[kind][:200]!r}", style="dim"))
    parts.append(table)
    return parts


def _statuses(result: LoadResult) -> list[RenderableType]:
    """Readable responses by status code, as in hey and oha."""
    statuses = result.statuses
    if len(statuses) < 2:
        return []  # the checks name it
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 2))
    for code, count in statuses.items():
        phrase = HTTPStatus(code).phrase if code in set(HTTPStatus) else ""
        share = figures.percent(count / sum(statuses.values()))
        table.add_row(f"{code}", phrase, *(Text(cell, justify="right") for cell in (f"{count:,}", share)))
    return [Text("responses by status", style="bold"), table, Text()]


def _cores(result: LoadResult) -> str:
    """The load generator's cores."""
    if result.generators:
        return f"{len(result.cores)} cores on {', '.join(result.generators)}"
    return f"core {','.join(map(str, result.cores))}"


def _facts(result: LoadResult) -> Text:
    late = f", {result.late:,} of them after the end of the run" if result.late else ""
    unanswered = result.sent - result.requests - result.failed
    shaken = result.handshakes_per_s
    lines = [
        f"sent {result.sent:,}"
        + (
            f" (the first {result.plain} to learn the reference response: not in rate or latency)"
            if result.plain
            else ""
        ),
        f"correct responses {result.requests:,}{late}, failed {result.failed:,}"
        + (f", unanswered {unanswered:,}" if unanswered else "")
        + f"; read {figures.memory(result.bytes_in)}, written {figures.memory(result.bytes_out)}",
        f"connections opened {result.connects:,}, responses on reused connections {result.reused:,}"
        + (f"; TLS handshakes under load {figures.figure(shaken)} per second" if shaken is not None else ""),
        (
            f"load generator: {figures.microseconds(result.engine_us_per_request)} µs CPU per request, "
            f"{result.engine_share:.0%} of {_cores(result)}; connections waited for it "
            f"{result.turn_share:.0%} of the time; {'epoll' if result.backend is Backend.EPOLL else 'io_uring'}"
        ),
    ]
    return Text("\n".join(lines), style="dim")
