"""Causes: extra launches of real servers show what was planted, and leave the race as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from races import HERE, PYTHON, SCHEMA, assert_nothing_left, begun, dragstrip_run, settings

from dragstrip.store.database import Store

pytestmark = [pytest.mark.timeout(600), pytest.mark.thorough]


def costly(name: str, more: str = "") -> list[str]:
    """The words that add a server with this extra work."""
    return ["--serve", f"{name}={PYTHON} {HERE}/servers/costly.py {{port}} {more}"]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No process, folder or cgroup outlives a test."""
    begun.clear()
    yield
    assert_nothing_left()


def row(why: Any, counter: str) -> dict[str, Any]:
    """A counter's cells by contender."""
    (found,) = [row for row in why["counters"] if row["counter"] == counter]
    return {cell["name"]: cell for cell in found["contenders"]}


def assert_stacks(why: Any) -> None:
    """Layers add up to the CPU time within 2 %; or the kernel refused to sample, which the launches say."""
    sampled = [entry["rooted_share"] for entry in why["contenders"]]
    if None in sampled:
        assert not why["layers"]
        return
    assert min(sampled) > 0.95
    for at, entry in enumerate(why["contenders"]):
        whole = row(why, "cpu_ns")[entry["name"]]["estimate"]
        layers = sum(layer["contenders"][at]["estimate"] for layer in why["layers"])
        assert layers == pytest.approx(whole, rel=0.02)


def test_a_planted_system_call_is_found_and_the_race_stays_as_it_was(tmp_path: Path) -> None:
    """One write more per response, to a tenth; the page has it; a second call has nothing to do."""
    env = settings(tmp_path)
    raced = dragstrip_run(
        env, "race", *costly("plain"), *costly("writes", "write"), "--rounds", "2", "--seed", "5", "-q"
    )
    assert raced.returncode == 0, raced.stderr
    with Store(tmp_path / "races.sqlite") as store:
        before = store.load("last")
    page = tmp_path / "why.html"
    done = dragstrip_run(env, "why", "last", "--launches", "4", "--budget", "4m", "--json", "-", "--html", str(page))
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(made)
    why = made["columns"][0]["why"]
    assert {entry["name"]: entry["launches"] for entry in why["contenders"]} == {"plain": 4, "writes": 4}
    first, second = (entry["name"] for entry in why["contenders"])
    difference = row(why, "writes")[second]["difference"]
    assert difference["significant"]
    assert abs(difference["estimate"]) == pytest.approx(1.0, abs=0.1)
    assert (difference["estimate"] > 0) == ((first, second) == ("plain", "writes"))
    assert row(why, "segments")["plain"]["estimate"] == pytest.approx(1.0, abs=0.01)
    assert row(why, "received_bytes")["plain"]["estimate"] == pytest.approx(76, abs=1)
    assert_stacks(why)
    assert "what a response costs" in page.read_text()
    with Store(tmp_path / "races.sqlite") as store:
        after = store.load("last")
    assert replace(after, profiles=(), events=before.events) == before
    again = dragstrip_run(env, "why", "last", "--launches", "4")
    assert "launching" not in again.stdout + again.stderr
    assert "write calls, at least" in again.stdout


def test_a_race_asks_why_itself(tmp_path: Path) -> None:
    """``race --why`` adds the launches after its rounds; a server that was already running has none."""
    env = settings(tmp_path)
    words = [*costly("plain"), *costly("spins", "spin"), "--rounds", "2", "-q", "--why", "--json", "-"]
    done = dragstrip_run(env, "race", *words)
    assert done.returncode == 0, done.stderr
    why = json.loads(done.stdout)["columns"][0]["why"]
    assert [entry["name"] for entry in why["contenders"]] == ["plain", "spins"]
    assert all(entry["launches"] >= 1 for entry in why["contenders"])
    with Store(tmp_path / "races.sqlite") as store:
        race = store.load("last")
    assert min(profile.started_ns for profile in race.profiles) > max(round_.ended_ns for round_ in race.rounds)
