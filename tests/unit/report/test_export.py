"""Exports, each read back by the program or library that it is for; other tools' results shown apart."""

from __future__ import annotations

import csv
import gzip
import json
import math
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import samples
from click.testing import CliRunner
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from dragstrip.analysis import judge, judge_column
from dragstrip.commands.main import cli
from dragstrip.errors import BadUsage
from dragstrip.record import Race
from dragstrip.report.race import latency, stack_formats, summary
from dragstrip.store.database import Store

HOSTILE = 'a <b> & "c", \x1b[2J\n-2'
BENCHSTAT = "golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da"


def race_of_three() -> Race:
    """Two with numbers, one of them named as an attack; one out; a void block."""
    race = samples.race({"quick": 40_000.0, HOSTILE: 30_000.0}, rounds=12, out={"dud": "wrong\x00 body"})
    first = race.rounds[0]
    first = replace(first, blocks=(replace(first.blocks[0], void=samples.voided("errors")), *first.blocks[1:]))
    return replace(race, rounds=(first, *race.rounds[1:]))


@pytest.fixture(scope="module")
def race() -> Race:
    return race_of_three()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, race: Race) -> Path:
    path = tmp_path_factory.mktemp("store") / "races.sqlite"
    with Store(path) as kept:
        kept.begin(race)
    return path


@pytest.fixture
def made(store: Path, race: Race, tmp_path: Path) -> Any:
    """Exports the race and gives the file."""

    def export(name: str, *words: str) -> Path:
        command = ["export", race.id, str(tmp_path / name), *words, "--store", str(store)]
        done = CliRunner(catch_exceptions=False).invoke(cli, command)
        assert done.exit_code == 0, done.output
        return tmp_path / name

    return export


def test_csv_and_parquet_hold_every_block_and_pandas_reads_them(made: Any, race: Race) -> None:
    """The same table in both, with each block's fate; a row per round on request, with the numbers that decide."""
    pandas = pytest.importorskip("pandas")
    blocks = [block for round_ in race.rounds for block in round_.blocks]
    frames = [pandas.read_csv(made("blocks.csv")), pandas.read_parquet(made("blocks.parquet"))]
    for frame in frames:
        assert len(frame) == len(blocks)
        assert int(frame["requests"].sum()) == sum(block.requests for block in blocks)
        assert set(frame["kind"]) == {"used", "void"}  # a void block takes nothing from the others of its pass
        assert set(frame["contender"]) == {"quick", HOSTILE}
    rounds = pandas.read_csv(made("rounds.csv", "--rounds"))
    mean = rounds[rounds["contender"] == "quick"]["throughput_per_s"].map(math.log).mean()
    judged = judge(race).column.estimates["quick"].throughput_per_s
    assert judged
    assert math.exp(mean) == pytest.approx(judged.estimate)
    with made("again.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(blocks)


def test_hdr_histograms_own_library_reads_the_log(made: Any, race: Race) -> None:
    """All intervals of a tag added up are the contender's merged histogram, count by count."""
    reader = HistogramLogReader(str(made("race.hlog")), HdrHistogram(1, 3_600_000_000_000, 3))
    totals: dict[str, HdrHistogram] = {}
    while (one := reader.get_next_interval_histogram()) is not None:
        totals.setdefault(one.get_tag(), HdrHistogram(1, 3_600_000_000_000, 3)).add(one)
    ours = latency.histograms(race)
    assert len(totals) == len(ours) == 2
    assert totals["quick"].get_total_count() == ours["quick"].get_total_count()
    for q in (50, 99, 100):
        assert totals["quick"].get_value_at_percentile(q) == ours["quick"].get_value_at_percentile(q)


def test_a_percentile_file_is_of_one_contender(made: Any, race: Race, store: Path) -> None:
    """Its lines are value, percentile, count and 1/(1-percentile); with several contenders one must be named."""
    lines = made("quick.hgrm", "--contender", "quick").read_text().splitlines()
    numbers = [line.split() for line in lines if line[:1] == " " and line.split()[0][0].isdigit()]
    assert float(numbers[0][1]) == 0.0
    assert float(numbers[-1][1]) == 1.0
    assert int(numbers[-1][2]) == latency.histograms(race)["quick"].get_total_count()
    with pytest.raises(BadUsage, match="--contender"):
        made("which.hgrm")


def test_benchstat_reads_the_go_benchmark_text(made: Any, race: Race) -> None:
    """Go's own tool finds both contenders with their rounds as samples and the right times."""
    tool = benchstat()
    told = subprocess.run([tool, "-format", "csv", made("race.bench")], capture_output=True, text=True, check=True)
    assert "unrecognized" not in told.stderr, told.stderr
    line = next(line for line in told.stdout.splitlines() if line.startswith("Race/quick"))
    interval = judge(race).column.estimates["quick"].throughput_per_s
    assert interval
    assert float(line.split(",")[1]) == pytest.approx(1 / interval.estimate, rel=0.02)  # the median, in seconds
    assert (
        sum(line.lstrip('"').startswith("Race/") for line in told.stdout.splitlines()) == 6
    )  # two contenders, three units


def benchstat() -> str:
    """The program, made by Go once per machine; skips the test where it can't be."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go here")
    place = Path.home() / ".cache" / "dragstrip-tests"
    if not (place / "benchstat").exists():
        import os

        done = subprocess.run(
            [go, "install", BENCHSTAT], env={**os.environ, "GOBIN": str(place)}, capture_output=True, timeout=100
        )
        if done.returncode:
            pytest.skip(f"benchstat can't be made here: {done.stderr[-200:]!r}")
    return str(place / "benchstat")


def test_a_junit_parser_reads_the_test_report(made: Any, store: Path) -> None:
    """One case per contender and check; the one that is out has failed, with the reason."""
    junitparser = pytest.importorskip("junitparser")
    parsed = junitparser.JUnitXml.fromfile(str(made("race.xml")))
    (suite,) = list(parsed)
    cases = {case.name: case for case in suite}
    assert suite.tests == len(cases)
    assert suite.failures == 1
    assert "wrong\\x00 body" in cases["dud"].result[0].message
    assert not cases["quick"].result
    assert {"rounds", "accounting"} <= set(cases)


def test_the_openmetrics_parser_reads_the_metrics(made: Any, race: Race) -> None:
    """Prometheus's own strict parser takes it, and the numbers are the verdict's."""
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    families = {f.name: f for f in parser.text_string_to_metric_families(made("race.om").read_text())}
    estimate = judge(race).column.estimates["quick"].throughput_per_s
    assert estimate
    samples_ = families["dragstrip_throughput_requests_per_second"].samples
    values = {sample.labels["contender"]: sample.value for sample in samples_}
    assert values["quick"] == pytest.approx(estimate.estimate)
    assert len(values) == 2
    assert families["dragstrip_race_void"].samples[0].value == 0
    low = {s.labels["contender"]: s.value for s in families["dragstrip_throughput_low_requests_per_second"].samples}
    assert low["quick"] == pytest.approx(estimate.low)


def test_continuous_benchmarking_formats_hold_value_and_interval(made: Any, race: Race) -> None:
    """Bencher: value with both bounds; github-action-benchmark: a list of name, unit, value and range."""
    names = [row.name for row in summary.ranked(race, judge_column(race))]
    bencher = json.loads(made("race.json", "--as", "bencher").read_text())
    assert [key.removeprefix("hello/") for key in bencher] == names
    for measures in bencher.values():
        throughput = measures["throughput_per_s"]
        assert throughput["lower_value"] < throughput["value"] < throughput["upper_value"]
    for shape, unit in (("github-bigger", "requests/s"), ("github-smaller", "CPU µs/request")):
        told = json.loads(made(f"{shape}.json", "--as", shape).read_text())
        assert [one["name"].removeprefix("hello/") for one in told] == names
        assert {one["unit"] for one in told} == {unit}
        assert all(isinstance(one["value"], float) and one["range"].startswith("± ") for one in told)


def test_charts_are_exported_as_pictures(made: Any) -> None:
    """One by its suffix, all into a folder."""
    assert made("ranking.svg").read_text().startswith("<svg")
    folder = made("charts", "--as", "charts", "--dark")
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        f"{name}.{kind}"
        for name in ("ranking", "pairs", "blocks", "latency", "cpu", "memory")
        for kind in ("png", "svg")
    )
    assert (folder / "latency.png").read_bytes().startswith(b"\x89PNG")


WRK = """Running 10s test @ http://127.0.0.1:8080/
  2 threads and 100 connections
  Latency Distribution
     50%    1.21ms
     99%    9.80ms
  501234 requests in 10.00s, 70.12MB read
Requests/sec:  50123.40
"""


def test_other_tools_results_stand_apart(race: Race, tmp_path: Path) -> None:
    """Beside the race in terminal, page and JSON, in no ranking and no pair; also from github-action-benchmark."""
    path = tmp_path / "races.sqlite"
    with Store(path) as kept:
        kept.begin(race)
    (tmp_path / "wrk.txt").write_text(WRK)
    (tmp_path / "gha.json").write_text(json.dumps([{"name": "old", "unit": "requests/s", "value": 7.5}]))
    (tmp_path / "odd.json").write_text(json.dumps([{"name": "old", "unit": "ms", "value": 7.5}]))

    def run(*words: str) -> str:
        done = CliRunner(catch_exceptions=False).invoke(cli, [*words, "--store", str(path)])
        assert done.exit_code == 0
        return done.output

    run("import", str(tmp_path / "wrk.txt"), "--beside", "last", "--name", "<img>")
    run("import", str(tmp_path / "gha.json"), "--beside", "last")
    with pytest.raises(BadUsage, match="old in ms"):
        run("import", str(tmp_path / "odd.json"), "--beside", "last")
    told = json.loads(run("show", "last", "--json"))
    assert [(one["name"], one["tool"], one["rate_per_s"]) for one in told["foreign"]] == [
        ("<img>", "wrk", 50123.4),
        ("old", "github-action-benchmark", 7.5),
    ]
    assert "<img>" not in [contender["name"] for contender in told["contenders"]]
    shown = run("show", "last")
    assert "50,123" in shown
    assert "never compared" in shown
    run("report", "last", "--html", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert "<img>" not in page
    assert "By other tools" in page


def test_an_event_that_holds_nonsense_is_passed_over(race: Race) -> None:
    """An imported file may hold anything."""
    from dragstrip.report.race import external

    good = '{"name": "n", "tool": "ab", "rate_per_s": 1}'
    bad = ["no", "[]", '{"tool": "x"}', '{"name":1,"tool":"x","rate_per_s":"y"}', good[:-1] + ', "latency_us": 3}']
    events = tuple(samples.noted(external.KIND, detail) for detail in (*bad, good))
    assert [figure.name for figure in external.figures(replace(race, events=events))] == ["n"]


def test_sampled_stacks_are_read_by_other_programs() -> None:
    """Collapsed stacks, speedscope's file, and pprof's profile; a race without stacks has none."""
    race = samples.planted()
    launches = stack_formats.by_contender(race)
    lines = stack_formats.collapsed(launches).splitlines()
    assert "steady;main [app];planted [app] 660" in lines
    only = stack_formats.by_contender(race, "steady")
    assert "main [app];planted [app] 660" in stack_formats.collapsed(only).splitlines()
    shown = json.loads(stack_formats.speedscope(race, launches))
    names = [frame["name"] for frame in shown["shared"]["frames"]]
    (steady,) = (one for one in shown["profiles"] if one["name"] == "steady")
    stacks = [tuple(names[at] for at in stack) for stack in steady["samples"]]
    weights = dict(zip(stacks, steady["weights"], strict=True))
    assert weights["main", "planted"] == pytest.approx(0.66, rel=0.01)
    assert steady["endValue"] == pytest.approx(6.66, rel=0.01)
    assert not stack_formats.by_contender(samples.race(rounds=1))
    profile = list(fields(gzip.decompress(stack_formats.pprof(race, only))))
    texts = [value.decode() for field, value in profile if field == 6]
    functions = {dict(fields(value))[1]: texts[dict(fields(value))[2]] for field, value in profile if field == 5}
    found = {}
    for sample in (dict(fields(value)) for field, value in profile if field == 2):
        found[tuple(functions[at] for at in varints(sample[1]))] = tuple(varints(sample[2]))
    assert found["planted", "main"] == (660, pytest.approx(396_000_000, rel=0.01))
    assert all(kind in texts for kind in ("samples", "count", "cpu", "nanoseconds", "contender", "steady"))


def varints(data: bytes) -> list[int]:
    """Numbers of a packed field."""
    made, number, shift = [], 0, 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            made.append(number)
            number = shift = 0
    return made


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and contents of a message of protobuf, which has only numbers and fields with a length here."""

    def number() -> int:
        nonlocal at
        end = next(place for place in range(at, len(data)) if data[place] < 0x80) + 1
        (value,) = varints(data[at:end])
        at = end
        return value

    at = 0
    while at < len(data):
        key = number()
        value: Any = number()
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        yield key >> 3, value
