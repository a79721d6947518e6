"""Commands that a file from elsewhere names: shown and asked for before any of them runs."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import samples
from commands import dragstrip

from dragstrip import machine
from dragstrip.record import Ending, Race
from dragstrip.store.database import Store

CLAIM = """\
statement = "swift is swift"
source = "a stranger"
year = 2024
kind = "direction"
contenders = ["swift", "slow"]
[serve]
swift = "touch marker {port}"
slow = "touch marker {port}"
"""


def run(folder: Path, *words: str, answer: str | None = None) -> tuple[int, str]:
    """A command in a folder: without a terminal, or in its own process with one on which a user answers."""
    env = {"DRAGSTRIP_STORE": str(folder / "own" / "races.sqlite"), "NO_COLOR": "1"}
    if answer is None:
        with contextlib.chdir(folder):
            without = dragstrip(*words, env=env)
        return without.returncode, without.stdout + without.stderr
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    command = [sys.executable, "-m", "dragstrip", *words]
    done = subprocess.run(
        command, env={**os.environ, **env}, cwd=folder, stdin=theirs, capture_output=True, text=True, check=False
    )
    os.close(ours)
    os.close(theirs)
    return done.returncode, done.stdout + done.stderr


def a_strangers(folder: Path, **changes: object) -> Path:
    """A file of a race that was cut off, whose contenders are commands that leave a marker."""
    race: Race = samples.race(rounds=2)
    command = {"command": "touch marker {port}", "folder": str(folder)}
    entrants = tuple(replace(entrant, kind="serve", parameters=command) for entrant in race.entrants)
    made = samples.changed(race, entrants=entrants, finished=Ending.NONE, machine=replace(machine.facts(), **changes))
    with Store(folder / "theirs.sqlite") as store:
        store.begin(made)
        store.export_race("last", folder / "theirs.race")
    return folder / "theirs.race"


def imported(folder: Path, **changes: object) -> str:
    file = a_strangers(folder, **changes)
    code, output = run(folder, "import", str(file))
    assert code == 0, output
    return output.split()[1]


@pytest.mark.parametrize("answer", [None, "n\n"], ids=["no terminal", "no"])
@pytest.mark.parametrize("way", ["a file", "a stored race", "--resume", "a claim"])
def test_nothing_runs_unasked(tmp_path: Path, way: str, answer: str | None) -> None:
    """The command is shown; without a terminal the exit code is 2 and the message names --yes."""
    if way == "a claim":
        (tmp_path / "stranger.toml").write_text(CLAIM)
        words = ["claims", "check", "stranger.toml"]
    elif way == "a file":
        words = ["rerun", str(a_strangers(tmp_path))]
    else:
        words = ["rerun", imported(tmp_path)] if way == "a stored race" else ["race", "--resume", imported(tmp_path)]
    code, output = run(tmp_path, *words, answer=answer)
    assert code == 2, output
    assert "touch marker '{port}'" in output
    assert "nothing was run" in output
    assert ("--yes" in output) == (answer is None)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("answer", [None, "y\n"], ids=["--yes", "yes"])
def test_it_runs_once_that_was_answered(tmp_path: Path, answer: str | None) -> None:
    """Neither serves anything, so the race ends with exit code 1; what was stored of it is our own race."""
    words = ["rerun", str(a_strangers(tmp_path)), *(["--yes"] if answer is None else [])]
    code, output = run(tmp_path, *words, answer=answer)
    assert (tmp_path / "marker").exists(), output
    assert code == 1, output


def test_a_race_of_another_machine_does_not_go_on_here(tmp_path: Path) -> None:
    """Both machines are named, and --yes does not help; the same holds for an own race that was copied here."""
    race = imported(tmp_path, cpu="Pentium MMX")
    code, output = run(tmp_path, "race", "--resume", race, "--yes")
    assert code == 2, output
    assert "Pentium MMX" in output
    assert str(machine.facts().cpu) in output
    assert not (tmp_path / "marker").exists()
    code, output = run(tmp_path, "race", "--resume", race, "--yes", "--store", str(tmp_path / "theirs.sqlite"))
    assert code == 2, output
    assert "ran on another machine" in output


def test_a_second_import_of_the_same_race_is_no_mistake(tmp_path: Path) -> None:
    """Exit code 0 and a word; 2 if it is another race of the same id."""
    race = imported(tmp_path)
    assert run(tmp_path, "import", "theirs.race") == (
        0,
        f"race {race} is in {tmp_path}/own/races.sqlite already; nothing was changed\n",
    )
    with Store(tmp_path / "own" / "races.sqlite") as store:
        store.append_round(race, replace(store.load(race).rounds[0], index=99, launches=(), blocks=()))
    code, output = run(tmp_path, "import", "theirs.race")
    assert code == 2
    assert "another race" in output


def test_ones_own_race_and_a_shipped_claim_are_not_asked_for(tmp_path: Path) -> None:
    """What a user made here is the user's; what is refused here is refused for another reason."""
    a_strangers(tmp_path)
    code, output = run(tmp_path, "rerun", "last", "--store", str(tmp_path / "theirs.sqlite"))
    assert "comes from elsewhere" not in output
    assert (tmp_path / "marker").exists()
    assert code == 1
