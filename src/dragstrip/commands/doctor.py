"""``dragstrip doctor``: checks whether this machine is fit for races."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click
from rich.markup import escape

from dragstrip import analysis, contender, machine
from dragstrip.commands import options as opts
from dragstrip.commands.options import EXIT_FAILURE, gathered, of_race, open_store, option, switch
from dragstrip.commands.outputs import json_text, write_all
from dragstrip.commands.quantities import DURATION
from dragstrip.doctor import examine as examining
from dragstrip.doctor import noise_floor
from dragstrip.errors import NotReady
from dragstrip.machine_facts import NullRace
from dragstrip.racing import run as racing
from dragstrip.racing.request import Request
from dragstrip.record import Ending, EventKind, Purpose
from dragstrip.report import doctor as doctor_report
from dragstrip.report.console import Console
from dragstrip.report.race.live import LiveProgress
from dragstrip.store.database import default_path
from dragstrip.validity import inspect, is_void
from dragstrip.workload import load as load_workload


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """Options of ``dragstrip doctor``."""

    server_cores: str | None = of_race("server_cores", help="Server cores that a race would use, e.g. 1 or 2-3.")
    engine_cores: str | None = of_race("engine_cores", help="Load generator cores that a race would use.")
    io: str = of_race("io")
    seconds: float = option(
        "--seconds",
        type=DURATION,
        default="500ms",
        help="Duration of the load at each measured point.",
    )
    null_race: bool = switch("--null-race", help="Race a server against itself; every later report cites the result.")
    budget: float = option("--budget", type=DURATION, default="60s", help="Time for the null race.")
    json_path: Path | None = opts.report_option("--json", help="Write the findings as JSON; - for stdout.")
    store_path: Path | None = opts.store_option()


@click.command()
@gathered(DoctorOptions)
def doctor(options: DoctorOptions) -> None:
    """Check whether this machine is fit for races, and measure its load generator's maximum rate."""
    store_path = options.store_path or default_path()
    examining.refuse_place(store_path)
    lanes = machine.lanes(options.server_cores, options.engine_cores)
    to_stdout = str(options.json_path) == "-"
    console = Console(stderr=to_stdout)
    with console.status("looking") as status:
        report = examining.examine(
            lanes, io=options.io, seconds=options.seconds, show=lambda what: status.update(f"looking at {what}")
        )
    raced = _null_race(store_path, options) if options.null_race else None
    report = examining.with_null_race(report, store_path, lanes, raced)
    content = doctor_report.as_json(report)
    if not to_stdout:
        doctor_report.show(console, report)
    write_all([("--json", options.json_path, lambda: json_text(content))], measured=True)
    kept = examining.keep(content, store_path)
    if not to_stdout:
        console.print(f"kept in {escape(str(kept))}: races here know the generator's ceiling from now on", style="dim")
    if report.failed:
        sys.exit(EXIT_FAILURE)


def _null_race(store_path: Path, options: DoctorOptions) -> NullRace:
    """The first contender of the default line-up that is ready here, against itself."""
    names = contender.line_up("default").names
    ready = [name for name in names if isinstance(contender.check(contender.entry(name)), contender.Ready)]
    if not ready:
        raise NotReady(
            "the null race needs a ready contender of the default line-up; run `dragstrip install --line-up default`"
        )
    request = Request(
        entries=(contender.entry(f"one={ready[0]}"), contender.entry(f"other={ready[0]}")),
        workload=load_workload("hello"),
        budget_s=options.budget,
        server_cores=options.server_cores,
        engine_cores=options.engine_cores,
        purpose=Purpose(kind=EventKind.NULL_RACE, subject=ready[0]),
    )
    with open_store(store_path) as store, LiveProgress(Console(stderr=True), quiet=False) as progress:
        race = racing.run(request, store=store, progress=progress)
    judged, void = analysis.judge(race), is_void(inspect(race)) or race.finished is Ending.VOID
    if not judged.pairs:
        raise NotReady(
            f"the null race produced no result: {race.finished} (dragstrip show {opts.named(race.id, store_path)})"
        )
    return noise_floor.null_race(race, judged, void=void)
