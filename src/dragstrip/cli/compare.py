"""``dragstrip compare``: two stored races, now against then, with an exit code for CI."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from dragstrip import analysis
from dragstrip.cli import completion
from dragstrip.cli.options import (
    EXIT_FAILURE,
    EXIT_VOID,
    Output,
    Share,
    share_of,
    store_option,
    stored,
    write_json,
    write_text,
)
from dragstrip.errors import MeasurementVoid
from dragstrip.metrics import METRICS
from dragstrip.record import Race
from dragstrip.report import comparison
from dragstrip.report.race import formats
from dragstrip.validity import inspect


class Rule(click.ParamType[tuple[str, str, float]]):
    """``slower:3%`` or ``faster:5%``; as its text, its word and its share."""

    name = "rule"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str, float]:
        """Text, word and share."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(slower|faster):(.+)", str(value))
        share = share_of(match[2]) if match else None
        if match is None or share is None or share >= 1:
            self.fail(f"{value!r} is no threshold; use slower:3% or faster:0.05", param, ctx)
        return str(value), match[1], share


@click.command()
@click.argument("old", shell_complete=completion.races)
@click.argument("new", shell_complete=completion.races)
@click.option("--metric", type=click.Choice(METRICS), default=None, help="Default: the new race's.")
@click.option("--margin", type=Share(), default=None, help="Differences below it are the same.")
@click.option(
    "--reference", default=None, metavar="NAME|none", help="The contender that did not change; found if not given."
)
@click.option("--fail-if", "rules", type=Rule(), multiple=True, metavar="slower:3%", help="Exit 1 where it is shown.")
@click.option("--strict", is_flag=True, help="Exit 1 also where --fail-if's case can't be excluded.")
@click.option("--anyway", is_flag=True, help="Compare what differs in machine, method or load.")
@click.option("--json", "json_path", type=Output(dash=True), default=None)
@click.option("--markdown", "markdown_path", type=Output(dash=True), default=None)
@click.option("--junit", "junit_path", type=Output(), default=None, help="One case per --fail-if.")
@store_option
def compare(old: str, new: str, store_path: Path | None, **words: Any) -> None:
    """Two races, NEW against OLD: ids, beginnings of ids, last, or files that `dragstrip export` wrote.

    A ratio is the contender's speed now over its speed then. Ends with 1 where a --fail-if is shown by the interval
    (or its contender fell out), with 3 where the races can't be compared or --fail-if finds no interval.
    """
    before, after = stored(old, store_path), stored(new, store_path)
    for race in (before, after):
        _refuse_void(race)
    reference = "" if words["reference"] == "none" else words["reference"]
    found = analysis.compare(before, after, metric=words["metric"], margin=words["margin"], reference=reference)
    compared = found.comparable or words["anyway"]
    rulings = comparison.judge(found, words["rules"]) if compared else []
    told = {str(words["json_path"]), str(words["markdown_path"])}
    if "-" not in told:
        comparison.show(Console(), found, rulings, compared=compared)
    if words["json_path"]:
        write_json(words["json_path"], comparison.as_json(found, rulings, compared=compared), "--json")
    if words["markdown_path"]:
        write_text(words["markdown_path"], comparison.markdown(found, rulings, compared=compared), "--markdown")
    if words["junit_path"]:
        name = f"dragstrip compare {found.old} {found.new}"
        write_text(words["junit_path"], formats.junit_rules(rulings, found.fallen, name), "--junit")
    sys.exit(_code(found, rulings, compared=compared, strict=words["strict"], asked=bool(words["rules"])))


def _refuse_void(race: Race) -> None:
    void = [check.detail for check in inspect(race) if check.status == "void"]
    if void or race.finished == "void":
        raise MeasurementVoid(
            f"race {race.id} is void and compared with nothing: {(void or ['too many void rounds'])[0]}"
        )


def _code(
    found: analysis.Comparison, rulings: list[comparison.Ruling], *, compared: bool, strict: bool, asked: bool
) -> int:
    outcomes = {ruling.outcome for ruling in rulings}
    if (asked and found.fallen) or "fails" in outcomes or (strict and "open" in outcomes):
        return EXIT_FAILURE
    blind = asked and not all(change.has_interval for change in found.changes)
    return EXIT_VOID if blind or not compared else 0
