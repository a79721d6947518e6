"""A run of load in the shape of h2load's report (nghttp2 1.5x)."""

from __future__ import annotations

from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from hdrh.histogram import HdrHistogram

from dragstrip.report.load.latency import recorded_histogram, within_deviation

if TYPE_CHECKING:
    from dragstrip.loading.result import LoadResult


def h2load(result: LoadResult, latencies: HdrHistogram | None) -> str:
    """The report; numbers that nobody measured are left out with their lines (docs/other-tools.md names them)."""
    errors = result.errors
    succeeded, late = result.requests, errors.get("timeout", 0)
    wrong = sum(errors.get(kind, 0) for kind in ("wrong_status", "wrong_length", "wrong_body"))
    errored = result.failed - wrong  # as there: the late are among them, and they among the failed
    read_bytes = result.bytes_in
    counts = dict.fromkeys("2345", 0)
    for status, count in result.statuses.items():
        counts[str(status)[0]] = counts.get(str(status)[0], 0) + count
    lines = [
        "starting benchmark...",
        *_spawned(result),
        *_protocols(result),
        "",
        f"finished in {_span(result.duration_s * 1e6)}, {result.rate_per_s:.2f} req/s, "
        f"{_bytes(read_bytes / result.duration_s if result.duration_s else 0.0)}/s",
        f"requests: {result.sent} total, {result.sent} started, {succeeded + wrong} done, {succeeded} succeeded, "
        f"{result.failed} failed, {errored} errored, {late} timeout",
        "status codes: " + ", ".join(f"{counts[first]} {first}xx" for first in "2345"),
        _traffic(result),
        "                     min         max         mean         sd        +/- sd",
        _times("time for request", latencies, result.mean_ns),
    ]
    for name, recorded in (("time for connect", result.connect_hdr), ("time to 1st byte", result.first_byte_hdr)):
        if times := recorded_histogram(recorded):
            lines.append(_times(name, times, times.get_mean_value()))
    rates = [part.requests * 1e9 / max(part.counted_ns, 1) / result.connections for part in result.slices] or [0.0]
    mean, sd = fmean(rates), pstdev(rates)
    near = 100 * sum(abs(rate - mean) <= sd for rate in rates) / len(rates)
    lines.append(f"req/s           : {min(rates):10.2f}  {max(rates):10.2f}  {mean:10.2f}  {sd:10.2f} {near:8.2f}%")
    return "\n".join(lines) + "\n"


def _spawned(result: LoadResult) -> list[str]:
    """A line for each thread: connections are given out as evenly as can be, and so, by h2load's words, requests."""
    threads, each, over = len(result.cores), *divmod(result.connections, len(result.cores))
    asked = result.request.requests
    length_s = result.request.duration_s or result.duration_s
    timed = f". Timing-based test with 0s of warm-up time and {length_s:g}s of main duration for measurements."
    found = []
    for thread in range(threads):
        requests = timed if asked is None else f". {asked // threads + (thread < asked % threads)} total requests"
        found.append(f"spawning thread #{thread}: {each + (thread < over)} total client(s){requests}")
    return found


def _protocols(result: LoadResult) -> list[str]:
    """HTTP's version by its name in ALPN (RFC 9113: h2, and h2c in the clear), after TLS's own."""
    version, _, cipher = result.learned.tls.partition(" ")
    encrypted = [f"TLS Protocol: {version}", f"Cipher: {cipher}"] if cipher else []
    http2 = "h2" if result.target.tls else "h2c"
    name = http2 if result.request.http == "2" else f"http/{result.request.http}"
    return [*encrypted, f"Application protocol: {name}"]


def _traffic(result: LoadResult) -> str:
    """What was read; bodies are known where they were compared, and the rest are heads, or HTTP/2's other frames."""
    total = result.bytes_in
    if result.any_body or len(set(result.request.pool)) > 1 or result.failed:
        return f"traffic: {_bytes(total)} ({total}) total"
    data = result.answered * len(result.learned.body)
    if result.request.http == "2":
        return f"traffic: {_bytes(total)} ({total}) total, {_bytes(data)} ({data}) data"
    heads = total - data
    saved = "(space savings 0.00%)"  # HTTP/1's heads are as long as they are
    told = f"{_bytes(heads)} ({heads}) headers {saved}, {_bytes(data)} ({data}) data"
    return f"traffic: {_bytes(total)} ({total}) total, {told}"


def _times(name: str, times: HdrHistogram | None, mean_ns: float | None) -> str:
    if times is None or mean_ns is None:
        row, near = ["0us"] * 4, 0.0
    else:
        ns = (times.get_min_value(), times.get_max_value(), mean_ns, times.get_stddev())
        row, near = [_span(value / 1000) for value in ns], within_deviation(times, mean_ns)
    return f"{name:<16}: {row[0]:>10}  {row[1]:>10}  {row[2]:>10}  {row[3]:>10} {near:8.2f}%"


def _span(value_us: float) -> str:
    """A time as h2load writes it: whole microseconds, else two digits."""
    if value_us < 1000:
        return f"{value_us:.0f}us"
    return f"{value_us / 1000:.2f}ms" if value_us < 1e6 else f"{value_us / 1e6:.2f}s"


def _bytes(value: float) -> str:
    for power, unit in ((30, "GB"), (20, "MB"), (10, "KB")):
        if value >= 1 << power:
            return f"{value / (1 << power):.2f}{unit}"
    return f"{value:.0f}B"
