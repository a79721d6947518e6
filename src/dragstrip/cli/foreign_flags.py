"""Flags that other tools taught people's fingers, and what says the same here: a table, not a guess by spelling."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from dragstrip.cli.other_tools_flags import hints

#: What no command here does, whoever asks.
_NOWHERE = {
    "--http2": "--http 2; --streams N for more than one request at a time on each connection",
    "--http3": "Dragstrip supports HTTP/2, 1.1 and 1.0; leave it out",
    "--proxy": "Dragstrip uses no proxy; leave it out",
    "--no-color": "NO_COLOR=1 in the environment does that",
    "--debug": "`dragstrip show last --parity` and `dragstrip doctor` show more",
}

#: Connections and rates have one word here, for every command that loads.
_LOADING = {
    "--vus": "k6's virtual users are connections here: -c N",
    "--concurrency": "-c N (--connections)",
    "--conns": "-c N (--connections)",
    "--connection": "-c N (--connections)",
    "--clients": "-c N (--connections)",
    "--workers": "vegeta's workers are connections here: -c N",
    "--max-workers": "vegeta's workers are connections here: -c N",
    "--qps": "-R RATE (--rate): requests per second, as an open loop",
    "--rps": "-R RATE (--rate): requests per second, as an open loop",
    "--cpus": "hey's CPUs are engine threads here: -t N",
    "--time": "-d TIME (--duration)",
    "--timelimit": "-d TIME (--duration)",
    "--time-limit": "-d TIME (--duration)",
    "--keep-alive": "connections are kept alive by default; --no-keepalive opens one per request",
    "--latency-correction": "leave it out: with -R latency always counts from the scheduled send time",
    "--request-timeout": "--timeout TIME",
    "--no-tui": "-q (--quiet)",
    "--summary-export": "--json FILE",
    "--out": "--json FILE",
    "--output": "--json FILE",
}

#: Of ``load``: ab's, hey's, wrk2's, k6's and vegeta's. What wrk, h2load and oha mean by the same flag is in
#: ``other_tools_flags``, and is said, too.
_LOAD = {
    "-u": "curl's name and password: --basic-auth USER:PASS; k6's virtual users: -c N; ab's PUT: -m PUT -b @FILE",
    "--user": "--basic-auth USER:PASS",
    "--auth": "--basic-auth USER:PASS",
    "--cookies": "--cookie NAME=VALUE",
    "--http2-prior-knowledge": "--h2c",
    "-p": "ab's POST: -m POST -b @FILE",
    "-w": "ab's HTML tables: not supported; --json FILE has everything",
    "-y": "ab's HTML tables: not supported; --json FILE has everything",
    "-r": "ab's -r is the default here: errors are counted and the run goes on",
    "-l": "ab's variable lengths: --check length checks no more than the length; --pool gives each request its answer",
    "-A": "ab's name and password: --basic-auth USER:PASS; hey's Accept: -H 'Accept: …'",
    "-B": "ab's source address: --sources N",
    "-E": "ab's client certificate: not supported; leave it out",
    "-f": "ab's TLS version: 1.2 or 1.3, as the server prefers; leave it out",
    "-I": "ab's TLS without a name: the URL's name is sent; leave it out",
    "-L": "wrk2's percentiles: always shown, leave it out",
    "-P": "ab's password for a proxy: no proxy is used; leave it out",
    "-S": "ab's -S: has no counterpart; leave it out",
    "-U": "wrk2's latency from the actual send: shown with -R; hey's User-Agent: -H 'User-Agent: …'",
    "-V": "ab's version: dragstrip --version",
    "-v": "ab's more output: --json FILE has everything",
    "-X": "Dragstrip uses no proxy; leave it out",
    "-Z": "ab's ciphers: Dragstrip uses rustls's; the report names the one that was used",
    "-i": "ab's HEAD: -m HEAD; k6's iterations: -n N",
    "-g": "--json FILE or --hlog FILE; gnuplot reads --hgrm FILE",
    "-e": "--json FILE or --hgrm FILE",
    "-o": "hey's CSV: --json FILE",
    "-x": "hey's proxy: Dragstrip uses no proxy; leave it out",
    "--no-tui": "leave it out: a terminal gets one live line, removed at the end; -q (--quiet) also prints no report",
    "--iterations": "-n N (--requests)",
    "--runs": "a run of load is one run: repeat the command, or `dragstrip race`, which repeats by rounds",
    "--stage": "--steps RATE:TIME,… or --ramp FROM:TO",
    "--stages": "--steps RATE:TIME,… or --ramp FROM:TO",
    "--targets": "vegeta's targets: --pool FILE (TOML or JSON lines)",
    "--latencies": "percentiles are always shown; --hgrm FILE has all of them",
    "--percentiles": "percentiles are always shown; --hgrm FILE has all of them",
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
    "-disable-compression": "leave it out: none is asked for",
    "-disable-keepalive": "--disable-keepalive, or --no-keepalive",
    "-disable-redirects": "leave it out: redirects are never followed",
    "-h2": "--http 2; --streams N for more than one request at a time on each connection",
    "-host": "-H 'Host: …'",
}

#: What a value that was refused may have been meant for, by the parameter's name.
_MEANT = {
    "duration_s": "hey's and oha's body is -b TEXT, h2load's file with one -b @FILE -m POST, ab's -d is left out",
    "threads": "-t is the number of threads: oha's and hey's time for an answer is --timeout TIME, ab's -t is -d TIME",
}

#: Of commands that race: hyperfine's, and load tools' words for a length.
_RACE = {
    "-w": "hyperfine's --warmup: nothing to set, each launch is warmed up until it no longer gets faster",
    "--warm-up": "nothing to set: each launch is warmed up until it no longer gets faster",
    "-r": "--rounds N (--runs)",
    "-m": "hyperfine's --min-runs: nothing to set, a verdict takes at least 10 rounds; --rounds N fixes their number",
    "-M": "hyperfine's --max-runs: --rounds N, or --budget TIME",
    "--min-runs": "nothing to set: a verdict takes at least 10 rounds; --rounds N fixes their number",
    "--max-runs": "--rounds N, or --budget TIME",
    "--command-name": "--name NAME",
    "--requests": "a race ends by time or by rounds: --budget TIME or --rounds N",
    "--iterations": "a race ends by time or by rounds: --budget TIME or --rounds N",
    "-z": "--budget TIME (-d)",
    "-p": "hyperfine's --prepare: a definition's [build] is run before the race (dragstrip new makes a definition)",
    "--prepare": "a definition's [build] is run before the race (`dragstrip new` makes a definition)",
    "--setup": "a definition's [build] is run before the race (`dragstrip new` makes a definition)",
    "--cleanup": "nothing to set: every server is stopped and its files are removed",
    "-i": "answers that are wrong put a contender out, whoever asks; leave it out",
    "--ignore-failure": "answers that are wrong put a contender out, whoever asks; leave it out",
    "-u": "k6's virtual users are connections here: -c N",
    "-L": "a variant of each value: name:key=1 name:key=2",
    "-P": "a variant of each value: name:key=1 name:key=2",
    "--parameter-list": "a variant of each value: name:key=1 name:key=2",
    "--parameter-scan": "a variant of each value: name:key=1 name:key=2",
    "--shell": "a definition's command is run without a shell; --serve 'NAME=sh -c \"…\"' has one",
    "--export-csv": "`dragstrip export last FILE.csv` after the race",
    "--export-asciidoc": "--export-markdown FILE",
    "--markdown": "--export-markdown FILE",
    "--csv": "`dragstrip export last FILE.csv` after the race",
    "--show-output": "`dragstrip show last --json` has each launch's last words",
    "--style": "-q (--quiet), or NO_COLOR=1",
    "--sort": "the ranking is always by the metric that decides; --metric names it",
    "--reference": "every pair is compared: --pairs shows them",
    "--header": "requests are a workload's: --workload FILE.toml",
    "-H": "requests are a workload's: --workload FILE.toml",
    "--body": "requests are a workload's: --workload FILE.toml",
    "--cookie": "requests are a workload's: --workload FILE.toml",
    "--basic-auth": "requests are a workload's: --workload FILE.toml",
    "--h2c": "--http 2",
    "-b": "requests are a workload's: --workload FILE.toml",
    "--method": "requests are a workload's: --workload FILE.toml",
    "--output": "--json FILE or --html FILE",
}

#: A sweep's rates are several, and its length is that of its launches.
_SWEEP = {
    "--rate": "--rates FROM:TO:N",
    "-R": "--rates FROM:TO:N",
    "--qps": "--rates FROM:TO:N",
    "--rps": "--rates FROM:TO:N",
    "--duration": "--launches N sets how often each rate is measured",
    "-d": "--launches N sets how often each rate is measured",
    "--budget": "--launches N sets how often each rate is measured",
}

_BY_COMMAND = {
    "load": _NOWHERE | _LOADING | _LOAD,
    "race": _NOWHERE | _LOADING | _RACE,
    "sweep": _NOWHERE | _LOADING | _SWEEP,
    "rerun": _NOWHERE | {"--budget": "the plan is the recorded race's; `dragstrip race` takes another"},
}


def hint(command: str | None, option: str) -> str | None:
    """What to say here in place of another tool's flag; None if it is no known one."""
    known = _BY_COMMAND.get(command or "", _NOWHERE).get(option)
    if command != "load" or option in _NOWHERE | _LOADING:
        return known
    return "; ".join(text for text in (known, hints(option)) if text) or None


def refuse_one_dash(words: Sequence[str], ctx: click.Context) -> None:
    """Refuses hey's long words after one dash.

    Raises:
        click.UsageError: says what would do.
    """
    for word in words:
        if word == "--":
            return
        if remedy := _ONE_DASH.get(word.partition("=")[0]):
            raise click.UsageError(f"unknown option {word}; {remedy}", ctx)


def hinted(error: click.UsageError) -> click.UsageError:
    """The refusal, with what would do where the flag is one that another tool has."""
    name = error.ctx.info_name if error.ctx else None
    if isinstance(error, click.NoSuchOption):
        if remedy := hint(name, error.option_name):
            return click.UsageError(f"no such option here: {error.option_name}; {remedy}", error.ctx)
        return error
    if isinstance(error, click.BadParameter) and name == "load":
        remedy = _MEANT.get(error.param.name or "", "") if error.param else ""
        if remedy:
            message = f"{error.message.rstrip('.')}; {remedy}"
            return click.BadParameter(message, error.ctx, error.param, error.param_hint)
        return error
    # hey's and oha's -q RATE, and ab's and wrk's words that take no value here.
    if name == "load" and re.search(r"unexpected extra argument", error.message):
        given = error.ctx.params if error.ctx else {}
        remedy = "; -q is --quiet: hey's and oha's -q RATE is -R RATE" if given.get("quiet") else ""
        remedy += "; -k is ab's keep-alive and takes no value" if given.get("keep_word") else ""
        several = re.search(r"https?://", error.message) and str(given.get("url", "")).startswith("http")
        remedy += "; one URL: --pool FILE or --url-template PATH for several" if several else ""
        if remedy:
            return click.UsageError(error.message.rstrip(".") + remedy, error.ctx)
    return error
