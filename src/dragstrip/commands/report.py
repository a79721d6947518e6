"""``dragstrip report``: a stored race drawn again, as a page, as JSON or as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from dragstrip.commands import options as opts
from dragstrip.commands.options import gathered, read_store
from dragstrip.commands.outputs import json_text, write_all
from dragstrip.errors import BadUsage
from dragstrip.report.race import export as race_export
from dragstrip.report.race import formats
from dragstrip.report.race import terminal as race_terminal
from dragstrip.report.race.summary import JudgedRace


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Options of ``dragstrip report``."""

    run: str = opts.race_argument(default="last")
    html_path: Path | None = opts.html_option()
    json_path: Path | None = opts.report_option("--json", help="Write every number as JSON; - for stdout.")
    svg_path: Path | None = opts.output_option("--svg", help="Write the terminal report as SVG.")
    store_path: Path | None = opts.store_option()


@click.command()
@gathered(ReportOptions)
def report(options: ReportOptions) -> None:
    """Render a stored race again: HTML page, JSON, or an SVG of the terminal report."""
    if not (options.html_path or options.json_path or options.svg_path):
        raise BadUsage("report: nothing to write; give --html FILE, --json FILE or --svg FILE")
    with read_store(options.store_path) as store:
        judged = JudgedRace.of(store.load(options.run))
    write_all(
        [
            ("--json", options.json_path, lambda: json_text(race_export.race_json(judged))),
            ("--html", options.html_path, lambda: formats.html(judged)),
            ("--svg", options.svg_path, lambda: race_terminal.terminal_svg(judged)),
        ]
    )
