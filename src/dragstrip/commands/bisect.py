"""``dragstrip bisect``: the commit that made a server slower, by races against a commit that was not."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Sequence, Set
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
from rich.text import Text

from dragstrip import analysis
from dragstrip.commands import options as opts
from dragstrip.commands.conclusion import finished
from dragstrip.commands.diff import ProjectOptions, request_of, requested, workloads_of
from dragstrip.commands.options import EXIT_FAILURE, EXIT_VOID, gathered, of_race, open_store, option, switch
from dragstrip.commands.outputs import json_text, write_all
from dragstrip.commands.quantities import SHARE
from dragstrip.commands.request_options import say_unless, without_secrets
from dragstrip.contender import Entry
from dragstrip.errors import BadUsage, StageError
from dragstrip.racing import run as racing
from dragstrip.racing.options import RACED, TIME
from dragstrip.record import COMMIT, Race
from dragstrip.report import figures
from dragstrip.report.console import Console
from dragstrip.report.race.live import LiveProgress
from dragstrip.report.race.summary import pair_of
from dragstrip.revision import bisect as searching
from dragstrip.revision import builds, difference, project
from dragstrip.revision.bisect import Asked, BisectStep, Measured, Search
from dragstrip.revision.project import Project
from dragstrip.revision.repository import Repository
from dragstrip.store.database import Store
from dragstrip.store.json_values import JSON_SCHEMA, JsonObject
from dragstrip.store.masking import is_secret
from dragstrip.workload import Workload
from dragstrip.workload.typed import TypedRequest

#: The rounds of a step after BAD's race: as few as have an interval. The search weighs each race by its interval, so
#: several short races, each at the commit that tells most, find more than a long one.
STEP_ROUNDS = 10


@dataclass(frozen=True, kw_only=True)
class BisectOptions(ProjectOptions):
    """Options of ``dragstrip bisect``."""

    good: str = opts.argument()
    bad: str = opts.argument(default="HEAD")
    threshold: float = option(
        "--threshold",
        group=TIME,
        type=SHARE,
        default="3%",
        help="Look for a commit that made it slower by more than this.",
    )
    budget_s: float | None = of_race("budget_s", help="Time for the race of BAD against GOOD. [default: 2 minutes]")
    fresh: bool = switch(
        "--fresh", group=RACED, help="Begin again instead of continuing an earlier search of the same commits."
    )
    json_path: Path | None = opts.report_option("--json", help="Write the search as JSON; - for stdout.")
    quiet: bool = opts.quiet_option()
    store_path: Path | None = opts.store_option()


@click.command(cls=opts.GroupedCommand)
@gathered(BisectOptions)
def bisect(options: BisectOptions) -> None:
    """Find the commit between GOOD and BAD that made the server slower.

    GOOD is an ancestor of BAD; BAD is HEAD by default. The first step races BAD against GOOD, and ends as soon as the
    race is decided. Each later step races one commit against GOOD for ten rounds, and the last one the suspect against
    its parent. Commits that can't be built are skipped. The same command resumes an interrupted search. Exit code 1 if
    BAD is not slower, 3 if the races can't decide.
    """
    repository = Repository(Path.cwd())
    asked = project.load(options.project, repository.top)
    good, bad = (repository.revision(word) for word in (options.good, options.bad))
    commits = tuple(repository.commits(good.commit, bad.commit))
    if not commits:
        raise BadUsage(f"{good.name} and {bad.name} are the same commit; name an older revision as GOOD")
    search = Search(good=good.commit, commits=commits, threshold=options.threshold)
    raced = [one.name if isinstance(one, Workload) else _without_secrets(one) for one in requested(asked, options)]
    what = f"{raced!r}{options.connections}{options.metric}"
    key = hashlib.sha256(f"{asked.source.text}\0{good.commit}\0{bad.commit}\0{what}".encode()).hexdigest()[:16]
    file = repository.cache / "searches" / f"{key}.json"
    if not options.fresh:
        search = searching.resumed(file, search)
    console = Console(stderr=str(options.json_path) == "-")
    if search.steps:
        steps = "1 step" if len(search.steps) == 1 else f"{len(search.steps)} steps"
        console.print(f"continues an earlier search: {steps} (--fresh begins again)", highlight=False)
    with ExitStack() as resources, open_store(options.store_path) as store:
        races = _Races(options, console, asked, repository, search, store, resources)
        while (asked_for := search.next()) is not None and len(search.steps) < search.most_steps:
            step = races.step(asked_for)
            search.steps.append(step)
            searching.save(file, search)
            races.show(step)
            ends = search.of_bad()
            if ends is None or not ends.is_slower(search.threshold):
                break
        builds.remove_old(repository)
    _conclude(console, options, repository, search)


def _without_secrets(typed: TypedRequest) -> TypedRequest:
    return replace(typed, headers=tuple((name, "" if is_secret(name) else value) for name, value in typed.headers))


class _Races:
    """The races of a search: GOOD is built once, and every commit is raced against it or against its parent."""

    def __init__(
        self,
        options: BisectOptions,
        console: Console,
        asked: Project,
        repository: Repository,
        search: Search,
        store: Store,
        resources: ExitStack,
    ) -> None:
        self._options, self._console, self._asked = options, console, asked
        self._say = say_unless(options.quiet)
        self._repository, self._search, self._store = repository, search, store
        self._good = difference.entry_of(
            asked, repository, repository.revision(search.good), resources, set(), self._say
        )
        self._workloads = workloads_of(asked, options, (self._good,), self._say)

    def step(self, asked: Asked) -> BisectStep:
        """One race; a commit that can't be built or started is skipped."""
        begun = time.monotonic()
        with ExitStack() as resources:
            try:
                other = self._entry(asked.against, resources) if asked.against else self._good
                entry = self._entry(asked.commit, resources, {other.name})
                race = self._race((other, entry))
            except StageError as error:
                if self._search.of_bad() is None:
                    raise
                return BisectStep(**asked._asdict(), why=str(error), seconds=time.monotonic() - begun)
        return replace(_step(race, entry.name, other.name, asked), seconds=time.monotonic() - begun)

    def _entry(self, commit: str, resources: ExitStack, taken: Set[str] = frozenset()) -> Entry:
        revision = self._repository.revision(commit)
        return difference.entry_of(self._asked, self._repository, revision, resources, set(taken), self._say)

    def _race(self, entries: Sequence[Entry]) -> Race:
        known, options = self._search.of_bad(), self._options
        # What BAD is slowest at is what the other commits are raced at.
        slow = known.workload if known else ""
        workloads = [workload for workload in self._workloads if slow in ("", workload.name, workload.shown)]
        request = request_of(
            self._asked,
            options,
            tuple(entries),
            workloads or self._workloads,
            commits=(str(entries[0].parameters[COMMIT]), str(entries[1].parameters[COMMIT])),
            budget_s=options.budget_s,
            rounds=STEP_ROUNDS if known else None,
            # Within half of what is sought BAD counts as unchanged, so that its race ends early.
            margin=self._search.threshold / 2,
        )
        with LiveProgress(self._console, quiet=True) as progress:
            return finished(
                self._console,
                None,
                self._store,
                progress,
                lambda: racing.run(request, store=self._store, progress=progress),
                lambda _: ["dragstrip", *without_secrets(word for word in sys.argv[1:] if word != "--fresh")],
            )

    def show(self, step: BisectStep) -> None:
        """A line about a step."""
        subject = self._repository.revision(step.commit).subject
        number = len(self._search.steps)
        of = f"its parent {step.against[:7]}" if step.against else "GOOD"
        what = _speed(step.measured, of) if step.measured else f"skipped: {step.why.splitlines()[0]}"
        line = f"step {number}: {step.commit[:7]} {what}, {step.seconds:.0f} s  {subject}"
        self._console.print(Text(line), soft_wrap=True)


def _step(race: Race, name: str, other: str, asked: Asked) -> BisectStep:
    """A race as a step: of several workloads the one at which the commit is slowest."""
    verdict = analysis.judge(race)
    pairs = [
        (pair.ratio, workload, pair)
        for workload, part in zip((column.name for column in race.columns), verdict.columns, strict=True)
        if (pair := pair_of(part, name, other)) and figures.finite(pair.low) is not None
    ]
    if not pairs:
        out = next((one.out for one in race.entrants if one.name == name), "")
        none = f"race {race.id} has no interval; a larger --budget may help"
        why = f"it is out of race {race.id}: {out}" if out else none
        return BisectStep(**asked._asdict(), why=why)
    ratio, workload, slowest = min(pairs, key=lambda found: found[0])
    measured = Measured(ratio=ratio, low=slowest.low, high=slowest.high, workload=workload, race=race.id)
    return BisectStep(**asked._asdict(), measured=measured)


def _speed(measured: Measured, of: str = "GOOD") -> str:
    ends = measured.ratio, measured.low, measured.high
    if measured.ratio > 1:
        at, span = figures.times(*ends)
        return f"{at} × as fast as {of} ({span})"
    at, span = figures.times(1 / ends[0], 1 / ends[2], 1 / ends[1])
    return f"{of} is {at} × as fast ({span})"


def _conclude(console: Console, options: BisectOptions, repository: Repository, search: Search) -> None:
    """Shows the commit and how sure that is, and exits with the search's code."""
    bad, code, suspects = search.of_bad(), 0, search.suspects()
    lines = list[str]()
    if bad is None:
        lines.append(f"BAD can't be compared with GOOD: {search.steps[-1].why.splitlines()[0]}")
        code = EXIT_VOID
    elif not bad.is_slower(search.threshold):
        lines.append(f"BAD is not slower than GOOD by more than {figures.percent(search.threshold)}: {_speed(bad)}.")
        code = EXIT_FAILURE
    else:
        for commit, chance in suspects:
            lines.append(f"{commit[:12]}, {figures.percent(chance)} sure: {repository.revision(commit).subject}")
        if len(suspects) > 1:
            lines.append("The races can't distinguish these commits; a larger --budget may.")
            code = EXIT_VOID
        seconds, skipped = sum(step.seconds for step in search.steps), sum(not step.measured for step in search.steps)
        also = f", {skipped} skipped" if skipped else ""
        lines.append(f"BAD: {_speed(bad)} at {bad.workload}; {len(search.steps)} steps{also}, {seconds:.0f} s")
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    write_all([("--json", options.json_path, lambda: json_text(_json(repository, search)))], measured=True)
    if code:
        sys.exit(code)


def _json(repository: Repository, search: Search) -> JsonObject:
    chances = search.probabilities()
    return {
        "schema": JSON_SCHEMA,
        "good": search.good,
        "bad": search.bad,
        "threshold": search.threshold,
        "commits": [
            {"commit": commit, "subject": repository.revision(commit).subject, "probability": chance}
            for commit, chance in zip(search.commits, chances, strict=True)
        ],
        "steps": list(map(asdict, search.steps)),
    }
