"""What `dragstrip init` reads out of a repository's own files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands import dragstrip
from repositories import Made

from dragstrip.revision import draft as drafts
from dragstrip.revision import project


@pytest.mark.parametrize(
    ("files", "build", "serve"),
    [
        (
            {"Cargo.toml": '[package]\nname = "mine"\n', "Cargo.lock": ""},
            "cargo build --release --locked",
            "./target/release/mine --port {port}",
        ),
        (
            {"go.mod": "module x\n", "main.go": "package main\n"},
            "go build -o .dragstrip-server .",
            "./.dragstrip-server -port {port}",
        ),
        (
            {"go.mod": "module x\n", "cmd/api/main.go": "package main\n"},
            "go build -o .dragstrip-server ./cmd/api",
            "./.dragstrip-server -port {port}",
        ),
        (
            {
                "package.json": '{"main": "app.js", "dependencies": {"a": "1"}, "scripts": {"build": "tsc"}}',
                "package-lock.json": "{}",
            },
            "npm ci && npm run build",
            "env PORT={port} node app.js",
        ),
        ({"package.json": '{"scripts": {"start": "node src/app.js"}}'}, "", "env PORT={port} node src/app.js"),
        (
            {"pyproject.toml": '[project.scripts]\nmine = "mine:main"\n'},
            "python3 -m venv .dragstrip-venv && .dragstrip-venv/bin/pip install --quiet .",
            ".dragstrip-venv/bin/mine --port {port}",
        ),
        ({"Makefile": "all: server\nbuild:\n\tcc\n"}, "make build", ""),
        ({"Dockerfile": 'FROM x\nENTRYPOINT ["./server"]\nCMD ["--port", "8080"]\n'}, "", "./server --port 8080"),
        ({"package.json": "{"}, "", ""),
        ({}, "", ""),
    ],
)
def test_files_suggest_commands(tmp_path: Path, files: dict[str, str], build: str, serve: str) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = drafts.draft(tmp_path)
    assert (found.build, found.serve) == (build, serve)


def test_the_file_that_is_written_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGSTRIP_CACHE", str(tmp_path / "cache"))
    made = Made(tmp_path / "repository")
    made.commit("first", go_mod="module x\n", main_go="package main\n")
    monkeypatch.chdir(made.folder)
    done = dragstrip("init", "--yes", "--workload", "/users/1")
    assert done.returncode == 0, done.stderr
    asked = project.load(None, made.folder)
    assert asked.fields.build is not None
    assert asked.fields.build.command == "go build -o .dragstrip-server ."
    assert asked.fields.race.workloads == ("/users/1",)
    assert asked.fields.race.fail_if == ("slower:3%",)
    again = dragstrip("init", "--yes")
    assert again.returncode == 2
    assert "already exists" in again.stderr


def test_without_a_start_command_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGSTRIP_CACHE", str(tmp_path / "cache"))
    made = Made(tmp_path / "repository")
    made.commit("first", a_txt="1")
    monkeypatch.chdir(made.folder)
    done = dragstrip("init", "--yes")
    assert (done.returncode, "--serve" in done.stderr) == (2, True)
    refused = dragstrip("init", "--yes", "--serve", "./server {port}", "--fail-if", "slower")
    assert refused.returncode == 2
    assert "fail_if" in refused.stderr
    assert not (made.folder / "dragstrip.toml").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("Cargo.toml", "package = 3\nbin = 4\n"),
        ("Cargo.toml", "bin = [[1], 2]\n"),
        ("package.json", "[]"),
        ("package.json", "[" * 100_000),
        ("pyproject.toml", "project = [1]\n"),
        ("pyproject.toml", "[project]\nscripts = 7\n"),
        ("Makefile", "\udc80"),
        ("Dockerfile", 'CMD [["a"]\n'),
    ],
)
def test_a_malformed_file_suggests_nothing(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    assert drafts.draft(tmp_path) == drafts.Draft(found="")


@pytest.mark.parametrize("name", ["Cargo.toml", "package.json", "pyproject.toml", "Makefile", "Dockerfile", "a.go"])
@pytest.mark.parametrize("kind", ["device", "fifo", "outside", "long"])
def test_what_is_no_short_regular_file_of_the_repository_is_not_read(tmp_path: Path, name: str, kind: str) -> None:
    """A committed link to /dev/zero took all memory, a FIFO hung."""
    folder, file = tmp_path / "mine", tmp_path / "mine" / name
    folder.mkdir()
    (tmp_path / "secret").write_text("package main\nall:\n")
    if name == "a.go":
        (folder / "go.mod").write_text("module x\n")
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "long":
        file.write_bytes(b"x" * (drafts.MAX_BYTES + 1))
    else:
        file.symlink_to("/dev/zero" if kind == "device" else tmp_path / "secret")
    found = drafts.draft(folder)
    assert (found.found, found.build) == (("go.mod", "go build -o .dragstrip-server .") if name == "a.go" else ("", ""))


def test_a_suggested_command_quotes_names_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module x\n")
    (tmp_path / "a; rm -rf x").mkdir()
    (tmp_path / "a; rm -rf x" / "main.go").write_text("package main\n")
    assert drafts.draft(tmp_path).build == "go build -o .dragstrip-server './a; rm -rf x'"
