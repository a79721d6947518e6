"""Dragstrip from Python, and a recorded plan raced again: with real servers where one is raced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import samples

import dragstrip
from dragstrip.analysis import judge
from dragstrip.errors import BadUsage
from dragstrip.racing.request import request_of
from dragstrip.store.database import Store

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    with Store(tmp_path / "races.sqlite") as store:
        store.begin(samples.race({"quick": 4e4, HOSTILE: 3e4}, seed=1))
        store.begin(samples.race({"quick": 4e4, HOSTILE: 3e4}, seed=2))
    return tmp_path / "races.sqlite"


def test_a_stored_race_gives_its_verdict_and_its_tables(kept: Path) -> None:
    """Sentence, pairs, rounds and blocks are those of the record; a pair seen from its other side is turned."""
    result = dragstrip.stored("000000000001", kept)
    assert result.headline.startswith("quick served 1.3")
    assert not result.void
    pair, turned = result.pair("quick", HOSTILE), result.pair(HOSTILE, "quick")
    assert (pair.verdict, turned.verdict) == ("faster", "slower")
    assert pair.ratio == pytest.approx(1 / turned.ratio)
    assert len(result.blocks()) == sum(len(round_.blocks) for round_ in result.record.rounds)
    assert len(result.rounds()) == 2 * judge(result.record).rounds
    empty = dragstrip.Result.of(replace(result.record, rounds=()))
    for table, full in ((empty.blocks(), result.blocks()), (empty.rounds(), result.rounds())):
        assert list(table.columns) == list(full.columns)
        assert table.groupby("contender")["throughput_per_s"].describe().empty
    assert set(result.pairs()["verdict"]) <= {"faster", "slower", "same", "undecided"}
    with pytest.raises(BadUsage, match="did not compare quick with nobody"):
        result.pair("quick", "nobody")


def test_a_notebook_shows_a_race_without_running_what_it_is_called(kept: Path, tmp_path: Path) -> None:
    """Its HTML escapes names; the text is the terminal's; the page is written."""
    result = dragstrip.stored("last", kept)
    shown = result._repr_html_()
    assert HOSTILE not in shown
    assert "&lt;script&gt;" in shown
    assert "quick" in str(result)
    assert result.to_html(tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_two_results_are_compared(kept: Path) -> None:
    """The same judgement as on the command line."""
    found = dragstrip.compare(dragstrip.stored("000000000001", kept), dragstrip.stored("000000000002", kept))
    assert found.reference in ("quick", HOSTILE)


def test_a_recorded_plan_asks_for_the_same_again() -> None:
    """Contenders, load, plan and seed; cores that this machine lacks are left to it."""
    from dragstrip import contender

    entries = [contender.entry("nginx-return"), contender.entry("nginx-return:workers=2")]
    entrants = tuple(replace(samples.entrant(e.name), kind=e.kind, parameters=dict(e.parameters)) for e in entries)
    race = samples.race({"a": 1.0}, rounds=0, entrants=entrants, seed=11, server_cores=(4000,), engine_cores=())
    race = samples.changed(race, plan=replace(race.plan, rounds_fixed=True, planned_rounds=17, margin=0.02))
    request = request_of(race)
    assert [entry.definition_hash for entry in request.entries] == [entry.definition_hash for entry in entries]
    assert [entry.name for entry in request.entries] == ["nginx-return", "nginx-return:workers=2"]
    assert (request.seed, request.rounds, request.margin, request.connections) == (11, 17, 0.02, 32)
    assert (request.timeout_s, request.server_cores, request.threads) == (2.0, None, None)


@pytest.mark.live
@pytest.mark.timeout(300)
@pytest.mark.thorough
def test_the_notebook_runs_and_its_race_runs_again_from_a_file(tmp_path: Path) -> None:
    """Every cell of docs/python.ipynb, in order, with real servers; then `rerun` of the exported race ends in a
    comparison with it, or in a void race and exit code 3.
    """
    cells = json.loads((ROOT / "docs" / "python.ipynb").read_text())["cells"]
    script = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    env = {**os.environ, "DRAGSTRIP_STORE": str(tmp_path / "races.sqlite")}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *words], cwd=tmp_path, env=env, capture_output=True, text=True)

    done = run("-c", script)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "race.html").read_text().startswith("<!doctype html>")
    assert run("-m", "dragstrip", "export", "last", "first.race").returncode == 0
    again = run("-m", "dragstrip", "rerun", "first.race", "-q", "--yes")
    assert again.returncode in (0, 3), again.stdout + again.stderr
    assert "dragstrip compare" in again.stdout or "void" in again.stdout
    with Store(tmp_path / "races.sqlite") as store:
        first, second = (store.load(line.race) for line in reversed(store.runs()))
    assert (first.seed, first.load, first.workload) == (second.seed, second.load, second.workload)
    assert [e.definition_hash for e in first.entrants] == [e.definition_hash for e in second.entrants]
