"""What an agent may answer: one model for each kind of reply, exact types and no unknown keys.

An agent's machine may be in other hands than ours. So nothing of a reply is run or unpickled: it is JSON of a bounded
length, and what does not fit its model ends the race.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from dragstrip.record import EventKind

#: Of the lines between the two sides: it rises where one side would not understand the other.
PROTOCOL = 1

#: The longest line: a round's tallies of a large race are a few million bytes.
MOST_LINE_BYTES = 64 * 2**20

#: Texts of an agent are shown to a person: so long at most.
_Text = Annotated[str, Field(max_length=100_000)]
#: What a script printed: the engine keeps no more of it.
_Printed = Annotated[str, Field(max_length=8 * 2**20)]
_Name = Annotated[str, Field(max_length=200)]
_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Status = Annotated[str, Field(pattern=r"^[1-9][0-9]{2}$")]
_Port = Annotated[int, Field(ge=0, le=65_535)]


def _decoded(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError("base64 text is wanted")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError("base64 text is wanted") from error


Blob = Annotated[bytes, BeforeValidator(_decoded), PlainSerializer(lambda value: base64.b64encode(value).decode())]


class Reply(BaseModel):
    """Base of all replies."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Nothing(Reply):
    """It was done."""


class Hello(Reply):
    """Who answers.

    Args:
        machine, boot: hashes that tell two machines and two boots apart.
        sources: hash of the package's files. user: as whom the agent runs.
    """

    protocol: int
    version: _Name
    sources: _Name
    machine: _Name
    boot: _Name
    user: _Name
    cores: list[int]


class MachineReply(Reply):
    """What is known of the machine (``machine_facts.Facts``)."""

    facts: dict[str, Any]


class Clock(Reply):
    """The machine's CLOCK_MONOTONIC."""

    now_ns: _Count


class Usage(Reply):
    """What the agent itself has used so far."""

    cpu_ns: _Count
    now_ns: _Count


class Divided(Reply):
    """The machine's cores."""

    server: list[int]
    engine: list[int]


class State(Reply):
    """Whether a contender is installed; ``reason`` and ``remedy`` where it is missing."""

    ready: bool
    version: _Name = ""
    reason: _Text = ""
    remedy: _Text = ""


class Command(Reply):
    """A build's command; empty where there is nothing to build."""

    words: list[_Text]


class Opened(Reply):
    """What a race found on the machine.

    Args:
        port: the observer's, on the server's machine.
        awake, way: what keeps the cores awake, in words; None where nothing does.
        io, backend, wait, stamps, threads: of a generator's engine.
    """

    port: _Port = 0
    awake: _Text = ""
    way: _Name | None = None
    io: _Name = ""
    backend: _Text = ""
    wait: _Name = ""
    stamps: _Name = ""
    threads: _Count = 0


class Up(Reply):
    """A server that has given its first right answer.

    Args:
        cacert: of one that speaks TLS who signed its certificate, in PEM; "" for any other.
    """

    number: _Count
    host: _Name
    port: _Port
    pid: _Count
    ready_ns: _Count
    cpu_source: _Name
    note: _Text
    drawn_by: _Text
    cacert: _Text


class Look(Reply):
    """How a server is."""

    alive: bool
    processes: _Count
    threads: _Count
    resident_bytes: _Count
    users: list[_Name]
    log_tail: _Text


class ThreadTimes(Reply):
    """CPU time of each thread, ns."""

    cpu_ns: dict[str, int]


class Over(Reply):
    """How a launch ended (``process.launcher.Ended``)."""

    exit_status: int | None
    died: bool
    cpu_ns: int | None
    peak_memory_bytes: int | None
    how: _Text
    left_over: Annotated[tuple[_Text, ...], Field(strict=False)] = ()
    log_tail: _Text


class Counted(Reply):
    """A server's own count; None where it can't say."""

    requests: int | None


class Seen(Reply):
    """An event of the machine (``record.Event``)."""

    kind: Annotated[EventKind, Field(strict=False)]  # JSON has its value
    subject: _Text
    numbers: dict[str, float]


class AllSeen(Reply):
    """What was seen since the last time."""

    events: list[Seen]


class Proof(Reply):
    """What scrutineering found."""

    problems: list[_Text]
    facts: dict[str, _Text]


class Session(Reply):
    """An engine's session."""

    session: _Count


class Offset(Reply):
    """How far the observer's clock is ahead of the generator's; None: nobody answered."""

    offset_ns: int | None
    round_trip_ns: _Count


class KindTally(Reply):
    """What a block left behind of one of a mix's requests."""

    requests: _Count
    failed: _Count
    latency_sum_ns: _Count
    latency_hdr: Blob


class Tally(Reply):
    """What one block left behind, under the engine's own names (``_engine.pyi``)."""

    session: _Count
    started_ns: _Count
    counted_start_ns: _Count
    lead_ns: _Count
    counted_ns: _Count
    duration_ns: _Count
    requests: _Count
    sent: _Count
    answered: _Count
    failed: _Count
    in_flight: _Count
    errors: dict[str, int]
    bytes_in: _Count
    bytes_out: _Count
    connects: _Count
    latency_hdr: Blob
    latency_sum_ns: _Count
    turn_sum_ns: _Count
    clock_step_ns: _Count
    early_stamps: _Count
    p50_ns: _Count
    p90_ns: _Count
    p99_ns: _Count
    p999_ns: _Count
    max_ns: _Count
    server_cpu_ns: _Count | None
    server_wait_ns: _Count | None
    server_runs: _Count | None
    engine_cpu_ns: _Count
    engine_wait_ns: _Count
    engine_switches: _Count
    engine_threads: _Count
    steal_ns: _Count
    gave_up: bool
    sample: _Text
    offered: _Count | None
    unsent: _Count | None
    departed: _Count | None
    lag_p99_ns: _Count | None
    lag_hdr: Blob | None
    latency_sent_hdr: Blob | None
    kinds: list[KindTally]


class Traffic(Reply):
    """What a machine's data link and interrupts came to during a run (``machine.link``), by core's number."""

    lasted_ns: _Count
    received_bytes: _Count
    sent_bytes: _Count
    segments: _Count
    retransmitted: _Count
    line_mbps: _Count
    interrupt_ns: dict[str, int]


class Tallies(Reply):
    """Those of a run's finished blocks."""

    tallies: list[Tally]
    traffic: Traffic


class Right(Reply):
    """The right answer to a load's requests (``loading.learn.Learned``); of its body only the length is told."""

    status: _Count
    reason: _Text
    body_bytes: _Count
    server: _Text
    closes: bool
    tls: _Text
    changes: bool


class LoadScript(Reply):
    """A generator's threads of a script.

    Args:
        hooks: as ``_engine.Script.hooks``. fixed: what it always sends; None where that is not proved.
        printed: before the load.
    """

    hooks: list[_Name]
    fixed: list[Blob] | None
    printed: _Printed


class LoadReady(Reply):
    """A generator that has learned the right answers and opened its connections (``loading.run.Prepared``).

    Args:
        script: where there is one.
    """

    right: Right
    connections: _Count
    cores: list[int]
    by_length: bool
    any_body: bool
    plain_statuses: dict[_Status, _Count]
    notes: list[_Text]
    doubts: list[_Text]
    io: _Text
    backend: _Name
    stamps: _Name
    script: LoadScript | None


class LoadSlice(Reply):
    """About a second of a load (``loading.result.Slice``)."""

    started_ns: _Count
    counted_ns: _Count
    duration_ns: _Count
    requests: _Count
    answered: _Count
    sent: _Count
    failed: _Count
    in_flight: _Count
    errors: dict[_Name, _Count]
    bytes_in: _Count
    bytes_out: _Count
    connects: _Count
    latency_hdr: Blob
    connect_hdr: Blob
    first_byte_hdr: Blob
    latency_sum_ns: _Count
    p50_ns: _Count
    p99_ns: _Count
    max_ns: _Count
    engine_cpu_ns: _Count
    engine_wait_ns: _Count
    gave_up: bool
    statuses: dict[_Status, _Count]
    samples: dict[str, _Text]
    turn_sum_ns: _Count
    clock_step_ns: _Count
    early_stamps: _Count
    offered: _Count | None
    unsent: _Count | None
    departed: _Count | None
    lag_p99_ns: _Count | None
    lag_hdr: Blob | None
    latency_sent_hdr: Blob | None


class LoadRan(Reply):
    """A generator's part of a load.

    Args:
        finished: what ended it (``loading.result.LoadResult.finished``).
        printed: by a script under load.
        globals: of a script with ``setup``: the variables that each of its threads had at the end (``_engine.Script``).
    """

    finished: Literal["count", "duration", "gave up", "interrupted", "script"]
    slices: list[LoadSlice]
    printed: _Printed
    globals: list[Blob]


class Lost(Reply):
    """Sent unasked: the agent ends.

    Args:
        lost: why; ``Channel`` knows the line by this name.
    """

    lost: _Text
