"""`dragstrip diff` and `bisect` on a repository of small servers, really built and raced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import dragstrip, process
from repositories import PROJECT, Made, server

#: A commit that costs so much that any machine sees it.
SLOW = 3000


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Commits of a server; the third one made it slower."""
    monkeypatch.setenv("DRAGSTRIP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    made = Made(tmp_path / "repository")
    made.commit("first", server_py=server(), dragstrip_toml=PROJECT)
    made.commit("second", README_md="text")
    made.commit("third, slower", server_py=server(SLOW))
    made.commit("fourth", README_md="more text")
    monkeypatch.chdir(made.folder)
    return made


@pytest.mark.thorough
def test_the_working_tree_is_raced_against_the_default_branch(made: Made, tmp_path: Path) -> None:
    """In a process of its own, as a user does it; the reports name both commits, and the repository is as before.

    It is slower, so that one threshold is passed and another holds.
    """
    made.commit("fifth, as fast as before", server_py=server())
    made.git("checkout", "--quiet", "-b", "feature")
    made.write(server_py=server(SLOW), new_txt="not committed")
    before = made.state()
    outputs = {name: tmp_path / f"diff.{name}" for name in ("json", "md", "html")}
    done = process(
        "diff", "--rounds", "10", "--budget", "12s", "--a-a", "-q", "--fail-if", "slower:5%", "--fail-if", "faster:5%",
        "--json", str(outputs["json"]), "--export-markdown", str(outputs["md"]), "--html", str(outputs["html"]),
    )  # fmt: skip
    head = made.git("rev-parse", "HEAD")[:7]
    assert done.returncode == 1, done.stdout + done.stderr
    assert "fails slower:5%" in done.stdout
    assert "holds faster:5%" in done.stdout
    assert made.state() == before
    race = json.loads(outputs["json"].read_text())
    names = [entrant["name"] for entrant in race["contenders"]]
    assert names == [f"main ({head})", f"working tree ({head} + changes)", f"main ({head}) again"]
    (pair,) = (
        pair
        for pair in race["pairs"]
        if {pair["a"], pair["b"]} == set(names[:2]) and pair["metric"] == race["columns"][0]["metric"]
    )
    slower = pair["ratio"] if pair["b"] == names[1] else 1 / pair["ratio"]
    assert slower > 1.05
    assert "noise: main" in done.stdout
    text = outputs["md"].read_text()
    assert f"`{made.git('rev-parse', 'HEAD')[:12]}` fifth, as fast as before" in text
    assert "`slower:5%`" in text
    assert made.git("rev-parse", "HEAD")[:12] in outputs["html"].read_text()


@pytest.mark.thorough
def test_a_slower_commit_is_found(made: Made, tmp_path: Path) -> None:
    """Between a commit that costs nothing and another."""
    found = dragstrip("bisect", "HEAD~3", "HEAD", "-q", "--json", str(tmp_path / "search.json"))
    assert found.returncode == 0, found.stdout + found.stderr
    search = json.loads((tmp_path / "search.json").read_text())
    likeliest = max(search["commits"], key=lambda commit: commit["probability"])
    assert likeliest["subject"] == "third, slower"
    again = dragstrip("bisect", "HEAD~3", "HEAD", "-q")
    assert "continues an earlier search" in again.stdout
    assert "third, slower" in again.stdout


def test_revisions_that_differ_in_no_file_that_matters_are_not_raced(made: Made) -> None:
    made.write(dragstrip_toml='files = ["server.py"]\n' + PROJECT)
    done = dragstrip("diff", "HEAD~3", "HEAD~2")
    assert done.returncode == 0
    assert "differ in no file that matters" in done.stdout


@pytest.mark.thorough
def test_a_path_whose_response_changes_is_compared_by_its_status(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line says so; the race goes on, and so do the extra launches after it, here only a single one of each."""
    monkeypatch.setattr("dragstrip.profile.run.BUDGET_S", 0.01)
    made.commit("changing", server_py=server(content='b"%8d" % (time.monotonic_ns() % 10**8)'))
    made.commit("changing still", a_txt="1")
    done = dragstrip("diff", "HEAD~1", "HEAD", "--anyway", "--rounds", "2", "--budget", "5s", "--why")
    assert "/users/1: two responses differ, so only the status of responses is compared" in done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Extra launches after the race: 1 of " in " ".join(done.stdout.split())


def test_nothing_to_compare_is_refused(made: Made) -> None:
    done = dragstrip("diff")
    assert done.returncode == 2
    assert "nothing to compare: HEAD is main" in done.stderr
