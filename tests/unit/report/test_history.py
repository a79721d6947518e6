"""A history out of stored races: its series, what it shows on the terminal, as JSON and as a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import samples
from commands import dragstrip

from dragstrip.analysis.history import collect
from dragstrip.record import EventKind, Race
from dragstrip.store.database import Store

RACES = 14


def _race(number: int, speed: float, *, kernel: str = "Linux 6.1.0", commit: str = "", version: str = "1") -> Race:
    """A race of `mine`, of this speed relative to `reference`; one a day."""
    race = samples.race({"mine": 30_000 * speed, "reference": 30_000}, seed=number + 1, rounds=12, noise=0.004)
    parameters: Mapping[str, Mapping[str, object]] = {
        "mine": {"commit": commit} if commit else {},
        "reference": {"commit": "f" * 40} if commit else {},
    }
    entrants = tuple(
        replace(entrant, version=version if entrant.name == "mine" else "1", parameters=parameters[entrant.name])
        for entrant in race.entrants
    )
    events = (samples.noted(EventKind.REVISIONS, subject="server", names=("f" * 40, commit)),) if commit else ()
    race = samples.changed(race, entrants=entrants, events=events)
    return replace(
        race, started=f"2026-01-{number + 1:02}T03:04:05+00:00", machine=replace(race.machine, kernel=kernel)
    )


def _stored(path: Path, races: list[Race]) -> Path:
    with Store(path) as store:
        for race in races:
            store.begin(race)
    return path


def test_a_series_has_a_point_for_each_race_with_the_same_reference() -> None:
    races = [_race(number, 1.2) for number in range(5)]
    other = samples.race({"mine": 30_000, "another": 20_000}, seed=99)
    (series,) = collect([*races, other], subject="mine")
    assert (series.reference, len(series.points)) == ("reference", 5)
    assert all(point.low < 1.2 < point.high for point in series.points)
    assert [point.started for point in series.points] == sorted(point.started for point in series.points)


def test_a_reference_of_another_version_is_another_reference() -> None:
    races = [_race(number, 1.0) for number in range(4)]
    races[3] = samples.changed(races[3], entrants=tuple(replace(entrant, version="2") for entrant in races[3].entrants))
    (series,) = collect(races, subject="mine")
    assert len(series.points) == 3


def test_revisions_of_a_repository_are_one_server() -> None:
    """Raced against one base, whatever each was called; the range of a change is that of commits."""
    races = [_race(number, 1.0 if number < 7 else 0.95, commit=f"{number:040x}") for number in range(RACES)]
    (series,) = collect(races, subject="server")
    assert series.reference == "commit fffffff"
    assert [point.commit for point in series.points] == [f"{number:040x}" for number in range(RACES)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Races in which `mine` became 5 % slower with commit 7, on a kernel that changed at race 4."""
    races = [
        _race(
            number,
            1.0 if number < 9 else 0.95,
            commit=f"{number:040x}",
            kernel="Linux 6.1.0" if number < 3 else "Linux 6.2.0",
        )
        for number in range(RACES)
    ]
    return _stored(tmp_path / "races.sqlite", races)


def test_the_terminal_shows_the_change_with_its_commits_and_the_new_kernel(store: Path) -> None:
    done = dragstrip("history", "server", "--store", str(store))
    assert done.returncode == 0, done.stderr
    assert "slower: 1.0" in done.stdout
    assert f"commits {8:040x}"[:15] in done.stdout
    assert "kernel Linux 6.2.0" in done.stdout


def test_json_has_points_changes_and_what_else_changed(store: Path) -> None:
    done = dragstrip("history", "server", "--store", str(store), "--json", "-")
    (series,) = json.loads(done.stdout)["series"]
    (change,) = series["changes"]
    assert change["low"] < 0.95 < change["high"]
    assert (change["from_commit"], change["to_commit"]) == (f"{8:040x}", f"{9:040x}")
    assert [entry["changed"] for entry in series["environment_changes"]] == [["kernel"]]
    assert len(series["points"]) == RACES


def test_the_page_is_whole_and_harmless(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "history.html"
    assert dragstrip("history", "--store", str(store), "--html", str(page)).returncode == 0
    text = page.read_text()
    assert "<svg" in text
    assert "commits 0000000..0000000" in text
    assert "http" not in text.replace("http://www.w3.org/", "")


def test_without_two_races_of_one_reference_there_is_no_history(tmp_path: Path) -> None:
    done = dragstrip("history", "mine", "--store", str(_stored(tmp_path / "races.sqlite", [_race(0, 1.0)])))
    assert done.returncode == 2
    assert "no history of mine: it takes two races" in done.stderr
