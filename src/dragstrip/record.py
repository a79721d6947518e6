"""Raw outcome of one race and its parts; plain frozen values, no behaviour, no I/O.

Times are monotonic nanoseconds (CLOCK_MONOTONIC) with one wall-clock anchor per race. Names end in their units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from dragstrip.machine_facts import Facts

#: Version of the trial design and its judgement (``docs/METHOD.md``); a new one when a stored verdict would change.
METHOD_VERSION = 8

#: Default connections of a race, a sweep, a load and a line-up file.
DEFAULT_CONNECTIONS = 32

#: The engine's highest rate, and the longest time limit: its histogram ends at a minute.
MAX_RATE_PER_S, MAX_TIMEOUT_S = 10_000_000.0, 60.0


class Ending(StrEnum):
    """How a race ended."""

    #: The race is running, or was cut off.
    NONE = ""
    DECIDED = "decided"
    BUDGET = "budget"
    ROUNDS = "rounds"
    INTERRUPTED = "interrupted"
    #: Nothing is open but pairs that more rounds would not make comparable.
    NOT_COMPARABLE = "not comparable"
    #: Its first rounds were all void.
    VOID = "void"
    #: Fewer than two contenders were left.
    TOO_FEW = "too few contenders"
    #: One of a fleet's machines was lost for good.
    MACHINE_LOST = "machine lost"

    @property
    def goes_on(self) -> bool:
        """The race has not ended by a rule of its own, and can be resumed."""
        return self in (Ending.NONE, Ending.INTERRUPTED)


class LoadEnding(StrEnum):
    """What ended a run of ``dragstrip load``."""

    COUNT = "count"
    DURATION = "duration"
    #: No connection was left.
    GAVE_UP = "gave up"
    #: The script stopped all its threads.
    SCRIPT = "script"
    INTERRUPTED = "interrupted"


class LoadVerdict(StrEnum):
    """What became of a run of ``dragstrip load``; the exit code says the same."""

    OK = "ok"
    #: A limit (``--max-p99`` and others) was missed.
    MISSED = "missed"
    #: It ended early, most requests failed, or none was answered correctly.
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class VoidKind(StrEnum):
    """Why a block or a round is never used."""

    ACCOUNTING = "accounting"
    CLOCK = "clock"
    WRONG_ANSWERS = "wrong answers"
    ERRORS = "errors"
    GAVE_UP = "gave up"
    NO_ANSWER = "no answer"
    ENGINE_WAITED = "engine waited"
    SERVER_WAITED = "server waited"
    GENERATOR = "generator the limit"
    TOO_FEW_BLOCKS = "too few blocks"
    #: For races over several machines: the server's reading, the clocks' agreement, or a machine was lost.
    MARK_LOST = "mark lost"
    CLOCKS_APART = "clocks apart"
    MACHINE_LOST = "machine lost"
    #: For rounds: the database ended during the round.
    DATABASE = "database"


@dataclass(frozen=True, slots=True, kw_only=True)
class Void:
    """One reason that voids a block or a round, as values; ``report`` writes the sentence.

    Args:
        kind: what is wrong.
        numbers: measured values by name; ``validity.block`` defines the names of each kind.
        errors: failures by kind, if the reason is about them.
        cause: for a round, the kind that voided most of its blocks.
    """

    kind: VoidKind
    numbers: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    cause: VoidKind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCount:
    """What was counted in one block for one of its workload's requests, if the workload has several.

    Args:
        requests: correct responses that arrived within the counted part.
        failed: requests without a correct response, whole block.
        latency_sum_ns: exact sum of the counted latencies.
        latency_hdr: of ``requests``: HdrHistogram V2 compressed (zlib) of nanoseconds; b"" if there were none.
    """

    requests: int
    failed: int
    latency_sum_ns: int
    latency_hdr: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the engine counted in one short block of load; on a fleet, one generator's part of it, or the sum of all.

    The *counted part* follows the lead-in. ``requests`` and the latency histogram cover the counted part only.
    ``sent``, ``answered``, ``failed``, bytes and the server's CPU time cover the whole block from idle to idle
    (lead-in, counted part, drain), so CPU per request is ``server_cpu_ns / answered``.

    Args:
        started_ns: monotonic start of the lead-in.
        lead_ns: planned lead-in, loaded and not counted.
        counted_ns: measured length of the counted part.
        duration_ns: start of the lead-in to the end of the drain.
        requests: correct responses that arrived within the counted part.
        sent, answered, failed, in_flight: whole block; sent = answered + failed + in_flight.
        errors: failures by kind, whole block (connect, refused, reset, closed_early, timeout,
            bad_response, wrong_status, wrong_length, wrong_body, send, tls, too_early,
            refused_stream, wrong_head, request_cut).
        bytes_in, bytes_out: whole block, application bytes of complete and incomplete messages.
        connects: connections opened during this block (reconnects after a server's close included).
        latency_hdr: HdrHistogram V2 compressed (zlib) of nanoseconds, counted part.
        latency_sum_ns: exact sum of the counted latencies, for the mean and Little's law.
        turn_sum_ns: from a response's arrival to the departure of its connection's next request, summed over the
            counted part: the connections' time that was the engine's own.
        clock_step_ns: by how much the clock that stamps arrivals was set during the block; 0: not at all.
        early_stamps: responses stamped before their requests had left, whole block: a fault of the clocks.
            Their latencies end when they were read.
        p50_ns, p90_ns, p99_ns, p999_ns, max_ns: read off the histogram for convenience.
        server_cpu_ns: CPU time of the contender's whole process tree, whole block; None if unreadable.
        server_wait_ns: run-queue wait summed over the contender's threads, whole block; None if unreadable.
        engine_cpu_ns: CPU time of the engine's worker threads over the counted part, summed over threads.
        engine_wait_ns: their run-queue wait, whole block.
        engine_switches: their involuntary context switches, whole block.
        engine_threads: how many worker threads drove this block.
        steal_ns: hypervisor steal on the race's cores, whole block (10 ms steps, /proc/stat).
        gave_up: every connection was refused or lost for good before the block's end.
        sample: excerpt of the first incorrect response, for the explanation; empty if none.
        offered, unsent, departed: None in a closed loop. In an open loop: how many requests were meant to leave within
            the counted part, how many of those never left, and how many requests left within it. ``requests`` and
            latencies are then of ``offered``, and run from when a request was meant to leave.
        lag_p99_ns, lag_hdr: how much later than meant they left.
        latency_sent_hdr: latencies from when they left.
        server_runs: how often one of the contender's threads was put on a core (/proc/PID/task/TID/schedstat), whole
            block; None if unreadable.
    """

    started_ns: int
    lead_ns: int
    counted_ns: int
    duration_ns: int
    requests: int
    sent: int
    answered: int
    failed: int
    in_flight: int
    errors: Mapping[str, int]
    bytes_in: int
    bytes_out: int
    connects: int
    latency_hdr: bytes
    latency_sum_ns: int
    turn_sum_ns: int
    clock_step_ns: int
    early_stamps: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int
    server_cpu_ns: int | None
    server_wait_ns: int | None
    engine_cpu_ns: int
    engine_wait_ns: int
    engine_switches: int
    engine_threads: int
    steal_ns: int
    gave_up: bool
    sample: str = ""
    offered: int | None = None
    unsent: int | None = None
    departed: int | None = None
    lag_p99_ns: int | None = None
    lag_hdr: bytes | None = None
    latency_sent_hdr: bytes | None = None
    server_runs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Block(Counted):
    """One short measured block of load; immutable.

    Args:
        contender: the entrant's name in this race.
        round: 0-based round.
        pass_index: 0-based pass within the round.
        position: 0-based place in the round's whole order of blocks.
        void: reasons why this block is never used; empty if it counts.
        kinds: by the requests' names, if the workload has several.
    """

    contender: str
    round: int
    pass_index: int
    position: int
    void: tuple[Void, ...] = ()
    kinds: Mapping[str, KindCount] = field(default_factory=dict)


class LaunchCount(StrEnum):
    """A number that a launch may have; a number that is not known is left out of ``Launch.counts``."""

    #: CPU time of the whole process tree over its whole life.
    CPU_NS = "cpu_ns"
    #: Sum over the tree of each process's VmHWM at the end of the round.
    PEAK_MEMORY_BYTES = "peak_memory_bytes"
    #: In the tree after warm-up; 0 if unreadable.
    PROCESSES = "processes"
    THREADS = "threads"
    #: Requests in the round's blocks by its own count.
    SERVED = "served"
    #: Executions of its statements in the database over the round's blocks, as the database counted them.
    DATABASE_STATEMENTS = "database_statements"
    #: Statements that its responses needed, by the workload; the only one of these that may have a fraction.
    DATABASE_WANTED = "database_wanted"
    #: CPU time of its own backends there; not known if one of them ended in between.
    DATABASE_CPU_NS = "database_cpu_ns"
    #: Time within its statements' execution, including all waits.
    DATABASE_EXEC_NS = "database_exec_ns"
    #: How many connections to the database it had at the end of the blocks.
    DATABASE_CONNECTIONS = "database_connections"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One start of a contender's processes in one round.

    Args:
        ready_ns: from start to the first correct response.
        warm_up_ns: how long it was warmed up under its own load.
        settled: successive warm-up slices showed no rise at the end.
        exit_status: as from ``subprocess`` (negative: ended by that signal); None if it was still running when
            recorded.
        died: it exited unexpectedly.
        cpu_source: "cgroup" or "proc".
        log_tail: last lines of its output.
        counts: by ``LaunchCount``; a newer Dragstrip may have stored others.
    """

    contender: str
    round: int
    cores: tuple[int, ...]
    address: str
    ready_ns: int
    warm_up_ns: int
    settled: bool
    exit_status: int | None
    died: bool
    cpu_source: str
    log_tail: str
    counts: Mapping[str, float]

    def count(self, name: LaunchCount) -> int | None:
        """A whole number of ``counts``; None if it is not known."""
        value = self.counts.get(name)
        return None if value is None else int(value)

    @property
    def peak_memory_bytes(self) -> int | None:
        return self.count(LaunchCount.PEAK_MEMORY_BYTES)

    @property
    def processes(self) -> int:
        return self.count(LaunchCount.PROCESSES) or 0

    @property
    def threads(self) -> int:
        return self.count(LaunchCount.THREADS) or 0

    @property
    def served(self) -> int | None:
        return self.count(LaunchCount.SERVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: its launches and blocks, and why it is void as a whole, if it is.

    Args:
        column: which of ``Race.columns`` it belongs to.
    """

    index: int
    started_ns: int
    ended_ns: int
    launches: tuple[Launch, ...]
    blocks: tuple[Block, ...]
    void: tuple[Void, ...] = ()
    column: int = 0

    @property
    def lasted_s(self) -> float:
        """Its length in seconds."""
        return (self.ended_ns - self.started_ns) / 1e9


class Counter(StrEnum):
    """A number that a profile may have; ``analysis.causes`` defines which are divided by responses."""

    #: CPU time of the whole process tree (ns), and its parts in user and kernel mode.
    CPU_NS = "cpu_ns"
    USER_NS = "user_ns"
    KERNEL_NS = "kernel_ns"
    #: How often its threads waited, and how often one was put on a core.
    WAITS = "voluntary_switches"
    TURNS = "turns"
    MINOR_FAULTS = "minor_faults"
    MAJOR_FAULTS = "major_faults"
    #: read(2), write(2) and their kin; the kernel's count leaves out recv(2) and send(2), so each is a least number.
    READS = "reads"
    WRITES = "writes"
    #: Received by the engine's own sockets: bytes, and TCP segments with data.
    RECEIVED_BYTES = "received_bytes"
    SEGMENTS = "segments"
    #: At the end of the counted time.
    PROCESSES = "processes"
    THREADS = "threads"
    RESIDENT_BYTES = "resident_bytes"
    #: Memory for each of many idle connections, and how many there were.
    CONNECTION_BYTES = "connection_bytes"
    HELD_CONNECTIONS = "held_connections"
    #: Memory of the kernel in the buffers of each of these connections, at the server's end.
    SOCKET_BYTES = "socket_bytes"
    #: All system calls in a stretch of load of their own, and its responses; ``Profile.calls`` has the calls by name.
    CALLS = "calls"
    CALL_RESPONSES = "call_responses"
    #: Responses while system calls were traced; ``Profile.traced_calls`` has the calls by class.
    TRACED_RESPONSES = "traced_responses"
    #: Sampled stacks; of them, with a part in the kernel, with a user part, and whose user part reached its root; and
    #: records that were lost.
    SAMPLES = "samples"
    KERNEL_SAMPLES = "kernel_samples"
    USER_SAMPLES = "user_samples"
    ROOTED_SAMPLES = "rooted_samples"
    LOST_SAMPLES = "lost_samples"
    #: Never a number; it is missing if the runtime was to name its compiled code, and did not.
    NAMED_CODE = "named_code"


class CallClass(StrEnum):
    """Classes of system calls that are traced: a traced server waits more often, or less, than without."""

    READ = "read"
    WRITE = "write"
    WAIT = "wait"
    OTHER = "other"


#: The begin of a key in ``Profile.counts`` of a system call by its name, and of a class of traced calls.
CALL_KEY, TRACED_KEY = "call.", "traced."


class CodePlace(StrEnum):
    """Where the code of a frame is."""

    KERNEL = "kernel"
    #: In a program or a library.
    USER = "user"
    #: In memory without a file: code that a runtime compiled.
    COMPILED = "compiled"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFrame:
    """One frame of a stack.

    Args:
        module: path of its program or library; "" in the kernel and for compiled code.
        name: its function; "" if no symbol covers the address.
    """

    place: CodePlace
    module: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A stack of a profile.

    Args:
        samples: how many samples had it. frames: indexes in ``Profile.frames``, the innermost first.
    """

    samples: int
    frames: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One extra launch of one contender after the race, which shows what its responses cost; never part of a verdict.

    Args:
        index: 0-based, over all profiles of the race, in the order in which they were run.
        column: index in ``Race.columns``; its workload and its load were used.
        started_ns, ended_ns: monotonic, from the start of the launch to the end of its last block.
        blocks: how many blocks of the column's own length were loaded; duration_ns: their length, summed.
        answered, failed: responses in these blocks, correct ones and errors.
        counts: by ``Counter``, or with ``CALL_KEY`` or ``TRACED_KEY``; counted over the blocks, or a number at their
            end.
        missing: why a counter has no number, by ``Counter``.
        frames, stacks: sampled stacks; none if stacks could not be sampled.
    """

    index: int
    column: int
    contender: str
    started_ns: int
    ended_ns: int
    blocks: int
    duration_ns: int
    answered: int
    failed: int
    counts: Mapping[str, float]
    missing: Mapping[str, str] = field(default_factory=dict)
    frames: tuple[StackFrame, ...] = ()
    stacks: tuple[Stack, ...] = ()

    @property
    def calls(self) -> Mapping[str, float]:
        """System calls by name, over ``Counter.CALL_RESPONSES``; empty if they were not counted."""
        return self._with_key(CALL_KEY)

    @property
    def traced_calls(self) -> Mapping[str, float]:
        """System calls by ``CallClass``, over ``Counter.TRACED_RESPONSES``; empty if they were not traced."""
        return self._with_key(TRACED_KEY)

    def _with_key(self, key: str) -> Mapping[str, float]:
        return {name.removeprefix(key): count for name, count in self.counts.items() if name.startswith(key)}


#: The key of an entrant's parameters that names the commit from which its server was built.
COMMIT = "commit"

#: With a variable's name, the keys of a command's environment: its value, and a salted hash of a secret one.
VARIABLE, SECRET = "env ", "secret "


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """A contender as it entered this race.

    Args:
        name: as shown in all results ("nginx-lua", "nginx-lua:workers=2", "mine").
        kind: "definition", "serve" (ad hoc command) or "url" (already running).
        out: why it is out of the race (scrutineering, never started, died); "" if it is in.
        out_round: the round in which it went out, None if before the first or not at all.
        parity: facts for the parity sheet, in display order (text to text).
    """

    name: str
    title: str
    kind: str
    version: str
    language: str
    parameters: Mapping[str, object]
    definition_hash: str
    parity: Mapping[str, str] = field(default_factory=dict)
    out: str = ""
    out_round: int | None = None


class EventKind(StrEnum):
    """What an event is about; in parentheses the meaning of its subject, names and numbers."""

    #: Another program used the race's cores (its name; pid, share of a core).
    INTRUDER = "other program"
    #: The processor throttled itself.
    HEAT = "heat"
    #: A core changed its frequency (core, khz, first_khz).
    FREQUENCY = "frequency"
    #: A contender's memory grew (its name; bytes_per_s, share_per_s).
    GROWING = "memory grows"
    #: For races over several machines: a machine was lost (its name; text: why), or it came back (its name).
    MACHINE_LOST = "machine lost"
    MACHINE_BACK = "machine back"
    #: A round's share of one generator (its name; requests, answered, sent, offset_ns, drift_ns, round_trip_ns, and
    #: of an open loop offered, unsent, lag_p99_ns).
    GENERATOR = "generator"
    #: Traffic of a machine's data link in a round's runs (its name; lasted_ns, received_bytes, sent_bytes on the wire,
    #: segments, retransmitted, line_mbps (0: unknown), serves (1: the servers' machine), bytes_in and requests of the
    #: blocks, and by each core's number the ns that interrupts took).
    LINK = "link"
    #: Short blocks of a contender have another rate than long blocks (its name; counted_ns, apart, loaded_ns).
    UNEQUAL_BLOCKS = "unequal blocks"
    #: The race was run for claims (the setting; the claims' ids), or against itself (the contender).
    CLAIMS = "claims"
    NULL_RACE = "null race"
    #: The race was run to compare revisions of a repository (its name; their commits, in the order of the contenders).
    REVISIONS = "revisions"
    #: The race was run as a cell of a lab (the cell's name; the attempt's number).
    LAB = "lab"
    #: A run to an exact count, another tool's figure (text: JSON), and the verdict as shown (text).
    COUNTED_RUN = "counted run"
    FOREIGN = "foreign"
    VERDICT = "verdict"
    #: The end of the database's output in a round (the round; text).
    DATABASE = "database"
    #: The race began to run again, so an earlier ending no longer applies.
    RESUMED = "resumed"
    #: Events that the store writes, and folds in when it reads a race (text).
    OUT = "out"
    FINISHED = "finished"
    EXTENDED = "extended"
    #: The race was read from a file (its name).
    IMPORTED = "imported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An observation that is kept in addition to measurements, as values; ``report`` writes the sentence.

    Args:
        at_ns: monotonic.
        kind: what it is about; ``EventKind`` defines subject, names and numbers of each.
        text: for kinds with a text.
        column: the index in ``Race.columns`` if it belongs to one column; None: to the whole race.
    """

    at_ns: int
    kind: EventKind
    subject: str = ""
    names: tuple[str, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    text: str = ""
    column: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """What a race is for, if a command runs it for something; becomes the first event of its record.

    Args:
        kind: ``EventKind.CLAIMS``, ``NULL_RACE``, ``REVISIONS`` or ``LAB``. subject, names: as ``EventKind`` defines
            them.
    """

    kind: EventKind
    subject: str
    names: tuple[str, ...] = ()


class Backend(StrEnum):
    """The engine's back end with which a race began, as its argument ``io``."""

    EPOLL = "epoll"
    URING = "uring"
    #: The engine's own choice: io_uring, but a waiting read if a worker has only one connection.
    BEST = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan made before the first round; with the seed it determines the order of everything.

    Args:
        lead_ns, counted_ns: of each block; passes: per round.
        budget_s: wall-clock budget for measuring; planned_rounds: the last round N, up to which
            looks are paid for (method, "The interval"): no race goes on beyond it.
        metric: one of ``metrics.METRICS``, or "auto".
        margin: 0.01 is 1 %; alpha: family-wise error, 0.05.
        rounds_fixed: ``--rounds N`` fixes the number of rounds (no stopping before N).
        blocks: by contender: its own lead-in, counted part (ns) and passes; ``passes`` is then the most of any
            contender. Empty: all have ``lead_ns``, ``counted_ns`` and ``passes``.
        extensions: the planned last round before each extension (``--resume RACE --budget +2m``), ascending;
            ``planned_rounds`` and ``budget_s`` are then those of the race as extended.
    """

    lead_ns: int
    counted_ns: int
    passes: int
    budget_s: float
    planned_rounds: int
    metric: str = "throughput"
    margin: float = 0.01
    alpha: float = 0.05
    rounds_fixed: bool = False
    blocks: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    extensions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How each block is loaded, over ``connections`` by ``threads`` engine threads.

    Args:
        http: the requests' version, "1.1" or "1.0"; as in ab, 1.0 keeps a connection only if both sides ask for it.
        rate_per_s: of an open loop, the same for all contenders; 0: a closed loop. pace: how precisely it is kept.
        pipelining: requests in flight on each connection. streams: the same over HTTP/2.
    """

    connections: int
    threads: int
    keepalive: bool
    timeout_ns: int
    http: str = "1.1"
    rate_per_s: float = 0.0
    pace: str = "precise"
    pipelining: int = 1
    streams: int = 1

    @property
    def at_once(self) -> int:
        """The largest number of requests in flight."""
        return self.connections * self.pipelining * self.streams


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a race's table: a workload, or one of several rates at which it is offered.

    Args:
        name: as shown in all results, different for each column ("multiply", "1,200/s").
        load, plan: of the race, with this column's own rate, pipelining, block lengths and passes.
        entrants: contenders that serve it, each with its state in this column.
        absent: contenders that don't support the workload.
        waits: responses of its workload wait for something other than a core.
        definition: its workload's definition; "" if the record has none.
    """

    name: str
    workload: str
    load: Load
    plan: Plan
    entrants: tuple[Entrant, ...]
    absent: tuple[str, ...] = ()
    waits: bool = False
    definition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """A whole comparison, as the store returns it; ``analysis.by_column`` returns each column as its own race.

    Args:
        id: 12 lower-case hex digits. seed: of the order of everything.
        started: wall clock, ISO 8601 UTC; started_ns: the same moment, monotonic.
        machine: the servers' machine, and how the race used it.
        backend: of the engine; a resumed race uses the same.
        columns: one for each workload and rate, at least one.
        family: for one column of a race: how many columns share the error rate ``plan.alpha``.
        imported: it was read from a file, which may come from another machine.
        profiles: extra launches after the race, which show causes; no verdict uses them.
    """

    id: str
    seed: int
    started: str
    started_ns: int
    software: str
    method: int
    machine: Facts
    server_cores: tuple[int, ...]
    engine_cores: tuple[int, ...]
    backend: Backend
    columns: tuple[Column, ...]
    rounds: Sequence[Round] = ()
    events: Sequence[Event] = ()
    finished: Ending = Ending.NONE
    family: int = 1
    imported: bool = False
    profiles: Sequence[Profile] = ()

    @property
    def spent_s(self) -> float:
        """Seconds that its rounds took: what the budget is about, and what every report calls the race's time."""
        return sum(round_.lasted_s for round_ in self.rounds)

    @property
    def workload(self) -> str:
        """Every column's workload, each once."""
        return ",".join(dict.fromkeys(column.workload for column in self.columns))

    @property
    def load(self) -> Load:
        """The load that all columns share; if rates or pipelining differ, a closed loop or single requests."""
        load = self.columns[0].load
        rates = {column.load.rate_per_s for column in self.columns}
        depths = {column.load.pipelining for column in self.columns}
        return replace(
            load,
            rate_per_s=load.rate_per_s if len(rates) == 1 else 0.0,
            pipelining=load.pipelining if len(depths) == 1 else 1,
        )

    @property
    def plan(self) -> Plan:
        """The first column's plan: all columns share it, apart from lengths and passes of their blocks."""
        return self.columns[0].plan

    @property
    def waits(self) -> bool:
        """Whether responses of any column wait."""
        return any(column.waits for column in self.columns)

    @property
    def entrants(self) -> tuple[Entrant, ...]:
        """Every contender as in the first column that it is still in; it is out if it is out of all its columns."""
        by_name: dict[str, Entrant] = {}
        for entrant in (entrant for column in self.columns for entrant in column.entrants):
            if entrant.name not in by_name or by_name[entrant.name].out:
                by_name[entrant.name] = entrant
        return tuple(by_name.values())
