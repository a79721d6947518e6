"""What a check can observe: a class for each kind, with its values; ``report.race.observations`` has the sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from dragstrip.record import Event, Void, VoidKind
from dragstrip.validity.parity_observation import ParityObservation


@dataclass(frozen=True, slots=True)
class OfContender:
    """An observation about the numbers of one contender; all others are about the whole race."""

    contender: str


class Plain(StrEnum):
    """Observations without values."""

    ADDS_UP = "adds up"
    LITTLE_OPEN_LOOP = "Little's law in an open loop"
    TURN_OPEN_LOOP = "turn-round in an open loop"
    SERVER_WAIT_SHARED = "server wait on shared cores"
    LAUNCHES_ALIKE = "launches alike"
    NO_INTRUDERS = "no intruders"
    HEAT = "heat"
    MEMORY_STEADY = "memory steady"
    BLOCKS_ALIKE = "blocks alike"
    CONNECTIONS_AS_ASKED = "connections as asked"
    NO_OWN_COUNT = "no own count"
    LENGTHS_EQUAL = "lengths equal"
    NO_TILT = "no tilt"


@dataclass(frozen=True, slots=True)
class Rounds:
    """How many rounds count; fewer than ``least`` decide nothing. ``ended``: what ended the race."""

    valid: int
    void: int
    least: int
    ended: str


@dataclass(frozen=True, slots=True)
class Lanes:
    """The cores of servers and engine; ``shared``: those of both."""

    servers: tuple[int, ...]
    engine: tuple[int, ...]
    shared: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VoidPasses:
    """Passes that are void; ``cause``: the kind of reason that voided most of them."""

    lost: int
    passes: int
    cause: VoidKind | None


@dataclass(frozen=True, slots=True)
class AccountingFaults:
    """Blocks whose counts can't be true."""

    count: int
    first: Void


@dataclass(frozen=True, slots=True)
class NoErrors:
    """Every answer was right."""

    answered: int


@dataclass(frozen=True, slots=True)
class Errors(OfContender):
    """Requests without a right answer; ``errors``: by kind, the most frequent first."""

    failed: int
    sent: int
    errors: Mapping[str, int]


RaceObservation = Rounds | Lanes | VoidPasses | AccountingFaults | NoErrors | Errors


@dataclass(frozen=True, slots=True)
class EngineCoresUsed:
    """The largest share of its cores that the engine used against any contender."""

    most: float


@dataclass(frozen=True, slots=True)
class EngineUse(OfContender):
    """Shares of their cores that the engine and the server used; ``busy``: None if the server's is unreadable."""

    share: float
    busy: float | None


class GeneratorLimit(EngineUse):
    """The engine was full and the server was not."""


class GeneratorLimitByCpu(EngineUse):
    """The engine was full and the server was not, but CPU time per request decides."""


class GeneratorNear(EngineUse):
    """The engine was nearly full."""


@dataclass(frozen=True, slots=True)
class CeilingNear(OfContender):
    """Throughput as a share of what the engine can send on this machine."""

    share: float


@dataclass(frozen=True, slots=True)
class TurnMost:
    """The largest share of time that connections waited in the engine; ``busy``: servers were busy nevertheless."""

    most: float
    busy: bool


@dataclass(frozen=True, slots=True)
class TurnLong(OfContender):
    """The share of time that connections waited in the engine while the server was idle."""

    share: float


GeneratorObservation = (
    EngineCoresUsed | GeneratorLimit | GeneratorLimitByCpu | GeneratorNear | CeilingNear | TurnMost | TurnLong
)


@dataclass(frozen=True, slots=True)
class LittleHolds:
    """Connections, rates and latencies agree within this share."""

    within: float


@dataclass(frozen=True, slots=True)
class LittleOff(OfContender):
    """Connections at work by rate and latency, and how many there were; ``off``: the difference as a share."""

    busy: float
    connections: int
    off: float


@dataclass(frozen=True, slots=True)
class LittleReconnects(OfContender):
    """As ``LittleOff``, of a server that closes connections: between two of them there is time that is neither's."""

    busy: float
    connections: int


@dataclass(frozen=True, slots=True)
class Offered:
    """All contenders were offered this rate in time."""

    rate_per_s: float


@dataclass(frozen=True, slots=True)
class NotSustained(OfContender):
    """The share of the offered requests that left in time."""

    share: float
    rate_per_s: float


@dataclass(frozen=True, slots=True)
class LeftLate(OfContender):
    """How much later than meant one request in a hundred left."""

    lag_ns: float


@dataclass(frozen=True, slots=True)
class Saturated:
    """Servers kept at least this share of their cores busy; ``unread``: contenders whose CPU time is unreadable."""

    least: float
    unread: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotSaturated(OfContender):
    """The share of its cores that it kept busy; ``disturbed``: other programs took the time that it lacked."""

    busy: float
    cores: int
    disturbed: bool


LoadObservation = (
    LittleHolds | LittleOff | LittleReconnects | Offered | NotSustained | LeftLate | Saturated | NotSaturated
)


@dataclass(frozen=True, slots=True)
class EngineWaited:
    """The share of time that the engine waited for its cores; ``shared``: it shares them with the servers."""

    share: float
    shared: bool


@dataclass(frozen=True, slots=True)
class EngineWaitTaken:
    """The share of time that the engine waited for cores that other programs took."""

    share: float


@dataclass(frozen=True, slots=True)
class ServerWaitMost:
    """The largest share of any server's time that other programs took; ``unread``: contenders without a reading."""

    most: float
    unread: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServerWaitTaken(OfContender):
    """The share of a server's time on its cores that other programs took."""

    taken: float


@dataclass(frozen=True, slots=True)
class Steal:
    """The share of the race's cores that the hypervisor took."""

    share: float


@dataclass(frozen=True, slots=True)
class Intruders:
    """How often other programs worked on the race's cores; ``names``: the most frequent."""

    count: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Steady:
    """How much the engine's pace changed; ``scatters``: no more than it does from round to round."""

    drift: float
    scatters: bool


@dataclass(frozen=True, slots=True)
class Pace:
    """How much slower (below 0: faster) the machine became, by the engine's own CPU time per request."""

    drift: float


@dataclass(frozen=True, slots=True)
class Frequency:
    """The last change of a core's frequency."""

    event: Event


MachineObservation = (
    EngineWaited | EngineWaitTaken | ServerWaitMost | ServerWaitTaken | Steal | Intruders | Steady | Pace | Frequency
)


@dataclass(frozen=True, slots=True)
class Died(OfContender):
    """Rounds in which it ended by itself."""

    rounds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unsettled(OfContender):
    """Launches whose warm-up had not ended."""

    count: int
    launches: int


@dataclass(frozen=True, slots=True)
class Shapes(OfContender):
    """Different numbers of processes and threads that its launches had."""

    shapes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SlowLaunches(OfContender):
    """Rare slow launches, by round: the speed as a share of the median launch's."""

    slow: Mapping[int, float]
    launches: int


@dataclass(frozen=True, slots=True)
class TwoKinds(OfContender):
    """The slower kind's share of the launches, and by how much it is slower; ``wanted``: rounds that average both."""

    share: float
    slower: float
    launches: int
    wanted: int


class AlreadyRunning(OfContender):
    """Dragstrip did not start it."""


@dataclass(frozen=True, slots=True)
class NoTrend:
    """The largest mean change of any contender's throughput within the rounds."""

    most: float


@dataclass(frozen=True, slots=True)
class Trend(OfContender):
    """The mean change of its throughput within the rounds."""

    mean: float


@dataclass(frozen=True, slots=True)
class Growing(OfContender):
    """The last event of its memory's growth."""

    event: Event


@dataclass(frozen=True, slots=True)
class UnequalBlocks(OfContender):
    """Short blocks that differ from long ones."""

    event: Event


LaunchObservation = (
    Died | Unsettled | Shapes | SlowLaunches | TwoKinds | AlreadyRunning | NoTrend | Trend | Growing | UnequalBlocks
)


@dataclass(frozen=True, slots=True)
class Closed(OfContender):
    """Answers per connection, of a server that closes them although keep-alive was asked."""

    answers: float


@dataclass(frozen=True, slots=True)
class Reused(OfContender):
    """Too few connections, of a race in which each request has its own."""

    connects: int
    answered: int


@dataclass(frozen=True, slots=True)
class CountedAlike:
    """Servers whose own count of requests agrees with the engine's within this share."""

    names: tuple[str, ...]
    most: float


@dataclass(frozen=True, slots=True)
class Miscounted(OfContender):
    """By how many requests the server's own count is below what was answered, and above what was sent."""

    fewer: int
    more: int
    sent: int


@dataclass(frozen=True, slots=True)
class Shorter(OfContender):
    """By which share its answers were shorter in one block."""

    share: float


@dataclass(frozen=True, slots=True)
class DatabaseAsked:
    """The largest difference between statements executed and wanted, and how busy the database was at most."""

    most: float
    busy: float


@dataclass(frozen=True, slots=True)
class DatabaseLimit(OfContender):
    """How busy it kept the database."""

    busy: float


@dataclass(frozen=True, slots=True)
class DatabaseMiscounted(OfContender):
    """Statements executed, and those that its answers took."""

    executed: int
    wanted: float


AnswerObservation = (
    Closed | Reused | CountedAlike | Miscounted | Shorter | DatabaseAsked | DatabaseLimit | DatabaseMiscounted
)


@dataclass(frozen=True, slots=True)
class LinksCalm:
    """Shares of the line rate used (None: unknown) and of segments sent again, and the longest round trip."""

    use: float | None
    again: float
    round_trip_ns: float


@dataclass(frozen=True, slots=True)
class LinkFull(OfContender):
    """The share of a machine's link that it used."""

    machine: str
    share: float
    mbps: int


@dataclass(frozen=True, slots=True)
class Retransmitted:
    """The share of its TCP segments that a machine sent again."""

    machine: str
    share: float


@dataclass(frozen=True, slots=True)
class RoundTrip(OfContender):
    """The round trip from a machine, which is much of the contender's median latency."""

    machine: str
    round_trip_ns: float
    p50_ns: float


@dataclass(frozen=True, slots=True)
class Interrupts:
    """The share of one core's time that interrupts took."""

    machine: str
    core: int
    share: float


@dataclass(frozen=True, slots=True)
class UnevenGenerators:
    """The share of all answers that one of ``count`` generators got."""

    machine: str
    share: float
    count: int


LinkObservation = LinksCalm | LinkFull | Retransmitted | RoundTrip | Interrupts | UnevenGenerators

Observation = (
    Plain
    | RaceObservation
    | GeneratorObservation
    | LoadObservation
    | MachineObservation
    | LaunchObservation
    | AnswerObservation
    | LinkObservation
    | ParityObservation
)
