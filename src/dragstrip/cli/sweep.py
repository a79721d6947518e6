"""``dragstrip sweep``: latency against offered rate, and capacity under a service-level objective."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from dragstrip import contender
from dragstrip.cli import completion
from dragstrip.cli.open_loop_options import Rate
from dragstrip.cli.options import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_VOID,
    Duration,
    Output,
    awake_option,
    definitions,
    store_option,
    write_json,
)
from dragstrip.errors import BadUsage
from dragstrip.loading.arrivals import MOST_PER_S, PRECISIONS
from dragstrip.racing.request import Request as RaceRequest
from dragstrip.report import sweep as shown
from dragstrip.report.race.live import Progress
from dragstrip.store.database import default_path
from dragstrip.sweep import file as sweep_file
from dragstrip.sweep.capacity import LEAST_LAUNCHES, TOLD, Objective
from dragstrip.sweep.run import Request, run
from dragstrip.workload import load as load_workload

#: More rates than this are no table that anybody reads.
MOST_RATES = 50


class ObjectiveWord(click.ParamType[Objective]):
    """``p99=5ms``: a quantile of the latency, and the limit that it stays below."""

    name = "objective"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Objective:
        """The objective."""
        if isinstance(value, Objective):
            return value
        quantile, equals, limit = str(value).partition("=")
        if not equals or quantile not in TOLD:
            self.fail(f"{value!r} is no objective; use p99=5ms, or {', '.join(TOLD)} with another limit", param, ctx)
        return Objective(quantile=quantile, limit_us=1e6 * Duration().convert(limit, param, ctx))


class Rates(click.ParamType[tuple[float, ...]]):
    """``1k:20k:8`` (eight rates, evenly spaced), ``1k,5k,20k``, or ``auto``, which is none named."""

    name = "rates"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Rates a second, ascending; empty for auto."""
        if isinstance(value, tuple) or value == "auto":
            return value if isinstance(value, tuple) else ()
        text, one = str(value), Rate()
        if span := re.fullmatch(r"([^:,]+):([^:,]+):(\d+)", text):
            first, last, count = one.convert(span[1], param, ctx), one.convert(span[2], param, ctx), int(span[3])
            if not (first < last and 2 <= count <= MOST_RATES):
                self.fail(f"{text!r}: give FROM below TO, and 2 to {MOST_RATES} rates; use 1k:20k:8", param, ctx)
            rates = [float(f"{first + (last - first) * at / (count - 1):.4g}") for at in range(count)]
        else:
            rates = sorted({one.convert(word.strip(), param, ctx) for word in text.split(",")})
        if not 0 < rates[0] <= rates[-1] <= MOST_PER_S or len(rates) > MOST_RATES:
            limits = f"1 to {MOST_RATES} rates above 0, up to {MOST_PER_S:,.0f} a second"
            self.fail(f"{text!r} can't be offered; {limits} (1k:20k:8, 1k,5k,20k or auto)", param, ctx)
        return tuple(rates)


@click.command()
@click.argument("contenders", nargs=-1, shell_complete=completion.contenders)
@click.option("--serve", multiple=True, metavar='"NAME=COMMAND {port}"', help="Sweep a command of your own.")
@definitions
@click.option("--slo", type=ObjectiveWord(), default="p99=5ms", show_default=True, help="What capacity is under.")
@click.option(
    "--rates", type=Rates(), default="auto", show_default=True, metavar="A:B:N", help="To begin with; or 1k,5k,20k."
)
@click.option(
    "--launches",
    type=click.IntRange(LEAST_LAUNCHES, 1000),
    default=5,
    show_default=True,
    help="Fresh ones at each rate; more narrow the intervals.",
)
@click.option(
    "--workload",
    default="hello",
    shell_complete=completion.workloads,
    show_default=True,
    help="hello, multiply, or a TOML file.",
)
@click.option("--connections", "-c", type=click.IntRange(1, 100_000), default=32, show_default=True)
@click.option("--threads", "-t", type=click.IntRange(1, 256), default=None, help="Engine threads; one per core.")
@click.option("--timeout", type=Duration(), default="2s", show_default=True, help="For one answer.")
@click.option("--pace", type=click.Choice(PRECISIONS), default="precise", help="See load --help.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=None, help="Of the order of everything.")
@click.option("--json", "json_path", type=Output(dash=True), default=None, help="Or -.")
@click.option("--show", "show_path", type=click.Path(path_type=Path), default=None, help="A sweep's file, shown again.")
@click.option("--server-cores", default=None, help="For example 1 or 2-3.")
@click.option("--engine-cores", default=None, help="Where the load comes from.")
@click.option("--io", type=click.Choice(["auto", "uring", "epoll"]), default="auto", show_default=True)
@awake_option("off")
@click.option("--quiet", "-q", is_flag=True, help="Only the result.")
@store_option
def sweep(json_path: Path | None, show_path: Path | None, store_path: Path | None, quiet: bool, **words: Any) -> None:
    """Measure latency against offered rate, and find the capacity of CONTENDERS under a service-level objective.

    Contenders are named as in a race; one is enough.
    """
    console = Console(stderr=str(json_path) == "-")
    if show_path:
        swept = sweep_file.read(show_path)
    else:
        request = _request(words)
        with Progress(console, quiet=quiet) as progress:
            swept = run(request, progress=progress)
    shown.show(console, swept)
    if not show_path:
        console.print(f"record  {_keep(swept, store_path)} (dragstrip sweep --show FILE)", soft_wrap=True, markup=False)
    if str(json_path) == "-":
        click.echo(json.dumps(sweep_file.data(swept), indent=2))
    elif json_path:
        write_json(json_path, sweep_file.data(swept), "--json")
    _leave(swept)


def _request(words: dict[str, Any]) -> Request:
    if not words["contenders"] and not words["serve"]:
        raise BadUsage("nobody to sweep: name a contender (`dragstrip contenders` lists them), or give --serve")
    named = contender.entrants(words["contenders"], extra_dirs=words["folders"], settings=words["settings"])
    field = RaceRequest(
        entries=(*named, *(contender.serve_entry(text) for text in words["serve"])),
        workload=load_workload(words["workload"]),
        connections=words["connections"],
        threads=words["threads"],
        timeout_s=words["timeout"],
        pace=words["pace"],
        seed=words["seed"],
        server_cores=words["server_cores"],
        engine_cores=words["engine_cores"],
        io=words["io"],
        awake=words["awake"],
    )
    return Request(field=field, objective=words["slo"], rates_per_s=words["rates"], launches=words["launches"])


def _keep(swept: sweep_file.Sweep, store_path: Path | None) -> Path:
    try:
        return sweep_file.keep(swept, store_path or default_path())
    except OSError as error:
        where = (store_path or default_path()).parent
        raise BadUsage(f"{where}: can't be written ({error.strerror}); --store FILE names another place") from error


def _leave(swept: sweep_file.Sweep) -> None:
    if swept.finished == "interrupted":
        sys.exit(EXIT_INTERRUPTED)
    if not swept.samples:
        sys.exit(EXIT_FAILURE)
    if all(sample.void for sample in swept.samples):
        sys.exit(EXIT_VOID)
