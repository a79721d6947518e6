"""The compiled load engine (``crates/python``): blocks of load in, tallies out. Times are CLOCK_MONOTONIC ns."""

from collections.abc import Callable, Sequence
from typing import final

class EngineError(Exception):
    """The engine can't run: no descriptors, no such address, a plan that makes no sense; says which field and why."""

@final
class Tally:
    """What one block left behind, over all worker threads.

    ``sent = answered + failed + in_flight`` always. ``errors`` holds the kinds that occurred; each failed
    request is in it once, and besides them failed attempts to connect (``connect``, ``refused``), which sent
    nothing, and bytes that nobody asked for (``bad_response``). A latency runs from the request's sending, or from
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
        """Answers that could be read, right or of a wrong status, length or body, by status, in its order."""

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
        """Of connections opened, to the last handshake's end; as ``latency_hdr``, empty where none was recorded."""

    @property
    def first_byte_hdr(self) -> bytes:
        """Of the counted answers, to their first byte; empty where it was not asked for."""

    @property
    def latency_sum_ns(self) -> int: ...
    @property
    def turn_sum_ns(self) -> int:
        """From an answer's arrival to its connection's next request: connections × time = latencies + this."""
    @property
    def clock_step_ns(self) -> int:
        """By how much the clock that stamps arrivals was set during the block; 0: not at all."""
    @property
    def early_stamps(self) -> int:
        """Answers that the kernel stamped before their requests had left: a fault of the clocks, never told as 0."""
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
    def gave_up(self) -> bool: ...
    @property
    def sample(self) -> str:
        """The first thing that went wrong, of whatever kind; "" for nothing."""

@final
class Engine:
    """One pinned worker thread per core; sessions and blocks run on all of them."""

    def __init__(self, cores: Sequence[int], io: str = "auto", wait: str = "sleep") -> None:
        """Starts and pins the workers.

        Args:
            io: ``auto`` (io_uring where it works, else epoll), ``uring`` (or nothing) or ``epoll``.
            wait: ``sleep`` (in the kernel) or ``poll``: workers look again and again, so that no server has to wake
                them; ``Tally.engine_cpu_ns`` is then without the looks in vain.

        Raises:
            EngineError: no core given, one that this process may not run on, io_uring asked for where it does not work.
        """

    @property
    def backend(self) -> str:
        """Which back end runs and with what; where it is epoll against the wish, why."""

    @property
    def wait(self) -> str:
        """How workers wait for answers: "sleep" or "poll"."""

    @property
    def latency_stamps(self) -> str:
        """Who says when an answer arrived: "kernel", by its stamp, or "user", by a clock read when it was looked at."""

    def open(
        self,
        host: str,
        port: int,
        exchanges: Sequence[tuple[bytes, int, bytes]],
        *,
        connections: int,
        keepalive: bool,
        timeout_ns: int,
        unix: str | None = None,
        tls: str | None = None,
        cacert: str | None = None,
        insecure: bool = False,
        requests_per_connection: int = 0,
        pipelining: int = 1,
        first_byte: bool = False,
        sources: int = 1,
        by_length: bool = False,
    ) -> int:
        """Opens a session: ``connections`` to one address, kept until ``close``.

        Args:
            exchanges: (request bytes as sent, expected status, expected body), cycled per worker.
            keepalive: False opens a new connection for each request; the request itself must then
                carry ``Connection: close``, and nothing is connected before the first block.
            timeout_ns: per request and per attempt to connect.
            unix: a socket file; host and port are then not asked.
            tls: the name that the server's certificate must have, None for no encryption; no handshake resumes another.
            cacert: PEM file of those who may have signed it, None for those whom this machine trusts.
            insecure: takes any certificate.
            requests_per_connection: above 0 a kept connection ends with its so manieth request, which says so.
            pipelining: how many requests may be on their way on one connection.
            first_byte: records the time to each answer's first byte.
            sources: connections come from so many addresses of 127.0.0.0/8, each with its own ports.
            by_length: large bodies of a declared length are read whole at first and once in 64 later, else only counted
                (over TCP, unencrypted, with none of the four before).

        Raises:
            EngineError: a field is out of bounds, too few descriptors, or the server can't be reached.
        """

    def watch(self, session: int, *, cgroup_cpu_stat: str | None, schedstats: Sequence[str]) -> None:
        """Names the files that tell the server's CPU time and run-queue wait; they are opened now and kept open.

        Raises:
            EngineError: no such session, or the cgroup's file can't be opened (a thread's that has
                vanished can't be read: its blocks then have None).
        """

    def run(
        self,
        blocks: Sequence[tuple[int, int, int, int]],
        *,
        steal_cores: Sequence[int] = (),
        pace: tuple[str, str, Sequence[tuple[float, float, int]], int] | None = None,
    ) -> list[Tally]:
        """Runs blocks of (session, lead_ns, counted_ns, max_requests) in order.

        max_requests above 0 ends the block when exactly that many were sent; counted_ns is then the limit.

        Args:
            pace: of each block, None for a closed loop: arrivals (``constant``, ``poisson``), precision (``precise``,
                ``balanced``: ticks of 210 µs, ``thrifty``: 1 ms), steps of (rate per s at the begin, at the end, end in
                ns from the lead-in's begin), and the seed of Poisson arrivals, which each block makes its own.

        Raises:
            EngineError: a plan that makes no sense, or the engine is busy in another thread.
            KeyboardInterrupt: as Python's handlers raise it; what was finished is in ``last_tallies``.
        """

    def run_seen(
        self,
        block: tuple[int, int, int, int],
        *,
        every_ns: int,
        see: Callable[[Tally], None],
        pace: tuple[str, str, Sequence[tuple[float, float, int]], int] | None = None,
    ) -> Tally | None:
        """Runs one block without a pause and shows what is done on it as it goes; None where it was stopped.

        Args:
            block, pace: as of ``run``.
            every_ns: about how often ``see`` is called with a tally of what was done since the last time. The last
                call has what is left, whether the block was finished, stopped, or interrupted; all add up to the block.

        Raises:
            EngineError: as ``run``.
            KeyboardInterrupt: as Python's handlers or ``see`` raise it, after the last call.
        """

    def last_tallies(self) -> list[Tally]:
        """The finished tallies of the latest run, interrupted or not."""

    def stop(self) -> None:
        """Ends the current run from another thread: the block under way is dropped, what is finished is returned."""

    def close(self, session: int) -> None:
        """Closes a session's connections; closing one twice does nothing."""

    def shutdown(self) -> None:
        """Closes everything and ends the workers; later calls raise ``EngineError``."""

@final
class FixedServer:
    """A minimal server on 127.0.0.1 that answers everything with ``hello world`` and a newline: one thread per core."""

    def __init__(self, cores: Sequence[int]) -> None:
        """Starts and pins its threads; it listens when this returns.

        Raises:
            EngineError: no core given, one that this process may not run on, no port to be had.
        """

    @property
    def port(self) -> int: ...
    def stop(self) -> None:
        """Closes everything and ends its threads; stopping twice does nothing."""

def merge(histograms: Sequence[bytes]) -> bytes:
    """Adds histograms (V2 compressed in and out).

    Raises:
        EngineError: one of them can't be read; says which.
    """
