"""Reports: the same truth in terminal, page and JSON; nothing from outside is taken for markup; nothing is fetched."""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import html.parser
import io
import itertools
import json
import math
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import samples
from hdrh.histogram import HdrHistogram
from rich.console import Console

from dragstrip import validity
from dragstrip.analysis import Verdict, judge, judge_column
from dragstrip.analysis.fitness import GeneratorLimit
from dragstrip.analysis.unequal_disturbance import Disturbed
from dragstrip.cli import race as cli_race
from dragstrip.errors import BadUsage
from dragstrip.machine_facts import Facts
from dragstrip.record import Ending, EventKind, Race, Void, VoidKind
from dragstrip.report import figures, glyphs, listing
from dragstrip.report.race import (
    badge,
    chart_data,
    charts,
    forest,
    headline,
    latency,
    live,
    notes,
    summary,
    tables,
    wording,
)
from dragstrip.report.race import export as race_export
from dragstrip.report.race import page as race_page
from dragstrip.report.race import terminal as race_terminal
from dragstrip.store.database import RunLine, Store
from dragstrip.validity import inspect
from dragstrip.validity import observation as seen
from dragstrip.validity.check import CheckName, Finding, Status, check_result
from dragstrip.validity.observation import Generator, OwnShare, Share

HOSTILE = "<script>alert(1)</script>"
SPEEDS = {"return": 118_000.0, "static": 96_000.0, "twin": 96_000.0, "slow": 4_000.0}
WARNING = samples.said("generator", "warn", "it used 88 % of its core; give it another")


@pytest.fixture(scope="module")
def race() -> Race:
    return samples.race(SPEEDS, rounds=14, out={"dud": "body differs at byte 10\nlast words: none"})


def shown(race: Race, *, width: int = 100, checks: Any = None, encoding: str = "utf-8", **more: Any) -> str:
    """What the terminal report writes, as text."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    console = Console(width=width, file=file, **{key: more.pop(key) for key in ("force_terminal",) if key in more})
    race_terminal.show_race(console, race, judge(race), inspect(race) if checks is None else checks, **more)
    return raw.getvalue().decode(encoding)


def part_of(race: Race) -> summary.Part:
    """The one column of a race."""
    (part,) = summary.parts(race, judge(race), inspect(race))
    return part


def rendered(race: Race) -> str:
    return race_page.render(race, judge(race), inspect(race))


def told(race: Race) -> dict[str, Any]:
    return race_export.race_json(race, judge(race), inspect(race))


# --- what all reports share ---------------------------------------------------------------------


def test_contenders_stand_fastest_first_and_ties_share_a_bracket(race: Race) -> None:
    """Contenders that are out have no rows; the two equal ones are joined, the others are not."""
    found = summary.ranked(race, judge_column(race))
    assert found[0].name == "return"
    assert {found[1].name, found[2].name} == {"static", "twin"}
    assert [row.ties for row in found] == [("",), ("top",), ("bottom",), ("",)]


def test_overlapping_tie_groups_get_a_column_each_and_pass_strangers_by() -> None:
    """a-b and b-c overlap; d-e can stand in a column again; a group skips a row that isn't in it."""
    cells = summary.tie_cells("abcde", [("a", "b"), ("b", "c"), ("d", "e"), ("a",)])
    assert cells == [("top", ""), ("bottom", "top"), ("", "bottom"), ("top", ""), ("bottom", "")]
    assert summary.tie_cells("abc", [("a", "c")]) == [("top",), ("gap",), ("bottom",)]
    assert summary.tie_cells("abc", [("a",), ("b",), ("c",)]) == [(), (), ()]


def test_a_pair_seen_from_the_other_side_says_the_same(race: Race) -> None:
    """Ratio and bounds are inverted, the words turned round; twice is as before."""
    pair = next(pair for pair in judge(race).pairs if {pair.a, pair.b} == {"return", "slow"})
    turned = summary.oriented(pair, pair.b)
    assert (turned.a, turned.b, turned.verdict) == (pair.b, pair.a, "slower")
    assert turned.low < turned.ratio < turned.high < 1
    assert turned.low == pytest.approx(1 / pair.high)
    again = summary.oriented(turned, pair.a)
    assert (again.verdict, again.ratio) == (pair.verdict, pytest.approx(pair.ratio))


def test_the_headline_says_who_leads_and_by_how_much(race: Race) -> None:
    """Several contenders: the leader and its lead; two: the pair's own sentence; a tie at the top names all of it."""
    several = headline.headline(race, judge(race), [])
    assert re.match(r"return is the fastest of 4: it served 1\.2\d+ times the requests of (static|twin) \(", several)
    two = samples.race()
    assert headline.headline(two, judge(two), []).startswith("quick served 1.3")
    tied = samples.race({"one": 50_000.0, "two": 50_000.0, "three": 9_000.0})
    assert "are tied at the top" in headline.headline(tied, judge(tied), [])


def test_the_headline_never_claims_what_was_not_measured() -> None:
    """No rounds, too few rounds, a single contender left, a void race: each said instead of a verdict."""
    none = samples.race(rounds=0, finished=Ending.NONE)
    assert "No verdict yet: 0 rounds" in headline.headline(none, judge(none), [])
    few = samples.race(rounds=3, finished=Ending.INTERRUPTED)
    assert "too early to call" in headline.headline(few, judge(few), [])
    alone = samples.race({"quick": 1000.0}, out={"dud": "died"}, finished=Ending.TOO_FEW)
    assert headline.headline(alone, judge(alone), []) == (
        "No verdict: fewer than two contenders are left in the race; out: dud."
    )
    whole = samples.race()
    void = samples.said("void passes", "void", "half of the passes are void: steal")
    assert "void" in headline.headline(whole, judge(whole), [void])
    assert "void" in headline.headline(replace(whole, finished=Ending.VOID), judge(whole), [])


def test_latency_is_merged_from_the_histograms_of_blocks_that_count() -> None:
    """Quantiles equal those of one histogram over all values; void blocks and void rounds add nothing."""
    values = [[1000 * k for k in range(1, 200)], [7_000_000] * 3, [50_000_000], [90_000_000]]
    blocks = [
        samples.block(
            "quick",
            position=k,
            pass_index=k,
            latency_hdr=samples.hdr(*these),
            void=samples.voided("errors") if k == 2 else (),
        )
        for k, these in enumerate(values)
    ]
    good = replace(samples.race(rounds=1).rounds[0], blocks=tuple(blocks[:3]))
    bad = replace(good, index=1, blocks=(blocks[3],), void=samples.voided("database"))
    direct = HdrHistogram(1, 60 * samples.S, 3)
    for value in values[0] + values[1]:
        direct.record_value(value)
    (merged,) = latency.merged(_with(good, bad)).values()
    assert merged == {label: direct.get_value_at_percentile(q) / 1000 for label, q in latency.QUANTILES.items()}


def _with(*rounds: Any) -> Race:
    return replace(samples.race(rounds=0), rounds=rounds)


def test_histograms_of_different_ranges_merge() -> None:
    """A later engine may widen its range; old and new blocks still add up."""
    narrow, wide = HdrHistogram(1, samples.S, 3), HdrHistogram(1, 3600 * samples.S, 3)
    narrow.record_value(1_000_000)
    wide.record_value(90 * samples.S)
    for order in ((narrow, wide), (wide, narrow)):
        blocks = tuple(
            samples.block("quick", position=k, pass_index=k, latency_hdr=base64.b64decode(histogram.encode()))
            for k, histogram in enumerate(order)
        )
        merged = latency.merged(_with(replace(samples.race(rounds=1).rounds[0], blocks=blocks)))["quick"]
        assert merged["p50"] == pytest.approx(1000, rel=0.001)
        assert merged["max"] == pytest.approx(90e6, rel=0.001)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (float("nan"), "–"), (float("inf"), "–"), (118_000.4, "118,000"), (812.34, "812.3"), (8.254, "8.25")],
)
def test_figures_read_as_people_write_them(value: float | None, text: str) -> None:
    """Thousands marked, no exponent, a dash where there is none."""
    assert figures.figure(value) == text


def test_short_figures_keep_three_digits() -> None:
    """For narrow columns, ratios and sizes."""
    assert [figures.brief(v) for v in (0, 9.5, 812, 4_100, 118_000, 2.5e6, 3e9)] == [
        "0.00", "9.50", "812", "4100", "118k", "2.50M", "3.00G",
    ]  # fmt: skip
    assert [figures.ratio(v) for v in (0.0348, 0.526, 0.996, 1.004, 2.414, 28.77, 1234.5)] == [
        "0.0348", "0.526", "0.996", "1.004", "2.41", "28.77", "1,234",
    ]  # fmt: skip
    assert [figures.memory(v) for v in (None, 100, 6 * 2**20, 300 * 2**20, 2**40)] == [
        "–", "100 B", "6.0 MiB", "300 MiB", "1024 GiB",
    ]  # fmt: skip
    assert figures.errors({"reset": 2, "wrong_body": 1200, "timeout": 0}) == "1,200 wrong body, 2 reset"


# --- JSON ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [0, 1, 3, 14])
def test_json_follows_its_schema_at_any_time_of_a_race(rounds: int) -> None:
    """Before any round, before there are intervals, and after; no NaN anywhere."""
    race = samples.race(
        SPEEDS, rounds=rounds, out={"dud": "died"}, finished=Ending.NONE if rounds < 14 else Ending.DECIDED
    )
    made = json.loads(json.dumps(told(race), allow_nan=False))
    jsonschema.Draft202012Validator.check_schema(race_export.schema())
    jsonschema.Draft202012Validator(race_export.schema()).validate(made)
    assert made["race"] == race.id
    beside = (["cpu"] * 6 + ["memory"] * 6) if rounds else []
    assert [pair["metric"] for pair in made["pairs"]] == ["throughput"] * 6 + beside
    assert all((pair["low"] is None) == (rounds < 10) for pair in made["pairs"])


def test_json_has_every_field_that_the_design_names(race: Race) -> None:
    """The contract's own example, key by key."""
    made = told(race)
    assert {"schema", "race", "seed", "workload", "load", "machine", "method"} <= made.keys()
    assert {"contenders", "columns", "pairs", "validity", "void"} <= made.keys()
    assert {"name", "version", "out"} <= made["contenders"][0].keys()
    (column,) = made["columns"]
    first = column["contenders"][0]
    assert {"name", "rounds", "blocks", "void_blocks", "requests", "errors"} <= first.keys()
    assert first["throughput_per_s"].keys() == {"estimate", "low", "high"}
    assert first["latency_us"].keys() == {"p50", "p90", "p99", "p99.9", "max"}
    assert made["pairs"][0].keys() >= {"a", "b", "metric", "ratio", "low", "high", "verdict"}
    assert column["groups"][0] == ["return"]
    assert made["void"] is False


def test_json_shows_the_order_of_blocks(race: Race) -> None:
    """Names per pass and round, as they were loaded."""
    order = told(race)["order"]
    assert len(order) == 14
    assert [name for names in order[3] for name in names] == [block.contender for block in race.rounds[3].blocks]


def test_one_that_fell_out_under_way_yields_no_number() -> None:
    """Its blocks are counted as such; requests, estimates and latency are not given, in the page neither."""
    whole = samples.race(SPEEDS)
    entrants = tuple(replace(e, out="died under load", out_round=3) if e.name == "slow" else e for e in whole.entrants)
    race = samples.changed(whole, entrants=entrants)
    made = told(race)
    jsonschema.validate(made, race_export.schema())
    (slow,) = [contender for contender in made["columns"][0]["contenders"] if contender["name"] == "slow"]
    assert (slow["out"], slow["out_round"], slow["requests"]) == ("died under load", 3, 0)
    assert slow["throughput_per_s"] == {"estimate": None, "low": None, "high": None}
    assert set(slow["latency_us"].values()) == {None}
    assert all("slow" not in (pair["a"], pair["b"]) for pair in made["pairs"])
    assert "in round 4" in rendered(race)
    assert "slow is out in round 4: died under load" in shown(race)


# --- page ---------------------------------------------------------------------------------------


class Reader(html.parser.HTMLParser):
    """Collects what a browser would: open elements, attributes, and text by element."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, Mapping[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), f"<{tag}> names an attribute twice"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] == "script" else self.text).append(data)


def hostile_race() -> Race:
    """Markup wherever text comes from outside."""
    nasty = f"\"'&{HOSTILE}"
    race = samples.race({f"a{nasty}": 50_000.0, f"b{nasty}": 20_000.0}, out={f"c{nasty}": f"it said {nasty}"})
    entrants = tuple(
        replace(e, title=nasty, version=nasty, language=nasty, parameters={nasty: nasty}, parity={nasty: e.name})
        for e in race.entrants
    )
    first = race.rounds[0]
    first = replace(
        first,
        blocks=(
            replace(first.blocks[0], void=samples.voided("errors", **{nasty: 1}), errors={nasty: 1}),
            *first.blocks[1:],
        ),
    )
    event = samples.noted(EventKind.INTRUDER, subject=nasty, numbers={"pid": 7, "share": 0.5})
    return samples.changed(
        race,
        entrants=entrants,
        name=nasty,
        workload=nasty,
        software=nasty,
        started=nasty,
        machine=Facts(cpu=nasty, mitigations={nasty: nasty}, physical_cores=(nasty,)),
        rounds=(first, *race.rounds[1:]),
        events=(event,),
    )


def test_text_from_outside_never_becomes_markup() -> None:
    """Only our scripts run, by digest, and the hostile text is in none of them; it is still there to be read."""
    race = hostile_race()
    text = race_page.render(race, judge(race), [*inspect(race), samples.said(f"parity, {HOSTILE}", "warn", HOSTILE)])
    assert HOSTILE not in text
    reader = Reader(text)
    assert reader.open == []
    kinds = [attrs for tag, attrs in reader.seen if tag == "script"]
    assert kinds == [{"type": "application/json", "id": "race"}, {"type": "application/json", "id": "charts"}, {}, {}]
    assert not [attrs for _, attrs in reader.seen if any(name.startswith("on") for name in attrs)]
    assert HOSTILE in "".join(reader.text)
    data, drawing, *running = reader.scripts
    assert not [text for text in running if "alert(1)" in text]
    assert HOSTILE in json.dumps(json.loads(drawing))
    policy = next(attrs["content"] or "" for tag, attrs in reader.seen if tag == "meta" and "http-equiv" in attrs)
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in running]
    assert re.findall(r"'sha256-(.*?)'", policy) == digests
    assert json.loads(data)["workload"] == race.workload
    jsonschema.validate(json.loads(data), race_export.schema())


def test_the_page_fetches_nothing(race: Race) -> None:
    """No external address in any attribute or style, and a policy that would forbid it."""
    text = rendered(race)
    for tag, attrs in Reader(text).seen:
        for name in ("src", "href", "srcset", "action", "xlink:href", "data"):
            value = attrs.get(name)
            assert value is None or value.startswith(("#", "data:")), f"<{tag} {name}={value}>"
    ours = re.sub(r"<script>.*?</script>", "", text, flags=re.S)  # Vega's XML namespace names are not requests
    assert "url(" not in ours
    assert "@import" not in ours
    assert not re.search(r"https?://", re.sub(r"http://127.0.0.1|\S*vega.github.io/schema\S*", "", ours))
    assert len(text) < 3 * 2**20
    assert "default-src 'none'" in text


def test_the_page_shows_the_other_metrics_and_who_serves_more_but_spends_more() -> None:
    """By each metric apart from the one that decides; a contradiction between two is reported. Names stay text."""
    race = samples.race({HOSTILE: 40_000.0, "steady": 30_000.0})

    def dear(block: Any) -> Any:
        return replace(block, server_cpu_ns=3 * block.server_cpu_ns) if block.contender == HOSTILE else block

    race = replace(race, rounds=tuple(replace(r, blocks=tuple(map(dear, r.blocks))) for r in race.rounds))
    verdict = judge_column(race)
    (note,) = verdict.contradictions
    text = rendered(race)
    assert HOSTILE not in text
    seen = "".join(Reader(text).text)
    assert wording.contradiction_text(note) in seen
    assert "By the other metrics" in seen
    (cpu,) = verdict.beside["cpu"]
    assert (cpu.verdict, cpu.metric) == ("slower", "cpu")
    assert "CPU efficiency" in seen
    assert "memory efficiency" in seen
    assert "▼ uses more" in seen
    assert "Throughput of the row over the column" in seen
    assert "uses more" in shown(race, verbose=True)
    assert wording.contradiction_text(note)[:60] in re.sub(r"\s+", " ", shown(race))
    by_cpu = samples.changed(race, plan=replace(race.plan, metric="cpu"))
    seen = "".join(Reader(rendered(by_cpu)).text)
    assert wording.contradiction_text(note) in seen
    assert "▲ uses less" in seen
    assert "CPU efficiency of the row over the column" in seen


def test_the_page_can_be_read_without_seeing_it(race: Race) -> None:
    """Every drawing has a label, every table its heads, headings go down step by step, the language is named."""
    seen = Reader(rendered(race)).seen
    drawings = [attrs for _, attrs in seen if attrs.get("role") == "img"]
    assert len(drawings) == len(charts.CHARTS)
    assert all(attrs.get("aria-label") for attrs in drawings)
    heads = [attrs for tag, attrs in seen if tag == "th"]
    assert heads
    assert all(attrs.get("scope") for attrs in heads)
    levels = [int(tag[1]) for tag, _ in seen if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert ("html", {"lang": "en"}) in seen


def spoilt_race() -> Race:
    """One void block in the first round, the second round void as a whole."""
    race = samples.race(rounds=12, passes=6)
    first = race.rounds[0]
    voided = replace(first, blocks=(replace(first.blocks[0], void=samples.voided("errors")), *first.blocks[1:]))
    return replace(race, rounds=(voided, replace(race.rounds[1], void=samples.voided("database")), *race.rounds[2:]))


def test_every_block_is_drawn_and_void_ones_are_marked() -> None:
    """One point per block: used, dropped with its pass or round, or void; a level per round that counts."""
    race = spoilt_race()
    chart = charts.blocks(part_of(race))
    points = next(iter(chart["datasets"].values())) if "datasets" in chart else chart["data"]["values"]
    counts = {
        name: [sum(p["kind"] == kind and p["name"] == name for p in points) for kind in KINDS]
        for name in ("quick", "steady")
    }
    assert sorted(counts.values()) == [[65, 6, 1, 11], [65, 7, 0, 11]]
    assert [seen.kind for seen in chart_data.blocks(race)][:1] == ["void"]
    assert next(p["why"] for p in points if p["kind"] == "void") == "errors: 3 to 1403 requests (reset 3)"


KINDS = ("used", "dropped", "void", "level")


def test_a_long_race_draws_fewer_points_and_all_void_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page stays below its weight: every second, third … block, but each void one."""
    monkeypatch.setattr(charts, "MAX_BLOCKS", 40)
    race = spoilt_race()
    chart = charts.blocks(part_of(race))
    points = next(iter(chart["datasets"].values())) if "datasets" in chart else chart["data"]["values"]
    assert sum(p["kind"] in ("used", "dropped") for p in points) <= 40
    assert sum(p["kind"] == "void" for p in points) == 1


def test_ties_are_joined_in_the_ranking_chart(race: Race) -> None:
    """One bracket from the first to the last of each group, and only of those."""
    told = json.dumps(charts.ranking(part_of(race)))
    assert sorted(re.search(r'"first": "(\w+)", "last": "(\w+)"', told).groups()) == ["static", "twin"]  # type: ignore[union-attr]


def test_charts_become_pictures_that_load_nothing(race: Race) -> None:
    """Each as SVG and PNG, both themes; hostile names are text in them."""
    for one in (race, hostile_race()):
        for name in charts.CHARTS:
            text = charts.svg(charts.draw(name, part_of(one), dark=True))
            assert text.startswith("<svg")
            assert HOSTILE not in text
            assert not re.search(r"(href|src)=|url\(http", text)
    assert charts.png(charts.draw("ranking", part_of(race))).startswith(b"\x89PNG")


def test_the_pages_blocks_are_the_races(race: Race) -> None:
    """The CSV to download has every block, with its fate."""
    text = rendered(race)
    packed = re.search(r"data:application/gzip;base64,([^\"]+)", text)
    assert packed
    told = list(csv.DictReader(io.StringIO(gzip.decompress(base64.b64decode(packed[1])).decode())))
    assert len(told) == sum(len(round_.blocks) for round_ in race.rounds)
    assert told == list(csv.DictReader(io.StringIO(tables.csv_text(tables.block_rows(race)))))


@pytest.mark.parametrize("rounds", [0, 1, 2, 11])
@pytest.mark.parametrize("metric", ["throughput", "cpu"])
def test_page_and_terminal_stand_at_any_time_of_a_race(rounds: int, metric: str) -> None:
    """No round, one, too few for an interval, enough; for both metrics, and without readable CPU time."""
    race = samples.race(SPEEDS, rounds=rounds, finished=Ending.NONE)
    race = samples.changed(race, plan=replace(race.plan, metric=metric))
    assert Reader(rendered(race)).open == []
    assert shown(race)
    blind = tuple(
        replace(r, blocks=tuple(replace(b, server_cpu_ns=None, server_wait_ns=None) for b in r.blocks))
        for r in race.rounds
    )
    assert Reader(rendered(replace(race, rounds=blind))).open == []
    assert shown(replace(race, rounds=blind))


def test_less_cpu_stands_first_where_cpu_decides() -> None:
    """The ranking turns with the metric, and says that less is better."""
    race = samples.race({"lavish": 40_000.0, "thrifty": 40_000.0})
    cpu_ns = {"lavish": 34 * samples.MS, "thrifty": 20 * samples.MS}
    cheap = tuple(
        replace(r, blocks=tuple(replace(block, server_cpu_ns=cpu_ns[block.contender]) for block in r.blocks))
        for r in race.rounds
    )
    race = samples.changed(race, rounds=cheap, plan=replace(race.plan, metric="cpu"))
    assert [row.name for row in summary.ranked(race, judge_column(race))] == ["thrifty", "lavish"]
    assert "less is better" in rendered(race)
    assert "less is better" in shown(race)


def test_the_page_is_written_whole_and_readable_by_others(race: Race, tmp_path: Path) -> None:
    """Into a folder that is there; a path that can't be written is refused by name, and nothing is left behind."""
    path = tmp_path / "race.html"
    race_page.write(race, judge(race), inspect(race), path)
    race_page.write(race, judge(race), inspect(race), path)
    assert [p.name for p in path.parent.iterdir()] == ["race.html"]
    with pytest.raises(BadUsage, match=r"new/race\.html: can't be written"):
        race_page.write(race, judge(race), inspect(race), tmp_path / "new" / "race.html")
    assert path.stat().st_mode & 0o044 or path.stat().st_mode & 0o777 == 0o600
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(BadUsage, match=r"race\.html/x\.html: can't be written"):
        race_page.write(race, judge(race), inspect(race), path / "x.html")


def test_the_page_says_how_to_run_it_again() -> None:
    """Names, URLs and ad hoc commands, quoted for a shell, with load, plan, seed and lanes."""
    race = samples.race()
    mine = samples.entrant("mine", kind="serve", parameters={"command": "'./serve r' {port}"})
    url = samples.entrant("http://127.0.0.1:8080/", kind="url", parameters={})
    race = samples.changed(
        race, entrants=(*race.entrants, mine, url), plan=replace(race.plan, rounds_fixed=True, planned_rounds=20)
    )
    line = race_page.command(race)
    assert line.startswith("dragstrip race quick steady --serve 'mine='\"'\"'./serve r'\"'\"' {port}' http")
    placed = replace(mine, parameters={"command": "./serve {port}", "folder": "/my place"})
    assert race_page.command(samples.changed(race, entrants=(placed, url))).startswith(
        "cd '/my place' && dragstrip race --serve 'mine=./serve {port}' http"
    )
    assert "--seed 7 --rounds 20 --server-cores 1 --engine-cores 0" in line
    assert "--budget 60s --margin 1% --metric throughput" in line
    over_fleet = race_page.command(replace(race, machine=replace(race.machine, fleet={"server": "a b", "one": "c d"})))
    assert "--seed 7 --rounds 20 --fleet fleet.toml" in over_fleet
    assert "-cores" not in over_fleet


# --- terminal -----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 100, 140, 200])
def test_the_terminal_report_fits_its_width(race: Race, width: int) -> None:
    """No line is wider, whatever is shown; every contender, verdict and reason is there."""
    text = shown(race, width=width, checks=[*inspect(race), WARNING], all_pairs=True, verbose=True)
    assert max(map(len, text.splitlines())) <= width
    parts = (
        "return",
        "static",
        "twin",
        "slow",
        "faster",
        "dud is out",
        "byte 10",
        "▲ generator: it",
        "● passed: rounds",
    )
    assert not [part for part in parts if part not in text]
    told = re.sub(r"\s+", " ", text)
    assert re.match(r" FASTEST return, \+2\d\.\d % on the next, .* return is the fastest of 4: it served", told)


def test_telling_pairs_are_shown_and_all_on_request() -> None:
    """Neighbours and the fastest against all; --pairs lists the rest too."""
    race = samples.race({name: 10_000.0 * 1.3**k for k, name in enumerate("edcba", start=1)})
    assert "7 of 10 pairs" in shown(race)
    every = shown(race, all_pairs=True)
    assert "of 10 pairs" not in every
    assert every.count("faster") > shown(race).count("faster")


def test_without_a_terminal_or_with_no_color_there_are_no_codes(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipes get plain text; NO_COLOR is honoured on terminals."""
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b" not in shown(race)
    assert re.search(r"\x1b\[[\d;]*3[0-7]m", shown(race, force_terminal=True))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[\d;]*3[0-7]", shown(race, force_terminal=True))


def test_an_encoding_without_our_marks_gets_plain_ones(race: Race) -> None:
    """ASCII and Latin-1 terminals get a report of the same shape instead of a traceback."""
    fancy, plain = shown(race, checks=[WARNING]), shown(race, checks=[WARNING], encoding="ascii")
    assert plain.isascii()
    assert [len(line) for line in plain.splitlines()] == [len(line) for line in fancy.splitlines()]
    assert "! generator: it used 88 %" in plain
    assert "?" not in plain
    assert shown(race, encoding="latin-1").isascii()


def test_markup_in_names_is_printed_as_it_stands() -> None:
    """rich's own markup in a contender's name or reason is text."""
    race = samples.race({"[red]a[/red]": 50_000.0, "b": 20_000.0}, out={"[link=x]c": "said [bold]no[/bold] [/]"})
    text = shown(race, width=160)
    for part in ("[red]a[/red]", "[link=x]c is out", "said [bold]no[/bold] [/]"):
        assert part in text
    assert "[red]a[/red]" in page_of_parity(race, 160)


def test_a_bar_marks_its_interval_on_the_common_scale() -> None:
    """Filled up to the interval, the estimate's cell marked, all within the width."""

    def drawn(*numbers: Any) -> str:
        return "".join(text for text, _ in glyphs.Bar(*numbers).cells(20))

    assert drawn(10.0, 8.0, 12.0, 20.0) == "████████▒▒┃▒▒" + " " * 7
    assert drawn(20.0, None, None, 20.0) == "█" * 19 + "┃"
    assert drawn(20.0, 19.0, float("nan"), 20.0) == "█" * 19 + "┃"
    assert drawn(0.0, 0.0, 0.0, 0.0) == "┃" + " " * 19


def page_of_parity(race: Race, width: int) -> str:
    console = Console(width=width, file=io.StringIO())
    race_terminal.show_parity(console, race)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_parity_sheet_marks_what_differs(race: Race) -> None:
    """A fact that is equal has no mark; narrow terminals get the same facts one below the other."""
    wide, narrow = page_of_parity(race, 120), page_of_parity(race, 60)
    assert re.search(r"^▲\s+server header\s+return", wide, re.MULTILINE)
    assert re.search(r"^\s+HTTP version\s+1\.1", wide, re.MULTILINE)
    assert "▲ server header" in narrow
    logs = [{"access log": log} for log in ("off", "none", "to a file")]
    sheets = [
        tuple(replace(one, parity=log) for one, log in zip(race.entrants, logs[:n], strict=False)) for n in (2, 3)
    ]
    two, three = (page_of_parity(samples.changed(race, entrants=entrants), 120) for entrants in sheets)
    assert re.search(r"^\s+access log\s+off\s+none", two, re.MULTILINE)
    assert re.search(r"^▲\s+access log\s+off\s+none\s+to a file", three, re.MULTILINE)
    assert "twin: twin" in narrow
    assert "no parity sheet" in page_of_parity(samples.race({}, rounds=0, out={"dud": "x"}), 80)


# --- live and picture ---------------------------------------------------------------------------


def _ran(progress: live.Progress, race: Race) -> None:
    with progress:
        progress.phase("checking what is installed", waiting=True)
        progress.phase("checking 1 of 2: return", waiting=True)
        progress.scrutineering("return")
        progress.ready("return")
        progress.out("dud", "body differs\nat byte 10")
        for done in range(1, len(race.rounds) + 1):
            part = replace(race, rounds=race.rounds[:done], finished=Ending.NONE)
            progress.round_done(part, judge(part))
        progress.close()


def test_progress_without_a_terminal_writes_few_plain_lines(race: Race) -> None:
    """Phases, how scrutineering ended, and the rounds that tell something."""
    file = io.StringIO()
    _ran(live.Progress(Console(file=file, width=100)), race)
    lines = file.getvalue().splitlines()
    assert lines[:3] == ["checking what is installed", "return: ready", "dud: out: body differs"]
    assert any(line.startswith("round 1 of at most 14") for line in lines)
    assert len(lines) < 3 + len(race.rounds)
    assert "\x1b" not in file.getvalue()


def test_progress_is_silent_when_asked(race: Race) -> None:
    """--quiet: not one character, terminal or not."""
    for force in (True, False):
        file = io.StringIO()
        _ran(live.Progress(Console(file=file, force_terminal=force), quiet=True), race)
        assert file.getvalue() == ""


def test_brief_progress_is_one_line_of_a_terminal_and_nothing_elsewhere(
    race: Race, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quiet sweep lasts minutes: the phase is shown, gone at the end; a file gets not one character."""
    monkeypatch.setenv("TERM", "xterm-256color")
    file = io.StringIO()
    _ran(live.Progress(Console(file=file, force_terminal=True, width=200), brief=True), race)
    assert "checking 1 of 2: return" in file.getvalue()
    assert "round 14 of at most 14" in file.getvalue()
    assert "dud" not in file.getvalue()
    elsewhere = io.StringIO()
    _ran(live.Progress(Console(file=elsewhere, width=200), brief=True), race)
    assert elsewhere.getvalue() == ""


def test_progress_on_a_terminal_is_redrawn_by_the_caller_alone(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread is started: a refresh in the middle of a block would take the engine's core."""
    monkeypatch.setenv("TERM", "xterm-256color")
    before, file = threading.active_count(), io.StringIO()
    progress = live.Progress(Console(file=file, force_terminal=True, width=100))
    with progress:
        progress.ready("return")
        progress.round_done(race, judge(race))
        assert threading.active_count() == before
        written = len(file.getvalue())
    assert "round 14 of at most 14" in file.getvalue()
    assert "118," in file.getvalue() or "117," in file.getvalue()
    assert written > 100


def test_the_picture_loads_nothing_and_shows_the_race(race: Race, tmp_path: Path) -> None:
    """An SVG for the README: well formed, no web font."""
    from xml.etree import ElementTree

    (tmp_path / "race.svg").write_text(race_terminal.terminal_svg(race, judge(race), inspect(race)))
    text = (tmp_path / "race.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert not re.search(r"url\(\W*http|cdn|@font-face|@import", text)
    assert "fastest" in text


def test_reports_need_no_engine() -> None:
    """Old results can be drawn where the compiled engine cannot load."""
    code = (
        "import sys; sys.modules['dragstrip._engine'] = None\n"
        "import samples\nfrom dragstrip.analysis import judge\nfrom dragstrip.validity import inspect\n"
        "from dragstrip.report.race import export, live, page, terminal\n"
        "race = samples.race()\nassert page.render(race, judge(race), inspect(race))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(filter(None, sys.path))})


def test_standings_between_rounds_decode_no_histogram(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are drawn after every round: merging all blocks so far each time would take ever longer."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(latency, "merged", lambda race: pytest.fail("histograms were merged"))
    with live.Progress(Console(file=io.StringIO(), force_terminal=True, width=100)) as progress:
        progress.round_done(race, judge(race))


def test_a_race_under_way_tells_time_left_lights_and_errors(race: Race) -> None:
    """On a terminal: bars, remaining time, a mark per check, failures with their contender; no names as markup."""
    first = race.rounds[0]
    failed = replace(first.blocks[0], errors={"timeout": 3}, contender="quick")
    under_way = replace(
        race, rounds=(replace(first, blocks=(failed, *first.blocks[1:])), *race.rounds[1:]), finished=Ending.NONE
    )
    under_way = samples.changed(under_way, entrants=(*race.entrants, samples.entrant("quick")))
    file = io.StringIO()
    with live.Progress(Console(file=file, force_terminal=True, width=120)) as progress:
        progress.round_done(under_way, judge(under_way))
        told = file.getvalue()
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", told)
    assert re.search(r"\d+ s (left at most|at most)", plain)
    assert "3 timeout" in plain
    assert "● lanes" in plain
    assert "┃" in plain


def test_void_rounds_are_told_while_a_race_runs_and_hold_up_no_decided_one() -> None:
    """All is decided, also where more than a third of 24 rounds is void: no race goes on for that."""
    race = samples.race({"quick": 40_000.0, "steady": 30_000.0}, rounds=24)

    def told(void: int) -> str:
        stolen = samples.voided("errors")
        after = replace(race, rounds=tuple(replace(r, void=stolen if r.index < void else ()) for r in race.rounds))
        judged, file = judge(after), io.StringIO()
        assert all(pair.decided for pair in judged.pairs)
        with live.Progress(Console(file=file, width=200)) as progress:
            progress.round_done(after, judged)
        return file.getvalue()

    for void in (8, 10):
        assert f"round 24 ({void} void) of at most 24, 1 of 1 pairs decided" in told(void)
        assert "may be" not in told(void)
    assert "void" not in told(0)


def test_time_left_is_bounded_by_budget_and_planned_rounds(race: Race) -> None:
    """A fixed design counts rounds; another is over when its budget is; before a round nothing is said."""
    verdict = judge(race)
    assert live.time_left(replace(race, rounds=()), verdict) == ""
    fixed = samples.changed(race, plan=replace(race.plan, rounds_fixed=True, planned_rounds=28))
    each_s = (race.rounds[0].ended_ns - race.rounds[0].started_ns) / 1e9
    assert live.time_left(fixed, verdict) == f"{14 * each_s:.0f} s left at most"
    spent = samples.changed(race, plan=replace(race.plan, budget_s=1.0, planned_rounds=500))
    assert live.time_left(spent, verdict).startswith("0 s left")


# --- at a glance --------------------------------------------------------------------------------


def judged_of(race: Race, checks: Any = (), **changes: Any) -> tuple[Race, Any, Any]:
    return race, Verdict((replace(judge_column(race), **changes),)), checks


VOID = samples.said("void passes", "void", "half of the passes are void: steal")
GLANCES = {
    "faster": (
        samples.race({"new": 41_500.0, "old": 40_000.0}, rounds=14),
        (),
        r"FASTER new \+3\.\d+ %, .* new served",
    ),
    "far faster": (
        samples.race({"new": 90_000.0, "old": 40_000.0}, rounds=14),
        (),
        r"FASTER new 2\.2\d ×, .* new served",
    ),
    "fastest": (
        samples.race(SPEEDS, rounds=14),
        (),
        r"FASTEST return, \+2\d\.\d % on the next, .* return is the fastest",
    ),
    "same": (
        samples.race({"new": 40_000.0, "old": 40_000.0}, rounds=40, noise=0.004),
        (),
        r"SAME \w+ and \w+ within 1 %, −0\.\d+ to \+0\.\d+ % \w+ and \w+: same within 1 %",
    ),
    "too close": (
        samples.race({"new": 40_200.0, "old": 40_000.0}, rounds=12, noise=0.05),
        (),
        r"TOO CLOSE TO CALL \w+ against \w+, −\d.* to \+\d.* % \w+ against \w+: too close to call, between",
    ),
    "too early": (samples.race(rounds=3), (), r"TOO EARLY quick 1\.3\d × steady after 3 rounds quick against steady"),
    "one left": (
        samples.race({"quick": 1000.0}, rounds=0, out={"dud": "died"}, finished=Ending.TOO_FEW),
        (),
        "NO VERDICT 1 of 2 contenders left No verdict: fewer than two contenders are left in the race; out: dud",
    ),
    "void": (samples.race(), [VOID], r"VOID no result for quick and steady This race is void, .* half of the passes"),
}


@pytest.mark.parametrize("kind", GLANCES)
def test_badge_and_headline_alone_tell_who_is_faster_by_how_much(kind: str) -> None:
    """The five-second test: who, which way, how much, or that nothing can be said and why; terminal and page alike."""
    race, checks, wanted = GLANCES[kind]
    said = f"{badge.race_badge(race, judge(race), checks).line} {headline.headline(race, judge(race), checks)}"
    assert re.match(wanted, said), said
    top = re.sub(r"\s+", " ", shown(race, width=80, checks=checks)).strip()
    assert top.startswith(said)
    text = race_page.render(race, judge(race), checks)
    before = re.sub(r"\s+", " ", "".join(Reader(text.partition("<header>")[2].partition("</header>")[0]).text))
    for part in (badge.race_badge(race, judge(race), checks).text, headline.headline(race, judge(race), checks)):
        assert part in before


def test_where_the_race_chose_its_metric_the_headline_says_which_and_why() -> None:
    """CPU decides, the badge says so, and the reason stands behind the verdict."""
    race = samples.race({"lavish": 40_000.0, "thrifty": 30_000.0})
    cpu_ns = {"lavish": 54 * samples.MS, "thrifty": 20 * samples.MS}
    cheap = tuple(
        replace(r, blocks=tuple(replace(block, server_cpu_ns=cpu_ns[block.contender]) for block in r.blocks))
        for r in race.rounds
    )
    race = samples.changed(race, rounds=cheap, plan=replace(race.plan, metric="cpu"))
    of, verdict, checks = judged_of(race, metric_reason=GeneratorLimit(("lavish",)))
    assert headline.headline(of, verdict, checks).endswith(
        " CPU time per request decides: the load generator, not lavish, limited the throughput."
    )
    assert badge.race_badge(of, verdict, checks).line.startswith("LESS CPU thrifty: lavish takes 2.0")
    made = race_export.race_json(of, verdict, checks)
    jsonschema.validate(made, race_export.schema())
    assert (made["columns"][0]["metric"], made["columns"][0]["metric_reason"]) == (
        "cpu",
        "the load generator, not lavish, limited the throughput",
    )


def test_what_disturbed_a_pair_unequally_stands_beside_it_everywhere() -> None:
    """In the terminal right below its line, though the pair would not be shown else; on the page; in JSON."""
    race = samples.race({name: 10_000.0 * 1.3**k for k, name in enumerate("edcba", start=1)})
    verdict = judge_column(race)
    seen = Disturbed(more="b", less="d", lost_more=0.06, lost_less=0.01, widened=0.02)
    pairs = tuple(replace(p, disturbed=seen) if {p.a, p.b} == {"b", "d"} else p for p in verdict.pairs)
    verdict = Verdict((replace(verdict, pairs=pairs),))
    console = Console(width=80, file=io.StringIO())
    race_terminal.show_race(console, race, verdict, [])
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # it is the StringIO above
    (at,) = [at for at, line in enumerate(lines) if line.startswith("b / d")]
    assert "b was disturbed more than d" in lines[at + 1]
    told = wording.disturbed_text(seen)
    assert "other programs and the hypervisor took 6 % of its time, but 1 % of d's" in told
    assert told in "".join(Reader(race_page.render(race, verdict, [])).text)
    made = race_export.race_json(race, verdict, [])
    jsonschema.validate(made, race_export.schema())
    assert [p["widened"] for p in made["pairs"] if p["disturbed"] == told] == [0.02]


@pytest.mark.parametrize(
    ("moved", "shown"), [(0.0004, "0.04"), (0.02, "2"), (0.494, "49"), (2.703, "270"), (1998.0, "199,800")]
)
def test_how_far_ends_of_an_interval_were_moved_has_no_exponent(moved: float, shown: str) -> None:
    """Alone and for several pairs at once; also for shares that are tiny, and above 100 %."""
    seen = Disturbed(more="a", less="b", lost_more=0.998, lost_less=0.00001, widened=math.log1p(moved))
    told = wording.disturbed_text(seen)
    assert "took 100 % of its time, but 0.001 % of b's" in told
    pair = judge(samples.race({"a": 1000.0, "b": 2000.0})).pairs[0]
    for text in (told, forest.together([replace(pair, disturbed=seen)])):
        assert f"were moved out by {shown} %" in text


def test_many_pairs_disturbed_unequally_are_marked_and_explained_once() -> None:
    """A mark in each line and one sentence for all; each one's own behind --verbose, and folded on the page."""
    race = samples.race({name: 10_000.0 * 1.3**k for k, name in enumerate("edcba", start=1)})
    verdict = judge_column(race)
    seen = {"lost_more": 0.06, "lost_less": 0.01, "widened": 0.02}
    pairs = tuple(replace(p, disturbed=Disturbed(more=p.b, less=p.a, **seen)) for p in verdict.pairs)
    verdict = Verdict((replace(verdict, pairs=pairs),))
    shown = {}
    for verbose in (False, True):
        console = Console(width=80, file=io.StringIO())
        race_terminal.show_race(console, race, verdict, [], verbose=verbose)
        shown[verbose] = console.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO above
    one = "in 7 pairs the machine disturbed one more than the other: both ends of their intervals were moved out by 2 %"
    assert one in " ".join(shown[False].split())
    assert "b was disturbed more than" not in shown[False]
    assert sum(line.rstrip().endswith("▲") for line in shown[False].splitlines()) == 7
    assert "b was disturbed more than" in shown[True]
    page = race_page.render(race, verdict, [])
    assert '<details class="disturbed">' in page
    assert all(wording.disturbed_text(pair.disturbed) in "".join(Reader(page).text) for pair in pairs)


def test_the_noise_light_tells_level_factor_and_what_more_budget_would_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three marks for three levels; the command to go on with is one that can be typed."""
    race = samples.race({"new": 40_200.0, "old": 40_000.0}, rounds=12, noise=0.05, finished=Ending.BUDGET)
    assert notes.noise_level(race) == notes.NoiseLevel("pass", "quiet machine")
    for level, mark in (("disturbed", "▲"), ("very disturbed", "■")):
        seen = validity.Noise(level=level, lost=0.123, factor=3.04)  # type: ignore[arg-type]  # from the loop above
        monkeypatch.setattr(validity, "noise", lambda race, seen=seen: seen)
        text = re.sub(r"\s+", " ", shown(race, width=80))
        taken = "other programs and the hypervisor took 12.3 % of its cores' time"
        assert f"{mark} {level} machine: {taken}; intervals are about 3 times" in text
        assert told(race)["noise"] == {"level": level, "lost": 0.123, "factor": 3.04}
    of, verdict, _ = judged_of(race, more_s=97.0)
    assert notes.undecided_hint(of, verdict, "last").endswith(
        "about 2 min more would decide it: dragstrip race --resume last --budget +2m"
    )
    assert [notes.budget(s) for s in (1, 31, 60, 61, 600, 601, 4000)] == ["10s", "40s", "1m", "2m", "10m", "15m", "70m"]


def test_at_most_three_notes_are_told_unasked_and_each_remedy_once(race: Race) -> None:
    """The heaviest first; what shares a remedy shares a note; all of it with --verbose."""
    do = "end other programs, or give the race cores of its own (--server-cores, --engine-cores)"
    checks = [
        check_result(CheckName.STEAL, [Finding(Status.WARN, seen.RaceShare(Share.STEAL, 0.04))]),
        check_result(CheckName.ENGINE_WAIT, [Finding(Status.WARN, seen.RaceShare(Share.ENGINE_WAIT_TAKEN, 0.07))]),
        check_result(
            CheckName.SERVER_WAIT, [Finding(Status.WARN, seen.ContenderShare("slow", OwnShare.SERVER_WAIT_TAKEN, 0.09))]
        ),
        samples.said("parity, x", "warn", "x differs"),
        samples.said("memory", "warn", "slow grows"),
        samples.said("errors", "warn", "slow: 3 errors"),
    ]
    short, whole = (re.sub(r"\s+", " ", shown(race, checks=checks, verbose=v)) for v in (False, True))
    assert short.count("▲") == 3
    assert "▲ errors: slow: 3 errors ▲ memory: slow grows ▲ parity, x: x differs" in short
    assert "2 more notes: dragstrip show" in short
    taken = "taken by other programs and the hypervisor"
    waited = f"the engine waited 7 % of the time for its cores (median over blocks), {taken}"
    assert (
        f"engine wait, server wait: {waited}; other programs took up to 9 % of slow's time on its cores: {do}" in whole
    )
    assert whole.count(do) == 1


def test_a_void_check_spoils_those_it_names_and_no_others(race: Race) -> None:
    """Their pairs read void, the headline names the excluded; a check without a contender is void for all."""
    use = seen.EngineUse("return", Generator.LIMIT, 0.99, 0.5)
    limit = check_result(CheckName.GENERATOR, [Finding(Status.VOID, use)])
    assert not summary.is_void(race, judge(race), [limit])
    text = re.sub(r"\s+", " ", shown(race, checks=[limit]))
    assert re.search(r"return / slow .*? void", text)
    assert "Excluded as void: return, because the generator is the limit" in text
    assert not text.startswith(" FASTEST return")
    assert headline.no_result_reason(race, judge(race), [limit]) == ""
    assert summary.is_void(race, judge(race), [VOID])


def test_whom_a_void_check_spoils_is_no_matter_of_what_its_sentence_says() -> None:
    """Contenders `a` and `a: b`, and one that is called as a word of the sentence."""
    race = samples.race({"a": 4e4, "a: b": 3e4, "faults": 2e4})
    limit = check_result(CheckName.TREND, [Finding(Status.VOID, seen.ContenderShare("a: b", OwnShare.TREND, 0.2))])
    assert summary.void_contenders(race, [limit]) == {"a: b"}
    first = Void(kind=VoidKind.WRONG_ANSWERS, errors={"a: b": 1})
    everybody = check_result(CheckName.ACCOUNTING, [Finding(Status.VOID, seen.AccountingFaults(3, first))])
    assert summary.void_contenders(race, [everybody]) == {"a", "a: b", "faults"}


def test_a_race_with_no_result_says_which_check_and_what_to_do_on_this_machine() -> None:
    """Exit code 3's sentence: by the machine's own cores, its host, and whether its cores were kept awake."""
    race = samples.race()
    nothing = samples.race(rounds=0, finished=Ending.BUDGET)
    shared = replace(nothing, machine=replace(nothing.machine, virtual="kvm"))
    why = headline.no_result_reason(shared, judge(shared), [])
    for part in ("no round", "virtual machine (kvm)", "--awake auto", "two cores or fewer"):
        assert part in why
    awake = replace(nothing, machine=replace(nothing.machine, virtual="none", kept_awake=True))
    assert "--awake" not in headline.no_result_reason(awake, judge(awake), [])
    assert "because of the check “passes”" in headline.no_result_reason(race, judge(race), [VOID])
    limit = samples.said("Little's law", "void", "the generator is the limit")
    assert "--metric cpu" in headline.no_result_reason(race, judge(race), [limit])
    assert headline.no_result_reason(race, judge(race), []) == ""
    spent = samples.race({"new": 40_200.0, "old": 40_000.0}, rounds=12, noise=0.05, finished=Ending.BUDGET)
    assert headline.no_result_reason(spent, judge(spent), []) == "", "an honestly spent budget is an answer"


def test_the_whisker_lies_against_1_and_the_margin() -> None:
    """The band, the line at 1, the interval over both, and the estimate; a crossing of 1 is seen."""
    axis = glyphs.Axis(0.8, 1.25, 0.05)

    def drawn(*numbers: Any) -> str:
        return "".join(text for text, _ in glyphs.Whisker(*numbers, axis, "blue").cells(21))

    assert drawn(1.1, 1.02, 1.18) == "        ░░│━━━●━━━━  "
    assert drawn(1.02, 0.93, 1.12) == "       ━━━┿●━━━━     "
    assert drawn(float("nan"), None, None) == "        ░░│░░        "


def test_before_there_are_intervals_nobody_is_joined() -> None:
    """Three rounds tell nothing apart, which does not make all alike."""
    race = samples.race(SPEEDS, rounds=3)
    assert [row.ties for row in summary.ranked(race, judge_column(race))] == [()] * 4
    assert "┏" not in shown(race)


def test_axes_write_no_zero_with_a_unit(race: Race) -> None:
    """No "0k"; and a latency chart begins where its data do."""
    drawn = {name: charts.svg(charts.draw(name, part_of(race))) for name in charts.CHARTS}
    assert not [name for name, text in drawn.items() if ">0k<" in text]
    assert ">100k<" in drawn["ranking"]
    low, high = charts.latency(part_of(race))["encoding"]["y"]["scale"]["domain"]
    values = [us for row in part_of(race).rows for _, us in latency.curve(race, row.name)]
    assert low == pytest.approx(min(values), rel=0.06)
    assert high == pytest.approx(max(values), rel=0.06)


def test_a_list_of_races_tells_verdicts_and_local_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest first, at 80 columns too; one that has not ended has no verdict, whatever it had before."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    line = RunLine("0" * 12, "2026-01-02T03:04:05+00:00", "hello", ("new", "old"), 14, "decided")
    lines = [line, replace(line, race="1" * 12, rounds=3, finished="")]
    verdicts = {"0" * 12: "FASTER new +3.7 %, 2.7 to 4.6", "1" * 12: "FASTER old +9 %, 1 to 17"}
    file = io.StringIO()
    listing.runs(Console(width=80, file=file), lines, verdicts)
    monkeypatch.undo()
    time.tzset()
    text = file.getvalue()
    assert "2026-01-01 22:04" in text
    assert "FASTER new +3.7 %" in text
    assert "FASTER old" not in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("race", "code"),
    [
        (samples.race(rounds=11), 0),
        (samples.race({"new": 40_200.0, "old": 40_000.0}, rounds=12, noise=0.05, finished=Ending.BUDGET), 0),
        (samples.race({"quick": 1000.0}, rounds=1, out={"dud": "died"}, finished=Ending.TOO_FEW), 1),
        (samples.race(rounds=11, finished=Ending.VOID), 3),
        (samples.race(rounds=0, finished=Ending.BUDGET), 3),
    ],
    ids=["told", "open", "alone", "void", "nothing"],
)
def test_a_race_exits_3_only_where_nothing_that_was_measured_can_stand(
    race: Race, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An open pair whose budget was spent is an answer; the message of 3 stands on stderr. The badge is kept."""
    place = tmp_path / "races.sqlite"
    with Store(place) as store:
        store.begin(race)
    options = cli_race.RaceOptions(**cli_race.race.make_context("race", ["--store", str(place)]).params)
    try:
        cli_race._conclude(Console(width=80), race, options)
        ended = 0
    except SystemExit as leaving:
        ended = int(str(leaving.code))
    assert ended == code
    assert ("no valid result" in capsys.readouterr().err) is (code == 3)
    with Store(place) as store:
        assert badge.kept(store) == {race.id: badge.race_badge(race, judge(race), inspect(race)).line}
