"""What ``dragstrip fleet check`` found, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dragstrip.doctor.fleet_finding import Finding, FindingKind
from dragstrip.report.figures import visible


def finding_text(finding: Finding) -> str:
    """What was seen, as one sentence."""
    return visible(finding.refused) if finding.refused else _TOLD[finding.kind](finding)


def show_findings(console: Console, findings: Sequence[Finding]) -> None:
    """One line for each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("machine", "looked at", "", "seen"):
        table.add_column(head, overflow="fold")
    for one in findings:
        mark = "[green]pass[/]" if one.passed else "[red]fail[/]"
        table.add_row(escape(one.machine), str(one.kind), mark, escape(finding_text(one)))
    console.print(table)


def _reached(finding: Finding) -> str:
    names, cores = finding.names, int(finding.numbers["cores"])
    told = f"{names['role']}: Dragstrip {names['version']}, as {names['user']}"
    return f"{told}, {cores} core{'s' if cores != 1 else ''}"


def _clock(finding: Finding) -> str:
    apart_s, trip_us = finding.numbers["offset_ns"] / 1e9, finding.numbers["round_trip_ns"] / 1000
    return f"its clock is {apart_s:+z,.3f} s from this machine's (a round trip takes {trip_us:,.0f} µs)"


def _link(finding: Finding) -> str:
    return f"its marks are answered within {finding.numbers['round_trip_ns'] / 1000:,.0f} µs over the data link"


def _idle(finding: Finding) -> str:
    share, most = 100 * finding.numbers["share"], 100 * finding.numbers["most"]
    return f"its idle agent uses {share:.3f} % of a core over {finding.numbers['seconds']:.0f} s; at most {most:g} %"


_TOLD: Mapping[FindingKind, Callable[[Finding], str]] = {
    FindingKind.REACHED: _reached,
    FindingKind.CLOCK: _clock,
    FindingKind.LINK: _link,
    FindingKind.IDLE: _idle,
}
