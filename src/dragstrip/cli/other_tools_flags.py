"""Every flag of wrk, h2load and oha, and what says the same in ``dragstrip load``.

One table for two readers: docs/other-tools.md is written from it (`make docs`), and ``foreign_flags`` answers a flag
that there is none of here with its line. Flags as of wrk 4.1, h2load 1.52 to 1.70 and oha 1.8 to 1.16; those that came
or went between name their version. ``tests/unit/cli/test_other_tools_flags.py`` compares with each tool's ``--help``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of another tool.

    Args:
        names: its spellings, shortest first.
        means: what it does there.
        here: what says the same here, or why nothing does.
        other: the same spelling means something else here; in words.
        built: its ``--help`` names it only where it was built in.
        since, until: the first and the last version whose ``--help`` names it; "" where all of these do.
    """

    names: tuple[str, ...]
    means: str
    here: str
    other: str = ""
    since: str = ""
    until: str = ""
    built: bool = False


def _flag(
    names: str, means: str, here: str, other: str = "", *, since: str = "", until: str = "", built: bool = False
) -> Flag:
    return Flag(tuple(names.split()), means, here, other, since, until, built)


_SAME = "the same"
_HTTP2 = "HTTP/2's own windows, frames and tables are chosen by the engine; leave it out"
_ONE_RESOLVER = "the URL names the address; leave it out"

WRK = (
    _flag("-c --connections", "connections in all", f"{_SAME}; 10k and 1M, too"),
    _flag("-d --duration", "length of the run", _SAME),
    _flag("-t --threads", "threads", f"{_SAME}; at most one per core"),
    _flag("-s --script", "a script in Lua", f"{_SAME}; its arguments follow `--`"),
    _flag("-H --header", "a header", _SAME),
    _flag("--latency", "prints percentiles", "always shown; in `--style wrk` the same"),
    _flag("--timeout", "time for an answer", f"{_SAME}; what takes longer is an error, and the connection ends"),
    _flag("-v --version", "version", "`dragstrip --version`"),
)

H2LOAD = (
    _flag("-n --requests", "requests in all", f"{_SAME}; the reference requests before the load are among them"),
    _flag("-c --clients", "connections in all", "`-c N` (`--connections`)"),
    _flag("-t --threads", "threads", f"{_SAME}; at most one per core"),
    _flag("-i --input-file", "a file of URLs", "`--pool FILE` (TOML or JSON lines), or `--url-template PATH`"),
    _flag("-m --max-concurrent-streams", "streams on a connection", "`--streams N`; `--pipeline N` in HTTP/1.1",
          "`-m` is the method"),
    _flag("-f --max-frame-size", "HTTP/2 frames", _HTTP2),
    _flag("-w --window-bits", "HTTP/2 window of a stream", _HTTP2),
    _flag("-W --connection-window-bits", "HTTP/2 window of a connection", _HTTP2),
    _flag("-H --header", "a header", _SAME),
    _flag("--ciphers", "ciphers of TLS 1.2", "rustls's ciphers; the report names the one that was used"),
    _flag("--tls13-ciphers", "ciphers of TLS 1.3", "rustls's ciphers; the report names the one that was used"),
    _flag("-p --no-tls-proto", "protocol in the clear", "HTTP/1.1 unless `--http` says otherwise"),
    _flag("-d --data", "a file with the body", "`-b @FILE` with `-m POST`", "`-d` is the duration"),
    _flag("-r --rate", "new connections per second", "`--no-keepalive -R RATE`: a connection for each request"),
    _flag("--rate-period", "period of `-r`", "`-R RATE` is per second"),
    _flag("-D --duration", "length of the run", "`-d TIME`", "`-D` is a file with the body"),
    _flag("--warm-up-time", "load that is not counted", "run `load` once before; a race warms up by itself"),
    _flag("-T --connection-active-timeout", "how long a connection is used", "`--close-after N` counts its requests",
          "`-T` is the content type"),
    _flag("-N --connection-inactivity-timeout", "how long an answer may take", "`--timeout TIME`"),
    _flag("--timing-script-file", "URLs with times", "`--steps` or `--ramp` say rates, `--pool` requests"),
    _flag("-B --base-uri", "the server of the input file, or a socket", "the URL itself; `--unix PATH` for a socket"),
    _flag("--npn-list", "protocols by preference", "`--http`", until="1.58"),
    _flag("--alpn-list", "protocols by preference", "`--http`", since="1.59"),
    _flag("--h1", "HTTP/1.1", "the default; leave it out"),
    _flag("--h3", "HTTP/3", "HTTP/3 is not spoken", since="1.69"),
    _flag("--header-table-size", "HTTP/2 header table", _HTTP2),
    _flag("--encoder-header-table-size", "HTTP/2 header table", _HTTP2),
    _flag("--log-file", "a line for each request", "`--hlog FILE` has a histogram for each second"),
    _flag("--qlog-file-base", "QUIC's log", "HTTP/3 is not spoken"),
    _flag("--connect-to", "another address than the URL's", _ONE_RESOLVER),
    _flag("--rps", "requests per second on each connection", "`-R RATE` counts all connections together"),
    _flag("--groups", "TLS key exchange", "rustls's key exchange groups"),
    _flag("--no-udp-gso", "QUIC's packets", "HTTP/3 is not spoken"),
    _flag("--max-udp-payload-size", "QUIC's packets", "HTTP/3 is not spoken"),
    _flag("--ktls", "TLS by the kernel", "TLS is rustls' own"),
    _flag("--sni", "the name asked for by TLS", "the URL's name; `--unix` or the hosts file leads it elsewhere",
          since="1.60"),
    _flag("--histogram", "a histogram of latencies", "`--style oha` has one; `--hgrm FILE`", since="1.69"),
    _flag("--tls-session-file", "resumes a TLS session", "`--tls resumed`", since="1.69"),
    _flag("--output-file", "JSON", "`--json FILE`", since="1.69"),
    _flag("-v --verbose", "more output", "`--json FILE` has everything"),
    _flag("--version", "version", "`dragstrip --version`"),
    _flag("-h --help", "help", _SAME),
)  # fmt: skip

OHA = (
    _flag("-n", "requests in all", f"{_SAME}; the reference requests before the load are among them"),
    _flag("-c", "connections", _SAME),
    _flag("-p", "parallel requests on an HTTP/2 connection", "`--streams N`; `--pipeline N` in HTTP/1.1"),
    _flag("-z", "length of the run", f"{_SAME}, or `-d TIME`"),
    _flag("-w --wait-ongoing-requests-after-deadline", "waits for requests in flight at the end", "always done"),
    _flag("-q", "requests per second in all", "`-R RATE`", "`-q` is `--quiet`"),
    _flag("--burst-delay", "pause between bursts", "a script's `delay()`, or `--steps` with a rate of 0"),
    _flag("--burst-rate", "requests of a burst", "`--steps RATE:TIME,0:TIME`"),
    _flag("--rand-regex-url", "URLs at random", "`--url-template '/item/{int:1..1000}'`"),
    _flag("--urls-from-file", "URLs of a file", "`--pool FILE` (TOML or JSON lines)"),
    _flag("--max-repeat", "bound of the random URLs", "`{text:8}` has its own length"),
    _flag("--dump-urls", "prints the random URLs", "the server's log has them"),
    _flag("--latency-correction", "latency from when a request was due", "always so with `-R`; leave it out"),
    _flag("--no-tui", "no live view", "leave it out: one line, on a terminal, removed at the end"),
    _flag("--fps", "frames per second of the live view", "the live line changes every second; leave it out"),
    _flag("-m --method", "method", _SAME),
    _flag("-H", "a header", _SAME),
    _flag("--proxy-header", "a header for the proxy", "no proxy is used"),
    _flag("-t", "time for an answer", "`--timeout TIME`", "`-t` is the number of threads"),
    _flag("--connect-timeout", "time for a connection", "`--timeout TIME` bounds that, too", since="1.11"),
    _flag("-A", "the Accept header", "`-H 'Accept: …'`"),
    _flag("-d", "the body", "`-b TEXT`", "`-d` is the duration"),
    _flag("-D", "a file with the body", _SAME),
    _flag("-Z", "a file, a body for each line", "`--pool FILE`, a request for each", since="1.11"),
    _flag("-F --form", "a form", "`-b TEXT -T TYPE`", since="1.10"),
    _flag("-T", "content type", _SAME),
    _flag("-a", "name and password", f"{_SAME}, or `--basic-auth USER:PASS`"),
    _flag("--aws-session", "AWS credentials", "requests are not signed; a script can add headers"),
    _flag("--aws-sigv4", "AWS signature", "requests are not signed; a script can add headers"),
    _flag("-x", "a proxy", "no proxy is used; leave it out"),
    _flag("--proxy-http-version", "the proxy's HTTP", "no proxy is used; leave it out"),
    _flag("--proxy-http2", "the proxy's HTTP", "no proxy is used; leave it out"),
    _flag("--http-version", "version of HTTP", "`--http`"),
    _flag("--http2", "HTTP/2", "`--http 2`, or `--h2c` in the clear"),
    _flag("--host", "the Host header", "`-H 'Host: …'`"),
    _flag("--disable-compression", "asks for no compression", "the default; leave it out"),
    _flag("-r --redirect", "redirects to follow", "none is followed: the answer is what is measured"),
    _flag("--disable-keepalive", "a connection per request", f"{_SAME}, or `--no-keepalive`"),
    _flag("--no-pre-lookup", "looks names up later", _ONE_RESOLVER),
    _flag("--ipv6", "IPv6 only", "the URL: `http://[::1]:8080/`"),
    _flag("--ipv4", "IPv4 only", "the URL: `http://127.0.0.1:8080/`"),
    _flag("--cacert", "trusted CA certificates", _SAME),
    _flag("--cert", "the client's certificate", "none is shown to servers"),
    _flag("--key", "the client's key", "none is shown to servers"),
    _flag("--insecure", "takes any certificate", _SAME),
    _flag("--connect-to", "another address than the URL's", _ONE_RESOLVER),
    _flag("--no-color", "no colours", "`NO_COLOR=1` in the environment", since="1.12"),
    _flag("--disable-color", "no colours", "`NO_COLOR=1` in the environment", until="1.11"),
    _flag("--unix-socket", "a unix socket", f"{_SAME}, or `--unix PATH`"),
    _flag("--vsock-addr", "a VM socket", "TCP and unix sockets only", built=True),
    _flag("--stats-success-breakdown", "statistics by success", "latencies are those of right answers alone"),
    _flag("--db-url", "a database with each request", "`--hlog FILE` or `--json FILE`"),
    _flag("--debug", "one request, shown", "`curl -v` does that"),
    _flag("-o --output", "a file for the report", "`--json FILE`, or `> FILE`"),
    _flag("--output-format", "text, JSON, CSV or nothing", "`--json FILE`, `--style oha`, `-q`", since="1.9"),
    _flag("-j --json", "JSON", "`--json FILE`, `-` for the standard output", until="1.8"),
    _flag("-u --time-unit", "unit of times", "each time has its own unit; JSON has microseconds", since="1.9"),
    _flag("--worker-threads", "threads", "`-t N` (`--threads`)", since="1.16"),
    _flag("-V --version", "version", "`dragstrip --version`"),
    _flag("-h --help", "help", _SAME),
)

#: By tool, in the order of the page.
TOOLS = {"wrk": WRK, "h2load": H2LOAD, "oha": OHA}


def hints(option: str) -> str:
    """What says the same here as that flag does of each tool that has it; "" where none has it."""
    found: dict[str, list[str]] = {}
    for tool, flags in TOOLS.items():
        for flag in flags:
            if option in flag.names and flag.here != _SAME:
                found.setdefault(f"{flag.means}: {flag.here}".replace("`", ""), []).append(tool)
    return "; ".join(f"{' and '.join(tools)}'s {text}" for text, tools in found.items())


def tables() -> list[str]:
    """The page's tables, in Markdown."""
    lines: list[str] = []
    for tool, flags in TOOLS.items():
        lines += [f"### {tool}", "", f"| {tool} | does there | here |", "|-|-|-|"]
        for flag in flags:
            names = ", ".join(f"`{name}`" for name in flag.names)
            names += f" (from {flag.since})" if flag.since else ""
            names += f" (to {flag.until})" if flag.until else ""
            names += " (where built in)" if flag.built else ""
            other = f"; **{flag.other}**" if flag.other else ""
            lines.append(f"| {names} | {flag.means} | {flag.here}{other} |")
        lines.append("")
    return lines[:-1]
