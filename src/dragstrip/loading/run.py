"""``dragstrip load``: load on one URL of this machine, by time, by count, or by whichever ends first.

The right answer is learned by two plain requests, which count among the run's own (the server's log and our count
agree); from then on every answer is compared with it. A run is one engine block, seen while it runs: what was done in
each second or so is handed on, so that it can be watched, and broken off without losing what was measured. An answer
that was outstanding when a timed run's time was up is waited for and told, and is in no rate and no histogram.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from dragstrip import machine
from dragstrip.errors import EngineFailure
from dragstrip.loading.arrivals import Offer, Step
from dragstrip.loading.learn import Learned, given, learn
from dragstrip.loading.request import (
    DEFAULT_DURATION_S,
    LARGE_BODY,
    LEAST_BY_LENGTH,
    PLAIN,
    LoadRequest,
    Target,
    check,
    each,
    notes_before,
    request_bytes,
    spread,
    target,
    worker_cores,
)
from dragstrip.loading.request_pool import Asked
from dragstrip.loading.result import LoadResult, Slice
from dragstrip.process import keep_awake
from dragstrip.version import __version__

if TYPE_CHECKING:
    from dragstrip._engine import Engine, SessionPlan, Tally

__all__ = ["Learned", "LoadRequest", "LoadResult", "Offer", "Progress", "Slice", "Step", "Target", "run"]

#: How often a run is looked at.
SLICE_NS = 1_000_000_000

#: The engine's longest block.
_HOUR_NS = 3_600_000_000_000


class Progress(Protocol):
    """What shows a run as it goes; called while it goes on."""

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
    cores, connections, notes = worker_cores(request)
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
    with _engine(cores, request.io) as engine, _awake(request, notes):
        try:
            wires = [wire for *_, wire in asked]
            session = engine.open(_session_plan(request, to, wires, right, connections))
            finished = _drive(engine, session, request, done, progress)
        except KeyboardInterrupt:
            finished = "interrupted"
        # The kernel stamps what it holds: of encrypted answers that is not the answer, of unix sockets it is nothing.
        io, stamps = engine.backend, "user" if to.tls or to.unix else engine.latency_stamps
        if to.tls or request.close_after or request.pipeline > 1 or request.first_byte:
            io = "epoll (for what is asked for)"
    by_length = _by_length(request, to, max(len(one.body) for one in right))
    if by_length:
        io = "epoll (large bodies are counted where they lie)"
    return LoadResult(
        request=request,
        target=to,
        learned=learned,
        started=started,
        software=__version__,
        cores=cores,
        connections=connections,
        slices=tuple(done),
        latency_hdr=_merged(part.latency_hdr for part in done),
        connect_hdr=_merged(part.connect_hdr for part in done),
        first_byte_hdr=_merged(part.first_byte_hdr for part in done),
        latency_sent_hdr=_merged(part.latency_sent_hdr or b"" for part in done),
        lag_hdr=_merged(part.lag_hdr or b"" for part in done),
        plain_statuses=_plain_statuses([one for *_, one, _ in asked], right),
        io=io,
        stamps=stamps,
        by_length=by_length,
        finished=finished,
        # What was feared and did not come needs no word afterwards.
        notes=(*notes, *(doubts if any("connect" in part.errors for part in done) else ())),
    )


def _plain_statuses(asked: list[Asked], right: list[Learned]) -> dict[int, int]:
    """What the plain requests were answered with, by which right answers were learned."""
    found: Counter[int] = Counter()
    for one, answer in zip(asked, right, strict=True):
        found[answer.status] += PLAIN if one.answer is None else 0
    return {status: count for status, count in found.items() if count}


def _session_plan(
    request: LoadRequest, to: Target, wires: list[bytes], right: list[Learned], connections: int
) -> SessionPlan:
    from dragstrip import _engine as engine

    return engine.SessionPlan(
        engine.Target.unix(to.unix) if to.unix else engine.Target(to.host, to.port),
        [engine.Exchange(wire, one.status, one.body) for wire, one in zip(wires, right, strict=True)],
        connections=connections,
        keepalive=request.keepalive,
        timeout_ns=int(request.timeout_s * 1e9),
        tls=engine.Tls(to.tls, cacert=request.cacert, insecure=request.insecure) if to.tls else None,
        requests_per_connection=request.close_after or 0,
        pipelining=request.pipeline,
        first_byte=request.first_byte,
        sources=spread(request),
        by_length=_by_length(request, to, max(len(one.body) for one in right)),
    )


def _by_length(request: LoadRequest, to: Target, body_bytes: int) -> bool:
    """Whether bodies are only counted after the first ones: in the clear over TCP, where nothing else is asked for."""
    plain = not (to.tls or to.unix or request.close_after or request.pipeline > 1 or request.first_byte)
    least = {"full": math.inf, "length": LEAST_BY_LENGTH, "auto": LARGE_BODY}[request.check]
    return plain and body_bytes >= least


@contextmanager
def _awake(request: LoadRequest, notes: list[str]) -> Iterator[None]:
    """Keeps all cores awake where that was asked for, and says how: nobody knows which of them are the server's."""
    if request.awake == keep_awake.OFF:
        yield
        return
    cores = sorted(os.sched_getaffinity(0))
    against = keep_awake.against_spinning(cores, [machine.siblings(core) for core in cores])
    with keep_awake.hold(cores, against=against) as kept, kept.held():
        notes.append(
            f"cores kept awake: {kept.text}" if kept.way else f"cores not kept awake, though asked ({kept.text})"
        )
        yield


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


def _drive(engine: Engine, session: int, request: LoadRequest, done: list[Slice], progress: Progress) -> str:
    """Runs to the end, hour by hour; each stretch of about a second is added to ``done`` as it is over."""
    from dragstrip._engine import BlockPlan

    bounded_s = (request.offer.length_s() if request.offer else None) or request.duration_s
    if bounded_s is None and request.requests is None:
        bounded_s = DEFAULT_DURATION_S
    left_ns = None if bounded_s is None else max(round(bounded_s * 1e9), 1)
    left = None if request.requests is None else request.requests - request.plain

    def observe(tally: Tally) -> None:
        done.append(_slice(tally))
        progress.slice_done(request, done)

    while True:
        limit_ns = min(left_ns or _HOUR_NS, _HOUR_NS)
        open_loop = request.offer.open_loop(limit_ns / 1e9) if request.offer else None
        block = BlockPlan(session, counted_ns=limit_ns, max_requests=left or 0, open_loop=open_loop)
        tally = engine.run_observed(block, every_ns=SLICE_NS, observe=observe)
        if tally is None:
            return "interrupted"
        if tally.gave_up:
            return "gave up"
        if left is not None:
            left -= tally.sent if request.offer is None else tally.offered or 0
            if left <= 0:
                return "count"
        if left_ns is not None:
            left_ns -= limit_ns
        if left_ns == 0 or request.offer:
            return "duration"


def _slice(tally: Tally) -> Slice:
    return Slice(**{one.name: getattr(tally, one.name) for one in fields(Slice)})
