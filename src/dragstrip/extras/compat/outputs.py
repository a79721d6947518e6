"""Reads what wrk, ab, hey, oha, h2load and k6 print: one rate of one run, without an interval.

What a tool does not print stays unknown. Formats: wrk 4, ab 2.3, hey 0.1, oha 1 (text and JSON), h2load (nghttp2 1.5x;
from 1.69 on also its percentiles and its JSON), k6 (summary as text and JSON).
"""

# House: an edge: JSON of other tools' files.
from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragstrip import paths
from dragstrip.errors import BadUsage
from dragstrip.report.race.external import ForeignRun

#: Longest output that is read; no tool prints more.
MAX_BYTES = 16 * 2**20


def load(file: Path) -> ForeignRun:
    """Reads a tool's output from a file.

    Raises:
        BadUsage: it can't be read, or is of no tool that is known.
    """
    try:
        text = _text(file)
    except ValueError as error:
        raise BadUsage(f"{file}: can't be read ({error}); use a tool's output in a file") from error
    try:
        return parse(text)
    except BadUsage as error:
        raise BadUsage(f"{file}: {error}") from error


def _text(file: Path) -> str:
    """A tool's output, from a file or a pipe."""
    return paths.read(file, MAX_BYTES, pipes=True).decode("utf-8", "replace")


def several(file: Path) -> list[tuple[str, ForeignRun]]:
    """Runs by name: all in github-action-benchmark's JSON for custom tools, or a tool's run by the tool's name.

    Raises:
        BadUsage: as ``load``; or an entry of such a JSON is not a rate (its unit lacks "/s").
    """
    try:
        content = json.loads(_text(file))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, list):
        run = load(file)
        return [(run.tool, run)]
    try:
        entries = [(str(entry["name"]), str(entry["unit"]), float(entry["value"])) for entry in content]
    except (KeyError, TypeError, ValueError) as error:
        raise BadUsage(f"{file}: give a list of objects with name, unit and value ({error!r})") from error
    if odd := [f"{name} in {unit}" for name, unit, value in entries if "/s" not in unit or not 0 < value < math.inf]:
        raise BadUsage(f"{file}: {odd[0]} is not a rate above 0; give entries in requests/s")
    return [(name, ForeignRun(tool="github-action-benchmark", rate_per_s=value)) for name, _, value in entries]


def parse(text: str) -> ForeignRun:
    """Reads a tool's output.

    Raises:
        BadUsage: it is of no tool that is known, is cut off, or has no rate.
    """
    text = _COLOURS.sub("", text)
    for sign, tool in _ROWS:
        if re.match(sign, text):
            raise BadUsage(f"this is {tool}'s per-request CSV, which has no rate; give its normal report instead")
    for sign, reader in _READERS:
        if re.search(sign, text, re.MULTILINE):
            try:
                run = reader(text)
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
                tool = reader.__name__.strip("_").partition("_")[0]
                raise BadUsage(f"{tool}'s output is incomplete or was changed ({error!r}); give all of it") from error
            if not 0 < run.rate_per_s < math.inf:
                raise BadUsage(
                    f"{run.tool}'s output has no rate above 0: no request got a response; give a run with responses"
                )
            return run
    raise BadUsage("not recognised as output of wrk, ab, hey, oha, h2load or k6; give everything the tool printed")


_UNITS_US = {
    "ns": 1e-3,
    "us": 1.0,
    "µs": 1.0,
    "ms": 1e3,
    "s": 1e6,
    "sec": 1e6,
    "secs": 1e6,
    "m": 60e6,
    "min": 60e6,
    "h": 3600e6,
}


def _number(pattern: str, text: str) -> float | None:
    match = re.search(pattern, text, re.MULTILINE)
    return float(match[1].replace(",", "")) if match else None


def _whole(pattern: str, text: str) -> int | None:
    number = _number(pattern, text)
    return None if number is None else int(number)


def _span_us(text: str) -> float | None:
    """``1.23ms``, ``2m3.5s`` or ``0.5 secs`` as microseconds; None for 0, to which the tool rounds a shorter time."""
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|secs?|min|m|s|h)", text)
    return sum(float(number) * _UNITS_US[unit] for number, unit in parts) or None


def _seconds(pattern: str, text: str) -> float | None:
    match = re.search(pattern, text, re.MULTILINE)
    micros = _span_us(match[1]) if match else None
    return None if micros is None else micros / 1e6


def _percentiles(pattern: str, text: str, unit: str = "") -> dict[str, float]:
    """Percentiles by lines of "50% … 1.2ms"; ``unit`` for tools that write plain numbers."""
    percentiles = {}
    for percentile, value in re.findall(pattern, text, re.MULTILINE):
        micros = _span_us(f"{value}{unit}")
        if micros is not None:
            percentiles[f"p{float(percentile):g}"] = micros
    return percentiles


def _answered_rate(rate: float | None, answered: bool) -> float:
    """The reported rate; 0 without any response, because ab, hey and oha include failed requests."""
    return (rate or 0.0) if answered else 0.0


def _wrk(text: str) -> ForeignRun:
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    broken = sum(map(int, errors.groups())) if errors else 0
    return ForeignRun(
        tool="wrk",
        rate_per_s=_number(r"^Requests/sec:\s*([\d.]+)", text) or 0.0,
        requests=_whole(r"^\s*(\d+) requests in ", text),
        duration_s=_seconds(r"requests in ([\d.a-zµ]+)", text),
        connections=_whole(r"threads? and (\d+) connections", text),
        failed=broken + (_whole(r"Non-2xx or 3xx responses: (\d+)", text) or 0),
        keepalive=True,
        http="1.1",
        latency_us=_percentiles(r"^\s+(\d+(?:\.\d+)?)%\s+([\d.]+(?:us|ms|s|m))\s*$", text),
    )


def _ab(text: str) -> ForeignRun:
    """ab's text, or its HTML tables (-w), whose cells have the same words."""
    if "<table" in text:
        text = re.sub(r"^ +", "", re.sub(r"<[^>]*>", " ", text), flags=re.MULTILINE)
    failed = (_whole(r"^Failed requests:\s+(\d+)", text) or 0) + (_whole(r"^Non-2xx responses:\s+(\d+)", text) or 0)
    return ForeignRun(
        tool="ab",
        rate_per_s=_answered_rate(
            _number(r"^Requests per second:\s+([\d.]+)", text), _number(r"^Total transferred:\s+(\d+)", text) != 0
        ),
        requests=_whole(r"^Complete requests:\s+(\d+)", text),
        duration_s=_number(r"^Time taken for tests:\s+([\d.]+)", text),
        connections=_whole(r"^Concurrency Level:\s+(\d+)", text),
        failed=failed,
        keepalive="Keep-Alive requests:" in text,
        http="1.0",
        latency_us=_percentiles(r"^\s+(\d+)%\s+(\d+)(?:\s+\(longest request\))?\s*$", text, "ms"),
    )


#: What oha prints for requests in flight when its time was up; its success rate leaves them out, too.
_CUT_OFF = "aborted due to deadline"


def _hey(text: str) -> ForeignRun:
    statuses = re.findall(r"^\s+\[(\d{3})\]\s+(\d+) responses", text, re.MULTILINE)
    errors = re.findall(r"^\s+\[(\d+)\]\s+(.*)$", text.partition("Error distribution:")[2], re.MULTILINE)
    broken = sum(int(count) for count, error in errors if error.strip() != _CUT_OFF)
    return ForeignRun(
        tool="hey",
        rate_per_s=_answered_rate(_number(r"^\s+Requests/sec:\s+([\d.]+)", text), bool(statuses) or not errors),
        requests=sum(int(count) for _, count in statuses) or None,
        duration_s=_seconds(r"^\s+Total:\s+([\d.]+ secs)", text),
        failed=broken + sum(int(count) for status, count in statuses if status[0] not in "23") if statuses else None,
        latency_us=_percentiles(r"^\s+(\d+)%+ in ([\d.]+ secs)", text),
    )


def _oha(text: str) -> ForeignRun:
    """hey's format with a success rate added, and times in several units."""
    return replace(
        _hey(text),
        tool="oha",
        duration_s=_seconds(r"^\s+Total:\s+([\d.]+ ?\w+)", text),
        latency_us=_percentiles(r"^\s+(\d+(?:\.\d+)?)%+ in ([\d.]+ ?\w+)", text),
    )


def _oha_json(text: str) -> ForeignRun:
    report = json.loads(text)
    statuses: dict[str, int] = report.get("statusCodeDistribution", {})
    errors: dict[str, int] = report.get("errorDistribution", {})
    percentiles: dict[str, Any] = report.get("latencyPercentiles", {})
    return ForeignRun(
        tool="oha",
        rate_per_s=_answered_rate(float(report["summary"]["requestsPerSec"]), bool(statuses) or not errors),
        requests=sum(statuses.values()) or None,
        duration_s=float(report["summary"]["total"]),
        failed=sum(count for status, count in statuses.items() if status[0] not in "23")
        + sum(count for error, count in errors.items() if error != _CUT_OFF),
        latency_us={name: 1e6 * float(value) for name, value in percentiles.items() if value is not None},
    )


def _h2load(text: str) -> ForeignRun:
    protocol = re.search(r"^Application protocol: (?:http/(1\.[01])|(h2c?)\b)", text, re.MULTILINE)
    # From 1.69 on: min, max, median, p95, p99, …
    times = re.search(r"^request\s*:\s+\S+\s+\S+\s+(\S+)\s+(\S+)\s+(\S+)", text, re.MULTILINE)
    spans = zip(("p50", "p95", "p99"), map(_span_us, times.groups()), strict=True) if times else ()
    clients = re.findall(r"^spawning thread #\d+: (\d+) total client", text, re.MULTILINE)
    return ForeignRun(
        tool="h2load",
        rate_per_s=_number(r"^finished in \S+, ([\d.]+) req/s", text) or 0.0,
        requests=_whole(r", (\d+) done,", text),
        duration_s=_seconds(r"^finished in ([\d.a-zµ]+),", text),
        connections=sum(map(int, clients)) or None,
        failed=_whole(r", (\d+) failed,", text),
        keepalive=True,
        http=(protocol[1] or "2") if protocol else None,
        latency_us={name: micros for name, micros in spans if micros is not None},
    )


_H2LOAD_KEYS = {"p50": "median", "p95": "p95", "p99": "p99"}


def _h2load_json(text: str) -> ForeignRun:
    """h2load's --output-file, in seconds; it has neither connections nor protocol."""
    measurements = json.loads(text)["measurements"]
    times = measurements["performance"]["request"]
    return ForeignRun(
        tool="h2load",
        rate_per_s=float(measurements["request_per_second"]),
        requests=int(measurements["requests"]["done"]),
        duration_s=float(measurements["duration"]),
        failed=int(measurements["requests"]["failed"]),
        keepalive=True,
        latency_us={name: 1e6 * float(times[key]) for name, key in _H2LOAD_KEYS.items()},
    )


def _k6(text: str) -> ForeignRun:
    durations = re.search(r"^.*http_req_duration\.*:(.*)$", text, re.MULTILINE)
    percentiles = re.findall(r"(med|p\(\d+\))=([\d.]+(?:µs|us|ms|s|m))", durations[1]) if durations else []
    return ForeignRun(
        tool="k6",
        rate_per_s=_number(r"http_reqs\.*:\s+\d+\s+([\d.]+)/s", text) or 0.0,
        requests=_whole(r"http_reqs\.*:\s+(\d+)", text),
        latency_us={_k6_name(name): micros for name, value in percentiles if (micros := _span_us(value)) is not None},
    )


def _k6_json(text: str) -> ForeignRun:
    metrics = json.loads(text)["metrics"]
    # The newer form nests each metric's figures under "values".
    reqs, durations = (_k6_values(metrics.get(name, {})) for name in ("http_reqs", "http_req_duration"))
    return ForeignRun(
        tool="k6",
        rate_per_s=float(reqs.get("rate", 0.0)),
        requests=int(reqs["count"]) if "count" in reqs else None,
        latency_us={
            _k6_name(name): 1e3 * float(value) for name, value in durations.items() if name == "med" or name[:2] == "p("
        },
    )


def _k6_values(metric: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = metric.get("values")
    return inner if isinstance(inner, Mapping) else metric


def _k6_name(name: str) -> str:
    return "p50" if name == "med" else name.replace("(", "").replace(")", "")


#: Colours, which some tools print on a terminal, and `script` keeps.
_COLOURS = re.compile(r"\x1b\[[\d;]*m")

#: Lines of single requests, by their heads.
_ROWS = ((r"\s*response-time,DNS\+dialup", "hey"), (r"\s*request-start,DNS,DNS\+dialup", "oha"))

#: A pattern that each tool's output matches, and its reader; the first match counts.
_READERS: tuple[tuple[str, Callable[[str], ForeignRun]], ...] = (
    (r'\A\s*\{[\s\S]*"requestsPerSec"', _oha_json),
    (r'\A\s*\{[\s\S]*"http_reqs"', _k6_json),
    (r'\A\s*\{[\s\S]*"generator"\s*:\s*"h2load', _h2load_json),
    (r"This is ApacheBench|^Requests per second:", _ab),
    (r"threads? and \d+ connections|^Requests/sec:", _wrk),
    (r"^finished in \S+, [\d.]+ req/s", _h2load),
    (r"http_reqs\.*:", _k6),
    (r"^\s+Success rate:", _oha),
    (r"^\s+Requests/sec:", _hey),
)
