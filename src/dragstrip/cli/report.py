"""``dragstrip report``: a stored race drawn again, as a page, as JSON or as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from dragstrip import analysis
from dragstrip.cli import completion
from dragstrip.cli.options import read_store, store_options
from dragstrip.cli.outputs import OutputFile, json_text, write_or_refuse
from dragstrip.errors import BadUsage
from dragstrip.report.race import export as race_export
from dragstrip.report.race import page as race_page
from dragstrip.report.race import svg
from dragstrip.validity import inspect


@click.command()
@click.argument("run", default="last", shell_complete=completion.races)
@click.option(
    "--html", "html_path", type=OutputFile(), default=None, help="Write the report as one self-contained HTML page."
)
@click.option(
    "--json", "json_path", type=OutputFile(dash=True), default=None, help="Write every number as JSON; - for stdout."
)
@click.option("--svg", "svg_path", type=OutputFile(), default=None, help="Write the terminal report as SVG.")
@store_options
def report(
    run: str, html_path: Path | None, json_path: Path | None, svg_path: Path | None, store_path: Path | None
) -> None:
    """Render a stored race again: HTML page, JSON, or an SVG of the terminal report."""
    if not (html_path or json_path or svg_path):
        raise BadUsage("report: nothing to write; give --html FILE, --json FILE or --svg FILE")
    with read_store(store_path) as store:
        recorded = store.load(run)
    judged, checks = analysis.judge(recorded), inspect(recorded)
    write_or_refuse(
        [
            ("--json", json_path, lambda: json_text(race_export.race_json(recorded, judged, checks))),
            ("--html", html_path, lambda: race_page.render(recorded, judged, checks)),
            ("--svg", svg_path, lambda: svg.terminal_svg(recorded, judged, checks)),
        ]
    )
