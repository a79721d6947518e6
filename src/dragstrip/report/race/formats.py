"""A race in the shapes that other programs read: continuous benchmarking, benchstat, test reports, monitoring.

Each takes a judged race and gives text. A contender that is out yields no number in any of them.
Sources: bencher.dev's "Bencher Metric Format", github-action-benchmark's README (custom tools), Go's benchmark data
format (design document 14313), the JUnit XML of Apache Ant, the OpenMetrics 1.0 specification.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from xml.etree import ElementTree

from dragstrip.analysis import Interval
from dragstrip.record import Race
from dragstrip.report import figures
from dragstrip.report.comparison import Ruled, Ruling, RulingOutcome
from dragstrip.report.race import export as race_export
from dragstrip.report.race import markdown, summary, tables
from dragstrip.report.race.headline import column_headline
from dragstrip.report.race.summary import JudgedRace, Part
from dragstrip.store.json_values import Json, JsonObject
from dragstrip.validity import Status

Maker = Callable[[JudgedRace], str]


def html(judged: JudgedRace) -> str:
    """The race as one HTML page."""
    from dragstrip.report.race import page  # Altair takes a third of a second to load

    return page.render(judged)


def race_json(judged: JudgedRace) -> str:
    """The race as ``--json`` gives it."""
    return _json(race_export.race_json(judged))


def bencher(judged: JudgedRace) -> str:
    """Bencher Metric Format: value with its interval's bounds, by contender and measure."""
    measures_by_name: JsonObject = {}
    for part, row in _rows(judged):
        measures = {name: _bounded(interval) for name, interval in _intervals(row).items() if interval}
        if row.estimate.peak_memory_bytes:
            measures["peak_memory_bytes"] = {"value": row.estimate.peak_memory_bytes}
        measures_by_name[f"{part.name}/{row.name}"] = measures
    return _json(measures_by_name)


def _github(judged: JudgedRace, *, measure: str, unit: str) -> str:
    """One interval of each contender as github-action-benchmark reads it."""
    entries: list[Json] = []
    for part, row in _rows(judged):
        interval = _intervals(row)[measure]
        if interval is None:
            continue
        half = figures.finite((interval.high - interval.low) / 2)
        entry: JsonObject = {"name": f"{part.name}/{row.name}", "unit": unit, "value": interval.estimate}
        span = f"95 %: {figures.span(interval.low, interval.high) or 'no interval'}"
        extra = f"{span}\nversion {row.entrant.version}\nrace {judged.record.id}"
        entries.append(entry | ({} if half is None else {"range": f"± {half:.6g}"}) | {"extra": extra})
    return _json(entries)


def go_benchmark(judged: JudgedRace) -> str:
    """Go's benchmark text, one line per contender and round, so that benchstat sees launches as its samples."""
    lines = ["goos: linux"]
    for part in judged.parts:
        lines.append(f"pkg: dragstrip/{_word(part.name)}")
        lines += _go_lines(part.race)
    return "\n".join(lines) + "\n"


def _go_lines(race: Race) -> list[str]:
    lines = []
    if cpu := race.machine.cpu:
        lines.append(f"cpu: {figures.visible(cpu)}")
    for row in tables.round_rows(race):
        rate, cost = row["throughput_per_s"], row["server_cpu_us_per_request"]
        if isinstance(rate, float) and rate:
            more = f" {1000 * cost:.2f} cpu-ns/op" if isinstance(cost, float) else ""
            name = _word(str(row["contender"]))
            lines.append(f"BenchmarkRace/{name} 1 {1e9 / rate:.2f} ns/op {rate:.2f} req/s{more}")
    return lines


def junit(judged: JudgedRace, rules: Sequence[Ruled] = ()) -> str:
    """JUnit XML: one case for what it came to, one per contender (failed: it is out) and one per validity check.

    The first fails if the race has no result, a check if it voids the race.

    Args:
        rules: what became of ``--fail-if``: one case per threshold and contender.
    """
    suites = []
    for part in judged.parts:
        suites.append(suite := _suite(f"dragstrip {part.name}", judged.record.started))
        _rule_cases(suite, [rule.ruling for rule in rules if rule.column in ("", part.name)])
        said = column_headline(part)
        _case(suite, "race", part.standing, failed=said if part.standing.exit_code else "", text=said)
        for entrant in part.race.entrants:
            _case(suite, "contenders", entrant.name, failed=entrant.out, text=entrant.version)
        for check in part.checks:
            detail = check.detail
            void = detail if check.status is Status.VOID else ""
            _case(suite, "validity", check.label, failed=void, text=f"{check.status}: {detail}")
    return _xml(*suites)


def junit_rules(compared: Sequence[tuple[Sequence[Ruling], Sequence[tuple[str, str]], str]]) -> str:
    """JUnit XML of a comparison: one case per threshold and contender, one per contender that was taken out.

    Args:
        compared: for each column its rulings, the contenders that are out and why, and the suite's name.
    """
    suites = []
    for rulings, fallen, name in compared:
        suites.append(suite := _suite(name, ""))
        _rule_cases(suite, rulings)
        for contender, reason in fallen:
            _case(suite, "still races", contender, failed=f"is out now: {reason}", text="")
    return _xml(*suites)


def _rule_cases(suite: ElementTree.Element, rulings: Sequence[Ruling]) -> None:
    for ruling in rulings:
        failed = ruling.text if ruling.outcome is RulingOutcome.FAILS else ""
        _case(
            suite,
            ruling.rule,
            ruling.name,
            failed=failed,
            text=ruling.text,
            skipped=ruling.outcome is RulingOutcome.OPEN,
        )


def openmetrics(judged: JudgedRace) -> str:
    """OpenMetrics text: gauges by contender, the interval's bounds as gauges of their own."""
    lines: list[str] = []
    race, rows = judged.record, list(_rows(judged))

    def family(name: str, unit: str, about: str, samples: Sequence[tuple[Mapping[str, str], float | None]]) -> None:
        lines.extend([f"# TYPE {name} gauge", f"# UNIT {name} {unit}"] if unit else [f"# TYPE {name} gauge"])
        lines.append(f"# HELP {name} {about}")
        for labels, value in samples:
            if (number := figures.finite(value)) is not None:
                label_text = ",".join(f'{key}="{_label(text)}"' for key, text in labels.items())
                lines.append(f"{name}{{{label_text}}} {number!r}")

    def of(part: Part, row: summary.Row) -> dict[str, str]:
        return {"race": race.id, "workload": part.name, "contender": row.name, "version": row.entrant.version}

    for measure, scale, name, unit, about in (
        ("throughput_per_s", 1.0, "dragstrip_throughput", "requests_per_second", "Correct responses per second."),
        ("server_cpu_us_per_request", 1e-6, "dragstrip_server_cpu", "seconds_per_request", "CPU time of the tree."),
    ):
        for bound, suffix in (("estimate", ""), ("low", "_low"), ("high", "_high")):
            known = [(of(part, row), _intervals(row)[measure]) for part, row in rows]
            samples = [(labels, scale * getattr(interval, bound)) for labels, interval in known if interval]
            description = about if bound == "estimate" else f"{about} The interval's {bound} end."
            family(f"{name}{suffix}_{unit}", unit, description, samples)
    memory = [(of(part, row), row.estimate.peak_memory_bytes) for part, row in rows]
    family("dragstrip_peak_memory_bytes", "bytes", "Peak of the tree, median over launches.", memory)
    tails = [({**of(part, row), "percentile": q}, us / 1e6) for part, row in rows for q, us in row.latency_us.items()]
    family("dragstrip_latency_at_saturation_seconds", "seconds", "Shown, never tested.", tails)
    pairs = [
        (
            {"race": race.id, "workload": part.name, "metric": p.metric, "a": p.a, "b": p.b, "verdict": p.verdict},
            p.ratio,
        )
        for part in judged.parts
        for p in part.verdict.pairs
    ]
    family("dragstrip_pair_ratio", "", "Speed of a over speed of b.", pairs)
    family(
        "dragstrip_race_void",
        "",
        "1 if nothing here may be used as a result.",
        [({"race": race.id}, float(judged.void))],
    )
    return "\n".join([*lines, "# EOF"]) + "\n"


def _rows(judged: JudgedRace) -> Iterator[tuple[Part, summary.Row]]:
    """Every column's contenders with numbers."""
    for part in judged.parts:
        for row in part.rows:
            yield part, row


#: By the word of ``--as``; the command chooses ``.json`` and the like by the file's name.
MAKERS: Mapping[str, Maker] = {
    "json": race_json,
    "markdown": markdown.race,
    "bencher": bencher,
    # Its customBiggerIsBetter and customSmallerIsBetter.
    "github-bigger": partial(_github, measure="throughput_per_s", unit="requests/s"),
    "github-smaller": partial(_github, measure="server_cpu_us_per_request", unit="CPU µs/request"),
    "gobench": go_benchmark,
    "junit": junit,
    "openmetrics": openmetrics,
}


def _intervals(row: summary.Row) -> dict[str, Interval | None]:
    return {
        "throughput_per_s": row.estimate.throughput_per_s,
        "server_cpu_us_per_request": row.estimate.server_cpu_us_per_request,
    }


def _bounded(interval: Interval) -> dict[str, float]:
    bounds = {"value": interval.estimate, "lower_value": interval.low, "upper_value": interval.high}
    return {name: value for name, value in bounds.items() if figures.finite(value) is not None}


def _json(content: Json) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _word(text: str) -> str:
    """A benchmark's name has no space; benchstat reads a trailing ``-2`` as a number of processors, so none is left."""
    word = re.sub(r"[\s\x00-\x1f]+", "_", figures.visible(text)).strip("_") or "unnamed"
    return re.sub(r"-(\d+)$", r"_\1", word)


def _label(text: str) -> str:
    return figures.visible(text).replace("\\", "\\\\").replace('"', '\\"')


def _suite(name: str, at: str) -> ElementTree.Element:
    return ElementTree.Element("testsuite", {"name": figures.visible(name), "timestamp": figures.visible(at)})


def _case(suite: ElementTree.Element, group: str, name: str, *, failed: str, text: str, skipped: bool = False) -> None:
    case = ElementTree.SubElement(suite, "testcase", {"classname": group, "name": figures.visible(name), "time": "0"})
    if failed:
        ElementTree.SubElement(case, "failure", {"message": figures.visible(failed)})
    elif skipped:
        ElementTree.SubElement(case, "skipped", {"message": figures.visible(text)})
    if text:
        ElementTree.SubElement(case, "system-out").text = figures.visible(text, lines=True)


def _xml(*suites: ElementTree.Element) -> str:
    whole = ElementTree.Element("testsuites")
    for suite in suites:
        for what, tag in (("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")):
            suite.set(what, str(len(list(suite.iter(tag)))))
        suite.set("errors", "0")
        whole.append(suite)
    ElementTree.indent(whole)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(whole, encoding="unicode") + "\n"
