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


def assert_calls(why: Any) -> None:
    """The planted write is counted to a thousandth, or to a tenth by tracing, if only that is allowed."""
    by_name = {(call["name"], call["traced"]): call["contenders"] for call in why["calls"]}
    if by_name:
        counted = ("write", False) in by_name
        cells = by_name["write", not counted]
        assert cells[1]["difference"]["significant"]
        assert abs(cells[1]["difference"]["estimate"]) == pytest.approx(1.0, abs=0.001 if counted else 0.1)


def test_a_planted_system_call_is_found_and_the_race_stays_as_it_was(tmp_path: Path) -> None:
    """One write more per response, to a tenth; the page has it; another call has nothing to do.

    ``race --why`` adds launches after its rounds, and ``why`` one more of each contender.
    """
    env = settings(tmp_path)
    words = [*costly("plain"), *costly("writes", "write"), "--rounds", "2", "--seed", "5", "-q", "--why", "--json", "-"]
    raced = dragstrip_run(env, "race", *words)
    assert raced.returncode == 0, raced.stderr
    launched = json.loads(raced.stdout)["columns"][0]["why"]["contenders"]
    assert {entry["name"] for entry in launched} == {"plain", "writes"}
    assert all(entry["launches"] >= 1 for entry in launched)
    with Store(tmp_path / "races.sqlite") as store:
        before = store.load("last")
    assert min(profile.started_ns for profile in before.profiles) > max(round_.ended_ns for round_ in before.rounds)
    most = max(4, *(entry["launches"] + 1 for entry in launched))
    more = ["--launches", str(most), "--budget", "4m"]
    page = tmp_path / "why.html"
    done = dragstrip_run(env, "why", "last", *more, "--json", "-", "--html", str(page))
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(made)
    why = made["columns"][0]["why"]
    assert {entry["name"]: entry["launches"] for entry in why["contenders"]} == {"plain": most, "writes": most}
    first, second = (entry["name"] for entry in why["contenders"])
    difference = row(why, "writes")[second]["difference"]
    assert difference["significant"]
    assert abs(difference["estimate"]) == pytest.approx(1.0, abs=0.1)
    assert (difference["estimate"] > 0) == ((first, second) == ("plain", "writes"))
    assert_calls(why)
    assert row(why, "segments")["plain"]["estimate"] == pytest.approx(1.0, abs=0.01)
    assert row(why, "received_bytes")["plain"]["estimate"] == pytest.approx(76, abs=1)
    assert_stacks(why)
    assert "what a response costs" in page.read_text()
    with Store(tmp_path / "races.sqlite") as store:
        after = store.load("last")
    assert after.profiles[: len(before.profiles)] == before.profiles
    assert replace(after, profiles=before.profiles, events=before.events) == before
    again = dragstrip_run(env, "why", "last", *more[:2])
    assert "launching" not in again.stdout + again.stderr
    assert "write calls, at least" in again.stdout
