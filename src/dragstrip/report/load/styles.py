"""A run of load in the shape that other tools' reports have, for scripts that read those.

Only what was measured is written: ab's connect, processing and waiting times and hey's DNS details are left
out. What each line means is what Dragstrip means by it (right answers, each checked); the numbers' places are those
of wrk 4, ab 2.3, hey 0.1, h2load (nghttp2 1.5x) and oha 1.
"""

from __future__ import annotations

import math
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from hdrh.histogram import HdrHistogram

from dragstrip.report.load.bins import linear
from dragstrip.report.load.latency import histogram, within_deviation
from dragstrip.report.load.style_h2load import h2load
from dragstrip.report.load.style_oha import oha

if TYPE_CHECKING:
    from dragstrip.loading.result import LoadResult

STYLES = ("wrk", "ab", "hey", "h2load", "oha")


def styled(result: LoadResult, style: str, *, distribution: bool = False) -> str:
    """The report as that tool would shape it.

    Args:
        distribution: of latencies, too, where wrk prints it for ``--latency`` only.
    """
    latencies = histogram(result)
    if style == "wrk":
        return _wrk(result, latencies, distribution=distribution)
    return {"ab": _ab, "hey": _hey, "h2load": h2load, "oha": oha}[style](result, latencies)


def _wrk(result: LoadResult, latencies: HdrHistogram | None, *, distribution: bool) -> str:
    errors, threads, script = result.errors, len(result.cores), result.script
    rates = [part.requests * 1e9 / max(part.counted_ns, 1) / threads for part in result.slices] or [0.0]
    length_s = result.request.duration_s or result.duration_s
    lines = [
        f"Running {_wrk_s(length_s)} test @ {result.request.url}",
        f"  {threads} threads and {result.connections} connections",
        *((script.during.removesuffix("\n"),) if script and script.during else ()),
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev",
        _wrk_row("Latency", _wrk_latency(result, latencies), _wrk_us),
        _wrk_row("Req/Sec", (fmean(rates), pstdev(rates), max(rates), _within(rates)), _wrk_metric),
    ]
    if latencies and distribution:
        lines.append("  Latency Distribution")
        for q in (50, 75, 90, 99):
            lines.append(f"     {q}%  {_wrk_us(latencies.get_value_at_percentile(q) / 1000):>9}")
    total = f"{result.requests} requests in {_wrk_s(result.duration_s, 2)}, {_wrk_bytes(result.bytes_in)} read"
    lines.append(f"  {total}")
    connect = sum(errors.get(kind, 0) for kind in ("connect", "refused", "tls"))
    broken = sum(errors.get(kind, 0) for kind in ("reset", "closed_early", "bad_response"))
    sent, late = errors.get("send", 0), errors.get("timeout", 0)
    if connect or broken or sent or late:
        lines.append(f"  Socket errors: connect {connect}, read {broken}, write {sent}, timeout {late}")
    if errors.get("wrong_status"):
        lines.append(f"  Non-2xx or 3xx responses: {errors['wrong_status']}")
    if wrong := errors.get("wrong_length", 0) + errors.get("wrong_body", 0):
        lines.append(f"  Wrong bodies: {wrong}")
    lines.append(f"Requests/sec: {result.rate_per_s:9.2f}")
    lines.append(f"Transfer/sec: {_wrk_bytes(result.bytes_in / result.duration_s if result.duration_s else 0):>11}")
    printed = (script.before, script.after) if script else ("", "")
    return printed[0] + "\n".join(lines) + "\n" + printed[1]


def _wrk_latency(result: LoadResult, latencies: HdrHistogram | None) -> tuple[float, float, float, float]:
    """Mean, standard deviation and maximum in µs, and the share within one deviation of the mean, in percent."""
    if not latencies or result.mean_ns is None:
        return (0.0, 0.0, 0.0, 0.0)
    row = (result.mean_ns / 1000, latencies.get_stddev() / 1000, latencies.get_max_value() / 1000)
    return (*row, within_deviation(latencies, result.mean_ns))


def _within(values: list[float]) -> float:
    mean, sd = fmean(values), pstdev(values)
    return 100 * sum(abs(value - mean) <= sd for value in values) / len(values)


def _wrk_row(name: str, row: tuple[float, float, float, float], shown: object) -> str:
    assert callable(shown)
    mean, sd, most, near = row
    return f"    {name:<7} {shown(mean):>9} {shown(sd):>9} {shown(most):>9} {near:8.2f}%"


def _wrk_us(value_us: float) -> str:
    if value_us < 1000:
        return f"{value_us:.2f}us"
    return f"{value_us / 1000:.2f}ms" if value_us < 1e6 else f"{value_us / 1e6:.2f}s"


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
    for power, unit in ((30, "GB"), (20, "MB"), (10, "KB")):
        if value >= 1 << power:
            return f"{value / (1 << power):.2f}{unit}"
    return f"{value:.2f}B"


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
        found = linear(latencies, 10)
        tallest = max(bin_.count for bin_ in found)
        for bin_ in found:
            bar = "■" * math.floor(bin_.count * 40 / tallest)
            lines.append(f"  {bin_.to_ns / 1e9:4.3f} [{bin_.count}]\t|{bar}")
        lines += ["", "", "Latency distribution:"]
        for q in (10, 25, 50, 75, 90, 95, 99):
            lines.append(f"  {q}% in {latencies.get_value_at_percentile(q) / 1e9:.4f} secs")
    lines += ["", "Status code distribution:"]
    lines += [f"  [{code}]\t{count} responses" for code, count in result.statuses.items()]
    errors = {kind: count for kind, count in result.errors.items() if kind != "wrong_status"}  # told by its line above
    if errors:
        lines += ["", "Error distribution:"]
        lines += [f"  [{count}]\t{kind.replace('_', ' ')}" for kind, count in errors.items()]
    return "\n".join(lines) + "\n\n"
