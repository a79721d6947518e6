"""What a check can observe, as values: a class for each shape; ``report.race.checks`` has the sentences.

Observations of one shape share a class and differ by their kind; mypy demands a sentence for each kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from dragstrip import parity
from dragstrip.record import Ending, Event, Void, VoidKind


@dataclass(frozen=True, slots=True)
class OfContender:
    """An observation about the numbers of one contender; all others are about the whole race."""

    contender: str


class Plain(Enum):
    """Observations without values."""

    ADDS_UP = auto()
    LITTLE_OPEN_LOOP = auto()
    TURN_OPEN_LOOP = auto()
    SERVER_WAIT_SHARED = auto()
    LAUNCHES_ALIKE = auto()
    NO_INTRUDERS = auto()
    HEAT = auto()
    MEMORY_STEADY = auto()
    BLOCKS_ALIKE = auto()
    CONNECTIONS_AS_ASKED = auto()
    NO_OWN_COUNT = auto()
    LENGTHS_EQUAL = auto()
    NO_TILT = auto()


class Share(Enum):
    """What a share of a whole race is of."""

    ENGINE_CORES_USED = auto()  #: at most, against any contender
    TURN_MOST = auto()  #: of time, at most, that connections waited in the engine
    TURN_MOST_BUSY = auto()  #: the same, while the servers were busy nevertheless
    LITTLE_HOLDS = auto()  #: within which connections, rates and latencies agree; ``names``: not judged
    LITTLE_UNJUDGED = auto()  #: of a calm block that others took at most; the contenders ``names`` had too few of them
    SATURATED = auto()  #: of their cores that servers kept busy at least; ``names``: unreadable
    ENGINE_WAITED = auto()  #: of time that the engine waited for its cores
    ENGINE_WAITED_SHARED = auto()  #: the same, for cores that it shares with the servers
    ENGINE_WAIT_TAKEN = auto()  #: the same, for cores that other programs took
    SERVER_WAIT_MOST = auto()  #: of any server's time that other programs took at most; ``names``: unreadable
    STEAL = auto()  #: of the race's cores that the hypervisor took
    STEADY = auto()  #: by which the engine's pace changed
    STEADY_SCATTERS = auto()  #: the same, no more than it does from round to round
    PACE = auto()  #: by which the machine became slower (below 0: faster), by the engine's own CPU time per request
    NO_TREND = auto()  #: of throughput, by which any contender's changed within the rounds at most
    COUNTED_ALIKE = auto()  #: within which the own counts of the servers ``names`` agree with the engine's


@dataclass(frozen=True, slots=True)
class RaceShare:
    """A share that is about the whole race."""

    kind: Share
    share: float
    names: tuple[str, ...] = ()


class OwnShare(Enum):
    """What a share of one contender is of."""

    CEILING_NEAR = auto()  #: of what the engine can send on this machine
    TURN_LONG = auto()  #: of time that connections waited in the engine while the server was idle
    SERVER_WAIT_TAKEN = auto()  #: of its time on its cores that other programs took
    TREND = auto()  #: by which its throughput changed within the rounds, on average
    SHORTER = auto()  #: by which its responses were shorter in one block
    DATABASE_LIMIT = auto()  #: of its time that the database was busy


@dataclass(frozen=True, slots=True)
class ContenderShare(OfContender):
    """A share that is about one contender."""

    kind: OwnShare
    share: float


@dataclass(frozen=True, slots=True)
class Rounds:
    """How many rounds count, how many are void, and how many are needed. ``ended``: what ended the race."""

    valid: int
    void: int
    least: int
    ended: Ending


@dataclass(frozen=True, slots=True)
class Lanes:
    """The cores of servers and engine; ``shared``: the cores of both."""

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
    """Every response was correct."""

    answered: int


@dataclass(frozen=True, slots=True)
class Errors(OfContender):
    """Requests without a correct response; ``errors``: by kind, the most frequent first."""

    failed: int
    sent: int
    errors: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Intruders:
    """How often other programs worked on the race's cores; ``names``: the most frequent."""

    count: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Frequency:
    """The last change of a core's frequency."""

    event: Event


RaceObservation = Rounds | Lanes | VoidPasses | AccountingFaults | NoErrors | Errors | Intruders | Frequency


class Generator(Enum):
    """How near the engine was to its limit, while the server was not full."""

    LIMIT = auto()
    LIMIT_BY_CPU = auto()  #: at its limit, but CPU time per request decides
    NEAR = auto()


@dataclass(frozen=True, slots=True)
class EngineUse(OfContender):
    """Shares of their cores that the engine and the server used; ``busy``: None if the server's is unreadable."""

    kind: Generator
    share: float
    busy: float | None


@dataclass(frozen=True, slots=True)
class LittleOff(OfContender):
    """Connections at work by rate and latency, and how many there were; ``off``: the difference as a share.

    ``reconnects``: the server closes connections, and the time until the next one is open is neither's.
    """

    busy: float
    connections: int
    off: float
    reconnects: bool


@dataclass(frozen=True, slots=True)
class LittleBeyond(OfContender):
    """Blocks whose connections waited longer than the block lasted, of this many."""

    count: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Offered:
    """All contenders were offered this rate in time."""

    rate_per_s: float


@dataclass(frozen=True, slots=True)
class NotSustained(OfContender):
    """The share of the offered requests that were sent on time."""

    share: float
    rate_per_s: float


@dataclass(frozen=True, slots=True)
class LeftLate(OfContender):
    """How much later than meant one request in a hundred was sent."""

    lag_ns: float


@dataclass(frozen=True, slots=True)
class NotSaturated(OfContender):
    """The share of its cores that it kept busy.

    Args:
        disturbed: other programs took the time that it lacked.
        gathered: its responses waited for a delayed acknowledgement.
    """

    busy: float
    cores: int
    disturbed: bool
    gathered: bool = False


LoadObservation = EngineUse | LittleOff | LittleBeyond | Offered | NotSustained | LeftLate | NotSaturated


@dataclass(frozen=True, slots=True)
class Died(OfContender):
    """Rounds in which it ended by itself."""

    rounds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Killed(OfContender):
    """Launches that lived on after their stop signal, until SIGKILL."""

    count: int
    launches: int


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
class OwnEvent(OfContender):
    """Its memory keeps growing, or its short blocks differ from long ones: the last such event."""

    event: Event


LaunchObservation = Died | Killed | Unsettled | Shapes | SlowLaunches | TwoKinds | AlreadyRunning | OwnEvent


@dataclass(frozen=True, slots=True)
class Closed(OfContender):
    """Responses per connection, of a server that closes them although keep-alive was requested."""

    answers: float


@dataclass(frozen=True, slots=True)
class Reused(OfContender):
    """Too few connections, of a race in which each request has its own."""

    connects: int
    answered: int


@dataclass(frozen=True, slots=True)
class Miscounted(OfContender):
    """By how many requests the server's own count is below the number answered, and above the number sent."""

    fewer: int
    more: int
    sent: int


@dataclass(frozen=True, slots=True)
class DatabaseAsked:
    """The largest difference between statements executed and wanted, and how busy the database was at most."""

    most: float
    busy: float


@dataclass(frozen=True, slots=True)
class DatabaseMiscounted(OfContender):
    """Statements executed, and those that its responses needed."""

    executed: int
    wanted: float


AnswerObservation = Closed | Reused | Miscounted | DatabaseAsked | DatabaseMiscounted


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
    """The share of all responses that one of ``count`` generators got."""

    machine: str
    share: float
    count: int


LinkObservation = LinksCalm | LinkFull | Retransmitted | RoundTrip | Interrupts | UnevenGenerators


class GroupedFact(StrEnum):
    """Facts of the parity sheet that tilt a race if they differ in any way."""

    FRAMING = parity.BODY_FRAMING
    VERSION = parity.HTTP_VERSION
    TLS = parity.TLS_VERSION


@dataclass(frozen=True, slots=True)
class FactDiffers:
    """Contenders by the fact's value."""

    fact: GroupedFact
    groups: Mapping[str, tuple[str, ...]]


class SplitFact(StrEnum):
    """Facts that are true of some contenders."""

    LOGGING = parity.ACCESS_LOG
    COMPRESSION = parity.COMPRESSION
    ROOT = parity.RUNS_AS
    IGNORES_PATHS = "routing"
    CLOSES_OLD_HTTP = parity.OLD_HTTP


@dataclass(frozen=True, slots=True)
class FactSplits:
    """Contenders for which the fact is true, and all others."""

    fact: SplitFact
    names: tuple[str, ...]
    others: tuple[str, ...]


class ListedFact(StrEnum):
    """Facts that are shown for each contender."""

    SIZE = "answer bytes"  #: of the longest response and of the shortest
    DOUBLED_HEADERS = parity.DOUBLED_HEADERS
    NOTE = parity.NOTE
    CLOSES = "keep-alive limit"
    CORES = parity.CORES_USED


@dataclass(frozen=True, slots=True)
class FactListed:
    """The fact by contender, as it is shown; contenders that do nothing special are left out."""

    fact: ListedFact
    values: Mapping[str, str]


ParityObservation = FactDiffers | FactSplits | FactListed

Observation = (
    Plain
    | RaceShare
    | ContenderShare
    | RaceObservation
    | LoadObservation
    | LaunchObservation
    | AnswerObservation
    | LinkObservation
    | ParityObservation
)
