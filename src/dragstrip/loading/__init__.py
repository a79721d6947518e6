"""``dragstrip load``: load on one URL of this machine, by time, by count, or by whichever ends first.

The right answer is learned by two plain requests, which count among the run's own (the server's log and our count
agree); from then on every answer is compared with it. A closed loop is a
row of engine blocks of about a second, so that it can be watched, and broken off without losing what was measured.
Each but the last is bounded by a count, not by time: a block that ends by time leaves the answers then
outstanding out of its histogram, and those are the slow ones. Only the end of a timed run cuts so, once.
Between two blocks all connections come to rest for about one latency, so a block lasts at least a hundred of these:
the pauses cost at most 1 % of the load. An open loop has no pause: it is one block, seen while it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import dragstrip
from dragstrip.errors import EngineFailure
from dragstrip.loading.offer import Offer, Step
from dragstrip.loading.plain import Learned, given, learn
from dragstrip.loading.request import (
    DEFAULT_DURATION_S,
    LoadRequest,
    Target,
    check,
    crew,
    each,
    notes_before,
    request_bytes,
    spread,
    target,
)
from dragstrip.loading.result import LoadResult, Slice

if TYPE_CHECKING:
    from dragstrip._engine import Engine, Tally

__all__ = ["Learned", "LoadRequest", "LoadResult", "Offer", "Progress", "Slice", "Step", "Target", "run"]

#: A slice lasts a second, or a hundred typical latencies where those are slow.
SLICE_NS, LATENCIES = 1_000_000_000, 100

#: The first slice, from which the next one's count is reckoned: so many requests a connection.
FIRST_ROUNDS = 10

#: The engine's longest block.
_HOUR_NS = 3_600_000_000_000


class Progress(Protocol):
    """What shows a run as it goes; called between slices of a closed loop, and while an open one goes on."""

    def begun(self, request: LoadRequest, learned: Learned, doubts: list[str]) -> None: ...
    def slice_done(self, request: LoadRequest, done: list[Slice]) -> None: ...


def run(request: LoadRequest, progress: Progress) -> LoadResult:
    """Loads a URL and says what came back; an interruption ends it early and is in ``finished``.

    Raises:
        BadUsage: what is asked for can't be done, or the answer is not one that every other could be checked against.
        DragstripError: nothing answers there.
        EngineFailure: the engine can't run it (descriptors, ports, a server that takes no such number of connections).
    """
    check(request)
    to = target(request.url, request.unix)
    asked = [(alone, at, one, one.raw or request_bytes(alone, at)) for alone, at, one in each(request, to)]
    cores, connections, notes = crew(request)
    right = [
        learn(alone, at, wire) if one.answer is None else given(one.status or 200, one.answer)
        for alone, at, one, wire in asked
    ]
    learned = next((one for one in right if one.server), right[0])
    if request.keepalive and learned.closes:
        notes.append("the server ends each connection after one answer, though asked to keep it")
    if to.tls and request.insecure:
        notes.append("--insecure: the server's certificate was not looked at; it may be anybody's")
    started = datetime.now(UTC).isoformat(timespec="seconds")
    doubts = notes_before(request)
    progress.begun(request, learned, doubts)
    done: list[Slice] = []
    with _engine(cores, request.io) as engine:
        try:
            wanted = [(wire, one.status, one.body) for (*_, wire), one in zip(asked, right, strict=True)]
            session = _open(engine, request, to, wanted, connections)
            drive = _drive_open if request.offer else _drive
            finished = drive(engine, session, request, connections, done, progress)
        except KeyboardInterrupt:
            finished = "interrupted"
        # The kernel stamps what it holds: of encrypted answers that is not the answer, of unix sockets it is nothing.
        io, stamps = engine.backend, "user" if to.tls or to.unix else engine.latency_stamps
        if to.tls or request.close_after or request.pipeline > 1 or request.first_byte:
            io = "epoll (for what is asked for)"
    return LoadResult(
        request=request,
        target=to,
        learned=learned,
        started=started,
        software=dragstrip.__version__,
        cores=cores,
        connections=connections,
        slices=tuple(done),
        latency_hdr=_merged(part.latency_hdr for part in done),
        connect_hdr=_merged(part.connect_hdr for part in done),
        first_byte_hdr=_merged(part.first_byte_hdr for part in done),
        latency_sent_hdr=_merged(part.latency_sent_hdr or b"" for part in done),
        lag_hdr=_merged(part.lag_hdr or b"" for part in done),
        io=io,
        stamps=stamps,
        finished=finished,
        # What was feared and did not come needs no word afterwards.
        notes=(*notes, *(doubts if any("connect" in part.errors for part in done) else ())),
    )


def _open(
    engine: Engine, request: LoadRequest, to: Target, exchanges: list[tuple[bytes, int, bytes]], connections: int
) -> int:
    return engine.open(
        to.host,
        to.port,
        exchanges,
        connections=connections,
        keepalive=request.keepalive,
        timeout_ns=int(request.timeout_s * 1e9),
        unix=to.unix,
        tls=to.tls,
        cacert=request.cacert,
        insecure=request.insecure,
        requests_per_connection=request.close_after or 0,
        pipelining=request.pipeline,
        first_byte=request.first_byte,
        sources=spread(request),
    )


@contextmanager
def _engine(cores: tuple[int, ...], io: str) -> Iterator[Engine]:
    from dragstrip._engine import Engine, EngineError  # the report of an old result must work where it can't load

    try:
        engine = Engine(list(cores), io=io)
        try:
            yield engine
        finally:
            engine.shutdown()
    except EngineError as error:
        raise EngineFailure(str(error)) from error


def _merged(histograms: Iterable[bytes]) -> bytes:
    from dragstrip._engine import merge

    recorded = [one for one in histograms if one]
    return merge(recorded) if recorded else b""


def _drive_open(
    engine: Engine, session: int, request: LoadRequest, connections: int, done: list[Slice], progress: Progress
) -> str:
    """Runs one block to its end; each stretch of about a second is added to ``done`` as it is over."""
    assert request.offer
    unbounded = request.duration_s is None and request.requests is None
    duration_s = request.offer.length_s() or request.duration_s or (DEFAULT_DURATION_S if unbounded else _HOUR_NS / 1e9)
    count = 0 if request.requests is None else request.requests - request.plain

    def see(tally: Tally) -> None:
        done.append(_slice(tally))
        progress.slice_done(request, done)

    block = (session, 0, max(round(duration_s * 1e9), 1), count)
    tally = engine.run_seen(block, every_ns=SLICE_NS, see=see, pace=request.offer.pace(duration_s))
    if tally is None:
        return "interrupted"
    if tally.gave_up:
        return "gave up"
    return "count" if count and tally.offered == count else "duration"


def _drive(
    engine: Engine, session: int, request: LoadRequest, connections: int, done: list[Slice], progress: Progress
) -> str:
    """Runs slice after slice, each added to ``done`` as it ends; says what ended the run."""
    unbounded = request.duration_s is None and request.requests is None
    duration_s = DEFAULT_DURATION_S if unbounded else request.duration_s
    left_ns = None if duration_s is None else max(int(duration_s * 1e9), 1)
    left = None if request.requests is None else request.requests - request.plain
    while True:
        count = next_count(done[-1] if done else None, connections, left, left_ns)
        (tally,) = engine.run([(session, 0, min(left_ns or _HOUR_NS, _HOUR_NS), count)])
        done.append(_slice(tally))
        progress.slice_done(request, done)
        if tally.gave_up:
            return "gave up"
        if left is not None:
            left -= tally.sent
            if left <= 0:
                return "count"
        if left_ns is not None:
            left_ns -= tally.counted_ns
            if left_ns <= 0:
                return "duration"


def next_count(last: Slice | None, connections: int, left: int | None, left_ns: int | None) -> int:
    """How many requests the next slice sends at most; 0 for as many as its time allows.

    Args:
        last: the slice before, None at first.
        left, left_ns: of the run's bounds; None where there is none.
    """
    if last is None:
        count = FIRST_ROUNDS * connections
    else:
        tried = max(last.sent, 1)
        mean_ns = last.duration_ns * connections / tried  # Little's law; failed ones took their time, too
        slice_ns = max(SLICE_NS, LATENCIES * mean_ns)
        if left_ns is not None and left_ns < min(1.5 * slice_ns, _HOUR_NS):
            return left or 0
        count = max(int(tried * slice_ns / last.duration_ns), connections)
    # What would be left over for a slice much shorter than the others goes into this one.
    return left if left is not None and left < 1.5 * count else count


def _slice(tally: Tally) -> Slice:
    return Slice(**{one.name: getattr(tally, one.name) for one in fields(Slice)})
