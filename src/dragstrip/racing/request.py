"""What to race and how, as one value, and the checks of it before anything is started or stored."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from dragstrip import contender, machine
from dragstrip.analysis import NO_GATE, Gate
from dragstrip.contender import AllowedHost, Entry, allowance, refuse_beyond
from dragstrip.contender.own_command import remembered
from dragstrip.errors import BadUsage
from dragstrip.machine import show_cores
from dragstrip.metrics import AUTO, MetricChoice
from dragstrip.racing import options, schedule
from dragstrip.racing.setup import LOCAL, Site
from dragstrip.record import DEFAULT_CONNECTIONS, SECRET, Entrant, Load, Purpose, Race
from dragstrip.requested import masked_headers, secret_variables
from dragstrip.workload import HTTP2, Workload
from dragstrip.workload import load as load_workload
from dragstrip.workload.recorded import reopened
from dragstrip.workload.typed import TypedRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(options.DeclaredOptions):
    """What to race and how. Most fields are the options of ``dragstrip race``, as ``DeclaredOptions`` describes them.

    Args:
        entries: at least two, names distinct.
        alpha: probability of any wrong verdict in the whole table.
        wait: how the engine waits for responses: "sleep", "poll", or "auto": polls if no server uses its cores.
        explicit: a contender that is not ready refuses the race (named by hand) instead of being left out (line-up).
        purpose: what the race is for, if a command runs it for something; it becomes an event of the record.
        also: further workloads, each a column of the same race.
        offered: for a race that is run again: rates by workload, each a column, in place of ``rate_per_s``.
        gate: thresholds that the race has to settle as well, if its budget pays for that.
        site: the machine or machines that it runs on.
        allowed: hosts other than this machine that may be loaded.
    """

    entries: tuple[Entry, ...]
    workload: Workload
    alpha: float = options.bounded(0.05, options.FloatRange("share", max=0.5))
    wait: str = options.bounded("auto", options.Choice(("auto", "sleep", "poll")))
    explicit: bool = options.bounded(True, options.FLAG)
    purpose: Purpose | None = None
    gate: Gate = NO_GATE
    also: tuple[Workload, ...] = ()
    offered: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    site: Site = LOCAL
    allowed: tuple[AllowedHost, ...] = ()

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """All workloads, in the order of their columns."""
        return (self.workload, *self.also)

    def __post_init__(self) -> None:
        """Refuses values that no race can run with, before anything is started or stored.

        Raises:
            BadUsage: names the field, the value and what would be valid.
        """
        for declared in fields(self):
            object.__setattr__(self, declared.name, options.validated(declared, getattr(self, declared.name)))
        choice = MetricChoice.of(self.metric)
        if self.efficiency and choice.name == AUTO:
            object.__setattr__(self, "metric", str(replace(choice, name="cpu")))
        if self.budget_s is None and self.allowed:
            object.__setattr__(self, "budget_s", schedule.USUAL_S)  # a longer race was not allowed
        refuse_elsewhere(self.entries, self.allowed, usual_connections(self), self.budget_s or schedule.USUAL_S)


def workloads_from(
    asked: Sequence[Workload | TypedRequest],
    entries: Sequence[Entry],
    *,
    http: str = "1.1",
    of_all: bool = False,
    say: Callable[[str], None],
) -> tuple[Workload, ...]:
    """The workloads of a race, in this order; the correct responses of typed requests are learned.

    Args:
        entries: the contenders, which can be started. http, of_all, say: as for ``learn.learned``.

    Raises:
        NotReady, StageError, BadUsage: as ``learn.learned``.
    """
    typed = [one for one in asked if isinstance(one, TypedRequest)]
    if not typed:
        return tuple(one for one in asked if isinstance(one, Workload))
    from dragstrip.racing.learn import learned  # typed requests alone need it

    made = iter(learned(typed, entries, http=http, of_all=of_all, say=say))
    return tuple(next(made) if isinstance(one, TypedRequest) else one for one in asked)


def usual_connections(request: Request) -> int:
    """The requested number of connections, otherwise the workload's own, otherwise the default."""
    return request.connections or request.workload.traffic.connections or DEFAULT_CONNECTIONS


def refuse_elsewhere(
    entries: Sequence[Entry], allowed: Sequence[AllowedHost], connections: int, budget_s: float
) -> None:
    """Checks races of addresses against what was allowed: calibration and warm-up load as fast as a server responds.

    Raises:
        BadUsage: a host that was not allowed, or more load than was allowed there.
    """
    for entry in entries:
        host = allowance(entry.url.host, allowed) if entry.url is not None else None
        if host is not None:
            refuse_beyond(host, connections=connections, rate_per_s=None, time_s=budget_s)


def lanes_of(request: Request) -> machine.Lanes:
    """The cores of engine and servers.

    Raises:
        BadUsage: unknown cores, or fewer cores for the engine than threads.
    """
    lanes = request.site.lanes(request.server_cores, request.engine_cores)
    if request.threads is not None and request.threads > len(lanes.engine):
        raise BadUsage(
            f"--threads {request.threads}: the engine runs one thread per core and has core "
            f"{machine.show_cores(lanes.engine)}; give it more with --engine-cores"
        )
    return database_lane(lanes, request.workloads, divisible=request.server_cores is None)


def database_lane(lanes: machine.Lanes, workloads: Sequence[Workload], *, divisible: bool) -> machine.Lanes:
    """The core sets, with one for the database if needed; ``divisible``: the user did not name the servers' cores."""
    needed = any(workload.asks_database for workload in workloads)
    return machine.with_database(lanes, divisible=divisible) if needed else lanes


def load_of(request: Request, lanes: machine.Lanes) -> Load:
    """How blocks are loaded; a closed loop, as in calibration."""
    return Load(
        connections=usual_connections(request),
        threads=request.threads or len(lanes.engine),
        keepalive=request.keepalive and request.workload.traffic.keepalive,
        timeout_ns=int(request.timeout_s * 1e9),
        http=request.http,
        pace=request.pace,
        pipelining=request.workload.traffic.pipelining,
        streams=request.streams,
    )


def refuse_few(entries: Sequence[Entry]) -> None:
    """Refuses a race of fewer than two contenders.

    Raises:
        BadUsage: fewer than two contenders.
    """
    if len(entries) < 2:
        raise BadUsage(f"a race needs at least two contenders, got {len(entries)}; `dragstrip contenders` lists them")


def refuse_workloads(request: Request) -> None:
    """Every contender must support a workload, and every workload needs two contenders; a single workload needs all.

    Raises:
        BadUsage: a contender supports none, a workload has fewer than two contenders, or two workloads have one name.
    """
    names = [workload.name for workload in request.workloads]
    listed = {workload.name: workload.served_as for workload in request.workloads}
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        raise BadUsage(f"workload {doubles[0]} is given twice; give each once")
    for entry in request.entries:
        if not any(map(entry.serves, listed.values())):
            entry.refuse_unless_it_serves(listed[names[0]])
    for name in names:
        having = [entry.name for entry in request.entries if entry.serves(listed[name])]
        if len(having) < 2:
            support = f"only {having[0]} does" if having else "none does"
            raise BadUsage(
                f"workload {name}: a race needs at least two contenders that support it; here {support}; "
                "add another one, or leave the workload out"
            )


def refuse_pause(request: Request) -> None:
    """A race with a fixed number of rounds has no other last round; only the race's own machine can be locked.

    Raises:
        BadUsage: ``rounds`` as well as ``last_round``; ``exclusive`` on a fleet.
    """
    if request.rounds is not None and request.last_round is not None:
        raise BadUsage("--rounds fixes the number of rounds, --last-round only limits it; use one of the two")
    if request.exclusive and request.site is not LOCAL:
        raise BadUsage("--exclusive locks cores of this machine and can't be used with --fleet; leave it out")


def refuse_efficiency(request: Request) -> None:
    """Efficiency compares CPU per request at two rates that it chooses.

    Raises:
        BadUsage: another metric or a rate is requested with it.
    """
    if not request.efficiency:
        return
    if MetricChoice.of(request.metric).name != "cpu":
        raise BadUsage(f"--efficiency compares CPU per request, not --metric {request.metric}; use one of the two")
    if request.rate_per_s is not None and not request.offered:
        raise BadUsage("--efficiency chooses its two rates itself; leave out --rate")


def refuse_unfit_load(request: Request, *, open_loop: bool = False) -> None:
    """Refuses workloads that can't be sent as requested.

    Args:
        open_loop: requests will leave by the clock, whatever the request has.

    Raises:
        BadUsage: names the workload, the reason and what to do.
    """
    _refuse_streams(request)
    _refuse_unlike_loads(request)
    _refuse_own_paths(request)
    for workload in request.workloads:
        _refuse_unfit(request, workload, open_loop=open_loop or request.efficiency or request.rate_per_s is not None)


def _refuse_streams(request: Request) -> None:
    """Several requests at a time on a connection need HTTP/2 for every contender."""
    if request.streams == 1:
        return
    usual = request.workload.version(request.http)
    alone = next((entry.name for entry in request.entries if entry.http(usual) != HTTP2), None)
    if alone:
        raise BadUsage(
            f"--streams {request.streams}: {alone} is raced over HTTP/{request.http}, where a connection has one "
            "request at a time; race all over HTTP/2 (--http 2), or leave --streams out"
        )


def _refuse_own_paths(request: Request) -> None:
    """A URL has one path, so it can only be asked for a single request in which the path doesn't vary."""
    having = next((entry for entry in request.entries if entry.url is not None and entry.url.path), None)
    if having is None or having.url is None:
        return
    for workload in request.workloads:
        paths = {kind.request.path for kind in workload.kinds}
        if len(request.workloads) > 1 or len(workload.kinds) > 1 or any("{{" in path for path in paths):
            raise BadUsage(
                f"workload {workload.shown} has paths of its own, and {having.name} is asked at {having.url.path}; "
                "give its URL without a path, or a workload of one request whose path doesn't vary"
            )


def _refuse_unlike_loads(request: Request) -> None:
    """Several workloads of one race share its connections; each has its own pipelining."""
    if len(request.workloads) == 1:
        return
    closing = [workload.shown for workload in request.workloads if not workload.traffic.keepalive]
    if closing and len(closing) < len(request.workloads):
        raise BadUsage(
            f"workload {closing[0]} has a new connection for each request, the others keep theirs; race it by itself"
        )
    framed = [workload.shown for workload in request.workloads if workload.traffic.http == HTTP2]
    if framed and len(framed) < len(request.workloads):
        raise BadUsage(f"workload {framed[0]} is sent over HTTP/2, the others need not be; race it by itself")
    meant = {workload.shown: workload.traffic.connections or DEFAULT_CONNECTIONS for workload in request.workloads}
    if request.connections is None and len(set(meant.values())) > 1:
        counts = ", ".join(f"{name} for {count:,}" for name, count in meant.items())
        raise BadUsage(
            f"these workloads have different default connections ({counts}); choose one number: --connections N"
        )


def _refuse_unfit(request: Request, workload: Workload, *, open_loop: bool) -> None:
    usual = workload.version(request.http)
    workload.traffic_kind.refuse_load(
        http=request.http,
        keepalive=request.keepalive,
        open_loop=open_loop,
        framed=next((entry.name for entry in request.entries if entry.http(usual) == HTTP2), None),
    )
    plain = next((entry.name for entry in request.entries if not entry.tls), None)
    if plain and workload.traffic.tls != "any":
        raise BadUsage(
            f"workload {workload.shown} is about TLS, and {plain} is raced without TLS; race all over TLS (--tls)"
        )
    running = [entry.name for entry in request.entries if entry.url is not None]
    if running and workload.needs_data:
        raise BadUsage(
            f"workload {workload.shown} puts files into the folder of each launch, which {running[0]} can't have: it "
            "runs already; use --serve with its command, which may name {data}"
        )
    if running and workload.asks_database:
        raise BadUsage(
            f"workload {workload.shown} has a fresh database for each round, which {running[0]} can't know: it runs "
            "already; use --serve with its command"
        )


def refuse_doubles(entries: Sequence[Entry]) -> None:
    """Names must distinguish contenders.

    Raises:
        BadUsage: two have the same name.
    """
    names = [entry.name for entry in entries]
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        raise BadUsage(
            f"{doubles[0]} is given twice under one name; to race a contender against itself, give one its own name: "
            f"other={doubles[0]}, or --serve with another name"
        )


def request_of(
    race: Race,
    workloads: Sequence[Workload] = (),
    entries: Sequence[Entry] | None = None,
    allowed: tuple[AllowedHost, ...] = (),
    headers: Sequence[tuple[str, str]] = (),
) -> Request:
    """The same contenders, plan, load and seed; the same cores if this machine has them, otherwise its own choice.

    Contenders that were out before the first round are checked again, apart from those that ``out_and_unknown`` names;
    one that is missing here is left out and named.

    Args:
        workloads: in place of those of the record.
        entries: its contenders as they are defined today; None: as the record names them.
        allowed: hosts other than this machine that may be loaded.
        headers: of its requests whose values the record masks.

    Raises:
        BadUsage: a masked value is needed, or a definition or the workload no longer exists.
    """
    plan, names = race.plan, {field.name for field in fields(Request)}
    # Every field of the load that a request also has, including those that a later version adds.
    load = {field.name: getattr(race.load, field.name) for field in fields(Load) if field.name in names}
    engine_cores = _core_list(race.engine_cores)
    load["threads"] = race.load.threads if engine_cores else None
    load["rate_per_s"] = next((column.load.rate_per_s for column in race.columns if column.load.rate_per_s), None)
    first, *also = workloads or workloads_of(race, headers)
    known = [entrant for entrant in race.entrants if entrant.name not in out_and_unknown(race)]
    rates: dict[str, tuple[float, ...]] = {}
    for column in race.columns:
        rates[column.workload] = (*rates.get(column.workload, ()), column.load.rate_per_s)
    return Request(
        entries=entries_of(known) if entries is None else tuple(entries),
        workload=first,
        also=tuple(also),
        offered=rates,
        **load,
        timeout_s=race.load.timeout_ns / 1e9,
        budget_s=plan.budget_s,
        margin=plan.margin,
        metric=plan.metric,
        alpha=plan.alpha,
        seed=race.seed,
        rounds=plan.planned_rounds if plan.rounds_fixed else None,
        server_cores=_core_list(race.server_cores),
        engine_cores=engine_cores,
        io=race.backend,
        explicit=False,
        allowed=allowed,
    )


def workloads_of(race: Race, headers: Sequence[tuple[str, str]] = ()) -> tuple[Workload, ...]:
    """A race's workloads as its record has them; those of an older record by their names.

    Args:
        headers: whose values the record masks.

    Raises:
        BadUsage: a masked value is needed, or the record lacks the definition and no workload has that name.
    """
    definitions = {column.workload: column.definition for column in race.columns}
    return tuple(
        reopened(definition, f"race {race.id}", headers) if definition else load_workload(name)
        for name, definition in definitions.items()
    )


def entries_of(entrants: Iterable[Entrant]) -> tuple[Entry, ...]:
    """The contenders that a record names, as they are defined today.

    Raises:
        BadUsage: a definition no longer exists, or a secret value differs.
    """
    return tuple(contender.entry_of(entrant.name, entrant.kind, entrant.parameters) for entrant in entrants)


def out_and_unknown(race: Race) -> tuple[str, ...]:
    """Contenders that are out and have a secret variable whose value was not given: a race does not need them."""
    return tuple(
        entrant.name
        for entrant in race.entrants
        if entrant.out
        and any(
            remembered(entrant.name, key.removeprefix(SECRET)) is None
            for key in entrant.parameters
            if key.startswith(SECRET)
        )
    )


def refuse_missing_secrets(race: Race, headers: Sequence[tuple[str, str]] | None) -> None:
    """Names all secrets that a record lacks, and that are needed to go on with it, at once.

    Args:
        headers: that were given; None: its requests are replaced. Variables are those that the process was given.

    Raises:
        BadUsage: a secret is missing.
    """
    given = {name.lower() for name, _ in headers or ()}
    lacking = {name: f"-H '{name}: …'" for name in masked_headers(race) if headers is not None}
    lacking = {name: option for name, option in lacking.items() if name.lower() not in given}
    lacking |= {
        f"{name}.{key}": f"--env {name}.{key}=VALUE"
        for name, key in secret_variables(race)
        if remembered(name, key) is None
    }
    if lacking:
        what, values = ("it is", "value") if len(lacking) == 1 else ("they are", "values")
        raise BadUsage(
            f"race {race.id}: the record has no value of {', '.join(lacking)}, because {what} secret; give the same "
            f"{values} as then: {' '.join(lacking.values())}"
        )


def _core_list(cores: Sequence[int]) -> str | None:
    """A core list for this machine; None if it lacks one of the cores."""
    return show_cores(cores) if cores and set(cores) <= os.sched_getaffinity(0) else None
