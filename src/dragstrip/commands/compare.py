"""``dragstrip compare``: compares two stored races, with an exit code for CI."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from dragstrip.analysis.causes import CausesBetween
from dragstrip.analysis.comparison import columns_of_both, compare_columns
from dragstrip.commands import options as opts
from dragstrip.commands.options import EXIT_FAILURE, EXIT_VOID, gathered, option, read_race, switch
from dragstrip.commands.outputs import json_text, write_all
from dragstrip.commands.quantities import SHARE
from dragstrip.errors import MeasurementVoid
from dragstrip.metrics import METRICS
from dragstrip.record import Ending, Race
from dragstrip.report import changed_causes, glyphs
from dragstrip.report import comparison as report
from dragstrip.report.console import Console
from dragstrip.report.race import formats
from dragstrip.store.json_values import JSON_SCHEMA, JsonObject
from dragstrip.validity import Status, inspect


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of ``dragstrip compare``."""

    old: str = opts.race_argument()
    new: str = opts.race_argument()
    metric: str | None = option("--metric", type=click.Choice(METRICS), help="Metric to compare. [default: NEW's]")
    margin: float | None = option(
        "--margin",
        type=SHARE,
        help="Equivalence margin: 'same' if the whole interval lies within it. [default: NEW's]",
    )
    reference: str | None = option(
        "--reference",
        metavar="NAME|none",
        help="Unchanged contender to divide by, or none. [default: chosen automatically]",
    )
    rules: tuple[tuple[str, str, float], ...] = opts.fail_if_option(
        help="Exit 1 if the whole interval shows a contender slower (or faster) than in OLD by more than this."
    )
    strict: bool = opts.strict_option()
    anyway: bool = switch("--anyway", help="Compare even if machine or load differ.")
    json_path: Path | None = opts.report_option("--json", help="Write the comparison as JSON; - for stdout.")
    markdown_path: Path | None = opts.report_option(
        "--markdown", help="Write the comparison as Markdown; - for stdout."
    )
    junit_path: Path | None = opts.output_option(
        "--junit", help="Write JUnit XML, one case per --fail-if and contender."
    )
    store_path: Path | None = opts.store_option()


@click.command()
@gathered(CompareOptions)
def compare(options: CompareOptions) -> None:
    """Compare race NEW with race OLD. Each is an id, the start of one, last, or a file written by `dragstrip export`.

    A ratio is a contender's speed in NEW divided by its speed in OLD. Exit code 1 if the whole interval shows what
    --fail-if names, or if a contender of OLD is out in NEW; 3 if the races can't be compared or --fail-if has no
    interval to judge. If both races have extra launches (why), it also shows which costs and functions changed.
    """
    before, after = (read_race(name, options.store_path) for name in (options.old, options.new))
    for race in (before, after):
        _refuse_void(race)
    reference = "" if options.reference == "none" else options.reference
    by_column = compare_columns(before, after, metric=options.metric, margin=options.margin, reference=reference)
    disturbed = report.disturbance(before, after)
    reports = []
    for (column, comparison), (_, then, now) in zip(by_column, columns_of_both(before, after), strict=True):
        compared = comparison.comparable or options.anyway
        rulings = report.judge(comparison, options.rules) if compared else []
        item = report.ComparisonReport(
            comparison=comparison, rulings=rulings, compared=compared, column=column, disturbed=disturbed
        )
        why = changed_causes.of_races(then, now, reference=comparison.reference) if compared else None
        reports.append((item, why))
    if "-" not in (str(options.json_path), str(options.markdown_path)):
        for item, why in reports:
            report.show(Console(), item)
            if why is not None:
                glyphs.emit(Console(), *changed_causes.lines(why))
    suites = [(item.rulings, item.comparison.fallen, _suite(item)) for item, _ in reports]
    write_all(
        [
            ("--json", options.json_path, lambda: json_text(_json(before, after, reports))),
            (
                "--markdown",
                options.markdown_path,
                lambda: "\n".join(report.markdown(item) + changed_causes.markdown(why) for item, why in reports),
            ),
            ("--junit", options.junit_path, lambda: formats.junit_rules(suites)),
        ]
    )
    codes = {_code(item, strict=options.strict, asked=bool(options.rules)) for item, _ in reports}
    # A failure in one column counts more than an undecided other column.
    sys.exit(next((code for code in (EXIT_FAILURE, EXIT_VOID) if code in codes), 0))


def _suite(item: report.ComparisonReport) -> str:
    """The comparison's name in a JUnit report."""
    column = f" at {item.column}" if item.column else ""
    return f"dragstrip compare {item.comparison.old} {item.comparison.new}{column}"


def _json(
    before: Race, after: Race, reports: Sequence[tuple[report.ComparisonReport, CausesBetween | None]]
) -> JsonObject:
    """The comparison with its causes; for several columns a list with one comparison each."""
    compared = [(item.column, report.as_json(item) | {"why": changed_causes.as_json(why)}) for item, why in reports]
    if not compared[0][0]:
        return compared[0][1]
    listed = [{"column": column, **item} for column, item in compared]
    return {"schema": JSON_SCHEMA, "old": before.id, "new": after.id, "columns": listed}


def _refuse_void(race: Race) -> None:
    void = [check.detail for check in inspect(race) if check.status is Status.VOID]
    if void or race.finished is Ending.VOID:
        raise MeasurementVoid(f"race {race.id} is void and can't be compared: {(void or ['too many void rounds'])[0]}")


def _code(item: report.ComparisonReport, *, strict: bool, asked: bool) -> int:
    outcomes = {ruling.outcome for ruling in item.rulings}
    if (
        (asked and item.comparison.fallen)
        or report.RulingOutcome.FAILS in outcomes
        or (strict and report.RulingOutcome.OPEN in outcomes)
    ):
        return EXIT_FAILURE
    unbounded = asked and not all(change.interval.bounded for change in item.comparison.changes)
    return EXIT_VOID if unbounded or not item.compared else 0
