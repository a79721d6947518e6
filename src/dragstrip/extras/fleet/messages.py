"""Messages between a client and its agents: values from which the agent rebuilds an object, and replies.

An agent's machine may be hostile. So nothing in a reply is run or unpickled: a reply is JSON of bounded length, and one
that does not fit its model ends the race.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Self, TypeVar

from pydantic import AfterValidator, BaseModel, Field

from dragstrip import workload
from dragstrip.contender import Entry, entry_of
from dragstrip.errors import BadUsage
from dragstrip.extras.fleet.wire import REPLY
from dragstrip.loading.learn import MAX_BODY_BYTES, Learned
from dragstrip.loading.result import Slice
from dragstrip.record import Counted, KindCount, LoadEnding
from dragstrip.scrutiny import Encryption
from dragstrip.workload import HTTP2, Asking, Data, Workload

#: Version of the messages: it changes if one side would not understand the other.
PROTOCOL = 3

_MAX_COUNT = 2**63 - 1
_Count = Annotated[int, Field(ge=0, le=_MAX_COUNT)]
_Name = Annotated[str, Field(max_length=200)]
_Port = Annotated[int, Field(ge=0, le=65_535)]
_Status = Annotated[int, Field(ge=100, le=999)]
#: The output of a script: the engine keeps no more than this.
_Printed = Annotated[str, Field(max_length=8 * 2**20)]


@dataclass(frozen=True, slots=True)
class SentWorkload:
    """A workload: its name, and the text of its file."""

    name: str
    text: str

    @classmethod
    def of(cls, loaded: Workload) -> Self:
        """A workload in the form in which it is sent."""
        return cls(loaded.name, loaded.source.text)

    def load(self) -> Workload:
        """The workload that was sent.

        Raises:
            BadDefinition: this version doesn't accept the file.
        """
        if self.name in workload.names():
            shipped = workload.load(self.name)
            if shipped.source.text == self.text:
                return shipped
        return workload.loads(self.text, f"workload {self.name}, as it was sent")


@dataclass(frozen=True, slots=True)
class SentEntry:
    """The values from which another machine makes the same contender."""

    name: str
    kind: str
    parameters: Mapping[str, int | float | bool | str]
    definition_hash: str
    for_workload: str

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """A contender in the form in which it is sent."""
        asking = entry.contender.asking if entry.contender is not None else ""
        return cls(entry.name, entry.kind, dict(entry.parameters), entry.definition_hash, asking)

    def entry(self) -> Entry:
        """The contender that was sent.

        Raises:
            BadUsage: its definition is missing here, or differs.
        """
        made = entry_of(self.name, self.kind, self.parameters)
        # An ad hoc contender's command was sent; its hash covers a program that only the servers' machine needs.
        if made.kind != "serve" and made.definition_hash != self.definition_hash:
            raise BadUsage(
                f"{made.name}: its definition on the servers' machine differs "
                f"({made.definition_hash[:12]} there, {self.definition_hash[:12]} here); copy the folder there"
            )
        return made.for_workload(self.for_workload, asks_database=False) if self.for_workload else made


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAsking:
    """The values from which another machine makes the requests and responses for one launch.

    Args:
        own_form, framed, path: as in ``Asking``. drawn_by: the seed of the launch's data.
        cacert: the authority that signed its certificate, in PEM; "": without TLS.
    """

    workload: SentWorkload
    mark: str
    own_form: bool
    framed: bool
    path: str
    drawn_by: str
    cacert: str

    def asking(self, seed: int, folder: Path) -> Asking:
        """The requests and responses; ``folder``: for the workload's file."""
        loaded = self.workload.load()
        data = loaded.data(self.drawn_by) if self.drawn_by else Data()
        own_form, framed, path = self.own_form, self.framed, self.path
        return Asking(
            workload=loaded, seed=seed, mark=self.mark, own_form=own_form, framed=framed, path=path, data=data
        )

    def encryption(self, folder: Path) -> Encryption | None:
        """How the launch is reached over TLS; None: without TLS. ``folder``: for its authority's certificate."""
        if not self.cacert:
            return None
        file = folder / f"{hashlib.sha256(self.cacert.encode()).hexdigest()[:16]}.pem"
        if not file.exists():
            part = file.with_suffix(f".{threading.get_ident()}")  # another reader must find the whole file
            part.write_text(self.cacert, encoding="ascii")
            part.replace(file)
        return Encryption(file, HTTP2 if self.framed else "1.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBlock:
    """The arguments of ``racing.setup.block_plan``."""

    session: int
    lead_ns: int
    counted_ns: int
    rate_per_s: float = 0.0
    pace: str = "precise"
    seed: int = 0


class Reply(BaseModel):
    """Base of all replies with several fields."""

    model_config = REPLY


class Hello(Reply):
    """The identity of a machine and its agent.

    Args:
        machine, boot: hashes that distinguish machines and boots.
        sources: hash of the package's files. user: the user that the agent runs as.
    """

    protocol: int
    version: _Name
    sources: _Name
    machine: _Name
    boot: _Name
    user: _Name
    cores: list[int]


class ClockReply(Reply):
    """The machine's CLOCK_MONOTONIC."""

    now_ns: _Count


class Usage(Reply):
    """CPU time that the agent itself has used so far."""

    cpu_ns: _Count
    now_ns: _Count


class CoreSets(Reply):
    """The machine's cores for servers, and its cores for the engine."""

    server: tuple[int, ...]
    engine: tuple[int, ...]


class Opened(Reply):
    """How a race was opened on a machine.

    Args:
        port: of the observer on the servers' machine.
        awake, way: what keeps the cores awake, in words, and the way it does; None: nothing does.
        io, backend, wait, stamps, threads: of a generator's engine.
    """

    port: _Port = 0
    awake: str
    way: _Name | None
    io: _Name = ""
    backend: str = ""
    wait: _Name = ""
    stamps: _Name = ""
    threads: _Count = 0


class ServerStarted(Reply):
    """A server that has sent its first correct response.

    Args:
        cacert: with TLS, the authority that signed its certificate, in PEM; otherwise "".
    """

    number: _Count
    host: _Name
    port: _Port
    ready_ns: _Count
    cpu_source: _Name
    note: str
    drawn_by: str
    cacert: str


class ServerState(Reply):
    """The current state of a server."""

    alive: bool
    processes: _Count
    threads: _Count
    resident_bytes: _Count
    users: tuple[_Name, ...]
    outside: tuple[str, ...]
    log_tail: str


class ProofReply(Reply):
    """The findings of scrutineering."""

    problems: tuple[str, ...]
    facts: dict[str, str]


class Offset(Reply):
    """How far the observer's clock is ahead of the generator's; None if the observer does not answer."""

    offset_ns: int | None
    round_trip_ns: _Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally(Counted):
    """What one generator's engine counted in one block, under the engine's own names (``_engine.pyi``)."""

    session: int
    counted_start_ns: int
    kinds: list[KindCount]


_Part = TypeVar("_Part", Tally, Slice)


def _believable(part: _Part) -> _Part:
    """The same part, if all its counts are possible."""
    if not all(0 <= count <= _MAX_COUNT for count in _counts(asdict(part))):
        raise ValueError("a count is below 0 or above 2^63")
    if isinstance(part, Slice) and not all(100 <= status <= 999 for status in part.statuses):
        raise ValueError("a status does not have three digits")
    return part


def _counts(value: object) -> Iterator[int]:
    """Every whole number in a value, also within maps and lists."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _counts(item)


class Traffic(Reply):
    """The traffic of a machine's data link during a run, and its interrupts by core number (``machine.link``)."""

    lasted_ns: _Count
    received_bytes: _Count
    sent_bytes: _Count
    segments: _Count
    retransmitted: _Count
    line_mbps: _Count
    interrupt_ns: dict[str, int]


class Tallies(Reply):
    """Tallies of a run's finished blocks."""

    tallies: list[Annotated[Tally, AfterValidator(_believable)]]
    traffic: Traffic


class LoadScript(Reply):
    """A generator's threads of a script.

    Args:
        hooks: as ``_engine.Script.hooks``. fixed: the requests that it always sends; None if that is not proved.
        printed: its output before the load.
    """

    hooks: list[_Name]
    fixed: list[bytes] | None
    printed: _Printed


class LoadReady(Reply):
    """A generator that has learned the correct responses and opened its connections (``loading.run.Prepared``).

    Args:
        learned: the reference response, whose body stays on the generator; body_bytes: that body's length.
        script: None if the load has none.
    """

    learned: Learned
    body_bytes: Annotated[int, Field(ge=0, le=MAX_BODY_BYTES)]
    connections: _Count
    cores: list[int]
    by_length: bool
    any_body: bool
    plain_statuses: dict[_Status, _Count]
    notes: list[str]
    doubts: list[str]
    io: str
    backend: _Name
    stamps: _Name
    script: LoadScript | None


#: About a second of a load.
LoadSlice = Annotated[Slice, AfterValidator(_believable)]


class LoadRan(Reply):
    """A generator's part of a load.

    Args:
        printed: output of the script under load.
        globals: for a script with ``setup``: each thread's global variables at the end (``_engine.Script``).
    """

    finished: LoadEnding
    slices: list[LoadSlice]
    printed: _Printed
    globals: list[bytes]
