"""``dragstrip load``: one server under load, with the options that users of wrk, ab, hey and oha know."""

from __future__ import annotations

import base64
import re
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import click

from dragstrip.cli import options as opts
from dragstrip.cli.options import EXIT_FAILURE, EXIT_INTERRUPTED, argument, gathered, option, switch, taken_from
from dragstrip.cli.outputs import json_text, write_all
from dragstrip.cli.quantities import DURATION, RATE, SHARE, SHARE_OR_ZERO, Count, Text, duration_s, rate_per_s
from dragstrip.compat.flags import refuse_one_dash
from dragstrip.compat.styles import STYLES, styled
from dragstrip.compat.wrk_script import WrkScript, read_script
from dragstrip.contender import AllowedHost
from dragstrip.errors import BadUsage
from dragstrip.loading import boxed
from dragstrip.loading import run as loading
from dragstrip.loading.arrivals import ARRIVALS, PRECISIONS, Offer, Step
from dragstrip.loading.request import FULL, HANDSHAKES, Handshakes
from dragstrip.loading.request_pool import Asked, bounded, read_pool, read_raw
from dragstrip.loading.url_template import drawn
from dragstrip.record import DEFAULT_CONNECTIONS, LoadEnding
from dragstrip.report.console import Console
from dragstrip.report.load import export, terminal
from dragstrip.report.load.limits import Limit, limits
from dragstrip.report.load.live import Live
from dragstrip.report.load.warnings import warnings


def _header(text: str) -> tuple[str, str]:
    """``Name: value``."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise ValueError(f"{text!r} is not a valid header; use 'Accept: text/html'")
    return name.strip(), value.strip()


def _cookie(text: str) -> str:
    """``NAME=VALUE``, as it is sent."""
    name, equals, _ = text.partition("=")
    if not equals or not name.strip() or re.search(r"[\x00-\x20;\x7f]", text):
        raise ValueError(f"{text!r} is not a valid cookie; use NAME=VALUE without spaces or ;")
    return text


def _authorization(text: str) -> str:
    """``USER:PASSWORD`` as the value of ``Authorization``: ``Basic`` and both in base64 (RFC 7617)."""
    user, colon, _ = text.partition(":")
    if not colon or not user:
        raise ValueError("the name and the password must be separated by a colon; use USER:PASS")
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def _method(text: str) -> str:
    """A request's method; not h2load's number of streams."""
    if text.isdigit():
        raise ValueError(
            f"{text!r} is not a valid method; use GET or POST (h2load's -m {text} is --streams {text} here)"
        )
    return text


def _ramp(text: str) -> tuple[float, float]:
    """``1k:20k``: the rate at the beginning, and the rate at the end."""
    first, colon, last = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r} is not a valid ramp; use 1k:20k (from 1,000 to 20,000 per second)")
    return rate_per_s(first), rate_per_s(last)


def _steps(text: str) -> tuple[Step, ...]:
    """``1k:10s,2k:10s``: a rate and how long it lasts, one after the other."""
    steps = []
    for part in map(str.strip, text.split(",")):
        rate, colon, length = part.partition(":")
        if not colon:
            raise ValueError(f"{part!r} is not a valid step; use 1k:10s (1,000 per second for 10 s)")
        steps.append(Step(from_per_s=rate_per_s(rate), to_per_s=rate_per_s(rate), length_s=duration_s(length)))
    return tuple(steps)


_PATH = click.Path(path_type=Path)


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """Options of ``dragstrip load``; options of an open loop are None if they were not given."""

    url: str = argument()
    args: tuple[str, ...] = argument(nargs=-1, metavar="[-- ARGS]...")
    connections: int = option(
        "--connections",
        "-c",
        type=Count(),
        default=str(DEFAULT_CONNECTIONS),
        help="Concurrent connections.",
    )
    requests: int | None = option("--requests", "-n", type=Count(), help="Send exactly this many requests, then stop.")
    duration_s: float | None = option(
        "--duration",
        "-d",
        "-z",
        type=DURATION,
        help="How long to run; with -n, whichever ends first. [default: 10s without -n]",
    )
    threads: int | None = opts.threads_option()
    headers: tuple[tuple[str, str], ...] = option(
        "--header",
        "-H",
        type=Text("header", _header),
        multiple=True,
        metavar="'K: V'",
        help="Add a request header; may be repeated.",
    )
    cookies: tuple[str, ...] = option(
        "--cookie",
        "-C",
        type=Text("cookie", _cookie),
        multiple=True,
        metavar="NAME=V",
        help="Add a cookie; may be repeated.",
    )
    basic_auth: str | None = option(
        "--basic-auth",
        "-a",
        type=Text("credentials", _authorization),
        metavar="USER:PASS",
        help="Authorization: Basic.",
    )
    method: str = option("--method", "-m", type=Text("method", _method), default="GET", help="HTTP method.")
    body: str | None = option("--body", "-b", help="Request body: text, or @FILE.")
    body_file: str | None = option("-D", metavar="FILE", help="Same as --body @FILE, as in hey and oha.")
    content_type: str | None = option("-T", metavar="TYPE", help="Same as -H 'Content-Type: TYPE', as in ab and hey.")
    pool: Path | None = option("--pool", type=_PATH, help="File of requests to send in turn; see above.")
    raw: Path | None = option("--raw", type=_PATH, help="File with the exact bytes of the request.")
    url_template: str | None = option(
        "--url-template", metavar="PATH", help="Path with placeholders, e.g. '/item/{int:1..1000}'; see above."
    )
    urls: int | None = option(
        "--urls", type=Count(), help="With --url-template: maximum number of different paths. [default: 1000]"
    )
    script: Path | None = option("--script", "-s", type=_PATH, help="A wrk script in Lua; ARGS are passed to it.")
    latency: bool = switch("--latency", help="With --style wrk: also print percentiles.")
    no_keepalive: bool = switch("--no-keepalive", "--disable-keepalive", help="Open a new connection for each request.")
    close_after: int | None = option(
        "--close-after", type=Count(), help="Close each connection after this many requests."
    )
    pipeline: int = option(
        "--pipeline",
        type=Count(),
        default="1",
        help="HTTP/1.1: pipelined requests in flight per connection.",
    )
    streams: int = option(
        "--streams",
        type=Count(),
        default="1",
        help="HTTP/2: concurrent requests (streams) per connection.",
    )
    unix: str | None = option("--unix", "--unix-socket", metavar="PATH", help="Connect to this Unix socket.")
    image: str | None = option(
        "--image", metavar="IMAGE", help="Start this container image or file of `docker save`; URL leads into it."
    )
    wake: float | None = opts.wake_option(help="Time that --image gets until it listens. [default: 10s]")
    cacert: str | None = option(
        "--cacert", metavar="FILE", help="Trusted certificates or CAs (PEM). [default: this machine's]"
    )
    insecure: bool = switch("--insecure", help="Accept any certificate; the report notes it.")
    tls: Handshakes | None = option(
        "--tls",
        type=click.Choice(HANDSHAKES),
        help="With https: each connection makes a full handshake (default) or resumes an earlier TLS session.",
    )
    sources: int = option(
        "--sources",
        type=Count(1, 65536, auto=True),
        default="1",
        help="Number of loopback source addresses, or auto.",
    )
    first_byte: bool = switch("--first-byte", help="Also record the time to the first byte of each response.")
    http: str = option(
        "--http",
        type=click.Choice(["1.1", "1.0", "2"]),
        default="1.1",
        help="HTTP version: 1.0 as ab speaks it, 2 as h2load.",
    )
    h2c: bool = switch("--h2c", help="Same as --http 2, for http:// only: HTTP/2 without TLS.")
    keep_word: bool = switch("-k", help="ab's keep-alive flag; has no effect, keep-alive is the default.")
    timeout_s: float = opts.timeout_option(
        default="10s", help="Time limit for one response, and for one connection attempt."
    )
    expect_status: int | None = option(
        "--status",
        type=Count(200, 599),
        help="Expected status. [default: the reference response's, which must be 2xx]",
    )
    check: str = option(
        "--check",
        type=click.Choice(["auto", "full", "length", "status"]),
        default="auto",
        help="Compare this much of each response: full (every byte), length (its length), status (only the status), "
        "auto (length from 64 KiB on).",
    )
    io: str = opts.io_option()
    awake: str = opts.awake_option(default="off")
    rate_per_s: float | None = option(
        "--rate", "-R", type=RATE, help="Open loop: send this many requests per second, whatever the server does."
    )
    ramp: tuple[float, float] | None = option(
        "--ramp",
        type=Text("ramp", _ramp),
        metavar="FROM:TO",
        help="Open loop: rate changes linearly from FROM to TO over the run.",
    )
    steps: tuple[Step, ...] | None = option(
        "--steps",
        type=Text("steps", _steps),
        metavar="R:TIME,…",
        help="Open loop: rates one after another, e.g. 1k:10s,2k:10s.",
    )
    pace: str | None = opts.pace_option(
        default=None,
        help="Open loop: wake up for each request (precise, the default), every 210 µs (balanced) or every 1 ms"
        " (thrifty).",
    )
    arrivals: str | None = option(
        "--arrivals", type=click.Choice(ARRIVALS), help="Open loop: gaps between requests. [default: constant]"
    )
    seed: int | None = opts.seed_option(help="Seed for random arrivals and drawn paths. [default: 1]")
    json_path: Path | None = opts.report_option("--json", help="Write the result as JSON; - for stdout.")
    hgrm_path: Path | None = opts.output_option(
        "--hgrm", help="Write the latency percentiles in HdrHistogram's .hgrm format."
    )
    hlog_path: Path | None = opts.output_option("--hlog", help="Write the latencies as an HdrHistogram log.")
    style: str | None = option("--style", type=click.Choice(STYLES), help="Print the report in that tool's format.")
    max_p99_s: float | None = option(
        "--max-p99", type=DURATION, metavar="TIME", help="Exit 1 if p99 latency is above this, e.g. 5ms."
    )
    max_errors: float | None = option(
        "--max-errors",
        type=SHARE_OR_ZERO,
        metavar="SHARE",
        help="Exit 1 if the error rate is above this, e.g. 0.1%.",
    )
    min_reached: float | None = option(
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


class LoadCommand(click.Command):
    """Refuses hey's long flags, which click would read as rows of short flags."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the command line."""
        refuse_one_dash(args, ctx)
        return super().parse_args(ctx, args)


@click.command(cls=LoadCommand)
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

    Exit code 0; 1 if the run ended early, most requests failed, or a --max-… or --min-… limit was missed; 130 if
    interrupted.
    """
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
    _report(result, objectives, options)
    if result.finished is LoadEnding.INTERRUPTED:
        sys.exit(EXIT_INTERRUPTED)
    if result.trouble or not all(objective.met for objective in objectives):
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


def loaded(fleet: Path | None, request: loading.LoadRequest, progress: loading.Progress) -> loading.LoadResult:
    """Loads a URL from this machine, or from a fleet's generators."""
    if fleet is None:
        return loading.run(request, progress, WrkScript)
    from dragstrip.fleet import definition
    from dragstrip.fleet.machines import Machines
    from dragstrip.fleet.remote_load import load_over

    with Machines(definition.load(fleet)) as machines:
        return load_over(machines, request, progress)


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
        script=read_script(options.script, options.args) if options.script else None,
        headers=_headers(options),
        body=_body(f"@{options.body_file}" if options.body_file else options.body or ""),
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
    for flag, file, remedy in (
        ("-D", options.body_file, "is a file with the body; h2load's -D is -d TIME"),
        ("-s", options.script and str(options.script), "is a script in Lua; ab's -s is --timeout TIME"),
    ):
        if file and re.fullmatch(r"[\d.]+(ms|s|m|h)?", file) and not Path(file).exists():
            raise BadUsage(f"{flag} {file}: {flag} {remedy}")
    if options.content_type is not None and "/" not in options.content_type:
        raise BadUsage(
            f"-T {options.content_type}: not a valid content type; use application/json (to end connections, as with"
            " h2load's -T, use --close-after N)"
        )


def _http(options: LoadOptions) -> str:
    """The version of HTTP; --h2c is HTTP/2 over a connection that is not encrypted."""
    if options.h2c and options.url.startswith("https:"):
        raise BadUsage(f"--h2c: {options.url} is encrypted; use --http 2, or an http:// address")
    if options.h2c and options.http == "1.0":
        raise BadUsage("--h2c and --http 1.0 contradict each other; give one")
    return "2" if options.h2c else options.http


def _headers(options: LoadOptions) -> tuple[tuple[str, str], ...]:
    """The headers of -H, and the headers that other options set."""
    short = {
        "Content-Type": ("-T", options.content_type),
        "Cookie": ("--cookie", "; ".join(options.cookies)),
        "Authorization": ("--basic-auth", options.basic_auth),
    }
    given = {name.lower() for name, _ in options.headers}
    for name, (flag, value) in short.items():
        if value and name.lower() in given:
            raise BadUsage(f"{flag} and -H '{name}: …' set the same header; give one of them")
    return (*options.headers, *((name, value) for name, (_, value) in short.items() if value))


def _handshakes(options: LoadOptions) -> Handshakes:
    if options.tls and not options.url.startswith("https:"):
        raise BadUsage(f"--tls {options.tls}: {options.url} is not encrypted; use https://, or leave --tls out")
    return options.tls or FULL


def _pool(options: LoadOptions) -> tuple[Asked, ...]:
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


def _body(text: str) -> bytes:
    """The body: the text itself, or the content of the file that ``@FILE`` names."""
    if not text.startswith("@"):
        return text.encode()
    return bounded(Path(text[1:]), f"-b {text}")


def _report(result: loading.LoadResult, objectives: list[Limit], options: LoadOptions) -> None:
    """Prints the report unless --quiet, and writes the files; with ``--json -`` standard output is only JSON."""
    to_stdout = str(options.json_path) == "-"
    if options.quiet and not to_stdout and (script := result.script) is not None:
        click.echo("".join(map(terminal.whole_lines, (script.before + script.during, script.after))), nl=False)
    if options.style and not options.quiet:
        click.echo(styled(result, options.style, distribution=options.latency), nl=False, err=to_stdout)
        for line in warnings(result):
            click.echo(f"dragstrip: {line}", err=True)
        for objective in objectives:
            click.echo(f"dragstrip: {'met' if objective.met else 'missed'}: {objective.text}", err=True)
    elif not options.quiet and not to_stdout:
        terminal.show(Console(), result, objectives)
    write_all(
        [
            ("--json", options.json_path, lambda: json_text(export.load_json(result, objectives))),
            ("--hgrm", options.hgrm_path, lambda: export.hgrm(result)),
            ("--hlog", options.hlog_path, lambda: export.hlog(result)),
        ],
        measured=True,
    )
