"""``dragstrip diff``: revisions of a repository, built and raced beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click
from rich.text import Text

from dragstrip.analysis import NO_GATE, Gate
from dragstrip.commands import options as opts
from dragstrip.commands.conclusion import Reports, conclude, finished, resuming
from dragstrip.commands.options import gathered, of_race, open_store, option, switch
from dragstrip.commands.quantities import THRESHOLD
from dragstrip.commands.request_options import RequestOptions, asked_for, say_unless, workload_option
from dragstrip.commands.why import with_causes
from dragstrip.contender import Entry
from dragstrip.errors import BadUsage
from dragstrip.racing import run as racing
from dragstrip.racing.options import RACED
from dragstrip.racing.request import Request, workloads_from
from dragstrip.record import EventKind, Purpose, Race
from dragstrip.report import revisions as revisions_report
from dragstrip.report.comparison import cell
from dragstrip.report.console import Console
from dragstrip.report.race.live import LiveProgress
from dragstrip.report.race.summary import JudgedRace
from dragstrip.revision import builds, difference, project
from dragstrip.revision.project import Project
from dragstrip.revision.repository import Repository, Revision
from dragstrip.store.database import Store
from dragstrip.why.run import ProfileRequest
from dragstrip.workload import Workload
from dragstrip.workload.typed import TypedRequest

#: Revisions are alike, so their races take longer than most; each ends as soon as it is decided.
BUDGET_S = 120.0


@dataclass(frozen=True, kw_only=True)
class ProjectOptions(RequestOptions):
    """Options of commands that race revisions; None if the project file's value counts."""

    project: Path | None = option(
        "--project",
        group=RACED,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The project file. [default: dragstrip.toml at the top of the repository]",
    )
    workload: tuple[str, ...] = workload_option(
        help="A workload, a workload file, or a path like /users/1. [default: the project file's]"
    )
    connections: int | None = of_race("connections")
    metric: str | None = of_race(
        "metric",
        type=click.Choice(["auto", "throughput", "cpu"]),
        default=None,
        help="Metric that decides. [default: auto]",
    )
    seed: int | None = of_race("seed")
    server_cores: str | None = of_race("server_cores")
    engine_cores: str | None = of_race("engine_cores")


@dataclass(frozen=True, kw_only=True)
class DiffOptions(ProjectOptions, Reports):
    """Options of ``dragstrip diff``."""

    revisions: tuple[str, ...] = opts.argument(nargs=-1, metavar="[BASE] [HEAD]...")
    twice: bool = switch("--a-a", group=RACED, help="Also race BASE against itself, which shows the noise.")
    budget_s: float | None = of_race("budget_s", help="Time for all rounds. [default: 2 minutes]")
    rounds: int | None = of_race("rounds", help="Run exactly this many rounds.")
    margin: float = of_race("margin")
    why: bool = switch(
        "--why", help="After the race, launch each revision a few more times, and show which functions differ."
    )
    accept_change: bool = switch(
        "--accept-change",
        group=RACED,
        help="At a path, compare only what the revisions' responses have in common.",
    )
    anyway: bool = switch("--anyway", group=RACED, help="Race even if the revisions differ in no file that matters.")
    list_builds: bool = switch("--builds", help="List the kept builds of this repository, and end.")
    clean: bool = switch("--clean", help="Remove the kept builds of this repository, and end.")


@click.command(cls=opts.GroupedCommand, common=("workload", "paths", "budget_s", "metric", "rules", "why", "html_path"))
@gathered(DiffOptions)
def diff(options: DiffOptions) -> None:
    """Race revisions of this git repository: did the change make the server faster or slower?

    BASE and HEAD are branches, tags or commits. BASE is by default the commit at which HEAD left the default
    branch. HEAD is by default the working tree, with changes that are not committed. dragstrip.toml says how a
    revision is built and started (`dragstrip init` writes it). Builds are kept in the cache; the working tree is never
    touched.
    Exit code 1 if the whole interval shows what --fail-if names.
    """
    repository = Repository(Path.cwd(), options.project)
    if options.list_builds or options.clean:
        _show_builds(repository, clean=options.clean)
        return
    asked = project.load(options.project, repository.top)
    rules = options.rules or tuple(THRESHOLD.convert(text, None, None) for text in asked.fields.race.fail_if)
    if options.strict and not rules:
        raise BadUsage("--strict needs a threshold: add --fail-if slower:3%, or fail_if to dragstrip.toml")
    revisions = difference.wanted(repository, options.revisions)
    _refuse_nothing(repository, options, revisions)
    console = Console(stderr="-" in (str(options.json_path), str(options.markdown_path)))
    if not options.anyway and not options.twice and difference.same_files(repository, asked, revisions):
        names = " and ".join(revision.name for revision in revisions)
        click.echo(
            f"{names} differ in no file that matters for the server, so there is nothing to race (--anyway does)"
        )
        return

    say = say_unless(options.quiet)
    with ExitStack() as resources:
        compared = difference.compare(asked, repository, revisions, resources, twice=options.twice, say=say)
        workloads = workloads_of(asked, options, compared.entries, say, of_all=options.accept_change)
        request = request_of(
            asked,
            options,
            compared.entries,
            workloads,
            commits=tuple(revision.commit for revision in revisions),
            margin=options.margin,
            budget_s=options.budget_s,
            rounds=options.rounds,
            gate=Gate(rules, compared.entries[-1].name if options.twice else ""),
        )
        with open_store(options.store_path) as store, LiveProgress(console, quiet=options.quiet) as progress:
            progress.when_planned = lambda race: say(revisions_report.sight(race, rules))
            result = finished(
                console,
                options,
                store,
                progress,
                lambda: racing.run(request, store=store, progress=progress),
                partial(resuming, options=options),
            )
            if options.why:
                result = _with_causes(result, compared, store, progress)
        builds.remove_old(repository)
    twice = compared.entries[-1].name if options.twice else ""
    lines = revisions_report.lines(JudgedRace.of(result), twice=twice)
    for line in (*(f"{revision.name}: {revision.subject}" for revision in revisions), *lines):
        console.print(Text(line), soft_wrap=True)
    console.print()
    conclude(console, result, replace(options, rules=rules), head=_markdown_head(compared, lines), except_for=twice)


def _with_causes(
    result: Race,
    compared: difference.ComparedRevisions,
    store: Store,
    progress: LiveProgress,
) -> Race:
    """The race with extra launches of each revision at each workload."""
    names = tuple(entry.name for entry in compared.entries[: len(compared.revisions)])
    still_in = {entrant.name for entrant in result.entrants if not entrant.out}
    requests = [
        ProfileRequest(column=at, contenders=tuple(name for name in names if name in still_in))
        for at in range(len(result.columns))
    ]
    return with_causes(result, store, progress, columns=requests)


def _markdown_head(compared: difference.ComparedRevisions, lines: Sequence[str]) -> str:
    """Which commits were raced and what came out, in Markdown."""
    commits = [
        f"- {cell(entry.name)}: `{revision.commit[:12]}` {cell(revision.subject)}"
        for revision, entry in zip(compared.revisions, compared.entries, strict=False)
    ]
    return "\n".join(["## Dragstrip diff", "", *commits, "", *(f"- **{cell(line)}**" for line in lines), "", ""])


def _refuse_nothing(repository: Repository, options: DiffOptions, revisions: tuple[Revision, ...]) -> None:
    """Refuses a comparison of a commit with itself unless the user named it twice.

    Raises:
        BadUsage: HEAD is on the default branch, and nothing is changed.
    """
    if not options.revisions and not options.twice and len({revision.commit for revision in revisions}) == 1:
        raise BadUsage(
            f"nothing to compare: HEAD is {revisions[0].name} and no file is changed; name two revisions, for example "
            "dragstrip diff HEAD~1 HEAD"
        )
    if len(revisions) < 2:
        raise BadUsage("nothing to compare: name two revisions, for example dragstrip diff main HEAD")


def requested(asked: Project, options: ProjectOptions) -> tuple[Workload | TypedRequest, ...]:
    """The options' workloads and paths, otherwise the project file's."""
    words = asked.fields.race.workloads
    return asked_for(options, [str(asked.folder / word) if word.endswith(".toml") else word for word in words])


def workloads_of(
    asked: Project,
    options: ProjectOptions,
    entries: Sequence[Entry],
    say: Callable[[str], None],
    *,
    of_all: bool = False,
) -> list[Workload]:
    """What is ``requested``; what the first contender responds at a path is correct.

    Args:
        of_all: what all contenders' responses at a path have in common is.
    """
    return list(workloads_from(requested(asked, options), entries, of_all=of_all, say=say))


def request_of(
    asked: Project,
    options: ProjectOptions,
    entries: tuple[Entry, ...],
    workloads: Sequence[Workload],
    *,
    commits: tuple[str, ...],
    margin: float,
    budget_s: float | None = None,
    rounds: int | None = None,
    gate: Gate = NO_GATE,
) -> Request:
    """The race of revisions, with what the project file says and the options replace."""
    fields = asked.fields.race
    first, *also = workloads
    return Request(
        entries=entries,
        workload=first,
        also=tuple(also),
        connections=options.connections or fields.connections,
        budget_s=budget_s or fields.budget_s or BUDGET_S,
        rounds=rounds or fields.rounds,
        gate=gate,
        margin=margin,
        metric=options.metric or fields.metric,
        seed=options.seed,
        server_cores=options.server_cores,
        engine_cores=options.engine_cores,
        purpose=Purpose(kind=EventKind.REVISIONS, subject=asked.folder.name, names=commits),
    )


def _show_builds(repository: Repository, *, clean: bool) -> None:
    if clean:
        removed = builds.remove_old(repository, 0)
        click.echo(f"{removed} {'build was' if removed == 1 else 'builds were'} removed from {repository.cache}")
        return
    kept = builds.kept(repository)
    for made in kept:
        click.echo(f"{made.commit[:12]}  {made.bytes / 2**20:8.1f} MiB  built in {made.seconds:6.1f} s  {made.subject}")
    click.echo(f"{len(kept)} of at most {builds.MAX_BUILDS} builds are kept in {repository.cache}")
