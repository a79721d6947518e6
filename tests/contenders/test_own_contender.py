"""A contender of one's own, as a stranger makes it: by the docs' worked example, from the skeleton, two revisions."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dragstrip.commands.main import cli

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "CONTENDERS.md"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
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


def test_the_worked_example_of_the_docs_is_installed_and_passes(here: Path) -> None:
    """A server from PyPI that Dragstrip doesn't know, by the files in docs/CONTENDERS.md and nothing else."""
    examples = re.findall(r"<!-- example:(\S+) -->\n```\w+\n(.*?)```\n", PAGE.read_text(), re.DOTALL)
    assert [name for name, _ in examples] == ["contender.toml", "app.py"]
    (here / "waitress").mkdir()
    for name, text in examples:
        (here / "waitress" / name).write_text(text)
    told = dragstrip("verify", "./waitress")
    assert ("missing" in told.stdout, told.exit_code) == (True, 2)
    assert dragstrip("install", "./waitress", "--yes").exit_code == 0
    told = dragstrip("verify", "./waitress", "--parity")
    assert told.exit_code == 0, told.stdout
    assert re.findall(r"^passed.*", told.stdout, re.MULTILINE) == [
        "passed   waitress at hello",
        "passed   waitress at multiply",
    ]
    assert "runs as: nobody" in told.stdout or os.geteuid() != 0


@pytest.mark.timeout(300)
def test_the_skeleton_races_at_once_beside_two_git_revisions_of_ones_own_server(here: Path) -> None:
    """`new`, then `race`: the skeleton as it is, and its server as it was committed and as it is checked out now."""
    dragstrip("new", "my-server")
    git = ["git", "-C", str(here / "my-server"), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "first"], check=True)
    subprocess.run([*git, "worktree", "add", "--quiet", str(here / "before"), "HEAD"], check=True)
    now = here / "my-server" / "server.py"
    now.write_text(now.read_text().replace("backlog=1024", "backlog=2048"))
    serve = [
        f"{sys.executable} -I {folder}/server.py {{port}} USER 'hello world' {{address}}"
        for folder in ("before", "my-server")
    ]
    told = dragstrip(
        "race",
        "./my-server",
        "--serve",
        f"old={serve[0]}",
        "--serve",
        f"new={serve[1]}",
        "--rounds",
        "2",
        "--json",
        "out.json",
    )
    (column,) = json.loads((here / "out.json").read_text())["columns"]
    assert {one["name"] for one in column["contenders"] if one["blocks"] > 0} == {
        "my-server",
        "old",
        "new",
    }, told.stdout
