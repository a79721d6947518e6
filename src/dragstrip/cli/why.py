"""``dragstrip why``: extra launches of a stored race's contenders, and the table of what their responses cost."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from dragstrip import analysis, contender
from dragstrip.cli import options as opts
from dragstrip.cli.consent import ask_to_run
from dragstrip.cli.options import EXIT_FAILURE, gathered, open_store, option
from dragstrip.cli.outputs import json_text, write_all
from dragstrip.cli.quantities import DURATION, whole_number
from dragstrip.cli.signals import as_interruptions, number_of
from dragstrip.errors import BadUsage, DragstripError
from dragstrip.profile.run import BUDGET_S, LAUNCHES, LONGEST, ProfileRequest, profile
from dragstrip.racing.options import IntRange
from dragstrip.record import Race
from dragstrip.report import glyphs
from dragstrip.report.console import Console
from dragstrip.report.figures import visible
from dragstrip.report.race import causes as causes_report
from dragstrip.report.race import export as race_export
from dragstrip.report.race import formats
from dragstrip.report.race.live import Progress
from dragstrip.report.race.summary import JudgedRace
from dragstrip.store.database import Store
from dragstrip.workload import several as workloads_of

#: Fewest and most extra launches of a contender.
LAUNCH_BOUNDS = IntRange(1, 100)


@dataclass(frozen=True, kw_only=True)
class WhyOptions:
    """Options of ``dragstrip why``."""

    run: str = opts.race_argument(default="last")
    column: str | None = option("--column", metavar="NAME", help="Column of a race with several. [default: the first]")
    only: tuple[str, ...] = option(
        "--contender",
        multiple=True,
        metavar="NAME",
        help="Launch only this contender; repeat it for several. [default: all]",
    )
    launches: int = option(
        "--launches",
        type=whole_number(LAUNCH_BOUNDS),
        default=LAUNCHES,
        help="Extra launches of each contender, with those that the race already has.",
    )
    budget: float | None = option(
        "--budget",
        "-d",
        type=DURATION,
        help=f"Time for all of them. [default: up to {BUDGET_S * LONGEST:g}s for each contender on a busy machine]",
    )
    workload: str | None = option("--workload", metavar="FILE", help="Workload file, if RUN used one.")
    json_path: Path | None = opts.report_option("--json", help="Write the race and its causes as JSON; - for stdout.")
    html_path: Path | None = opts.html_option()
    quiet: bool = opts.quiet_option()
    yes: bool = opts.yes_option()
    store_path: Path | None = opts.store_option()


@click.command()
@gathered(WhyOptions)
def why(options: WhyOptions) -> None:
    """Show what each response costs the contenders of race RUN, and which costs differ.

    RUN is a stored race, or last. Each contender is launched a few more times, by the race's own load, and stored with
    the race; no verdict uses these launches. Run why again to add launches that are missing.
    """
    console = Console(stderr=str(options.json_path) == "-")
    with (
        open_store(options.store_path) as store,
        Progress(console, quiet=options.quiet) as progress,
    ):
        recorded = store.load(options.run)
        race = explained(
            recorded,
            ProfileRequest(
                column=_column(recorded, options.column),
                contenders=options.only,
                launches=options.launches,
                budget_s=options.budget,
            ),
            store,
            progress,
            workload=options.workload,
            yes=options.yes,
        )
    shown = [line for column in analysis.by_column(race) for line in causes_report.lines(column)]
    glyphs.emit(console, *shown)
    judged = JudgedRace.of(race)
    write_all(
        [
            ("--json", options.json_path, lambda: json_text(race_export.race_json(judged))),
            ("--html", options.html_path, lambda: formats.html(judged)),
        ],
        measured=True,
        again=f"race {race.id} is stored; `dragstrip report {race.id} --html FILE --json FILE` writes them again",
    )
    if options.html_path:
        console.print(f"page    {options.html_path.resolve()}", soft_wrap=True)
    if not shown:
        click.echo("dragstrip: no extra launch could be measured", err=True)
        sys.exit(EXIT_FAILURE)


def explained(
    race: Race,
    request: ProfileRequest,
    store: Store,
    progress: Progress,
    *,
    workload: str | None = None,
    yes: bool = False,
) -> Race:
    """The race with its extra launches; a signal ends the command, and the launches so far are kept.

    Args:
        workload: as in the race's own command, if it used a file. yes: an imported race's commands run without asking.
    """
    entries = tuple(
        contender.entry_of(entrant.name, entrant.kind, entrant.parameters)
        for entrant in race.entrants
        if not entrant.out
    )
    if race.imported:
        ask_to_run(f"race {race.id}", entries, yes=yes)
    named = race.columns[request.column].workload
    by_name = {known.name: known for known in workloads_of(workload or named)}
    if named not in by_name:
        raise BadUsage(f"race {race.id} has workload {named}, not {', '.join(by_name)}; --workload FILE names its file")
    try:
        with as_interruptions():
            return profile(race.id, entries, by_name[named], request, store=store, progress=progress)
    except KeyboardInterrupt as error:
        progress.close()
        kept = len(store.load(race.id).profiles)
        again = shlex.join(_again(race, workload))
        click.echo(
            f"dragstrip: ended by {number_of(error).name}: {kept} launches are kept; to continue: {again}", err=True
        )
        sys.exit(128 + number_of(error))


def with_causes(
    result: Race, columns: Sequence[ProfileRequest], store: Store, progress: Progress, *, workload: str | None
) -> Race:
    """A race that has just ended with extra launches of these columns; what prevents them is printed.

    Args:
        workload: names or files, as in the race's own command.
    """
    for request in columns:
        try:
            result = explained(store.load(result.id), request, store, progress, workload=workload)
        except DragstripError as error:
            click.echo(f"dragstrip: --why: {visible(str(error), lines=True)}", err=True)
    return result


def _again(race: Race, workload: str | None) -> Sequence[str]:
    return ["dragstrip", "why", race.id, *(["--workload", workload] if workload else [])]


def _column(race: Race, name: str | None) -> int:
    """The index of a column.

    Raises:
        BadUsage: the race has no such column.
    """
    names = [column.name for column in race.columns]
    if name is not None and name not in names:
        raise BadUsage(f"--column {name!r}: race {race.id} has no such column; it has {' and '.join(map(repr, names))}")
    return names.index(name) if name is not None else 0
