"""``dragstrip why``: extra launches of a stored race's contenders, and the table of what their responses cost."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from dragstrip import analysis
from dragstrip.commands import options as opts
from dragstrip.commands import own_servers
from dragstrip.commands.consent import ask_to_run
from dragstrip.commands.options import EXIT_FAILURE, gathered, open_store, option
from dragstrip.commands.outputs import json_text, write_all
from dragstrip.commands.quantities import DURATION, whole_number
from dragstrip.commands.request_options import RequestOptions, of_record, say_unless, workload_option
from dragstrip.commands.signals import as_interruptions, number_of
from dragstrip.errors import BadUsage, DragstripError
from dragstrip.racing.options import RACED, TIME, IntRange
from dragstrip.racing.request import entries_of, refuse_missing_secrets, workloads_from, workloads_of
from dragstrip.record import Race
from dragstrip.report import glyphs
from dragstrip.report.console import Console
from dragstrip.report.figures import visible
from dragstrip.report.race import causes as causes_report
from dragstrip.report.race import export as race_export
from dragstrip.report.race import formats
from dragstrip.report.race.live import LiveProgress
from dragstrip.report.race.summary import JudgedRace
from dragstrip.requested import again_words
from dragstrip.store.database import Store
from dragstrip.why.run import BUDGET_S, LAUNCHES, LONGEST, ProfileRequest, profile
from dragstrip.workload import Workload
from dragstrip.workload.typed import TypedRequest

#: Fewest and most extra launches of a contender.
LAUNCH_BOUNDS = IntRange(1, 100)


@dataclass(frozen=True, kw_only=True)
class WhyOptions(RequestOptions):
    """Options of ``dragstrip why``."""

    run: str = opts.race_argument(default="last")
    column: str | None = option(
        "--column", group=RACED, metavar="NAME", help="Column of a race with several. [default: the first]"
    )
    only: tuple[str, ...] = option(
        "--contender",
        group=RACED,
        multiple=True,
        metavar="NAME",
        help="Launch only this contender; repeat it for several. [default: all]",
    )
    launches: int = option(
        "--launches",
        group=TIME,
        type=whole_number(LAUNCH_BOUNDS),
        default=LAUNCHES,
        help="Extra launches of each contender, with those that the race already has.",
    )
    budget: float | None = option(
        "--budget",
        "-d",
        group=TIME,
        type=DURATION,
        help=f"Time for all of them. [default: up to {BUDGET_S * LONGEST:g}s for each contender on a busy machine]",
    )
    workload: tuple[str, ...] = workload_option(metavar="FILE", help="Workload file, if RUN used one.")
    variables: tuple[str, ...] = own_servers.env_option(help=own_servers.AGAIN)
    json_path: Path | None = opts.report_option("--json", help="Write the race and its causes as JSON; - for stdout.")
    html_path: Path | None = opts.html_option()
    quiet: bool = opts.quiet_option()
    yes: bool = opts.yes_option()
    store_path: Path | None = opts.store_option()


@click.command(cls=opts.GroupedCommand)
@gathered(WhyOptions)
def why(options: WhyOptions) -> None:
    """Show what each response costs the contenders of race RUN, and which costs differ.

    RUN is a stored race, or last. Each contender is launched a few more times, by the race's own load, and stored with
    the race; no verdict uses these launches. Run why again to add launches that are missing.
    """
    console = Console(stderr=str(options.json_path) == "-")
    with (
        open_store(options.store_path) as store,
        LiveProgress(console, quiet=options.quiet) as progress,
    ):
        recorded = store.load(options.run)
        own_servers.give_again(options.variables, recorded.entrants)
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
            *of_record(options),
            yes=options.yes,
        )
    shown = [line for column in analysis.by_column(race) for line in causes_report.lines(column)]
    glyphs.emit(console, *shown)
    judged, stored = JudgedRace.of(race), opts.named(race.id, options.store_path)
    write_all(
        [
            ("--json", options.json_path, lambda: json_text(race_export.race_json(judged))),
            ("--html", options.html_path, lambda: formats.html(judged)),
        ],
        measured=True,
        again=f"race {race.id} is stored; `dragstrip report {stored} --html FILE --json FILE` writes them again",
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
    progress: LiveProgress,
    asked: Sequence[Workload | TypedRequest] = (),
    headers: Sequence[tuple[str, str]] = (),
    *,
    yes: bool = False,
) -> Race:
    """The race with its extra launches; a signal ends the command, and the launches so far are kept.

    Args:
        asked: its workloads, if an older version raced it; (): as the record has them.
        headers: whose values the record masks. yes: an imported race's commands run without asking.
    """
    refuse_missing_secrets(race, None if asked else headers)
    entries = entries_of(entrant for entrant in race.entrants if not entrant.out)
    if race.imported:
        ask_to_run(f"race {race.id}", entries, yes=yes)
    named = race.columns[request.column].workload
    workloads = workloads_from(asked, entries, say=say_unless(quiet=False)) or workloads_of(race, headers)
    by_name = {known.name: known for known in workloads}
    if named not in by_name:
        raise BadUsage(f"race {race.id} has workload {named}, not {', '.join(by_name)}; --workload FILE names its file")
    try:
        with as_interruptions():
            return profile(race.id, entries, by_name[named], request, store=store, progress=progress)
    except KeyboardInterrupt as error:
        progress.close()
        kept = len(store.load(race.id).profiles)
        words = shlex.join(["dragstrip", "why", race.id, *again_words(race), *opts.in_store(store.path)])
        click.echo(
            f"dragstrip: ended by {number_of(error).name}: {kept} launches are kept; to continue: {words}", err=True
        )
        sys.exit(128 + number_of(error))


def with_causes(
    result: Race,
    store: Store,
    progress: LiveProgress,
    *,
    headers: Sequence[tuple[str, str]] = (),
    columns: Sequence[ProfileRequest] = (ProfileRequest(),),
) -> Race:
    """A race that has just ended with extra launches of these columns; what prevents them is printed."""
    for request in columns:
        try:
            result = explained(store.load(result.id), request, store, progress, headers=headers)
        except DragstripError as error:
            click.echo(f"dragstrip: --why: {visible(str(error), lines=True)}", err=True)
    return result


def _column(race: Race, name: str | None) -> int:
    """The index of a column.

    Raises:
        BadUsage: the race has no such column.
    """
    names = [column.name for column in race.columns]
    if name is not None and name not in names:
        raise BadUsage(f"--column {name!r}: race {race.id} has no such column; it has {' and '.join(map(repr, names))}")
    return names.index(name) if name is not None else 0
