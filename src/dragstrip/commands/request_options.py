"""Options for the request itself, which ``load`` and the commands that race share, and the workloads that they name."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from dragstrip.commands.options import completed_by, option
from dragstrip.commands.quantities import Count, TextType
from dragstrip.errors import BadUsage
from dragstrip.paths import is_file
from dragstrip.racing.options import REQUEST
from dragstrip.report.figures import visible
from dragstrip.store.masking import is_secret
from dragstrip.workload import Workload, load
from dragstrip.workload.typed import CHECKS, TypedRequest, is_path


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
    """A request's method; not h2load's number of streams, and not hyperfine's number of runs."""
    if text.isdigit():
        raise ValueError(
            f"{text!r} is not a valid method; use GET or POST (h2load's -m {text} is --streams {text} here; "
            "hyperfine's has no equivalent)"
        )
    return text


_of_request = partial(option, group=REQUEST)
workload_option = partial(
    _of_request, "--workload", multiple=True, shell_complete=completed_by("workloads"), metavar="NAME[,NAME…]"
)
header_option = partial(
    _of_request, "--header", "-H", type=TextType("header", _header), multiple=True, metavar="'K: V'"
)
check_option = partial(_of_request, "--check", type=click.Choice(CHECKS), default="auto")


@dataclass(frozen=True, kw_only=True)
class RequestFlags:
    """What a request sends and which response is correct, with the flags of wrk, ab, hey, oha and curl."""

    method: str | None = _of_request(
        "--method", "-m", type=TextType("method", _method), help="HTTP method. [default: GET, or POST with a body]"
    )
    headers: tuple[tuple[str, str], ...] = header_option(help="Add a request header; may be repeated.")
    cookies: tuple[str, ...] = _of_request(
        "--cookie",
        "-C",
        type=TextType("cookie", _cookie),
        multiple=True,
        metavar="NAME=V",
        help="Add a cookie; may be repeated.",
    )
    basic_auth: str | None = _of_request(
        "--basic-auth",
        "-a",
        type=TextType("credentials", _authorization),
        metavar="USER:PASS",
        help="Authorization: Basic.",
    )
    body: str | None = _of_request("--body", "-b", help="Request body: text, or @FILE.")
    body_file: str | None = _of_request("-D", metavar="FILE", help="Same as --body @FILE, as in hey and oha.")
    content_type: str | None = _of_request(
        "-T", metavar="TYPE", help="Same as -H 'Content-Type: TYPE', as in ab and hey."
    )
    expect_status: int | None = _of_request(
        "--status",
        type=Count(200, 599),
        help="Expected status. [default: the reference response's, which must be 2xx]",
    )
    check: str = check_option(
        help="Compare this much of each response: full (every byte), length (its length), status (only the status), "
        "auto (all that does not change by itself).",
    )


def method_of(flags: RequestFlags) -> str:
    """The given method, otherwise POST if there is a body, as curl does, otherwise GET."""
    return flags.method or ("GET" if flags.body is None and flags.body_file is None else "POST")


def headers_of(flags: RequestFlags) -> tuple[tuple[str, str], ...]:
    """The headers of -H, and the headers that other options set.

    Raises:
        BadUsage: two options set the same header, or a content type is none.
    """
    if flags.content_type is not None and "/" not in flags.content_type:
        raise BadUsage(
            f"-T {flags.content_type}: not a valid content type; use application/json (to end connections, as with"
            " h2load's -T, use --close-after N)"
        )
    short = {
        "Content-Type": ("-T", flags.content_type),
        "Cookie": ("--cookie", "; ".join(flags.cookies)),
        "Authorization": ("--basic-auth", flags.basic_auth),
    }
    given = {name.lower() for name, _ in flags.headers}
    for name, (flag, value) in short.items():
        if value and name.lower() in given:
            raise BadUsage(f"{flag} and -H '{name}: …' set the same header; give one of them")
    return (*flags.headers, *((name, value) for name, (_, value) in short.items() if value))


def body_of(flags: RequestFlags) -> bytes | None:
    """The body: the text itself, or the content of the file that ``@FILE`` or -D names; None if none is given.

    Raises:
        BadUsage: -b and -D are given, or a file can't be read.
    """
    if (file := flags.body_file) is not None:
        if flags.body is not None:
            raise BadUsage(f"-b and -D {file} both set the body; give one of them")
        if re.fullmatch(r"[\d.]+(ms|s|m|h)?", file) and not is_file(Path(file)):
            raise BadUsage(f"-D {file}: -D is a file with the body; h2load's -D is -d TIME")
    text = flags.body if file is None else f"@{file}"
    if text is None or not text.startswith("@"):
        return None if text is None else text.encode()
    from dragstrip.loading.request_pool import bounded  # bodies in files alone need it

    return bounded(Path(text[1:]), f"-b {text}")


@dataclass(frozen=True, kw_only=True)
class RequestOptions(RequestFlags):
    """What a race requests: workloads by name or file, or requests as typed."""

    workload: tuple[str, ...] = workload_option(
        help=(
            "hello (default; GET / if all contenders are your own), multiply, json, post, static, delay, db, queries, "
            "pipelined, handshakes, resumptions; arena-echo-ws over WebSocket; tfb-json, -plaintext, -db, -queries, "
            "-updates, -fortunes, -cached of TechEmpower; arena-baseline, -json, -static, -upload, -crud and others of "
            "HttpArena; a TOML file; or a path like /users/42. Separate several with commas to get one table column "
            "each."
        ),
    )
    paths: tuple[str, ...] = _of_request(
        "--path",
        multiple=True,
        metavar="PATH",
        help="Request this path, e.g. /users/42?x=1; the correct response is learned. Repeat it for more columns.",
    )
    ignore: tuple[str, ...] = _of_request(
        "--ignore",
        multiple=True,
        metavar="/POINTER",
        help="Don't compare this field of JSON responses, e.g. /user/id (JSON Pointer); may be repeated.",
    )


def words_of(texts: Sequence[str]) -> tuple[str, ...]:
    """Every word of ``--workload``; commas separate, but for those in the path of an existing file."""
    return tuple(word for text in texts for word in ([text] if is_file(Path(text)) else text.split(",")))


def typed_requests(
    options: RequestOptions, words: Sequence[str] = (), *, default_path: str | None = None
) -> tuple[TypedRequest, ...]:
    """The typed requests: one for each --path, then one for each word that is a path; () if there is none.

    Args:
        words: of ``--workload``, or what counts without it.
        default_path: requested if there is no other path, as the path of a running server's URL.

    Raises:
        BadUsage: an option of a request is given, and no path; or a value that no request can have.
    """
    paths = (*options.paths, *(word for word in words or words_of(options.workload) if is_path(word)))
    paths = paths or (() if default_path is None else (default_path,))
    if not paths:
        _refuse_pathless(options)
        return ()
    return tuple(
        TypedRequest(
            path=path,
            method=method_of(options),
            headers=headers_of(options),
            body=body_of(options),
            status=options.expect_status,
            check=options.check,
            ignore=options.ignore,
        )
        for path in dict.fromkeys(paths)
    )


def _refuse_pathless(options: RequestOptions, but: Sequence[str] = ()) -> None:
    """A workload has its own request, which the options of a typed one, ``but`` these, would not change."""
    given = {
        "-m": options.method,
        "-H": options.headers,
        "-C": options.cookies,
        "-a": options.basic_auth,
        "-b": options.body,
        "-D": options.body_file,
        "-T": options.content_type,
        "--status": options.expect_status,
        "--check": None if options.check == "auto" else options.check,
        "--ignore": options.ignore,
    }
    flag = next((flag for flag, value in given.items() if value not in (None, ()) and flag not in but), None)
    if flag is not None:
        raise BadUsage(f"{flag} is for a request of your own, and no path is given; add --path /, or leave {flag} out")


def asked_for(
    options: RequestOptions, usual: Sequence[str] = ("hello",), *, default_path: str | None = None
) -> tuple[Workload | TypedRequest, ...]:
    """What is requested, a column each, checked before anything starts: workloads by name or file, then typed requests.

    Args:
        usual: words that count if neither ``--workload`` nor ``--path`` is given.
        default_path: as for ``typed_requests``; used in place of ``usual``.

    Raises:
        BadUsage: an unknown workload, or as ``typed_requests``. BadDefinition: an invalid workload file.
    """
    if options.paths and default_path is not None:
        raise BadUsage(f"--path {options.paths[0]}: a URL has the path {default_path}; give one of the two")
    given = words_of(options.workload)
    words = given or (() if options.paths or default_path is not None else words_of(usual))
    named = tuple(load(word) for word in words if not is_path(word))
    return (*named, *typed_requests(options, words, default_path=None if given else default_path))


def of_record(
    options: RequestOptions,
) -> tuple[tuple[Workload | TypedRequest, ...], tuple[tuple[str, str], ...]]:
    """What is requested of a recorded race: workloads in place of its own, and headers whose values the record masks.

    Raises:
        BadUsage: as ``asked_for``; or an option of a request, apart from its headers, without a path.
    """
    if options.workload or options.paths:
        return asked_for(options, ()), ()
    _refuse_pathless(options, but=("-H", "-C", "-a"))
    return (), headers_of(options)


def without_secrets(typed: Iterable[str]) -> Iterator[str]:
    """The words of a command line as they were typed, with ``…`` for secrets: a reader fills them in."""
    before = ""
    for word in typed:
        attached = re.fullmatch(r"(--(?:header|cookie|basic-auth)=|-[HCa](?=.))(.*)", word, re.DOTALL)
        flag, value = (attached[1], attached[2]) if attached else ("", word)
        if (flag or before).rstrip("=") in ("--header", "-H"):
            name, colon, _ = value.partition(":")
            value = f"{name}: …" if colon and is_secret(name) else value
        elif (flag or before).rstrip("=") in ("--cookie", "-C", "--basic-auth", "-a"):
            value = re.sub(r"[=:].*", lambda found: f"{found[0][0]}…", value, flags=re.DOTALL)
        before = word
        yield flag + value


def say_unless(quiet: bool) -> Callable[[str], None]:
    """Shows a line on standard error, unless the command is quiet."""

    def say(line: str) -> None:
        if not quiet:
            click.echo(f"dragstrip: {visible(line)}", err=True)

    return say
