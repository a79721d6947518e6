"""The options of a race: names, types, defaults, bounds, flags and help, for requests and the command line alike.

Whatever is stored was checked first. A record with a text in place of a number would fail every later command.
"""

from __future__ import annotations

import math
import operator
from dataclasses import KW_ONLY, Field, dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict

from dragstrip.errors import BadUsage
from dragstrip.metrics import AUTO, KNOWN, METRICS, TICKS_NS, MetricChoice
from dragstrip.process import keep_awake
from dragstrip.record import DEFAULT_CONNECTIONS, MAX_RATE_PER_S, MAX_TIMEOUT_S

#: Metrics that a race may be judged by; memory is shown in addition and decides nothing.
ASKED_METRICS = (AUTO, *(name for name in METRICS if KNOWN[name].may_decide))

#: The longest race: a week.
MAX_BUDGET_S = 7 * 86_400.0

#: Requests per second of an open loop; "auto": half of what the slowest contender serves; None: a closed loop.
OfferedRate: TypeAlias = float | Literal["auto"] | None


@dataclass(frozen=True, slots=True)
class IntRange:
    """A whole number from ``min`` to ``max``; numpy's integers are also valid."""

    min: int
    max: int

    def validate(self, value: Any) -> int:
        """The number as Python's own int; TypeError or ValueError if it is not valid."""
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
        if not self.min <= number <= self.max:
            raise ValueError
        return number

    def expected(self) -> str:
        """What would be valid."""
        return f"a whole number from {self.min:,} to {self.max:,}"


@dataclass(frozen=True, slots=True)
class FloatRange:
    """A number above 0, or from ``min`` on, up to ``max``, or below it if ``open_end``; or the word ``auto``.

    Args:
        quantity: how the command line writes it: ``2s``, ``+2m``, ``20k`` or ``1%``.
    """

    quantity: Literal["duration", "budget", "rate", "share"]
    _: KW_ONLY
    max: float
    min: float | None = None
    open_end: bool = False
    auto: bool = False

    def validate(self, value: Any) -> float | Literal["auto"]:
        """The number as a float; TypeError, ValueError or OverflowError if it is not valid."""
        if self.auto and value == AUTO:
            return "auto"
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        number = float(value)
        low = number > 0 if self.min is None else number >= self.min
        high = number < self.max if self.open_end else number <= self.max
        if not (low and high and math.isfinite(number)):
            raise ValueError
        return number

    def expected(self) -> str:
        low = "above 0" if self.min is None else f"from {self.min:g}"
        auto = f" or {AUTO!r}" if self.auto else ""
        return f"a number {low} and {'below' if self.open_end else 'up to'} {self.max:g}{auto}"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several values of one type."""

    values: tuple[object, ...]

    def validate(self, value: Any) -> Any:
        """The value; ValueError if it is not valid."""
        if not isinstance(value, type(self.values[0])) or value not in self.values:
            raise ValueError
        return value

    def expected(self) -> str:
        return " or ".join(map(str, self.values))


@dataclass(frozen=True, slots=True)
class Text:
    """Any text."""

    example: str

    def validate(self, value: Any) -> str:
        """The text; TypeError if it is none."""
        if not isinstance(value, str):
            raise TypeError
        return value

    def expected(self) -> str:
        return f"a text like {self.example!r}"


CONNECTIONS = IntRange(1, 100_000)
#: As many as every server that Dragstrip ships accepts on a connection; some accept only 100 (RFC 9113, 6.5.2).
STREAMS = IntRange(1, 100)

Bound: TypeAlias = IntRange | FloatRange | Choice | Text

FLAG = Choice((True, False))

#: Groups of a command's help, in their order.
GROUPS = (COMMON, RACED, REQUEST, LOAD, TIME, OUTPUT) = (
    "Common options",
    "What to race",
    "The request",
    "Load",
    "Time and verdict",
    "Output and machine",
)


def bounded(default: Any, bound: Bound) -> Any:
    """A field of a request: its default, and what else it may be; a default of None is valid as well."""
    return field(default=default, metadata={"bound": bound})


def declared(
    flags: str,
    help: str,
    bound: Bound,
    default: Any = None,
    *,
    group: str = LOAD,
    metavar: str | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """The same, which the command line has, too.

    Args:
        flags: with blanks between them. group: of the help.
        choices: values on the command line, if a call from Python accepts others.
    """
    words = {"help": help, "group": group, "metavar": metavar}
    return field(default=default, metadata={"bound": bound, "flags": flags.split(), "choices": choices, "words": words})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredOptions:
    """Options of a race, each declared here and nowhere else: type, flags, help, bounds and default.

    A race's request and ``dragstrip race`` inherit these fields, other commands name some of them
    (``commands.options.of_race``), and ``PlanOptions`` repeats their types for calls from Python.
    """

    connections: int | None = declared(
        "--connections -c",
        f"Concurrent connections. [default: {DEFAULT_CONNECTIONS}, or the workload's own number]",
        CONNECTIONS,
    )
    threads: int | None = declared("--threads -t", "Engine threads. [default: one per engine core]", IntRange(1, 256))
    keepalive: bool = declared(
        "--keepalive/--no-keepalive", "Reuse connections, or open a new one per request.", FLAG, True
    )
    http: str = declared(
        "--http",
        "HTTP version: 1.0 as ab speaks it; 2 starts every contender with http=2.",
        Choice(("1.1", "1.0")),
        "1.1",
        choices=("1.1", "1.0", "2"),
    )
    streams: int = declared("--streams", "HTTP/2: concurrent requests (streams) per connection.", STREAMS, 1)
    timeout_s: float = declared(
        "--timeout", "Time limit for one response.", FloatRange("duration", max=MAX_TIMEOUT_S, min=0.001), 2.0
    )
    rate_per_s: float | Literal["auto"] | None = declared(
        "--rate -R",
        "Open loop: requests per second for every contender, or auto (half of what the slowest can serve).",
        FloatRange("rate", max=MAX_RATE_PER_S, auto=True),
    )
    pace: str = declared(
        "--pace",
        "Open loop: how precisely requests leave on time; see load --help.",
        Choice(tuple(TICKS_NS)),
        "precise",
    )
    efficiency: bool = declared(
        "--efficiency",
        "Compare CPU time per request at two rates: a tenth and half of what the slowest can serve.",
        FLAG,
        False,
    )
    seed: int | None = declared(
        "--seed", "Seed for random order and drawn requests. [default: random]", IntRange(0, 2**63 - 1)
    )
    budget_s: float | None = declared(
        "--budget --duration -d",
        "Time for all rounds; with --resume, +2m adds two minutes. "
        "[default: 60s, or up to 5m if 12 rounds need longer]",
        FloatRange("budget", max=MAX_BUDGET_S),
        group=TIME,
    )
    rounds: int | None = declared(
        "--rounds --runs",
        "Run exactly this many rounds; a verdict needs at least 10.",
        IntRange(2, 10_000),
        group=TIME,
    )
    last_round: int | None = declared(
        "--last-round",
        "Plan for up to this many rounds, whatever they take; intervals hold at each of them.",
        IntRange(10, 10_000),
        group=TIME,
    )
    pause_after: int | None = declared(
        "--pause-after",
        "Pause the race after this many further rounds; --resume continues it.",
        IntRange(1, 10_000),
        group=TIME,
        metavar="ROUNDS",
    )
    margin: float = declared(
        "--margin",
        "Equivalence margin: 'same' if the whole interval lies within it.",
        FloatRange("share", max=1.0, open_end=True),
        0.01,
        group=TIME,
    )
    metric: str = declared(
        "--metric",
        "Metric that decides: auto (throughput, or cpu if the machine, the load generator or a fixed rate makes "
        "throughput meaningless), throughput, cpu (server CPU time per request), latency-… (needs --rate).",
        Choice(tuple(str(MetricChoice(name, typical)) for typical in (False, True) for name in ASKED_METRICS)),
        AUTO,
        group=TIME,
        choices=ASKED_METRICS,
    )
    fresh_scrutiny: bool = declared(
        "--fresh-scrutiny",
        "Repeat scrutineering even for contenders that have not changed.",
        FLAG,
        False,
        group=RACED,
    )
    exclusive: bool = declared(
        "--exclusive",
        "Wait until no other race with --exclusive uses any of this race's cores.",
        FLAG,
        False,
        group=OUTPUT,
    )
    server_cores: str | None = declared(
        "--server-cores", "CPU cores for the servers, e.g. 1 or 2-3.", Text("1 or 2-3"), group=OUTPUT
    )
    engine_cores: str | None = declared("--engine-cores", "CPU cores for the load generator.", Text("0"), group=OUTPUT)
    io: str = declared(
        "--io",
        "The engine's I/O back end; auto uses io_uring if it works.",
        Choice(("auto", "uring", "epoll")),
        "auto",
        group=OUTPUT,
    )
    awake: str = declared(
        "--awake", "Keep CPU cores out of idle sleep states.", Choice(keep_awake.CHOICES), "auto", group=OUTPUT
    )


class PlanOptions(TypedDict, total=False):
    """Options of ``dragstrip.race`` by their types; ``docs/commands.md`` describes each, with its default."""

    connections: int | None
    threads: int | None
    keepalive: bool
    http: Literal["1.1", "1.0"]
    streams: int
    rate_per_s: OfferedRate
    pace: str
    timeout_s: float
    budget_s: float | None
    rounds: int | None
    last_round: int | None
    pause_after: int | None
    exclusive: bool
    margin: float
    metric: str
    alpha: float
    seed: int | None
    server_cores: str | None
    engine_cores: str | None
    io: Literal["auto", "uring", "epoll"]
    awake: Literal["auto", "off"]
    wait: Literal["auto", "sleep", "poll"]
    explicit: bool
    fresh_scrutiny: bool
    efficiency: bool


def validated(known: Field[Any], value: Any) -> Any:
    """A value of a field as it is to be kept.

    Raises:
        BadUsage: wrong type, or out of bounds; names the field, the value and what would be valid.
    """
    bound: Bound | None = known.metadata.get("bound")
    if bound is None or (value is None and known.default is None):
        return value
    try:
        return bound.validate(value)
    except (TypeError, ValueError, OverflowError) as error:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}…"
        expected = f"{bound.expected()}{' or None' if known.default is None else ''}"
        raise BadUsage(f"{known.name}={shown}: use {expected}") from error
