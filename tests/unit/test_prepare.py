"""What a build needs is looked for first: one line has all that is missing; a half-made environment is made again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fresh import Page, outcomes_of, pasted, reasons_of

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "packaging" / "prepare.sh"
PROGRAMS = (
    "basename",
    "cat",
    "dash",
    "find",
    "git",
    "head",
    "ld",
    "mktemp",
    "readlink",
    "rm",
    "sed",
    "sh",
    "sort",
    "touch",
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A PATH of this machine's usual programs, with stand-ins for cargo, a C compiler and apt-get."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in PROGRAMS:
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    (folder / "python3").symlink_to(sys._base_executable)  # type: ignore[attr-defined]
    _program(folder, "cargo", "echo cargo 1.95.0")
    _program(folder, "cc", "exit 0")
    _program(folder, "apt-get", f'echo "$@" >> {tmp_path}/asked')
    _program(folder, "id", "echo 1000")
    return folder


def _program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def prepare(place: Path, python: str = "python3") -> subprocess.CompletedProcess[str]:
    words = [str(place / "sh"), str(SCRIPT), python, str(place.parent / "venv")]
    return subprocess.run(words, env={"PATH": str(place), "HOME": str(place.parent)}, capture_output=True, text=True)


def test_a_half_made_environment_is_made_again_and_a_whole_one_is_kept(place: Path) -> None:
    """What `python3 -m venv` leaves where ensurepip is missing: programs, and no pip."""
    folder = place.parent / "venv"
    subprocess.run([str(place / "python3"), "-m", "venv", "--without-pip", str(folder)], check=True)
    assert prepare(place).returncode == 0
    assert (
        subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "--version"], capture_output=True).returncode == 0
    )
    made = (folder / "prepared").stat().st_mtime_ns
    assert prepare(place).returncode == 0
    assert (folder / "prepared").stat().st_mtime_ns == made


@pytest.mark.thorough
def test_an_environment_whose_interpreter_went_away_is_made_again(place: Path) -> None:
    """As after an upgrade of the distribution."""
    assert prepare(place).returncode == 0
    python = place.parent / "venv" / "bin" / "python3"
    python.unlink()
    python.symlink_to("/nonexistent/python3")
    assert prepare(place).returncode == 0
    assert subprocess.run([str(python), "-c", "import pip"]).returncode == 0


def test_one_line_has_all_that_is_missing_and_one_command(place: Path) -> None:
    """Without a compiler and cargo; the command has what Debian's packages bring, and cargo's way is named."""
    _program(place, "cc", "exit 1")
    (place / "cargo").unlink()
    done = prepare(place)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "a C compiler with the C library's headers" in line
    assert "Rust's cargo 1.88 or later (see https://rustup.rs)" in line
    assert "sudo apt-get install -y --no-install-recommends gcc libc6-dev" in line
    assert pasted(done.stderr).endswith("gcc libc6-dev")
    assert not (place.parent / "venv").exists()


@pytest.mark.parametrize(("version", "old"), [("1.87.0", True), ("1.9.0", True), ("1.88.0", False), ("2.0.1", False)])
def test_a_cargo_that_is_too_old_is_named_with_its_version(place: Path, version: str, old: bool) -> None:
    (place.parent / "venv" / "bin").mkdir(parents=True)
    (place.parent / "venv" / "prepared").touch()
    _program(place.parent / "venv" / "bin", "python", "exit 0")
    _program(place, "cargo", f"echo cargo {version}")
    done = prepare(place)
    assert (done.returncode == 2) is old
    assert ("rustup update" in done.stderr) is old
    assert (f"this one is {version.rpartition('.')[0]}" in done.stderr) is old


def test_a_python_that_is_too_old_or_absent_is_named(place: Path) -> None:
    _program(place, "python3.9", "echo 3.9")
    assert "Python 3.11 or later (python3.9 is 3.9" in prepare(place, "python3.9").stderr
    assert "python3.99 (Python 3.11 or later)" in prepare(place, "python3.99").stderr


def test_root_is_shown_the_command_and_it_is_run(place: Path) -> None:
    """A stand-in for apt-get notes the call; what is missing afterwards is said."""
    _program(place, "cc", "exit 1")
    _program(place, "id", "echo 0")
    done = prepare(place)
    assert done.returncode == 2, "the stand-in installed nothing"
    assert "$ apt-get install -y --no-install-recommends gcc libc6-dev" in done.stderr
    assert "install -y --no-install-recommends gcc libc6-dev" in (place.parent / "asked").read_text()


def test_the_version_of_rust_is_the_workspaces() -> None:
    wanted = next(line for line in (ROOT / "Cargo.toml").read_text().splitlines() if line.startswith("rust-version"))
    assert f"rust={wanted.split(chr(34))[1]} " in SCRIPT.read_text()


def test_the_readme_has_the_commands_that_are_typed_in_fresh_roots() -> None:
    page = Page.of((ROOT / "README.md").read_text())
    assert page.typed == ("make race", "make test")
    assert page.before == "apt-get install git make python3"
    assert [line.split()[1:3] for line in page.wheel[1:]] == [["install", "nginx-return"], ["race", "nginx-return"]]


def test_outcomes_are_read_as_pytest_and_cargo_print_them() -> None:
    text = (
        "SKIPPED [2] tests/unit/a.py:3: no Go here\n"
        "= 3 failed, 812 passed, 4 skipped, 2 errors in 9.13s =\n12 passed, 1 skipped in 3.1s\n"
        "test result: ok. 7 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s\n"
    )
    assert outcomes_of(text) == {"failed": 3, "passed": 831, "skipped": 5, "error": 2}
    assert reasons_of(text) == {"no Go here": 2}


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("debootstrap") is None, reason="fresh roots need root and debootstrap"
)
def test_an_unknown_root_is_refused_with_those_that_are_known() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "fresh.py"), "--only", "sid-root"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "--only sid-root: known are" in done.stderr
