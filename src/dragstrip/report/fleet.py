"""What ``dragstrip fleet check`` found, in words."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dragstrip.doctor.finding import ClockOffset, FleetFinding, IdleCost, Link, NotMeasured, Reached
from dragstrip.report.figures import visible


def finding_text(finding: FleetFinding) -> str:
    """What was seen, as one sentence."""
    match finding.seen:
        case NotMeasured(refused):
            return visible(refused)
        case Reached(role, version, user, cores):
            return f"{role}: Dragstrip {version}, as {user}, {cores} core{'s' if cores != 1 else ''}"
        case ClockOffset(offset_ns, round_trip_ns):
            trip = f"a round trip takes {round_trip_ns / 1000:,.0f} µs"
            return f"its clock is {offset_ns / 1e9:+z,.3f} s from this machine's ({trip})"
        case Link(round_trip_ns):
            return f"its marks are answered within {round_trip_ns / 1000:,.0f} µs over the data link"
        case IdleCost(share, max_share, seconds):
            used = f"its idle agent uses {100 * share:.3f} % of a core over {seconds:.0f} s"
            return f"{used}; at most {100 * max_share:g} %"


def show_findings(console: Console, findings: Sequence[FleetFinding]) -> None:
    """One line for each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("machine", "looked at", "", "seen"):
        table.add_column(head, overflow="fold")
    for finding in findings:
        mark = "[green]pass[/]" if finding.passed else "[red]fail[/]"
        table.add_row(escape(finding.machine), finding.subject, mark, escape(finding_text(finding)))
    console.print(table)
