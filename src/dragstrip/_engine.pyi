"""The compiled load engine (``crates/python``): blocks of load in, tallies out. Times are CLOCK_MONOTONIC ns."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Literal, Protocol, final, type_check_only

#: What a program may tell an ``EngineError`` by.
#: ``address``: can't be resolved; ``address_in_use``; ``busy``: with a run in another thread; ``connect``: a connection
#: can't be opened, for another reason than those below; ``cores``: none given, or one that can't be used;
#: ``defect``: of the engine; ``descriptors``: too few; ``histogram``: unreadable; ``namespace``: a network namespace
#: can't be entered; ``plan``: a field is out of bounds; ``ports``: all in use; ``profile``: the sampler can't start, or
#: has stopped; ``protocol``: HTTP/2 or WebSocket, not spoken there; ``refused``: no listener; ``session``: not open;
#: ``shut_down``; ``system``: no thread, ring or epoll instance; ``timeout``: no connection in time; ``tls``: no
#: handshake, or a wrong certificate; ``uring``: does not work here; ``watch``: a file of the server's CPU time can't be
#: opened.
ErrorKind = Literal[
    "address",
    "address_in_use",
    "busy",
    "connect",
    "cores",
    "defect",
    "descriptors",
    "histogram",
    "namespace",
    "plan",
    "ports",
    "profile",
    "protocol",
    "refused",
    "session",
    "shut_down",
    "system",
    "timeout",
    "tls",
    "uring",
    "watch",
]

class EngineError(Exception):
    """The engine can't do this; the message names the field, the given value and a valid one.

    A run that Ctrl-C ends raises ``KeyboardInterrupt``, not this.
    """

    kind: ErrorKind

@type_check_only
class ExchangeLike(Protocol):
    """A request and its expected response; any object with these attributes works."""

    @property
    def request(self) -> bytes:
        """Head and body, as sent."""

    @property
    def status(self) -> int: ...
    @property
    def body(self) -> bytes:
        """The expected body without transfer coding; empty if any length is correct."""

    @property
    def any_body(self) -> bool:
        """Any body as long as ``body`` is correct; if that is empty, any of up to a mebibyte."""

    @property
    def digits(self) -> bool:
        """Each digit of ``body`` stands for any number: one digit or more."""

    @property
    def earliest_ns(self) -> int:
        """A response that arrives sooner after its request was sent is incorrect (``too_early``)."""

    @property
    def kind(self) -> int:
        """Number of its kind of request: from 0 without gaps, at most 64 kinds."""

    @property
    def message(self) -> str:
        """Over WebSocket, the type of the message and of its response: "text" or "binary"; otherwise ""."""

@final
class Exchange:
    """A request and its expected response."""

    def __init__(
        self,
        request: bytes,
        status: int,
        body: bytes,
        *,
        any_body: bool = False,
        digits: bool = False,
        earliest_ns: int = 0,
        kind: int = 0,
        message: str = "",
    ) -> None: ...
    @property
    def request(self) -> bytes: ...
    @property
    def status(self) -> int: ...
    @property
    def body(self) -> bytes: ...
    @property
    def any_body(self) -> bool: ...
    @property
    def digits(self) -> bool: ...
    @property
    def earliest_ns(self) -> int: ...
    @property
    def kind(self) -> int: ...
    @property
    def message(self) -> str: ...

@final
class Target:
    """Where a server listens: host and port, which are resolved when a session is opened, or a socket file.

    Args:
        namespace: of the network that has this address, like ``/proc/PID/ns/net``; None: this process's own.
    """

    def __init__(self, host: str, port: int, *, namespace: str | PathLike[str] | None = None) -> None: ...
    @staticmethod
    def unix(path: str | PathLike[str]) -> Target:
        """A unix socket."""

@final
class Tls:
    """Encryption; handshakes are full unless session resumption is requested."""

    def __init__(
        self,
        name: str,
        *,
        cacert: str | PathLike[str] | None = None,
        insecure: bool = False,
        resume: bool = False,
    ) -> None:
        """What the server has to prove.

        Args:
            name: the one that its certificate must have.
            cacert: PEM file of the authorities that may have signed it; None for this machine's.
            insecure: accepts any certificate.
            resume: connections resume sessions of those before them, where the server lets them.
        """

    @property
    def name(self) -> str: ...
    @property
    def resume(self) -> bool: ...
    @property
    def cacert(self) -> PathLike[str] | None: ...
    @property
    def insecure(self) -> bool: ...

@final
class SessionPlan:
    """Connections to one server, and what goes over them."""

    def __init__(
        self,
        target: Target,
        exchanges: Sequence[ExchangeLike],
        *,
        connections: int,
        keepalive: bool,
        timeout_ns: int,
        tls: Tls | None = None,
        requests_per_connection: int | None = None,
        pipelining: int = 1,
        first_byte: bool = False,
        sources: int = 1,
        by_length: bool = False,
        sequence: Sequence[int] = (),
        heads: Sequence[Sequence[Sequence[tuple[bytes, bytes, bool]]]] = (),
        streams: int | None = None,
        script: Script | None = None,
        turns: tuple[int, int] = (0, 0),
        partial: bool = False,
    ) -> None:
        """Plain values; ``Engine.open`` checks them.

        Args:
            exchanges: cycled per worker; all are messages over WebSocket, or none.
            connections: over all workers.
            keepalive: False opens a new connection for each request; the request itself must then
                carry ``Connection: close``, and nothing is connected before the first block.
            timeout_ns: per request and per attempt to connect.
            tls: None for no encryption.
            requests_per_connection: a kept connection ends with this many requests; the last one says so.
            pipelining: how many requests may be in flight on one connection.
            first_byte: records the time to each answer's first byte.
            sources: connections come from this many addresses of 127.0.0.0/8, each with its own ports.
            by_length: large bodies of a declared length are read whole at first and once in 64 later, else only counted
                (over TCP, unencrypted, with none of the four before).
            sequence: places of exchanges, which each worker sends in this order instead of one after the other.
            heads: by kind of request, the heads of reference responses: of each field name and value, and whether the
                value must be the same. A head like none of them fails (``wrong_head``); (): heads are not compared.
            streams: speaks HTTP/2, with this many requests at a time on each connection: in the clear by prior
                knowledge, over TLS by ALPN. Exchanges are written as HTTP/1.1. None: HTTP/1.1.
            turns: where several generators share an open loop's schedule: the number of this engine's first worker
                among all of them, and how many those are; (0, 0): they are its own.
            script: makes the requests while the load goes on, unless they are identical; also says where workers
                connect to. Then two exchanges give the expected responses, with and without a body (HEAD).
            partial: over HTTP/1, if a server accepts no more connections, begins with those that it has accepted.
        """

class ScriptError(Exception):
    """A script can't be used, or its ``done`` failed; the message begins with file and line.

    Not there where the engine was built without Lua.
    """

@type_check_only
class NumbersLike(Protocol):
    """Statistics: ascending values, how often each came, and what is exact of them all."""

    @property
    def values(self) -> list[float]: ...
    @property
    def counts(self) -> list[int]: ...
    @property
    def min(self) -> float: ...
    @property
    def max(self) -> float: ...
    @property
    def mean(self) -> float: ...
    @property
    def stdev(self) -> float: ...

@final
class Script:
    """A script of wrk's: loaded, with a Lua state for each worker and one for ``setup`` and ``done``.

    Not there where the engine was built without Lua.
    """

    def __init__(
        self,
        name: str,
        source: bytes,
        *,
        scheme: str,
        host: str,
        port: str | None,
        path: str,
        method: str,
        headers: list[tuple[str, str]],
        body: bytes | None,
        args: list[str],
        address: tuple[str, int] | None,
        workers: int,
        done_elsewhere: bool = False,
        threads: tuple[int, int] | None = None,
    ) -> None:
        """Runs the file, ``setup`` and ``init``; a function of the script may take 10 s here, and 1 s under load.

        Args:
            name: as messages have it.
            args: the URL, then what is the script's own.
            address: where the URL leads, for ``thread.addr``; None for a unix socket.
            workers: 0 makes the state for ``setup`` and ``done`` alone.
            done_elsewhere: another machine calls ``done``: what is printed in its state here is dropped.
            threads: of several machines: how many threads come before this machine's, and how many all have. ``setup``
                is then called for all of them.

        Raises:
            ScriptError: it fails, or takes too long.
        """

    @property
    def fixed(self) -> list[bytes] | None:
        """What every call of ``request`` makes, request by request; None if the calls may differ."""

    @property
    def addresses(self) -> list[tuple[object, int] | None]:
        """By worker: the address and port that ``setup`` chose, None for the URL's."""

    @property
    def hooks(self) -> list[str]:
        """Of ``request``, ``delay`` and ``response`` those that it has."""

    @property
    def sets_up(self) -> bool:
        """It has ``setup``, which is given every worker's thread."""

    @property
    def failure(self) -> str | None:
        """Why the load was ended, if a function failed under load."""

    @property
    def stopped(self) -> bool:
        """Every worker was stopped by the script."""

    def globals(self) -> list[bytes]:
        """By worker: its global variables, for ``take_globals`` on another machine.

        Raises:
            ScriptError: they take more than 4 MiB.
        """

    def take_globals(self, all: list[bytes]) -> None:
        """Gives the threads of other machines, in their order, the variables that they had there.

        Raises:
            ScriptError: it is not what ``globals`` gives.
        """

    def output(self) -> bytes:
        """What was printed since the last call; at most the first 8 MiB."""

    def done(
        self,
        *,
        duration_us: int,
        requests: int,
        bytes: int,
        errors: list[tuple[str, int]],
        latency: NumbersLike,
        rates: NumbersLike,
    ) -> None:
        """Calls ``done``, if there is one.

        Raises:
            ScriptError: it fails, or takes longer than 10 s.
        """

@final
class RateStep:
    """A stretch of an open loop: the rate goes in a straight line from one value to the other; 0 sends nothing."""

    def __init__(self, *, from_per_s: float, to_per_s: float, until_ns: int) -> None:
        """It begins where the step before ends.

        Args:
            until_ns: its end, from the begin of the block's lead-in.
        """

    @property
    def from_per_s(self) -> float: ...
    @property
    def to_per_s(self) -> float: ...
    @property
    def until_ns(self) -> int: ...

@final
class OpenLoop:
    """Requests leave by the clock, whatever the server does."""

    def __init__(
        self, steps: Sequence[RateStep], *, arrivals: str = "constant", precision: str = "precise", seed: int = 0
    ) -> None:
        """A schedule of departures.

        Args:
            steps: in order; the last one reaches to the block's end at least.
            arrivals: ``constant`` gaps, or those of a ``poisson`` process.
            precision: how sharply departures keep to it, paid for in wake-ups: ``precise``, ``balanced`` (ticks of
                210 µs) or ``thrifty`` (of 1 ms).
            seed: of Poisson arrivals; of several blocks in one run, each draws its own from it.

        Raises:
            EngineError: arrivals or precision is not one of these.
        """

    @property
    def steps(self) -> list[RateStep]: ...
    @property
    def arrivals(self) -> str: ...
    @property
    def precision(self) -> str: ...
    @property
    def seed(self) -> int: ...

@final
class BlockPlan:
    """One stretch of load on a session."""

    def __init__(
        self,
        session: int,
        *,
        counted_ns: int,
        lead_ns: int = 0,
        max_requests: int = 0,
        open_loop: OpenLoop | None = None,
    ) -> None:
        """Plain values; ``Engine.run`` checks them.

        Args:
            session: as ``Engine.open`` returned it.
            lead_ns: loaded before, and not counted.
            counted_ns: loaded and counted.
            max_requests: above 0 ends the block after exactly this many requests; ``counted_ns`` is then the limit.
            open_loop: None for a closed loop: a connection's next request leaves when its answer is there.
        """

    @property
    def session(self) -> int: ...
    @property
    def lead_ns(self) -> int: ...
    @property
    def counted_ns(self) -> int: ...
    @property
    def max_requests(self) -> int: ...
    @property
    def open_loop(self) -> OpenLoop | None: ...

@final
class KindTally:
    """One block's result for one kind of request, over all worker threads."""

    @property
    def requests(self) -> int:
        """Correct responses within the counted part."""

    @property
    def failed(self) -> int:
        """Requests without a correct response, whole block."""

    @property
    def latency_sum_ns(self) -> int:
        """Of ``requests``, exact."""

    @property
    def latency_hdr(self) -> bytes:
        """Latencies of ``requests``: HdrHistogram V2 compressed, ns; empty if nothing was recorded."""

@final
class Tally:
    """One block's result, over all worker threads.

    ``sent = answered + failed + in_flight`` always. ``errors`` holds the kinds that occurred; each failed
    request is in it once, as are failed attempts to connect (``connect``, ``refused``), which sent
    nothing, and unrequested bytes (``bad_response``). A latency runs from the request's sending, or from
    the opening of a connection that it had to wait for, to the arrival of its last byte: by the kernel's stamp, see
    ``Engine.latency_stamps``.

    In an open loop it runs from when the request was meant to leave; ``latency_sent_hdr`` has it from when it left,
    ``lag_hdr`` the difference. ``requests``, these histograms and ``offered`` are then of what was meant to leave
    within the counted part, whenever it was answered; ``unsent`` of these never left; ``departed`` is how many left
    within the counted part: fewer than offered, and the rate was not reached. All of these are None in a closed loop.
    """

    @property
    def session(self) -> int: ...
    @property
    def started_ns(self) -> int: ...
    @property
    def counted_start_ns(self) -> int: ...
    @property
    def lead_ns(self) -> int: ...
    @property
    def counted_ns(self) -> int: ...
    @property
    def duration_ns(self) -> int: ...
    @property
    def requests(self) -> int: ...
    @property
    def sent(self) -> int: ...
    @property
    def answered(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def errors(self) -> dict[str, int]: ...
    @property
    def statuses(self) -> dict[int, int]:
        """Readable responses by status, in its order: correct, or with an incorrect status, length or body."""

    @property
    def samples(self) -> dict[str, str]:
        """The first of each kind that went wrong, in the order in which they came."""

    @property
    def bytes_in(self) -> int: ...
    @property
    def bytes_out(self) -> int: ...
    @property
    def connects(self) -> int: ...
    @property
    def latency_hdr(self) -> bytes: ...
    @property
    def connect_hdr(self) -> bytes:
        """Times to open connections, including handshakes; as ``latency_hdr``, empty if none was recorded."""

    @property
    def first_byte_hdr(self) -> bytes:
        """Times to the first byte of the counted responses; empty unless requested."""

    @property
    def latency_sum_ns(self) -> int: ...
    @property
    def turn_sum_ns(self) -> int:
        """From a response's arrival to its connection's next request: connections × time = latencies + this."""
    @property
    def clock_step_ns(self) -> int:
        """By how much the clock of arrival timestamps was set during the block; 0: not at all."""
    @property
    def early_stamps(self) -> int:
        """Responses whose kernel timestamp is before their request's send time: a clock fault, never a latency of 0."""
    @property
    def p50_ns(self) -> int: ...
    @property
    def p90_ns(self) -> int: ...
    @property
    def p99_ns(self) -> int: ...
    @property
    def p999_ns(self) -> int: ...
    @property
    def max_ns(self) -> int: ...
    @property
    def server_cpu_ns(self) -> int | None: ...
    @property
    def server_wait_ns(self) -> int | None: ...
    @property
    def server_runs(self) -> int | None:
        """How often a thread of the server was put on a core, whole block."""
    @property
    def engine_cpu_ns(self) -> int: ...
    @property
    def engine_wait_ns(self) -> int: ...
    @property
    def engine_switches(self) -> int: ...
    @property
    def engine_threads(self) -> int: ...
    @property
    def steal_ns(self) -> int: ...
    @property
    def offered(self) -> int | None: ...
    @property
    def unsent(self) -> int | None: ...
    @property
    def departed(self) -> int | None: ...
    @property
    def lag_p50_ns(self) -> int | None: ...
    @property
    def lag_p99_ns(self) -> int | None: ...
    @property
    def lag_max_ns(self) -> int | None: ...
    @property
    def lag_hdr(self) -> bytes | None: ...
    @property
    def latency_sent_hdr(self) -> bytes | None: ...
    @property
    def kinds(self) -> list[KindTally]:
        """By kind of request, if there are several; otherwise empty."""

    @property
    def gave_up(self) -> bool: ...
    @property
    def sample(self) -> str:
        """The first thing that went wrong, of whatever kind; "" for nothing."""

@final
class Observer:
    """Tells a server's CPU time to generators on other machines; a thread without Python, asleep between questions."""

    def __init__(self, host: str, port: int, token: bytes, *, steal_cores: Sequence[int]) -> None:
        """Listens from now on.

        Args:
            host: an IP address of this machine. port: 0 for one of the kernel's choice.
            token: 16 bytes; a question without them is not answered.
            steal_cores: cores whose steal is reported.

        Raises:
            EngineError: it can't listen there, or can't start a thread.
        """

    @property
    def port(self) -> int: ...
    @property
    def heard_ns(self) -> int:
        """When a generator was last heard; 0: never."""

    def watch(self, server: int, *, cgroup_cpu_stat: str | None, schedstats: Sequence[str]) -> None:
        """Names a server's files from now on; as ``Engine.watch``.

        Raises:
            EngineError: the cgroup's file can't be opened.
        """

    def forget(self, server: int) -> None:
        """Closes a server's files."""

    def stop(self) -> None:
        """Listens no more."""

@final
class Marker:
    """A generator's end: marks idle points with the observer, before and after each block."""

    def __init__(
        self, host: str, port: int, token: bytes, *, generator: int = 0, generators: int = 1, ahead_ns: int = 0
    ) -> None:
        """Nothing is sent yet.

        Args:
            generator: its number, from 0. ahead_ns: how long after the last generator's sync message a block begins.

        Raises:
            EngineError: a number out of bounds, or no socket.
        """

    def begin(self, run: int) -> None:
        """The next blocks are those of this run; numbers rise, the same for all generators."""

    def clock(self, exchanges: int) -> tuple[int, int] | None:
        """The observer's clock minus ours, and the round trip, of the fastest exchange; None: no reply."""

@final
class SessionUse:
    """What a session runs with."""

    @property
    def io(self) -> str:
        """The back end, in words, and why it is not the requested one."""

    @property
    def backend(self) -> str:
        """The value of ``io`` that makes another engine do the same: ``auto``, ``uring`` or ``epoll``."""

    @property
    def protocol(self) -> str:
        """``HTTP/1.1`` or ``HTTP/2``."""

    @property
    def wait(self) -> str:
        """How workers wait for responses: ``sleep`` or ``poll``."""

    @property
    def tls(self) -> str | None:
        """``TLS 1.2`` or ``TLS 1.3``, of the latest handshake; None: there was none."""

    @property
    def stamps(self) -> str:
        """Source of arrival times: ``kernel``, by timestamp, or ``user``, by a clock read later."""

    @property
    def opened(self) -> int | None:
        """How many connections were open when it began; None: each request opens its own."""

    @property
    def streams(self) -> int | None:
        """Over HTTP/2, how many concurrent streams the server allows, at most as many as were requested."""

@final
class Engine:
    """One pinned worker thread per core; sessions and blocks run on all of them."""

    def __init__(self, cores: Sequence[int], io: str = "auto", wait: str = "sleep") -> None:
        """Starts and pins the workers.

        Args:
            io: ``auto`` (io_uring if it works, otherwise epoll), ``uring`` (an error without it) or ``epoll``.
            wait: ``sleep`` (in the kernel) or ``poll``: workers poll, so that no server has to wake them;
            ``Tally.engine_cpu_ns`` then excludes polls without a response.

        Raises:
            EngineError: no core given, a core that this process may not use, or io_uring requested but not working.
        """

    @property
    def io(self) -> str:
        """The value of ``io`` that makes another engine work as this one does: ``auto``, ``uring`` or ``epoll``.

        ``auto``: io_uring, and another way to wait where a worker has one connection.
        """

    @property
    def backend(self) -> str:
        """The running back end and its features, in words; why, if it is epoll although io_uring was requested."""

    @property
    def wait(self) -> str:
        """How workers wait for responses: "sleep" or "poll"."""

    @property
    def latency_stamps(self) -> str:
        """Source of arrival times: "kernel", by timestamp, or "user", by a clock read when the response was read."""

    def open(self, plan: SessionPlan) -> int:
        """Opens a session, kept until ``close``, and returns its number.

        Raises:
            EngineError: a field is out of bounds, too few descriptors, or the server can't be reached.
        """

    def used(self, session: int) -> SessionUse:
        """What the session runs with; the version of TLS is known once a handshake is over.

        Raises:
            EngineError: no such session.
        """

    def watch(self, session: int, *, cgroup_cpu_stat: str | None, schedstats: Sequence[str]) -> None:
        """Names the files that tell the server's CPU time and run-queue wait; they are opened now and kept open.

        Raises:
            EngineError: no such session, or the cgroup's file can't be opened (a thread's that has
                vanished can't be read: its blocks then have None).
        """

    def observe(self, session: int, marker: Marker, server: int) -> None:
        """Has them read on the server's machine: ``marker`` asks the observer there for the server of this number.

        Raises:
            EngineError: no such session.
        """

    def run(self, blocks: Sequence[BlockPlan], *, steal_cores: Sequence[int] = ()) -> list[Tally]:
        """Runs blocks in order.

        Args:
            steal_cores: whose steal time is read around each block.

        Raises:
            EngineError: a plan that makes no sense, or the engine is busy in another thread.
            KeyboardInterrupt: as Python's handlers raise it; what was finished is in ``last_tallies``.
        """

    def run_observed(self, block: BlockPlan, *, every_ns: int, observe: Callable[[Tally], None]) -> Tally | None:
        """Runs one block without a pause and shows its progress; None if it was stopped.

        Args:
            every_ns: about how often ``observe`` is called with a tally of what was done since the last time. The last
                call has what is left, whether the block was finished, stopped, or interrupted; all add up to the block.

        Raises:
            EngineError: as ``run``.
            KeyboardInterrupt: as Python's handlers or ``observe`` raise it, after the last call.
        """

    def last_tallies(self) -> list[Tally]:
        """The finished tallies of the latest run, interrupted or not."""

    def stop(self) -> None:
        """Ends the current run from another thread: drops the current block, and returns the finished ones."""

    def close(self, session: int) -> None:
        """Closes a session's connections; closing one twice does nothing."""

    def shutdown(self) -> None:
        """Closes everything and ends the workers; later calls raise ``EngineError``."""

@final
class ReferenceServer:
    """A minimal server on 127.0.0.1 that always sends ``hello world`` and a newline: one thread per core."""

    def __init__(self, cores: Sequence[int]) -> None:
        """Starts and pins its threads; it listens when this returns.

        Raises:
            EngineError: no core given, one that this process may not run on, no port to be had.
        """

    @property
    def port(self) -> int: ...
    def stop(self) -> None:
        """Closes everything and ends its threads; stopping twice does nothing."""

@final
class Sampler:
    """Samples the stacks of running processes, some 500 times per second of their CPU time."""

    def __init__(self, pids: Sequence[int], *, cores: Sequence[int]) -> None:
        """Starts sampling every thread on these cores, and threads that they start later.

        Raises:
            EngineError: the kernel refuses, or all threads have ended.
        """

    def stop(self) -> SampledStacks:
        """Ends sampling, unwinds and names all stacks; the processes must still run.

        Raises:
            EngineError: it was stopped before.
        """

@final
class CallCounter:
    """Counts the system calls of running processes by name, by the kernel's events; needs root."""

    def __init__(self, pids: Sequence[int], *, cores: Sequence[int]) -> None:
        """Begins to look which calls occur on these cores.

        Raises:
            EngineError: the kernel refuses, or all threads have ended.
        """

    def count(self) -> None:
        """Ends looking, and counts the calls that have occurred, also in threads that are started later.

        Raises:
            EngineError: the kernel refuses, or it was stopped.
        """

    def stop(self) -> CallCounts:
        """Ends counting.

        Raises:
            EngineError: a count can't be read, or it was stopped before.
        """

@final
class CallTracer:
    """Counts the system calls of running processes by name, by tracing them, which slows them down."""

    def __init__(self, pids: Sequence[int]) -> None:
        """Traces every thread, and threads and processes that they start later.

        Raises:
            EngineError: the kernel refuses, or all threads have ended.
        """

    def stop(self) -> CallCounts:
        """Lets all threads go.

        Raises:
            EngineError: it was stopped before.
        """

@final
class CallCounts:
    """How often system calls were made."""

    @property
    def total(self) -> int:
        """All calls, also the calls that have no count of their own."""

    @property
    def named(self) -> list[tuple[str, int]]:
        """Calls by name."""

@final
class SampledStacks:
    """Stacks of a run of samples."""

    @property
    def samples(self) -> int:
        """How many samples there are."""

    @property
    def user_samples(self) -> int:
        """Samples that have a user part."""

    @property
    def rooted(self) -> int:
        """Samples of ``user_samples`` whose chain reached the root of the stack."""

    @property
    def lost(self) -> int:
        """Records that the kernel had no room for."""

    @property
    def kernel(self) -> bool:
        """Whether the kernel's part was sampled, which needs a privilege."""

    @property
    def stacks(self) -> list[tuple[list[tuple[str, str, str]], int]]:
        """Each stack as frames of place ("kernel", "user", "compiled"), module and function, the innermost first.

        And how many samples had it. A function without a symbol is "".
        """

def quantiles(histogram: bytes) -> tuple[int, int, int, int, int]:
    """p50, p90, p99, p99.9 and maximum of a V2 compressed histogram, as a tally has them.

    Raises:
        EngineError: it can't be read.
    """

def read_request(request: bytes, /) -> tuple[int, bool, int, bool]:
    """What a server reads in a request: its length, whether it closes the connection, its number of Host headers, and
    whether it is in HTTP/1.0.

    Raises:
        ValueError: it is not a whole request of HTTP/1; says why.
    """

def merge(histograms: Sequence[bytes]) -> bytes:
    """Adds histograms (V2 compressed in and out).

    Raises:
        EngineError: one of them can't be read; says which.
    """
