"""``dragstrip history``: a server's speed over stored races, and where it changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from dragstrip.analysis.history import collect
from dragstrip.commands import options as opts
from dragstrip.commands.options import gathered, option, read_store
from dragstrip.commands.outputs import json_text, write_all
from dragstrip.commands.quantities import whole_number
from dragstrip.errors import DragstripError, StoreError
from dragstrip.racing.options import IntRange
from dragstrip.record import Race
from dragstrip.report.console import Console


@dataclass(frozen=True, kw_only=True)
class HistoryOptions:
    """Options of ``dragstrip history``."""

    subject: str | None = opts.argument(required=False, metavar="[NAME]")
    reference: str | None = option(
        "--reference", metavar="NAME", help="The unchanged contender. [default: the one that it met most]"
    )
    workload: str | None = option("--workload", metavar="NAME", help="Only this workload. [default: all]")
    last: int = option("--last", type=whole_number(IntRange(2, 10_000)), default=200, help="Look at this many races.")
    json_path: Path | None = opts.report_option("--json", help="Write points and changes as JSON; - for stdout.")
    html_path: Path | None = opts.html_option()
    store_path: Path | None = opts.store_option()


@click.command()
@gathered(HistoryOptions)
def history(options: HistoryOptions) -> None:
    """Show how fast NAME was in stored races, and where that changed.

    NAME is a contender, or a repository that `dragstrip diff` raced; without it, all are shown. Each race gives NAME's
    speed relative to a contender that is the same in all races, so that the machine's own changes cancel. A change of
    machine, kernel or load is shown, and never called a change of the server.
    """
    # The page's and the tests' libraries load slowly, and the help needs neither.
    from dragstrip.report import history as report

    races: list[Race] = []
    with read_store(options.store_path) as store:
        for line in store.runs()[: options.last]:
            try:
                races.append(store.load(line.race))
            except DragstripError as error:
                click.echo(f"dragstrip: passed over: {error}", err=True)
    found = collect(
        races, subject=options.subject or "", reference=options.reference or "", workload=options.workload or ""
    )
    if not found:
        wanted = f" of {options.subject}" if options.subject else ""
        raise StoreError(
            f"no history{wanted}: it takes two races with the same other contender in both (same version, same "
            "definition or commit); `dragstrip runs` lists the races"
        )
    console = Console(stderr=str(options.json_path) == "-")
    judged = [report.JudgedSeries.of(series) for series in found]
    for series in judged:
        report.show(console, series)
    write_all(
        [
            ("--json", options.json_path, lambda: json_text(report.as_json(judged))),
            ("--html", options.html_path, lambda: report.page(judged)),
        ]
    )
