"""Other tools' flags, and what does the same here: a refusal names it, and docs/other-tools.md lists it.

``TOOLS`` has every flag of wrk, h2load and oha, as of wrk 4.1, h2load 1.52 to 1.70 and oha 1.8 to 1.16; a flag that
only some of these versions have names them. ``tests/extras/compat/test_flags.py`` compares with each tool's ``--help``.
The other tables have flags of ab, hey, hyperfine, wrk2, k6, vegeta and curl, by the command that refuses them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of another tool.

    Args:
        names: its spellings, shortest first, with blanks between them.
        means: what it does there.
        equivalent: the option that does the same here, or why none does.
        other: what the same spelling means here, if it means something else.
        built: only some builds have it in their ``--help``.
        since, until: the first and the last version whose ``--help`` names it; "" if all of these do.
    """

    names: str
    means: str
    equivalent: str
    other: str = ""
    since: str = ""
    until: str = ""
    built: bool = False


_SAME = "the same"
_HTTP2 = "the engine chooses HTTP/2's windows, frames and tables; leave it out"
_ONE_RESOLVER = "the URL names the address; leave it out"

WRK = (
    Flag("-c --connections", "connections in all", f"{_SAME}; also 10k and 1M"),
    Flag("-d --duration", "length of the run", _SAME),
    Flag("-t --threads", "threads", f"{_SAME}; at most one per core"),
    Flag("-s --script", "a script in Lua", f"{_SAME}; its arguments follow `--`"),
    Flag("-H --header", "a header", _SAME),
    Flag("--latency", "prints percentiles", "always shown; in `--style wrk` the same"),
    Flag("--timeout", "time limit for one response", f"{_SAME}; a slower one is an error and ends its connection"),
    Flag("-v --version", "version", "`dragstrip --version`"),
)

H2LOAD = (
    Flag("-n --requests", "requests in all", f"{_SAME}; the reference requests before the load are among them"),
    Flag("-c --clients", "connections in all", "`-c N` (`--connections`)"),
    Flag("-t --threads", "threads", f"{_SAME}; at most one per core"),
    Flag("-i --input-file", "a file of URLs", "`--pool FILE` (TOML or JSON lines), or `--url-template PATH`"),
    Flag("-m --max-concurrent-streams", "streams on a connection", "`--streams N`; `--pipeline N` in HTTP/1.1",
         "`-m` is the method"),
    Flag("-f --max-frame-size", "HTTP/2 frames", _HTTP2),
    Flag("-w --window-bits", "HTTP/2 window of a stream", _HTTP2),
    Flag("-W --connection-window-bits", "HTTP/2 window of a connection", _HTTP2),
    Flag("-H --header", "a header", _SAME),
    Flag("--ciphers", "ciphers of TLS 1.2", "rustls's ciphers; the report names the cipher that was used"),
    Flag("--tls13-ciphers", "ciphers of TLS 1.3", "rustls's ciphers; the report names the cipher that was used"),
    Flag("-p --no-tls-proto", "protocol without TLS", "HTTP/1.1, or what `--http` sets"),
    Flag("-d --data", "a file with the body", "`-b @FILE` with `-m POST`", "`-d` is the duration"),
    Flag("-r --rate", "new connections per second", "`--no-keepalive -R RATE`: one connection per request"),
    Flag("--rate-period", "period of `-r`", "`-R RATE` is per second"),
    Flag("-D --duration", "length of the run", "`-d TIME`", "`-D` is a file with the body"),
    Flag("--warm-up-time", "load that is not counted", "run `load` once before; a race warms up by itself"),
    Flag("-T --connection-active-timeout", "how long a connection is used", "`--close-after N` counts its requests",
         "`-T` is the content type"),
    Flag("-N --connection-inactivity-timeout", "time limit for one response", "`--timeout TIME`"),
    Flag("--timing-script-file", "URLs with times", "`--steps` or `--ramp` set rates, `--pool` sets requests"),
    Flag("-B --base-uri", "the server of the input file, or a socket", "the URL itself; `--unix PATH` for a socket"),
    Flag("--npn-list", "protocols by preference", "`--http`", until="1.58"),
    Flag("--alpn-list", "protocols by preference", "`--http`", since="1.59"),
    Flag("--h1", "HTTP/1.1", "the default; leave it out"),
    Flag("--h3", "HTTP/3", "HTTP/3 is not supported", since="1.69"),
    Flag("--header-table-size", "HTTP/2 header table", _HTTP2),
    Flag("--encoder-header-table-size", "HTTP/2 header table", _HTTP2),
    Flag("--log-file", "one line per request", "`--hlog FILE` has one histogram per second"),
    Flag("--qlog-file-base", "QUIC's log", "HTTP/3 is not supported"),
    Flag("--connect-to", "another address than the URL's", _ONE_RESOLVER),
    Flag("--rps", "requests per second on each connection", "`-R RATE` counts all connections together"),
    Flag("--groups", "TLS key exchange", "rustls's key exchange groups"),
    Flag("--no-udp-gso", "QUIC's packets", "HTTP/3 is not supported"),
    Flag("--max-udp-payload-size", "QUIC's packets", "HTTP/3 is not supported"),
    Flag("--ktls", "TLS by the kernel", "not supported; rustls does TLS"),
    Flag("--sni", "the host name sent by TLS", "the URL's name; `--unix` or the hosts file sets another address",
         since="1.60"),
    Flag("--histogram", "a histogram of latencies", "`--style oha` has one; `--hgrm FILE`", since="1.69"),
    Flag("--tls-session-file", "resumes a TLS session", "`--tls resumed`", since="1.69"),
    Flag("--output-file", "JSON", "`--json FILE`", since="1.69"),
    Flag("-v --verbose", "more output", "`--json FILE` has everything"),
    Flag("--version", "version", "`dragstrip --version`"),
    Flag("-h --help", "help", _SAME),
)  # fmt: skip

OHA = (
    Flag("-n", "requests in all", f"{_SAME}; the reference requests before the load are among them"),
    Flag("-c", "connections", _SAME),
    Flag("-p", "parallel requests on an HTTP/2 connection", "`--streams N`; `--pipeline N` in HTTP/1.1"),
    Flag("-z", "length of the run", f"{_SAME}, or `-d TIME`"),
    Flag("-w --wait-ongoing-requests-after-deadline", "waits for requests in flight at the end", "always done"),
    Flag("-q", "requests per second in all", "`-R RATE`", "`-q` is `--quiet`"),
    Flag("--burst-delay", "pause between bursts", "a script's `delay()`, or `--steps` with a rate of 0"),
    Flag("--burst-rate", "requests of a burst", "`--steps RATE:TIME,0:TIME`"),
    Flag("--rand-regex-url", "random URLs", "`--url-template '/item/{int:1..1000}'`"),
    Flag("--urls-from-file", "URLs of a file", "`--pool FILE` (TOML or JSON lines)"),
    Flag("--max-repeat", "limit of repeats in random URLs", "`{text:8}` has its own length"),
    Flag("--dump-urls", "prints the random URLs", "the server's log has them"),
    Flag("--latency-correction", "latency from the scheduled send time", "always so with `-R`; leave it out"),
    Flag("--no-tui", "no live view", "leave it out: one line, on a terminal, removed at the end"),
    Flag("--fps", "frames per second of the live view", "the live line changes every second; leave it out"),
    Flag("-m --method", "method", _SAME),
    Flag("-H", "a header", _SAME),
    Flag("--proxy-header", "a header for the proxy", "no proxy is used"),
    Flag("-t", "time limit for one response", "`--timeout TIME`", "`-t` is the number of threads"),
    Flag("--connect-timeout", "time for a connection", "`--timeout TIME` includes it", since="1.11"),
    Flag("-A", "the Accept header", "`-H 'Accept: …'`"),
    Flag("-d", "the body", "`-b TEXT`", "`-d` is the duration"),
    Flag("-D", "a file with the body", _SAME),
    Flag("-Z", "a file with one body per line", "`--pool FILE`, one request per body", since="1.11"),
    Flag("-F --form", "a form", "`-b TEXT -T TYPE`", since="1.10"),
    Flag("-T", "content type", _SAME),
    Flag("-a", "name and password", f"{_SAME}, or `--basic-auth USER:PASS`"),
    Flag("--aws-session", "AWS credentials", "requests are not signed; a script can add headers"),
    Flag("--aws-sigv4", "AWS signature", "requests are not signed; a script can add headers"),
    Flag("-x", "a proxy", "no proxy is used; leave it out"),
    Flag("--proxy-http-version", "the proxy's HTTP", "no proxy is used; leave it out"),
    Flag("--proxy-http2", "the proxy's HTTP", "no proxy is used; leave it out"),
    Flag("--http-version", "version of HTTP", "`--http`"),
    Flag("--http2", "HTTP/2", "`--http 2`, or `--h2c` without TLS"),
    Flag("--host", "the Host header", "`-H 'Host: …'`"),
    Flag("--disable-compression", "requests no compression", "the default; leave it out"),
    Flag("-r --redirect", "redirects to follow", "redirects are never followed"),
    Flag("--disable-keepalive", "a connection per request", f"{_SAME}, or `--no-keepalive`"),
    Flag("--no-pre-lookup", "resolves host names later", _ONE_RESOLVER),
    Flag("--ipv6", "IPv6 only", "the URL: `http://[::1]:8080/`"),
    Flag("--ipv4", "IPv4 only", "the URL: `http://127.0.0.1:8080/`"),
    Flag("--cacert", "trusted CA certificates", _SAME),
    Flag("--cert", "the client's certificate", "client certificates are not supported"),
    Flag("--key", "the client's key", "client certificates are not supported"),
    Flag("--insecure", "accepts any certificate", _SAME),
    Flag("--connect-to", "another address than the URL's", _ONE_RESOLVER),
    Flag("--no-color", "no colours", "`NO_COLOR=1` in the environment", since="1.12"),
    Flag("--disable-color", "no colours", "`NO_COLOR=1` in the environment", until="1.11"),
    Flag("--unix-socket", "a unix socket", f"{_SAME}, or `--unix PATH`"),
    Flag("--vsock-addr", "a VM socket", "TCP and unix sockets only", built=True),
    Flag("--stats-success-breakdown", "statistics by success", "latencies cover only correct responses"),
    Flag("--db-url", "a database with all requests", "`--hlog FILE` or `--json FILE`"),
    Flag("--debug", "one request, shown", "use `curl -v`"),
    Flag("-o --output", "a file for the report", "`--json FILE`, or `> FILE`"),
    Flag("--output-format", "text, JSON, CSV or nothing", "`--json FILE`, `--style oha`, `-q`", since="1.9"),
    Flag("-j --json", "JSON", "`--json FILE`, `-` for stdout", until="1.8"),
    Flag("-u --time-unit", "unit of times", "chosen per value; JSON has microseconds", since="1.9"),
    Flag("--worker-threads", "threads", "`-t N` (`--threads`)", since="1.16"),
    Flag("-V --version", "version", "`dragstrip --version`"),
    Flag("-h --help", "help", _SAME),
)

#: By tool, in the order of the page.
TOOLS = {"wrk": WRK, "h2load": H2LOAD, "oha": OHA}

#: Flags that no command supports.
_NOWHERE = {
    "--http2": "--http 2; --streams N for more than one request at a time on each connection",
    "--http3": "Dragstrip supports HTTP/2, 1.1 and 1.0; leave it out",
    "--proxy": "Dragstrip uses no proxy; leave it out",
    "--no-color": "set NO_COLOR=1 in the environment",
    "--debug": "`dragstrip show last --parity` and `dragstrip doctor` show more",
}

#: Flags for connections and rates, in every command that loads.
_LOADING = {
    "--vus": "k6's virtual users are connections here: -c N",
    "--concurrency --conns --connection --clients": "-c N (--connections)",
    "--workers --max-workers": "vegeta's workers are connections here: -c N",
    "--qps --rps": "-R RATE (--rate): requests per second, as an open loop",
    "--cpus": "hey's CPUs are engine threads here: -t N",
    "--time --timelimit --time-limit": "-d TIME (--duration)",
    "--keep-alive": "connections are kept alive by default; --no-keepalive opens one per request",
    "--latency-correction": "leave it out: with -R latency always counts from the scheduled send time",
    "--request-timeout": "--timeout TIME",
    "--no-tui": "-q (--quiet)",
    "--summary-export --out --output": "--json FILE",
}

#: Flags of ab, hey, wrk2, k6 and vegeta in ``load``. The hint also shows what the same flag means in wrk, h2load
#: and oha, from ``TOOLS``.
_LOAD = {
    "-u": "curl's name and password: --basic-auth USER:PASS; k6's virtual users: -c N; ab's PUT: -m PUT -b @FILE",
    "--user --auth": "--basic-auth USER:PASS",
    "--cookies": "--cookie NAME=VALUE",
    "--http2-prior-knowledge": "--h2c",
    "-p": "ab's POST: -m POST -b @FILE",
    "-w -y": "ab's HTML tables: not supported; --json FILE has everything",
    "-r": "ab's -r is the default here: errors are counted and the run continues",
    "-l": "ab's variable lengths: --check status compares only statuses; --pool sets each request's response",
    "-A": "ab's name and password: --basic-auth USER:PASS; hey's Accept: -H 'Accept: …'",
    "-B": "ab's source address: --sources N",
    "-E": "ab's client certificate: not supported; leave it out",
    "-f": "ab's TLS version: 1.2 or 1.3, as the server prefers; leave it out",
    "-I": "ab's TLS without a name: the URL's name is sent; leave it out",
    "-L": "wrk2's percentiles: always shown, leave it out",
    "-P": "ab's password for a proxy: no proxy is used; leave it out",
    "-S": "ab's -S: not supported; leave it out",
    "-U": "wrk2's latency from the actual send: shown with -R; hey's User-Agent: -H 'User-Agent: …'",
    "-V": "ab's version: dragstrip --version",
    "-v": "ab's more output: --json FILE has everything",
    "-X": "curl's method: -m METHOD; ab's proxy: no proxy is used",
    "--data-raw --data-binary --data-urlencode --json-body": "-b TEXT or -b @FILE, with -m POST",
    "-Z": "ab's ciphers: Dragstrip uses rustls's; the report names the cipher that was used",
    "-i": "ab's HEAD: -m HEAD; k6's iterations: -n N",
    "-g": "--json FILE or --hlog FILE; gnuplot reads --hgrm FILE",
    "-e": "--json FILE or --hgrm FILE",
    "-o": "hey's CSV: --json FILE",
    "-x": "hey's proxy: Dragstrip uses no proxy; leave it out",
    "--no-tui": "leave it out: a terminal gets one live line, removed at the end; -q (--quiet) also prints no report",
    "--iterations": "-n N (--requests)",
    "--runs": "a run of load is one run: repeat the command, or `dragstrip race`, which repeats by rounds",
    "--stage --stages": "--steps RATE:TIME,… or --ramp FROM:TO",
    "--targets": "vegeta's targets: --pool FILE (TOML or JSON lines)",
    "--latencies --percentiles": "percentiles are always shown; --hgrm FILE has all of them",
    "--redirect": "redirects are never followed: Dragstrip measures the response to the request itself",
    "--no-redirect": "leave it out: redirects are never followed",
    "--warmup": "run load once before, and measure with the next; a race warms each server up by itself",
    "--export-json": "--json FILE",
    "--export-markdown": "--json FILE; a race writes Markdown with --export-markdown",
    "--name": "load runs have no names; name the file instead: --json mine.json",
    "--budget": "-d TIME (--duration)",
}

#: hey takes whole words after one dash, which is a row of short flags here.
_ONE_DASH = {
    "-cpus": "hey's CPUs are engine threads here: -t N",
    "-disable-compression": "leave it out: Dragstrip requests no compression",
    "-disable-keepalive": "--disable-keepalive, or --no-keepalive",
    "-disable-redirects": "leave it out: redirects are never followed",
    "-h2": "--http 2; --streams N for more than one request at a time on each connection",
    "-host": "-H 'Host: …'",
}

#: What an invalid value may have been meant for, by the parameter's name.
_MEANT = {
    "duration_s": "hey's and oha's body is -b TEXT, h2load's file with one -b @FILE -m POST, ab's -d is left out",
    "threads": "-t is the number of threads: oha's and hey's time limit is --timeout TIME, ab's -t is -d TIME",
}

#: Flags of hyperfine, and load tools' flags for a duration, in ``race``.
_RACE = {
    "-w": "hyperfine's --warmup: nothing to set, each launch is warmed up until it stops getting faster",
    "--warm-up": "nothing to set: each launch is warmed up until it stops getting faster",
    "-r": "--rounds N (--runs)",
    "-M": "hyperfine's --max-runs: --rounds N, or --budget TIME",
    "--min-runs": "nothing to set: a verdict needs at least 5 to 10 rounds; --rounds N fixes their number",
    "--max-runs": "--rounds N, or --budget TIME",
    "--command-name": "--name NAME",
    "--requests --iterations": "a race ends by time or by rounds: --budget TIME or --rounds N",
    "-z": "--budget TIME (-d)",
    "-p": "hyperfine's --prepare: a definition's [build] is run before the race (`dragstrip new NAME` makes one)",
    "--prepare --setup": "a definition's [build] is run before the race (`dragstrip new NAME` makes a definition)",
    "--cleanup": "nothing to set: every server is stopped and its files are removed",
    "-i --ignore-failure": "a contender with incorrect responses is always out; leave it out",
    "-u": "k6's virtual users are connections here: -c N",
    "-L -P --parameter-list --parameter-scan": "a variant of each value: name:key=1 name:key=2",
    "--shell": "a definition's command is run without a shell; --serve 'NAME=sh -c \"…\"' has one",
    "--export-csv --csv": "`dragstrip export last FILE.csv` after the race",
    "--export-asciidoc --markdown": "--export-markdown FILE",
    "--show-output": "`dragstrip show last --json` has each launch's last words",
    "--style": "-q (--quiet), or NO_COLOR=1",
    "--sort": "the ranking is always by the metric that decides; --metric names it",
    "--reference": "every pair is compared: --pairs shows them",
    "--h2c": "--http 2",
    "--output": "--json FILE or --html FILE",
}

#: A sweep has several rates, and its length follows from its launches.
_SWEEP = {
    "--rate -R --qps --rps": "--rates FROM:TO:N",
    "--duration -d --budget": "--launches N sets how often each rate is measured",
}


def _by_flag(*tables: Mapping[str, str]) -> dict[str, str]:
    """Hints by flag; a table's keys are flags that share a hint, with blanks between them, and later tables win."""
    return {flag: text for table in tables for flags, text in table.items() for flag in flags.split()}


_ANYWHERE = _by_flag(_NOWHERE, _LOADING)
_BY_COMMAND = {
    "load": _by_flag(_NOWHERE, _LOADING, _LOAD),
    "race": _by_flag(_NOWHERE, _LOADING, _RACE),
    "sweep": _by_flag(_NOWHERE, _LOADING, _SWEEP),
    "rerun": _by_flag(_NOWHERE, {"--budget": "the plan is the recorded race's; for another one use `dragstrip race`"}),
}


def hint(command: str | None, option: str) -> str | None:
    """The option of a command that does the same as another tool's flag, or why none does; None for unknown flags."""
    known = _BY_COMMAND.get(command or "", _NOWHERE).get(option)
    if command != "load" or option in _ANYWHERE:
        return known
    return "; ".join(text for text in (known, *_hints_by_tool(option)) if text) or None


def _hints_by_tool(option: str) -> list[str]:
    """A hint for each meaning that a flag has in wrk, h2load and oha."""
    tools_by_text: dict[str, list[str]] = {}
    for tool, flags in TOOLS.items():
        for flag in flags:
            if option in flag.names.split() and flag.equivalent != _SAME:
                tools_by_text.setdefault(f"{flag.means}: {flag.equivalent}".replace("`", ""), []).append(tool)
    return [f"{' and '.join(tools)}'s {text}" for text, tools in tools_by_text.items()]


def refuse_one_dash(words: Sequence[str], ctx: click.Context) -> None:
    """Refuses hey's long flags, which begin with one dash.

    Raises:
        click.UsageError: names the option to use instead.
    """
    for word in words:
        if word == "--":
            return
        if remedy := _ONE_DASH.get(word.partition("=")[0]):
            raise click.UsageError(f"unknown option {word}; {remedy}", ctx)


def hinted(error: click.UsageError) -> click.UsageError:
    """The refusal; if it is of another tool's flag, it also names the option that does the same here."""
    name = error.ctx.info_name if error.ctx else None
    if isinstance(error, click.NoSuchOption):
        remedy = hint(name, error.option_name)
        return click.UsageError(f"unknown option {error.option_name}; {remedy}", error.ctx) if remedy else error
    if name != "load":
        return error
    message = error.message.rstrip(".")
    if isinstance(error, click.BadParameter):
        remedy = _MEANT.get(error.param.name or "") if error.param else None
        return click.BadParameter(f"{message}; {remedy}", error.ctx, error.param, error.param_hint) if remedy else error
    remedy = _about_surplus(error) if "unexpected extra argument" in message else ""
    return click.UsageError(message + remedy, error.ctx) if remedy else error


def _about_surplus(error: click.UsageError) -> str:
    """What words mean that no option of ``load`` takes: the values of hey's and oha's -q and of ab's -k, or URLs."""
    given = error.ctx.params if error.ctx else {}
    remedy = "; -q is --quiet: hey's and oha's -q RATE is -R RATE" if given.get("quiet") else ""
    remedy += "; -k is ab's keep-alive and takes no value" if given.get("keep_word") else ""
    several = re.search(r"https?://", error.message) and str(given.get("url", "")).startswith("http")
    return remedy + ("; one URL: --pool FILE or --url-template PATH for several" if several else "")


def tables() -> list[str]:
    """The page's tables, in Markdown."""
    lines: list[str] = []
    for tool, flags in TOOLS.items():
        lines += [f"### {tool}", "", f"| {tool} | meaning | in Dragstrip |", "|-|-|-|"]
        for flag in flags:
            names = ", ".join(f"`{name}`" for name in flag.names.split())
            names += f" (from {flag.since})" if flag.since else ""
            names += f" (to {flag.until})" if flag.until else ""
            names += " (where built in)" if flag.built else ""
            other = f"; **{flag.other}**" if flag.other else ""
            lines.append(f"| {names} | {flag.means} | {flag.equivalent}{other} |")
        lines.append("")
    return lines[:-1]
