"""``dragstrip load``: load on one URL of this machine, by time, by count, or by whichever ends first.

Two reference requests learn the correct response. They count among the run's requests, so that its count equals the
server's log; every later response is compared with the first. A run is one engine block that is observed while it runs:
each slice of about a second is passed on, so that the run can be watched, and interrupted without losing measurements.
If a timed run's time is up, Dragstrip waits for responses in flight; they are reported, and in no rate or histogram.

The steps, as in a race: check the request, prepare (learn the reference responses), load, result.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias

from dragstrip import __version__, machine
from dragstrip.errors import BadUsage, DragstripError, EngineError, EngineFailure
from dragstrip.loading.arrivals import Offer, OfferStep
from dragstrip.loading.learn import Learned, given_response, learn
from dragstrip.loading.request import (
    DEFAULT_DURATION_S,
    LARGE_BODY,
    MIN_BODY_BY_LENGTH,
    PLAIN,
    RESUMED,
    LoadRequest,
    Target,
    bounded,
    check,
    notes_before,
    reachable,
    request_bytes,
    separate,
    spread,
    target,
    worker_cores,
)
from dragstrip.loading.request_pool import PoolRequest
from dragstrip.loading.result import LoadResult, ScriptReport, Slice
from dragstrip.process import keep_awake
from dragstrip.record import Backend, LoadEnding
from dragstrip.workload import HTTP2

if TYPE_CHECKING:
    from dragstrip._engine import Engine, SessionPlan, Tally
    from dragstrip._engine import Script as EngineScript

__all__ = [
    "Learned",
    "LoadProgress",
    "LoadRequest",
    "LoadResult",
    "Offer",
    "OfferStep",
    "Prepared",
    "Slice",
    "Target",
    "drive",
    "merged",
    "plain_statuses",
    "prepare",
    "run",
    "session_plan",
]  # fmt: skip

#: How often a run is observed.
SLICE_NS = 1_000_000_000

#: The engine's longest block.
_HOUR_NS = 3_600_000_000_000


class Script(Protocol):
    """A loaded script; ``extras.compat.wrk_script`` loads wrk's."""

    @property
    def state(self) -> EngineScript:
        """Its Lua states in the engine."""

    def printed(self) -> str:
        """The text that it printed since the last call."""

    def refuse_failure(self) -> None:
        """Raises a ``DragstripError`` with file and line if the script failed under load."""

    def done(self, result: LoadResult) -> str:
        """Calls its ``done`` with the run's numbers; returns why that failed, or ""."""


#: Loads a request's script for a number of threads.
ScriptLoader: TypeAlias = Callable[[LoadRequest, Target, int], Script]


class LoadProgress(Protocol):
    """Shows a run while it goes on: when the load begins, and after each slice, the last of ``done``.

    Args:
        shown: progress is shown. Only then do other machines report theirs.
    """

    @property
    def shown(self) -> bool: ...
    def begun(self, request: LoadRequest, learned: Learned, doubts: Sequence[str]) -> None: ...
    def slice_done(self, request: LoadRequest, done: Sequence[Slice]) -> None: ...


def run(request: LoadRequest, progress: LoadProgress, load_script: ScriptLoader | None = None) -> LoadResult:
    """Loads a URL and returns the result; an interruption ends it early and is in ``finished``.

    Raises:
        BadUsage: the request can't be fulfilled, or the response can't be the reference for others.
        DragstripError: no server responds at the URL.
        EngineFailure: the engine can't run it (descriptors, ports, a server that accepts too few connections).
    """
    request = bounded(request, target(request.url, request.unix, request.allowed))
    check(request)
    prepared = prepare(request, load_script)
    progress.begun(prepared.request, prepared.learned, list(prepared.doubts))
    return _with_script_report(prepared, _load(prepared, progress))


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoadExchange:
    """One request of a run: as requested, its bytes on the wire, and the reference response."""

    asked: PoolRequest
    wire: bytes
    reference: Learned


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The plan of a run, before the engine starts.

    Args:
        learned: the reference response that reveals most about the server.
        cores: the engine's, one thread each. connections: the useful number.
        by_length: only lengths of bodies are compared after the first ones.
        any_body: only the status of responses is checked.
        script: as loaded; printed: its output until then.
        notes: deviations from the request, in words. doubts: what may go wrong, in words.
    """

    request: LoadRequest
    target: Target
    exchanges: tuple[_LoadExchange, ...]
    learned: Learned
    cores: tuple[int, ...]
    connections: int
    by_length: bool
    any_body: bool
    notes: tuple[str, ...]
    doubts: tuple[str, ...]
    script: Script | None = None
    printed: str = ""

    @property
    def made_under_load(self) -> bool:
        """A script makes the requests while the load runs."""
        return self.script is not None and self.script.state.fixed is None


def prepare(
    request: LoadRequest, load_script: ScriptLoader | None = None, engine_cores: tuple[int, ...] | None = None
) -> Prepared:
    """Learns the reference responses, and chooses the numbers of cores and connections.

    Args:
        load_script: loads the request's script; None only if it has none.
        engine_cores: cores of an engine that already runs, on a generator of a fleet; None: cores of this machine.

    Raises:
        BadUsage, DragstripError: as in ``run``.
    """
    to = target(request.url, request.unix, request.allowed)
    to = reachable(to) if request.namespace is None else to
    script = None
    if request.script is not None:
        assert load_script is not None
        script = load_script(request, to, len(worker_cores(request, engine_cores)[0]))
        request, to = _by_script(request, to, script)
        check(request)
    request, few = _by_count(request)
    wires = [
        (alone, place, asked, asked.raw or request_bytes(alone, place)) for alone, place, asked in separate(request, to)
    ]
    cores, connections, notes = worker_cores(request, engine_cores)
    request, read = _as_read(request, wires, script)
    notes += few + read
    learned_of: dict[PoolRequest, Learned] = {}  # the same request twice has one reference response
    for alone, place, asked, wire in wires:
        if asked not in learned_of:
            learned_of[asked] = _reference(alone, place, asked, wire)
    exchanges = tuple(_LoadExchange(asked=asked, wire=wire, reference=learned_of[asked]) for _, _, asked, wire in wires)
    references = [exchange.reference for exchange in exchanges]
    request = replace(request, again=sum(one.asked - PLAIN for one in learned_of.values()))
    any_body = request.check == "status" or any(reference.changes for reference in references)
    learned = next((reference for reference in references if reference.server), references[0])
    if request.keepalive and learned.closes:
        notes.append("the server ends each connection after one response, although the request does not ask for it")
    if any_body and request.check != "status":
        notes.append("reference requests got different bodies: only statuses were checked")
    if to.elsewhere is not None:
        notes.append(f"{to.host} is another machine: its CPU time, and what the network adds, can't be seen from here")
    if request.container:
        notes.append(f"the server ran in a container of its own, on this machine: image {request.container}")
    if to.tls and request.insecure:
        notes.append("--insecure: the server's certificate was not checked; any server could use it")
    if request.handshakes == RESUMED and request.keepalive and request.close_after is None and not learned.closes:
        notes.append(
            "--tls resumed: connections that stay open have one handshake each, most of them before there is a session "
            "to resume; --no-keepalive or --close-after makes more"
        )
    return Prepared(
        request=request,
        target=to,
        exchanges=exchanges,
        learned=learned,
        cores=cores,
        connections=connections,
        by_length=not any_body and _by_length(request, to, max(len(reference.body) for reference in references)),
        any_body=any_body,
        notes=tuple(notes),
        doubts=tuple(notes_before(request, elsewhere=to.elsewhere is not None)),
        script=script,
        printed=script.printed() if script else "",
    )


def _as_read(
    request: LoadRequest, wires: Sequence[tuple[LoadRequest, Target, PoolRequest, bytes]], script: Script | None
) -> tuple[LoadRequest, list[str]]:
    """The request with what a server reads in its bytes, and notes on what servers may refuse.

    Raises:
        BadUsage: bytes that a server does not read as one request.
    """
    from dragstrip._engine import read_request

    if request.http == HTTP2 or (script is not None and script.state.fixed is None):
        return request, []
    closing, notes = 0, []
    for number, (_, _, asked, wire) in enumerate(wires, 1):
        whose = "the request" if len(wires) == 1 else f"request {number}"
        try:
            length, closes, hosts, old = read_request(wire)
        except ValueError as error:
            raise BadUsage(f"{whose} can't be sent: {error}; correct its head or its body") from error
        if length < len(wire):
            raise BadUsage(
                f"{whose} ends after {length:,} of its {len(wire):,} bytes, and a server would read the rest as "
                "another request; correct its Content-Length, or give the requests apart, in a pool (--pool)"
            )
        if hosts != 1 and not old and asked.raw is not None:
            notes.append(f"{whose} has {hosts or 'no'} Host header{'s' if hosts > 1 else ''}: HTTP/1.1 requires one")
        closing += closes
    if closing == len(wires) and request.keepalive and request.pipeline == 1 and request.close_after is None:
        return replace(request, keepalive=False), notes
    if closing and request.keepalive:
        notes.append(f"{closing} of {len(wires)} requests ask the server to close the connection after its response")
    return request, notes


def _by_script(request: LoadRequest, to: Target, script: Script) -> tuple[LoadRequest, Target]:
    """The request as the script determines it: a pool of its fixed requests, or without reference responses."""
    if (first := script.state.addresses[0]) is not None:
        to = replace(to, host=str(first[0]), port=first[1])
    fixed = script.state.fixed
    if fixed is None:
        if request.offer:
            raise BadUsage(
                f"-s {request.script.name if request.script else ''}: its requests are made under load, and an open "
                "loop's must be made before; leave -R, --ramp and --steps out, or drop the script's request, delay and "
                "response"
            )
        return replace(request, check="status"), to
    pool = tuple(PoolRequest(raw=raw) for raw in fixed)
    return replace(request, pool=pool, pipeline=len(pool)), to


def _by_count(request: LoadRequest) -> tuple[LoadRequest, list[str]]:
    """The request, with only statuses checked if its count is too small to learn a response."""
    if request.check != "auto" or request.requests is None or not 0 < request.plain >= request.requests:
        return request, []
    note = (
        f"-n {request.requests}: only statuses were checked, since learning the reference response takes "
        f"{request.plain} more requests; -n {request.plain + 1} or more checks bodies"
    )
    return replace(request, check="status"), [note]


def _reference(request: LoadRequest, to: Target, asked: PoolRequest, wire: bytes) -> Learned:
    if request.check == "status":
        return given_response(asked.status or request.expect_status or 0, b"")
    if asked.answer is not None:
        return given_response(asked.status or 200, asked.answer)
    return learn(request, to, wire)


def _load(prepared: Prepared, progress: LoadProgress) -> LoadResult:
    """Runs the engine to the end, or until it is interrupted.

    Raises:
        EngineFailure: as in ``run``.
    """
    request = prepared.request
    started = datetime.now(UTC).isoformat(timespec="seconds")
    slices: list[Slice] = []
    with _engine(prepared.cores, request) as engine, _awake(request) as awake:
        session = engine.open(session_plan(prepared))
        try:
            finished = drive(engine, session, prepared, slices, lambda _: progress.slice_done(request, slices))
        except KeyboardInterrupt:
            finished = LoadEnding.INTERRUPTED
        if prepared.script is not None:
            prepared.script.refuse_failure()
        used = engine.used(session)
    notes = list(prepared.notes)
    if awake is not None:
        how = f"kept awake: {awake.text}" if awake.way else f"not kept awake, although requested ({awake.text})"
        notes.append(f"cores {how}")
    if any("connect" in part.errors for part in slices) or (request.offer and request.offer.usual):
        notes += prepared.doubts
    return LoadResult(
        request=request,
        target=prepared.target,
        learned=prepared.learned,
        started=started,
        software=__version__,
        cores=prepared.cores,
        connections=prepared.connections,
        slices=tuple(slices),
        latency_hdr=merged(part.latency_hdr for part in slices),
        connect_hdr=merged(part.connect_hdr for part in slices),
        first_byte_hdr=merged(part.first_byte_hdr for part in slices),
        latency_sent_hdr=merged(part.latency_sent_hdr or b"" for part in slices),
        lag_hdr=merged(part.lag_hdr or b"" for part in slices),
        plain_statuses=plain_statuses(prepared),
        any_body=prepared.any_body,
        io=used.io,
        backend=Backend(used.backend),
        stamps=used.stamps,
        by_length=prepared.by_length,
        finished=finished,
        notes=tuple(notes),
        opened=used.opened,
        streams=used.streams,
        exchanged=_exchanged(prepared, slices),
    )


def _exchanged(prepared: Prepared, slices: Sequence[Slice]) -> bool:
    """Whether an incorrect body is what another request of the pool should have got."""
    kinds = ("wrong_body", "wrong_length")
    samples = [text for part in slices for kind, text in part.samples.items() if kind in kinds]
    bodies = [exchange.reference.body.decode("utf-8", "replace") for exchange in prepared.exchanges]
    came = [sample.partition("\r\n\r\n")[2] for sample in samples]
    return len(set(bodies)) > 1 and any(text.startswith(body) for text in came for body in bodies if body)


def _with_script_report(prepared: Prepared, result: LoadResult) -> LoadResult:
    """The result with the script's report, after its ``done`` was called with the run's numbers."""
    script, asked = prepared.script, prepared.request.script
    if script is None or asked is None:
        return result
    during = script.printed()
    fault = script.done(result)
    report = ScriptReport(
        name=asked.name,
        hooks=tuple(script.state.hooks),
        fixed=script.state.fixed is not None,
        before=prepared.printed,
        during=during,
        after=script.printed(),
        fault=fault,
    )
    return replace(result, script=report)


def plain_statuses(prepared: Prepared) -> dict[int, int]:
    """How many reference requests got which status."""
    if not prepared.request.plain:
        return {}
    learned = {exchange.asked: exchange.reference for exchange in prepared.exchanges if exchange.asked.answer is None}
    statuses = Counter[int]()
    for reference in learned.values():
        statuses[reference.status] += reference.asked
    return dict(statuses)


def _is_by_length(request: LoadRequest, reference: Learned) -> bool:
    """Whether any body of the reference's length is correct; an empty body has no bytes that could differ."""
    return (reference.by_length or request.check == "length") and bool(reference.body)


def session_plan(prepared: Prepared, turns: tuple[int, int] = (0, 0)) -> SessionPlan:
    """The engine's plan of the connections and their requests.

    Args:
        turns: this generator's share of an open loop (``_engine.SessionPlan``).
    """
    from dragstrip import _engine as engine

    request, to, tls = prepared.request, prepared.target, None
    inside = {"namespace": request.namespace} if request.namespace else {}
    if to.tls:
        resume = request.handshakes == RESUMED
        tls = engine.Tls(to.tls, cacert=request.cacert, insecure=request.insecure, resume=resume)
    exchanges = [
        engine.Exchange(
            exchange.wire,
            exchange.reference.status,
            b"" if prepared.any_body else exchange.reference.pattern or exchange.reference.body,
            any_body=prepared.any_body or _is_by_length(request, exchange.reference),
            pattern=bool(exchange.reference.pattern) and not prepared.any_body,
        )
        for exchange in prepared.exchanges
    ]
    if prepared.made_under_load:
        # The script makes the requests; these two set the correct responses, the second for responses without a body.
        status = request.expect_status or 0
        exchanges = [
            engine.Exchange(method + b" / HTTP/1.1\r\n\r\n", status, b"", any_body=True) for method in (b"GET", b"HEAD")
        ]
    return engine.SessionPlan(
        engine.Target.unix(to.unix) if to.unix else engine.Target(to.host, to.port, **inside),
        exchanges,
        connections=prepared.connections,
        keepalive=request.keepalive,
        timeout_ns=int(request.timeout_s * 1e9),
        tls=tls,
        requests_per_connection=request.close_after,
        pipelining=request.pipeline,
        first_byte=request.first_byte,
        sources=spread(request),
        by_length=prepared.by_length,
        streams=request.streams if request.http == "2" else None,
        script=prepared.script.state if prepared.script else None,
        turns=turns,
        partial=True,
    )


def _by_length(request: LoadRequest, to: Target, body_bytes: int) -> bool:
    """Whether only lengths of bodies are compared: without TLS over TCP, and without options that forbid it."""
    plain = not (to.tls or to.unix or request.close_after or request.pipeline > 1 or request.first_byte)
    plain = plain and request.http != "2"
    least = {"full": math.inf, "length": MIN_BODY_BY_LENGTH, "auto": LARGE_BODY}[request.check]
    return plain and body_bytes >= least


@contextmanager
def _awake(request: LoadRequest) -> Iterator[keep_awake.Awake | None]:
    """Keeps all cores awake if requested, because the server's cores are unknown; otherwise None."""
    if request.awake == keep_awake.OFF:
        yield None
        return
    cores = sorted(os.sched_getaffinity(0))
    against = keep_awake.against_spinning(cores, [machine.siblings(core) for core in cores])
    with keep_awake.hold(cores, against=against) as awake, awake.held():
        yield awake


@contextmanager
def _engine(cores: tuple[int, ...], request: LoadRequest) -> Iterator[Engine]:
    from dragstrip._engine import Engine  # an old result's report must work without the engine

    try:
        engine = Engine(list(cores), io=request.io)
        try:
            yield engine
        finally:
            engine.shutdown()
    except EngineError as error:
        if error.kind == "tls":  # the server's fault, like a failed handshake before the load
            raise DragstripError(f"{request.url}: {error}") from error
        raise EngineFailure(str(error)) from error


def merged(histograms: Iterable[bytes]) -> bytes:
    """The sum of histograms; b"" if all are empty."""
    from dragstrip._engine import merge

    recorded = [histogram for histogram in histograms if histogram]
    return merge(recorded) if recorded else b""


def drive(
    engine: Engine,
    session: int,
    prepared: Prepared,
    slices: list[Slice],
    show: Callable[[Slice], None] | None,
) -> LoadEnding:
    """Runs to the end, hour by hour, and returns what ended it.

    Args:
        slices: each slice of about a second is added when it is complete, so that an interruption loses none.
        show: called with each slice after that.
    """
    from dragstrip._engine import BlockPlan

    request, script = prepared.request, prepared.script
    bounded_s = (request.offer.length_s() if request.offer else None) or request.duration_s
    if bounded_s is None and request.requests is None:
        bounded_s = DEFAULT_DURATION_S
    left_ns = None if bounded_s is None else max(round(bounded_s * 1e9), 1)
    left = None if request.requests is None else request.requests - request.plain

    def observe(tally: Tally) -> None:
        slices.append(Slice(**{field.name: getattr(tally, field.name) for field in fields(Slice)}))
        if show is not None:
            show(slices[-1])

    while True:
        limit_ns = min(left_ns or _HOUR_NS, _HOUR_NS)
        open_loop = request.offer.open_loop(limit_ns / 1e9) if request.offer else None
        block = BlockPlan(session, counted_ns=limit_ns, max_requests=left or 0, open_loop=open_loop)
        tally = engine.run_observed(block, every_ns=SLICE_NS, observe=observe)
        if tally is None:
            return LoadEnding.INTERRUPTED
        if tally.gave_up:
            return LoadEnding.GAVE_UP
        if script is not None and script.state.stopped:
            return LoadEnding.SCRIPT
        if left is not None:
            left -= tally.sent if request.offer is None else tally.offered or 0
            if left <= 0:
                return LoadEnding.COUNT
        if left_ns is not None:
            left_ns -= limit_ns
        if left_ns == 0 or request.offer:
            return LoadEnding.DURATION
