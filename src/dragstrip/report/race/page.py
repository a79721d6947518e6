"""A race as one HTML file that needs nothing else: no network, light and dark, screen and paper."""

from __future__ import annotations

import base64
import gzip
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from jinja2 import Template
from markupsafe import Markup, escape

from dragstrip import paths
from dragstrip.metrics import KNOWN, MetricChoice
from dragstrip.record import SECRET, VARIABLE, Entrant, EventKind, Race
from dragstrip.report import figures, pages
from dragstrip.report.race import causes, charts, columns, database, external, icicle, notes, tables, wording
from dragstrip.report.race import definitions as definitions_of
from dragstrip.report.race import export as race_export
from dragstrip.report.race import terminal as race_terminal
from dragstrip.report.race.badge import race_badge
from dragstrip.report.race.latency import QUANTILES, kind_rows
from dragstrip.report.race.summary import (
    DISTURBED_EACH,
    JudgedRace,
    Part,
    behind,
    better_first,
    compared,
    leading_figures,
    of_rates,
    pair_of,
    requests,
    shown_beside,
    shown_pairs,
    ties_wide,
    title,
)
from dragstrip.requested import ignore_words, typed_as, typed_words
from dragstrip.store.json_values import Json, encode

#: A page stays below 3 MiB: a longer race's blocks are exported instead. Bytes of base64.
MAX_RAW = 1_000_000

#: The end of names of machine facts in bytes.
_BYTES = "_bytes"


def render(judged: JudgedRace) -> str:
    """The whole page as text."""
    content = race_export.race_json(judged)
    race, parts = judged.record, judged.parts
    several = len(parts) > 1
    each = [
        ColumnSections(part, f"c{at}-" if several else "", f"{part.name}: " if several else "", _charts(part))
        for at, part in enumerate(parts, 1)
    ]
    names = list(dict.fromkeys(name for part in parts for name in part.names))
    drawn = {f"{column.at}{name}": chart for column in each for name, chart in column.charts.items()}
    overview = columns.table(judged) if several else None
    if overview:
        drawn["columns"] = charts.columns(judged)
    return _template().render(
        race=race,
        verdict=judged.verdict,
        each=each,
        overview=overview,
        overview_chart=drawn.get("columns"),
        of_rates=of_rates(race),
        legend=columns.legend(judged, overview) if overview else (),
        headline=content["headline"],
        void=content["void"],
        events=content["events"],
        title=f"{title(race)}: {', '.join(names or [e.name for e in race.entrants])}",
        requested=title(race),
        compared=compared(race),
        requests=requests(race),
        summary=race_terminal.summary(judged),
        **pages.frame("race", content, drawn, longest=max(map(len, names), default=1), software=race.software),
        sections=_sections(race, each),
        definitions=definitions_of.files(race),
        raw=_raw(race),
        foreign=external.figures(race),
        foreign_note=external.NOTE,
        known=KNOWN,
        badge=race_badge(judged),
        notes=notes.all_notes(parts),
        most_notes=notes.MAX_NOTES,
        noise=notes.worst_noise_level(parts),
        open=notes.undecided_hint(judged, race.id),
        facts=machine_words(encode(race.machine)),
        command=command(race),
        quantiles=list(QUANTILES),
    )


@dataclass(frozen=True, slots=True)
class ColumnSections:
    """One column on the page.

    Args:
        at, head: before the places and the heads of its sections, if there are other columns.
        charts: its charts that have something to show, by name.
    """

    part: Part
    at: str
    head: str
    charts: Mapping[str, charts.Chart]


def write(judged: JudgedRace, path: Path) -> None:
    """Writes the page, whole or not at all.

    Raises:
        BadUsage: the path can't be written. DiskFull: no space is left.
    """
    paths.write(path, render(judged))


def _charts(part: Part) -> dict[str, charts.Chart]:
    """The charts that have something to show."""
    lacking = {
        "pairs": not any(figures.finite(pair.low) for pair in part.verdict.pairs),
        "blocks": not part.race.rounds,
        "latency": not any(row.latency_us for row in part.rows),
        "cpu": not any(row.estimate.server_cpu_us_per_request for row in part.rows),
        "memory": not any(row.estimate.peak_memory_bytes for row in part.rows),
    }
    return {name: make(part) for name, make in charts.CHARTS.items() if part.rows and not lacking.get(name)}


#: A section's name in the page's own list, if that is not its place.
_WORDS = {
    "columns": "all columns",
    "pairs": "every pair",
    "out": "out of the race",
    "foreign": "by other tools",
    "blocks": "blocks over time",
    "cost": "CPU and memory",
    "why": "why: what a response costs",
}


def _sections(race: Race, each: Sequence[ColumnSections]) -> list[tuple[str, str]]:
    """What the page has, in its order: place and word."""
    entries = [("columns", _WORDS["columns"])] if len(each) > 1 else []
    entries += [section for column in each for section in _of_column(column)]
    entries += [("foreign", _WORDS["foreign"])] if external.figures(race) else []
    for column in each:
        has_parity = any(entrant.parity for entrant in column.part.race.entrants)
        checked = ("validity", "parity") if has_parity else ("validity",)
        entries += [(f"{column.at}{name}", f"{column.head}{name}") for name in checked]
    after = ("contenders", "method", "machine", "data") if race.entrants else ("method", "machine", "data")
    after = ("requests", *after) if requests(race) else after
    return [*entries, *((name, name) for name in after)]


def _of_column(column: ColumnSections) -> list[tuple[str, str]]:
    """One column's sections before its checks."""
    drawn, part = column.charts, column.part
    sections = {
        "ranking": part.rows,
        "out": part.out,
        "pairs": shown_pairs(part.verdict, part.names, every=False),
        "blocks": "blocks" in drawn,
        "latency": "latency" in drawn,
        "cost": "cpu" in drawn or "memory" in drawn,
        "figures": part.rows,
        "why": part.race.profiles,
    }
    names = [name for name, content in sections.items() if content]
    return [(f"{column.at}{name}", f"{column.head}{_WORDS.get(name, name)}") for name in names]


def _raw(race: Race) -> str:
    """Every block as gzipped CSV in base64; empty if it would make the page too heavy."""
    packed = base64.b64encode(gzip.compress(tables.csv_text(tables.block_rows(race)).encode(), mtime=0))
    return packed.decode() if race.rounds and len(packed) <= MAX_RAW else ""


@cache
def _template() -> Template:
    environment = pages.templates(Path(__file__).parent)
    environment.filters |= {
        "micro": figures.microseconds,
        "memory": figures.memory,
        "count": figures.count,
        "percent": figures.percent,
        "options": _with_whole_options,
    }
    environment.globals |= {
        "pair_times": lambda pair: figures.times(pair.ratio, pair.low, pair.high),
        "sentence": lambda pair: wording.ended(wording.sentence(pair)),
        "check_name": figures.check,
        "database_text": database.text,
        "several_disturbed": DISTURBED_EACH,
        "causes_note": causes.NOTE,
    }
    functions: Sequence[Callable[..., object]] = (
        *(figures.called, figures.meaning, figures.null_race, notes.clipped),
        *(wording.unequal_pairs_text, kind_rows, pair_of, better_first, leading_figures, behind),
        *(shown_pairs, shown_beside, ties_wide),
        *(launches, race_terminal.parity_rows, causes.compared_causes, icicle.icicles),
    )
    environment.globals |= {function.__name__: function for function in functions}
    return environment.get_template("page.html.j2")


def _with_whole_options(text: str) -> Markup:
    """A sentence whose options are not broken after their dashes."""
    return Markup(
        re.sub(r"(?<![\w-])--[a-z][a-z-]*", r'<span class="option">\g<0></span>', str(escape(pages.harmless(text))))
    )


def launches(part: Part) -> list[tuple[str, dict[str, str]]]:
    """How each contender's launches went: medians, and how many died or never settled."""
    table = []
    for name in part.names:
        launches = [launch for r in part.race.rounds for launch in r.launches if launch.contender == name]
        if launches:
            middle = len(launches) // 2
            medians = {
                "launches": str(len(launches)),
                "ready in, ms": f"{sorted(launch.ready_ns for launch in launches)[middle] / 1e6:.1f}",
                "warmed up, ms": f"{sorted(launch.warm_up_ns for launch in launches)[middle] / 1e6:.0f}",
                "not settled": str(sum(not launch.settled for launch in launches)),
                "died": str(sum(launch.died for launch in launches)),
                "processes, threads": f"{launches[-1].processes}, {launches[-1].threads}",
                "CPU read from": launches[-1].cpu_source,
            }
            table.append((name, medians))
    return table


def machine_words(machine: Mapping[str, Json], prefix: str = "") -> list[tuple[str, str]]:
    """Machine facts as words, nested ones flattened; unknown ones are left out."""
    facts: list[tuple[str, str]] = []
    for key, value in machine.items():
        name = f"{prefix}{key.removesuffix(_BYTES).replace('_', ' ')}"
        if isinstance(value, Mapping):
            facts += machine_words(value, f"{name}, ")
        elif value is not None and value != "":
            shown = figures.memory(value) if key.endswith(_BYTES) and isinstance(value, int) else value
            facts.append((name, ", ".join(map(str, shown)) if isinstance(shown, (list, tuple)) else str(shown)))
    return facts


def command(race: Race) -> str:
    """What to type to run the same plan again."""
    load, plan = race.load, race.plan
    if compared := next((event.names for event in race.events if event.kind is EventKind.REVISIONS), ()):
        # Commands that are built of commits run nowhere else; the workloads are those of the project's file.
        uncommitted = any(entrant.name.endswith(" + changes)") for entrant in race.entrants)
        parts = ["dragstrip", "diff", *(name[:12] for name in (compared[:1] if uncommitted else compared))]
        return shlex.join([*parts, *_typed_requests(race), *_common_words(race)])
    places = {str(e.parameters["folder"]) for e in race.entrants if e.kind == "serve" and "folder" in e.parameters}
    parts = ["cd", *places, "&&"] if len(places) == 1 else []
    parts += ["dragstrip", "race"]
    for entrant in race.entrants:
        parts += _entry_words(entrant, folder=len(places) > 1)
    parts += [*_request_words(race), "--threads", str(load.threads)]
    parts += ["--efficiency"] if of_rates(race) else []
    parts += [] if load.keepalive else ["--no-keepalive"]
    parts += [] if load.http == "1.1" else ["--http", load.http]
    parts += [] if load.streams == 1 else ["--streams", str(load.streams)]
    own_rates = any(column.load.rate_per_s for column in race.columns) and not of_rates(race)
    rate = f"{load.rate_per_s:.17g}" if load.rate_per_s else "auto" if own_rates else ""
    parts += ["--rate", rate] if rate else []
    parts += ["--pace", load.pace] if rate or of_rates(race) else []
    parts += ["--timeout", f"{load.timeout_ns / 1e9:g}s"]
    parts += ["--typical"] if MetricChoice.of(plan.metric).typical else []
    parts += _common_words(race)
    return " ".join(part if part == "&&" else shlex.quote(part) for part in parts)


def _request_words(race: Race) -> list[str]:
    """What is requested: a typed request as it was typed, other workloads by their names."""
    definitions = {column.workload: column.definition for column in race.columns}
    named = [name for name, definition in definitions.items() if not typed_as(definition)]
    typed = _typed_requests(race)
    if any(urlsplit(str(e.parameters.get("url", ""))).path not in ("", "/") for e in race.entrants if e.kind == "url"):
        typed = typed[2:]  # a URL's path is the path that is requested
    return [*(["--workload", ",".join(named)] if named else []), *typed]


def _typed_requests(race: Race) -> list[str]:
    """The options of typed requests; all have the same but their paths.

    Fields that change are named for a single one: of several, each response has its own, and they are learned again.
    """
    typed = list(dict.fromkeys(column.definition for column in race.columns if typed_as(column.definition)))
    words = [typed_words(definition)[: None if at == 0 else 2] for at, definition in enumerate(typed)]
    ignored = ignore_words(typed[0]) if len(typed) == 1 else []
    return [*(word for one in words for word in one), *ignored]


def _common_words(race: Race) -> list[str]:
    """Options of a race and of a ``diff``."""
    plan = race.plan
    parts = ["--connections", str(race.load.connections), "--budget", f"{plan.budget_s:g}s"]
    parts += ["--margin", f"{100 * plan.margin:g}%", "--metric", MetricChoice.of(plan.metric).name]
    parts += ["--seed", str(race.seed)]
    parts += ["--rounds", str(plan.planned_rounds)] if plan.rounds_fixed else []
    if race.machine.fleet:
        return [*parts, "--fleet", "fleet.toml"]  # which has the cores of each machine; its name is not in the record
    for option, cores in (("--server-cores", race.server_cores), ("--engine-cores", race.engine_cores)):
        parts += [option, ",".join(map(str, cores))] if cores else []
    return parts


def _entry_words(entrant: Entrant, *, folder: bool) -> list[str]:
    """The words that name a contender; ``folder``: with the folder of its command."""
    if entrant.kind != "serve":
        word = str(entrant.parameters.get("url", entrant.parameters.get("typed", entrant.name)))
        trust = ["--cacert", str(entrant.parameters["cacert"])] if "cacert" in entrant.parameters else []
        trust += ["--insecure"] if "insecure" in entrant.parameters else []
        return [word if word == entrant.name else f"{entrant.name}={word}", *trust]
    option = "image" if "image" in entrant.parameters else "serve"
    text = entrant.parameters.get("image" if option == "image" else "command", "…")
    wake = ["--wake", f"{entrant.parameters['wake_s']}s"] if "wake_s" in entrant.parameters else []
    started = ["--in", f"{entrant.name}={entrant.parameters['folder']}"] if folder and option == "serve" else []
    for key, value in entrant.parameters.items():
        if key.startswith(VARIABLE):
            started += ["--env", f"{entrant.name}.{key.removeprefix(VARIABLE)}={value}"]
        elif key.startswith(SECRET):  # taken from the environment of whoever types it
            started += ["--env", f"{entrant.name}.{key.removeprefix(SECRET)}"]
    return [f"--{option}", f"{entrant.name}={text}", *started, *wake]
