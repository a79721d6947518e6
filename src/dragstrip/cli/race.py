"""``race``, ``show`` and ``report``: words in, one call out."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from dragstrip import analysis, contender
from dragstrip.cli import completion
from dragstrip.cli.main import cli as cli  # where both were before the commands were loaded one by one
from dragstrip.cli.main import main as main
from dragstrip.cli.open_loop_options import AnyRate
from dragstrip.cli.options import (
    EXIT_FAILURE,
    EXIT_VOID,
    Budget,
    Duration,
    More,
    Output,
    Share,
    awake_option,
    definitions,
    open_store,
    read_store,
    refuse_warm_up,
    store_option,
    whole,
    write_json,
    write_text,
)
from dragstrip.errors import BadUsage
from dragstrip.loading.arrivals import PRECISIONS
from dragstrip.metrics import AUTO, TYPICAL
from dragstrip.racing import options
from dragstrip.racing import run as racing
from dragstrip.racing.request import Request
from dragstrip.racing.resume import resume
from dragstrip.record import Event, Race
from dragstrip.report.figures import visible
from dragstrip.report.race import badge, markdown, standing, svg
from dragstrip.report.race import export as race_export
from dragstrip.report.race import page as race_page
from dragstrip.report.race import terminal as race_terminal
from dragstrip.report.race.live import Progress
from dragstrip.store.database import Store, default_path
from dragstrip.validity import Check, inspect
from dragstrip.workload import load as load_workload


@click.command()
@click.argument("contenders", nargs=-1, shell_complete=completion.contenders)
@click.option(
    "--line-up",
    default=None,
    shell_complete=completion.line_ups,
    help="A named list of contenders, for example: default.",
)
@click.option("--serve", multiple=True, metavar='"NAME=COMMAND {port}"', help="Race a command of your own.")
@definitions
@click.option(
    "--workload",
    default=None,
    shell_complete=completion.workloads,
    help="hello (default), multiply, or a TOML file.",
)
@click.option("--connections", "-c", type=whole(options.CONNECTIONS), default=None, help="Default 32.")
@click.option("--threads", "-t", type=whole(options.THREADS), default=None, help="Engine threads; one per core.")
@click.option("--keepalive/--no-keepalive", default=None, help="Or a new connection per request. [default: keepalive]")
@click.option("--http", type=click.Choice(["1.1", "1.0"]), default=None, help="1.0 as ab has it. [default: 1.1]")
@click.option("--timeout", type=Duration(), default="2s", show_default=True, help="For one answer.")
@click.option(
    "--budget",
    "--duration",
    "-d",
    "budget",
    type=Budget(),
    default="60s",
    show_default=True,
    help="Time for the rounds; with --resume +2m, so much more.",
)
@click.option(
    "--warmup",
    metavar="N",
    hidden=True,
    expose_value=False,
    callback=refuse_warm_up,
    help="hyperfine's; each launch is warmed up until it no longer gets faster.",
)
@click.option("--margin", type=Share(), default="1%", show_default=True, help="Differences below it are the same.")
@click.option(
    "--metric",
    type=click.Choice(options.ASKED_METRICS),
    default=None,
    help="What decides: auto (default: throughput, or cpu where the machine spoils that), throughput, "
    "cpu (the servers' CPU time per request), latency-… (wants --rate).",
)
@click.option("--rate", "-R", type=AnyRate(), default=None, help="Open loop: so many a second for all; auto.")
@click.option("--pace", type=click.Choice(PRECISIONS), default="precise", help="Of an open loop, see load --help.")
@click.option("--typical", is_flag=True, help="By the median over passes, which ignores pauses, instead of by totals.")
@click.option(
    "--rounds",
    "--runs",
    "rounds",
    type=whole(options.ROUNDS),
    default=None,
    help="Fix the number of rounds; a verdict takes at least 10.",
)
@click.option("--seed", type=whole(options.SEED), default=None, help="Of the order of everything.")
@click.option(
    "--json", "--export-json", "json_path", type=Output(dash=True), default=None, help="Every number; - for stdout."
)
@click.option("--html", "html_path", type=Output(), default=None, help="One self-contained page.")
@click.option(
    "--export-markdown", "markdown_path", type=Output(dash=True), default=None, help="The ranking as Markdown; or -."
)
@click.option(
    "--name", "-n", "called", multiple=True, metavar="NAME", help="Names of your own, one per contender, in order."
)
@click.option("--fresh-scrutiny", is_flag=True, help="Prove contenders anew, also where nothing has changed.")
@click.option(
    "--resume",
    "resume_id",
    default=None,
    metavar="ID",
    shell_complete=completion.races,
    help="Go on with a race that was cut off.",
)
@click.option("--server-cores", default=None, help="For example 1 or 2-3.")
@click.option("--engine-cores", default=None, help="Where the load comes from.")
@click.option(
    "--io",
    type=click.Choice(["auto", "uring", "epoll"]),
    default="auto",
    show_default=True,
    help="The engine's back end; auto is io_uring where it works.",
)
@awake_option("auto")
@click.option("--pairs", is_flag=True, help="Show every pair.")
@click.option("--verbose", "-v", is_flag=True, help="All checks, other metrics, what the words mean.")
@click.option("--quiet", "-q", is_flag=True, help="Only the verdict.")
@store_option
def race(resume_id: str | None, store_path: Path | None, quiet: bool, **words: Any) -> None:
    """Race CONTENDERS: names, name:key=value variants, contender.toml files, or URLs of running servers.

    mine=NAME:key=value calls one by a name of your own.
    """
    if isinstance(words["budget"], More) and not resume_id:
        raise BadUsage(f"--budget +{words['budget']:g}s adds to a race that --resume names; use without the + it")
    console = Console()
    request = None if resume_id else _request(words)  # what is refused makes no store
    with open_store(store_path) as store, Progress(console, quiet=quiet) as progress:
        before = [] if resume_id else [line.race for line in store.runs()]
        try:
            if request is None:
                recorded = store.load(str(resume_id))
                entries = tuple(
                    contender.entry_of(e.name, e.kind, e.parameters) for e in recorded.entrants if not e.out
                )
                workload = load_workload(words["workload"] or recorded.workload)
                more = words["budget"] if isinstance(words["budget"], More) else None
                resume(recorded.id, entries, workload, store=store, progress=progress, extra_s=more)
                result = store.load(recorded.id)
            else:
                result = racing.run(request, store=store, progress=progress)
        except KeyboardInterrupt:
            progress.close()
            _show_interrupted(console, store, before, words, store_path)
            raise
    _conclude(console, result, words, store_path)


def _request(words: dict[str, Any]) -> Request:
    line_up = contender.line_up(words["line_up"]) if words["line_up"] else None
    given, serve = _named(words["contenders"], words["serve"], words["called"])
    names = (*(line_up.names if line_up else ()), *given)
    if not names and not words["serve"]:
        raise BadUsage("nobody to race: name contenders (`dragstrip contenders` lists them), or --line-up default")
    workload = load_workload(words["workload"] or (line_up.workload if line_up else "hello"))
    settled = _settled(words, line_up)
    named = contender.entrants(names, extra_dirs=words["folders"], settings=words["settings"])
    entries = (*named, *(contender.serve_entry(text) for text in serve))
    return Request(
        entries=entries,
        workload=workload,
        **{key: value for key, value in settled.items() if key != "metric"},
        threads=words["threads"],
        rate_per_s=words["rate"],
        pace=words["pace"],
        timeout_s=words["timeout"],
        budget_s=words["budget"],
        margin=words["margin"],
        metric=f"{TYPICAL if words['typical'] else ''}{settled['metric']}",
        seed=words["seed"],
        rounds=words["rounds"],
        server_cores=words["server_cores"],
        engine_cores=words["engine_cores"],
        io=words["io"],
        fresh_scrutiny=words["fresh_scrutiny"],
        awake=words["awake"],
        explicit=line_up is None,
    )


def _named(
    contenders: Sequence[str], serve: Sequence[str], called: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Contenders and commands of one's own, called by the names of ``--name``, in the order of the two."""
    if not called:
        return contenders, serve
    if len(called) != len(contenders) + len(serve):
        raise BadUsage(
            f"--name: {len(called)} given for {len(contenders) + len(serve)} contenders; give one for each, in their "
            "order (those of a line-up keep theirs, commands of --serve come last)"
        )
    own = [f"{name}={word}" for name, word in zip(called, contenders, strict=False)]
    commands = [text.partition("=")[2] if re.match(r"[a-z0-9.+-]+=", text) else text for text in serve]
    named = zip(called[len(contenders) :], commands, strict=True)
    return own, [f"{name}={command}" for name, command in named]


def _settled(words: dict[str, Any], line_up: contender.LineUp | None) -> dict[str, Any]:
    """The command line's words count, then the line-up's, then what is usual."""
    usual = {"connections": 32, "keepalive": True, "http": "1.1", "metric": AUTO}
    given = {key: getattr(line_up, key) if line_up else value for key, value in usual.items()}
    return {key: value if words[key] is None else words[key] for key, value in given.items()}


def _conclude(console: Console, result: Race, words: dict[str, Any], store_path: Path | None) -> None:
    judged, checks = analysis.judge(result), inspect(result)
    race_terminal.show_race(
        console, result, judged, checks, all_pairs=words["pairs"], verbose=words["verbose"], run="last"
    )
    _draw(result, judged, checks, words["json_path"], words["html_path"])
    if words["markdown_path"]:
        write_text(words["markdown_path"], markdown.race(result, judged, checks), "--export-markdown")
    console.print(
        f"record  race {result.id} in {store_path or default_path()} (dragstrip show {result.id})", soft_wrap=True
    )
    if words["html_path"]:
        console.print(f"page    {Path(words['html_path']).resolve()}", soft_wrap=True)
    with open_store(store_path) as store:  # a list of races then needs to judge none of them
        told = Event(at_ns=time.monotonic_ns(), kind=badge.KIND, detail=badge.badge(result, judged, checks).line)
        store.append_event(result.id, told)
    if why := standing.refused(result, judged, checks):
        click.echo(f"dragstrip: {visible(why)}", err=True)
        sys.exit(EXIT_VOID)
    if result.finished == "too few contenders":
        sys.exit(EXIT_FAILURE)


def _draw(
    result: Race, judged: analysis.Verdict, checks: Sequence[Check], json_path: Path | None, html_path: Path | None
) -> None:
    if json_path:
        write_json(json_path, race_export.race_json(result, judged, checks), "--json")
    if html_path:
        race_page.write(result, judged, checks, html_path)


def _show_interrupted(
    console: Console, store: Store, before: list[str], words: dict[str, Any], store_path: Path | None
) -> None:
    """What was measured, unless the race was interrupted before anything was: then the newest is an older one."""
    newest = store.runs()[:1]
    if newest and newest[0].race not in before and newest[0].finished == "interrupted":
        _conclude_quietly(console, store.load(newest[0].race), words, store_path)


def _conclude_quietly(console: Console, result: Race, words: dict[str, Any], store_path: Path | None) -> None:
    try:
        _conclude(console, result, words, store_path)
    except SystemExit:  # an interrupted race ends with 130, whatever its verdict
        return


@click.command()
@click.argument("run", default="last", shell_complete=completion.races)
@click.option("--pairs", is_flag=True, help="Show every pair.")
@click.option("--verbose", "-v", is_flag=True, help="All checks, other metrics, what the words mean.")
@click.option("--parity", is_flag=True, help="Show the parity sheet.")
@click.option("--method", type=int, default=None, help="Judge by this version of the method; else the race's own.")
@click.option("--json", "as_json", is_flag=True)
@store_option
def show(
    run: str, pairs: bool, verbose: bool, parity: bool, method: int | None, as_json: bool, store_path: Path | None
) -> None:
    """A stored race, judged again from its records: RUN is its id, the beginning of one, or last."""
    with read_store(store_path) as store:
        recorded = store.load(run)
    judged, checks = analysis.judge(recorded, method=method), inspect(recorded)
    if as_json:
        click.echo(json.dumps(race_export.race_json(recorded, judged, checks), indent=2))
        return
    race_terminal.show_race(Console(), recorded, judged, checks, all_pairs=pairs, verbose=verbose, run=run)
    if parity:
        race_terminal.show_parity(Console(), recorded)


@click.command()
@click.argument("run", default="last", shell_complete=completion.races)
@click.option("--html", "html_path", type=Output(), default=None)
@click.option("--json", "json_path", type=Output(dash=True), default=None)
@click.option("--svg", "svg_path", type=Output(), default=None, help="The terminal's picture.")
@store_option
def report(
    run: str, html_path: Path | None, json_path: Path | None, svg_path: Path | None, store_path: Path | None
) -> None:
    """Draw a stored race again: the page, the JSON, or a picture of the terminal."""
    if not (html_path or json_path or svg_path):
        raise BadUsage("report: nothing to write; give --html FILE, --json FILE or --svg FILE")
    with read_store(store_path) as store:
        recorded = store.load(run)
    judged, checks = analysis.judge(recorded), inspect(recorded)
    _draw(recorded, judged, checks, json_path, html_path)
    if svg_path:
        svg.terminal_svg(recorded, judged, checks, svg_path)
