"""What ``dragstrip doctor`` found: the sentence of each finding, what would mend it, the table and the JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dragstrip.doctor.finding import PASS, Finding, Report, Subject
from dragstrip.machine import show_cores
from dragstrip.report.figures import as_percent
from dragstrip.store.json_values import JSON_SCHEMA, JsonObject, encode

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN = {"pass": "[green]pass[/]", "warn": "[yellow]warn[/]", "fail": "[red]fail[/]"}

#: What lets cores be kept awake.
_ALLOW_AWAKE = "root, or a container that allows SCHED_IDLE and does not limit CPU time"

_MORE_CORES = "a machine with two free physical cores or more"


def finding_text(finding: Finding) -> str:
    """What was seen."""
    if "refused" in finding.values and not finding.numbers:
        return f"it could not be measured: {finding.values['refused']}"
    return _SEEN[finding.subject](finding)


def remedy_text(finding: Finding) -> str:
    """What would mend it; "" where nothing is to be mended, or nothing would."""
    if "refused" in finding.values and not finding.numbers:
        return "see there"
    if finding.subject is Subject.STEAL:
        stolen = finding.numbers["steal_share"]
        return "race on a machine whose cores are not shared, or at another time" if stolen else ""
    remedy = _REMEDIES.get(finding.subject, "")
    if finding.status == PASS:
        return ""
    return remedy if isinstance(remedy, str) else remedy(finding)


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
                "name": finding.subject.value,
                "status": finding.status,
                "detail": finding_text(finding),
                "remedy": remedy_text(finding),
                "numbers": dict(finding.numbers),
            }
            for finding in report.findings
        ],
    }


def show(console: Console, report: Report) -> None:
    """Prints a line per finding: its name, its status, what was seen and what would mend it."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("looked at", "", "seen, and what would mend it"):
        table.add_column(head, overflow="fold")
    for finding in report.findings:
        text = "; ".join(filter(None, (finding_text(finding), remedy_text(finding))))
        table.add_row(escape(finding.subject), _SHOWN[finding.status], escape(text))
    console.print(table)


def _cores(finding: Finding) -> str:
    seen = finding.values
    return f"servers on {show_cores(seen['server'])}, generator on {show_cores(seen['engine'])}, of {seen['usable']}"


def _clock(finding: Finding) -> str:
    source, reading_ns = finding.values["source"], finding.numbers["reading_ns"]
    return f"{source or 'unknown'}, {reading_ns} ns a reading (Python's call included)"


def _descriptors(finding: Finding) -> str:
    most = finding.values["most"]
    connections = max((most or 10**6) - 100, 0)
    return f"at most {most or 'any number of'} files open at once, so about {connections} connections"


def _ports(finding: Finding) -> str:
    ports = finding.numbers["ports"]
    return f"{ports} ports for connections to one address; a new connection per request can use them up"


def _backlog(finding: Finding) -> str:
    most = finding.values["somaxconn"] or "an unknown number of"
    return f"at most {most} handshakes wait for a server (somaxconn)"


def _ceiling(finding: Finding) -> str:
    rates = ", ".join(
        f"{point['ceiling_per_s']:,.0f}/s at {point['connections']}{'' if point['keepalive'] else ' (used once)'}"
        for point in finding.numbers["points"]
    )
    refused = finding.values.get("refused")
    return f"the generator can send {rates} connections" + (f"; {refused}" if refused else "")


def _noise(finding: Finding) -> str:
    """The scatter, and the smallest differences that a race of two sees within usual budgets."""
    smallest: Iterable[tuple[float, float]] = finding.values["smallest"].items()
    sees = ", ".join(f"{100 * share:.1f} % in {_minutes(budget_s)}" for budget_s, share in smallest)
    scatter = f"a round's ratio scatters by {as_percent(finding.numbers['round_sd'])}"
    return f"{scatter}; a race of two sees {sees}, in nine of ten"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _awake(finding: Finding) -> str:
    """What keeping cores awake does here: the host's share and the scatter, with and without."""
    way, numbers = finding.values["way"], finding.numbers
    if not numbers:
        return f"cores can't be kept awake ({way})"
    return (
        f"{way}: the hypervisor took {numbers['steal_share']:.1%} of the cores' time, and a round's ratio scattered "
        f"by {as_percent(numbers['round_sd'])}; with cores as they are {numbers['steal_share_off']:.1%} and "
        f"{as_percent(numbers['round_sd_off'])}"
    )


def _null_race(finding: Finding) -> str:
    """What a race of a server against itself says of this machine."""
    seen = finding.numbers
    span = "" if seen["low"] is None else f", {seen['low']:.4f} to {seen['high']:.4f}"
    sees = f"; rounds scatter by {as_percent(seen['round_sd'])}" if "round_sd" in seen else ""
    return f"{seen['verdict']}{span}, after {seen['spent_s']:.0f} s (race {seen['race']}){sees}"


_SEEN: Mapping[Subject, Callable[[Finding], str]] = {
    Subject.CORES: _cores,
    Subject.HARDWARE_THREADS: lambda finding: str(finding.values["note"]),
    Subject.CLOCK: _clock,
    Subject.GOVERNOR: lambda finding: f"the processor's frequency follows the load ({finding.values['governor']})",
    Subject.DESCRIPTORS: _descriptors,
    Subject.PORTS: _ports,
    Subject.BACKLOG: _backlog,
    Subject.IO_URING: lambda finding: str(finding.values["backend"]),
    Subject.OTHER_PROGRAMS: lambda finding: f"they use {finding.numbers['busy_share']:.0%} of the cores' time now",
    Subject.STEAL: lambda finding: f"the hypervisor takes {finding.numbers['steal_share']:.0%} of the cores' time now",
    Subject.NOISE: _noise,
    Subject.AWAKE: _awake,
    Subject.CEILING: _ceiling,
    Subject.NULL_RACE: _null_race,
}

#: What would mend a finding that does not pass; none: nothing.
_REMEDIES: Mapping[Subject, str | Callable[[Finding], str]] = {
    Subject.CORES: _MORE_CORES,
    Subject.HARDWARE_THREADS: _MORE_CORES,
    Subject.CLOCK: "a clock source read without a system call (tsc), by the kernel's command line",
    Subject.GOVERNOR: "cpupower frequency-set -g performance",
    Subject.DESCRIPTORS: "ulimit -Hn, or nofile in limits.conf",
    Subject.PORTS: "sysctl net.ipv4.ip_local_port_range='1024 65535'",
    Subject.BACKLOG: lambda finding: f"sysctl net.core.somaxconn={finding.values['would_do']}",
    Subject.IO_URING: "sysctl kernel.io_uring_disabled=0, or a container that allows it; epoll serves as well",
    Subject.OTHER_PROGRAMS: "end other programs",
    Subject.NOISE: "end other programs; a machine of one's own sees more",
    Subject.AWAKE: _ALLOW_AWAKE,
    Subject.NULL_RACE: "end other programs and repeat it; one in twenty calls a difference by chance",
}
