"""Real servers raced at two workloads, and at two rates, each in one race."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import commands
import jsonschema
import pytest
import races

from dragstrip.racing.request import request_of
from dragstrip.record import Race
from dragstrip.store.database import Store

pytestmark = pytest.mark.live


def stored(folder: Path) -> Race:
    """The race that is in the folder's store."""
    with Store(folder / "races.sqlite") as kept:
        return kept.load("last")


def to(folder: Path) -> tuple[str, ...]:
    """The words that have a race write into this folder."""
    return ("--store", str(folder / "races.sqlite"), "--json", str(folder / "race.json"))


def finished(folder: Path, done: Any) -> tuple[Race, dict[str, Any], str]:
    """A race that came to its end: its record, its JSON and what was printed."""
    assert done.returncode in (0, 3), done.stdout + done.stderr  # 3: the machine was disturbed
    told = json.loads((folder / "race.json").read_text())
    jsonschema.validate(told, races.SCHEMA)
    return stored(folder), told, done.stdout


@pytest.mark.timeout(280)
@pytest.mark.thorough
def test_two_servers_at_two_workloads_interrupted_and_resumed_beside_one_that_lacks_one(tmp_path: Path) -> None:
    """Columns take turns, each with fresh launches of those that have the workload; the rounds count on from where the
    race was cut off; rerun asks for the same.
    """
    field = ("nginx-lua", "luajit", "nginx-return")
    env = races.settings(tmp_path)
    words = ("race", *field, "--workload", "hello,multiply", "--rounds", "2")
    with races.begin(env, *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        races.until(lambda: races.rounds_in(env) >= 1 or process.poll() is not None, 120, "no round was recorded")
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=120)
    assert process.returncode == 130, text
    assert "nginx-return: out: at multiply: it doesn't support this workload" in text
    before = stored(tmp_path)
    assert before.finished == "interrupted"
    race, told, text = finished(tmp_path, races.dragstrip_run(env, "race", "--resume", before.id, *to(tmp_path)))
    assert race.finished == "rounds"
    assert race.rounds[: len(before.rounds)] == before.rounds
    assert [(column.name, column.absent) for column in race.columns] == [("hello", ()), ("multiply", ("nginx-return",))]
    assert race.workload == "hello,multiply"
    assert sorted(this.column for this in race.rounds if not this.void) == [0, 0, 1, 1]
    for this in race.rounds:
        own = {*field} - ({"nginx-return"} if this.column else set())
        assert {launch.contender for launch in this.launches} == {block.contender for block in this.blocks} == own
    assert [this.index for this in race.rounds] == list(range(len(race.rounds)))
    assert re.search(r"nginx-return .*not served", text)
    assert {pair["column"] for pair in told["pairs"]} == {"hello", "multiply"}
    assert told["columns"][1]["absent"] == ["nginx-return"]
    request = request_of(race)
    assert [one.name for one in request.workloads] == ["hello", "multiply"]
    assert (request.rounds, request.seed) == (2, race.seed)


@pytest.mark.timeout(400)
@pytest.mark.soak
def test_a_race_says_where_two_servers_change_places(tmp_path: Path) -> None:
    """Each of two planted servers computes for 0.5 ms at one workload, which CPU per request shows on any machine; the
    third workload has several requests on their way.
    """
    planted = f"{races.PYTHON} {races.HERE}/servers/workloads.py {{port}} {{data}}"
    serve = [word for what in ("hello", "json") for word in ("--serve", f"{what}-slow={planted} slow-{what}")]
    words = ("race", *serve, "--workload", "hello,json,pipelined", "-c", "4", "--metric", "cpu", "--rounds", "10")
    race, told, text = finished(tmp_path, commands.dragstrip(*words, *to(tmp_path)))
    leaders = {column["name"]: column["groups"][0] for column in told["columns"]}
    assert leaders == {"hello": ["json-slow"], "json": ["hello-slow"], "pipelined": ["json-slow"]}
    assert {"first": "json-slow", "second": "hello-slow", "ahead": "hello", "behind": "json"} in told["changes"]
    assert "The order changes: json-slow is ahead of hello-slow at hello and behind at json" in " ".join(text.split())
    assert [column.load.pipelining for column in race.columns] == [1, 1, 16]
    assert [column["pipelining"] for column in told["columns"]] == [1, 1, 16]
    assert race.load.pipelining == 1


@pytest.mark.timeout(240)
@pytest.mark.thorough
def test_efficiency_offers_two_rates_and_compares_cpu_at_each(tmp_path: Path) -> None:
    """A tenth and half of what the slowest serves; every block of a column is offered that column's rate."""
    words = ("race", "nginx-lua", "tornado", "--efficiency", "--rounds", "2", *to(tmp_path))
    race, told, text = finished(tmp_path, commands.dragstrip(*words))
    low, half = (column.load.rate_per_s for column in race.columns)
    assert 4 * low < half < 6 * low
    assert (race.plan.metric, race.load.rate_per_s) == ("cpu", 0.0)
    for this in race.rounds:
        column = race.columns[this.column]
        for block in this.blocks:
            assert block.offered == pytest.approx(block.counted_ns * column.load.rate_per_s / 1e9, rel=0.1, abs=3)
    assert {column["metric"] for column in told["columns"]} == {"cpu"}
    assert "their mean means nothing" in " ".join(text.split())
    assert request_of(race).offered == {"hello": (low, half)}
    # Tornado takes several times nginx's CPU time at any rate: a verdict for both.
    for column in told["columns"]:
        pairs = {pair["verdict"] for pair in told["pairs"] if pair["column"] == column["name"]}
        assert pairs
        assert column["headline"], column
