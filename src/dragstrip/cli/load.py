"""``dragstrip load``: one server under load, with the options that users of wrk, ab, hey and oha know."""

from __future__ import annotations

import base64
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from dragstrip.cli.elsewhere_options import allow_host_option
from dragstrip.cli.fleet_options import fleet_option, loaded
from dragstrip.cli.open_loop_options import OpenLoopOptions, offer, open_loop_options
from dragstrip.cli.options import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    awake_option,
    gathered,
    io_option,
)
from dragstrip.cli.outputs import OutputFile, json_text, write_or_refuse
from dragstrip.cli.quantities import Count, Duration, Share
from dragstrip.compat.flags import refuse_one_dash
from dragstrip.compat.styles import STYLES, styled
from dragstrip.compat.wrk_script import read_script
from dragstrip.contender import AllowedHost
from dragstrip.errors import BadUsage
from dragstrip.loading import run as loading
from dragstrip.loading.request import FULL, HANDSHAKES, Handshakes
from dragstrip.loading.request_pool import Asked, bounded, read_pool, read_raw
from dragstrip.loading.url_template import drawn
from dragstrip.record import DEFAULT_CONNECTIONS
from dragstrip.report.load import export, terminal
from dragstrip.report.load.limits import Limit, limits
from dragstrip.report.load.live import Live
from dragstrip.report.load.warnings import warnings


class Header(click.ParamType[tuple[str, str]]):
    """``Name: value``."""

    name = "header"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Name and value."""
        if isinstance(value, tuple):
            return value
        name, colon, text = str(value).partition(":")
        if not colon or not name.strip():
            self.fail(f"{value!r} is not a valid header; use 'Accept: text/html'", param, ctx)
        return name.strip(), text.strip()


class Cookie(click.ParamType[str]):
    """``NAME=VALUE``."""

    name = "cookie"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The pair as it is sent."""
        text = str(value)
        name, equals, _ = text.partition("=")
        if not equals or not name.strip() or re.search(r"[\x00-\x20;\x7f]", text):
            self.fail(f"{text!r} is not a valid cookie; use NAME=VALUE without spaces or ;", param, ctx)
        return text


class Credentials(click.ParamType[str]):
    """``USER:PASSWORD``; as the value of ``Authorization``."""

    name = "credentials"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """``Basic`` and both in base64 (RFC 7617)."""
        user, colon, _ = str(value).partition(":")
        if not colon or not user:
            self.fail("the name and the password must be separated by a colon; use USER:PASS", param, ctx)
        return f"Basic {base64.b64encode(str(value).encode()).decode()}"


class Method(click.ParamType[str]):
    """A request's method; not h2load's number of streams."""

    name = "method"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The method."""
        text = str(value)
        if text.isdigit():
            self.fail(
                f"{text!r} is not a valid method; use GET or POST (h2load's -m {text} is --streams {text} here)",
                param,
                ctx,
            )
        return text


class LoadCommand(click.Command):
    """Answers words that are read as rows of short flags otherwise."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the command line."""
        refuse_one_dash(args, ctx)
        return super().parse_args(ctx, args)


@dataclass(frozen=True, kw_only=True)
class LoadOptions(OpenLoopOptions):
    """What ``dragstrip load`` was given; the decorators of ``load`` say what each is."""

    url: str
    args: tuple[str, ...]
    connections: int
    requests: int | None
    duration_s: float | None
    threads: int | None
    headers: tuple[tuple[str, str], ...]
    cookies: tuple[str, ...]
    basic_auth: str | None
    method: str
    body: str
    body_file: str | None
    content_type: str | None
    pool: Path | None
    raw: Path | None
    url_template: str | None
    urls: int | None
    script: Path | None
    latency: bool
    no_keepalive: bool
    close_after: int | None
    pipeline: int
    streams: int
    unix: str | None
    cacert: str | None
    insecure: bool
    tls: Handshakes | None
    sources: int
    first_byte: bool
    http: str
    h2c: bool
    keep_word: bool
    timeout_s: float
    status: int | None
    check: str
    io: str
    awake: str
    json_path: Path | None
    hgrm_path: Path | None
    hlog_path: Path | None
    style: str | None
    max_p99_s: float | None
    max_errors: float | None
    min_reached: float | None
    allowed: tuple[AllowedHost, ...]
    fleet: Path | None
    quiet: bool


@click.command(cls=LoadCommand)
@click.argument("url")
@click.argument("args", nargs=-1, metavar="[-- ARGS]...")
@click.option(
    "--connections",
    "-c",
    type=Count(),
    default=str(DEFAULT_CONNECTIONS),
    show_default=True,
    help="Concurrent connections.",
)
@click.option("--requests", "-n", type=Count(), default=None, help="Send exactly this many requests, then stop.")
@click.option(
    "--duration",
    "-d",
    "-z",
    "duration_s",
    type=Duration(),
    default=None,
    help="How long to run; with -n, whichever ends first. [default: 10s without -n]",
)
@click.option(
    "--threads", "-t", type=Count(1, 256), default=None, help="Engine threads. [default: one per engine core]"
)
@click.option(
    "--header",
    "-H",
    "headers",
    type=Header(),
    multiple=True,
    metavar="'K: V'",
    help="Add a request header; may be repeated.",
)
@click.option(
    "--cookie",
    "-C",
    "cookies",
    type=Cookie(),
    multiple=True,
    metavar="NAME=V",
    help="Add a cookie; may be repeated.",
)
@click.option("--basic-auth", "-a", type=Credentials(), default=None, metavar="USER:PASS", help="Authorization: Basic.")
@click.option("--method", "-m", type=Method(), default="GET", show_default=True, help="HTTP method.")
@click.option("--body", "-b", default="", help="Request body: text, or @FILE.")
@click.option("-D", "body_file", default=None, metavar="FILE", help="Same as --body @FILE, as in hey and oha.")
@click.option(
    "-T", "content_type", default=None, metavar="TYPE", help="Same as -H 'Content-Type: TYPE', as in ab and hey."
)
@click.option(
    "--pool", type=click.Path(path_type=Path), default=None, help="File of requests to send in turn; see above."
)
@click.option("--raw", type=click.Path(path_type=Path), default=None, help="File with the exact bytes of the request.")
@click.option(
    "--url-template",
    default=None,
    metavar="PATH",
    help="Path with placeholders, e.g. '/item/{int:1..1000}'; see above.",
)
@click.option(
    "--urls", type=Count(), default=None, help="With --url-template: maximum number of different paths. [default: 1000]"
)
@click.option(
    "--script", "-s", type=click.Path(path_type=Path), default=None, help="A wrk script in Lua; ARGS are passed to it."
)
@click.option("--latency", is_flag=True, help="With --style wrk: also print percentiles.")
@click.option(
    "--no-keepalive",
    "--disable-keepalive",
    "no_keepalive",
    is_flag=True,
    help="Open a new connection for each request.",
)
@click.option("--close-after", type=Count(), default=None, help="Close each connection after this many requests.")
@click.option(
    "--pipeline",
    type=Count(),
    default="1",
    show_default=True,
    help="HTTP/1.1: pipelined requests in flight per connection.",
)
@click.option(
    "--streams",
    type=Count(),
    default="1",
    show_default=True,
    help="HTTP/2: concurrent requests (streams) per connection.",
)
@click.option("--unix", "--unix-socket", default=None, metavar="PATH", help="Connect to this Unix socket.")
@click.option(
    "--cacert",
    default=None,
    metavar="FILE",
    help="Trusted certificates or CAs (PEM). [default: this machine's]",
)
@click.option("--insecure", is_flag=True, help="Accept any certificate; the report notes it.")
@click.option(
    "--tls",
    type=click.Choice(HANDSHAKES),
    default=None,
    help="With https: each connection makes a full handshake (default) or resumes an earlier TLS session.",
)
@click.option(
    "--sources",
    type=Count(1, 65536, auto=True),
    default="1",
    show_default=True,
    help="Number of loopback source addresses, or auto.",
)
@click.option("--first-byte", is_flag=True, help="Also record the time to the first byte of each response.")
@click.option(
    "--http",
    type=click.Choice(["1.1", "1.0", "2"]),
    default="1.1",
    show_default=True,
    help="HTTP version: 1.0 as ab speaks it, 2 as h2load.",
)
@click.option("--h2c", is_flag=True, help="Same as --http 2, for http:// only: HTTP/2 in the clear.")
@click.option("-k", "keep_word", is_flag=True, help="ab's keep-alive flag; has no effect, keep-alive is the default.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Duration(),
    default="10s",
    show_default=True,
    help="Time limit for one response, and for one connection attempt.",
)
@click.option(
    "--status",
    type=Count(200, 599),
    default=None,
    help="Expected status. [default: the reference response's, which must be 2xx]",
)
@click.option(
    "--check",
    type=click.Choice(["auto", "full", "length", "status"]),
    default="auto",
    show_default=True,
    help="Compare this much of each response: full (every byte), length (its length), status (only the status), "
    "auto (length from 64 KiB on).",
)
@io_option
@awake_option("off")
@open_loop_options
@click.option(
    "--json", "json_path", type=OutputFile(dash=True), default=None, help="Write the result as JSON; - for stdout."
)
@click.option(
    "--hgrm",
    "hgrm_path",
    type=OutputFile(),
    default=None,
    help="Write the latency percentiles in HdrHistogram's .hgrm format.",
)
@click.option(
    "--hlog", "hlog_path", type=OutputFile(), default=None, help="Write the latencies as an HdrHistogram log."
)
@click.option("--style", type=click.Choice(STYLES), default=None, help="Print the report in that tool's format.")
@click.option(
    "--max-p99",
    "max_p99_s",
    type=Duration(),
    default=None,
    metavar="TIME",
    help="Exit 1 if p99 latency is above this, e.g. 5ms.",
)
@click.option(
    "--max-errors",
    type=Share(least=0.0),
    default=None,
    metavar="SHARE",
    help="Exit 1 if the error rate is above this, e.g. 0.1%.",
)
@click.option(
    "--min-reached",
    type=Share(),
    default=None,
    metavar="SHARE",
    help="Exit 1 if less than this share of the offered requests left on time, e.g. 99%.",
)
@allow_host_option
@fleet_option
@click.option(
    "--quiet",
    "-q",
    is_flag=True,
    help="Print no report and no progress, only what a script prints; write files and set the exit code.",
)
@gathered(LoadOptions)
def load(options: LoadOptions) -> None:
    """Load URL and report; every response is checked against a reference response.

    Closed loop by default: each connection sends its next request as soon as the last one is answered. With -R,
    --ramp or --steps an open loop: requests leave on schedule, and latency counts from the scheduled time.

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

    Exit code 0; 1 if the run ended early, most requests failed, or a --max-… or --min-… limit was missed; 130 if
    interrupted.
    """
    request = _request(options)
    live = Live(Console(stderr=True), quiet=options.quiet)
    try:
        result = loaded(options.fleet, request, live)
    finally:
        live.close()
    objectives = limits(
        result, max_p99_s=options.max_p99_s, max_errors=options.max_errors, min_reached=options.min_reached
    )
    _report(result, objectives, options)
    if result.finished == "interrupted":
        sys.exit(EXIT_INTERRUPTED)
    if result.trouble or not all(objective.met for objective in objectives):
        sys.exit(EXIT_FAILURE)


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
        about_tls = "; --insecure takes any certificate" if options.url.startswith("https") else ""
        message = f"dragstrip: -k: connections are kept alive by default; the word changes nothing{about_tls}"
        click.echo(message, err=True)
    return loading.LoadRequest(
        url=options.url,
        connections=options.connections,
        requests=options.requests,
        duration_s=options.duration_s,
        threads=options.threads,
        keepalive=not options.no_keepalive,
        http=_http(options),
        unix=options.unix,
        cacert=options.cacert,
        insecure=options.insecure,
        handshakes=_handshakes(options),
        close_after=options.close_after,
        pipeline=options.pipeline,
        streams=options.streams,
        first_byte=options.first_byte,
        sources=options.sources or None,
        pool=_pool(options),
        script=read_script(options.script, options.args) if options.script else None,
        method=options.method,
        headers=_headers(options),
        body=_body(f"@{options.body_file}" if options.body_file else options.body),
        timeout_s=options.timeout_s,
        expect_status=options.status,
        io=options.io,
        awake=options.awake,
        check=options.check,
        offer=offer(options, draws=options.url_template is not None),
        allowed=options.allowed,
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
    """The headers of -H, and those that other options are short for."""
    short = {
        "Content-Type": ("-T", options.content_type),
        "Cookie": ("--cookie", "; ".join(options.cookies)),
        "Authorization": ("--basic-auth", options.basic_auth),
    }
    given = {name.lower() for name, _ in options.headers}
    for name, (option, value) in short.items():
        if value and name.lower() in given:
            raise BadUsage(f"{option} and -H '{name}: …' set the same header; give one of them")
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
    """The report where it is wanted, and the files; JSON on the standard output has that for itself."""
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
    write_or_refuse(
        [
            ("--json", options.json_path, lambda: json_text(export.load_json(result, objectives))),
            ("--hgrm", options.hgrm_path, lambda: export.hgrm(result)),
            ("--hlog", options.hlog_path, lambda: export.hlog(result)),
        ],
        measured=True,
    )
