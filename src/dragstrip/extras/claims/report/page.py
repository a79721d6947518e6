"""The page of docs about claims: a table for each write-up, what was raced for it, what each verdict rests on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median

from dragstrip import analysis
from dragstrip.analysis import cpu_shares
from dragstrip.extras.claims.assess import SHOWN_WARNINGS, TILTING
from dragstrip.extras.claims.definition import FAIR_LOAD, readings
from dragstrip.extras.claims.finding import ClaimFinding, ClaimRow
from dragstrip.extras.claims.report.table import MEANING, measured, published, source_of, stand_ins
from dragstrip.record import Entrant, Race
from dragstrip.report import figures
from dragstrip.validity import CheckName, Status, held_by_generator, inspect

#: Facts that a race's table always has; it has the other tilting facts if they differ.
_ALWAYS = ("processes, threads", "header bytes")

#: Checks whose numbers a race's table shows.
_SHOWN = (CheckName.GENERATOR, CheckName.SATURATION)


def markdown(rows: Sequence[ClaimRow], races: Sequence[Race], *, chart: str = "") -> str:
    """The whole page.

    Args:
        races: the races that the rows rest on.
        chart: a path for the picture, relative to the page.
    """
    by_id = {race.id: race for race in races}
    lines = [
        "# Claims, put to the test",
        "",
        f"Written by `make claims`{_when(races)}; nothing below is typed by hand.",
        "",
        *_machine(races),
        "",
        f"Each claim is raced under its published load, and also under fair settings ({FAIR_LOAD.text()}, one "
        "worker per core of the servers' lane). Counts and times of the published runs are replaced by rounds of short "
        "blocks on fresh launches (METHOD.md); HTTP version, keep-alive and connections are as published. A ratio is "
        "the first contender's speed over the second's, with an interval that holds for its whole race at once. By "
        "CPU: if a new connection for each request makes the client the limit, the servers' CPU time per request "
        "decides, which a slow client does not change.",
        "",
        *([f"![Published and measured ratios]({chart})", ""] if chart else []),
        f"*{MEANING}.*",
        "",
    ]
    for source in dict.fromkeys(source_of(row.claim) for row in rows):
        grouped = [row for row in rows if source_of(row.claim) == source]
        lines += [f"## {_plain(source)}", "", *_reading(source, rows), *_table(grouped), ""]
        for race_id, title in _titles(grouped).items():
            lines += _raced(by_id[race_id], title) if race_id in by_id else []
        lines += ["What each verdict rests on:", ""]
        for row in grouped:
            lines += _notes(row)
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _when(races: Sequence[Race]) -> str:
    days = sorted(race.started[:10] for race in races)
    if not days:
        return ""
    return f" from races of {days[0]}" + (f" to {days[-1]}" if days[0] != days[-1] else "")


def _machine(races: Sequence[Race]) -> list[str]:
    if not races:
        return ["No race has been run yet."]
    race = races[-1]
    facts = race.machine
    machine = ", ".join(filter(None, (facts.cpu, facts.kernel)))
    versions = {entrant.name.partition(":")[0]: entrant.version for race in races for entrant in race.entrants}
    listed = " · ".join(f"{_plain(name)} {_plain(version)}" for name, version in sorted(versions.items()) if version)
    return [
        f"Machine: {_plain(machine)}, cores {_plain(facts.cores_usable or 'unknown')}; servers on core "
        f"{','.join(map(str, race.server_cores))}, engine on core {','.join(map(str, race.engine_cores))}; "
        f"Dragstrip {race.software}, method {race.method}.",
        "",
        f"Versions: {listed}.",
    ]


def _table(rows: Sequence[ClaimRow]) -> list[str]:
    head = "| claim | published | under its load | verdict | fair settings | verdict |"
    lines = [head, "|-|-:|-:|-|-:|-|"]
    for row in rows:
        cells = [_plain(row.claim.fields.statement + stand_ins(row)), published(row.claim)]
        for finding in (row.published, row.fair):
            cells += ["–", "–"] if finding is None else [measured(row.claim, finding), _outcome(finding)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _reading(source: str, rows: Sequence[ClaimRow]) -> list[str]:
    """The paragraph about a write-up, with its claims' figures of today; none for a user's own source."""
    by_id = {row.claim.id: row for row in rows}

    def figure(match: re.Match[str]) -> str:
        row = by_id.get(match[1])
        return "(not listed)" if row is None else figure_of(row, match[2])

    text = readings().get(source)
    return [re.sub(r"\{([\w.+-]+)\.(published|load|fair|verdict)\}", figure, text), ""] if text else []


def figure_of(row: ClaimRow, what: str) -> str:
    """A figure of a claim in a sentence: ``published``, ``load``, ``fair``, or the ``verdict`` under its load."""
    if what == "published":
        return published(row.claim)
    finding = row.fair if what == "fair" else row.published
    if what == "verdict":
        return str(row.published.outcome)
    shown = figures.NONE if finding is None else measured(row.claim, finding)
    return "(not measured)" if shown == figures.NONE else shown


def _outcome(finding: ClaimFinding) -> str:
    return f"**{finding.outcome}**{' (void)' if finding.void else ''}"


def _titles(rows: Sequence[ClaimRow]) -> dict[str, str]:
    """The races that rows rest on, each with its setting and load; the published ones first."""
    titles = {row.published.race: f"Under its load ({row.claim.fields.load.text()})" for row in rows}
    titles |= {row.fair.race: "Under fair settings" for row in rows if row.fair}
    return {race: title for race, title in titles.items() if race}


def _raced(race: Race, title: str) -> list[str]:
    """What a publisher could not see: rates, CPU time, what was the limit, what was not equal; a line per contender."""
    judged = analysis.judge_column(race)
    raced = [entrant for entrant in race.entrants if not entrant.out]
    values = {fact: [entrant.parity.get(fact, "") for entrant in raced] for fact in TILTING}
    facts = [fact for fact in TILTING if fact in _ALWAYS or (all(values[fact]) and len(set(values[fact])) > 1)]
    lines = [
        f"{title}, race `{race.id}`, {judged.rounds} rounds:",
        "",
        f"| contender | requests/s | CPU µs per request | its core busy | client busy | {' | '.join(facts)} |",
        f"|-|-:|-:|-:|-:|{'-:|' * len(facts)}",
    ]
    for entrant in raced:
        cells = [_plain(entrant.name), *_figures(race, judged, entrant)]
        cells += [_plain(entrant.parity.get(fact, figures.NONE)) for fact in facts]
        lines.append(f"| {' | '.join(cells)} |")
    limited = held_by_generator(race)
    notes = [f"{_plain(entrant.name)} is out: {_plain(entrant.out)}" for entrant in race.entrants if entrant.out]
    if limited and race.plan.metric == "cpu":
        notes.append(
            f"the client was the limit against {_plain(figures.several(limited))}: rates under this load, the "
            "published ones too, may be the client's own; CPU time per request decides"
        )
    # A void check is in the text of the verdicts that it makes void.
    wanted = [check for check in inspect(race) if check.status is Status.WARN and check.name in SHOWN_WARNINGS]
    notes += [_plain(check.detail) for check in wanted if check.name not in _SHOWN]
    return [*lines, "", *(f"- {note}." for note in notes), *([""] if notes else [])]


def _figures(race: Race, judged: analysis.ColumnVerdict, entrant: Entrant) -> list[str]:
    """Requests per second, CPU time per request, how busy its cores were and how busy the client's."""
    estimate = judged.estimates[entrant.name]
    rate, cost = estimate.throughput_per_s, estimate.server_cpu_us_per_request
    blocks = [block for round_ in race.rounds for block in round_.blocks if block.contender == entrant.name]
    launches = [launch for round_ in race.rounds for launch in round_.launches if launch.contender == entrant.name]
    cores = max(min(len(race.server_cores), max((launch.threads for launch in launches), default=1)), 1)
    busy = [share for share in (cpu_shares.server_busy(block, cores) for block in blocks) if share is not None]
    client = [cpu_shares.engine_share(block) for block in blocks]
    return [
        figures.figure(rate.estimate) if rate else figures.NONE,
        figures.microseconds(cost.estimate) if cost else figures.NONE,
        figures.percent(median(busy)) if busy else figures.NONE,
        figures.percent(median(client)) if client else figures.NONE,
    ]


def _notes(row: ClaimRow) -> list[str]:
    """What a verdict under the claim's load rests on, and the verdict under fair settings if it differs."""
    first = f"- `{row.claim.id}`"
    if row.claim.fields.note:
        first += f" ({_plain(row.claim.fields.note)})"
    published, fair = _outcome_and_why(row.published), row.fair and _outcome_and_why(row.fair)
    if fair == published:
        return [f"{first}: {row.published.outcome} under both: {_plain(row.published.text)}."]
    return [f"{first}: {published}." + (f" Under fair settings: {fair}." if fair else "")]


def _outcome_and_why(finding: ClaimFinding) -> str:
    text = _plain(finding.text)
    if text.count("`") % 2 == 0:
        text = text.replace("\\`", "`")  # a command in it stays code
    return f"{finding.outcome}: {text}"


def _plain(text: str) -> str:
    """A text that Markdown takes as it is, on one line."""
    flat = " ".join(text.split())
    for sign in "\\`*_|<>[]":
        flat = flat.replace(sign, f"\\{sign}")
    return flat
