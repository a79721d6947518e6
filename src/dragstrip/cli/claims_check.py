"""``dragstrip claims check``: what claims are about is raced here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from dragstrip.claim.contenders import everyone
from dragstrip.claim.definition import FAIR, PUBLISHED
from dragstrip.claim.finding import CountedRun
from dragstrip.claim.grouping import Group, groups
from dragstrip.claim.run import check
from dragstrip.cli import completion
from dragstrip.cli.claims_table import TableOptions, claims_named, remarks_option, show_table, table_options
from dragstrip.cli.consent import ask_to_run, yes_option
from dragstrip.cli.fleet_options import fleet_options, placed
from dragstrip.cli.options import EXIT_VOID, StoreOptions, gathered, open_store, store_options
from dragstrip.cli.quantities import Duration
from dragstrip.errors import BadUsage
from dragstrip.report.claims.connection_ends import describe_ends
from dragstrip.report.race.live import Progress


@dataclass(frozen=True, kw_only=True)
class CheckOptions(TableOptions, StoreOptions):
    """What ``dragstrip claims check`` was given; the decorators of ``check_command`` say what each is."""

    names: tuple[str, ...]
    everything: bool
    budget: float
    resume: bool
    setting: str | None
    quiet: bool
    fleet: Path | None
    node_wait: float
    yes: bool


@click.command(name="check")
@click.argument("names", nargs=-1, shell_complete=completion.claims)
@click.option("--all", "everything", is_flag=True, help="Check every claim.")
@click.option("--budget", type=Duration(), default="25m", show_default=True, help="Total time for all races.")
@click.option("--resume", is_flag=True, help="Keep stored results and continue with the rest.")
@click.option("--setting", type=click.Choice([PUBLISHED, FAIR]), default=None, help="Race under this setting only.")
@remarks_option
@yes_option
@fleet_options
@click.option("--quiet", "-q", is_flag=True, help="Print only the table, no progress.")
@table_options
@store_options
@gathered(CheckOptions)
def check_command(options: CheckOptions) -> None:
    """Race the contenders of CLAIMS (names or TOML files), under the published load and under fair settings."""
    if bool(options.names) == options.everything:
        raise BadUsage("claims check: name claims (`dragstrip claims list` lists them) or give --all, but not both")
    wanted = claims_named(options.names)
    settings = (options.setting,) if options.setting else (PUBLISHED, FAIR)
    for claim in wanted:
        if not claim.shipped:
            ask_to_run(f"claim {claim.source.file}", everyone(claim, settings), yes=options.yes)
    console = Console(stderr=str(options.json_path) == "-")
    planned = groups(wanted, settings)
    number = iter(range(1, len(planned) + 1))

    @contextmanager
    def show(group: Group) -> Iterator[Progress]:
        if not options.quiet:
            load = group.load.text()
            console.print(f"race {next(number)} of at most {len(planned)}, {group.setting}: {load}", soft_wrap=True)
        with Progress(console, quiet=options.quiet) as progress:
            yield progress

    def say(told: str | CountedRun) -> None:
        click.echo(told if isinstance(told, str) else describe_ends(told), err=True)

    with placed(options.fleet, options.node_wait) as site, open_store(options.store_path) as store:
        budget_s, resume = options.budget, options.resume
        check(planned, store=store, budget_s=budget_s, resume=resume, show=show, say=say, site=site)
        table = show_table(wanted, store, options)
    raced = [finding for row in table for finding in (row.published, row.fair) if finding is not None and finding.race]
    if raced and all(finding.void for finding in raced):
        sys.exit(EXIT_VOID)
