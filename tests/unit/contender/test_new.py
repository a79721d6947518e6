"""A contender of one's own: what the docs and the skeleton say of the keys, and which names are refused."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dragstrip.commands.main import cli
from dragstrip.contender.fields import ContenderFile
from dragstrip.errors import BadUsage

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, which other users may look into, with a store and a cache of its own."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        monkeypatch.chdir(place)
        monkeypatch.setenv("DRAGSTRIP_STORE", f"{place}/races.sqlite")
        monkeypatch.setenv("DRAGSTRIP_CACHE", f"{place}/cache")
        yield Path(place)


def dragstrip(*words: str) -> Result:
    """The command line; refusals come out as exceptions."""
    return CliRunner().invoke(cli, words, catch_exceptions=False)


def test_the_pages_tables_are_what_the_models_say() -> None:
    """`make docs` has been run since a key changed."""
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "write_reference.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_every_key_has_a_description_and_stands_in_the_skeleton(folder: Path) -> None:
    """So that the available names can be learned without the source."""
    dragstrip("new", "my-server")
    text = (folder / "my-server" / "contender.toml").read_text()
    for name, field in ContenderFile.model_fields.items():
        assert field.description, name
        assert re.search(rf"^(# )?\[?{name}\b", text, re.MULTILINE), name


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("node", "a shipped contender"),
        ("My Server", "not a valid contender name"),
        ("../x", "not a valid contender name"),
        ("old", "already exists"),
    ],
)
def test_a_name_that_would_not_do_is_refused_and_nothing_is_made(folder: Path, name: str, refusal: str) -> None:
    """With what would do."""
    (folder / "old").mkdir()
    with pytest.raises(BadUsage, match=refusal):
        dragstrip("new", name)
    assert [place.name for place in folder.iterdir()] == ["old"]
