"""A run of load: in the terminal, as JSON (``schema/load.schema.json``), as HdrHistogram's percentile text, and live.

Latencies of a closed loop run from a request's departure to the kernel's stamp of its answer's last segment (to the
reading of its last byte, where there are no stamps): a server that stalls is asked less often meanwhile, so its tail
looks better than it is to users who don't wait for each other. Those of an open loop run from when the request was
meant to leave.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrh.histogram import HdrHistogram
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from dragstrip.loading.percentiles import QUANTILES
from dragstrip.loading.request import spread
from dragstrip.report import figures, glyphs
from dragstrip.report.load import open_loop as load_open
from dragstrip.report.load.bins import Bin, bins
from dragstrip.report.race import notes
from dragstrip.report.race.histograms import percentiles_text

if TYPE_CHECKING:
    from dragstrip.loading.learn import Learned
    from dragstrip.loading.request import LoadRequest
    from dragstrip.loading.result import LoadResult, Slice

#: Version of the JSON's shape; a field may be added within one, never changed or taken away.
JSON_SCHEMA = 1

#: Rows of the picture at most, and the widths from which it stands beside the percentiles, in cells.
MOST_ROWS, BESIDE, BESIDE_OPEN = 12, 76, 104

#: The generator is the limit from here on; it had to wait for its core for a telling time from there on.
ENGINE_FULL, ENGINE_WAITS = 0.95, 0.10

KIND_MEANS = {
    "connect": "no connection could be opened",
    "refused": "connection refused",
    "reset": "connection reset while an answer was due",
    "closed_early": "connection closed before the answer was complete",
    "timeout": "no complete answer within the time limit (--timeout)",
    "bad_response": "not sound HTTP",
    "wrong_status": "another status than the first plain answer's",
    "wrong_length": "a body of another length than the first plain answer's",
    "wrong_body": "other bytes than the first plain answer's",
    "send": "the request could not be sent",
    "tls": "no TLS handshake, or what came could not be decrypted",
}


@dataclass(frozen=True, slots=True)
class Limit:
    """One service level objective: what was allowed, what came out, and whether it holds."""

    name: str
    text: str
    limit: float
    value: float | None
    met: bool


def histogram(result: LoadResult) -> HdrHistogram | None:
    """All latencies in nanoseconds; None where nothing was answered in time."""
    return decoded(result.latency_hdr) if result.in_time else None


def decoded(recorded: bytes) -> HdrHistogram | None:
    """A histogram as the engine hands it over; None for none."""
    # The library's decode wants the base64 text of the V2 format, header included.
    return HdrHistogram.decode(base64.b64encode(recorded)) if recorded else None


def limits(
    result: LoadResult, *, max_p99_s: float | None, max_errors: float | None, min_reached: float | None = None
) -> list[Limit]:
    """The objectives that were set; one of latency is missed where there is no latency to tell."""
    found: list[Limit] = []
    if max_p99_s is not None:
        latencies = histogram(result)
        p99_s = latencies.get_value_at_percentile(99.0) / 1e9 if latencies else None
        told = f"p99 {_latency(p99_s * 1e9) if p99_s else figures.NONE}, at most {_latency(max_p99_s * 1e9)}"
        found.append(Limit("max-p99", told, max_p99_s, p99_s, p99_s is not None and p99_s <= max_p99_s))
    if max_errors is not None:
        share = result.error_share if result.answered or result.errors else 1.0
        told = f"errors {figures.percent(share)}, at most {figures.percent(max_errors)}"
        found.append(Limit("max-errors", told, max_errors, share, share <= max_errors))
    if min_reached is not None:
        share, told = load_open.reached(result)
        told = f"{told}, at least {figures.percent(min_reached)}"
        found.append(Limit("min-reached", told, min_reached, share, share >= min_reached))
    return found


def warnings(result: LoadResult) -> list[str]:
    """What keeps the numbers from meaning what they seem to mean, in words."""
    told = [*result.notes, *load_open.warnings(result)]
    if result.engine_share >= ENGINE_FULL:
        told.append(
            f"the load generator was the limit: its {_cores(result)} busy {result.engine_share:.0%} of the time, so "
            "the server may be faster than this; give it more cores (-t), or move the server off them"
        )
    elif result.engine_wait_share >= ENGINE_WAITS:
        told.append(
            f"the load generator had to wait for its {_cores(result, were=False)} {result.engine_wait_share:.0%} of "
            "the time: other programs, the server perhaps, run there too; pin the server elsewhere (taskset -c)"
        )
    latencies = histogram(result)
    if result.late and latencies and result.late_s * 1e9 > latencies.get_max_value():
        told.append(
            f"when the time was up {result.late:,} answers were still to come, the last "
            f"{_latency(result.late_s * 1e9)} later: slower than all in the histogram, which they are not in"
        )
    if result.clock_step_s:
        told.append(
            f"the clock was set by {_latency(result.clock_step_s * 1e9)} meanwhile, and arrivals are stamped by it: "
            "latencies of that second can't be trusted; load again"
        )
    elif result.early_stamps:
        told.append(
            f"{result.early_stamps:,} answers were stamped before their requests had left: this machine's clocks "
            "disagree; their latencies are to the time of reading"
        )
    if result.finished == "gave up":
        told.append("ended early: no connection was left, the server refused or dropped them all")
    elif result.answered and result.trouble:
        told.append(f"{result.trouble}; rate and latencies are of the right ones alone")
    if {"wrong_length", "wrong_body"} & result.errors.keys():
        told.append("an answer that changes can't be checked against the first one; choose an address where it stays")
    return told


def _cores(result: LoadResult, *, were: bool = True) -> str:
    one = len(result.cores) == 1
    name = f"core {result.cores[0]}" if one else f"{len(result.cores)} cores"
    return name + ((" was" if one else " were") if were else "")


def sentence(result: LoadResult) -> str:
    """The run in one sentence."""
    keep = "kept alive" if result.request.keepalive else "a new one for each request"
    if result.request.close_after:
        keep = f"each for {figures.count(result.request.close_after)} requests"
    keep += f", {result.request.pipeline} requests on their way on each" if result.request.pipeline > 1 else ""
    keep += f", encrypted ({result.learned.tls})" if result.learned.tls else ""
    keep += "" if result.request.http == "1.1" else f", in HTTP/{result.request.http}"
    over = f"over {figures.count(result.connections)} connection{'s' if result.connections != 1 else ''}, {keep}"
    if not result.answered:
        how = "ended early: " if result.finished == "gave up" else ""
        return f"{how}{result.request.url} answered nothing right in {result.duration_s:.2f} s {over}"
    how = "interrupted: " if result.finished == "interrupted" else f"{result.trouble}: " if result.trouble else ""
    return (
        f"{how}{result.request.url} answered {figures.count(result.requests)} requests right in "
        f"{result.duration_s:.2f} s: {figures.figure(result.rate_per_s)} a second {over}"
    )


def show(console: Console, result: LoadResult, objectives: Sequence[Limit] = ()) -> None:
    """Prints the whole report."""
    parts: list[RenderableType] = [Text(sentence(result), style="bold")]
    if offered := load_open.sentence(result):
        parts.append(Text(offered, style="" if result.sustained else "bold magenta"))
    parts.append(Text())
    latencies = histogram(result)
    if latencies:
        parts += [
            Text(f"latency ({load_open.loop(result)})", style="bold"),
            *_latencies(result, latencies, console.width),
            Text(),
        ]
    for name, recorded in (("time to connect", result.connect_hdr), ("time to first byte", result.first_byte_hdr)):
        if times := decoded(recorded):
            parts.append(_times(name, times))
    parts += [*_statuses(result), *_checks(result), _facts(result), Text()]
    warned = [notes.Note("warn", "", line) for line in warnings(result)]
    for one in objectives:
        mark, style = ("●", "blue") if one.met else ("■", "bold magenta")
        parts.append(Text.assemble((f"{mark} {'met' if one.met else 'missed'} ", style), one.text))
    parts += [Text(f"▲ {note.text}", style="yellow") for note in notes.grouped(warned)]
    glyphs.emit(console, *parts)


def _latencies(result: LoadResult, latencies: HdrHistogram, width: int) -> list[RenderableType]:
    """Percentiles and picture, side by side where there is room, so that the whole report fits on a screen."""
    open_loop = result.request.offer is not None
    table = load_open.percentiles(result, latencies, _latency) if open_loop else _percentiles(result, latencies)
    picture = _picture([one for one in bins(latencies, MOST_ROWS) if one.count])
    if width < (BESIDE_OPEN if open_loop else BESIDE):
        return [table, Text(), picture]
    both = Table.grid(padding=(0, 2, 0, 0), expand=True)
    both.add_column()
    both.add_column(ratio=1)
    both.add_row(table, picture)
    return [both]


def _percentiles(result: LoadResult, latencies: HdrHistogram) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    table.add_column("at most", justify="right", no_wrap=True)
    table.add_column("above", justify="right", no_wrap=True)
    for label, q in QUANTILES.items():
        table.add_row(label, _latency(latencies.get_value_at_percentile(q)), load_open.above(result, q))
    table.add_row("max", _latency(latencies.get_max_value()), "0")
    table.add_row("mean", _latency(result.mean_ns), "")
    table.add_row("sd", _latency(latencies.get_stddev()), "")
    return table


def _times(name: str, times: HdrHistogram) -> Text:
    """A histogram in one line."""
    told = [f"p{q} {_latency(times.get_value_at_percentile(q))}" for q in (50, 90, 99)]
    return Text(f"{name} ({times.get_total_count():,}): {', '.join(told)}, max {_latency(times.get_max_value())}")


def _picture(found: Sequence[Bin]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, expand=True, padding=(0, 2, 0, 0))
    for _ in ("bound", "answers", "share"):
        table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1, no_wrap=True)
    most, total = max(one.count for one in found), sum(one.count for one in found)
    for one in found:
        share = one.count / total
        shown = f"{share:.1%}" if share >= 0.0005 or not one.count else "<0.1%"
        table.add_row(f"up to {_latency(one.to_ns)}", figures.count(one.count), shown, _Line(one.count / most))
    return table


@dataclass(frozen=True, slots=True)
class _Line:
    """A bar without an interval; what is not nothing gets at least a cell."""

    share: float

    def __rich_console__(self, console: Console, options: Any) -> Any:
        width = round(self.share * min(options.max_width, 60))
        yield Text("█" * max(width, 1 if self.share else 0), style=glyphs.BAR)


def _checks(result: LoadResult) -> list[RenderableType]:
    learned = result.learned
    what = f"status {learned.status} and the same {len(learned.body):,} bytes of body"
    if len(result.request.pool) > 1:
        what = f"each of {len(result.request.pool):,} different requests has its own right answer"
    if result.by_length:
        what += "; large bodies by their length, the first ones and one in 64 byte by byte (--check)"
    if not result.errors:
        return [Text.assemble(("● ", "blue"), f"every answer was checked and right: {what}")]
    right = f"{result.requests:,} right ({what}), {sum(result.errors.values()):,} not:"
    parts: list[RenderableType] = [Text.assemble(("■ ", "bold magenta"), f"every answer was checked: {right}")]
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 2))
    samples = result.samples
    for kind, count in result.errors.items():
        table.add_row(Text(f"{count:,}", justify="right"), kind.replace("_", " "), KIND_MEANS.get(kind, ""))
        if kind in samples:
            table.add_row("", "", Text(f"the first: {samples[kind][:200]!r}", style="dim"))
    parts.append(table)
    return parts


def _statuses(result: LoadResult) -> list[RenderableType]:
    """Answers by status code, as hey and oha have them: those that could be read."""
    found = result.statuses
    if len(found) < 2:
        return []  # the checks name it
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 2))
    for code, count in found.items():
        phrase = HTTPStatus(code).phrase if code in set(HTTPStatus) else ""
        share = figures.percent(count / sum(found.values()))
        table.add_row(f"{code}", phrase, *(Text(cell, justify="right") for cell in (f"{count:,}", share)))
    return [Text("answers by status", style="bold"), table, Text()]


def _facts(result: LoadResult) -> Text:
    late = f", {result.late:,} of them after the time was up" if result.late else ""
    unanswered = result.sent - result.requests - result.failed
    lines = [
        f"sent {result.sent:,} (the first {result.request.plain} to learn the right answer: not in rate or latency)",
        f"answered right {result.requests:,}{late}, failed {result.failed:,}"
        + (f", unanswered {unanswered:,}" if unanswered else "")
        + f"; read {figures.memory(result.bytes_in)}, written {figures.memory(result.bytes_out)}",
        f"connections opened {result.connects:,}, answers on a reused one {result.reused:,}",
        f"load generator: {figures.microseconds(result.engine_us_per_request)} µs CPU per request, "
        f"{result.engine_share:.0%} of core {','.join(map(str, result.cores))}; connections waited for it "
        f"{result.turn_share:.0%} of the time; {result.io.partition(' (')[0]}",
    ]
    return Text("\n".join(lines), style="dim")


def _latency(value_ns: float | None) -> str:
    """A latency with its unit."""
    value = figures.finite(value_ns)
    if value is None:
        return figures.NONE
    if value < 999_500:
        return f"{figures.microseconds(value / 1e3)} µs"
    return f"{figures.figure(value / 1e6)} ms" if value < 999_950_000 else f"{value / 1e9:.2f} s"


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that ``load_json`` follows."""
    path = Path(__file__).parents[2] / "data" / "schema" / "load.schema.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _right_json(result: LoadResult) -> dict[str, Any]:
    learned, checked = result.learned, "length" if result.by_length else "full"
    return {"status": learned.status, "body_bytes": len(learned.body), "server": learned.server, "checked": checked}


def load_json(result: LoadResult, objectives: Sequence[Limit] = ()) -> dict[str, Any]:
    """The run; numbers that there are none of are null."""
    request, learned = result.request, result.learned
    return {
        "schema": JSON_SCHEMA,
        "url": request.url,
        "method": request.method,
        "started": result.started,
        "finished": result.finished,
        "software": result.software,
        "load": {
            "loop": "open" if request.offer else "closed",
            "connections": result.connections,
            "threads": len(result.cores),
            "engine_cores": list(result.cores),
            "keepalive": request.keepalive,
            "http": request.http,
            "unix": request.unix,
            "tls": {"version": learned.tls, "verified": not request.insecure} if learned.tls else None,
            "close_after": request.close_after,
            "pipeline": request.pipeline,
            "sources": spread(request),
            "requests": request.requests,
            "duration_s": request.duration_s,
            "timeout_s": request.timeout_s,
        },
        "right_answer": _right_json(result),
        "requests": result.requests,
        "plain_requests": request.plain,
        "different_requests": max(len(request.pool), 1),
        "late": result.late,
        "late_s": result.late_s,
        "sent": result.sent,
        "failed": result.failed,
        "unanswered": result.sent - result.requests - result.failed,
        **_errors_json(result),
        "duration_s": result.duration_s,
        "rate_per_s": result.rate_per_s,
        "latency_us": _latency_json(result),
        "latency_clock": load_open.loop(result),
        "latency_hdr": base64.b64encode(result.latency_hdr).decode("ascii"),
        "open_loop": load_open.as_json(result),
        "connections_opened": result.connects,
        "connect_us": _times_json(result.connect_hdr),
        "first_byte_us": _times_json(result.first_byte_hdr),
        "answers_on_reused_connections": result.reused,
        "bytes_in": result.bytes_in,
        "bytes_out": result.bytes_out,
        "engine": {
            "cpu_us_per_request": result.engine_us_per_request,
            "busy_share": result.engine_share,
            "wait_share": result.engine_wait_share,
            "was_the_limit": result.engine_share >= ENGINE_FULL,
            "turn_share": result.turn_share,
            "io": result.io,
        },
        "slices": [_slice_json(part) for part in result.slices],
        "limits": [{"name": one.name, "limit": one.limit, "value": one.value, "met": one.met} for one in objectives],
        "warnings": warnings(result),
    }


def _errors_json(result: LoadResult) -> dict[str, Any]:
    return {
        "errors": result.errors,
        "error_sample": next(iter(result.samples.values()), ""),
        "error_samples": result.samples,
        "status_codes": {str(code): count for code, count in result.statuses.items()},
    }


def _latency_json(result: LoadResult) -> dict[str, float | None]:
    latencies = histogram(result)
    if not latencies or result.mean_ns is None:
        return dict.fromkeys(["min", "mean", "sd", *QUANTILES, "max"])
    found: dict[str, float | None] = {
        "min": latencies.get_min_value() / 1000,
        "mean": result.mean_ns / 1000,
        "sd": latencies.get_stddev() / 1000,
    }
    found |= {label: latencies.get_value_at_percentile(q) / 1000 for label, q in QUANTILES.items()}
    return found | {"max": latencies.get_max_value() / 1000}


def _times_json(recorded: bytes) -> dict[str, float | int] | None:
    times = decoded(recorded)
    if not times:
        return None
    found: dict[str, float | int] = {"count": times.get_total_count(), "mean": times.get_mean_value() / 1000}
    found |= {label: times.get_value_at_percentile(q) / 1000 for label, q in QUANTILES.items()}
    return found | {"max": times.get_max_value() / 1000}


def _slice_json(part: Slice) -> dict[str, Any]:
    return {
        "duration_s": part.counted_ns / 1e9,
        "requests": part.answered,
        "rate_per_s": part.requests * 1e9 / max(part.counted_ns, 1),
        "p50_us": part.p50_ns / 1000 if part.requests else None,
        "p99_us": part.p99_ns / 1000 if part.requests else None,
        "max_us": part.max_ns / 1000 if part.requests else None,
        "errors": part.errors,
    }


def hgrm(result: LoadResult) -> str:
    """HdrHistogram's percentile distribution in milliseconds, as its plotter and wrk2's readers take it."""
    return percentiles_text(histogram(result) or HdrHistogram(1, 60_000_000_000, 3))


class Live:
    """A run as it goes: one line on a terminal, redrawn between slices only, gone at the end; else nothing."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._shown = console.is_terminal and not quiet

    def begun(self, request: LoadRequest, learned: Learned, doubts: Sequence[str]) -> None:
        """What the right answer is was learned; the load begins; ``doubts`` stay on the screen, unless quiet."""
        for line in () if self._quiet else doubts:
            self._console.print(Text(f"dragstrip: {line}"), soft_wrap=True)
        self._draw(f"{request.url}: status {learned.status}, {len(learned.body):,} bytes; loading")

    def slice_done(self, request: LoadRequest, done: Sequence[Slice]) -> None:
        """How it stands."""
        part, spent_s = done[-1], sum(one.counted_ns for one in done) / 1e9
        sent, failed = sum(one.sent for one in done), sum(sum(one.errors.values()) for one in done)
        of = f" of {request.duration_s:g} s" if request.duration_s else ""
        of += f", {sent:,} of {request.requests:,} sent" if request.requests else ""
        rate = figures.brief(part.requests * 1e9 / max(part.counted_ns, 1))
        errors = f"{failed:,} errors" if failed else "no error"
        self._draw(f"{spent_s:.0f} s{of} · {rate}/s · p99 {_latency(part.p99_ns)} · {errors}")

    def close(self) -> None:
        """Takes the line away; safe to call twice."""
        self._draw("")

    def _draw(self, line: str) -> None:
        if self._shown:
            line = line if not self._console.options.ascii_only else line.replace("·", "-").replace("µ", "u")
            self._console.file.write(f"\r{line[: self._console.width - 1]}\x1b[K")
            self._console.file.flush()
