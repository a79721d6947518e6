"""A run of load as JSON (``data/schema/load.schema.json``), and as HdrHistogram's percentiles and interval log."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from typing import TYPE_CHECKING

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogWriter

from dragstrip.loading.percentiles import QUANTILES, decoded
from dragstrip.loading.request import spread
from dragstrip.report.load import sentences
from dragstrip.report.load.latency import clock_text, histogram
from dragstrip.report.load.limits import LoadLimit
from dragstrip.report.load.report import LoadReport
from dragstrip.report.load.warnings import ENGINE_FULL, warnings
from dragstrip.report.race.latency import percentiles_text
from dragstrip.store import masking
from dragstrip.store.json_values import JSON_SCHEMA, JsonObject, picked

if TYPE_CHECKING:
    from dragstrip.loading.result import LoadResult, Slice

#: The longest body of a request that is kept; of a longer one, length and digest.
MAX_BODY_BYTES = 4096


def _right_json(result: LoadResult) -> JsonObject:
    learned, checked = result.learned, "values" if result.learned.changing else "full"
    checked = "length" if result.by_length or learned.by_length or result.request.check == "length" else checked
    checked = "status" if result.any_body else checked
    changing: JsonObject = {"changing": list(learned.changing)} if learned.changing else {}
    told: JsonObject = {
        "status": learned.status,
        "body_bytes": len(learned.body),
        "server": learned.server,
        "checked": checked,
    }
    return {**told, **changing}


def load_json(result: LoadResult, limits: Sequence[LoadLimit] = ()) -> JsonObject:
    """The run; unknown numbers are null, and secret values are masked (``store.masking``)."""
    result = replace(result, request=replace(result.request, url=masking.url(result.request.url)))
    request, samples = result.request, {kind: masking.message(text) for kind, text in result.samples.items()}
    return {
        "schema": JSON_SCHEMA,
        **picked(request, "url", "method"),
        "request": _request_json(result),
        "sentences": _sentences_json(result),
        **picked(result, "started", "finished", "software"),
        "load": _load_json(result),
        "right_answer": _right_json(result),
        "requests": result.requests,
        "plain_requests": result.plain,
        "script": _script_json(result),
        "different_requests": max(len(set(request.pool)), 1),
        **picked(result, "late", "late_s", "sent", "failed"),
        "unanswered": result.sent - result.requests - result.failed,
        "errors": result.errors,
        "error_sample": next(iter(samples.values()), ""),
        "error_samples": samples,
        "status_codes": {str(code): count for code, count in result.statuses.items()},
        **picked(result, "duration_s", "rate_per_s"),
        "latency_us": _latency_json(result),
        "latency_clock": clock_text(result),
        "latency_hdr": base64.b64encode(result.latency_hdr).decode("ascii"),
        "open_loop": _open_loop_json(result),
        "connections_opened": result.connects,
        "connect_us": _times_json(result.connect_hdr),
        "first_byte_us": _times_json(result.first_byte_hdr),
        "answers_on_reused_connections": result.reused,
        **picked(result, "bytes_in", "bytes_out"),
        "engine": {
            "cpu_us_per_request": result.engine_us_per_request,
            "busy_share": result.engine_share,
            "wait_share": result.engine_wait_share,
            "was_the_limit": result.engine_share >= ENGINE_FULL,
            "turn_share": result.turn_share,
            "io": result.io,
        },
        "slices": [_slice_json(part) for part in result.slices],
        "limits": [picked(limit, "name", "text", "limit", "value", "met") for limit in limits],
        "warnings": warnings(result),
    }


def _request_json(result: LoadResult) -> JsonObject:
    """Headers and body as the user set them; a long body, or one that is not UTF-8, by its length and digest."""
    request, body = result.request, None
    with suppress(UnicodeDecodeError):
        body = request.body.decode() if 0 < len(request.body) <= MAX_BODY_BYTES else None
    digest = hashlib.sha256(request.body).hexdigest() if request.body and body is None else ""
    return {
        "headers": [list(pair) for pair in masking.headers(request.headers)],
        "body": masking.body(body) if body is not None else None,
        "body_bytes": len(request.body),
        "body_sha256": digest,
    }


def _sentences_json(result: LoadResult) -> JsonObject:
    return {
        "headline": sentences.headline(result),
        "offered": sentences.offered(result),
        "checked": sentences.checked(result),
        "facts": list(sentences.facts(result)),
    }


def _script_json(result: LoadResult) -> JsonObject | None:
    script = result.script
    if script is None:
        return None
    printed = script.before + script.during + script.after
    return {"file": script.name, "hooks": list(script.hooks), "made_under_load": not script.fixed, "printed": printed}


def _load_json(result: LoadResult) -> JsonObject:
    """How the server was loaded."""
    request = result.request
    return {
        "loop": "open" if request.offer else "closed",
        "connections": result.connections,
        "threads": len(result.cores),
        "engine_cores": list(result.cores),
        "generators": list(result.generators),
        **picked(request, "keepalive", "http", "unix"),
        "image": request.container,
        "tls": _tls_json(result),
        **picked(request, "close_after", "pipeline", "streams"),
        "sources": spread(request),
        **picked(request, "requests", "duration_s", "timeout_s"),
    }


def _tls_json(result: LoadResult) -> JsonObject | None:
    request = result.request
    if result.target.tls is None:
        return None
    return {
        "version": result.learned.tls,
        "verified": not request.insecure,
        "handshakes": request.handshakes,
        "handshakes_per_s": result.handshakes_per_s,
    }


def _latency_json(result: LoadResult) -> JsonObject:
    latencies = histogram(result)
    if not latencies or result.mean_ns is None:
        return dict.fromkeys(["min", "mean", "sd", *QUANTILES, "max"])
    return {
        "min": latencies.get_min_value() / 1000,
        "mean": result.mean_ns / 1000,
        "sd": latencies.get_stddev() / 1000,
        **_quantiles_json(latencies),
    }


def _times_json(recorded: bytes) -> JsonObject | None:
    times = decoded(recorded)
    if not times:
        return None
    return {"count": times.get_total_count(), "mean": times.get_mean_value() / 1000, **_quantiles_json(times)}


def _quantiles_json(times: HdrHistogram | None) -> JsonObject:
    """In µs; null without a histogram."""
    if not times:
        return dict.fromkeys([*QUANTILES, "max"])
    quantiles_us = {label: times.get_value_at_percentile(q) / 1000 for label, q in QUANTILES.items()}
    return {**quantiles_us, "max": times.get_max_value() / 1000}


def _open_loop_json(result: LoadResult) -> JsonObject | None:
    offer = result.request.offer
    if not offer:
        return None
    return {
        "rate_per_s": offer.rate_per_s,
        "ramp_per_s": list(offer.ramp) if offer.ramp else None,
        "steps": list(map(asdict, offer.steps)),
        "pace": offer.precision,
        "arrivals": offer.arrivals,
        "seed": offer.seed,
        **picked(result, "offered", "departed", "unsent"),
        "offered_per_s": result.offered / result.duration_s if result.duration_s else 0.0,
        **picked(result, "reached_share", "sustained"),
        "latency_sent_us": _quantiles_json(decoded(result.latency_sent_hdr)),
        "lag_us": _quantiles_json(decoded(result.lag_hdr)),
        "latency_sent_hdr": base64.b64encode(result.latency_sent_hdr).decode("ascii"),
        "lag_hdr": base64.b64encode(result.lag_hdr).decode("ascii"),
    }


def _slice_json(part: Slice) -> JsonObject:
    return {
        "duration_s": part.counted_ns / 1e9,
        "requests": part.answered,
        "rate_per_s": part.requests * 1e9 / max(part.counted_ns, 1),
        "p50_us": part.p50_ns / 1000 if part.requests else None,
        "p99_us": part.p99_ns / 1000 if part.requests else None,
        "max_us": part.max_ns / 1000 if part.requests else None,
        "errors": part.errors,
    }


def hgrm(report: LoadReport) -> str:
    """HdrHistogram's percentile distribution in milliseconds, as its plotter and wrk2's readers take it."""
    return percentiles_text(report.latencies or HdrHistogram(1, 60_000_000_000, 3))


def hlog(result: LoadResult) -> str:
    """HdrHistogram's interval log: a histogram of ns for each second or so in which responses came."""
    out = io.StringIO()
    writer = HistogramLogWriter(out)
    writer.output_comment(
        f"[dragstrip {result.software}: {masking.url(result.request.url)}, latencies in ns, maximum in ms]"
    )
    writer.output_log_format_version()
    # Written by hand: the library's own line of this kind can't be written (it formats the date by a name it lacks).
    start = datetime.fromisoformat(result.started)
    out.write(f"#[StartTime: {start.timestamp():.3f} (seconds since epoch), {result.started}]\n")
    writer.output_legend()
    begin_ns = result.slices[0].started_ns if result.slices else 0
    for part in result.slices:
        if latencies := decoded(part.latency_hdr):
            # The library takes 0 for "not given".
            from_s = max((part.started_ns - begin_ns) / 1e9, 1e-6)
            writer.output_interval_histogram(latencies, from_s, from_s + part.counted_ns / 1e9)
    return out.getvalue()
