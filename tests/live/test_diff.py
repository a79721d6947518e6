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
    assert names == [f"main ({head})", f"feature ({head} + changes)", f"main ({head}) again"]
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


@pytest.mark.thorough
@pytest.mark.timeout(580)
def test_a_slower_commit_is_found_by_a_request_as_typed(made: Made, tmp_path: Path) -> None:
    """Its search is continued by the same request alone; a commit that changes the response is named as the reason."""
    request = ["--path", "/orders", "-b", '{"item":"tea"}', "-T", "application/json"]
    request += ["-H", "Authorization: Bearer sesame-7f3a"]
    options = ["-c", "4", "-q"]
    found = dragstrip("bisect", "HEAD~2", "HEAD", *request, *options)
    assert ": third, slower" in found.stdout, found.stdout + found.stderr
    assert " at POST /orders; " in found.stdout
    again = dragstrip("bisect", "HEAD~2", "HEAD", *request, *options)
    assert "continues an earlier search" in again.stdout
    made.commit("fifth, another response", server_py=server(SLOW, content='b"87654321"'))
    changed = dragstrip("bisect", "HEAD~1", "HEAD", *request, *options)
    assert changed.returncode == 3
    assert "BAD can't be compared with GOOD: it is out of race" in changed.stdout
    assert "--check status" in changed.stdout
    less = dragstrip("bisect", "HEAD~1", "HEAD", *request, *options, "--check", "status", "--budget", "5s")
    assert "continues an earlier search" not in less.stdout
    assert "step 1: " in less.stdout
    assert "out of race" not in less.stdout, less.stdout + less.stderr
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or b"sesame-7f3a" not in file.read_bytes(), file


def test_revisions_that_differ_in_no_file_that_matters_are_not_raced(made: Made) -> None:
    made.write(dragstrip_toml='files = ["server.py"]\n' + PROJECT)
    done = dragstrip("diff", "HEAD~3", "HEAD~2")
    assert done.returncode == 0
    assert "differ in no file that matters" in done.stdout


@pytest.mark.thorough
def test_a_path_whose_response_changes_is_compared_by_its_length(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line says so; the race goes on, and so do the extra launches after it, here only a single one of each."""
    monkeypatch.setattr("dragstrip.why.run.BUDGET_S", 0.01)
    made.commit("changing", server_py=server(content='b"%8d" % (time.monotonic_ns() % 10**8)'))
    made.commit("changing still", a_txt="1")
    done = dragstrip("diff", "HEAD~1", "HEAD", "--anyway", "--rounds", "2", "--budget", "5s", "--why")
    assert "GET /users/1 → 200, learned from" in done.stderr
    assert "compared: the status and the body's length" in done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Extra launches after the race: 1 of " in " ".join(done.stdout.split())


@pytest.mark.thorough
def test_a_change_of_the_response_is_out_unless_it_is_accepted(made: Made) -> None:
    """Then only what both revisions' responses have in common is compared, and a line says what that is."""
    made.commit("before", server_py=server(content='b"12345678"'))
    made.commit("after", server_py=server(content='b"87654321"'))
    words = ("diff", "HEAD~1", "HEAD", "--rounds", "2", "--budget", "5s", "--workload", "/users/1")
    refused = dragstrip(*words)
    assert "differs from the correct 8 bytes at byte 0" in " ".join(refused.stdout.split()), refused.stderr
    done = dragstrip(*words, "--accept-change")
    assert "compared: the status and the body's length" in done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is out" not in done.stdout


@pytest.mark.thorough
def test_a_race_of_revisions_at_a_path_goes_on_without_a_file(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is resumed, explained and raced again by its record, from another folder, by the command that is printed."""
    done = dragstrip("diff", "HEAD~1", "HEAD", "--anyway", "--path", "/users/7", "--budget", "1s", "-q", "-c", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    before = json.loads(dragstrip("show", "last", "--json").stdout)
    for words in (
        ("race", "--resume", "last", "--budget", "+1s"),
        ("why", "last", "--launches", "1"),
        ("rerun", "last"),
    ):
        again = dragstrip(*words, "-q")
        assert again.returncode == 0, (words, again.stdout + again.stderr)
    after = json.loads(dragstrip("show", "last", "--json").stdout)
    assert [one["name"] for one in after["contenders"]] == [one["name"] for one in before["contenders"]]
    assert [one["name"] for one in after["columns"]] == [one["name"] for one in before["columns"]]


def test_nothing_to_compare_is_refused(made: Made) -> None:
    """The project file is no change: it counts for both."""
    made.write(dragstrip_toml=PROJECT + "budget_s = 5\n")
    done = dragstrip("diff")
    assert done.returncode == 2
    assert "nothing to compare: HEAD is main" in done.stderr
