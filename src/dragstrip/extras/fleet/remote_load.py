"""``dragstrip load --fleet``: one URL under load from all generators at once; counts and histograms add up.

Each generator takes the steps that ``dragstrip load`` takes on one machine, with its share of the connections. All
begin at the same time, as the blocks of a race do. A load may last for an hour, so beats continue: a generator stops if
it gets none.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from dragstrip import __version__
from dragstrip.contender import AllowedHost, is_loopback
from dragstrip.errors import BadUsage, DragstripError, MachineLost
from dragstrip.extras.compat.wrk_script import WrkScript
from dragstrip.extras.fleet.fleet_site import FleetAwake, FleetSite
from dragstrip.extras.fleet.generator_duties import GeneratorDuties
from dragstrip.extras.fleet.machines import Connected, Machines
from dragstrip.extras.fleet.merging import merge
from dragstrip.extras.fleet.messages import LoadRan, LoadReady, LoadScript
from dragstrip.extras.fleet.remote_engine import MORE_S, awaited, named, shares, turns
from dragstrip.extras.fleet.server_duties import ServerDuties
from dragstrip.loading.arrivals import MAX_S
from dragstrip.loading.learn import Learned
from dragstrip.loading.request import DEFAULT_DURATION_S, LoadRequest, Target, bounded, check, target
from dragstrip.loading.request_pool import PoolRequest
from dragstrip.loading.result import LoadResult, ScriptReport, Slice
from dragstrip.loading.run import LoadProgress, merged
from dragstrip.record import Backend, Load, LoadEnding

#: More threads than any machine has cores: each generator uses one per core.
_ALL_CORES = 256
#: More connections than any run has: a machine of the fleet belongs to the user, and needs no limit.
_ANY_CONNECTIONS = 10**6

#: Further seconds for loading a script in every thread of a generator.
_SCRIPT_S = 60.0
#: More seconds than a run can have: a generator that reports more is invalid.
MAX_SECONDS = round(2 * MAX_S)

_AT_ODDS = "contradict each other"


def load_over(machines: Machines, request: LoadRequest, progress: LoadProgress) -> LoadResult:
    """Loads a URL from all generators of a fleet.

    Raises:
        BadUsage: the request is not possible over a fleet, or not allowed for that host.
        MachineLost: a machine is gone. DragstripError, EngineFailure: as ``loading.run.run``.
    """
    requested_s, (request, to) = request.duration_s, _allowed(machines, request)
    script = _FleetScript(request, to) if request.script is not None else None
    request, notes = _no_idle_connections(request, len(machines.generators))
    load = Load(
        connections=request.connections,
        threads=request.threads or _ALL_CORES,
        keepalive=request.keepalive,
        timeout_ns=round(request.timeout_s * 1e9),
    )
    opening = FleetSite(machines).open_race(load, seed=1, io=request.io, keep=request.awake, wait="sleep")
    with opening as (opened, _), FleetAwake(machines, opened).held():
        threads = [opened[generator.name].threads for generator in machines.generators]
        if script is not None:
            script.number(sum(threads))
        ready = _made_ready(machines, request, threads)
        if script is not None:
            request = script.settled(request, machines.generators, ready)
        learned = _learned(machines.generators, ready)
        doubts = list(dict.fromkeys(doubt for reply in ready for doubt in reply.doubts))
        # Dragstrip's own time limit is not reported.
        shown = request if request.requests is None else replace(request, duration_s=requested_s)
        progress.begun(shown, learned, doubts)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        finished, ran = _run(machines, request, progress.shown, lambda done: progress.slice_done(shown, done))
    notes += _left_early(machines.generators, ran)
    # Doubts are notes only if they came true.
    notes += doubts if any("connect" in part.errors for reply in ran for part in reply.slices) else []
    result = _result(machines, shown, to, learned, ready, started, finished, ran)
    result = replace(result, notes=(*result.notes, *notes))
    return script.report(result, ready, ran) if script is not None else result


def _allowed(machines: Machines, request: LoadRequest) -> tuple[LoadRequest, Target]:
    """Checks what the request loads: the servers' machine, or a host that the user named.

    Raises:
        BadUsage: as ``load_over``.
    """
    at_odds = {
        "--unix": (request.unix is not None, "a socket file can't be reached from other machines"),
        "--sources": (request.sources != 1, "these are addresses of one machine's loopback"),
    }
    for name, (given, why) in at_odds.items():
        if given:
            raise BadUsage(f"{name} and --fleet {_AT_ODDS}: {why}; leave it out, or load from this machine alone")
    if _lasts_s(request) > MAX_S:
        raise BadUsage(f"-d {_lasts_s(request):g} s: over a fleet, give at most {MAX_S:g} s, or run it again")
    address = machines.server.machine.address
    servers = AllowedHost(name=address, connections=_ANY_CONNECTIONS, rate_per_s=None, time_s=MAX_S)
    request = replace(request, allowed=(*request.allowed, servers))
    _refuse_unknown(request, address)
    to = target(request.url, None, request.allowed)
    if to.elsewhere is None:
        raise BadUsage(
            f"{request.url}: each generator of the fleet would load itself; give the server's own address, {address}"
        )
    request = bounded(request, to)
    count = len(machines.generators)
    _refuse_too_few(request, count)
    check(parts(request, count)[0])  # the first has the largest share
    return request, to


def _refuse_unknown(request: LoadRequest, address: str) -> None:
    """Refuses a host that is neither the address of the servers' machine nor a host that the user named.

    Raises:
        BadUsage: the message has a valid address.
    """
    try:
        host = urlsplit(request.url).hostname or ""
    except ValueError:
        return  # reading the URL refuses it later
    loopback = not host or host == "localhost" or is_loopback(host)
    if not loopback and host not in {allowed.name for allowed in request.allowed}:
        raise BadUsage(
            f"{request.url}: {host} is not the address of the servers' machine; give that, {address}, or add "
            f"--allow-host {host} if you may load it"
        )


def _refuse_too_few(request: LoadRequest, count: int) -> None:
    """Refuses a count of requests that leaves a generator nothing to measure.

    Raises:
        BadUsage: the message has a sufficient count.
    """
    least = count * (request.plain + 1)
    if request.requests is not None and request.requests < least:
        plain = f"sends {request.plain} reference requests first, and then " * bool(request.plain)
        raise BadUsage(
            f"-n {request.requests}: each of {count} generators {plain}sends at least one; give {least} or more"
        )


def _no_idle_connections(request: LoadRequest, count: int) -> tuple[LoadRequest, list[str]]:
    """The request with no more connections than requests under load, and a note if that is fewer than requested."""
    under_load = request.connections if request.requests is None else request.requests - count * request.plain
    if under_load >= request.connections:
        return request, []
    note = f"-c {request.connections}: {under_load} opened, enough for -n {request.requests}"
    return replace(request, connections=under_load), [note]


def parts(request: LoadRequest, count: int) -> tuple[LoadRequest, ...]:
    """Each generator's request: its share of the connections and of the requests.

    The shares add up, including each generator's plain requests. In an open loop all generators share one schedule and
    take turns in it, so each gets the count of the whole schedule.
    """
    connections = shares(request.connections, count)
    if request.requests is None:
        return tuple(replace(request, connections=share) for share in connections)
    under_load = request.requests - count * request.plain
    split = (under_load,) * count if request.offer else shares(under_load, count)
    return tuple(
        replace(request, connections=share, requests=request.plain + sent)
        for share, sent in zip(connections, split, strict=True)
    )


def _lasts_s(request: LoadRequest) -> float:
    return (request.offer.length_s() if request.offer else None) or request.duration_s or DEFAULT_DURATION_S


def _made_ready(machines: Machines, request: LoadRequest, threads: Sequence[int]) -> list[LoadReady]:
    """Has every generator learn the correct responses and open its share of the connections.

    Args:
        threads: of each generator's engine, in their order.
    """
    requests = parts(request, len(machines.generators))
    taken = turns(threads, [part.connections for part in requests])
    numbers = [(sum(threads[:index]), sum(threads)) for index in range(len(threads))]
    names = [generator.name for generator in machines.generators]
    share = dict(zip(names, zip(requests, taken, numbers, strict=True), strict=True))
    within_s = (request.plain + 2) * request.timeout_s + MORE_S + (_SCRIPT_S if request.script else 0.0)
    cacert = None if request.cacert is None else _text_of(request.cacert)

    def ready(node: Connected) -> LoadReady:
        part, turn, number = share[node.name]
        with named(node):
            return node.channel.begin(
                GeneratorDuties.ready_load, request=part, cacert=cacert, turns=turn, script_threads=number
            )(within_s)

    return machines.on_all(ready, machines.generators)


def _text_of(cacert: str) -> str:
    try:
        return Path(cacert).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(f"--cacert {cacert}: can't be used ({error}); give certificates in PEM") from error


def _learned(generators: Sequence[Connected], ready: Sequence[LoadReady]) -> Learned:
    """The correct response, which must be the same for all generators.

    Raises:
        DragstripError: two generators got different responses.
    """
    first = ready[0]
    for generator, other in zip(generators, ready, strict=True):
        if (other.learned.status, other.body_bytes) != (first.learned.status, first.body_bytes):
            raise DragstripError(
                f"{generators[0].name} got status {first.learned.status} and {first.body_bytes:,} bytes, "
                f"{generator.name} got status {other.learned.status} and {other.body_bytes:,} bytes; load an address "
                "that sends all generators the same response"
            )
    # The bytes stay with the generators, which compare with them; a report shows only how many there are.
    return replace(first.learned, body=bytes(first.body_bytes))


def _run(
    machines: Machines, request: LoadRequest, shown: bool, show: Callable[[list[Slice]], None]
) -> tuple[LoadEnding, list[LoadRan]]:
    """Loads from all generators at once; returns what ended the load, and each generator's part.

    Args:
        shown: progress is shown; ``show`` then gets all seconds so far.

    Raises:
        MachineLost: a generator is gone, or the observer no longer answers it. DragstripError: a script failed there.
    """
    lasts_s, server = _lasts_s(request) + request.timeout_s, machines.server.channel
    server.ask(ServerDuties.begin_run, 0.0)
    ahead_ns = [generator.clock.offset_ns for generator in machines.generators]
    with Seconds(ahead_ns, show) as seconds:
        replies = [
            generator.channel.begin(GeneratorDuties.load, show=partial(seconds.take, index) if shown else None)
            for index, generator in enumerate(machines.generators)
        ]
        interrupted = False
        try:
            ran = awaited(machines.generators, replies, lasts_s + MORE_S)
        except KeyboardInterrupt:
            ran, interrupted = [reply(MORE_S) for reply in replies], True
    server.ask(ServerDuties.end_run)
    for generator, part in zip(machines.generators, ran, strict=True):
        if part.finished is LoadEnding.INTERRUPTED and not interrupted:
            raise MachineLost(generator.name, "its marks were no longer answered; check the data link")
    return LoadEnding.INTERRUPTED if interrupted else _finished(request, ran), ran


def _finished(request: LoadRequest, ran: Sequence[LoadRan]) -> LoadEnding:
    """What ended a run that was not interrupted.

    A generator without a connection sends nothing. A run by time goes on without it; a run by count misses its count.
    """
    ends, slices = [part.finished for part in ran], [part for reply in ran for part in reply.slices]
    if request.requests is not None:
        under_load = request.requests - len(ran) * request.plain
        if sum((part.sent if request.offer is None else part.offered) or 0 for part in slices) >= under_load:
            return LoadEnding.COUNT
    if all(end is LoadEnding.SCRIPT for end in ends):
        return LoadEnding.SCRIPT
    missed = any if request.requests is not None else all
    return LoadEnding.GAVE_UP if missed(end is LoadEnding.GAVE_UP for end in ends) else LoadEnding.DURATION


def _left_early(generators: Sequence[Connected], ran: Sequence[LoadRan]) -> list[str]:
    """Notes on generators that had no connection left while others had."""
    pairs = zip(generators, ran, strict=True)
    ended = [generator.name for generator, part in pairs if part.finished is LoadEnding.GAVE_UP]
    if len(ended) == len(ran):
        return []  # the report has a sentence for that
    why = "the server refused or dropped them all"
    return [
        f"{name} ended early, without a connection: {why}; from then on the figures cover only the other generators"
        for name in ended
    ]


def _seconds(ran: Sequence[LoadRan], ahead_ns: Sequence[int]) -> Iterator[Slice]:
    """The run's seconds, each merged from all generators.

    Each generator's seconds end at its own times. A merged second begins when the one before it ends, and lasts until
    the last generator's second ends. So all of them together last as long as the generator that loaded longest.
    """
    lasted_ns, until_ns = [0] * len(ran), 0
    for second in zip_longest(*(part.slices for part in ran)):
        parts_of_second = [(index, part) for index, part in enumerate(second) if part is not None]
        for index, part in parts_of_second:
            lasted_ns[index] += part.counted_ns
        counted_ns, until_ns = max(lasted_ns) - until_ns, max(lasted_ns)
        waited_ns = max(part.duration_ns - part.counted_ns for _, part in parts_of_second)
        whole = merged_second([(part, ahead_ns[index]) for index, part in parts_of_second])
        yield replace(whole, counted_ns=counted_ns, duration_ns=counted_ns + waited_ns)


def _result(
    machines: Machines,
    request: LoadRequest,
    to: Target,
    learned: Learned,
    ready: Sequence[LoadReady],
    started: str,
    finished: LoadEnding,
    ran: Sequence[LoadRan],
) -> LoadResult:
    """All generators' parts as one run."""
    ahead_ns = [generator.clock.offset_ns for generator in machines.generators]
    slices = tuple(_seconds(ran, ahead_ns))
    statuses = sum((Counter(reply.plain_statuses) for reply in ready), Counter[int]())
    first = ready[0]
    return LoadResult(
        request=request,
        target=to,
        learned=learned,
        started=started,
        software=__version__,
        cores=tuple(core for reply in ready for core in reply.cores),
        connections=sum(reply.connections for reply in ready),
        slices=slices,
        finished=finished,
        plain_statuses=dict(statuses),
        any_body=first.any_body,
        by_length=first.by_length,
        io=first.io,
        backend=Backend(first.backend) if first.backend in set(Backend) else Backend.EPOLL,
        stamps=first.stamps,
        notes=tuple(dict.fromkeys(note for reply in ready for note in reply.notes)),
        generators=tuple(generator.name for generator in machines.generators),
        latency_hdr=merged(part.latency_hdr for part in slices),
        connect_hdr=merged(part.connect_hdr for part in slices),
        first_byte_hdr=merged(part.first_byte_hdr for part in slices),
        latency_sent_hdr=merged(part.latency_sent_hdr or b"" for part in slices),
        lag_hdr=merged(part.lag_hdr or b"" for part in slices),
    )


class Seconds:
    """Shows a load while it runs: a second is shown once all generators have sent it, or one has sent the next.

    Args:
        ahead_ns: by generator, how far its clock is ahead of this machine's. show: gets all seconds so far.
    """

    def __init__(self, ahead_ns: Sequence[int], show: Callable[[list[Slice]], None]) -> None:
        self._ahead_ns, self._show = tuple(ahead_ns), show
        self._rows: list[dict[int, Slice]] = []
        self._received = [0] * len(ahead_ns)
        self._done: list[Slice] = []
        self._lock, self._over = threading.Lock(), False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Shows nothing from now on: later seconds would be drawn over the report."""
        with self._lock:
            self._over = True

    def take(self, generator: int, part: Slice) -> None:
        """Adds a generator's second."""
        with self._lock:
            second = self._received[generator]
            if self._over or second >= MAX_SECONDS:
                return
            self._received[generator] += 1
            if second == len(self._rows):
                self._rows.append({})
            self._rows[second][generator] = part
            self._draw(second)

    def _draw(self, changed: int) -> None:
        """Shows the seconds that are complete by now; a second that was reported late is corrected."""
        complete = len(self._rows) - (len(self._rows[-1]) < len(self._ahead_ns))
        if changed >= complete and complete <= len(self._done):
            return
        first = min(changed, len(self._done))
        self._done[first:] = [
            merged_second([(part, self._ahead_ns[index]) for index, part in sorted(row.items())])
            for row in self._rows[first:complete]
        ]
        self._show(self._done)


def merged_second(parts: Sequence[tuple[Slice, int]]) -> Slice:
    """One second merged from all generators; with each part, how far its clock is ahead of this machine's, ns."""
    started_ns = min(part.started_ns - ahead_ns for part, ahead_ns in parts)
    return replace(merge([part for part, _ in parts]), started_ns=started_ns)


class _FleetScript:
    """This machine's copy of a load's script, which calls ``setup`` and ``done``.

    Raises:
        BadUsage: the script fails (the message has file and line), or this build has no Lua.
    """

    def __init__(self, request: LoadRequest, to: Target) -> None:
        assert request.script is not None
        self._file, self._request, self._to = request.script, request, to
        self._script = WrkScript(request, to, threads=0)
        self._before = self._script.printed()

    def number(self, threads: int) -> None:
        """Calls ``setup``, if the script has it, for the threads of all generators.

        Raises:
            BadUsage: the script fails; the message has file and line.
        """
        if self._script.state.sets_up:
            self._script = WrkScript(self._request, self._to, threads=0, numbers=(0, threads))
            self._before = self._script.printed()

    def settled(self, request: LoadRequest, generators: Sequence[Connected], ready: Sequence[LoadReady]) -> LoadRequest:
        """The request as the script makes it: a pool of the requests that it always sends, or only checked by status.

        Raises:
            DragstripError: it always sends the same requests on one generator, but not on another.
        """
        first = self._of(ready[0])
        for generator, other in zip(generators, map(self._of, ready), strict=True):
            if (other.fixed is None, len(other.fixed or ())) != (first.fixed is None, len(first.fixed or ())):
                raise DragstripError(
                    f"-s {self._file.name}: it makes different numbers of requests on {generators[0].name} and "
                    f"{generator.name}; use a script that does not depend on its machine while it is loaded"
                )
        if first.fixed is None:
            return replace(request, check="status")
        return replace(request, pool=tuple(PoolRequest(raw=raw) for raw in first.fixed), pipeline=len(first.fixed))

    def report(self, result: LoadResult, ready: Sequence[LoadReady], ran: Sequence[LoadRan]) -> LoadResult:
        """The result with the script's report, from the generators in their order; ``done`` gets all numbers."""
        scripts = [self._of(reply) for reply in ready]
        self._script.state.take_globals([variables for part in ran for variables in part.globals])
        fault = self._script.done(result)
        report = ScriptReport(
            name=self._file.name,
            hooks=tuple(dict.fromkeys(hook for script in scripts for hook in script.hooks)),
            fixed=scripts[0].fixed is not None,
            before=self._before + "".join(script.printed for script in scripts),
            during="".join(part.printed for part in ran),
            after=self._script.printed(),
            fault=fault,
        )
        return replace(result, script=report)

    def _of(self, ready: LoadReady) -> LoadScript:
        if ready.script is None:
            raise DragstripError(f"-s {self._file.name}: a generator did not load it")
        return ready.script
