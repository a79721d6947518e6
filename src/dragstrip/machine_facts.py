"""What is known of the machine, or the machines, of a race, as values; None: unknown. Units are last in each name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the kernel that loads can reach."""

    nofile_soft: int | None = None
    nofile_hard: int | None = None
    local_ports: tuple[int, ...] | None = None
    somaxconn: int | None = None
    tcp_tw_reuse: int | None = None
    tcp_max_syn_backlog: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingPoint:
    """The rate that the engine reached against a server that takes no time, and its maximum by its CPU time."""

    connections: int
    keepalive: bool
    ceiling_per_s: float
    reached_per_s: float = 0.0
    engine_share: float = 0.0
    errors: int = 0

    @property
    def sound(self) -> bool:
        """Whether there were responses, and no errors."""
        return self.reached_per_s > 0 and self.errors == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorCeiling:
    """The rates that this machine's generator can send, by `dragstrip doctor`; ``at``: when they were measured."""

    threads: int
    points: tuple[CeilingPoint, ...]
    at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NullRace:
    """The result of a race of a server against itself on this machine.

    Args:
        verdict: of the pair; "void", or that a difference was found.
        low, high: the ratio's interval; None: it has no bounds.
        round_sd: standard deviation of the ratios' logarithms over ``rounds`` rounds of ``round_s`` seconds.
    """

    race: str
    at: str
    verdict: str
    low: float | None = None
    high: float | None = None
    spent_s: float | None = None
    round_sd: float | None = None
    round_s: float | None = None
    rounds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFacts:
    """The database that contenders query: its settings, and where it runs; ``shared``: on the servers' cores."""

    title: str
    version: str
    cores: tuple[int, ...]
    shared: bool
    data: str
    connections: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Facts of a machine.

    Args:
        physical_cores: the hardware threads of each, as text.
        virtual: the hypervisor, or "none".
        boot: distinguishes two boots.
        mitigations: the kernel's text on each known vulnerability of the processor.
        load_average: over 1, 5 and 15 minutes.
    """

    cpu: str | None = None
    architecture: str | None = None
    cores_online: str | None = None
    cores_usable: str | None = None
    physical_cores: tuple[str, ...] | None = None
    governor: str | None = None
    frequency_khz: int | None = None
    frequency_max_khz: int | None = None
    turbo: bool | None = None
    memory_bytes: int | None = None
    swap_bytes: int | None = None
    kernel: str | None = None
    distribution: str | None = None
    virtual: str | None = None
    container: str | None = None
    boot: str | None = None
    clock_source: str | None = None
    mitigations: Mapping[str, str] | None = None
    load_average: tuple[float, ...] | None = None
    limits: Limits | None = None
    python: str | None = None

    @property
    def identity(self) -> tuple[str | None, ...]:
        """The facts that distinguish one machine from another."""
        return self.cpu, self.architecture, self.cores_online, self.virtual


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMachine(Inventory):
    """One machine of a fleet."""

    role: str
    address: str
    control_round_trip_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts(Inventory):
    """The servers' machine, and how a race used it.

    Args:
        fleet: name and identity of each machine, in a race over several; ``machines``: the facts of each.
        engine_io: the engine's transport, and the clock of its latencies.
        engine_wait: how the engine waits for responses: "sleep" or "poll".
        awake: how cores were kept from sleeping, or why they were not; ``kept_awake``: they were.
    """

    fleet: Mapping[str, str] | None = None
    machines: Mapping[str, FleetMachine] | None = None
    generator_ceiling: GeneratorCeiling | None = None
    null_race: NullRace | None = None
    engine_io: str | None = None
    engine_wait: str | None = None
    awake: str | None = None
    kept_awake: bool = False
    database: DatabaseFacts | None = None

    @property
    def is_virtual(self) -> bool:
        """Whether a hypervisor is known."""
        return self.virtual not in (None, "", "none")

    @property
    def database_cores(self) -> tuple[int, ...]:
        """The database's cores; none without one."""
        return self.database.cores if self.database else ()
