"""What ``dragstrip doctor`` and ``dragstrip fleet check`` found: sentences, what would mend it, tables and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape

from dragstrip.doctor.finding import (
    AwakeEffect,
    Bubblewrap,
    Ceiling,
    Clock,
    ClockOffset,
    Cores,
    Engines,
    EngineState,
    Finding,
    FleetFinding,
    Forecast,
    IdleCost,
    Limit,
    Link,
    NamespaceCause,
    Note,
    NotMeasured,
    NullRaceResult,
    Reached,
    Report,
    Status,
    Subject,
    SubordinateIds,
    TimeShare,
    UserNamespaces,
)
from dragstrip.machine import show_cores
from dragstrip.machine_facts import CeilingPoint
from dragstrip.report import glyphs
from dragstrip.report.figures import as_percent, visible
from dragstrip.store.json_values import JSON_SCHEMA, JsonObject, encode

_SHOWN = {Status.PASS: "[green]pass[/]", Status.WARN: "[yellow]warn[/]", Status.FAIL: "[red]fail[/]"}

_MORE_CORES = "a machine with two free physical cores or more"

#: What would mend a finding that does not pass; none: nothing.
_REMEDIES: Mapping[Subject, str] = {
    Subject.CORES: _MORE_CORES,
    Subject.HARDWARE_THREADS: _MORE_CORES,
    Subject.CLOCK: "a clock source read without a system call (tsc), by the kernel's command line",
    Subject.GOVERNOR: "cpupower frequency-set -g performance",
    Subject.DESCRIPTORS: "ulimit -Hn, or nofile in limits.conf",
    Subject.PORTS: "sysctl net.ipv4.ip_local_port_range='1024 65535'",
    Subject.BACKLOG: "sysctl net.core.somaxconn=4096",
    Subject.IO_URING: "sysctl kernel.io_uring_disabled=0, or a container that allows it; epoll serves as well",
    Subject.BUBBLEWRAP: "root, or a machine that allows user namespaces",
    Subject.ENGINES: "start its daemon (`systemctl start docker`), or install podman, which needs none",
    Subject.SUBORDINATE_IDS: "the package uidmap, and "
    "`usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER`",
    Subject.OTHER_PROGRAMS: "end other programs",
    Subject.NOISE: "end other programs; a machine of one's own sees more",
    Subject.AWAKE: "root, or a container that allows SCHED_IDLE and does not limit CPU time",
    Subject.CEILING: "end other programs and repeat it",
    Subject.NULL_RACE: "end other programs and repeat it; one in twenty calls a difference by chance",
}


#: What lets an ordinary user make user namespaces, by the cause of a refusal.
_NAMESPACE_REMEDIES: Mapping[NamespaceCause, str] = {
    NamespaceCause.APPARMOR: "AppArmor forbids it (usual on Ubuntu): "
    "sysctl kernel.apparmor_restrict_unprivileged_userns=0, an AppArmor profile with `userns` for bwrap, or root",
    NamespaceCause.NUMBER: "sysctl user.max_user_namespaces=10000",
    NamespaceCause.SWITCH: "sysctl kernel.unprivileged_userns_clone=1, or root",
    NamespaceCause.OTHER: "root, or a container that allows user namespaces (its filter of system calls may forbid it)",
}

_NO_ENGINE = "; images then come from files of `docker save`, and none can be built here"


def _usable(state: EngineState) -> bool:
    return state.installed and not state.refused


def _engine(state: EngineState) -> str:
    if not state.installed:
        return f"{state.name} is not installed"
    return f"{state.name} does not work ({state.refused})" if state.refused else f"{state.name} works"


def finding_text(finding: Finding) -> str:
    """What was seen."""
    match finding.seen:
        case NotMeasured(refused):
            return f"it could not be measured: {refused}"
        case Note(text):
            return _NOTES.get(finding.subject, "{}").format(text)
        case Limit(count):
            return _limit(finding.subject, count)
        case TimeShare(share) if finding.subject is Subject.STEAL:
            return f"the hypervisor takes {share:.0%} of the cores' time now"
        case TimeShare(share):
            return f"they use {share:.0%} of the cores' time now"
        case Cores(server, engine, usable):
            return f"servers on {show_cores(server)}, generator on {show_cores(engine)}, of {usable}"
        case Clock(source, reading_ns):
            return f"{source or 'unknown'}, {reading_ns} ns a reading (Python's call included)"
        case Ceiling():
            return _ceiling(finding.seen)
        case Forecast(round_sd=round_sd, smallest=smallest):
            budgets = ((share, f"{s:.0f} s" if s < 120 else f"{s / 60:.0f} min") for s, share in smallest.items())
            sees = ", ".join(f"{100 * share:.1f} % in {budget}" for share, budget in budgets)
            return f"a round's ratio scatters by {as_percent(round_sd)}; a race of two sees {sees}, in nine of ten"
        case AwakeEffect() as effect:
            awake = f"took {effect.steal_share:.1%} of the cores' time, and a round's ratio scattered by"
            asleep = f"with cores as they are {effect.steal_share_off:.1%} and {as_percent(effect.round_sd_off)}"
            return f"{effect.text}: the hypervisor {awake} {as_percent(effect.round_sd)}; {asleep}"
        case NullRaceResult(race):
            span = "" if race.low is None else f", {race.low:.4f} to {race.high:.4f}"
            sees = "" if race.round_sd is None else f"; rounds scatter by {as_percent(race.round_sd)}"
            return f"{race.verdict}{span}, after {race.spent_s:.0f} s (race {race.race}){sees}"
        case UserNamespaces(None):
            return "this user can make them, so containers can start"
        case UserNamespaces(_, refused):
            return f"this user can't make them, so no container can start: {refused}"
        case Bubblewrap(None):
            return "not installed; only containers need it, and `dragstrip install bubblewrap` installs it"
        case Bubblewrap(program, refused):
            return f"{program} can't start a container: {refused}" if refused else f"{program} can start containers"
        case Engines(states):
            return "; ".join(map(_engine, states)) + ("" if any(map(_usable, states)) else _NO_ENGINE)
        case SubordinateIds(user, count, tool):
            lacks = "" if tool else ", and `newuidmap` is missing"
            return f"{user} has {count:,} further ids in /etc/subuid for Podman's containers{lacks}"


def remedy_text(finding: Finding) -> str:
    """What would mend it; "" if nothing needs to be mended, or nothing would mend it."""
    if isinstance(finding.seen, NotMeasured):
        return "see there"
    if finding.subject is Subject.STEAL and isinstance(finding.seen, TimeShare):
        return "race on a machine whose cores are not shared, or at another time" if finding.seen.share else ""
    if isinstance(finding.seen, UserNamespaces) and finding.seen.cause is not None:
        return _NAMESPACE_REMEDIES[finding.seen.cause]
    return "" if finding.status is Status.PASS else _REMEDIES.get(finding.subject, "")


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
                "detail": finding_text(finding),
                "remedy": remedy_text(finding),
                "numbers": _numbers(finding),
            }
            for finding in report.findings
        ],
    }


def show(console: Console, report: Report) -> None:
    """Prints a line per finding: its name, its status, what was seen and what would mend it."""
    table = glyphs.table("looked at", "", "seen, and what would mend it")
    for finding in report.findings:
        text = "; ".join(filter(None, (finding_text(finding), remedy_text(finding))))
        table.add_row(escape(finding.subject), _SHOWN[finding.status], escape(text))
    console.print(table)


def _numbers(finding: Finding) -> JsonObject:
    """What was measured, by name with its unit last."""
    match finding.seen:
        case Clock(reading_ns=reading_ns):
            return {"reading_ns": reading_ns}
        case Limit(count) if finding.subject is Subject.PORTS:
            return {"ports": count}
        case TimeShare(share):
            return {"steal_share" if finding.subject is Subject.STEAL else "busy_share": share}
        case Ceiling(ceiling):
            return {"threads": ceiling.threads, "points": [encode(point) for point in ceiling.points]}
        case AwakeEffect():
            return {name: value for name, value in encode(finding.seen).items() if name != "text"}
        case Forecast():
            return _forecast_numbers(finding.seen)
        case Engines(states):
            return {state.name: _usable(state) for state in states}
        case SubordinateIds(count=count):
            return {"ids": count}
        case NullRaceResult(race, forecast):
            bounds: JsonObject = {"low": race.low, "high": race.high}
            return encode(race) | bounds | (_forecast_numbers(forecast) if forecast else {})
        case _:
            return {}


def _forecast_numbers(forecast: Forecast) -> JsonObject:
    numbers: JsonObject = {"round_sd": forecast.round_sd, "round_s": forecast.round_s, "rounds": forecast.rounds}
    numbers |= {f"smallest_in_{budget_s}_s": share for budget_s, share in forecast.smallest.items()}
    return numbers | {f"seconds_to_{100 * share:g}_percent": after_s for share, after_s in forecast.seconds_to.items()}


#: The sentence of a subject's one text, if it is more than that text.
_NOTES: Mapping[Subject, str] = {
    Subject.GOVERNOR: "the processor's frequency follows the load ({})",
    Subject.AWAKE: "cores can't be kept awake ({})",
}


def _limit(subject: Subject, count: int | None) -> str:
    if subject is Subject.PORTS:
        return f"{count} ports for connections to one address; a new connection per request can use them up"
    if subject is Subject.BACKLOG:
        return f"at most {count or 'an unknown number of'} handshakes wait for a server (somaxconn)"
    connections = max((count or 10**6) - 100, 0)
    return f"at most {count or 'any number of'} files open at once, so about {connections} connections"


def _ceiling(ceiling: Ceiling) -> str:
    rates = ", ".join(f"{point.ceiling_per_s:,.0f}/s at {_connections(point)}" for point in ceiling.ceiling.points)
    texts = [f"the generator can send {rates} connections" if rates else "", ceiling.refused]
    texts += [
        f"at {_connections(point)} connections it had {point.reached_per_s:,.0f} responses per second and "
        f"{point.errors:,} errors"
        for point in ceiling.unsound
    ]
    return "; ".join(filter(None, texts))


def _connections(point: CeilingPoint) -> str:
    return f"{point.connections}{'' if point.keepalive else ' (used once)'}"


def fleet_finding_text(finding: FleetFinding) -> str:
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
            return f"its marks come back within {round_trip_ns / 1000:,.0f} µs over the data link"
        case IdleCost(share, max_share, seconds):
            used = f"its idle agent uses {100 * share:.3f} % of a core over {seconds:.0f} s"
            return f"{used}; at most {100 * max_share:g} %"


def show_fleet(console: Console, findings: Sequence[FleetFinding]) -> None:
    """One line for each."""
    table = glyphs.table("machine", "looked at", "", "seen")
    for finding in findings:
        mark = "[green]pass[/]" if finding.passed else "[red]fail[/]"
        table.add_row(escape(finding.machine), finding.subject, mark, escape(fleet_finding_text(finding)))
    console.print(table)
