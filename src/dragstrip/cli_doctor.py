"""``dragstrip doctor``: is this machine fit for races, and what can its load generator do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dragstrip import doctor as examining
from dragstrip import machine
from dragstrip.cli_words import EXIT_FAILURE, Duration, store_option, write_json
from dragstrip.store import default_path

_SHOWN = {"pass": "[green]pass[/]", "warn": "[yellow]warn[/]", "fail": "[red]fail[/]"}


@click.command()
@click.option("--server-cores", default=None, help="As a race would be told, for example 1 or 2-3.")
@click.option("--engine-cores", default=None, help="Where the load would come from.")
@click.option("--io", type=click.Choice(["auto", "uring", "epoll"]), default="auto", show_default=True)
@click.option("--seconds", type=Duration(), default="500ms", show_default=True, help="Of load, at each point.")
@click.option("--json", "json_path", type=click.Path(path_type=Path, allow_dash=True), default=None, help="Or -.")
@store_option
def doctor(
    server_cores: str | None,
    engine_cores: str | None,
    io: str,
    seconds: float,
    json_path: Path | None,
    store_path: Path | None,
) -> None:
    """Say whether this machine is fit for races, and what its load generator can do at most."""
    lanes = machine.lanes(server_cores, engine_cores)
    console = Console(stderr=str(json_path) == "-")
    with console.status("looking") as status:
        report = examining.examine(lanes, io=io, seconds=seconds, tell=lambda what: status.update(f"looking at {what}"))
    kept = examining.keep(report, store_path or default_path())
    if str(json_path) == "-":
        click.echo(json.dumps(report.data(), indent=2))
    else:
        _show(console, report)
        console.print(f"kept in {escape(str(kept))}: races here know the generator's ceiling from now on", style="dim")
        if json_path is not None:
            write_json(json_path, report.data(), "--json")
    if report.failed:
        sys.exit(EXIT_FAILURE)


def _show(console: Console, report: examining.Report) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("looked at", "", "seen, and what would mend it"):
        table.add_column(head, overflow="fold")
    for finding in report.findings:
        told = f"{finding.detail}; {finding.remedy}" if finding.remedy else finding.detail
        table.add_row(escape(finding.name), _SHOWN[finding.status], escape(told))
    console.print(table)
