"""What keeps the numbers of a run of load from meaning what they seem to mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragstrip.loading.percentiles import decoded
from dragstrip.metrics import DELAYED_NS, GATHERED, LATE_NS, TICKS_NS
from dragstrip.record import LoadEnding
from dragstrip.report import figures
from dragstrip.report.load.latency import histogram, latency_text

if TYPE_CHECKING:
    from dragstrip.loading.result import LoadResult

#: Busy shares of the load generator's cores: from the first on it is the limit; the second is a wait for its core that
#: shows in the numbers.
ENGINE_FULL, ENGINE_WAITS = 0.95, 0.10

#: Departures from which on one in a hundred says something.
MANY = 1000


def warnings(result: LoadResult) -> list[str]:
    """What keeps the numbers from meaning what they seem to mean, a sentence each."""
    messages = [*result.notes, *_open_loop(result), *_connections(result), *_gathered(result)]
    count = len(result.cores)
    if result.generators:
        cores, were = f"{count} cores on {', '.join(result.generators)}", "were"
        add = "name more cores, or more generators, in the fleet's file"
        free = "other programs run there too; end them, or name other cores in the fleet's file"
    else:
        cores, were = (f"{count} cores", "were") if count != 1 else (f"core {result.cores[0]}", "was")
        add = "give it more cores (-t), or move the server off them"
        free = "other programs, the server perhaps, run there too; pin the server elsewhere (taskset -c)"
    if result.script and result.script.fault:
        messages.append(f"done() failed: {result.script.fault}")
    if result.engine_share >= ENGINE_FULL:
        messages.append(
            f"the load generator was the limit: its {cores} {were} busy {result.engine_share:.0%} of the time, so "
            f"the server may be faster than this; {add}"
        )
    elif result.engine_wait_share >= ENGINE_WAITS:
        messages.append(
            f"the load generator had to wait for its {cores} {result.engine_wait_share:.0%} of the time: {free}"
        )
    latencies = histogram(result)
    if result.late and latencies and result.late_s * 1e9 > latencies.get_max_value():
        messages.append(
            f"{result.late:,} responses arrived after the end of the run, the last "
            f"{latency_text(result.late_s * 1e9)} after it, slower than anything in the histogram; the histogram "
            "excludes them"
        )
    if result.clock_step_s:
        messages.append(
            f"the clock was set by {latency_text(result.clock_step_s * 1e9)} during the run, and arrival times are "
            "taken from it: don't trust the latencies of that second; run again"
        )
    elif result.early_stamps:
        messages.append(
            f"{result.early_stamps:,} responses carry a timestamp earlier than their request's: this machine's "
            "clocks disagree; their latencies end at the time of reading"
        )
    if result.finished is LoadEnding.GAVE_UP:
        messages.append("ended early: the server refused or dropped every connection")
    elif result.answered and result.trouble and not (result.script and result.script.fault):
        messages.append(f"{result.trouble}; rate and latencies cover only correct responses")
    if result.exchanged:
        messages.append(
            "a response's body is the reference of another request: the server responds in another order than the "
            "requests came in, or mixes requests up (RFC 9112, 9.3.2); that is a defect of the server"
        )
    elif {"wrong_length", "wrong_body"} & result.errors.keys():
        messages.append(
            "a response that changes can't be checked against the reference; choose a URL with a constant response, or "
            "add --check length or --check status"
        )
    return messages


def _connections(result: LoadResult) -> list[str]:
    """What the server did with fewer connections, streams or pipelined requests than it was offered."""
    request, messages = result.request, []
    if result.opened is not None and result.opened < result.connections:
        messages.append(
            f"the server accepted {result.opened:,} of {result.connections:,} connections before the load began; "
            f"raise its backlog or its limit of connections, or use -c {max(result.opened, 1)}"
        )
    if result.streams is not None and result.streams < request.streams:
        messages.append(
            f"--streams {request.streams}: the server allows {result.streams} concurrent streams on a connection, and "
            "no more were in flight; raise its limit (SETTINGS_MAX_CONCURRENT_STREAMS), or use more connections (-c)"
        )
    ahead, late = result.answered_ahead, result.errors.get("timeout", 0)
    if request.pipeline > 1 and ahead < request.pipeline:
        messages.append(
            f"--pipeline {request.pipeline}: the server answers {ahead} of the requests that arrive together, and "
            "leaves the others without a response; it does not support pipelining"
        )
    slowest_ns = max((part.max_ns for part in result.slices if part.requests), default=0)
    at_work = result.at_work
    alone = request.pipeline == 1 and request.streams == 1 and not result.silent_s
    if late and alone and at_work and slowest_ns < request.timeout_s * 5e8:
        messages.append(
            f"{late:,} requests timed out although no response took longer than {latency_text(slowest_ns)}: the server "
            f"leaves connections without any response, and serves about {figures.figure(max(at_work, 1.0))} of "
            f"{result.connections:,} at a time (rate × latency); give it more threads or workers, or use fewer "
            "connections (-c)"
        )
    return messages


def _gathered(result: LoadResult) -> list[str]:
    """Whether most responses wait for a delayed acknowledgement (Linux: 40 ms)."""
    latencies = histogram(result)
    if latencies is None:
        return []
    low_ns, high_ns = DELAYED_NS
    if not all(low_ns <= latencies.get_value_at_percentile(q) <= high_ns for q in (50, 75)):
        return []
    return [GATHERED]


def _open_loop(result: LoadResult) -> list[str]:
    """How an open loop differs from the requested one."""
    offer, share = result.request.offer, result.reached_share
    if not offer or share is None:
        return []
    messages = []
    if not result.sustained:
        unsent = f", {result.unsent:,} of them never" if result.unsent else ""
        messages.append(
            f"not sustained: {result.offered - result.departed:,} of {result.offered:,} requests did not leave in time"
            f"{unsent}; under such a load latency grows for as long as the run lasts, so it reflects the length of "
            "the run more than the server; offer less, or open more connections (-c) if the server can take them"
        )
    lag = decoded(result.lag_hdr)
    allowed_ns = LATE_NS + TICKS_NS[offer.precision]
    if lag and result.sustained and result.departed >= MANY and lag.get_value_at_percentile(99.0) > allowed_ns:
        late = f"{figures.figure(lag.get_value_at_percentile(99.0) / 1e6)} ms"
        messages.append(
            f"one request in a hundred left more than {late} late: no connection was free, or the load generator did "
            "not wake up in time; more connections (-c) or a core of its own would show which"
        )
    return messages
