"""``dragstrip load``: one server under load, with the options that users of wrk, ab, hey and oha know."""

from __future__ import annotations

import re
import secrets
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from dragstrip.commands import options as opts
from dragstrip.commands.options import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    gathered,
    of_race,
    open_store,
    option,
    switch,
    taken_from,
)
from dragstrip.commands.outputs import json_text, write_all
from dragstrip.commands.quantities import DURATION, RATE, SHARE, SHARE_OR_ZERO, Count, TextType, duration_s, rate_per_s
from dragstrip.commands.request_options import RequestFlags, body_of, check_option, headers_of, method_of
from dragstrip.contender import AllowedHost
from dragstrip.errors import BadUsage, DragstripError, StoreFull
from dragstrip.extensions import extension
from dragstrip.loading import boxed
from dragstrip.loading import run as loading
from dragstrip.loading.arrivals import ARRIVALS, PRECISIONS, Offer, OfferStep
from dragstrip.loading.request import FULL, HANDSHAKES, Handshakes
from dragstrip.loading.request_pool import PoolRequest, read_pool, read_raw
from dragstrip.loading.url_template import drawn
from dragstrip.racing.options import LOAD, REQUEST, TIME
from dragstrip.record import DEFAULT_CONNECTIONS, LoadEnding, LoadVerdict
from dragstrip.report.console import Console
from dragstrip.report.figures import visible
from dragstrip.report.load import export, terminal
from dragstrip.report.load.limits import LoadLimit, limits
from dragstrip.report.load.live import Live
from dragstrip.report.load.report import LoadReport
from dragstrip.report.load.warnings import warnings
from dragstrip.store.database import default_path
from dragstrip.store.json_values import JsonObject
from dragstrip.store.loads import StoredLoad

#: Tools whose reports --style prints.
STYLES = ("wrk", "ab", "hey", "h2load", "oha")


def _ramp(text: str) -> tuple[float, float]:
    """``1k:20k``: the rate at the beginning, and the rate at the end."""
    first, colon, last = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r} is not a valid ramp; use 1k:20k (from 1,000 to 20,000 per second)")
    return rate_per_s(first), rate_per_s(last)


def _steps(text: str) -> tuple[OfferStep, ...]:
    """``1k:10s,2k:10s``: a rate and how long it lasts, one after the other."""
    steps = []
    for part in map(str.strip, text.split(",")):
        rate, colon, length = part.partition(":")
        if not colon:
            raise ValueError(f"{part!r} is not a valid step; use 1k:10s (1,000 per second for 10 s)")
        steps.append(OfferStep(from_per_s=rate_per_s(rate), to_per_s=rate_per_s(rate), length_s=duration_s(length)))
    return tuple(steps)


_PATH = click.Path(path_type=Path)
_load, _load_flag = partial(option, group=LOAD), partial(switch, group=LOAD)
_sent, _limit = partial(option, group=REQUEST), partial(option, group=TIME)


@dataclass(frozen=True, kw_only=True)
class LoadOptions(RequestFlags):
    """Options of ``dragstrip load``; options of an open loop are None if they were not given."""

    url: str = opts.argument()
    args: tuple[str, ...] = opts.argument(nargs=-1, metavar="[-- ARGS]...")
    connections: int = of_race(
        "connections", type=Count(), default=str(DEFAULT_CONNECTIONS), help="Concurrent connections."
    )
    requests: int | None = _load("--requests", "-n", type=Count(), help="Send exactly this many requests, then stop.")
    duration_s: float | None = _limit(
        "--duration",
        "-d",
        "-z",
        type=DURATION,
        help="How long to run; with -n, whichever ends first. [default: 10s without -n]",
    )
    threads: int | None = of_race("threads")
    pool: Path | None = _sent("--pool", type=_PATH, help="File of requests to send in turn; see above.")
    raw: Path | None = _sent("--raw", type=_PATH, help="File with the exact bytes of the request.")
    url_template: str | None = _sent(
        "--url-template", metavar="PATH", help="Path with placeholders, e.g. '/item/{int:1..1000}'; see above."
    )
    urls: int | None = _sent(
        "--urls", type=Count(), help="With --url-template: maximum number of different paths. [default: 1000]"
    )
    script: Path | None = _sent("--script", "-s", type=_PATH, help="A wrk script in Lua; ARGS are passed to it.")
    latency: bool = switch("--latency", help="With --style wrk: also print percentiles.")
    no_keepalive: bool = _load_flag(
        "--no-keepalive", "--disable-keepalive", help="Open a new connection for each request."
    )
    close_after: int | None = _load(
        "--close-after", type=Count(), help="Close each connection after this many requests."
    )
    pipeline: int = _load(
        "--pipeline", type=Count(), default="1", help="HTTP/1.1: pipelined requests in flight per connection."
    )
    streams: int = of_race("streams", type=Count())
    unix: str | None = _load("--unix", "--unix-socket", metavar="PATH", help="Connect to this Unix socket.")
    image: str | None = _load(
        "--image", metavar="IMAGE", help="Start this container image or file of `docker save`; URL leads into it."
    )
    wake: float | None = opts.wake_option(group=LOAD, help="Time that --image gets until it listens. [default: 10s]")
    cacert: str | None = opts.cacert_option()
    insecure: bool = opts.insecure_option()
    tls: Handshakes | None = _load(
        "--tls",
        type=click.Choice(HANDSHAKES),
        help="With https: each connection makes a full handshake (default) or resumes an earlier TLS session.",
    )
    sources: int = _load(
        "--sources", type=Count(1, 65536, auto=True), default="1", help="Number of loopback source addresses, or auto."
    )
    first_byte: bool = switch("--first-byte", help="Also record the time to the first byte of each response.")
    http: str = of_race("http", help="HTTP version: 1.0 as ab speaks it, 2 as h2load.")
    h2c: bool = _load_flag("--h2c", help="Same as --http 2, for http:// only: HTTP/2 without TLS.")
    keep_word: bool = _load_flag("-k", help="ab's keep-alive flag; has no effect, keep-alive is the default.")
    timeout_s: float = of_race(
        "timeout_s", default="5s", help="Time limit for one response, and for one connection attempt."
    )
    check: str = check_option(
        help="Compare this much of each response: full (every byte), length (its length), status (only the status), "
        "auto (length from 64 KiB on).",
    )
    io: str = of_race("io")
    awake: str = of_race("awake", default="off")
    rate_per_s: float | None = of_race(
        "rate_per_s", type=RATE, help="Open loop: send this many requests per second, whatever the server does."
    )
    ramp: tuple[float, float] | None = _load(
        "--ramp",
        type=TextType("ramp", _ramp),
        metavar="FROM:TO",
        help="Open loop: rate changes linearly from FROM to TO over the run.",
    )
    steps: tuple[OfferStep, ...] | None = _load(
        "--steps",
        type=TextType("steps", _steps),
        metavar="R:TIME,…",
        help="Open loop: rates one after another, e.g. 1k:10s,2k:10s.",
    )
    pace: str | None = of_race(
        "pace",
        default=None,
        help="Open loop: wake up for each request (precise, the default), every 210 µs (balanced) or every 1 ms"
        " (thrifty).",
    )
    arrivals: str | None = _load(
        "--arrivals", type=click.Choice(ARRIVALS), help="Open loop: gaps between requests. [default: constant]"
    )
    seed: int | None = of_race("seed", help="Seed for random arrivals and drawn paths. [default: 1]")
    json_path: Path | None = opts.report_option("--json", help="Write the result as JSON; - for stdout.")
    hgrm_path: Path | None = opts.output_option(
        "--hgrm", help="Write the latency percentiles in HdrHistogram's .hgrm format."
    )
    hlog_path: Path | None = opts.output_option("--hlog", help="Write the latencies as an HdrHistogram log.")
    html_path: Path | None = opts.html_option()
    style: str | None = option("--style", type=click.Choice(STYLES), help="Print the report in that tool's format.")
    max_p99_s: float | None = _limit(
        "--max-p99", type=DURATION, metavar="TIME", help="Exit 1 if p99 latency is above this, e.g. 5ms."
    )
    max_errors: float | None = _limit(
        "--max-errors", type=SHARE_OR_ZERO, metavar="SHARE", help="Exit 1 if the error rate is above this, e.g. 0.1%."
    )
    min_reached: float | None = _limit(
        "--min-reached",
        type=SHARE,
        metavar="SHARE",
        help="Exit 1 if less than this share of the offered requests left on time, e.g. 99%.",
    )
    allowed: tuple[AllowedHost, ...] = opts.allow_host_option()
    fleet: Path | None = opts.fleet_option(help="Generate the load on the machines listed in a fleet.toml.")
    quiet: bool = opts.quiet_option(
        help="Print no report and no progress, only what a script prints; write files and set the exit code."
    )
    store_path: Path | None = opts.store_option(help="Database file in which the result is stored.")
    no_store: bool = switch("--no-store", help="Don't store the result.")


class LoadCommand(opts.GroupedCommand):
    """Refuses hey's long flags, which click would read as rows of short flags."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the command line."""
        extension("other tools' flags").refuse_one_dash(args, ctx)
        return super().parse_args(ctx, args)


#: The options of most loads.
COMMON = (
    *("connections", "requests", "duration_s", "rate_per_s", "method", "headers", "body"),
    *("expect_status", "http", "threads", "json_path", "quiet"),
)


@click.command(cls=LoadCommand, common=COMMON)
@gathered(LoadOptions)
def load(options: LoadOptions) -> None:
    """Load URL and report; every response is checked against a reference response.

    Closed loop by default: each connection sends its next request as soon as it has the last response. With -R, --ramp
    or --steps an open loop: requests leave on schedule, and latency counts from the scheduled time.

    --pool FILE lists the requests to send in turn: [[request]] tables if FILE ends in .toml, otherwise JSON lines. All
    keys are optional: path, method, headers, body or body_file; and for the expected response, which is learned if not
    given: status, answer or answer_file.

    \b
        [[request]]
        path = "/add?a=1&b=2"
        answer = "3"
    \b
        {"path": "/add?a=1&b=2", "answer": "3"}

    --url-template PATH draws paths from --seed before the load and sends them in turn. Placeholders: {int:1..1000}, a
    random number from this range; {seq:1..1000}, these numbers in order; {choice:a,b}; {text:8}, letters and digits;
    {{ for a literal brace.

    --image starts a container for the time of the load. URL is then like http://localhost/path; without a port it is
    the container's port.

    The result is stored: `runs` lists it, `show` and `export` take its id. Passwords, tokens, keys and cookies are not
    stored.

    Exit code 0; 1 if the run ended early, most requests failed, or a --max-… or --min-… limit was missed; 130 if
    interrupted.
    """
    if options.no_store and options.store_path is not None:
        raise BadUsage(f"--store {options.store_path} and --no-store contradict each other; give one")
    request = _request(options)
    live = Live(Console(stderr=True), quiet=options.quiet)
    try:
        with _server(options, request) as reachable:
            result = loaded(options.fleet, reachable, live)
    finally:
        live.close()
    objectives = limits(
        result, max_p99_s=options.max_p99_s, max_errors=options.max_errors, min_reached=options.min_reached
    )
    verdict = _verdict(result, objectives)
    _report(result, objectives, options, verdict)
    if verdict is LoadVerdict.INTERRUPTED:
        sys.exit(EXIT_INTERRUPTED)
    if verdict is not LoadVerdict.OK:
        sys.exit(EXIT_FAILURE)


def _server(options: LoadOptions, request: loading.LoadRequest) -> AbstractContextManager[loading.LoadRequest]:
    """The request once its server can be reached: with --image, a container runs until the block ends."""
    if options.image is None:
        if options.wake is not None:
            raise BadUsage(f"--wake {options.wake:g}s is for --image, which is not given; leave it out")
        return nullcontext(request)
    if options.fleet is not None:
        raise BadUsage("--image can't be combined with --fleet: other machines can't reach a container; leave one out")
    return boxed.started(request, options.image, wake_s=options.wake)


def loaded(fleet: Path | None, request: loading.LoadRequest, progress: loading.LoadProgress) -> loading.LoadResult:
    """Loads a URL from this machine, or from a fleet's generators."""
    if fleet is None:
        return loading.run(request, progress, extension("scripts of wrk").WrkScript if request.script else None)
    result: loading.LoadResult = extension("fleet").loaded(fleet, request, progress)
    return result


def _request(options: LoadOptions) -> loading.LoadRequest:
    if options.args and options.script is None:
        plural = "s" if len(options.args) > 1 else ""
        raise click.UsageError(
            f"Got unexpected extra argument{plural} ({' '.join(options.args)})", click.get_current_context()
        )
    _refuse_others_meaning(options)
    if options.keep_word:
        if options.no_keepalive:
            raise BadUsage("-k and --no-keepalive contradict each other; give one, or none for keep-alive")
        about_tls = "; --insecure accepts any certificate" if options.url.startswith("https") else ""
        message = f"dragstrip: -k: connections are kept alive by default; the flag changes nothing{about_tls}"
        click.echo(message, err=True)
    return taken_from(
        options,
        loading.LoadRequest,
        keepalive=not options.no_keepalive,
        http=_http(options),
        handshakes=_handshakes(options),
        sources=options.sources or None,
        pool=_pool(options),
        script=extension("scripts of wrk").read_script(options.script, options.args) if options.script else None,
        method=method_of(options),
        headers=headers_of(options),
        body=body_of(options) or b"",
        offer=_offer(options),
    )


def _offer(options: LoadOptions) -> Offer | None:
    """The requested open loop; None for a closed loop.

    Raises:
        BadUsage: an option of an open loop was given, and no rate.
    """
    if options.rate_per_s is None and options.ramp is None and options.steps is None:
        seed = options.seed if options.url_template is None else None  # it also draws paths
        for name, value in (("pace", options.pace), ("arrivals", options.arrivals), ("seed", seed)):
            if value is not None:
                raise BadUsage(f"--{name} {value} needs an open loop; add -R RATE")
        return None
    return Offer(
        rate_per_s=options.rate_per_s,
        ramp=options.ramp,
        steps=options.steps or (),
        precision=options.pace or PRECISIONS[0],
        arrivals=options.arrivals or ARRIVALS[0],
        seed=1 if options.seed is None else options.seed,
    )


def _refuse_others_meaning(options: LoadOptions) -> None:
    """Refuses values that only make sense by another tool's meaning of the flag."""
    file = str(options.script or "")
    if re.fullmatch(r"[\d.]+(ms|s|m|h)?", file) and not Path(file).exists():
        raise BadUsage(f"-s {file}: -s is a script in Lua; ab's -s is --timeout TIME")


def _http(options: LoadOptions) -> str:
    """The version of HTTP; --h2c is HTTP/2 over a connection that is not encrypted."""
    if options.h2c and options.url.startswith("https:"):
        raise BadUsage(f"--h2c: {options.url} is encrypted; use --http 2, or an http:// address")
    if options.h2c and options.http == "1.0":
        raise BadUsage("--h2c and --http 1.0 contradict each other; give one")
    return "2" if options.h2c else options.http


def _handshakes(options: LoadOptions) -> Handshakes:
    if options.tls and not options.url.startswith("https:"):
        raise BadUsage(f"--tls {options.tls}: {options.url} is not encrypted; use https://, or leave --tls out")
    return options.tls or FULL


def _pool(options: LoadOptions) -> tuple[PoolRequest, ...]:
    given = {"--pool": options.pool, "--raw": options.raw, "--url-template": options.url_template}
    given["-s"] = options.script
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise BadUsage(f"{' and '.join(named)} can't be combined; give only one")
    if options.url_template is not None:
        return drawn(options.url_template, count=options.urls, seed=1 if options.seed is None else options.seed)
    if options.urls is not None:
        raise BadUsage(f"--urls {options.urls} needs a template; add --url-template PATH")
    return read_pool(options.pool) if options.pool else (read_raw(options.raw),) if options.raw else ()


def _report(
    result: loading.LoadResult, objectives: list[LoadLimit], options: LoadOptions, verdict: LoadVerdict
) -> None:
    """Prints the report unless --quiet, stores it, and writes the files; with ``--json -`` stdout is only JSON."""
    content = export.load_json(result, objectives)
    report = LoadReport.of(content)
    to_stdout, script = str(options.json_path) == "-", result.script
    before, after = (script.before + script.during, script.after) if script else ("", "")
    if options.style and not options.quiet:
        text = extension("other tools' reports").styled(result, options.style, distribution=options.latency)
        click.echo(text, nl=False, err=to_stdout)
        for line in warnings(result):
            click.echo(f"dragstrip: {line}", err=True)
        for objective in objectives:
            click.echo(f"dragstrip: {'met' if objective.met else 'missed'}: {objective.text}", err=True)
    elif not to_stdout:
        # The script's own output: not wrapped, not marked.
        click.echo(terminal.whole_lines(before), nl=False)
        if not options.quiet:
            terminal.show(Console(), report)
        click.echo(terminal.whole_lines(after), nl=False)
    load = StoredLoad(
        id=secrets.token_hex(6),
        started=report.started,
        url=report.url,
        verdict=verdict,
        result=content,
    )
    talks = not (options.quiet or options.style or to_stdout)
    stored = not options.no_store and _stored(load, options.store_path)
    if stored and talks:
        named = opts.named(load.id, options.store_path)
        line = f"record  load {load.id} in {options.store_path or default_path()} (dragstrip show {named})"
        Console().print(line, soft_wrap=True)
    write_all(
        [
            ("--json", options.json_path, lambda: json_text(content)),
            ("--hgrm", options.hgrm_path, lambda: export.hgrm(report)),
            ("--hlog", options.hlog_path, lambda: export.hlog(result)),
            ("--html", options.html_path, lambda: _page(content, verdict, load.id if stored else "")),
        ],
        measured=True,
    )
    if options.html_path and talks:
        Console().print(f"page    {options.html_path.resolve()}", soft_wrap=True)


def _verdict(result: loading.LoadResult, objectives: list[LoadLimit]) -> LoadVerdict:
    if result.finished is LoadEnding.INTERRUPTED:
        return LoadVerdict.INTERRUPTED
    if result.trouble:
        return LoadVerdict.FAILED
    return LoadVerdict.OK if all(objective.met for objective in objectives) else LoadVerdict.MISSED


def _stored(load: StoredLoad, store_path: Path | None) -> bool:
    """Whether the load could be stored; if not, one line says why: what was measured is printed and written anyway."""
    try:
        with open_store(store_path) as store:
            store.keep_load(load)
    except (DragstripError, OSError, RuntimeError) as error:  # the last: this user has no home folder
        why = "no disk space is left" if isinstance(error, StoreFull) else visible(str(error))
        click.echo(f"dragstrip: the result is not stored: {why}; --no-store leaves it out", err=True)
        return False
    return True


def _page(content: JsonObject, verdict: LoadVerdict, load_id: str) -> str:
    from dragstrip.report.load import page  # Altair takes a third of a second to load

    return page.render(content, verdict, load_id)
