"""What `dragstrip init` reads out of a repository's own files."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
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
            "node app.js",
        ),
        ({"package.json": '{"scripts": {"start": "node src/app.js"}}'}, "", "npm start"),
        (
            {"package.json": '{"scripts": {"start": "x"}, "dependencies": {"a": "1"}}', "pnpm-lock.yaml": ""},
            "pnpm install --frozen-lockfile",
            "pnpm start",
        ),
        (
            {"go.mod": "module x\n", "main.go": 'package main\nvar p = os.Getenv("PORT")\n'},
            "go build -o .dragstrip-server .",
            "./.dragstrip-server",
        ),
        (
            {"Cargo.toml": '[package]\nname = "mine"\n', "src/main.rs": 'std::env::var("PORT")'},
            "cargo build --release",
            "./target/release/mine",
        ),
        (
            {"go.mod": "module x\n", "main.go": "package main\n", "Procfile": "web: bin/x -p $PORT\nclock: y\n"},
            "go build -o .dragstrip-server .",
            "./.dragstrip-server -p $PORT",
        ),
        (
            {"pyproject.toml": "", "Procfile": "release: a\nweb: gunicorn app:app --bind :$PORT\n"},
            "python3 -m venv .dragstrip-venv && .dragstrip-venv/bin/pip install --quiet .",
            ".dragstrip-venv/bin/gunicorn app:app --bind :$PORT",
        ),
        (
            {"pyproject.toml": "", "src/mine/__main__.py": 'os.environ["PORT"]'},
            "python3 -m venv .dragstrip-venv && .dragstrip-venv/bin/pip install --quiet .",
            ".dragstrip-venv/bin/python -m mine",
        ),
        (
            {"requirements.txt": "flask\n", "Dockerfile": 'FROM x\nCMD ["flask", "run"]\n'},
            "python3 -m venv .dragstrip-venv && .dragstrip-venv/bin/pip install --quiet -r requirements.txt",
            ".dragstrip-venv/bin/flask run",
        ),
        (
            {"requirements.txt": "flask\n", "app.py": ""},
            "python3 -m venv .dragstrip-venv && .dragstrip-venv/bin/pip install --quiet -r requirements.txt",
            ".dragstrip-venv/bin/python app.py --port {port}",
        ),
        ({"Procfile": "web: bundle exec puma\n"}, "", "bundle exec puma"),
        (
            {"pyproject.toml": '[project.scripts]\nmine = "mine:main"\n'},
            "python3 -m venv .dragstrip-venv && .dragstrip-venv/bin/pip install --quiet .",
            ".dragstrip-venv/bin/mine --port {port}",
        ),
        ({"Makefile": "all: server\nbuild:\n\tcc\n"}, "make build", ""),
        ({"Dockerfile": 'FROM x\nENTRYPOINT ["./server"]\nCMD ["--port", "8080"]\n'}, "", "./server --port 8080"),
        ({"Dockerfile": "FROM a\nCMD x\nFROM b\nCMD node \\\n  server.js\n"}, "", "node server.js"),
        ({"Dockerfile": 'FROM a\nENTRYPOINT exec ./server $X\nCMD ["ignored"]\n'}, "", "exec ./server $X"),
        ({"Dockerfile": 'FROM a\nENTRYPOINT ["tini"]\nCMD node server.js\n'}, "", ""),
        ({"Dockerfile": 'FROM a\nCMD ["sh", "-c", "node $X"]\n'}, "", "sh -c 'node $X'"),
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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("app.js", "app.listen(process.env.PORT || 3000)"),
        ("app.ts", 'const port = process.env["PORT"] ?? 3000'),
        ("app.mjs", "const { HOST, PORT = 3000 } = process.env"),
        ("deno.ts", 'Deno.env.get("PORT")'),
        ("cmd/main.go", 'os.Getenv("PORT")'),
        ("main.go", 'port, ok := os.LookupEnv("PORT")'),
        ("app.py", 'os.environ["PORT"]'),
        ("app.py", "os.environ.get('PORT', 8000)"),
        ("app.py", 'os.getenv("PORT")'),
        ("src/main.rs", 'env::var("PORT")'),
        ("src/main.rs", 'std::env::var_os("PORT")'),
        ("config.ru", "ENV['PORT']"),
        ("app.rb", 'ENV.fetch("PORT", 3000)'),
        ("src/Main.java", 'System.getenv("PORT")'),
        ("src/Main.kt", 'System.getenv().get("PORT")'),
        ("src/main/resources/application.properties", "server.port=${PORT:8080}"),
        ("application.yml", "port: ${PORT}"),
        ("index.php", "getenv('PORT')"),
        ("index.php", "$_SERVER['PORT']"),
        ("Program.cs", 'Environment.GetEnvironmentVariable("PORT")'),
        ("config/runtime.exs", 'System.get_env("PORT")'),
        ("start.sh", "exec ./server -p $PORT"),
    ],
)
def test_a_source_that_reads_port_is_found(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "Makefile").write_text("all:\n")
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    assert drafts.draft(tmp_path).reads_port == name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("app.js", "const PORT = 3000; console.log(`at ${PORT}`)"),
        ("app.js", "process.env.PORTAL"),
        ("app.py", 'os.environ["DB_PORT"]'),
        ("node_modules/a/index.js", "process.env.PORT"),
        ("tests/app.py", 'os.environ["PORT"]'),
        ("main_test.go", 'os.Getenv("PORT")'),
        ("README.md", "process.env.PORT"),
    ],
)
def test_what_does_not_read_port_is_not_found(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "Makefile").write_text("all:\n")
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    assert not drafts.draft(tmp_path).reads_port


def test_on_a_terminal_it_asks_for_the_commands_and_the_path(tmp_path: Path) -> None:
    """A path that no request can have is asked for again; what reads PORT is named, also in the file."""
    made = Made(tmp_path / "repository")
    made.commit("first", app_js="listen(process.env.PORT)\n", package_json='{"scripts": {"start": "node app.js"}}')
    ours, theirs = pty.openpty()
    os.write(ours, b"\n\nusers\n/users/1?x=2\n")
    done = subprocess.run(
        [sys.executable, "-m", "dragstrip", "init"], cwd=made.folder, stdin=theirs, capture_output=True, text=True
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0, done.stderr
    assert "app.js reads PORT" in done.stdout
    assert "'users' does not begin with /; use /users" in done.stdout + done.stderr
    asked = project.load(None, made.folder).fields
    assert (asked.build, asked.serve.command, asked.race.workloads) == (None, "npm start", ("/users/1?x=2",))
    assert "# app.js reads PORT" in (made.folder / "dragstrip.toml").read_text()


def test_the_file_that_is_written_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGSTRIP_CACHE", str(tmp_path / "cache"))
    made = Made(tmp_path / "repository")
    made.commit("first", go_mod="module x\n", main_go="package main\n")
    monkeypatch.chdir(made.folder)
    done = dragstrip("init", "--yes", "--path", "/users/1", "--path", "/b")
    assert done.returncode == 0, done.stderr
    asked = project.load(None, made.folder)
    assert asked.fields.build is not None
    assert asked.fields.build.command == "go build -o .dragstrip-server ."
    assert asked.fields.race.workloads == ("/users/1", "/b")
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
    pathless = dragstrip("init", "--yes", "--serve", "./server {port}", "--path", "users")
    assert (pathless.returncode, "use /users" in pathless.stderr) == (2, True)
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
        ("Cargo.toml", "a." * 100_000 + "b = 1\n"),
        ("pyproject.toml", "[" + "a." * 100_000 + "b]\n"),
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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Procfile", "web: a" + " " * 10**6 + "b"),
        ("Dockerfile", "\n" * 10**6),
        ("Dockerfile", "a\\\n" * 300_000),
        ("Dockerfile", "FROM a\nCMD a" + " " * 10**6 + "b"),
        ("app.js", "{" + "PORT " * 200_000),
        ("app.js", "environ" * 140_000),
        ("app.js", "env" + " " * 10**6),
        ("app.js", "{ PORT }" + " " * 10**6),
    ],
    ids=range(8),
)
def test_a_file_of_one_long_line_takes_no_minutes(tmp_path: Path, name: str, text: str) -> None:
    """A pattern that tries every split of it would not end within the test's time limit."""
    (tmp_path / "Makefile").write_text("all:\n")
    (tmp_path / name).write_text(text)
    assert not drafts.draft(tmp_path).reads_port


def test_a_suggested_command_quotes_names_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module x\n")
    (tmp_path / "a; rm -rf x").mkdir()
    (tmp_path / "a; rm -rf x" / "main.go").write_text("package main\n")
    assert drafts.draft(tmp_path).build == "go build -o .dragstrip-server './a; rm -rf x'"
