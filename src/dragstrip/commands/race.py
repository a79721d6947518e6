"""``dragstrip race``: from the command line's options to a request, and from its record to the report."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from dragstrip import contender, paths
from dragstrip.analysis import Gate
from dragstrip.commands import options as opts
from dragstrip.commands import own_servers
from dragstrip.commands.conclusion import Reports, conclude, finished, resuming
from dragstrip.commands.options import gathered, open_store, option, placed, switch, taken_from
from dragstrip.commands.quantities import ExtraSeconds
from dragstrip.commands.request_options import (
    RequestOptions,
    asked_for,
    headers_of,
    of_record,
    say_unless,
)
from dragstrip.contender import AllowedHost, Trust, is_address
from dragstrip.contender.entries import HTTP, TLS, split_label
from dragstrip.errors import BadUsage, need_extra
from dragstrip.metrics import MetricChoice
from dragstrip.racing import run as racing
from dragstrip.racing.options import LOAD, RACED, TIME, DeclaredOptions
from dragstrip.racing.request import Request, entries_of, refuse_missing_secrets, request_of, workloads_from
from dragstrip.racing.setup import Site
from dragstrip.record import Race
from dragstrip.report.console import Console
from dragstrip.report.race.live import LiveProgress
from dragstrip.workload import Workload
from dragstrip.workload.learned import file_of
from dragstrip.workload.typed import TypedRequest


def _line_up_first(ctx: click.Context, _param: click.Parameter, word: str | None) -> str | None:
    """What a line-up's file sets counts for options that are not given."""
    if word is not None and not ctx.resilient_parsing:
        line_up = contender.line_up(word)
        ctx.default_map = line_up.model_dump(include=line_up.model_fields_set & opts.DECLARED.keys())
        if line_up.request is not None:
            asked = line_up.request.model_dump(exclude_unset=True)
            ctx.default_map |= asked | {"paths": [asked.pop("path")], "expect_status": asked.pop("status", None)}
    return word


@dataclass(frozen=True, kw_only=True)
class RaceOptions(DeclaredOptions, RequestOptions, Reports):
    """Options of ``dragstrip race``."""

    contenders: tuple[str, ...] = opts.contenders_argument()
    line_up: str | None = opts.line_up_option(
        shell_complete=opts.completed_by("line_ups"),
        is_eager=True,
        callback=_line_up_first,
        help="A named list of contenders with its settings, e.g. default, or a TOML file.",
    )
    serve: tuple[str, ...] = opts.serve_option(help="Race a command of your own.")
    image: tuple[str, ...] = opts.image_option(help="Race a container image, or a file of `docker save`.")
    started_in: tuple[str, ...] = own_servers.in_option()
    variables: tuple[str, ...] = own_servers.env_option()
    wake: float | None = opts.wake_option()
    folders: tuple[Path, ...] = opts.folders_option()
    settings: tuple[str, ...] = opts.settings_option()
    tls: bool = switch(
        "--tls", group=LOAD, help="Start every contender with tls=on, using a certificate made for this race."
    )
    typical: bool = switch(
        "--typical", group=TIME, help="Judge by the median over passes, which ignores pauses, instead of by totals."
    )
    called: tuple[str, ...] = option(
        "--name",
        "-n",
        group=RACED,
        multiple=True,
        metavar="NAME",
        help="Your own name for a contender; give one per contender, in order.",
    )
    why: bool = switch(
        "--why", help="After the race, launch each contender a few more times, and show what its responses cost."
    )
    resume_id: str | None = option(
        "--resume",
        metavar="ID",
        shell_complete=opts.completed_by("races"),
        help="Continue an interrupted race, or extend one with --budget +TIME.",
    )
    into: Path | None = option(
        "--into",
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        help="Also write the record into this folder as ID.race, whole and synced to the disk; created if missing.",
    )
    yes: bool = opts.yes_option()
    fleet: Path | None = opts.fleet_option()
    node_wait: float = opts.node_wait_option()
    allowed: tuple[AllowedHost, ...] = opts.allow_host_option()
    cacert: str | None = opts.cacert_option()
    insecure: bool = opts.insecure_option()


#: The options that most races need.
COMMON = (
    *("serve", "workload", "paths", "connections", "rate_per_s", "budget_s", "metric"),
    *("rules", "why", "resume_id", "html_path", "json_path"),
)


def _refuse_warm_up(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    """hyperfine's ``--warmup N`` has nothing to set here."""
    if value is not None:
        raise click.UsageError(
            "--warmup has no effect: each launch is warmed up until it stops getting faster, within the limits of "
            "its definition's [warm_up]; leave it out",
            ctx,
        )


@click.command(cls=opts.GroupedCommand, common=COMMON)
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

    CONTENDERS are names, name:key=value variants, contender.toml files, or URLs of running servers
    (http://127.0.0.1:3000/users, localhost:3000). mine=NAME:key=value or mine=URL gives a contender your own name.
    """
    if isinstance(options.budget_s, ExtraSeconds) and not options.resume_id:
        raise BadUsage(f"--budget +{options.budget_s:g}s extends an existing race: add --resume ID, or drop the +")
    opts.refuse_strict_alone(options.rules, strict=options.strict)
    if options.why and options.fleet is not None:
        raise BadUsage("--why can't be combined with --fleet: causes are measured on a single machine; leave one out")
    # With a "-", standard output holds only the JSON or the Markdown.
    console = Console(stderr="-" in (str(options.json_path), str(options.markdown_path)))
    asked = None if options.resume_id else _request(options)  # a refused request creates no store and no folder
    if options.into is not None:
        paths.own_folder(options.into, "give --into another folder")
    with (
        placed(
            options.fleet,
            options.node_wait,
            server_cores=options.server_cores,
            engine_cores=options.engine_cores,
        ) as site,
        open_store(options.store_path) as store,
        ExitStack() as later,
    ):
        drive: Callable[..., Race]
        if asked is not None:
            resumed, asked = "", replace(asked, site=site)
            drive = partial(racing.run, asked)
        else:
            before = store.load(str(options.resume_id))
            extra_s = options.budget_s if isinstance(options.budget_s, ExtraSeconds) else None
            resumed = before.id
            from dragstrip.racing.resume import resume

            asked = _continuing(options, before, site)
            drive = partial(resume, resumed, asked, extra_s=extra_s)
        progress = later.enter_context(LiveProgress(console, quiet=options.quiet))
        driven = partial(drive, store=store, progress=progress)
        result = finished(
            console, options, store, progress, driven, partial(resuming, options=options, fleet=options.fleet), resumed
        )
        if options.why:
            from dragstrip.commands.why import with_causes

            result = with_causes(result, store, progress, headers=headers_of(options))
        if options.into is not None:
            store.seal_into(result.id, options.into)
    conclude(console, result, options)


def _continuing(options: RaceOptions, race: Race, site: Site) -> Request:
    """What continues a race; if it was imported, shows its contenders' commands and asks first."""
    racing_on = [entrant for entrant in race.entrants if not entrant.out]
    own_servers.give_again(options.variables, racing_on)
    asked, headers = of_record(options)
    refuse_missing_secrets(race, None if asked else headers)
    entries = entries_of(racing_on)
    if race.imported:
        from dragstrip.commands.consent import ask_to_run
        from dragstrip.racing.resume import refuse_other_machine

        refuse_other_machine(race, site)
        ask_to_run(f"race {race.id}", entries, yes=options.yes)
    workloads = workloads_from(asked, entries, say=say_unless(options.quiet))
    return replace(
        request_of(race, workloads, entries, options.allowed, headers),
        site=site,
        pause_after=options.pause_after,
        exclusive=options.exclusive,
        gate=Gate(options.rules),
    )


def _request(options: RaceOptions) -> Request:
    """The requested race: each value is the option's, otherwise the line-up's, otherwise the default."""
    line_up = contender.line_up(options.line_up) if options.line_up else None
    contenders, serve = _with_own_names(options.contenders, options.serve, options.called)
    names = (*(line_up.names if line_up else ()), *contenders)
    if not names and not options.serve and not options.image:
        raise BadUsage("no contenders given: name some (`dragstrip contenders` lists them), or --line-up default")
    http = options.http
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
    known = contender.entrants(
        names,
        extra_dirs=options.folders,
        settings=options.settings,
        allowed=options.allowed,
        trust=Trust.given(options.cacert, insecure=options.insecure),
    )
    path = contender.workload_word_of(known) or None
    usual = line_up.workload if line_up else contender.usual_workload(known, learns=not options.fleet)
    asked = asked_for(options, (usual,), default_path=path)
    if options.fleet and (typed := next((one for one in asked if isinstance(one, TypedRequest)), None)):
        raise BadUsage(
            f"{typed.shown}: the correct response would be learned on this machine, and --fleet races on others; "
            'give a file with these lines by --workload FILE.toml in place of the request. With `body = "…"` in place '
            f"of `compare`, it compares the whole response:\n\n{file_of(typed)}"
        )
    if any(isinstance(one, Workload) and one.asks_database for one in asked):
        need_extra("psycopg")
    if images := [entry for entry in known if entry.container is not None]:
        from dragstrip.commands.consent import ask_to_build  # images alone need it

        ask_to_build(images, yes=options.yes)
    say = say_unless(options.quiet)
    entries = (*known, *own_servers.entries_of(options, serve, say=say))
    workload, *also = workloads_from(asked, entries, http=http, say=say)
    return taken_from(
        options,
        Request,
        entries=entries,
        workload=workload,
        gate=Gate(options.rules),
        also=tuple(also),
        http=http,
        metric=str(MetricChoice(options.metric, options.typical)),
        explicit=line_up is None,
    )


def _started_with(text: str, key: str, value: str, option: str, options: RaceOptions) -> str:
    """The contender's word with a parameter set (``nginx-return`` becomes ``nginx-return:http=2``).

    Raises:
        BadUsage: the contender has no such parameter.
    """
    if is_address(split_label(text)[1]):
        remedy = "give its https:// address" if key == TLS else "leave it out"
        raise BadUsage(
            f"{option}: {text} is already running; only contenders with a parameter {key} can be started that way; "
            f"{remedy}"
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
    for index, name in enumerate(own_names):
        if mark_in_name := next((mark for mark in ("=:/" if index < len(contenders) else "=") if mark in name), None):
            plain = re.sub(r"[=:/]", "-", name)
            raise BadUsage(f"--name {name!r}: a name can't contain {mark_in_name!r}; use another, like {plain!r}")
    words = [split_label(contender_)[1] for contender_ in contenders]
    renamed = [f"{name}={word}" for name, word in zip(own_names, words, strict=False)]
    commands = [text.partition("=")[2] if re.match(r"[a-z0-9.+-]+=", text) else text for text in serve]
    return renamed, [f"{name}={command}" for name, command in zip(own_names[len(contenders) :], commands, strict=True)]
