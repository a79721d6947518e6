"""Builds of revisions: once for each content, kept, bounded, and refused with their last lines."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from repositories import Made

from dragstrip.errors import BadDefinition, BadUsage, StageError
from dragstrip.revision import builds, difference, project
from dragstrip.revision.repository import Repository

BUILD = """\
files = ["source.txt"]

[build]
command = "{command}"
timeout_s = {timeout_s}

[serve]
command = "python3 server.py {{port}}"
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.setenv("DRAGSTRIP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    made = Made(tmp_path / "repository")
    made.commit("first", source_txt="1")
    return made


def _build(made: Made, command: str, word: str = "HEAD", *, timeout_s: float = 60.0) -> builds.RevisionBuild:
    made.write(dragstrip_toml=BUILD.format(command=command, timeout_s=timeout_s))
    repository = Repository(made.folder)
    asked = project.load(None, repository.top)
    with ExitStack() as resources:
        return builds.build(asked, repository, repository.revision(word), resources, lambda line: None)


COUNTED = "echo built >> $COUNT; cp source.txt built.txt; git describe --always > version.txt"


def test_a_commit_is_built_once_and_others_with_the_same_files_share_it(made: Made, tmp_path: Path) -> None:
    first = _build(made, COUNTED)
    made.commit("nothing that matters", other_txt="x")
    again = _build(made, COUNTED)
    made.commit("source", source_txt="2")
    other = _build(made, COUNTED)
    assert first.folder == again.folder != other.folder
    assert (tmp_path / "count").read_text().splitlines() == ["built"] * 2
    assert (other.folder / "built.txt").read_text() == "2"
    assert (first.folder / "version.txt").read_text().strip() == first.commit[
        : len((first.folder / "version.txt").read_text().strip())
    ]


def test_another_command_is_another_build(made: Made) -> None:
    assert _build(made, COUNTED).folder != _build(made, f"{COUNTED}; true").folder


def test_a_build_that_fails_is_refused_with_its_last_lines_and_tried_again(made: Made, tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"its build .* failed with status 3; its last lines:\n.*why it fails"):
        _build(made, "echo built >> $COUNT; echo why it fails; exit 3")
    with pytest.raises(StageError):
        _build(made, "echo built >> $COUNT; echo why it fails; exit 3")
    assert (tmp_path / "count").read_text().splitlines() == ["built"] * 2


def test_a_build_that_hangs_is_ended_with_all_that_it_started(made: Made, tmp_path: Path) -> None:
    """The time limit is longer than a shell takes to start on a busy machine."""
    with pytest.raises(StageError, match=r"did not end within 3 s"):
        _build(made, "sleep 600 & echo $! >> $COUNT; wait", timeout_s=3)
    sleeping = int((tmp_path / "count").read_text())
    until_s = time.monotonic() + 30  # the kernel ends it, but need not have done so yet
    while _runs(sleeping):
        assert time.monotonic() < until_s
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_builds_are_listed_and_the_oldest_removed(made: Made) -> None:
    repository = Repository(made.folder)
    for number in range(3):
        made.commit(f"number {number}", source_txt=str(number))
        _build(made, COUNTED)
    assert [made.subject for made in builds.kept(repository)] == ["number 2", "number 1", "number 0"]
    assert builds.remove_old(repository, 1) == 2
    assert [made.subject for made in builds.kept(repository)] == ["number 2"]


def test_a_build_in_use_is_not_removed(made: Made) -> None:
    made.write(dragstrip_toml=BUILD.format(command=COUNTED, timeout_s=60))
    repository = Repository(made.folder)
    asked = project.load(None, repository.top)
    with ExitStack() as resources:
        used = builds.build(asked, repository, repository.revision("HEAD"), resources, lambda line: None)
        assert builds.remove_old(repository, 0) == 0
        assert used.folder.is_dir()
    assert builds.remove_old(repository, 0) == 1
    assert not used.folder.exists()


def test_a_build_leaves_the_user_s_repository_as_it_was(made: Made) -> None:
    made.write(dragstrip_toml=BUILD.format(command=COUNTED, timeout_s=60))
    before = made.state()
    _build(made, COUNTED)
    builds.remove_old(Repository(made.folder), 0)
    assert made.state() == before


def test_without_a_project_file_the_way_to_one_is_named(made: Made) -> None:
    with pytest.raises(BadUsage, match=r"dragstrip\.toml does not exist; `dragstrip init`"):
        project.load(None, made.folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[serve]\ncommand = 'x {port}'\nfolder = '../x'\n", "serve.folder.*name a folder of the repository"),
        ("[serve]\ncommand = 'x {port}'\n[race]\nfail_if = ['slower']\n", "race.fail_if.*slower"),
        ("[serve]\ncommand = 'x {port}'\nfoldr = 'x'\n", "serve.foldr: unknown key.*folder"),
        ("[race]\n", "serve.*missing"),
    ],
)
def test_a_wrong_key_is_refused_with_its_place(made: Made, text: str, message: str) -> None:
    made.write(dragstrip_toml=text)
    with pytest.raises(BadDefinition, match=message):
        project.load(None, made.folder)


def test_a_start_command_with_an_unknown_name_is_refused_as_the_file_s(made: Made) -> None:
    made.write(dragstrip_toml="[serve]\ncommand = './server {prot}'\n")
    repository = Repository(made.folder)
    asked = project.load(None, repository.top)
    with (
        ExitStack() as resources,
        pytest.raises(BadDefinition, match=r"dragstrip\.toml:2: serve.command.*\{prot\}.*port"),
    ):
        difference.compare(asked, repository, [repository.revision("HEAD")] * 2, resources, say=lambda line: None)


def test_the_same_commit_twice_has_two_names(made: Made) -> None:
    made.write(dragstrip_toml="[serve]\ncommand = './server {port}'\n")
    repository = Repository(made.folder)
    asked = project.load(None, repository.top)
    head = repository.revision("HEAD")
    with ExitStack() as resources:
        compared = difference.compare(asked, repository, [head, head], resources, twice=True, say=lambda line: None)
    assert len({entry.name for entry in compared.entries}) == 3
    assert {entry.parameters["commit"] for entry in compared.entries} == {head.commit}
