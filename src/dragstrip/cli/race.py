"""``dragstrip race``: from the command line's options to a request, and from its record to the report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

import click

from dragstrip import contender, paths
from dragstrip.analysis import Gate
from dragstrip.cli import completion
from dragstrip.cli import options as opts
from dragstrip.cli.conclusion import Reports, conclude, finished
from dragstrip.cli.consent import ask_to_build, ask_to_run
from dragstrip.cli.options import gathered, open_store, option, placed, switch, taken_from
from dragstrip.cli.quantities import BUDGET, RATE_OR_AUTO, SHARE, ExtraSeconds, whole_number
from dragstrip.cli.why import with_causes
from dragstrip.contender import AllowedHost
from dragstrip.contender.entries import HTTP, TLS, split_label
from dragstrip.errors import BadUsage, need_extra
from dragstrip.metrics import AUTO, MetricChoice
from dragstrip.profile.run import ProfileRequest
from dragstrip.racing import options as bounds
from dragstrip.racing import run as racing
from dragstrip.racing.request import Request
from dragstrip.racing.resume import refuse_other_machine, resume
from dragstrip.racing.schedule import ROUNDS_WANTED
from dragstrip.racing.setup import Site
from dragstrip.record import Race
from dragstrip.report.console import Console
from dragstrip.report.race.live import Progress
from dragstrip.store.database import Store
from dragstrip.workload import several as workloads_of

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class RaceOptions(Reports):
    """Options of ``dragstrip race``; None means the line-up's value or the default."""

    contenders: tuple[str, ...] = opts.contenders_argument()
    line_up: str | None = opts.line_up_option(
        shell_complete=completion.line_ups,
        help="A named list of contenders with its settings, e.g. default, or a TOML file.",
    )
    serve: tuple[str, ...] = opts.serve_option(help="Race a command of your own.")
    image: tuple[str, ...] = opts.image_option(help="Race a container image, or a file of `docker save`.")
    wake: float | None = opts.wake_option()
    folders: tuple[Path, ...] = opts.folders_option()
    settings: tuple[str, ...] = opts.settings_option()
    workload: str | None = option(
        "--workload",
        shell_complete=completion.workloads,
        metavar="NAME[,NAME…]",
        help=(
            "hello (default), multiply, json, post, static, delay, db, queries, pipelined, handshakes, resumptions, "
            "or a TOML file; separate several with commas to get one table column each."
        ),
    )
    connections: int | None = opts.connections_option()
    threads: int | None = opts.threads_option()
    keepalive: bool | None = option(
        "--keepalive/--no-keepalive",
        default=None,
        help="Reuse connections, or open a new one per request. [default: keepalive]",
    )
    http: str | None = option(
        "--http",
        type=click.Choice(["1.1", "1.0", "2"]),
        help="HTTP version: 1.0 as ab speaks it; 2 starts every contender with http=2. [default: 1.1]",
    )
    tls: bool = switch("--tls", help="Start every contender with tls=on, using a certificate made for this race.")
    streams: int = option(
        "--streams",
        type=whole_number(bounds.STREAMS),
        default=1,
        help="HTTP/2: concurrent requests (streams) per connection.",
    )
    timeout_s: float = opts.timeout_option()
    budget: float | None = option(
        "--budget",
        "--duration",
        "-d",
        type=BUDGET,
        help=(
            "Time for all rounds; with --resume, +2m adds two minutes. "
            f"[default: 60s, or up to 5m if {ROUNDS_WANTED} rounds need longer]"
        ),
    )
    margin: float = option(
        "--margin",
        type=SHARE,
        default="1%",
        help="Equivalence margin: 'same' if the whole interval lies within it.",
    )
    metric: str | None = option(
        "--metric",
        type=click.Choice(bounds.ASKED_METRICS),
        help=(
            "Metric that decides: auto (default: throughput, or cpu if the machine, the load generator or a fixed rate "
            "makes throughput meaningless), throughput, cpu (server CPU time per request), latency-… (needs --rate)."
        ),
    )
    rate_per_s: float | Literal["auto"] | None = option(
        "--rate",
        "-R",
        type=RATE_OR_AUTO,
        help="Open loop: requests per second for every contender, or auto (half of what the slowest can serve).",
    )
    pace: str = opts.pace_option()
    efficiency: bool = switch(
        "--efficiency",
        help="Compare CPU time per request at two rates: a tenth and half of what the slowest can serve.",
    )
    typical: bool = switch(
        "--typical", help="Judge by the median over passes, which ignores pauses, instead of by totals."
    )
    rounds: int | None = option(
        "--rounds",
        "--runs",
        type=whole_number(bounds.ROUNDS),
        help="Run exactly this many rounds; a verdict needs at least 10.",
    )
    last_round: int | None = option(
        "--last-round",
        type=whole_number(bounds.LAST_ROUND),
        help="Plan for up to this many rounds, whatever they take; intervals hold at each of them.",
    )
    pause_after: int | None = option(
        "--pause-after",
        type=whole_number(bounds.PAUSE_AFTER),
        metavar="ROUNDS",
        help="Pause the race after this many further rounds; --resume continues it.",
    )
    seed: int | None = opts.seed_option()
    called: tuple[str, ...] = option(
        "--name",
        "-n",
        multiple=True,
        metavar="NAME",
        help="Your own name for a contender; give one per contender, in order.",
    )
    fresh_scrutiny: bool = switch(
        "--fresh-scrutiny", help="Repeat scrutineering even for contenders that have not changed."
    )
    why: bool = switch(
        "--why", help="After the race, launch each contender a few more times, and show what its responses cost."
    )
    resume_id: str | None = option(
        "--resume",
        metavar="ID",
        shell_complete=completion.races,
        help="Continue an interrupted race, or extend one with --budget +TIME.",
    )
    into: Path | None = option(
        "--into",
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        help="Also write the record into this folder as ID.race, whole and synced to the disk.",
    )
    exclusive: bool = switch(
        "--exclusive", help="Wait until no other race with --exclusive uses any of this race's cores."
    )
    yes: bool = opts.yes_option()
    fleet: Path | None = opts.fleet_option()
    node_wait: float = opts.node_wait_option()
    allowed: tuple[AllowedHost, ...] = opts.allow_host_option()
    server_cores: str | None = opts.server_cores_option()
    engine_cores: str | None = opts.engine_cores_option()
    io: str = opts.io_option()
    awake: str = opts.awake_option(default="auto")


def _refuse_warm_up(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    """hyperfine's ``--warmup N`` has nothing to set here."""
    if value is not None:
        raise click.UsageError(
            "--warmup has no effect: each launch is warmed up until it stops getting faster, within the limits of "
            "its definition's [warm_up]; leave it out",
            ctx,
        )


@click.command()
@click.option(
    "--warmup",
    metavar="N",
    hidden=True,
    expose_value=False,
    callback=_refuse_warm_up,
    help="hyperfine's; each launch is warmed up until it no longer gets faster.",
)
@gathered(RaceOptions)
def race(options: RaceOptions) -> None:
    """Race CONTENDERS: which is faster, by what ratio, and with what confidence.

    CONTENDERS are names, name:key=value variants, contender.toml files, or URLs of running servers.
    mine=NAME:key=value gives a contender your own name.
    """
    if isinstance(options.budget, ExtraSeconds) and not options.resume_id:
        raise BadUsage(f"--budget +{options.budget:g}s extends an existing race: add --resume ID, or drop the +")
    if options.strict and not options.rules:
        raise BadUsage("--strict needs --fail-if; add for example --fail-if slower:3%")
    if options.why and options.fleet is not None:
        raise BadUsage("--why can't be combined with --fleet: causes are measured on a single machine; leave one out")
    if options.into is not None and (problem := paths.refusal(options.into / "x.race")) is not None:
        raise BadUsage(f"--into: {problem}")
    # With a "-", standard output holds only the JSON or the Markdown.
    console = Console(stderr="-" in (str(options.json_path), str(options.markdown_path)))
    request = None if options.resume_id else _request(options)  # a refused request creates no store
    with (
        placed(
            options.fleet,
            options.node_wait,
            server_cores=options.server_cores,
            engine_cores=options.engine_cores,
        ) as site,
        open_store(options.store_path) as store,
        _agreed_to_resume(options, store, site) as entries,
        Progress(console, quiet=options.quiet) as progress,
    ):

        def drive() -> Race:
            if request is None:
                return _resume(options, entries, store, progress, site)
            return racing.run(replace(request, site=site), store=store, progress=progress)

        result = finished(
            console,
            options,
            store,
            progress,
            drive,
            lambda name: _resuming(name, options),
            options.resume_id or "",
        )
        if options.why:
            result = with_causes(result, [ProfileRequest()], store, progress, workload=options.workload)
        if options.into is not None:
            store.seal_into(result.id, options.into)
    conclude(console, result, options)


@contextmanager
def _agreed_to_resume(options: RaceOptions, store: Store, site: Site) -> Iterator[tuple[contender.Entry, ...]]:
    """Contenders of the race that ``--resume`` names; if it was imported, shows their commands and asks first."""
    recorded = store.load(str(options.resume_id)) if options.resume_id else None
    entries = tuple(
        contender.entry_of(entrant.name, entrant.kind, entrant.parameters)
        for entrant in (recorded.entrants if recorded else ())
        if not entrant.out
    )
    if recorded and recorded.imported:
        refuse_other_machine(recorded, site)
        ask_to_run(f"race {recorded.id}", entries, yes=options.yes)
    yield entries


def _resume(
    options: RaceOptions, entries: Sequence[contender.Entry], store: Store, progress: Progress, site: Site
) -> Race:
    """Continues the race that ``--resume`` names."""
    recorded = store.load(str(options.resume_id))
    workloads = workloads_of(options.workload or recorded.workload)
    extra_s = options.budget if isinstance(options.budget, ExtraSeconds) else None
    resume(
        recorded.id,
        entries,
        workloads,
        store=store,
        progress=progress,
        extra_s=extra_s,
        site=site,
        allowed=options.allowed,
        pause_after=options.pause_after,
        exclusive=options.exclusive,
        gate=Gate(options.rules),
    )
    return store.load(recorded.id)


def _request(options: RaceOptions) -> Request:
    """The requested race: each value is the option's, otherwise the line-up's, otherwise the default."""
    line_up = contender.line_up(options.line_up) if options.line_up else None
    contenders, serve = _with_own_names(options.contenders, options.serve, options.called)
    names = (*(line_up.names if line_up else ()), *contenders)
    if not names and not options.serve and not options.image:
        raise BadUsage("no contenders given: name some (`dragstrip contenders` lists them), or --line-up default")
    http = _first(options.http, line_up.http if line_up else "1.1")
    if http == "2":
        names, http = tuple(_started_with(text, HTTP, "2", "--http 2", options) for text in names), "1.1"
        if serve or options.image:
            raise BadUsage(
                "--http 2 can't be combined with --serve or --image, because these declare no HTTP version; use a"
                " contender with http=2"
            )
    if options.tls:
        need_extra("cryptography")
        names = tuple(_started_with(text, TLS, "on", "--tls", options) for text in names)
        if any("{certificate}" not in text for text in serve):
            raise BadUsage("--tls with --serve: the command must contain {certificate} and {certificate_key}")
    workload, *also = workloads_of(options.workload or (line_up.workload if line_up else "hello"))
    if any(one.asks_database for one in (workload, *also)):
        need_extra("psycopg")
    known = contender.entrants(names, extra_dirs=options.folders, settings=options.settings, allowed=options.allowed)
    ask_to_build(known, yes=options.yes)
    metric = _first(options.metric, line_up.metric if line_up else AUTO)
    return taken_from(
        options,
        Request,
        entries=(
            *known,
            *(contender.serve_entry(text, wake_s=options.wake) for text in serve),
            *(contender.image_entry(text, wake_s=options.wake) for text in options.image),
        ),
        workload=workload,
        gate=Gate(options.rules),
        also=tuple(also),
        connections=_first(options.connections, line_up.own_connections if line_up else None),
        keepalive=_first(options.keepalive, line_up.keepalive if line_up else True),
        http=http,
        budget_s=options.budget,
        metric=str(MetricChoice(metric, options.typical)),
        explicit=line_up is None,
    )


def _first(given: Value | None, otherwise: Value) -> Value:
    """The option's value if it was given."""
    return otherwise if given is None else given


def _started_with(text: str, key: str, value: str, option: str, options: RaceOptions) -> str:
    """The contender's word with a parameter set (``nginx-return`` becomes ``nginx-return:http=2``).

    Raises:
        BadUsage: the contender has no such parameter.
    """
    if "://" in text:
        raise BadUsage(
            f"{option}: {text} is already running; only contenders with a parameter {key} can be started that way"
        )
    name, overrides = contender.parse_entry(split_label(text)[1])
    if key in overrides:
        return text
    if key not in contender.find(name, options.folders).fields.parameters:
        supporting = [other for other, definition in contender.shipped().items() if key in definition.fields.parameters]
        raise BadUsage(
            f"{option}: {name} has no parameter {key!r} in its definition; these have: {', '.join(supporting)}"
        )
    return f"{text}{',' if overrides else ':'}{key}={value}"


def _with_own_names(
    contenders: Sequence[str], serve: Sequence[str], own_names: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Contenders and ``--serve`` commands with the names of ``--name``, in this order."""
    if not own_names:
        return contenders, serve
    count = len(contenders) + len(serve)
    if len(own_names) != count:
        raise BadUsage(
            f"--name: {len(own_names)} given for {count} contenders; give one for each, in their "
            "order (a line-up's contenders keep their names, commands of --serve come last)"
        )
    for name, contender_ in zip(own_names, contenders, strict=False):
        if "://" in contender_:
            raise BadUsage(f"--name {name!r}: {contender_} is shown by its address; leave --name out")
    for index, name in enumerate(own_names):
        if mark_in_name := next((mark for mark in ("=:/" if index < len(contenders) else "=") if mark in name), None):
            plain = re.sub(r"[=:/]", "-", name)
            raise BadUsage(f"--name {name!r}: a name can't contain {mark_in_name!r}; use another, like {plain!r}")
    words = [split_label(contender_)[1] for contender_ in contenders]
    renamed = [f"{name}={word}" for name, word in zip(own_names, words, strict=False)]
    commands = [text.partition("=")[2] if re.match(r"[a-z0-9.+-]+=", text) else text for text in serve]
    return renamed, [f"{name}={command}" for name, command in zip(own_names[len(contenders) :], commands, strict=True)]


def _resuming(name: str, options: RaceOptions) -> list[str]:
    """The command that resumes a race, with the options that it needs again."""
    words = ["dragstrip", "race", "--resume", name]
    for flag, value in (
        ("--workload", options.workload), ("--fleet", options.fleet), ("--store", options.store_path)
    ):  # fmt: skip
        words += [flag, str(value)] if value else []
    return words + [word for rule, _, _ in options.rules for word in ("--fail-if", rule)]
