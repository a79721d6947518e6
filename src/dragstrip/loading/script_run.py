"""A script's run: the engine holds a LuaJIT; here is what goes in and what comes out.

A script whose every request is proved to be the same one runs before the load only: its requests are a pool. Any other
makes its requests while the load goes on, and of its answers the status alone is checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dragstrip.errors import BadUsage, DragstripError
from dragstrip.loading.percentiles import decoded
from dragstrip.loading.script import ScriptAsked

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

    from dragstrip._engine import Script
    from dragstrip.loading.request import LoadRequest, Target
    from dragstrip.loading.result import LoadResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Statistics as ``done`` sees them: ascending values, how often each came, and what is exact of them all."""

    values: list[float]
    counts: list[int]
    min: float
    max: float
    mean: float
    stdev: float


def load_script(
    asked: ScriptAsked,
    request: LoadRequest,
    to: Target,
    workers: int,
    *,
    done_elsewhere: bool = False,
    threads: tuple[int, int] | None = None,
) -> Script:
    """Runs a script's file, and its ``setup`` and ``init`` for each worker.

    Args:
        workers: 0: it is loaded for its ``done`` alone.
        done_elsewhere: another machine calls that.
        threads: of a fleet: how many threads come before this machine's, and how many all machines have.

    Raises:
        BadUsage: it fails there (file and line are told), or this build has no Lua.
    """
    from dragstrip import _engine as engine

    if not hasattr(engine, "ScriptError"):
        raise BadUsage(
            f"-s {asked.name}: this build of Dragstrip has no Lua support; use a build for another processor, or build"
            " the engine with its feature `scripts`"
        )
    parts = urlsplit(request.url)
    try:
        script: Script = engine.Script(
            asked.name,
            asked.source,
            scheme=parts.scheme,
            host=parts.hostname or "",
            port=None if parts.port is None else str(parts.port),
            path=to.path,
            method=request.method,
            headers=list(request.headers),
            body=request.body or None,
            args=[request.url, *asked.args],
            address=None if to.unix else (to.host, to.port),
            workers=workers,
            done_elsewhere=done_elsewhere,
            threads=threads,
        )
    except engine.ScriptError as error:
        raise BadUsage(str(error)) from error
    return script


def refuse_failure(script: Script) -> None:
    """Ends a run whose script failed under load.

    Raises:
        DragstripError: it did; file and line are told.
    """
    if script.failure is not None:
        raise DragstripError(f"{script.failure}; the load was ended")


def printed(script: Script) -> str:
    """What it printed since this was last asked."""
    return script.output().decode("utf-8", "replace")


def call_done(script: Script, result: LoadResult) -> str:
    """Hands ``done`` the run's numbers, in wrk's units; why it failed, "" where it did not."""
    from dragstrip._engine import ScriptError

    errors = result.errors
    connect = sum(errors.get(kind, 0) for kind in ("connect", "refused", "tls"))
    read = sum(errors.get(kind, 0) for kind in ("reset", "closed_early", "bad_response"))
    bodies = errors.get("wrong_length", 0) + errors.get("wrong_body", 0)
    told = [("connect", connect), ("read", read), ("write", errors.get("send", 0))]
    told += [("status", errors.get("wrong_status", 0)), ("timeout", errors.get("timeout", 0)), ("body", bodies)]
    rates = [
        part.requests * 1e9 / max(part.counted_ns, 1) / len(result.cores) for part in result.slices if part.counted_ns
    ]
    try:
        script.done(
            duration_us=round(result.duration_s * 1e6),
            requests=sum(result.statuses.values()),
            bytes=result.bytes_in,
            errors=told,
            latency=_latency(decoded(result.latency_hdr), (result.mean_ns or 0.0) / 1000),
            rates=_rates(rates),
        )
    except ScriptError as error:
        return str(error)
    return ""


def _latency(latencies: HdrHistogram | None, mean_us: float) -> Numbers:
    """Latencies in whole microseconds, as wrk counts them."""
    if latencies is None:
        return Numbers(values=[], counts=[], min=0.0, max=0.0, mean=0.0, stdev=0.0)
    counted: dict[float, int] = {}
    for item in latencies.get_recorded_iterator():
        value_us = float(round(item.value_iterated_to / 1000))
        counted[value_us] = counted.get(value_us, 0) + item.count_added_in_this_iter_step
    return Numbers(
        values=list(counted),
        counts=list(counted.values()),
        min=float(round(latencies.get_min_value() / 1000)),
        max=float(round(latencies.get_max_value() / 1000)),
        mean=mean_us,
        stdev=latencies.get_stddev() / 1000,
    )


def _rates(rates: Sequence[float]) -> Numbers:
    """Requests a second of one thread, a value for each second or so."""
    if not rates:
        return Numbers(values=[], counts=[], min=0.0, max=0.0, mean=0.0, stdev=0.0)
    mean = sum(rates) / len(rates)
    stdev = (sum((rate - mean) ** 2 for rate in rates) / len(rates)) ** 0.5
    counted = {rate: rates.count(rate) for rate in sorted(rates)}
    return Numbers(
        values=list(counted), counts=list(counted.values()), min=min(rates), max=max(rates), mean=mean, stdev=stdev
    )
