"""The result of a run of load: plain frozen values, and sums over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from dragstrip.loading.learn import Learned
from dragstrip.loading.request import LoadRequest, Target
from dragstrip.metrics import SUSTAINED
from dragstrip.record import Backend, Counted, LoadEnding

#: A run has failed if more than this share of all attempts failed.
MOSTLY = 0.5

#: A server has stopped responding if nothing came at the end for this long, and for three times the longest latency.
LEAST_SILENT_NS, SILENT = 500_000_000, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Counted):
    """About one second of the run, as the engine counted it: without a lead-in, and of a server that is not watched.

    Args:
        statuses: responses by status, incorrect ones included.
        samples: the first failure of each kind, known at the run's end: in the last slice.
        connect_hdr: time to connect, to the end of the last handshake; empty if none was recorded.
        first_byte_hdr: of ``requests``, to the response's first byte; empty if not requested.
    """

    statuses: Mapping[int, int] = field(default_factory=dict)
    samples: Mapping[str, str] = field(default_factory=dict)
    connect_hdr: bytes = b""
    first_byte_hdr: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptReport:
    """The report of a script.

    Args:
        name: the file's name.
        hooks: which of request, delay and response it defines.
        fixed: its requests are proved to be always the same, and were made before the load.
        before, during, after: its output until the load began, under load, and in ``done``.
        fault: why ``done`` failed, with file and line; "" if it did not.
    """

    name: str
    hooks: tuple[str, ...]
    fixed: bool
    before: str = ""
    during: str = ""
    after: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """A whole run.

    Args:
        started: wall clock, ISO 8601 UTC.
        cores: the engine's, one thread each.
        connections: the opened number; lower than requested if there were fewer requests.
        latency_hdr: the slices' histograms added up, HdrHistogram V2 compressed, nanoseconds; empty if none.
        latency_sent_hdr, lag_hdr: of an open loop: latencies from when requests left, and how late they left.
        connect_hdr: of opened connections, also before the start, to the end of the last handshake.
        first_byte_hdr: as ``latency_hdr``, to the first byte; empty if not requested.
        io: the back end and its features, for people; backend: its name.
        plain_statuses: how many reference requests got which status.
        by_length: large bodies were read whole at first and once in 64 later; of the others only lengths were compared.
        stamps: the source of arrival times: "kernel", or "user", a clock read when the engine saw the response.
        notes: warnings, in words.
        any_body: only the status of responses was checked.
        script: its report; None without a script.
        generators: the machines of a fleet that loaded, each with its own reference requests; (): this machine.
        opened: connections that were open when the load began; None: unknown, or each request opened its own.
        streams: over HTTP/2, the concurrent streams that the server allowed on a connection, at most as requested.
        exchanged: an incorrect body was the reference of another request of the pool.
    """

    request: LoadRequest
    target: Target
    learned: Learned
    started: str
    software: str
    cores: tuple[int, ...]
    connections: int
    slices: tuple[Slice, ...]
    latency_hdr: bytes
    finished: LoadEnding
    io: str = ""
    backend: Backend = Backend.EPOLL
    by_length: bool = False
    stamps: str = "user"
    connect_hdr: bytes = b""
    first_byte_hdr: bytes = b""
    notes: tuple[str, ...] = ()
    latency_sent_hdr: bytes = b""
    lag_hdr: bytes = b""
    plain_statuses: dict[int, int] = field(default_factory=dict)
    any_body: bool = False
    script: ScriptReport | None = None
    generators: tuple[str, ...] = ()
    opened: int | None = None
    streams: int | None = None
    exchanged: bool = False

    @property
    def plain(self) -> int:
        """Reference requests before the load."""
        return self.request.plain * max(len(self.generators), 1)

    @property
    def requests(self) -> int:
        """Correct responses, those to reference requests included: the number in the server's own log."""
        return self.plain + self.answered

    @property
    def answered(self) -> int:
        """Correct responses under load."""
        return sum(part.answered for part in self.slices)

    @property
    def in_time(self) -> int:
        """Correct responses before the time was up: the basis of rate and latencies."""
        return sum(part.requests for part in self.slices)

    @property
    def offered(self) -> int:
        """Requests that an open loop had to send; 0 in a closed loop."""
        return sum(part.offered or 0 for part in self.slices)

    @property
    def unsent(self) -> int:
        """Requests of an open loop that found no free connection at all."""
        return sum(part.unsent or 0 for part in self.slices)

    @property
    def departed(self) -> int:
        """Requests of an open loop that left before the time was up."""
        return sum(part.departed or 0 for part in self.slices)

    @property
    def reached_share(self) -> float | None:
        """Departed requests by offered ones; None in a closed loop."""
        return self.departed / self.offered if self.offered else None

    @property
    def sustained(self) -> bool:
        """The offered rate was reached."""
        return (self.reached_share or 0.0) >= SUSTAINED

    @property
    def late(self) -> int:
        """Correct responses after the time was up; 0 in an open loop, which counts by the due time of requests."""
        return 0 if self.request.offer else self.answered - self.in_time

    @property
    def late_s(self) -> float:
        """How long Dragstrip waited for the last late response after the time was up: its minimum latency."""
        last = self.slices[-1] if self.late else None
        return (last.duration_ns - last.counted_ns) / 1e9 if last else 0.0

    @property
    def sent(self) -> int:
        """Requests that left: correct, failed, or in flight when the run was interrupted."""
        return self.plain + sum(part.sent for part in self.slices)

    @property
    def failed(self) -> int:
        """Requests that were sent and got no correct response."""
        return sum(part.failed for part in self.slices)

    @property
    def errors(self) -> dict[str, int]:
        """Failures by kind, most frequent first; failed attempts to connect included."""
        total: Counter[str] = Counter()
        for part in self.slices:
            total.update(part.errors)
        return dict(total.most_common())

    @property
    def statuses(self) -> dict[int, int]:
        """Every readable response, by status in ascending order: ``requests``, responses to reference requests, and
        the part of ``failed`` with an incorrect status, length or body."""
        total = Counter(self.plain_statuses)
        for part in self.slices:
            total.update(part.statuses)
        return dict(sorted(total.items()))

    @property
    def error_share(self) -> float:
        """The share of failures among all attempts."""
        failures = sum(self.errors.values())
        return failures / max(self.answered + failures, 1)

    @property
    def trouble(self) -> str:
        """Why the run failed, in words; "" if it succeeded. An interruption by the user is not a failure."""
        if self.script and self.script.fault:
            return "the script's done() failed"
        if self.finished is LoadEnding.GAVE_UP:
            return f"ended early, after {self.duration_s:.2f} s: no connection was left"
        failures = sum(self.errors.values())
        if self.answered and self.error_share > MOSTLY:
            return f"mostly failed: {failures:,} of {self.answered + failures:,} attempts got no correct response"
        if self.answered and self.silent_s:
            return f"the server stopped responding: nothing correct came in the last {self.silent_s:.2f} s"
        return "" if self.answered else "failed: no response was correct"

    @property
    def silent_s(self) -> float:
        """Seconds at the end without a correct response; 0 if requests may still have been on their way as usual."""
        counted_ns, longest_ns = 0, max((part.max_ns for part in self.slices), default=0)
        for part in reversed(self.slices):
            if part.answered:
                break
            # In an open loop's pauses the server has nothing to respond to.
            counted_ns += part.counted_ns if part.offered is None or part.offered else 0
        silent = counted_ns >= LEAST_SILENT_NS and counted_ns > SILENT * longest_ns
        return counted_ns / 1e9 if silent and self.finished is LoadEnding.DURATION else 0.0

    @property
    def duration_s(self) -> float:
        """Measured time, without the pauses between slices."""
        return sum(part.counted_ns for part in self.slices) / 1e9

    @property
    def rate_per_s(self) -> float:
        """Correct responses per second of measured time; an overloaded open loop's extra time counts."""
        behind = self.request.offer is not None and not self.sustained
        spent_s = sum(part.duration_ns for part in self.slices) / 1e9 if behind else self.duration_s
        return self.in_time / spent_s if spent_s else 0.0

    @property
    def connects(self) -> int:
        """Connections opened, also before the start."""
        return sum(part.connects for part in self.slices) + (self.connections if self.request.keepalive else 0)

    @property
    def handshakes_per_s(self) -> float | None:
        """TLS handshakes per second under load; None without TLS."""
        if self.target.tls is None:
            return None
        return sum(part.connects for part in self.slices) / self.duration_s if self.duration_s else 0.0

    @property
    def reused(self) -> int:
        """Responses under load on a connection that had carried an earlier one; a lower bound."""
        return max(self.answered - self.connects, 0)

    @property
    def bytes_in(self) -> int:
        """Bytes read, heads of responses included."""
        return sum(part.bytes_in for part in self.slices)

    @property
    def bytes_out(self) -> int:
        """Bytes written, heads of requests included."""
        return sum(part.bytes_out for part in self.slices)

    @property
    def mean_ns(self) -> float | None:
        """Mean latency, from the exact sum; None without a response in time."""
        return sum(part.latency_sum_ns for part in self.slices) / self.in_time if self.in_time else None

    @property
    def engine_us_per_request(self) -> float | None:
        """CPU time of the generator per response or failure in time; None without one."""
        done = self.in_time + self.failed
        return sum(part.engine_cpu_ns for part in self.slices) / done / 1000 if done else None

    @property
    def at_work(self) -> float | None:
        """How many requests were being answered on average, by Little's law; None without a response in time."""
        return self.rate_per_s * self.mean_ns / 1e9 if self.mean_ns is not None else None

    @property
    def answered_ahead(self) -> int:
        """How many of the requests in flight on a connection the server answers; the rest got nothing."""
        left = self.errors.get("timeout", 0) // max(self.connections, 1)
        return max(self.request.pipeline - left, 1) if self.answered else self.request.pipeline

    @property
    def engine_share(self) -> float:
        """How busy the generator's threads were, 0 to 1."""
        return sum(part.engine_cpu_ns for part in self.slices) / max(self._thread_ns("counted_ns"), 1)

    @property
    def turn_share(self) -> float:
        """The share of time that connections with a response waited for the generator to continue, 0 to 1."""
        lasted_ns = sum(part.counted_ns for part in self.slices)
        return sum(part.turn_sum_ns for part in self.slices) / max(lasted_ns * self.connections, 1)

    @property
    def early_stamps(self) -> int:
        """Responses that the kernel stamped before their requests had left."""
        return sum(part.early_stamps for part in self.slices)

    @property
    def clock_step_s(self) -> float:
        """The largest step of the clock of arrival timestamps."""
        return max((part.clock_step_ns for part in self.slices), default=0) / 1e9

    @property
    def engine_wait_share(self) -> float:
        """The share of time that its threads were ready to run and waited for their core, 0 to 1."""
        return sum(part.engine_wait_ns for part in self.slices) / max(self._thread_ns("duration_ns"), 1)

    @property
    def samples(self) -> dict[str, str]:
        """The first failure of each kind: the incorrect response's beginning, or why none came; in their order."""
        firsts: dict[str, str] = {}
        for part in self.slices:
            firsts |= {kind: text for kind, text in part.samples.items() if kind not in firsts}
        return firsts

    def _thread_ns(self, which: str) -> int:
        return len(self.cores) * sum(int(getattr(part, which)) for part in self.slices)
