"""Files of the current folder that interpreters and tools would load: none runs, whatever Dragstrip starts there."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dragstrip.contender import install
from dragstrip.contender.discovery import output_of
from dragstrip.paths import NOWHERE

#: Modules of Python that its own tools import, of Lua and of Node that contenders need.
PYTHON = ("json", "venv", "pip", "runpy", "socket", "ensurepip", "subprocess", "platform", "ctypes", "base64", "hmac")
LUA = ("socket", "dkjson", "copas", "wsapi", "luasql", "wsapi/fastcgi", "luasql/postgres")
#: Modules that are installed nowhere: Lua finds an installed one before one of the current folder.
NOT_INSTALLED = "planted"


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with such files, each of which leaves a mark in ``marks`` when it runs."""
    marks = tmp_path / "marks"
    folder = tmp_path / "here"
    for made in (marks, folder):
        made.mkdir()
    for name in PYTHON:
        (folder / f"{name}.py").write_text(f"open({str(marks / name)!r}, 'w')\nraise SystemExit(0)\n")
    for name in (*LUA, NOT_INSTALLED):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.lua").write_text(f"io.open('{marks}/{name.replace('/', '.')}', 'w'):close()\nreturn {{}}\n")
    package = folder / "node_modules" / "pg"
    package.mkdir(parents=True)
    (package / "index.js").write_text(f"require('fs').writeFileSync('{marks}/pg', '')\n")
    programs = folder / "toolchain" / "bin"
    programs.mkdir(parents=True)
    for program in ("cargo", "rustc", "python", "python3", "sh", "lua5.4", "node", "go", "ldd"):
        for place in (folder, programs):
            file = place / program
            file.write_text(f"#!/bin/sh\n: > {marks}/{program}\n")
            file.chmod(file.stat().st_mode | stat.S_IXUSR)
    (folder / "rust-toolchain.toml").write_text(f'[toolchain]\npath = "{folder}/toolchain"\n')
    (folder / "sitecustomize.py").write_text(f"open({str(marks / 'sitecustomize')!r}, 'w')\n")
    return folder


def run(planted: Path, tmp_path: Path, *words: str) -> None:
    """Runs a command there, as the console script does: the folder is not on Python's path."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "dragstrip", *words], cwd=planted, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, env={**os.environ, "XDG_DATA_HOME": str(tmp_path / "data")},
    )  # fmt: skip
    assert done.returncode in (0, 1, 2, 130), done.stderr  # 130: no user agrees to an installation
    assert sorted(mark.name for mark in (planted.parent / "marks").iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["contenders"],
        ["contenders", "--json"],
        ["contenders", "--workload", "db"],
        ["claims", "list"],
        ["workloads"],
        ["doctor", "--json"],
        ["install", "uvicorn", "node", "lua", "axum", "--workload", "db"],
        pytest.param(["verify", "lua", "--workload", "json"], marks=[pytest.mark.live, pytest.mark.thorough]),
        pytest.param(["verify", "node", "--workload", "db"], marks=[pytest.mark.live, pytest.mark.thorough]),
        ["verify", "--image", "mine=absent:1"],
    ],
    ids=lambda words: " ".join(words),
)
def test_no_command_runs_a_file_of_the_current_folder(planted: Path, tmp_path: Path, words: list[str]) -> None:
    """Commands that list, and those that check; installing is shown and not confirmed."""
    run(planted, tmp_path, *words)


def test_the_planted_files_would_run(planted: Path, tmp_path: Path) -> None:
    """Otherwise the tests here would show nothing: each interpreter of this machine takes them from where it runs."""
    marks = tmp_path / "marks"
    subprocess.run([sys.executable, "-m", "venv"], cwd=planted, check=False)
    assert {mark.name for mark in marks.iterdir()} & {"venv", "runpy", "sitecustomize"}
    if lua := shutil.which("lua5.4"):
        subprocess.run([lua, "-e", f"require('{NOT_INSTALLED}')"], cwd=planted, check=True)
        assert (marks / NOT_INSTALLED).exists()
    if node := shutil.which("node"):
        subprocess.run([node, "-e", "require('pg')"], cwd=planted, check=True)
        assert (marks / "pg").exists()


def test_programs_are_asked_where_only_root_leaves_files(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the current folder, nor in a temporary one, above which everyone may leave files."""
    monkeypatch.chdir(planted)
    about = NOWHERE.stat()
    assert (about.st_uid, about.st_mode & 0o022) == (0, 0)
    assert output_of(("/bin/sh", "-c", "pwd")).strip() == str(NOWHERE)
    assert list((tmp_path / "marks").iterdir()) == []


def test_installers_run_isolated_and_elsewhere(planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's `venv` is made while a `venv.py` is in the current folder."""
    monkeypatch.chdir(planted)
    monkeypatch.setenv("DRAGSTRIP_CACHE", str(tmp_path / "cache"))
    (first, second) = install._private_steps(("absent-package",), (), "one", root=False)
    assert first.command[1] == "-I"
    assert second.command[1] == "-P"
    install.carry_out(install.InstallPlan((first,)), lambda line: None)
    assert list((tmp_path / "marks").iterdir()) == []
    assert len(list((tmp_path / "cache").rglob("pyvenv.cfg"))) == 1
