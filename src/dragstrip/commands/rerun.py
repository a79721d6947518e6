"""``dragstrip rerun``: races a recorded plan again on this machine, then compares."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import click

from dragstrip.analysis.comparison import compare_columns
from dragstrip.commands import options as opts
from dragstrip.commands import own_servers
from dragstrip.commands.consent import ask_to_run
from dragstrip.commands.options import EXIT_FAILURE, EXIT_VOID, gathered, open_store, option, placed, read_race
from dragstrip.commands.request_options import header_option
from dragstrip.racing import run as racing
from dragstrip.racing.request import out_and_unknown, refuse_missing_secrets, request_of
from dragstrip.record import Ending, Race
from dragstrip.report import comparison
from dragstrip.report.console import Console
from dragstrip.report.race import terminal as race_terminal
from dragstrip.report.race.live import LiveProgress
from dragstrip.report.race.summary import JudgedRace
from dragstrip.validity import inspect, is_void
from dragstrip.workload import several as workloads_of


@dataclass(frozen=True, kw_only=True)
class RerunOptions:
    """Options of ``dragstrip rerun``."""

    run: str = opts.race_argument()
    workload: str | None = option(
        "--workload", help="Workload file, if RUN used one; if RUN had several workloads, name all of them."
    )
    headers: tuple[tuple[str, str], ...] = header_option(help="A header whose value the record masks.")
    variables: tuple[str, ...] = own_servers.env_option(help=own_servers.AGAIN)
    quiet: bool = opts.quiet_option()
    yes: bool = opts.yes_option()
    store_path: Path | None = opts.store_option()
    fleet: Path | None = opts.fleet_option()
    node_wait: float = opts.node_wait_option()


@click.command()
@gathered(RerunOptions)
def rerun(options: RerunOptions) -> None:
    """Race RUN again on this machine with the same plan, then compare.

    RUN is a stored race, or a file written by `dragstrip export`. Contenders, load, plan and seed come from the record;
    a contender that is missing here is left out and listed. Ratios between two different machines are
    shown without a verdict. If RUN is a file or an imported race, rerun shows the commands it would run, then asks.
    """
    console = Console()
    before = read_race(options.run, options.store_path)
    own_servers.give_again(options.variables, before.entrants)
    refuse_missing_secrets(before, None if options.workload else options.headers)
    for name in out_and_unknown(before):
        console.print(f"{name}: left out: it was out of race {before.id}, and a secret of it is not given (--env)")
    request = request_of(before, workloads_of(options.workload) if options.workload else (), headers=options.headers)
    if before.imported:
        ask_to_run(f"race {before.id}", request.entries, yes=options.yes)
    if options.fleet is not None:
        request = replace(request, server_cores=None, engine_cores=None)  # fleet.toml sets each machine's cores
    with (
        placed(options.fleet, options.node_wait) as site,
        open_store(options.store_path) as store,
        LiveProgress(console, quiet=options.quiet) as progress,
    ):
        after = racing.run(replace(request, site=site), store=store, progress=progress)
    race_terminal.show_race(console, JudgedRace.of(after), run=opts.named("last", options.store_path))
    for race in (after, before):
        if _is_void(race):
            console.print(f"race {race.id} is void, so it is not compared")
            sys.exit(EXIT_VOID)
    if after.finished is Ending.TOO_FEW:
        sys.exit(EXIT_FAILURE)
    console.print()
    disturbed = comparison.disturbance(before, after)
    for column, compared in compare_columns(before, after):
        report = comparison.ComparisonReport(
            comparison=compared, compared=compared.comparable, column=column, disturbed=disturbed
        )
        comparison.show(console, report)
    both = opts.named(f"{before.id} {after.id}", options.store_path)
    console.print(f"record  race {after.id} (dragstrip compare {both})", soft_wrap=True)


def _is_void(race: Race) -> bool:
    return race.finished is Ending.VOID or is_void(inspect(race))
