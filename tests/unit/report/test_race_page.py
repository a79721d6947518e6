"""The page as text: nothing from outside is markup, nothing is fetched, everything can be read."""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import io
import itertools
import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import samples
from reports import (
    HOSTILE,
    SPEEDS,
    Reader,
    hostile_race,
    rendered,
    shown,
)

from dragstrip.analysis import judge, judge_column
from dragstrip.commands.diff import diff
from dragstrip.errors import BadUsage
from dragstrip.record import Ending, Event, EventKind, Race
from dragstrip.report.race import (
    charts,
    tables,
    wording,
)
from dragstrip.report.race import export as race_export
from dragstrip.report.race import page as race_page
from dragstrip.report.race.summary import JudgedRace
from dragstrip.validity import inspect


def test_text_from_outside_never_becomes_markup() -> None:
    """Only our scripts run, by digest, and the hostile text is in none of them; it is still there to be read."""
    race = hostile_race()
    checks = [*inspect(race), samples.said(f"parity, {HOSTILE}", "warn", HOSTILE)]
    text = race_page.render(JudgedRace(race, judge(race), checks))
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
    assert "url(" not in ours.replace("url(#", "")
    assert "@import" not in ours
    assert not re.search(r"https?://", re.sub(r"http://127.0.0.1|\S*vega.github.io/schema\S*", "", ours))
    assert len(text) < 3 * 2**20
    assert "default-src 'none'" in text


def test_the_page_shows_the_other_metrics_and_who_serves_more_but_spends_more() -> None:
    """By each metric apart from the deciding one; a contradiction between two is reported. Names stay text."""
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
    assert "CPU per request, the second over the first" in seen
    assert "peak memory, the second over the first" in seen
    assert "▲ less CPU" in seen
    assert "the ratio is by throughput, the first over the second" in seen
    assert "less CPU" in shown(race, verbose=True)
    assert wording.contradiction_text(note)[:60] in re.sub(r"\s+", " ", shown(race))
    by_cpu = samples.changed(race, plan=replace(race.plan, metric="cpu"))
    seen = "".join(Reader(rendered(by_cpu)).text)
    assert wording.contradiction_text(note) in seen
    assert "▲ less CPU" in seen
    assert "the ratio is by CPU per request, the second over the first" in seen


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


def test_the_page_is_written_whole_and_readable_by_others(race: Race, tmp_path: Path) -> None:
    """Into a folder that is there; a path that can't be written is refused by name, and nothing is left behind."""
    path = tmp_path / "race.html"
    race_page.write(JudgedRace.of(race), path)
    race_page.write(JudgedRace.of(race), path)
    assert [p.name for p in path.parent.iterdir()] == ["race.html"]
    with pytest.raises(BadUsage, match=r"new/race\.html: can't be written"):
        race_page.write(JudgedRace.of(race), tmp_path / "new" / "race.html")
    assert path.stat().st_mode & 0o044 or path.stat().st_mode & 0o777 == 0o600
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(BadUsage, match=r"race\.html/x\.html: can't be written"):
        race_page.write(JudgedRace.of(race), path / "x.html")


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


def test_the_page_of_revisions_says_how_to_compare_them_again() -> None:
    """By their commits; uncommitted changes by the working tree, which is what ``diff`` races unasked."""
    commits = ("a" * 40, "b" * 40)
    revisions = Event(at_ns=1, kind=EventKind.REVISIONS, subject="mine", names=commits)
    race = replace(samples.race(), events=(revisions,))
    line = race_page.command(race)
    assert line.startswith(f"dragstrip diff {'a' * 12} {'b' * 12} --connections ")
    assert "--workload" not in line
    made = diff.make_context("diff", shlex.split(line)[2:])
    assert made.params["revisions"] == ("a" * 12, "b" * 12)
    tree = replace(race.entrants[1], name="working tree (bbbbbbb + changes)")
    changed = samples.changed(race, entrants=(race.entrants[0], tree))
    assert race_page.command(changed).startswith(f"dragstrip diff {'a' * 12} --connections ")


def test_reports_need_no_engine() -> None:
    """Old results can be drawn where the compiled engine cannot load."""
    code = (
        "import sys; sys.modules['dragstrip._engine'] = None\n"
        "import samples\nfrom dragstrip.report.race.summary import JudgedRace\n"
        "from dragstrip.report.race import export, live, page, terminal\n"
        "race = samples.race()\nassert page.render(JudgedRace.of(race))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(filter(None, sys.path))})
