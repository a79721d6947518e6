"""Loads in the store: kept once, found by their ids, next to races, and never taken for one."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import samples
from commands import dragstrip

from dragstrip.errors import StoreError
from dragstrip.record import LoadVerdict
from dragstrip.store.database import Store
from dragstrip.store.loads import StoredLoad

OLD, NEW = "0a0000000001", "0a0000000002"


def stored(id_: str, started: str, verdict: LoadVerdict = LoadVerdict.OK) -> StoredLoad:
    result = {"method": "POST", "rate_per_s": 12.5, "latency_us": {"p99": None}}
    return StoredLoad(id=id_, started=started, url="http://127.0.0.1/?token=***", verdict=verdict, result=result)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a load, a race, and a later load."""
    path = tmp_path / "races.sqlite"
    with Store(path) as store:
        store.keep_load(stored(OLD, "2026-01-01T00:00:00+00:00"))
        store.begin(samples.race(rounds=1))  # of 2 January
        store.keep_load(stored(NEW, "2026-01-03T00:00:00+00:00", LoadVerdict.MISSED))
    return path


def test_a_load_comes_back_as_it_was_by_its_id_or_the_beginning_of_one(path: Path) -> None:
    with Store(path, write=False) as store:
        assert store.stored_load(NEW) == stored(NEW, "2026-01-03T00:00:00+00:00", LoadVerdict.MISSED)
        assert store.stored_load(OLD) == stored(OLD, "2026-01-01T00:00:00+00:00")
        with pytest.raises(StoreError, match=rf"'0a' is ambiguous: {NEW}, {OLD}; give more digits"):
            store.stored_load("0a")
        with pytest.raises(StoreError, match=r"'0' is ambiguous: .*, 000000000007; give more digits"):
            store.stored_load("0")
        assert store.stored_load("00") is store.stored_load("ff") is store.stored_load("") is None
        assert [(line.load, line.verdict, line.rate_per_s, line.p99_us) for line in store.load_lines()] == [
            (NEW, "missed", 12.5, None),
            (OLD, "ok", 12.5, None),
        ]


def test_last_is_a_load_if_nothing_newer_is_stored(path: Path) -> None:
    with Store(path) as store:
        newest = store.stored_load("last")
        assert newest is not None
        assert newest.id == NEW
        assert store.load("last").id == "000000000007"
        store.begin(samples.race(seed=9, rounds=1, started="2026-01-04T00:00:00+00:00"))
        assert store.stored_load("last") is None


def test_a_load_is_kept_once_and_refused_where_a_race_is_needed(path: Path) -> None:
    with Store(path) as store:
        with pytest.raises(StoreError, match=r"UNIQUE constraint failed: load\.id"):
            store.keep_load(stored(OLD, "2026-01-05T00:00:00+00:00"))
        with pytest.raises(StoreError, match=rf"{OLD} is a load, not a race"):
            store.load(OLD)
    for words in (["compare", OLD, "last"], ["report", OLD, "--json", "-"], ["why", OLD]):
        done = dragstrip(*words, "--store", str(path))
        assert done.returncode != 0
        assert f"{OLD} is a load, not a race" in " ".join(done.stderr.split())


def test_a_damaged_load_is_refused_by_its_id_and_the_rest_is_listed(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("DROP TRIGGER load_update")
        db.execute("UPDATE load SET result = ? WHERE id = ?", (json.dumps({"url": 3, "rate_per_s": "many"}), OLD))
    done = dragstrip("show", OLD, "--store", str(path))
    assert done.returncode == 2
    assert f"load {OLD} can't be read: url is 3, expected text" in " ".join(done.stderr.split())
    listed = json.loads(dragstrip("runs", "--json", "--store", str(path)).stdout)
    assert [line.get("load", line.get("race")) for line in listed] == [NEW, "000000000007", OLD]


def test_runs_lists_loads_as_loads_beside_races(path: Path) -> None:
    done = dragstrip("runs", "--store", str(path), env={"COLUMNS": "160"})
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] == "run"
    ids = [line.split()[0] for line in lines[1:] if not line.startswith(" ")]
    assert ids == [NEW, "000000000007", OLD]
    assert "load: 12.50/s, p99 – (missed)" in lines[1]
    assert "POST http://127.0.0.1/?token=***" in lines[1]
    assert sum("(missed)" in line for line in lines) == 1


def test_a_store_of_loads_alone_has_no_race(tmp_path: Path) -> None:
    path = tmp_path / "loads.sqlite"
    with Store(path) as store:
        store.keep_load(stored(OLD, "2026-01-01T00:00:00+00:00"))
        with pytest.raises(StoreError, match=r"has loads, but no race"):
            store.load("last")


@pytest.mark.parametrize(("command", "found"), [("show", {OLD, NEW}), ("why", set[str]())])
@pytest.mark.thorough
def test_the_shell_completes_loads_for_the_commands_that_accept_them(path: Path, command: str, found: set[str]) -> None:
    words = f"dragstrip {command} 0a"
    env = {"DRAGSTRIP_STORE": str(path), "_DRAGSTRIP_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-m", "dragstrip"], env={**os.environ, **env}, capture_output=True, text=True, timeout=60
    )
    assert {word.partition(",")[2] for word in done.stdout.split()} - {"0a"} == found, done.stderr
