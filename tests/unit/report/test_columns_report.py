"""A race of several workloads as it is shown: who leads where, who changes places, in every shape."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import samples
from browser import Watched, browser, contrast_and_names
from click.testing import CliRunner
from rich.console import Console

from dragstrip.analysis import judge, with_column
from dragstrip.api import Result
from dragstrip.commands.main import cli
from dragstrip.errors import BadUsage
from dragstrip.record import Ending, Race, Round
from dragstrip.report.race import charts, columns, export, markdown, page, terminal
from dragstrip.report.race.badge import race_badge
from dragstrip.report.race.headline import headline
from dragstrip.report.race.live import time_left
from dragstrip.report.race.summary import JudgedRace
from dragstrip.store.database import Store

HOSTILE = "<script>alert(1)</script>"


def shown(race: Race, width: int = 80, **more: Any) -> list[str]:
    """The terminal's lines."""
    console = Console(file=io.StringIO(), width=width, no_color=True, force_terminal=False)
    terminal.show_race(console, JudgedRace.of(race), **more)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # it is the StringIO above


def table_of(race: Race) -> columns.Table:
    return columns.table(JudgedRace.of(race))


def said(race: Race) -> str:
    return headline(JudgedRace.of(race))


@pytest.fixture(scope="module")
def race() -> Race:
    """quick leads at hello, steady at multiply; one more has no multiply, one is tied, one is named as an attack."""
    rates = {
        "hello": {"quick": 40e3, "steady": 30e3, "twin": 30e3, HOSTILE: 9e3, "static": 55e3},
        "multiply": {"quick": 20e3, "steady": 24e3, "twin": 10e3, HOSTILE: 8e3},
    }
    return samples.race_of_two(rates, absent={"multiply": ["static"]}, passes=4)


def test_the_headline_says_who_leads_where_and_who_changes_places(race: Race) -> None:
    """Only what the intervals show: a tie is reported as a tie, and an unchanged order as unchanged."""
    assert said(race).startswith("static leads at hello, steady at multiply.")
    assert "The order changes: quick is ahead of steady at hello and behind at multiply." in said(race)
    badge = race_badge(JudgedRace.of(race))
    assert (badge.word, badge.text) == ("ORDER CHANGES", "hello: static; multiply: steady")

    same = samples.race_of_two({"hello": {"a": 4e4, "b": 2e4}, "multiply": {"a": 3e4, "b": 2e4}})
    assert said(same) == "a leads at hello and multiply. The order is the same at both."
    assert race_badge(JudgedRace.of(same)).line == "FASTEST a at hello and multiply"

    tied = samples.race_of_two({"hello": {"a": 4e4, "b": 2e4}, "multiply": {"a": 3e4, "b": 3e4}})
    assert said(tied).startswith("a leads at hello. At multiply ")
    assert " are tied at the top." in said(tied)
    assert "No pair of contenders is shown to change order." in said(tied)
    assert race_badge(JudgedRace.of(tied)).word == "BY WORKLOAD"


def test_a_column_without_a_verdict_and_a_void_one_are_told_as_such(race: Race) -> None:
    """The other column keeps its leader; a race void in all of them is void."""
    early = replace(race, rounds=[r for r in race.rounds if r.column == 0 or r.index < 6], finished=Ending.BUDGET)
    assert "static leads at hello. No verdict yet at multiply." in said(early)
    void = [replace(r, void=samples.voided("errors")) if r.column else r for r in race.rounds]
    half = replace(race, rounds=void)
    assert "static leads at hello." in said(half)
    assert "Void at multiply:" in said(half)
    assert {cell.lacks for _, cells in table_of(half).rows for cell in cells[1:]} == {"void", "not served"}
    unclear = replace(race, rounds=race.rounds[:8])
    checks = [replace(samples.said("accounting", "void", "it adds up to nothing"), column="multiply")]
    judged = JudgedRace(unclear, judge(unclear), checks)
    told = headline(judged)
    assert told.startswith("No verdict yet at hello. Void at multiply: it adds up to nothing.")
    assert race_badge(judged).word == "NO VERDICT"
    assert not export.race_json(judged)["void"]
    whole = replace(race, rounds=[replace(r, void=samples.voided("errors")) for r in race.rounds], finished=Ending.VOID)
    assert said(whole).startswith("This race is void")
    assert race_badge(JudgedRace.of(whole)).word == "VOID"


def test_the_table_has_ratios_to_the_columns_best_and_a_letter_for_those_not_told_apart(race: Race) -> None:
    """The best has its own number; a contender without the workload, or taken out, is marked in that column only."""
    out = tuple(replace(e, out="it died", out_round=7) if e.name == "twin" else e for e in race.columns[1].entrants)
    rows = dict(table_of(with_column(race, 1, out)).rows)
    assert list(rows) == ["static", "quick", "steady", "twin", HOSTILE] or list(rows)[:2] == ["static", "quick"]
    assert rows["static"][0].text.startswith("1 = 5")
    assert rows["static"][0].text.endswith("/s")
    assert rows["static"][1].text == "not served"
    assert rows["twin"][1].text == "out"
    hello = {name: cells[0] for name, cells in rows.items()}
    assert hello["steady"].letters == hello["twin"].letters == "a"
    assert {hello[name].letters for name in ("static", "quick", HOSTILE)} == {""}
    assert hello["quick"].ratio == pytest.approx(55 / 40, rel=0.02)
    assert hello["quick"].low < hello["quick"].ratio < hello["quick"].high  # type: ignore[operator]  # all are known


def test_it_fits_into_80_columns_and_the_columns_that_do_not_stand_below(race: Race) -> None:
    """With the sections of each column, whose heads name it; four columns make two tables."""
    lines = shown(race)
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "ORDER CHANGES" in lines[0]
    assert text.count("by throughput,") == 2
    assert "same letter" in text
    assert "95 % confidence" in text.replace("\n", " ")
    four = samples.race_of_two({name: {"quick": 4e4, "steady": 3e4} for name in ("one", "two", "three", "four")})
    assert sum(line.startswith("contender  ") and "by" not in line for line in shown(four)) >= 2
    assert max(map(len, shown(four))) <= 80
    assert max(map(len, shown(race, 130, verbose=True, all_pairs=True))) <= 130


def test_rates_are_told_with_their_bias_and_never_averaged() -> None:
    """Least CPU per request, at each rate by itself."""
    race = at_two_rates()
    assert said(race).startswith("thrifty needs the least CPU per request at 1,000/s and 5,000/s.")
    text = " ".join(" ".join(shown(race)).split())
    assert columns.RATES_NOTE in text
    assert "hello at 1,000/s and 5,000/s, 32 connections" in text
    assert re.search(r"thrifty 1 = 2\d\.\d µs 1 = 2\d\.\d µs", text), "each rate has its own figures, of all"
    assert re.search(r"lavish [1-9]\.\d+ \([^)]+\) = [45]\d\.\d µs [1-9]\.\d+ \([^)]+\) = [45]\d\.\d µs", text)
    assert max(map(len, shown(race))) <= 80
    assert "--efficiency" in page.command(race)


def at_two_rates() -> Race:
    """CPU per request at two offered rates."""
    names = {"1,000/s": 1000.0, "5,000/s": 5000.0}
    race = samples.race_of_two({name: {"thrifty": 4e4, "lavish": 2e4} for name in names}, per_s=names)
    return samples.changed(race, plan=replace(race.plan, metric="cpu"))


def test_where_the_machine_chose_the_metric_each_column_says_why() -> None:
    """Others had a tenth of the cores at multiply, so CPU per request decides there, and throughput at hello."""
    race = samples.race_of_two({name: {"a": 4e4, "b": 2e4} for name in ("hello", "multiply")})

    def disturbed(this: Round) -> Round:
        wait_ns = 4 * samples.MS * this.column
        return replace(this, blocks=tuple(replace(one, engine_wait_ns=wait_ns) for one in this.blocks))

    plan = replace(race.plan, metric="auto")
    race = samples.changed(race, plan=plan, rounds=tuple(map(disturbed, race.rounds)))
    assert "CPU time per request decides: at multiply " in said(race)
    assert [metric for _, metric in table_of(race).heads] == ["throughput", "CPU per request"]


def test_the_parity_sheet_is_each_columns_own(race: Race) -> None:
    """Under its name."""
    console = Console(file=io.StringIO(), width=80, no_color=True)
    terminal.show_parity(console, race)
    text = console.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO above
    assert text.count("parity sheet") == 2
    assert text.index("hello") < text.index("multiply")


def test_json_follows_its_schema_and_has_each_column(race: Race) -> None:
    """Pairs and checks name their column; a race of one workload has the same shape, with one column."""
    told = export.race_json(JudgedRace.of(race))
    jsonschema.validate(json.loads(json.dumps(told)), export.schema())
    assert [column["name"] for column in told["columns"]] == ["hello", "multiply"]
    assert told["columns"][1]["absent"] == ["static"]
    assert {"first": "quick", "second": "steady", "ahead": "hello", "behind": "multiply"} in told["changes"]
    assert {pair["column"] for pair in told["pairs"]} == {"hello", "multiply"}
    assert {pair["metric"] for pair in told["pairs"]} >= {"throughput", "cpu"}
    assert told["contenders"][0].keys().isdisjoint({"throughput_per_s", "rounds", "parity"})
    assert told["columns"][0]["contenders"][0]["throughput_per_s"]["estimate"] > 0
    one = samples.race()
    alone = json.loads(json.dumps(export.race_json(JudgedRace.of(one))))
    jsonschema.validate(alone, export.schema())
    assert alone.keys() == told.keys()
    assert alone["columns"][0].keys() == told["columns"][0].keys()
    assert alone["changes"] == []
    assert {found["column"] for found in (*alone["pairs"], *alone["validity"])} == {"hello"}


def test_markdown_has_the_table_and_takes_no_name_for_markup(race: Race) -> None:
    """A name from outside stays text."""
    text = markdown.race(JudgedRace.of(race))
    assert "| contender | hello, throughput | multiply, throughput |" in text
    assert "<script>" not in text
    assert "| steady | 1.8" in text
    assert "| 1 = 2" in text


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, race: Race) -> Path:
    path = tmp_path_factory.mktemp("store") / "races.sqlite"
    with Store(path) as kept:
        kept.begin(race)
        kept.begin(samples.race(seed=4))
    return path


def command(store: Path, *words: str, code: int = 0) -> str:
    done = CliRunner(catch_exceptions=False).invoke(cli, [*words, "--store", str(store)])
    assert done.exit_code == code, done.output
    return done.output


def test_every_export_says_which_column(store: Path, race: Race, tmp_path: Path) -> None:
    """Rows, measures, suites and tags; one column alone is exported as a race of one workload."""

    def made(name: str, *words: str) -> str:
        command(store, "export", race.id, str(tmp_path / name), *words)
        return (tmp_path / name).read_text()

    rows = list(csv.DictReader(io.StringIO(made("all.csv"))))
    assert len(rows) == sum(len(this.blocks) for this in race.rounds)
    assert {(row["workload"], row["column"]) for row in rows} == {("hello", "hello"), ("multiply", "multiply")}
    own = list(csv.DictReader(io.StringIO(made("one.csv", "--column", "multiply", "--rounds"))))
    assert {row["contender"] for row in own} == {"quick", "steady", "twin", HOSTILE}
    assert "column" not in own[0]
    assert {"hello/quick", "multiply/quick"} <= json.loads(made("m.json", "--as", "bencher")).keys()
    assert [suite.get("name") for suite in ElementTree.fromstring(made("r.xml"))] == [
        "dragstrip hello",
        "dragstrip multiply",
    ]
    assert "Tag=multiply/quick," in made("all.hlog")
    assert made("b.bench").count("pkg: dragstrip/") == 2
    assert 'workload="multiply"' in made("m.prom")
    assert made("columns.svg").startswith("<svg")
    assert made("r.svg", "--column", "hello", "--chart", "ranking").startswith("<svg")


def test_what_shows_one_column_asks_which(store: Path, race: Race, tmp_path: Path) -> None:
    """The message names the columns that the race has; a race of one workload has one."""

    def refused(*words: str) -> str:
        with pytest.raises(BadUsage) as error:
            command(store, "export", *words)
        return str(error.value)

    svg = str(tmp_path / "x.svg")
    assert "choose with --column: 'hello' or 'multiply'" in refused(race.id, str(tmp_path / "x.hgrm"))
    assert "choose with --column" in refused(race.id, svg, "--chart", "blocks")
    assert "it has 'hello' and 'multiply'" in refused(race.id, svg, "--column", "json")
    assert "has no such column; it has 'hello'" in refused("000000000004", svg, "--column", "json")
    assert "has one workload" in refused("000000000004", svg, "--chart", "columns")


def test_lists_comparisons_and_the_live_line_know_columns(store: Path, race: Race) -> None:
    """`runs` names both workloads; a race of one of them is compared with that column."""
    assert '"workload": "hello,multiply"' in command(store, "runs", "--json")
    compared = json.loads(command(store, "compare", race.id, "000000000004", "--json", "-", code=0))
    assert [one["column"] for one in compared["columns"]] == ["hello"]
    assert "s left" in time_left(replace(race, rounds=race.rounds[:8]), judge(race))


def test_a_program_gets_each_column_as_a_result(race: Race) -> None:
    """By its name; a pair of the whole race is asked for by column."""
    result = Result.of(race)
    assert list(result.columns) == ["hello", "multiply"]
    assert result.columns["multiply"].pair("steady", "quick").verdict == "faster"
    assert Result.of(samples.race()).columns["hello"].pair("quick", "steady").verdict == "faster"
    shown = repr(Result.of(samples.race(seed=7)))
    assert shown.startswith("<dragstrip.Result of race 000000000007: quick served 1.3")
    assert "\n" not in shown
    with pytest.raises(BadUsage, match=r"columns\[NAME\]\.pair, NAME of hello, multiply"):
        result.pair("steady", "quick")
    assert "&lt;script&gt;" in result._repr_html_()
    assert "multiply" in str(result)
    assert set(result.rounds()["column"]) == {"hello", "multiply"}


# --- the page, in a browser ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running() -> Iterator[Any]:
    with browser() as one:
        yield one


@pytest.mark.thorough
def test_the_page_shows_all_columns_and_each_with_its_sections(running: Any, race: Race, tmp_path: Path) -> None:
    """The chart of all columns first; every link leads somewhere, every chart is drawn, axe finds nothing."""
    file = tmp_path / "race.html"
    page.write(JudgedRace.of(race), file)
    watched = Watched(running, file.as_uri(), width=390, theme="dark")
    opened = watched.page
    opened.goto(file.as_uri())
    opened.wait_for_selector("#chart-columns[data-drawn] svg", timeout=20_000)
    assert opened.locator(".badge").inner_text().split("\n")[0].startswith("ORDER CHANGES")
    assert opened.locator("#columns tbody tr").count() == 5
    places = opened.evaluate("[...document.querySelectorAll('nav a')].map((one) => one.getAttribute('href'))")
    assert {"#columns", "#c1-pairs", "#c2-validity", "#method"} <= set(places)
    assert [place for place in places if opened.locator(f"{place} h2").count() < 1] == []
    opened.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for at in (1, 2):
        for name in charts.CHARTS:
            opened.wait_for_selector(f"#chart-c{at}-{name}[data-drawn] svg", timeout=20_000)
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    assert contrast_and_names(opened) == []
    opened.set_viewport_size({"width": 1280, "height": 900})
    assert opened.evaluate("document.documentElement.scrollWidth") <= 1280
    own = "[...document.querySelectorAll('main [id]')].filter((one) => !one.closest('svg')).map((one) => one.id)"
    ids = opened.evaluate(own)
    assert len(set(ids)) == len(ids)
    assert HOSTILE in opened.locator("main").inner_text()
    assert watched.said == []
    watched.close()


def test_the_page_of_two_rates_says_their_bias(running: Any, tmp_path: Path) -> None:
    """In plain words below the table; its command runs the same again."""
    race = at_two_rates()
    page.write(JudgedRace.of(race), tmp_path / "rates.html")
    watched = Watched(running, (tmp_path / "rates.html").as_uri())
    watched.page.goto((tmp_path / "rates.html").as_uri())
    assert columns.RATES_NOTE in watched.page.locator("#columns").inner_text()
    text = watched.page.locator("main").text_content()
    assert "By CPU per request, the second over the first: intervals" in text
    assert "By throughput" not in text
    assert "--efficiency" in watched.page.locator("#command").text_content()
    assert watched.said == []
    watched.close()
