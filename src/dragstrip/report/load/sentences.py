"""A run of load in sentences: the run itself, what was offered, what was checked, and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragstrip.loading.arrivals import describe_offer
from dragstrip.loading.request import RESUMED
from dragstrip.record import Backend, LoadEnding
from dragstrip.report import figures

if TYPE_CHECKING:
    from dragstrip.loading.result import LoadResult

#: Failures of connections that were never open.
NOT_CONNECTED = {"connect", "refused", "tls"}


def headline(result: LoadResult) -> str:
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


def offered(result: LoadResult) -> str:
    """What an open loop offered and what became of it; "" for a closed loop."""
    offer = result.request.offer
    if not offer or result.reached_share is None:
        return ""
    share = figures.percent(result.reached_share)
    became = f"sustained ({share} left on time)" if result.sustained else f"not sustained, only {share} left in time"
    return f"offered {describe_offer(offer)}: {became}"


def checked(result: LoadResult) -> str:
    """Which parts of each response were checked."""
    learned = result.learned
    if result.any_body:
        status = f"status {learned.status}" if learned.status else "a status from 200 to 399"
        return f"{status}; only statuses were checked, not bodies"
    what = f"status {learned.status} and the same {len(learned.body):,} bytes of body"
    if (different := len(set(result.request.pool))) > 1:
        what = f"each of {different:,} different requests has its own correct response"
    if learned.changing:
        what = f"status {learned.status} and the JSON; values that change by themselves by their type alone: "
        what += ", ".join(learned.changing)
    if result.request.check == "length" or learned.by_length:
        return f"status {learned.status} and {len(learned.body):,} bytes of body; lengths were checked, not bytes"
    if result.by_length:
        what += "; large bodies by their length, the first ones and one in 64 byte by byte (--check)"
    return what


def _cores(result: LoadResult) -> str:
    """The load generator's cores."""
    if result.generators:
        return f"{len(result.cores)} cores on {', '.join(result.generators)}"
    return f"core {','.join(map(str, result.cores))}"


def facts(result: LoadResult) -> list[str]:
    """Counts, connections and the load generator, a line each."""
    late = f", {result.late:,} of them after the end of the run" if result.late else ""
    unanswered = result.sent - result.requests - result.failed
    shaken = result.handshakes_per_s
    return [
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
