"""What ``dragstrip doctor`` and ``dragstrip fleet check`` found, as tables and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from dragstrip.doctor.finding import DoctorStatus, FleetFinding, Report
from dragstrip.report import glyphs
from dragstrip.report.figures import visible
from dragstrip.store.json_values import JSON_SCHEMA, JsonObject, encode

_SHOWN = {DoctorStatus.PASS: "[green]pass[/]", DoctorStatus.WARN: "[yellow]warn[/]", DoctorStatus.FAIL: "[red]fail[/]"}


def as_json(report: Report) -> JsonObject:
    """JSON-able, schema 1."""
    return {
        "schema": JSON_SCHEMA,
        "at": report.at,
        "software": report.software,
        "machine": encode(report.machine)
        | {"engine_cores": list(report.engine_cores), "server_cores": list(report.server_cores)},
        "findings": [
            {
                "name": finding.subject,
                "status": finding.status,
                "detail": finding.text,
                "remedy": finding.remedy,
                "numbers": finding.numbers,
            }
            for finding in report.findings
        ],
    }


def show(console: Console, report: Report) -> None:
    """Prints a line per finding: its name, its status, what was seen and what would mend it."""
    table = glyphs.table("looked at", "", "seen, and what would mend it")
    for finding in report.findings:
        text = "; ".join(filter(None, (finding.text, finding.remedy)))
        table.add_row(escape(finding.subject), _SHOWN[finding.status], escape(text))
    console.print(table)


def show_fleet(console: Console, findings: Sequence[FleetFinding]) -> None:
    """One line for each."""
    table = glyphs.table("machine", "looked at", "", "seen")
    for finding in findings:
        mark = _SHOWN[DoctorStatus.PASS if finding.passed else DoctorStatus.FAIL]
        table.add_row(escape(finding.machine), finding.subject, mark, escape(visible(finding.text)))
    console.print(table)
