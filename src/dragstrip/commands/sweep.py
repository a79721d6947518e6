"""``dragstrip sweep``: latency against offered rate, and capacity under a service-level objective."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import click

from dragstrip import contender
from dragstrip.commands import options as opts
from dragstrip.commands import own_servers
from dragstrip.commands.options import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_VOID, gathered, of_race, placed, taken_from
from dragstrip.commands.outputs import Wanted, json_text, write_all
from dragstrip.commands.quantities import Count, TextType, duration_s, rate_per_s
from dragstrip.commands.request_options import RequestOptions, asked_for, say_unless, workload_option
from dragstrip.errors import BadUsage
from dragstrip.racing.options import LOAD, TIME
from dragstrip.racing.request import Request as RaceRequest
from dragstrip.racing.request import workloads_from
from dragstrip.record import MAX_RATE_PER_S
from dragstrip.report import glyphs
from dragstrip.report import sweep as sweep_report
from dragstrip.report.comparison import RulingOutcome, ruling_line
from dragstrip.report.console import Console
from dragstrip.report.race.live import LiveProgress
from dragstrip.store.database import default_path
from dragstrip.sweep import file as sweep_file
from dragstrip.sweep.capacity import MIN_LAUNCHES, SHOWN_QUANTILES, Objective
from dragstrip.sweep.run import SweepRequest, run

#: More rates than this are too many to read in a table.
MAX_RATES = 50


def _objective(text: str) -> Objective:
    """``p99=5ms``: a quantile of the latency, and the limit that it stays below."""
    quantile, equals, limit = text.partition("=")
    if not equals or quantile not in SHOWN_QUANTILES:
        raise ValueError(
            f"{text!r} is not a valid objective; use p99=5ms, or {', '.join(SHOWN_QUANTILES)} with another limit"
        )
    return Objective(quantile=quantile, limit_us=1e6 * duration_s(limit))


def _rates_per_s(text: str) -> tuple[float, ...]:
    """``1k:20k:8`` (eight rates, evenly spaced), ``1k,5k,20k`` in ascending order, or ``auto``: none."""
    if text == "auto":
        return ()
    if span := re.fullmatch(r"([^:,]+):([^:,]+):(\d+)", text):
        first, last, count = rate_per_s(span[1]), rate_per_s(span[2]), int(span[3])
        if not (first < last and 2 <= count <= MAX_RATES):
            raise ValueError(f"{text!r}: give FROM below TO, and 2 to {MAX_RATES} rates; use 1k:20k:8")
        rates = [float(f"{first + (last - first) * step / (count - 1):.4g}") for step in range(count)]
    else:
        rates = sorted({rate_per_s(part.strip()) for part in text.split(",")})
    if not 0 < rates[0] <= rates[-1] <= MAX_RATE_PER_S or len(rates) > MAX_RATES:
        limits = f"1 to {MAX_RATES} rates above 0, up to {MAX_RATE_PER_S:,.0f} per second"
        raise ValueError(f"rates {text!r} are out of range; use {limits} (1k:20k:8, 1k,5k,20k or auto)")
    return tuple(rates)


OBJECTIVE = TextType("objective", _objective)
RATES = TextType("rates", _rates_per_s)


@dataclass(frozen=True, kw_only=True)
class SweepOptions(RequestOptions):
    """Options of ``dragstrip sweep``."""

    contenders: tuple[str, ...] = opts.contenders_argument()
    serve: tuple[str, ...] = opts.serve_option(help="Sweep a command of your own.")
    image: tuple[str, ...] = opts.image_option(help="Sweep a container image, or a file of `docker save`.")
    started_in: tuple[str, ...] = own_servers.in_option()
    variables: tuple[str, ...] = own_servers.env_option()
    wake: float | None = opts.wake_option()
    folders: tuple[Path, ...] = opts.folders_option()
    settings: tuple[str, ...] = opts.settings_option()
    cacert: str | None = opts.cacert_option()
    insecure: bool = opts.insecure_option()
    objective: Objective = opts.option(
        "--slo", group=LOAD, type=OBJECTIVE, default="p99=5ms", help="Latency limit that defines capacity."
    )
    rates_per_s: tuple[float, ...] = opts.option(
        "--rates",
        group=LOAD,
        type=RATES,
        default="auto",
        metavar="A:B:N",
        help="Rates to start with: FROM:TO:COUNT, or a list like 1k,5k,20k.",
    )
    launches: int = opts.option(
        "--launches",
        group=TIME,
        type=Count(MIN_LAUNCHES, 1000),
        default=5,
        help="Fresh launches at each rate; more launches narrow the intervals.",
    )
    workload: tuple[str, ...] = workload_option(
        metavar="NAME",
        help="One workload, named as in race. [default: as in race]",
    )
    connections: int | None = of_race("connections")
    threads: int | None = of_race("threads")
    timeout_s: float = of_race("timeout_s")
    pace: str = of_race("pace")
    seed: int | None = of_race("seed")
    json_path: Path | None = opts.report_option("--json", help="Write the result as JSON; - for stdout.")
    rules: tuple[tuple[str, str, float], ...] = opts.fail_if_option(
        help="Exit 1 if a contender is out, or its capacity is surely lower (or higher) than the first one's by more."
    )
    strict: bool = opts.strict_option()
    show_path: Path | None = opts.option(
        "--show", type=click.Path(path_type=Path), help="Show this stored sweep again; measures nothing."
    )
    fleet: Path | None = opts.fleet_option()
    node_wait: float = opts.node_wait_option()
    server_cores: str | None = of_race("server_cores")
    engine_cores: str | None = of_race("engine_cores")
    io: str = of_race("io")
    awake: str = of_race("awake", default="off")
    quiet: bool = opts.quiet_option(
        help="Print only the result, and on a terminal one line of progress that disappears at the end."
    )
    store_path: Path | None = opts.store_option()


@click.command(
    cls=opts.GroupedCommand, common=("serve", "workload", "paths", "objective", "rates_per_s", "launches", "json_path")
)
@gathered(SweepOptions)
def sweep(options: SweepOptions) -> None:
    """Measure latency at several offered rates and find the capacity of CONTENDERS.

    Contenders are named as in a race; one is enough. With --fail-if the search for capacities continues while a
    threshold is open, to the limit of steps.
    """
    opts.refuse_strict_alone(options.rules, strict=options.strict)
    console = Console(stderr=str(options.json_path) == "-")
    wanted: list[Wanted] = [
        ("--json", options.json_path, lambda: json_text(sweep_report.as_json(swept, options.rules)))
    ]
    if options.show_path:
        swept = sweep_file.read(options.show_path)
        sweep_report.show(console, swept)
        write_all(wanted)
        _leave(console, swept, options)
        return
    folder = sweep_file.refuse_place(options.store_path or default_path())
    request = _request(options)
    cores = {"server_cores": options.server_cores, "engine_cores": options.engine_cores}
    with placed(options.fleet, options.node_wait, **cores) as site:
        request = replace(request, field=replace(request.field, site=site))
        with LiveProgress(console, brief=options.quiet) as progress:
            swept = run(request, progress=progress)
    sweep_report.show(console, swept)
    record = folder / f"{swept.id}.json"
    wanted.insert(0, ("record", record, lambda: json.dumps(sweep_report.as_json(swept), indent=1) + "\n"))
    again = f"`dragstrip sweep --show {record} --json FILE` writes the JSON again"
    write_all(wanted, measured=True, again=again)
    console.print(f"record  {record} (dragstrip sweep --show FILE)", soft_wrap=True, markup=False)
    _leave(console, swept, options)


def _request(options: SweepOptions) -> SweepRequest:
    if not options.contenders and not options.serve and not options.image:
        raise BadUsage("no contender given: name one (`dragstrip contenders` lists them), or give --serve")
    trust = contender.Trust.given(options.cacert, insecure=options.insecure)
    named = contender.entrants(options.contenders, extra_dirs=options.folders, settings=options.settings, trust=trust)
    usual = contender.usual_workload(named, learns=not options.fleet)
    asked = asked_for(options, (usual,), default_path=contender.workload_word_of(named) or None)
    if len(asked) > 1:
        raise BadUsage(f"{len(asked)} workloads or paths are given, and a sweep has one; sweep each by itself")
    say = say_unless(options.quiet)
    entries = (*named, *own_servers.entries_of(options, say=say))
    (workload,) = workloads_from(asked, entries, say=say)
    field = taken_from(options, RaceRequest, entries=entries, workload=workload)
    return taken_from(options, SweepRequest, field=field)


def _leave(console: Console, swept: sweep_file.Sweep, options: SweepOptions) -> None:
    rulings = sweep_report.rulings(swept, options.rules)
    glyphs.emit(console, *map(ruling_line, rulings))
    if swept.finished == "interrupted":
        sys.exit(EXIT_INTERRUPTED)
    outcomes = {ruling.outcome for ruling in rulings}
    if not swept.samples or RulingOutcome.FAILS in outcomes or (options.strict and RulingOutcome.OPEN in outcomes):
        sys.exit(EXIT_FAILURE)
    if all(sample.void for sample in swept.samples) or (options.rules and not rulings):
        sys.exit(EXIT_VOID)
