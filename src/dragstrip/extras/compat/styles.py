"""A run of load in the shape of the reports of wrk 4, ab 2.3, hey 0.1, h2load (nghttp2 1.5x) and oha 1.

Scripts that read those reports find the numbers in their places. Lines that would need numbers that Dragstrip does not
measure are left out: ab's connect, processing and waiting times, hey's details. What a number counts is what Dragstrip
counts: correct responses, each of them checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from hdrh.histogram import HdrHistogram

from dragstrip.extras.compat.wrk_script import wrk_errors
from dragstrip.loading.percentiles import decoded

if TYPE_CHECKING:
    from dragstrip.loading.result import LoadResult

#: oha's own words for errors; other errors keep Dragstrip's.
_OHA_ERRORS = {
    "timeout": "timeout",
    "refused": "Connection refused (os error 111)",
    "reset": "connection error",
    "closed_early": "connection closed before message completed",
}

#: From the largest; oha takes the first that the slowest response exceeds.
_OHA_UNITS = ((3600e9, "hr"), (60e9, "min"), (1e9, "sec"), (1e6, "ms"), (1e3, "us"))


def styled(result: LoadResult, style: str, *, distribution: bool = False) -> str:
    """The report as that tool would print it.

    Args:
        distribution: with percentiles, which wrk prints with ``--latency`` only.
    """
    latencies = decoded(result.latency_hdr) if result.in_time else None
    if style == "wrk":
        return _wrk(result, latencies, distribution=distribution)
    return {"ab": _ab, "hey": _hey, "h2load": _h2load, "oha": _oha}[style](result, latencies)


def _wrk(result: LoadResult, latencies: HdrHistogram | None, *, distribution: bool) -> str:
    threads, script = len(result.cores), result.script
    rates = _rates(result, threads)
    mean, sd, near = _spread(rates)
    length_s = result.request.duration_s or result.duration_s
    lines = [
        f"Running {_wrk_s(length_s)} test @ {result.request.url}",
        f"  {threads} threads and {result.connections} connections",
        *((script.during.removesuffix("\n"),) if script and script.during else ()),
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev",
        _wrk_row("Latency", _wrk_latency(result, latencies), partial(_time, digits=2)),
        _wrk_row("Req/Sec", (mean, sd, max(rates), near), _wrk_metric),
    ]
    if latencies and distribution:
        lines.append("  Latency Distribution")
        for q in (50, 75, 90, 99):
            lines.append(f"     {q}%  {_time(latencies.get_value_at_percentile(q) / 1000, digits=2):>9}")
    total = f"{result.requests} requests in {_wrk_s(result.duration_s, 2)}, {_wrk_bytes(result.bytes_in)} read"
    lines.append(f"  {total}")
    errors = wrk_errors(result)
    socket = {kind: errors[kind] for kind in ("connect", "read", "write", "timeout")}
    if any(socket.values()):
        lines.append(f"  Socket errors: {', '.join(f'{kind} {count}' for kind, count in socket.items())}")
    if errors["status"]:
        lines.append(f"  Non-2xx or 3xx responses: {errors['status']}")
    if errors["body"]:
        lines.append(f"  Wrong bodies: {errors['body']}")
    lines.append(f"Requests/sec: {result.rate_per_s:9.2f}")
    lines.append(f"Transfer/sec: {_wrk_bytes(result.bytes_in / result.duration_s if result.duration_s else 0):>11}")
    printed = (script.before, script.after) if script else ("", "")
    return printed[0] + "\n".join(lines) + "\n" + printed[1]


def _wrk_latency(result: LoadResult, latencies: HdrHistogram | None) -> tuple[float, float, float, float]:
    """Mean, standard deviation and maximum in µs, and the share within one deviation of the mean, in percent."""
    if not latencies or result.mean_ns is None:
        return (0.0, 0.0, 0.0, 0.0)
    row = (result.mean_ns / 1000, latencies.get_stddev() / 1000, latencies.get_max_value() / 1000)
    return (*row, _within_deviation(latencies, result.mean_ns))


def _wrk_row(name: str, row: tuple[float, float, float, float], shown: Callable[[float], str]) -> str:
    mean, sd, largest, near = row
    return f"    {name:<7} {shown(mean):>9} {shown(sd):>9} {shown(largest):>9} {near:8.2f}%"


def _wrk_s(value_s: float, digits: int = 0) -> str:
    if value_s < 1:
        return f"{value_s * 1000:.2f}ms"
    return f"{value_s:.{digits}f}s" if value_s < 60 else f"{value_s / 60:.{digits}f}m"


def _wrk_metric(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.2f}{unit}"
    return f"{value:.2f}"


def _wrk_bytes(value: float) -> str:
    return _bytes(value, digits=2)


def _ab(result: LoadResult, latencies: HdrHistogram | None) -> str:
    errors, to = result.errors, result.target
    done, total_s, c = result.requests + result.failed, result.duration_s, result.connections
    rate = result.rate_per_s
    lines = [
        f"Server Software:        {result.learned.server}",
        f"Server Hostname:        {to.host}",
        f"Server Port:            {to.port}",
        "",
        f"Document Path:          {to.path}",
        f"Document Length:        {len(result.learned.body)} bytes",
        "",
        f"Concurrency Level:      {c}",
        f"Time taken for tests:   {total_s:.3f} seconds",
        f"Complete requests:      {done}",
        f"Failed requests:        {sum(errors.values())}",
    ]
    if errors:
        connect = errors.get("connect", 0) + errors.get("refused", 0)
        length = errors.get("wrong_length", 0) + errors.get("wrong_body", 0)
        status = errors.get("wrong_status", 0)
        receive = sum(errors.values()) - connect - length - status
        lines.append(f"   (Connect: {connect}, Receive: {receive}, Length: {length}, Exceptions: 0)")
        lines += [f"Non-2xx responses:      {status}"] if status else []
    if result.request.keepalive:
        kept = 0 if result.learned.closes else max(done - max(result.connects - c, 0), 0)
        lines.append(f"Keep-Alive requests:    {kept}")
    lines += [
        f"Total transferred:      {result.bytes_in} bytes",
        f"HTML transferred:       {result.requests * len(result.learned.body)} bytes",
        f"Requests per second:    {rate:.2f} [#/sec] (mean)",
        f"Time per request:       {c * 1000 / rate if rate else 0:.3f} [ms] (mean)",
        f"Time per request:       {1000 / rate if rate else 0:.3f} [ms] (mean, across all concurrent requests)",
        f"Transfer rate:          {result.bytes_in / 1024 / total_s if total_s else 0:.2f} [Kbytes/sec] received",
    ]
    if latencies and result.mean_ns is not None:
        lines += ["", *_ab_times(result.mean_ns, latencies)]
    return "\n".join(lines) + "\n"


def _ab_times(mean_ns: float, latencies: HdrHistogram) -> list[str]:
    least, median, most = latencies.get_min_value(), latencies.get_value_at_percentile(50), latencies.get_max_value()
    ms = [round(value / 1e6) for value in (least, mean_ns, median, most)]
    lines = [
        "Connection Times (ms)",
        "              min  mean[+/-sd] median   max",
        f"Total:      {ms[0]:5d} {ms[1]:4d} {latencies.get_stddev() / 1e6:5.1f} {ms[2]:6d} {ms[3]:7d}",
        "",
        "Percentage of the requests served within a certain time (ms)",
    ]
    for q in (50, 66, 75, 80, 90, 95, 98, 99):
        lines.append(f"  {q:2d}%  {round(latencies.get_value_at_percentile(q) / 1e6):5d}")
    return [*lines, f" 100%  {ms[3]:5d} (longest request)"]


def _hey(result: LoadResult, latencies: HdrHistogram | None) -> str:
    mean_ns = result.mean_ns or 0.0
    least, most = (latencies.get_min_value(), latencies.get_max_value()) if latencies else (0, 0)
    size = len(result.learned.body)
    lines = [
        "",
        "Summary:",
        f"  Total:\t{result.duration_s:.4f} secs",
        f"  Slowest:\t{most / 1e9:.4f} secs",
        f"  Fastest:\t{least / 1e9:.4f} secs",
        f"  Average:\t{mean_ns / 1e9:.4f} secs",
        f"  Requests/sec:\t{result.rate_per_s:.4f}",
        "  ",
        f"  Total data:\t{result.requests * size} bytes",
        f"  Size/request:\t{size} bytes",
        "",
    ]
    if latencies:
        lines += ["Response time histogram:"]
        bins = linear(latencies, 10)
        tallest = max(count for _, count in bins)
        for to_ns, count in bins:
            lines.append(f"  {to_ns / 1e9:4.3f} [{count}]\t|{'■' * math.floor(count * 40 / tallest)}")
        lines += ["", "", "Latency distribution:"]
        for q in (10, 25, 50, 75, 90, 95, 99):
            lines.append(f"  {q}% in {latencies.get_value_at_percentile(q) / 1e9:.4f} secs")
    lines += ["", "Status code distribution:"]
    lines += [f"  [{code}]\t{count} responses" for code, count in result.statuses.items()]
    errors = {kind: count for kind, count in result.errors.items() if kind != "wrong_status"}  # they have a line above
    if errors:
        lines += ["", "Error distribution:"]
        lines += [f"  [{count}]\t{kind.replace('_', ' ')}" for kind, count in errors.items()]
    return "\n".join(lines) + "\n\n"


def _h2load(result: LoadResult, latencies: HdrHistogram | None) -> str:
    """The report; lines with numbers that were not measured are left out (docs/other-tools.md lists them)."""
    errors = result.errors
    succeeded, late = result.requests, errors.get("timeout", 0)
    wrong = sum(errors.get(kind, 0) for kind in ("wrong_status", "wrong_length", "wrong_body"))
    errored = result.failed - wrong  # as in h2load: they include timeouts, and failures include them
    read_bytes = result.bytes_in
    counts = dict.fromkeys("2345", 0)
    for status, count in result.statuses.items():
        counts[str(status)[0]] = counts.get(str(status)[0], 0) + count
    lines = [
        "starting benchmark...",
        *_h2load_threads(result),
        *_h2load_protocols(result),
        "",
        f"finished in {_time(result.duration_s * 1e6)}, {result.rate_per_s:.2f} req/s, "
        f"{_bytes(read_bytes / result.duration_s if result.duration_s else 0.0)}/s",
        f"requests: {result.sent} total, {result.sent} started, {succeeded + wrong} done, {succeeded} succeeded, "
        f"{result.failed} failed, {errored} errored, {late} timeout",
        "status codes: " + ", ".join(f"{counts[first]} {first}xx" for first in "2345"),
        _h2load_traffic(result),
        "                     min         max         mean         sd        +/- sd",
        _h2load_times("time for request", latencies, result.mean_ns),
    ]
    for name, recorded in (("time for connect", result.connect_hdr), ("time to 1st byte", result.first_byte_hdr)):
        if times := decoded(recorded):
            lines.append(_h2load_times(name, times, times.get_mean_value()))
    rates = _rates(result, result.connections)
    mean, sd, near = _spread(rates)
    lines.append(f"req/s           : {min(rates):10.2f}  {max(rates):10.2f}  {mean:10.2f}  {sd:10.2f} {near:8.2f}%")
    return "\n".join(lines) + "\n"


def _h2load_threads(result: LoadResult) -> list[str]:
    """A line for each thread: connections are given out as evenly as can be, and so, by h2load's words, requests."""
    threads, each, over = len(result.cores), *divmod(result.connections, len(result.cores))
    asked = result.request.requests
    length_s = result.request.duration_s or result.duration_s
    timed = f". Timing-based test with 0s of warm-up time and {length_s:g}s of main duration for measurements."
    lines = []
    for thread in range(threads):
        requests = timed if asked is None else f". {asked // threads + (thread < asked % threads)} total requests"
        lines.append(f"spawning thread #{thread}: {each + (thread < over)} total client(s){requests}")
    return lines


def _h2load_protocols(result: LoadResult) -> list[str]:
    """HTTP's version by its name in ALPN (RFC 9113: h2, and h2c in the clear), after TLS's own."""
    version, _, cipher = result.learned.tls.partition(" ")
    encrypted = [f"TLS Protocol: {version}", f"Cipher: {cipher}"] if cipher else []
    http2 = "h2" if result.target.tls else "h2c"
    name = http2 if result.request.http == "2" else f"http/{result.request.http}"
    return [*encrypted, f"Application protocol: {name}"]


def _h2load_traffic(result: LoadResult) -> str:
    """Bytes read: of bodies, if these were compared; the rest are heads, or HTTP/2's other frames."""
    total = result.bytes_in
    if result.any_body or len(set(result.request.pool)) > 1 or result.failed:
        return f"traffic: {_bytes(total)} ({total}) total"
    data = result.answered * len(result.learned.body)
    if result.request.http == "2":
        return f"traffic: {_bytes(total)} ({total}) total, {_bytes(data)} ({data}) data"
    heads = total - data
    saved = "(space savings 0.00%)"  # HTTP/1's heads are as long as they are
    parts = f"{_bytes(heads)} ({heads}) headers {saved}, {_bytes(data)} ({data}) data"
    return f"traffic: {_bytes(total)} ({total}) total, {parts}"


def _h2load_times(name: str, times: HdrHistogram | None, mean_ns: float | None) -> str:
    if times is None or mean_ns is None:
        row, near = ["0us"] * 4, 0.0
    else:
        ns = (times.get_min_value(), times.get_max_value(), mean_ns, times.get_stddev())
        row, near = [_time(value / 1000) for value in ns], _within_deviation(times, mean_ns)
    return f"{name:<16}: {row[0]:>10}  {row[1]:>10}  {row[2]:>10}  {row[3]:>10} {near:8.2f}%"


def _oha(result: LoadResult, latencies: HdrHistogram | None) -> str:
    """The report; times are in the unit that suits the slowest response, as oha chooses it."""
    least, most = (latencies.get_min_value(), latencies.get_max_value()) if latencies else (0, 0)
    scale_ns, unit = next((unit for unit in _OHA_UNITS if most > unit[0]), (1.0, "ns")) if latencies else (1e9, "sec")
    tried = result.requests + sum(result.errors.values())
    lines = [
        "Summary:",
        f"  Success rate:\t{100 * result.requests / max(tried, 1):.2f}%",
        f"  Total:\t{result.duration_s * 1e9 / scale_ns:.4f} {unit}",
        f"  Slowest:\t{most / scale_ns:.4f} {unit}",
        f"  Fastest:\t{least / scale_ns:.4f} {unit}",
        f"  Average:\t{(result.mean_ns or 0.0) / scale_ns:.4f} {unit}",
        f"  Requests/sec:\t{result.rate_per_s:.4f}",
        "",
    ]
    if not result.any_body and len(set(result.request.pool)) < 2:
        size = len(result.learned.body)
        total = result.requests * size
        lines += [f"  Total data:\t{_oha_bytes(total)}", f"  Size/request:\t{_oha_bytes(size)}"]
        lines += [f"  Size/sec:\t{_oha_bytes(total / result.duration_s if result.duration_s else 0.0)}", ""]
    if latencies:
        lines += ["Response time histogram:", *_oha_histogram(latencies, scale_ns, unit), ""]
        lines += ["Response time distribution:"]
        for q in (10, 25, 50, 75, 90, 95, 99, 99.9, 99.99):
            lines.append(f"  {q:.2f}% in {latencies.get_value_at_percentile(q) / scale_ns:.4f} {unit}")
        lines += ["", ""]
    if times := decoded(result.connect_hdr):
        values = (times.get_mean_value(), times.get_min_value(), times.get_max_value())
        spans = ", ".join(f"{value / scale_ns:.4f} {unit}" for value in values)
        lines += ["Details (average, fastest, slowest):", f"  DNS+dialup:\t{spans}", ""]
    lines.append("Status code distribution:")
    lines += [
        f"  [{code}] {count} responses" for code, count in sorted(result.statuses.items(), key=lambda item: -item[1])
    ]
    # Responses with a wrong status have a line above: as in oha, statuses and errors add up to all requests.
    errors = {kind: count for kind, count in result.errors.items() if kind != "wrong_status"}
    if errors:
        lines += ["", "Error distribution:"]
        most_first = sorted(errors.items(), key=lambda item: -item[1])
        lines += [f"  [{count}] {_OHA_ERRORS.get(kind, kind.replace('_', ' '))}" for kind, count in most_first]
    return "\n".join(lines) + "\n"


def _oha_histogram(latencies: HdrHistogram, scale_ns: float, unit: str) -> list[str]:
    bins = linear(latencies, 10)
    tallest = max(count for _, count in bins)
    width = max(len(f"{to_ns / scale_ns:.3f}") for to_ns, _ in bins)
    digits = max(len(f"[{count}]") for _, count in bins)
    return [
        f"  {to_ns / scale_ns:{width}.3f} {unit} {f'[{count}]':<{digits}} |" + "■" * math.floor(count * 32 / tallest)
        for to_ns, count in bins
    ]


def _oha_bytes(value: float) -> str:
    return _bytes(value, (" GiB", " MiB", " KiB", " B"))


def _bytes(value: float, units: tuple[str, str, str, str] = ("GB", "MB", "KB", "B"), *, digits: int = 0) -> str:
    """An amount in the largest of the units that it reaches, by powers of 1024.

    Args:
        digits: of an amount in the smallest unit; larger units have two.
    """
    for power, unit in zip((30, 20, 10), units, strict=False):
        if value >= 1 << power:
            return f"{value / (1 << power):.2f}{unit}"
    return f"{value:.{digits}f}{units[-1]}"


def _time(value_us: float, *, digits: int = 0) -> str:
    """A time in the largest unit that it reaches; ``digits`` apply to microseconds, larger units have two."""
    if value_us < 1000:
        return f"{value_us:.{digits}f}us"
    return f"{value_us / 1000:.2f}ms" if value_us < 1e6 else f"{value_us / 1e6:.2f}s"


def _rates(result: LoadResult, shares: int) -> list[float]:
    """Requests per second in each slice of the run, divided by the number of threads or connections."""
    return [part.requests * 1e9 / max(part.counted_ns, 1) / shares for part in result.slices] or [0.0]


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean, standard deviation, and the share of the values within one deviation of the mean, in percent."""
    mean, sd = fmean(values), pstdev(values)
    return mean, sd, 100 * sum(abs(value - mean) <= sd for value in values) / len(values)


def _within_deviation(times: HdrHistogram, mean_ns: float) -> float:
    """The share of a histogram within one standard deviation of the mean, in percent."""
    sd = times.get_stddev()
    near = sum(
        item.count_added_in_this_iter_step
        for item in times.get_recorded_iterator()
        if mean_ns - sd <= item.value_iterated_to <= mean_ns + sd
    )
    return float(100 * near / times.get_total_count())


def linear(latencies: HdrHistogram, count: int) -> list[tuple[float, int]]:
    """Upper bounds in ns and counts of bins of one width, from the least latency to the largest.

    The first bin holds only the least latency, as in hey.
    """
    low, high = latencies.get_min_value(), latencies.get_max_value()
    bounds = [low + (high - low) * step / count for step in range(count + 1)]
    counts = [0] * len(bounds)
    index = 0
    for item in latencies.get_recorded_iterator():
        while (
            item.value_iterated_to > max(bounds[index], latencies.get_highest_equivalent_value(low)) and index < count
        ):
            index += 1
        counts[index] += item.count_added_in_this_iter_step
    return list(zip(bounds, counts, strict=True))
