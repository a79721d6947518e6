"""What an examination of this machine, or of a fleet's machines, found, as values; ``report`` writes the sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from dragstrip.machine_facts import CeilingPoint, Facts, GeneratorCeiling, NullRace
from dragstrip.store import machine_profile


class Status(StrEnum):
    """Whether the examined subject is fit for races."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"


class Subject(StrEnum):
    """What was examined, as the report names it."""

    CORES = "cores"
    HARDWARE_THREADS = "hardware threads"
    CLOCK = "clock"
    GOVERNOR = "governor"
    DESCRIPTORS = "descriptors"
    PORTS = "ports"
    BACKLOG = "backlog"
    IO_URING = "io_uring"
    OTHER_PROGRAMS = "other programs"
    STEAL = "steal"
    NOISE = "noise"
    AWAKE = "awake"
    BUBBLEWRAP = "bubblewrap"
    USER_NAMESPACES = "user namespaces"
    ENGINES = "container engines"
    SUBORDINATE_IDS = "subordinate ids"
    CEILING = machine_profile.CEILING
    NULL_RACE = machine_profile.NULL_RACE


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """Something could not be measured; ``refused``: the message of the engine, or of a machine of a fleet."""

    refused: str


@dataclass(frozen=True, slots=True)
class Note:
    """A subject's one text: hardware threads, governor, back end, or why cores can't be kept awake."""

    text: str


@dataclass(frozen=True, slots=True)
class Cores:
    """The cores of servers and engine, of those that are usable."""

    server: tuple[int, ...]
    engine: tuple[int, ...]
    usable: str | None


@dataclass(frozen=True, slots=True)
class Clock:
    """The kernel's clock source, and how long one reading takes."""

    source: str | None
    reading_ns: int


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of the kernel (descriptors, ports, backlog); None: unknown, or none."""

    count: int | None


@dataclass(frozen=True, slots=True)
class TimeShare:
    """The share of the cores' time that other programs, or the hypervisor, take now."""

    share: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a race can see on this machine.

    Args:
        round_sd: standard deviation of a round's log ratio between a server and itself, over ``rounds`` of ``round_s``
            seconds.
        smallest: the smallest difference (a share) that a race of two finds in nine of ten, by budget in seconds.
        seconds_to: after what time nine of ten races have found a difference, by its share; None: not in a minute.
    """

    round_sd: float
    round_s: float
    rounds: int
    smallest: Mapping[int, float]
    seconds_to: Mapping[float, float | None]


@dataclass(frozen=True, slots=True)
class AwakeEffect:
    """What keeping cores awake does: the hypervisor's share and the rounds' scatter with it, and without (``_off``).

    Args:
        text: what keeps them awake. way: its short name.
    """

    text: str
    way: str | None
    steal_share: float
    round_sd: float
    steal_share_off: float
    round_sd_off: float


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What the generator can send.

    Args:
        refused: the engine's message about a point that it could not measure.
        unsound: measured points without any response, or with errors; not in ``ceiling``.
    """

    ceiling: GeneratorCeiling
    refused: str = ""
    unsound: tuple[CeilingPoint, ...] = ()


@dataclass(frozen=True, slots=True)
class NullRaceResult:
    """A race of a server against itself; ``forecast`` is None if it had fewer than two rounds."""

    race: NullRace
    forecast: Forecast | None


class NamespaceCause(StrEnum):
    """Why this user can't make user namespaces."""

    APPARMOR = "apparmor"
    NUMBER = "number"
    SWITCH = "switch"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class UserNamespaces:
    """Whether this user can make user namespaces, in which containers start.

    Args:
        cause: why not; None if it works. refused: the system's words.
    """

    cause: NamespaceCause | None
    refused: str


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """The program that starts containers; None: it is not installed; ``refused``: what it printed when it failed."""

    program: str | None
    refused: str


@dataclass(frozen=True, slots=True)
class EngineState:
    """A container engine: its name, whether it is installed, and the last line that it printed when it failed."""

    name: str
    installed: bool
    refused: str


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines that can give and build images."""

    states: tuple[EngineState, ...]


@dataclass(frozen=True, slots=True)
class SubordinateIds:
    """The user ids that Podman may use for this user, without root.

    Args:
        user: its name. count: by /etc/subuid. tool: `newuidmap`, which hands them out, is installed.
    """

    user: str
    count: int
    tool: bool


Seen = (
    NotMeasured | Note | Cores | Clock | Limit | TimeShare | Forecast | AwakeEffect | Ceiling | NullRaceResult
    | UserNamespaces | Bubblewrap | Engines | SubordinateIds
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one examination of this machine."""

    subject: Subject
    status: Status
    seen: Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All findings, with their time and machine."""

    at: str
    software: str
    machine: Facts
    server_cores: tuple[int, ...]
    engine_cores: tuple[int, ...]
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> bool:
        """Whether something on this machine makes races worthless."""
        return any(finding.status is Status.FAIL for finding in self.findings)


class FleetSubject(StrEnum):
    """What was examined on a machine of a fleet."""

    REACHED = "reached"
    CLOCK = "clock"
    LINK = "link"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Reached:
    """An agent responded: its machine's role and number of cores, its version of Dragstrip, and its user."""

    role: str
    version: str
    user: str
    cores: int


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """A machine's clock against this one's."""

    offset_ns: int
    round_trip_ns: int


@dataclass(frozen=True, slots=True)
class Link:
    """How long a sync message takes over the data link, there and back."""

    round_trip_ns: int


@dataclass(frozen=True, slots=True)
class IdleCost:
    """Share of a core that an idle agent used over the watched seconds, and the limit."""

    share: float
    max_share: float
    seconds: float


@dataclass(frozen=True, slots=True)
class FleetFinding:
    """The result of one examination of a machine of a fleet."""

    machine: str
    subject: FleetSubject
    passed: bool
    seen: NotMeasured | Reached | ClockOffset | Link | IdleCost
