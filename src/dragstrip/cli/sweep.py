"""``dragstrip sweep``: latency against offered rate, and capacity under a service-level objective."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import click
from rich.console import Console

from dragstrip import contender
from dragstrip.cli import completion
from dragstrip.cli.fleet_options import fleet_options, placed
from dragstrip.cli.options import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_VOID,
    RunOptions,
    awake_option,
    core_options,
    definition_options,
    gathered,
    io_option,
    pace_option,
    seed_option,
    serve_option,
    store_options,
    threads_option,
    timeout_option,
)
from dragstrip.cli.outputs import OutputFile, Wanted, json_text, write_or_refuse
from dragstrip.cli.quantities import Count, Duration, Rate, whole_number
from dragstrip.errors import BadUsage
from dragstrip.loading.arrivals import MOST_PER_S
from dragstrip.racing import options as bounds
from dragstrip.racing.request import Request as RaceRequest
from dragstrip.record import DEFAULT_CONNECTIONS
from dragstrip.report import sweep as sweep_report
from dragstrip.report import sweep_json
from dragstrip.report.race.live import Progress
from dragstrip.store.database import default_path
from dragstrip.sweep import file as sweep_file
from dragstrip.sweep.capacity import LEAST_LAUNCHES, TOLD, Objective
from dragstrip.sweep.run import Request, run
from dragstrip.workload import load as load_workload

#: More rates than this are no table that anybody reads.
MOST_RATES = 50


class ObjectiveText(click.ParamType[Objective]):
    """``p99=5ms``: a quantile of the latency, and the limit that it stays below."""

    name = "objective"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Objective:
        """The objective."""
        if isinstance(value, Objective):
            return value
        quantile, equals, limit = str(value).partition("=")
        if not equals or quantile not in TOLD:
            self.fail(
                f"{value!r} is not a valid objective; use p99=5ms, or {', '.join(TOLD)} with another limit", param, ctx
            )
        return Objective(quantile=quantile, limit_us=1e6 * Duration().convert(limit, param, ctx))


class Rates(click.ParamType[tuple[float, ...]]):
    """``1k:20k:8`` (eight rates, evenly spaced), ``1k,5k,20k``, or ``auto``, which is none named."""

    name = "rates"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Rates a second, ascending; empty for auto."""
        if isinstance(value, tuple) or value == "auto":
            return value if isinstance(value, tuple) else ()
        text, rate = str(value), Rate()
        if span := re.fullmatch(r"([^:,]+):([^:,]+):(\d+)", text):
            first, last, count = rate.convert(span[1], param, ctx), rate.convert(span[2], param, ctx), int(span[3])
            if not (first < last and 2 <= count <= MOST_RATES):
                self.fail(f"{text!r}: give FROM below TO, and 2 to {MOST_RATES} rates; use 1k:20k:8", param, ctx)
            rates = [float(f"{first + (last - first) * at / (count - 1):.4g}") for at in range(count)]
        else:
            rates = sorted({rate.convert(part.strip(), param, ctx) for part in text.split(",")})
        if not 0 < rates[0] <= rates[-1] <= MOST_PER_S or len(rates) > MOST_RATES:
            limits = f"1 to {MOST_RATES} rates above 0, up to {MOST_PER_S:,.0f} a second"
            self.fail(f"rates {text!r} are out of range; use {limits} (1k:20k:8, 1k,5k,20k or auto)", param, ctx)
        return tuple(rates)


@dataclass(frozen=True, kw_only=True)
class SweepOptions(RunOptions):
    """What ``dragstrip sweep`` was given; the decorators of ``sweep`` say what each is."""

    slo: Objective
    rates: tuple[float, ...]
    launches: int
    workload: str
    connections: int | None
    fleet: Path | None
    node_wait: float
    json_path: Path | None
    show_path: Path | None


@click.command()
@click.argument("contenders", nargs=-1, shell_complete=completion.contenders)
@serve_option("Sweep a command of your own.")
@definition_options
@click.option(
    "--slo", type=ObjectiveText(), default="p99=5ms", show_default=True, help="Latency limit that defines capacity."
)
@click.option(
    "--rates",
    type=Rates(),
    default="auto",
    show_default=True,
    metavar="A:B:N",
    help="Rates to start with: FROM:TO:COUNT, or a list like 1k,5k,20k.",
)
@click.option(
    "--launches",
    type=Count(LEAST_LAUNCHES, 1000),
    default=5,
    show_default=True,
    help="Fresh launches at each rate; more launches narrow the intervals.",
)
@click.option(
    "--workload",
    default="hello",
    shell_complete=completion.workloads,
    show_default=True,
    help="One workload, named as in race.",
)
@click.option(
    "--connections",
    "-c",
    type=whole_number(bounds.CONNECTIONS),
    default=None,
    help=f"Concurrent connections. [default: {DEFAULT_CONNECTIONS}, or the workload's own number]",
)
@threads_option
@timeout_option
@pace_option("Open loop: how precisely requests leave on time; see load --help.")
@seed_option
@click.option(
    "--json", "json_path", type=OutputFile(dash=True), default=None, help="Write the result as JSON; - for stdout."
)
@click.option(
    "--show",
    "show_path",
    type=click.Path(path_type=Path),
    default=None,
    help="Show this stored sweep again; measures nothing.",
)
@fleet_options
@core_options()
@io_option
@awake_option("off")
@click.option(
    "--quiet",
    "-q",
    is_flag=True,
    help="Print only the result, and on a terminal one line of progress that disappears at the end.",
)
@store_options
@gathered(SweepOptions)
def sweep(options: SweepOptions) -> None:
    """Measure latency at several offered rates and find the capacity of CONTENDERS.

    Contenders are named as in a race; one is enough.
    """
    console = Console(stderr=str(options.json_path) == "-")
    wanted: list[Wanted] = [("--json", options.json_path, lambda: json_text(sweep_json.data(swept)))]
    if options.show_path:
        swept = sweep_file.read(options.show_path)
        sweep_report.show(console, swept)
        write_or_refuse(wanted)
        _leave(swept)
        return
    folder = sweep_file.refuse_place(options.store_path or default_path())
    request = _request(options)
    with placed(options.fleet, options.node_wait, options) as site:
        request = replace(request, field=replace(request.field, site=site))
        with Progress(console, brief=options.quiet) as progress:
            swept = run(request, progress=progress)
    sweep_report.show(console, swept)
    record = folder / f"{swept.id}.json"
    wanted.insert(0, ("record", record, lambda: json.dumps(sweep_json.data(swept), indent=1) + "\n"))
    again = f"`dragstrip sweep --show {record} --json FILE` writes the JSON again"
    write_or_refuse(wanted, measured=True, again=again)
    console.print(f"record  {record} (dragstrip sweep --show FILE)", soft_wrap=True, markup=False)
    _leave(swept)


def _request(options: SweepOptions) -> Request:
    if not options.contenders and not options.serve:
        raise BadUsage("no contender given: name one (`dragstrip contenders` lists them), or give --serve")
    named = contender.entrants(options.contenders, extra_dirs=options.folders, settings=options.settings)
    field = RaceRequest(
        entries=(*named, *(contender.serve_entry(text, wake_s=options.wake) for text in options.serve)),
        workload=load_workload(options.workload),
        connections=options.connections,
        threads=options.threads,
        timeout_s=options.timeout,
        pace=options.pace,
        seed=options.seed,
        server_cores=options.server_cores,
        engine_cores=options.engine_cores,
        io=options.io,
        awake=options.awake,
    )
    return Request(field=field, objective=options.slo, rates_per_s=options.rates, launches=options.launches)


def _leave(swept: sweep_file.Sweep) -> None:
    if swept.finished == "interrupted":
        sys.exit(EXIT_INTERRUPTED)
    if not swept.samples:
        sys.exit(EXIT_FAILURE)
    if all(sample.void for sample in swept.samples):
        sys.exit(EXIT_VOID)
