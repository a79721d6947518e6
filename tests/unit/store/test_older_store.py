"""A store written by an older version opens, and its race reads as it did then.

``tests/stores/at-593c340.*`` are a store and ``race --json`` of commit 593c340 (store step 5, method 4): four rounds of
``nginx-return`` against a server called ``a: b``, on a machine so busy that by that method every round was void.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dragstrip.cli.main import cli

STORES = Path(__file__).resolve().parents[2] / "stores"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A copy of the old store, to be written to."""
    path = tmp_path / "races.sqlite"
    path.write_bytes(gzip.decompress((STORES / "at-593c340.sqlite.gz").read_bytes()))
    return path


def command(*words: str) -> str:
    """What a command that succeeds prints."""
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def differences(before: Any, after: Any, place: str = "") -> list[str]:
    """Where a value of before is missing or another now; what is new beside it is no difference."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            line for name, value in before.items() for line in differences(value, after.get(name), f"{place}.{name}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            line
            for at, pair in enumerate(zip(before, after, strict=True))
            for line in differences(*pair, f"{place}[{at}]")
        ]
    return [] if before == after else [f"{place}: {before!r} is now {after!r}"]


def test_its_race_is_judged_and_told_as_it_was(store: Path, tmp_path: Path) -> None:
    """Every field of the JSON of then, sentences included."""
    out = tmp_path / "race.json"
    command("report", "last", "--store", str(store), "--json", str(out))
    before = json.loads((STORES / "at-593c340.json").read_text())
    assert before["void_rounds"]  # the fixture holds what this is about
    assert before["events"]
    assert differences(before, json.loads(out.read_text())) == []


def test_it_is_listed_exported_and_taken_in_again(store: Path, tmp_path: Path) -> None:
    """An export of the old race is a race like any other."""
    race = json.loads((STORES / "at-593c340.json").read_text())["race"]
    assert race[:8] in command("runs", "--store", str(store))
    exported, other = tmp_path / "kept.race", tmp_path / "other.sqlite"
    command("export", "last", str(exported), "--store", str(store))
    command("import", str(exported), "--store", str(other))
    assert "a: b" in command("show", race, "--store", str(other))
