"""``dragstrip race``: from the command line's options to a request, and from its record to the report."""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console

from dragstrip import analysis, contender
from dragstrip.cli import completion
from dragstrip.cli.consent import ask_to_run, yes_option
from dragstrip.cli.elsewhere_options import allow_host_option
from dragstrip.cli.fleet_options import fleet_options, placed
from dragstrip.cli.open_loop_options import AnyRate
from dragstrip.cli.options import (
    EXIT_FAILURE,
    EXIT_VOID,
    Rule,
    RunOptions,
    awake_option,
    core_options,
    definition_options,
    gathered,
    io_option,
    open_store,
    pace_option,
    refuse_warm_up,
    seed_option,
    serve_option,
    store_options,
    threads_option,
    timeout_option,
)
from dragstrip.cli.outputs import OutputFile, json_text, write_all
from dragstrip.cli.quantities import Budget, ExtraSeconds, Share, whole_number
from dragstrip.cli.signals import as_interruptions, number_of
from dragstrip.contender import AllowedHost
from dragstrip.contender.entries import HTTP, TLS, split_label
from dragstrip.errors import BadUsage
from dragstrip.metrics import AUTO, TYPICAL
from dragstrip.racing import options as bounds
from dragstrip.racing import run as racing
from dragstrip.racing.request import Request
from dragstrip.racing.resume import refuse_other_machine, resume
from dragstrip.racing.schedule import ROUNDS_WANTED
from dragstrip.racing.site import Site
from dragstrip.record import DEFAULT_CONNECTIONS, Event, Race
from dragstrip.report import glyphs
from dragstrip.report.comparison import Ruled, ruling_line
from dragstrip.report.figures import visible
from dragstrip.report.race import badge, columns, formats, markdown, standing, thresholds
from dragstrip.report.race import export as race_export
from dragstrip.report.race import page as race_page
from dragstrip.report.race import terminal as race_terminal
from dragstrip.report.race.live import Progress
from dragstrip.store.database import Store, default_path
from dragstrip.validity import inspect
from dragstrip.workload import several as workloads_of

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class RaceOptions(RunOptions):
    """What ``dragstrip race`` was given; the decorators of ``race`` say what each is.

    None where a line-up's value or the usual one is to count.
    """

    line_up: str | None
    workload: str | None
    connections: int | None
    keepalive: bool | None
    http: str | None
    tls: bool
    streams: int
    budget: float | None
    margin: float
    metric: str | None
    rate: float | None
    efficiency: bool
    typical: bool
    rounds: int | None
    json_path: Path | None
    html_path: Path | None
    junit_path: Path | None
    markdown_path: Path | None
    called: tuple[str, ...]
    fresh_scrutiny: bool
    resume_id: str | None
    fleet: Path | None
    node_wait: float
    allowed: tuple[AllowedHost, ...]
    rules: tuple[tuple[str, str, float], ...]
    strict: bool
    pairs: bool
    verbose: bool
    yes: bool


@click.command()
@click.argument("contenders", nargs=-1, shell_complete=completion.contenders)
@click.option(
    "--line-up",
    default=None,
    shell_complete=completion.line_ups,
    help="A named list of contenders with its settings, e.g. default, or a TOML file.",
)
@serve_option("Race a command of your own.")
@definition_options
@click.option(
    "--workload",
    default=None,
    shell_complete=completion.workloads,
    metavar="NAME[,NAME…]",
    help=(
        "hello (default), multiply, json, post, static, delay, db, queries, pipelined, handshakes, resumptions, "
        "or a TOML file; separate several with commas to get one table column each."
    ),
)
@click.option(
    "--connections",
    "-c",
    type=whole_number(bounds.CONNECTIONS),
    default=None,
    help=f"Concurrent connections. [default: {DEFAULT_CONNECTIONS}, or the workload's own number]",
)
@threads_option
@click.option(
    "--keepalive/--no-keepalive",
    default=None,
    help="Reuse connections, or open a new one per request. [default: keepalive]",
)
@click.option(
    "--http",
    type=click.Choice(["1.1", "1.0", "2"]),
    default=None,
    help="HTTP version: 1.0 as ab speaks it; 2 starts every contender with http=2. [default: 1.1]",
)
@click.option("--tls", is_flag=True, help="Start every contender with tls=on, using a certificate made for this race.")
@click.option(
    "--streams",
    type=whole_number(bounds.STREAMS),
    default=1,
    help="HTTP/2: concurrent requests (streams) per connection. [default: 1]",
)
@timeout_option
@click.option(
    "--budget",
    "--duration",
    "-d",
    "budget",
    type=Budget(),
    default=None,
    help=(
        "Time for all rounds; with --resume, +2m adds two minutes. "
        f"[default: 60s, or up to 5m if {ROUNDS_WANTED} rounds need longer]"
    ),
)
@click.option(
    "--warmup",
    metavar="N",
    hidden=True,
    expose_value=False,
    callback=refuse_warm_up,
    help="hyperfine's; each launch is warmed up until it no longer gets faster.",
)
@click.option(
    "--margin",
    type=Share(),
    default="1%",
    show_default=True,
    help="Equivalence margin: 'same' if the whole interval lies within it.",
)
@click.option(
    "--metric",
    type=click.Choice(bounds.ASKED_METRICS),
    default=None,
    help=(
        "Metric that decides: auto (default: throughput, or cpu if the machine, the load generator or a fixed rate "
        "makes throughput meaningless), throughput, cpu (server CPU time per request), latency-… (needs --rate)."
    ),
)
@click.option(
    "--rate",
    "-R",
    type=AnyRate(),
    default=None,
    help="Open loop: requests per second for every contender, or auto (half of what the slowest can serve).",
)
@pace_option("Open loop: how precisely requests leave on time; see load --help.")
@click.option(
    "--efficiency",
    is_flag=True,
    help="Compare CPU time per request at two rates: a tenth and half of what the slowest can serve.",
)
@click.option(
    "--typical", is_flag=True, help="Judge by the median over passes, which ignores pauses, instead of by totals."
)
@click.option(
    "--rounds",
    "--runs",
    "rounds",
    type=whole_number(bounds.ROUNDS),
    default=None,
    help="Run exactly this many rounds; a verdict needs at least 10.",
)
@seed_option
@click.option(
    "--json",
    "--export-json",
    "json_path",
    type=OutputFile(dash=True),
    default=None,
    help="Write every number as JSON; - for stdout.",
)
@click.option(
    "--html", "html_path", type=OutputFile(), default=None, help="Write the report as one self-contained HTML page."
)
@click.option(
    "--junit", "junit_path", type=OutputFile(), default=None, help="A report of tests: one case per --fail-if."
)
@click.option(
    "--export-markdown",
    "markdown_path",
    type=OutputFile(dash=True),
    default=None,
    help="Write the ranking as Markdown; - for stdout.",
)
@click.option(
    "--name",
    "-n",
    "called",
    multiple=True,
    metavar="NAME",
    help="Your own name for a contender; give one per contender, in order.",
)
@click.option("--fresh-scrutiny", is_flag=True, help="Repeat scrutineering even for contenders that have not changed.")
@click.option(
    "--resume",
    "resume_id",
    default=None,
    metavar="ID",
    shell_complete=completion.races,
    help="Continue an interrupted race, or extend one with --budget +TIME.",
)
@yes_option
@fleet_options
@allow_host_option
@core_options()
@io_option
@awake_option("auto")
@click.option(
    "--fail-if",
    "rules",
    type=Rule(),
    multiple=True,
    metavar="slower:3%",
    help=(
        "Exit 1 if a contender is out, or if its whole interval shows it slower (or faster) than the first one named by"
        " more than this."
    ),
)
@click.option("--strict", is_flag=True, help="Exit 1 also if the interval can't rule out what --fail-if names.")
@click.option("--pairs", is_flag=True, help="Show every pair.")
@click.option("--verbose", "-v", is_flag=True, help="Also show all checks, the other metrics and what the words mean.")
@click.option("--quiet", "-q", is_flag=True, help="Print only the report, no progress.")
@store_options
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
    # A program that reads the JSON or the Markdown gets nothing else.
    console = Console(stderr="-" in (str(options.json_path), str(options.markdown_path)))
    request = None if options.resume_id else _request(options)  # what is refused makes no store
    with (
        placed(options.fleet, options.node_wait, options) as site,
        open_store(options.store_path) as store,
        _agreed_to_resume(options, store, site) as entries,
        Progress(console, quiet=options.quiet) as progress,
    ):
        before = [line.race for line in store.runs()]
        try:
            with as_interruptions():
                if request is None:
                    result = _resume(options, entries, store, progress, site)
                else:
                    result = racing.run(replace(request, site=site), store=store, progress=progress)
        except KeyboardInterrupt as error:
            progress.close()
            ended_by = number_of(error)
            _show_interrupted(console, store, before, options, ended_by.name)
            sys.exit(128 + ended_by)  # click would print an empty line after ours
    _conclude(console, result, options)


@contextmanager
def _agreed_to_resume(options: RaceOptions, store: Store, site: Site) -> Iterator[tuple[contender.Entry, ...]]:
    """Those who go on with the race that ``--resume`` names; an imported race's are shown and asked for first."""
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
    """Goes on with the race that ``--resume`` names."""
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
    )
    return store.load(recorded.id)


def _request(options: RaceOptions) -> Request:
    """The race that was asked for: an option counts, then the line-up's value, then the usual one."""
    line_up = contender.line_up(options.line_up) if options.line_up else None
    contenders, serve = _with_own_names(options.contenders, options.serve, options.called)
    names = (*(line_up.names if line_up else ()), *contenders)
    if not names and not options.serve:
        raise BadUsage("no contenders given: name some (`dragstrip contenders` lists them), or --line-up default")
    http = _first(options.http, line_up.http if line_up else "1.1")
    if http == "2":
        names, http = tuple(_started_with(text, HTTP, "2", "--http 2", options) for text in names), "1.1"
        if serve:
            raise BadUsage(
                "--http 2 can't be combined with --serve, because a command does not declare its HTTP version; use a"
                " contender with http=2"
            )
    if options.tls:
        names = tuple(_started_with(text, TLS, "on", "--tls", options) for text in names)
        if any("{certificate}" not in text for text in serve):
            raise BadUsage("--tls with --serve: the command must contain {certificate} and {certificate_key}")
    workload, *also = workloads_of(options.workload or (line_up.workload if line_up else "hello"))
    known = contender.entrants(names, extra_dirs=options.folders, settings=options.settings, allowed=options.allowed)
    metric = _first(options.metric, line_up.metric if line_up else AUTO)
    return Request(
        entries=(*known, *(contender.serve_entry(text, wake_s=options.wake) for text in serve)),
        workload=workload,
        also=tuple(also),
        efficiency=options.efficiency,
        connections=_first(options.connections, line_up.own_connections if line_up else None),
        keepalive=_first(options.keepalive, line_up.keepalive if line_up else True),
        http=http,
        streams=options.streams,
        threads=options.threads,
        rate_per_s=options.rate,
        pace=options.pace,
        timeout_s=options.timeout,
        budget_s=options.budget,
        margin=options.margin,
        metric=f"{TYPICAL if options.typical else ''}{metric}",
        seed=options.seed,
        rounds=options.rounds,
        server_cores=options.server_cores,
        engine_cores=options.engine_cores,
        io=options.io,
        fresh_scrutiny=options.fresh_scrutiny,
        awake=options.awake,
        explicit=line_up is None,
        allowed=options.allowed,
    )


def _first(given: Value | None, otherwise: Value) -> Value:
    """The option's value where it was given."""
    return otherwise if given is None else given


def _started_with(text: str, key: str, value: str, option: str, options: RaceOptions) -> str:
    """The word of the same contender started so (``nginx-return`` gives ``nginx-return:http=2``).

    Raises:
        BadUsage: nothing says how it is started so.
    """
    if "://" in text:
        raise BadUsage(
            f"{option}: {text} is already running; only contenders with a parameter {key} can be started that way"
        )
    name, overrides = contender.parse_entry(split_label(text)[1])
    if key in overrides:
        return text
    if key not in contender.find(name, options.folders).fields.parameters:
        having = [other for other, one in contender.shipped().items() if key in one.fields.parameters]
        raise BadUsage(f"{option}: {name} has no parameter {key!r} in its definition; these have: {', '.join(having)}")
    return f"{text}{',' if overrides else ':'}{key}={value}"


def _with_own_names(
    contenders: Sequence[str], serve: Sequence[str], own_names: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Contenders and commands of one's own, called by the names of ``--name``, in the order of the two."""
    if not own_names:
        return contenders, serve
    count = len(contenders) + len(serve)
    if len(own_names) != count:
        raise BadUsage(
            f"--name: {len(own_names)} given for {count} contenders; give one for each, in their "
            "order (those of a line-up keep theirs, commands of --serve come last)"
        )
    for name, contender_ in zip(own_names, contenders, strict=False):
        if "://" in contender_:
            raise BadUsage(f"--name {name!r}: {contender_} is shown by its address; leave --name out")
    for at, name in enumerate(own_names):
        if found := next((mark for mark in ("=:/" if at < len(contenders) else "=") if mark in name), None):
            plain = re.sub(r"[=:/]", "-", name)
            raise BadUsage(f"--name {name!r}: a name can't contain {found!r}; use another, like {plain!r}")
    words = [split_label(contender_)[1] for contender_ in contenders]
    renamed = [f"{name}={word}" for name, word in zip(own_names, words, strict=False)]
    commands = [text.partition("=")[2] if re.match(r"[a-z0-9.+-]+=", text) else text for text in serve]
    return renamed, [f"{name}={command}" for name, command in zip(own_names[len(contenders) :], commands, strict=True)]


def _conclude(console: Console, result: Race, options: RaceOptions) -> None:
    """Shows and writes what came of a race, and exits with its code where that is not 0."""
    judged, checks = analysis.judge(result), inspect(result)
    race_terminal.show_race(
        console, result, judged, checks, all_pairs=options.pairs, verbose=options.verbose, run="last"
    )
    place = options.store_path or default_path()
    console.print(f"record  race {result.id} in {place} (dragstrip show {result.id})", soft_wrap=True)
    rules = thresholds.rulings(result, judged, checks, options.rules)
    failure = write_all(
        [
            ("--json", options.json_path, lambda: json_text(race_export.race_json(result, judged, checks, rules))),
            ("--html", options.html_path, lambda: race_page.render(result, judged, checks)),
            ("--junit", options.junit_path, lambda: formats.junit(result, judged, checks, rules)),
            ("--export-markdown", options.markdown_path, lambda: markdown.race(result, judged, checks, rules)),
        ],
        measured=True,
        again=f"race {result.id} is stored; `dragstrip report {result.id} --html FILE --json FILE` writes them again",
    )
    if failure is not None:
        click.echo(f"dragstrip: {visible(str(failure), lines=True)}", err=True)
    if options.html_path and failure is None:
        console.print(f"page    {options.html_path.resolve()}", soft_wrap=True)
    with open_store(options.store_path) as store:  # a list of races then needs to judge none of them
        verdict = columns.badge(result, judged, checks).line
        store.append_event(result.id, Event(at_ns=time.monotonic_ns(), kind=badge.KIND, text=verdict))
    code = 0
    if why := standing.no_result_reason(result, judged, checks):
        click.echo(f"dragstrip: {visible(why)}", err=True)
        code = EXIT_VOID
    elif result.finished == "too few contenders":
        code = EXIT_FAILURE
    elif options.rules:
        code = _by_thresholds(console, rules, options.strict)
    if code or failure is not None:
        sys.exit(code or (failure.exit_code if failure is not None else 0))


def _by_thresholds(console: Console, found: Sequence[Ruled], strict: bool) -> int:
    """Shows what became of the thresholds; the exit code: a failure that is shown counts before what can't be told."""
    glyphs.emit(console, *(ruling_line(one.ruling, one.column) for one in found))
    outcomes = {one.ruling.outcome for one in found}
    if "fails" in outcomes or (strict and "open" in outcomes):
        return EXIT_FAILURE
    return 0 if found and all(one.could_say for one in found) else EXIT_VOID


def _show_interrupted(
    console: Console, store: Store, before: Sequence[str], options: RaceOptions, ended_by: str
) -> None:
    """What was measured, if anything was, and in the last line how to continue."""
    begun = [line.race for line in store.runs()[:1] if line.race not in before]
    name = store.load(options.resume_id).id if options.resume_id else begun[0] if begun else ""
    rounds = len(store.load(name).rounds) if name else 0
    if rounds:
        with suppress(SystemExit):  # an interrupted race ends with its signal's code, whatever its verdict
            _conclude(console, store.load(name), options)
        kept = f"{rounds} {'round is' if rounds == 1 else 'rounds are'} kept"
        how = f"{kept}; to continue: {shlex.join(_resuming(name, options))}"
    else:
        how = "no round was complete, so nothing was measured"
    click.echo(f"dragstrip: ended by {ended_by}: {how}", err=True)


def _resuming(name: str, options: RaceOptions) -> list[str]:
    """The command that resumes a race, with the options that it needs again."""
    words = ["dragstrip", "race", "--resume", name]
    for option, value in (
        ("--workload", options.workload), ("--fleet", options.fleet), ("--store", options.store_path)
    ):  # fmt: skip
        words += [option, str(value)] if value else []
    return words
