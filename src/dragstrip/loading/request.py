"""Checks a load before anything is sent: its URL, the bytes of the request, threads and ports."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from dragstrip import machine
from dragstrip.contender import AllowedHost, addresses_here, allowance, first_listening, refuse_beyond
from dragstrip.errors import BadUsage
from dragstrip.loading import arrivals
from dragstrip.loading.arrivals import Offer
from dragstrip.loading.request_pool import PoolRequest
from dragstrip.record import DEFAULT_CONNECTIONS, MAX_TIMEOUT_S
from dragstrip.store import masking
from dragstrip.workload import connection_words
from dragstrip.workload.typed import FIELD_VALUE, TOKEN, VISIBLE

#: From this size on, bodies are checked by length unless ``check`` is set: reading them would be most of the work.
LARGE_BODY = 64 * 1024

#: Shorter bodies are always read whole: the engine gains nothing by skipping them.
MIN_BODY_BY_LENGTH = 16 * 1024

#: Duration of a run without a count or a duration.
DEFAULT_DURATION_S = 10.0

#: Headers that Dragstrip sets itself, and the remedy for a user who sets them.
_OURS = {
    "connection": "give keep-alive, or close; over HTTP/2 leave it out",
    "content-length": "leave it out; the body's own length is sent",
    "transfer-encoding": "leave it out; bodies are sent with their length",
    "expect": "leave it out; requests are sent whole",
}

#: Reference requests before the load. They are correct by definition and count among the run's requests, so that the
#: count equals the server's own; they are in no latency and no rate.
PLAIN = 2

#: Maximum number of requests in flight on one connection.
MAX_PIPELINED = 1024

#: Default rate for a host elsewhere: any server can bear it.
USUAL_ELSEWHERE_PER_S = 1000.0

#: Source addresses of ``--sources auto`` if every request has its own connection: closed ports rest for a while.
CHURN_SOURCES = 16

#: Connections over TLS make a full handshake, or resume the session of an earlier connection. A workload's ``tls`` has
#: the same values.
Handshakes = Literal["full", "resumed"]
FULL: Handshakes = "full"
RESUMED: Handshakes = "resumed"
HANDSHAKES = (FULL, RESUMED)

_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFile:
    """A script as the command line names it.

    Args:
        name: the file's name, for messages.
        source: its text.
        args: the arguments after ``--``, for ``init``.
    """

    name: str
    source: bytes
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """One run of load on one URL: the command line's options as one value.

    Args:
        url: http or https, on this machine or at a host of ``allowed``.
        connections: open at a time.
        requests: ends the run after exactly this many requests, including the two reference requests at its start;
            None: no such limit.
        duration_s: ends the run; with ``requests`` whichever comes first; None and no count: 10 s.
        threads: of the engine; None for one per engine core.
        keepalive: False opens a new connection for each request.
        http: "1.1"; "1.0" as in ab: connections are kept only if the server also says so; or "2": by ALPN over TLS,
            otherwise by prior knowledge.
        streams: over HTTP/2, requests at a time on one connection, 1 to 1024.
        headers: names and values, in the order in which they are sent.
        timeout_s: for one response and for one attempt to connect; up to 60.
        io: the engine's back end: "auto" (io_uring if it works, otherwise epoll), "uring" or "epoll".
        awake: "auto": this machine's cores are kept from sleeping; "off": the kernel decides.
        check: the comparison of each response in addition to its status: every byte of the body ("full"), its length
            ("length"), or nothing more ("status"). "auto" compares as "full" does below 64 KiB. From there on it
            compares lengths, and every byte of the first bodies and of one in 64 later.
        expect_status: the correct status; None accepts any 2xx of the first reference response.
        offer: an open loop; None for a closed one.
        unix: a socket file to connect to, whatever host the URL names.
        cacert: PEM file of the authorities that may have signed the server's certificate; None: this machine's own.
        insecure: accepts any certificate.
        handshakes: "full": each connection over TLS makes a full one; "resumed": it resumes an earlier session.
        close_after: requests after which a kept connection ends; the last one announces that.
        pipeline: requests in flight on one connection, 1 to 1024.
        first_byte: records the time to each response's first byte.
        sources: number of addresses of 127.0.0.0/8 that connections come from, each with its own ports; None: as many
            as seem needed.
        pool: different requests, cycled; (): the one request that the other fields describe.
        script: makes the requests, or has made the pool.
        allowed: hosts other than this machine that may be loaded.
        namespace: of the network that has the URL's address, as a container has; None: this process's own.
        container: its image and the image's id, for the report; "" without a container.
        again: how many reference requests were sent a third time.
    """

    url: str
    connections: int = DEFAULT_CONNECTIONS
    requests: int | None = None
    duration_s: float | None = None
    threads: int | None = None
    keepalive: bool = True
    http: str = "1.1"
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    timeout_s: float = 5.0
    expect_status: int | None = None
    io: str = "auto"
    awake: str = "off"
    check: str = "auto"
    offer: Offer | None = None
    unix: str | None = None
    cacert: str | None = None
    insecure: bool = False
    handshakes: Handshakes = FULL
    close_after: int | None = None
    pipeline: int = 1
    streams: int = 1
    first_byte: bool = False
    sources: int | None = 1
    pool: tuple[PoolRequest, ...] = ()
    script: ScriptFile | None = None
    allowed: tuple[AllowedHost, ...] = ()
    namespace: Path | None = None
    container: str = ""
    again: int = 0

    @property
    def plain(self) -> int:
        """The number of reference requests that learn the responses that were not given."""
        if self.check == "status":
            return 0
        return PLAIN * sum(asked.answer is None for asked in set(self.pool) or (PoolRequest(),)) + self.again


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A URL's parts: where to connect, and the text for the request.

    Args:
        host: an address, if it is this machine. others: more addresses of it, as ``localhost`` has; see ``reachable``.
        tls: the name that the certificate must have; None without TLS. elsewhere: the allowance for another machine.
    """

    host: str
    port: int
    authority: str
    path: str
    unix: str | None = None
    tls: str | None = None
    elsewhere: AllowedHost | None = None
    others: tuple[str, ...] = ()


def target(url: str, unix: str | None = None, allowed: Sequence[AllowedHost] = ()) -> Target:
    """Splits a URL into its parts.

    Raises:
        BadUsage: not a URL, not http or https, a host that was not allowed, or characters that no request may have.
    """
    remedy = "use http://127.0.0.1:8080/"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise BadUsage(f"{url} is not a valid URL ({error}); {remedy}") from error
    if parts.scheme not in ("http", "https"):
        hint = "--unix PATH http://localhost/" if parts.scheme == "unix" else "http://127.0.0.1:8080/"
        if re.fullmatch(r"[\w.-]+(:\d+)?(/\S*)?", url):  # as ab takes it
            hint = f"http://{url}" if "/" in url else f"http://{url}/"
        raise BadUsage(f"{url}: it begins with neither http:// nor https://; use {hint}")
    if parts.username is not None:
        raise BadUsage(f"{masking.url(url)}: a name or password in the address is not sent; use --basic-auth USER:PASS")
    elsewhere = None
    here = addresses_here(host) if unix is None and port != 0 else ()
    if unix is None and not here:
        try:
            elsewhere = allowance(host if port != 0 else "", allowed)
        except BadUsage as error:
            raise BadUsage(f"{url}: {error}") from error
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not VISIBLE.fullmatch(path):
        raise BadUsage(f"{url}: {path!r} has characters that no request line may hold; percent-encode them (%20)")
    shown = f"[{host}]" if ":" in host else host
    usual = 443 if parts.scheme == "https" else 80
    authority = shown if port in (None, usual) else f"{shown}:{port}"
    tls = host if parts.scheme == "https" else None
    return Target(
        host=here[0] if here else host,
        port=port or usual,
        authority=authority,
        path=path,
        unix=unix,
        tls=tls,
        elsewhere=elsewhere,
        others=here[1:],
    )


def reachable(to: Target) -> Target:
    """The target at the first of its addresses at which a server listens: ``localhost`` may be ::1 alone."""
    return replace(to, host=first_listening((to.host, *to.others), to.port), others=()) if to.others else to


def bounded(request: LoadRequest, to: Target) -> LoadRequest:
    """The request within the bounds of a host elsewhere; without a rate, a moderate one is offered.

    Raises:
        BadUsage: the request exceeds the allowed bounds.
    """
    host = to.elsewhere
    if host is None:
        return request
    if request.offer is None and host.rate_per_s is not None:
        request = replace(request, offer=Offer(rate_per_s=min(USUAL_ELSEWHERE_PER_S, host.rate_per_s), usual=True))
    own_s = request.offer.length_s() if request.offer else None
    time_s = own_s or request.duration_s
    if time_s is None and request.requests is not None:
        request, time_s = (
            replace(request, duration_s=host.time_s),
            host.time_s,
        )  # the count or this time, whichever ends first
    rate_per_s = request.offer.most_per_s() if request.offer else None
    refuse_beyond(host, connections=request.connections, rate_per_s=rate_per_s, time_s=time_s or DEFAULT_DURATION_S)
    return request


def separate(request: LoadRequest, to: Target) -> list[tuple[LoadRequest, Target, PoolRequest]]:
    """The different requests of a pool, each as if it were the only one."""
    requests = []
    for asked in request.pool or (PoolRequest(),):
        body = request.body if asked.body is None else asked.body
        names = {name.lower() for name, _ in asked.headers}
        headers = (*(pair for pair in request.headers if pair[0].lower() not in names), *asked.headers)
        status = request.expect_status if asked.status is None else asked.status
        alone = replace(
            request, method=asked.method or request.method, headers=headers, body=body, expect_status=status
        )
        requests.append((alone, replace(to, path=asked.path or to.path), asked))
    return requests


def request_bytes(request: LoadRequest, to: Target) -> bytes:
    """The request's bytes on the wire; a header of the user's replaces Dragstrip's of the same name.

    Raises:
        BadUsage: a method or header that is not valid HTTP, or a header that Dragstrip must set itself.
    """
    if not TOKEN.fullmatch(request.method):
        raise BadUsage(f"-m {request.method!r} is not a valid method; use GET or POST")
    fields = {"Host": to.authority, "User-Agent": "dragstrip", "Accept": "*/*"}
    whose = "-H" if not request.pool else "--pool, or -H: the header"
    connection = False
    given = {name.lower() for name, _ in request.headers}
    lines = [f"{name}: {value}" for name, value in fields.items() if name.lower() not in given]
    for name, value in request.headers:
        if not TOKEN.fullmatch(name) or not FIELD_VALUE.fullmatch(value):
            example = "-H 'Accept: text/html'" if not request.pool else '{"headers": {"Accept": "text/html"}}'
            raise BadUsage(f"{whose} {f'{name}: {value}'!r} is not a valid header; use {example}")
        said = value.strip().lower() if name.lower() == "connection" and request.http != "2" else ""
        if said == "keep-alive" and not request.keepalive:
            raise BadUsage(f"-H '{name}: {value}' and --no-keepalive contradict each other; give one")
        if name.lower() in _OURS and said not in ("keep-alive", "close"):
            raise BadUsage(f"{whose} '{name}: …' can't be set; {_OURS[name.lower()]}")
        connection = connection or bool(said)
        lines.append(f"{name}: {value}")
    if request.body or request.method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(request.body)}")
    lines += [] if connection else connection_words(request.http, request.keepalive)
    version = "1.1" if request.http == "2" else request.http  # the engine makes frames of the same text
    head = "\r\n".join([f"{request.method} {to.path} HTTP/{version}", *lines])
    return head.encode("latin-1") + b"\r\n\r\n" + request.body


def check(request: LoadRequest) -> None:
    """Refuses bounds that can't be kept.

    Raises:
        BadUsage: names the option, the given value and valid ones.
    """
    if request.connections < 1:
        raise BadUsage(f"-c {request.connections}: no connection to send on; give 1 or more")
    if request.check != "auto" and request.requests is not None and 0 < request.plain >= request.requests:
        raise BadUsage(
            f"-n {request.requests}: --check {request.check} learns the reference response from {request.plain} "
            f"requests, and nothing would be left to measure; give {request.plain + 1} or more, or --check status"
        )
    if request.duration_s is not None and request.duration_s <= 0:
        raise BadUsage(f"-d {request.duration_s}: no time to run; give more than 0 s")
    if not 0.001 <= request.timeout_s <= MAX_TIMEOUT_S:
        raise BadUsage(f"--timeout {request.timeout_s:g} s: give 1ms to {MAX_TIMEOUT_S:g}s")
    if request.offer:
        arrivals.check(request.offer, request.requests, request.duration_s)
    if not 1 <= request.pipeline <= MAX_PIPELINED or (request.pipeline > 1 and not request.keepalive):
        raise BadUsage(
            f"--pipeline {request.pipeline}: give 1 to {MAX_PIPELINED}; more than 1 needs connections that are kept"
        )
    if request.pipeline > 1 and request.offer:
        raise BadUsage("--pipeline and -R contradict each other: in an open loop each request has its own connection")
    _check_streams(request)
    if request.script is not None:
        _check_beside_script(request)
    if request.close_after is not None and not request.keepalive:
        raise BadUsage("--close-after and --no-keepalive contradict each other; --no-keepalive closes after 1")
    ports = local_ports()
    if ports is not None and request.unix is None and request.connections > ports * spread(request):
        enough = -(-request.connections // ports)
        raise BadUsage(
            f"-c {request.connections}: needs as many local ports, and this machine gives out {ports:,} to each source "
            f"address; use --sources {enough} or auto, fewer connections, or a wider net.ipv4.ip_local_port_range"
        )


def _check_streams(request: LoadRequest) -> None:
    """Refuses options that HTTP/2 does not support, and options that only HTTP/2 supports."""
    if request.http != "2":
        if request.streams > 1:
            raise BadUsage(
                f"--streams {request.streams}: HTTP/{request.http} has no streams; add --http 2, or use --pipeline"
            )
        return
    if not 1 <= request.streams <= MAX_PIPELINED or (request.streams > 1 and not request.keepalive):
        raise BadUsage(
            f"--streams {request.streams}: give 1 to {MAX_PIPELINED}; more than 1 needs connections that are kept"
        )
    if request.pipeline > 1:
        raise BadUsage(f"--pipeline {request.pipeline} with --http 2: its streams are --streams {request.pipeline}")
    if any(asked.raw is not None for asked in request.pool):
        raise BadUsage("--raw with --http 2: HTTP/2 sends a request as frames; set it with -m, -H and -b")


def _check_beside_script(request: LoadRequest) -> None:
    """Refuses options that would change the bytes that a script has made."""
    options = {
        "--no-keepalive": not request.keepalive,
        "--close-after": request.close_after is not None,
        f"--http {request.http}": request.http != "1.1",
    }
    if option := next((name for name, given in options.items() if given), None):
        raise BadUsage(
            f"{option} and -s can't be combined: the script makes the requests; let it set wrk.headers"
            '["Connection"] = "close", or write the first line itself'
        )


def local_ports() -> int | None:
    """How many ports the kernel has for outgoing connections; None if unknown."""
    try:
        low, high = (int(word) for word in _PORTS.read_text().split())
    except (OSError, ValueError):
        return None
    return high - low + 1


def spread(request: LoadRequest) -> int:
    """Number of source addresses: as given, or enough to leave half of each address's ports free."""
    if request.sources is not None:
        return request.sources
    ports = local_ports()
    if request.unix is not None or ports is None:
        return 1
    return max(-(-2 * request.connections // ports), 1 if request.keepalive else CHURN_SOURCES)


def notes_before(request: LoadRequest, *, elsewhere: bool = False) -> list[str]:
    """Warnings of what may go wrong in this run.

    Args:
        elsewhere: another machine is loaded, which no loopback address can reach.
    """
    notes: list[str] = []
    ports = local_ports()
    if request.offer is not None and request.offer.usual:
        notes.append(
            f"an open loop of {request.offer.rate_per_s:,.0f} requests per second, the default for another machine; -R "
            "sets another rate, --allow-host NAME:rate=any allows a closed loop"
        )
    if request.requests is None or ports is None or request.unix is not None:
        return notes
    new = request.requests if not request.keepalive else request.requests // (request.close_after or request.requests)
    available = ports * spread(request)
    if new > available:
        notes.append(
            f"{new:,} new connections are more than the {available:,} local ports: if the server leaves closing to its "
            "clients, ports run out (each rests for a second or more), and further connections fail; "
            f"{'keep connections alive, or send fewer' if elsewhere else 'use --sources auto'}"
        )
    return notes


def worker_cores(request: LoadRequest, cores: tuple[int, ...] | None = None) -> tuple[tuple[int, ...], int, list[str]]:
    """The engine's cores, one per thread, the number of useful connections, and notes if these differ from the request.

    Args:
        cores: cores of an engine that already runs; None: they are chosen here.
    """
    notes: list[str] = []
    connections = request.connections
    if request.requests is not None and request.requests - request.plain < connections:
        connections = request.requests - request.plain
        if request.requests < request.connections:
            notes.append(f"-c {request.connections}: {connections} opened, enough for -n {request.requests}")
    if cores is not None:
        if request.threads and request.threads > len(cores):
            notes.append(f"-t {request.threads}: a generator runs one thread on each of its {len(cores)} cores")
        return cores, connections, notes
    lane = machine.lanes(None, None).engine
    usable = [*lane, *(core for core in sorted(os.sched_getaffinity(0)) if core not in lane)]
    wanted = request.threads or len(lane)
    threads = min(wanted, len(usable), connections)
    if request.threads and threads < wanted:
        why = f"{len(usable)} cores" if threads == len(usable) else f"{connections} connections"
        notes.append(f"-t {wanted}: {threads} run, for {why}; more threads than that would only take turns")
    return tuple(usable[:threads]), connections, notes
