"""wrk's Lua scripts, ``load -s script.lua``: the engine holds LuaJIT; this module gives it files and numbers.

A script whose every request is proved to be the same runs before the load only: its requests are a pool. Any other
script makes its requests while the load goes on, and only the status of their responses is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dragstrip.errors import BadUsage, DragstripError, ScriptError
from dragstrip.loading.percentiles import decoded
from dragstrip.loading.request import ScriptFile
from dragstrip.loading.request_pool import bounded

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

    from dragstrip import _engine
    from dragstrip.loading.request import LoadRequest, Target
    from dragstrip.loading.result import LoadResult

#: Maximum size of a script's file; it can read more data from other files.
MAX_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Statistics as ``done`` gets them: ascending values with their counts, and exact figures of all values."""

    values: list[float]
    counts: list[int]
    min: float
    max: float
    mean: float
    stdev: float


_NO_NUMBERS = Numbers(values=[], counts=[], min=0.0, max=0.0, mean=0.0, stdev=0.0)


def read_script(file: Path, args: Sequence[str]) -> ScriptFile:
    """A script's file.

    Raises:
        BadUsage: it can't be read.
    """
    return ScriptFile(name=str(file), source=bounded(file, f"-s {file}", MAX_BYTES), args=tuple(args))


class WrkScript:
    """A script that is loaded (``loading.run.Script``): its file has run, and ``setup`` and ``init`` of each thread.

    Args:
        request: with a script.
        threads: 0 if only the script's ``done`` is called.
        done_elsewhere: another machine calls ``done``.
        numbers: in a fleet: how many threads come before this machine's, and how many all machines have.

    Raises:
        BadUsage: it fails (the message has file and line), or this build has no Lua.
    """

    state: _engine.Script

    def __init__(
        self,
        request: LoadRequest,
        to: Target,
        threads: int,
        *,
        done_elsewhere: bool = False,
        numbers: tuple[int, int] | None = None,
    ) -> None:
        from dragstrip import _engine as engine

        assert request.script is not None
        name, parts = request.script.name, urlsplit(request.url)
        if not hasattr(engine, "Script"):
            raise BadUsage(
                f"-s {name}: this build of Dragstrip has no Lua support; use a build for another processor, or build"
                " the engine with its feature `scripts`"
            )
        try:
            self.state = engine.Script(
                name,
                request.script.source,
                scheme=parts.scheme,
                host=parts.hostname or "",
                port=None if parts.port is None else str(parts.port),
                path=to.path,
                method=request.method,
                headers=list(request.headers),
                body=request.body or None,
                args=[request.url, *request.script.args],
                address=None if to.unix else (ip_address(to.host), to.port),
                workers=threads,
                done_elsewhere=done_elsewhere,
                threads=numbers,
            )
        except ScriptError as error:
            raise BadUsage(str(error)) from error

    def printed(self) -> str:
        """What it printed since the last call."""
        return self.state.output().decode("utf-8", "replace")

    def refuse_failure(self) -> None:
        """Ends a run whose script failed during the load.

        Raises:
            DragstripError: it did; the message has file and line.
        """
        if self.state.failure is not None:
            raise DragstripError(f"{self.state.failure}; the load was ended")

    def done(self, result: LoadResult) -> str:
        """Hands ``done`` the run's numbers, in wrk's units; why it failed, "" if it did not."""
        rates = [part.requests * 1e9 / part.counted_ns / len(result.cores) for part in result.slices if part.counted_ns]
        try:
            self.state.done(
                duration_us=round(result.duration_s * 1e6),
                requests=sum(result.statuses.values()),
                bytes=result.bytes_in,
                errors=list(wrk_errors(result).items()),
                latency=_latency(decoded(result.latency_hdr), (result.mean_ns or 0.0) / 1000),
                rates=_rates(rates),
            )
        except ScriptError as error:
            return str(error)
        return ""


def wrk_errors(result: LoadResult) -> dict[str, int]:
    """A run's errors by wrk's kinds, and ``body``, which wrk does not know."""
    count = result.errors.get
    return {
        "connect": count("connect", 0) + count("refused", 0) + count("tls", 0),
        "read": count("reset", 0) + count("closed_early", 0) + count("bad_response", 0),
        "write": count("send", 0),
        "status": count("wrong_status", 0),
        "timeout": count("timeout", 0),
        "body": count("wrong_length", 0) + count("wrong_body", 0),
    }


def _latency(latencies: HdrHistogram | None, mean_us: float) -> Numbers:
    """Latencies in whole microseconds, as wrk counts them."""
    if latencies is None:
        return _NO_NUMBERS
    counted = Counter[float]()
    for item in latencies.get_recorded_iterator():
        counted[float(round(item.value_iterated_to / 1000))] += item.count_added_in_this_iter_step
    return Numbers(
        values=list(counted),
        counts=list(counted.values()),
        min=float(round(latencies.get_min_value() / 1000)),
        max=float(round(latencies.get_max_value() / 1000)),
        mean=mean_us,
        stdev=latencies.get_stddev() / 1000,
    )


def _rates(rates: Sequence[float]) -> Numbers:
    """Requests per second of one thread, a value for each second or so."""
    if not rates:
        return _NO_NUMBERS
    counted = Counter(sorted(rates))
    return Numbers(
        values=list(counted),
        counts=list(counted.values()),
        min=min(rates),
        max=max(rates),
        mean=fmean(rates),
        stdev=pstdev(rates),
    )
