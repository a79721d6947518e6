"""What commands that race have in common at the end: reports, thresholds, exit codes, and the way on after a signal."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dragstrip.commands import options as opts
from dragstrip.commands.options import EXIT_FAILURE, EXIT_VOID, open_store
from dragstrip.commands.outputs import Wanted, json_text, write_all
from dragstrip.commands.signals import as_interruptions, number_of
from dragstrip.errors import BadUsage, DiskFull
from dragstrip.record import Event, Race
from dragstrip.report import glyphs
from dragstrip.report.console import Console
from dragstrip.report.figures import visible
from dragstrip.report.race import badge, headline
from dragstrip.report.race import terminal as race_terminal
from dragstrip.report.race.live import LiveProgress
from dragstrip.report.race.summary import JudgedRace
from dragstrip.requested import again_words
from dragstrip.store.database import Store, default_path

if TYPE_CHECKING:
    from dragstrip.report.comparison import Ruled


@dataclass(frozen=True, kw_only=True)
class Reports:
    """Options for the reports and thresholds of a race."""

    json_path: Path | None = opts.report_option(
        "--json", "--export-json", help="Write every number as JSON; - for stdout."
    )
    html_path: Path | None = opts.html_option()
    junit_path: Path | None = opts.output_option("--junit", help="A report of tests: one case per --fail-if.")
    markdown_path: Path | None = opts.report_option(
        "--export-markdown", help="Write the ranking as Markdown; - for stdout."
    )
    rules: tuple[tuple[str, str, float], ...] = opts.fail_if_option(
        help=(
            "Exit 1 if a contender is out, or if its whole interval shows it slower (or faster) than the first one "
            "named by more than this."
        )
    )
    strict: bool = opts.strict_option()
    pairs: bool = opts.pairs_option()
    verbose: bool = opts.verbose_option()
    quiet: bool = opts.quiet_option()
    store_path: Path | None = opts.store_option()


def conclude(console: Console, result: Race, options: Reports, *, head: str = "", except_for: str = "") -> None:
    """Shows a race's result, writes its files, and exits unless the exit code is 0.

    Args:
        head: Markdown that precedes the race's.
        except_for: as in ``thresholds.rulings``.
    """
    judged = JudgedRace.of(result)
    race_terminal.show_race(
        console, judged, all_pairs=options.pairs, verbose=options.verbose, run=opts.named("last", options.store_path)
    )
    place = options.store_path or default_path()
    stored = opts.named(result.id, options.store_path)
    console.print(f"record  race {result.id} in {place} (dragstrip show {stored})", soft_wrap=True)
    rules: Sequence[Ruled] = ()
    if options.rules:
        from dragstrip.report.race import thresholds

        rules = thresholds.rulings(judged, options.rules, except_for=except_for)
    again = f"race {result.id} is stored; `dragstrip report {stored} --html FILE --json FILE` writes them again"
    unwritten = 0
    try:
        write_all(_files(options, judged, rules, head), measured=True, again=again)
    except (BadUsage, DiskFull) as error:
        click.echo(f"dragstrip: {visible(str(error), lines=True)}", err=True)
        unwritten = error.exit_code
    else:
        if options.html_path:
            console.print(f"page    {options.html_path.resolve()}", soft_wrap=True)
    with open_store(options.store_path) as store:  # so that a list of races need not judge them
        verdict = badge.race_badge(judged).line
        store.append_event(result.id, Event(at_ns=time.monotonic_ns(), kind=badge.KIND, text=verdict))
    if why := headline.no_result_reason(judged):
        click.echo(f"dragstrip: {visible(why)}", err=True)
    code = judged.standing.exit_code
    if not code and options.rules:
        code = _by_thresholds(console, rules, options.strict)
    if code or unwritten:
        sys.exit(code or unwritten)


def _files(options: Reports, judged: JudgedRace, rules: Sequence[Ruled], head: str) -> Sequence[Wanted]:
    """The files that are wanted; what makes them is imported for them alone."""
    if not any((options.json_path, options.html_path, options.junit_path, options.markdown_path)):
        return ()
    from dragstrip.report.race import export, formats, markdown

    return (
        ("--json", options.json_path, lambda: json_text(export.race_json(judged, rules))),
        ("--html", options.html_path, lambda: formats.html(judged)),
        ("--junit", options.junit_path, lambda: formats.junit(judged, rules)),
        ("--export-markdown", options.markdown_path, lambda: head + markdown.race(judged, rules)),
    )


def _by_thresholds(console: Console, rulings: Sequence[Ruled], strict: bool) -> int:
    """Shows the thresholds' outcomes; returns the exit code: a failure counts more than an undecided threshold."""
    from dragstrip.report.comparison import RulingOutcome, ruling_line

    glyphs.emit(console, *(ruling_line(ruled.ruling, ruled.column) for ruled in rulings))
    outcomes = {ruled.ruling.outcome for ruled in rulings}
    if RulingOutcome.FAILS in outcomes or (strict and RulingOutcome.OPEN in outcomes):
        return EXIT_FAILURE
    return 0 if rulings and all(ruled.could_say for ruled in rulings) else EXIT_VOID


def resuming(race: Race, options: Reports, fleet: Path | None = None) -> list[str]:
    """The command that goes on with a race, with the options that it needs again."""
    words = ["dragstrip", "race", "--resume", race.id, *again_words(race, fleet), *opts.in_store(options.store_path)]
    return words + [word for rule, _, _ in options.rules for word in ("--fail-if", rule)]


def finished(
    console: Console,
    options: Reports | None,
    store: Store,
    progress: LiveProgress,
    drive: Callable[[], Race],
    resuming: Callable[[Race], Sequence[str]],
    resumed: str = "",
) -> Race:
    """The record of a race that ran to its end; a signal ends the command with what was measured and how to go on.

    Args:
        options: how the report of an interrupted race is shown; None: not at all.
        drive: runs the race.
        resuming: the command that goes on with a race.
        resumed: the id of the race that is resumed; "" for a new one.
    """
    before = [line.race for line in store.runs()]
    try:
        with as_interruptions() as interruption:
            progress.after_round = interruption.check
            return drive()
    except KeyboardInterrupt as error:
        progress.close()
        ended_by = number_of(error)
        begun = [line.race for line in store.runs()[:1] if line.race not in before]
        name = store.load(resumed).id if resumed else begun[0] if begun else ""
        rounds = len(store.load(name).rounds) if name else 0
        how = "no round was complete, so nothing was measured"
        if rounds and options is not None:
            with suppress(SystemExit):  # an interrupted race ends with its signal's code, whatever its verdict
                conclude(console, store.load(name), options)
        if rounds:
            kept = f"{rounds} {'round is' if rounds == 1 else 'rounds are'} kept"
            how = f"{kept}; to continue: {shlex.join(resuming(store.load(name)))}"
        click.echo(f"dragstrip: ended by {ended_by.name}: {how}", err=True)
        sys.exit(128 + ended_by)  # click would print an empty line after ours
