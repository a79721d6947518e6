"""What the commands about claims share: which claims there are, and the table of what became of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from dragstrip.claim import definition
from dragstrip.claim.definition import Claim
from dragstrip.claim.finding import Row
from dragstrip.claim.run import rows
from dragstrip.cli.options import Command
from dragstrip.cli.outputs import OutputFile, json_text, write_or_refuse
from dragstrip.report.claims import chart as claims_chart
from dragstrip.report.claims import page as claims_page
from dragstrip.report.claims import table as claims_report
from dragstrip.store.database import Store, default_path


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What is shown of the table of claims, and the files that it is written to; None for none."""

    remarks: bool
    markdown_path: Path | None
    svg_path: Path | None
    json_path: Path | None


def table_options(command: Command) -> Command:
    """``--markdown``, ``--svg`` and ``--json`` of ``TableOptions``."""
    path = OutputFile(dash=True)
    for name, text in (
        ("markdown", "Write the claims page (Markdown); - for stdout."),
        ("svg", "Write the chart (SVG); - for stdout."),
        ("json", "Write every row as JSON; - for stdout."),
    ):
        command = click.option(f"--{name}", f"{name}_path", type=path, default=None, help=text)(command)
    return command


remarks_option = click.option("--remarks", is_flag=True, help="Also show the evidence behind each verdict.")


def claims_named(names: Sequence[str]) -> tuple[Claim, ...]:
    """Claims by name or TOML file; all of them, those that were added here included, where none is named."""
    folders = (own_folder(),)
    return tuple(definition.load(name, folders) for name in names) if names else definition.every(folders)


def own_folder() -> Path:
    """The folder of the claims that were added here: beside the store."""
    return default_path().parent / "claims"


def show_table(wanted: Sequence[Claim], store: Store, options: TableOptions) -> list[Row]:
    """Shows the table, writes the files that are wanted, and returns the rows."""
    found = list(rows(wanted, store))
    if str(options.json_path) != "-":
        claims_report.show(Console(), found, remarks=options.remarks)
    write_or_refuse(
        [
            ("--json", options.json_path, lambda: json_text(claims_report.as_json(found))),
            ("--markdown", options.markdown_path, lambda: _page(found, store, options)),
            ("--svg", options.svg_path, lambda: claims_chart.svg(found)),
        ],
        measured=True,
    )
    return found


def _page(found: Sequence[Row], store: Store, options: TableOptions) -> str:
    """The page of docs; it shows the chart if that is written too."""
    ids = dict.fromkeys(
        finding.race for row in found for finding in (row.published, row.fair) if finding and finding.race
    )
    place = options.markdown_path.parent if options.markdown_path else Path()
    chart = os.path.relpath(options.svg_path, place) if options.svg_path else ""
    return claims_page.markdown(found, [store.load(race) for race in ids], chart=chart)
