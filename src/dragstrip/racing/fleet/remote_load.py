"""``dragstrip load --fleet``: one URL under load from all generators at once; counts and histograms add up.

Each generator takes the steps that ``dragstrip load`` takes on one machine, with its share of the connections. They
begin at one instant, as the blocks of a race do, and nothing is sent to them until the time is up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

from dragstrip.contender import AllowedHost
from dragstrip.errors import BadUsage, DragstripError, MachineLost
from dragstrip.loading.arrivals import LONGEST_S
from dragstrip.loading.learn import Learned
from dragstrip.loading.request import DEFAULT_DURATION_S, LoadRequest, Target, bounded, check, target
from dragstrip.loading.result import LoadResult, Slice
from dragstrip.loading.run import Progress, merged
from dragstrip.racing.fleet.machines import Connected, Machines
from dragstrip.racing.fleet.messages import LoadRan, LoadReady, LoadSlice, Nothing, Opened, Traffic
from dragstrip.racing.fleet.place import FleetPlace
from dragstrip.racing.fleet.remote_engine import MORE_S, shares, turns
from dragstrip.racing.fleet.sent import request_values
from dragstrip.racing.fleet.setup import FleetAwake
from dragstrip.record import Backend, Load
from dragstrip.version import __version__

#: More than any machine of a fleet has: each generator takes as many threads as it has cores.
_ALL_CORES = 256
#: More than any run asks for: a machine of the fleet is the user's own, and needs no bounds.
_ANY_CONNECTIONS = 10**6

_MOST = ("counted_ns", "duration_ns", "clock_step_ns")
_HISTOGRAMS = ("latency_hdr", "connect_hdr", "first_byte_hdr", "lag_hdr", "latency_sent_hdr")
_QUANTILES = ("p50_ns", "p99_ns", "max_ns", "lag_p99_ns")


def load_over(machines: Machines, request: LoadRequest, progress: Progress) -> LoadResult:
    """Loads a URL from all generators of a fleet.

    Raises:
        BadUsage: what is asked for can't be done over a fleet, or not at that host.
        MachineLost: a machine is gone. DragstripError, EngineFailure: as ``loading.run.run``.
    """
    request, to = _allowed(machines, request)
    load = Load(
        connections=request.connections,
        threads=request.threads or _ALL_CORES,
        keepalive=request.keepalive,
        timeout_ns=round(request.timeout_s * 1e9),
    )
    opening = FleetPlace(machines).open_race(load, seed=1, io=request.io, keep=request.awake, wait="sleep")
    with opening as (opened, _), FleetAwake(machines, opened).held():
        ready = _made_ready(machines, request, opened)
        learned = _learned(machines.generators, ready)
        progress.begun(request, learned, [])
        started = datetime.now(UTC).isoformat(timespec="seconds")
        finished, ran = _run(machines, request)
    return _result(machines, request, to, learned, ready, started, finished, ran)


def _allowed(machines: Machines, request: LoadRequest) -> tuple[LoadRequest, Target]:
    """The request, held to what may be loaded: the servers' machine, or a host that the user named.

    Raises:
        BadUsage: as ``load_over``.
    """
    at_odds = {
        "-s": request.script is not None,
        "--unix": request.unix is not None,
        "-n": request.requests is not None,
        "--sources": request.sources != 1,
    }
    if said := next((name for name, given in at_odds.items() if given), None):
        raise BadUsage(f"{said} and --fleet contradict each other: several generators load by time; leave it out")
    if _lasts_s(request) > LONGEST_S:
        raise BadUsage(f"-d {_lasts_s(request):g} s: over a fleet give at most {LONGEST_S:g} s, or run it again")
    address = machines.server.machine.address
    own = AllowedHost(name=address, connections=_ANY_CONNECTIONS, rate_per_s=None, time_s=LONGEST_S)
    request = replace(request, allowed=(*request.allowed, own))
    to = target(request.url, None, request.allowed)
    if to.elsewhere is None:
        raise BadUsage(
            f"{request.url}: over a fleet each generator would load itself; give the server's own address, as {address}"
        )
    request = bounded(request, to)
    check(request)
    return request, to


def _lasts_s(request: LoadRequest) -> float:
    return (request.offer.length_s() if request.offer else None) or request.duration_s or DEFAULT_DURATION_S


def _made_ready(machines: Machines, request: LoadRequest, opened: Mapping[str, Opened]) -> list[LoadReady]:
    """Has every generator learn the right answers and open its share of the connections."""
    split = shares(request.connections, len(machines.generators))
    taken = turns([opened[one.name].threads for one in machines.generators], split)
    share = dict(zip((one.name for one in machines.generators), zip(split, taken, strict=True), strict=True))
    within_s = (request.plain + 2) * request.timeout_s + MORE_S
    cacert = None if request.cacert is None else _text_of(request.cacert)

    def ready(one: Connected) -> LoadReady:
        connections, turn = share[one.name]
        asked = request_values(replace(request, connections=connections))
        return one.channel.ask("load_ready", LoadReady, within_s, request=asked, cacert=cacert, turns=turn)

    return machines.on_all(ready, machines.generators)


def _text_of(cacert: str) -> str:
    try:
        return Path(cacert).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(f"--cacert {cacert}: can't be used ({error}); give certificates in PEM") from error


def _learned(generators: Sequence[Connected], ready: Sequence[LoadReady]) -> Learned:
    """The right answer, which must be one for all.

    Raises:
        DragstripError: two generators were answered differently.
    """
    first = ready[0].right
    for one, other in zip(generators, (each.right for each in ready), strict=True):
        if (other.status, other.body_bytes) != (first.status, first.body_bytes):
            raise DragstripError(
                f"{generators[0].name} was answered status {first.status} and {first.body_bytes:,} bytes, {one.name} "
                f"status {other.status} and {other.body_bytes:,} bytes; load an address that answers all alike"
            )
    values = first.model_dump()
    # The bytes stay with the generators, which compare with them; a report tells only how many there are.
    return Learned(body=bytes(values.pop("body_bytes")), **values)


def _run(machines: Machines, request: LoadRequest) -> tuple[str, list[LoadRan]]:
    """Loads from all at once; what ended it, and each one's part.

    Raises:
        MachineLost: a generator is gone, or its marks are no longer answered.
    """
    lasts_s, server, interrupted = _lasts_s(request) + request.timeout_s, machines.server.channel, False
    server.ask("run_begins", Nothing, block_s=lasts_s)
    with machines.silence():
        answers = [one.channel.begin("load_run", LoadRan) for one in machines.generators]
        try:
            ran = [answer(lasts_s + MORE_S) for answer in answers]
        except KeyboardInterrupt:
            interrupted = True
            for one in machines.generators:
                one.channel.begin("stop_run", Nothing)
            ran = [answer(MORE_S) for answer in answers]
    server.ask("run_ends", Traffic)
    for one, part in zip(machines.generators, ran, strict=True):
        if part.finished == "interrupted" and not interrupted:
            raise MachineLost(one.name, "its marks were no longer answered; see the data link")
    if interrupted:
        return "interrupted", ran
    return "gave up" if all(part.finished == "gave up" for part in ran) else "duration", ran


def _result(
    machines: Machines,
    request: LoadRequest,
    to: Target,
    learned: Learned,
    ready: Sequence[LoadReady],
    started: str,
    finished: str,
    ran: Sequence[LoadRan],
) -> LoadResult:
    """All generators' parts as one run."""
    ahead_ns = [one.clock.offset_ns for one in machines.generators]
    slices = tuple(
        merge([(part, ahead) for part, ahead in zip(parts, ahead_ns, strict=True) if part is not None])
        for parts in zip_longest(*(part.slices for part in ran))
    )
    statuses = Counter[int]()
    for one in ready:
        statuses.update({int(status): count for status, count in one.plain_statuses.items()})
    first = ready[0]
    return LoadResult(
        request=request,
        target=to,
        learned=learned,
        started=started,
        software=__version__,
        cores=tuple(core for one in ready for core in one.cores),
        connections=sum(one.connections for one in ready),
        slices=slices,
        finished=finished,
        plain_statuses=dict(statuses),
        any_body=first.any_body,
        by_length=first.by_length,
        io=first.io,
        backend=Backend(first.backend) if first.backend in set(Backend) else Backend.EPOLL,
        stamps=first.stamps,
        notes=tuple(dict.fromkeys(note for one in ready for note in one.notes)),
        generators=tuple(one.name for one in machines.generators),
        latency_hdr=merged(part.latency_hdr for part in slices),
        connect_hdr=merged(part.connect_hdr for part in slices),
        first_byte_hdr=merged(part.first_byte_hdr for part in slices),
        latency_sent_hdr=merged(part.latency_sent_hdr or b"" for part in slices),
        lag_hdr=merged(part.lag_hdr or b"" for part in slices),
    )


def merge(parts: Sequence[tuple[LoadSlice, int]]) -> Slice:
    """One second as all generators saw it; beside each part, how far its clock is ahead of ours, ns.

    Counts add up, histograms are added; quantiles are read off the sum.
    """
    from dragstrip._engine import quantiles

    made: dict[str, Any] = {"started_ns": min(part.started_ns - ahead_ns for part, ahead_ns in parts)}
    for name in LoadSlice.model_fields.keys() - {"started_ns", *_QUANTILES}:
        values = [getattr(part, name) for part, _ in parts]
        made[name] = _joined(name)(values)
    p50, _, p99, _, most = quantiles(made["latency_hdr"]) if made["latency_hdr"] else (0,) * 5
    made |= {"p50_ns": p50, "p99_ns": p99, "max_ns": most}
    made["lag_p99_ns"] = quantiles(made["lag_hdr"])[2] if made["lag_hdr"] else None
    return Slice(**made)


def _joined(name: str) -> Callable[[Sequence[Any]], Any]:
    """How the generators' values of a field become one."""
    if name in _MOST:
        return max
    if name in _HISTOGRAMS:
        return lambda values: None if values[0] is None else merged(values)
    if name == "samples":
        return lambda values: {kind: text for one in reversed(values) for kind, text in one.items()}
    if name == "gave_up":
        return all
    if name == "errors":
        return lambda values: dict(sum((Counter(one) for one in values), Counter[str]()))
    if name == "statuses":
        return lambda values: dict(sum((Counter(dict(_by_number(one))) for one in values), Counter[int]()))
    return lambda values: None if values[0] is None else sum(values)


def _by_number(statuses: Mapping[str, int]) -> Sequence[tuple[int, int]]:
    return [(int(status), count) for status, count in statuses.items()]
