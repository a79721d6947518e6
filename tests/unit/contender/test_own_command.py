"""Commands as people write them: what needs a shell, what is environment, and what never enters a record."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import samples

from dragstrip.analysis import with_column
from dragstrip.commands import own_servers
from dragstrip.commands.request_options import say_unless
from dragstrip.contender import Entry, Start, entrants, entry_of, own_command, prepare, serve_entry, usual_workload
from dragstrip.errors import BadUsage, StageError
from dragstrip.racing.request import entries_of, refuse_missing_secrets
from dragstrip.record import SECRET, Entrant
from dragstrip.store import masking

#: A value that no record may have.
PASSWORD = "pa ss'word"


def given(serve: list[str], folders: list[str], variables: list[str]) -> SimpleNamespace:
    """The options of a command, as far as own servers are concerned."""
    return SimpleNamespace(serve=serve, image=(), started_in=folders, variables=variables, wake=None)


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("npm start", ""),
        ("PORT={port} npm start", ""),
        ("env PORT={port} node s.js", ""),
        ("./server --bind [::]:{port}", ""),
        ("node 'a;b.js' \"c d|e\" f\\;g", ""),
        ("python3 -c 'import a; print($x)' ~x=~", "~"),
        ("cd a && npm start", "cd"),
        ("A=1 cd a", "cd"),
        ("make && ./server", "&&"),
        ("./server || true", "||"),
        ("./server 2>&1 | tee log", ">"),
        ("./server >> log", ">>"),
        ("./server | tee log", "|"),
        ("./server; true", ";"),
        ("uvicorn app:app --port $PORT", "$"),
        ('uvicorn app:app --port "${PORT}"', "$"),
        ("./server `cat port`", "`"),
        ("node ~/s.js", "~"),
        ("java -jar build/*.jar", "*"),
        ("./server < in", "<"),
        ("(./server)", "("),
        ("true\n./server", "a line break"),
    ],
)
def test_a_shell_runs_what_needs_one_and_nothing_else(command: str, needed: str) -> None:
    """Quotes hide a shell's characters from it, and from Dragstrip."""
    read = own_command.read("mine", command)
    assert read.needs_shell == needed
    assert (read.words[:2] == ("sh", "-c")) == bool(needed)


def started(entry: Entry, scratch: Path) -> Start:
    (scratch / "launch").mkdir()
    return prepare(entry, scratch=scratch / "launch", port=7, cores=(0,), workload="hello")


def test_leading_assignments_are_environment(tmp_path: Path) -> None:
    """Filled in like the words; PORT and HOST are there unless the user sets them."""
    entry = serve_entry("mine=A=1 LISTEN=:{port} B= ./server x=y", environment={"C": "{port} {x}", "HOST": "h"})
    start = started(entry, tmp_path)
    assert start.command == ("./server", "x=y")
    assert start.env == {"PORT": "7", "HOST": "h", "A": "1", "LISTEN": ":7", "B": "", "C": "7 {x}"}


def test_a_shell_sees_values_in_their_quotes(tmp_path: Path) -> None:
    """A path with a blank, a quote and a dollar stays one word, wherever its name stands; other braces are left."""
    scratch = tmp_path / "a b'\"$c"
    scratch.mkdir()
    line = """printf '%s\\n' {data} "{data}" '{data}' ${port} '{print}' $((1+1)) {port}"""
    start = started(serve_entry(f"mine={line}"), scratch)
    said = subprocess.run(start.command, capture_output=True, text=True, env={"port": "of the shell"}, check=True)
    data = f"{scratch}/launch/data"
    assert said.stdout.splitlines() == [data, data, data, "of", "the", "shell", "{print}", "2", "7"]


@pytest.mark.parametrize(
    ("command", "kept", "secrets"),
    [
        (f"API_TOKEN={shlex.quote(PASSWORD)} ./server", "API_TOKEN=… ./server", {"API_TOKEN": PASSWORD}),
        ("env SECRET_KEY=s3cret-key A=1 ./server", "env SECRET_KEY=… A=1 ./server", {"SECRET_KEY": "s3cret-key"}),
        ("cd x && db_password=a\\ b ./server", "cd x && db_password=… ./server", {"db_password": "a b"}),
        ("URL=pg://me:word@h/d ./server", "URL=… ./server", {"URL": "pg://me:word@h/d"}),
        ("TOKEN=$TOKEN ./server", "TOKEN=$TOKEN ./server", {}),
        ("TLS_KEY={certificate_key} ./server", "TLS_KEY={certificate_key} ./server", {}),
        ("KEY_FILE=./key.pem ./server --key=x", "KEY_FILE=./key.pem ./server --key=x", {}),
        ("MODE=fast ./server", "MODE=fast ./server", {}),
    ],
)
def test_a_secret_is_kept_as_a_salted_hash_alone(
    command: str, kept: str, secrets: dict[str, str], tmp_path: Path
) -> None:
    """The server gets its value; a record of the entry has no trace of it, and makes the same entry again."""
    entry = serve_entry(f"mine={command}")
    assert entry.parameters["command"] == kept
    assert entry.secrets == secrets
    texts = json.dumps([dict(entry.parameters), dict(entry.parity), entry.definition_hash, repr(entry)])
    assert not [value for value in secrets.values() if value in texts]
    assert entry_of(entry.name, entry.kind, entry.parameters) == entry
    start = started(entry, tmp_path)
    for name, value in secrets.items():
        assert start.env[name] == value
        assert (
            value in " ".join(start.command)
            or shlex.quote(value) in start.command[-1]
            or start.command == ("./server",)
        )
        assert masking.is_same(value, str(entry.parameters[f"{SECRET}{name}"]))
        assert serve_entry(f"mine={command}").parameters != entry.parameters, "the salt is a new one each time"


def test_a_record_without_its_secret_asks_for_it_and_takes_only_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an option that the message names; the value may come from the environment."""
    monkeypatch.setattr(own_command, "_given", {})
    entry = serve_entry("mine=./server", environment={"API_KEY": PASSWORD, "LEVEL": "3"})
    entrant = _entrant(entry)
    monkeypatch.setattr(own_command, "_given", {})
    race = with_column(samples.race(), 0, [entrant])
    with pytest.raises(BadUsage, match=r"no value of mine\.API_KEY.*--env mine\.API_KEY=VALUE"):
        refuse_missing_secrets(race, ())
    with pytest.raises(BadUsage, match="is not set here"):
        own_servers.give_again(["mine.API_KEY"], [entrant])
    with pytest.raises(BadUsage, match=r"has the variables of mine, apart from secret ones \(API_KEY\)"):
        own_servers.give_again(["mine.LEVEL=4"], [entrant])
    own_servers.give_again(["mine.API_KEY=another"], [entrant])
    with pytest.raises(BadUsage, match="another value than in the race's record"):
        entries_of([entrant])
    monkeypatch.setenv("API_KEY", PASSWORD)
    own_servers.give_again(["mine.API_KEY"], [entrant])
    refuse_missing_secrets(race, ())
    assert entries_of([entrant]) == (entry,)


def _entrant(entry: Entry) -> Entrant:
    return Entrant(
        name=entry.name,
        title=entry.title,
        kind=entry.kind,
        version="",
        language="",
        parameters=entry.parameters,
        definition_hash=entry.definition_hash,
        parity=entry.parity,
        out="",
    )


def test_a_launch_without_its_secret_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on another machine, to which secrets are not sent."""
    entry = serve_entry("mine=API_KEY=abc ./server")
    monkeypatch.setattr(own_command, "_given", {})
    with pytest.raises(StageError, match="API_KEY is not known here"):
        started(entry_of(entry.name, entry.kind, entry.parameters), tmp_path)


@pytest.mark.parametrize(
    ("folders", "variables", "words"),
    [
        (["mine"], [], ["--in 'mine'", "--in mine=./server"]),
        (["other=."], [], ["no --serve command has the name 'other'", "they are mine"]),
        (["mine=/nowhere"], [], ["/nowhere is not a folder"]),
        (["mine=.", "mine=.."], [], ["has a folder already"]),
        ([], ["mine=abc"], ["--env mine.LOG_LEVEL=warn"]),
        ([], ["other.A=abc"], ["--env other.A", "'other'"]),
        ([], ["mine.NOT_SET_ANYWHERE"], ["is not set here", "--env mine.NOT_SET_ANYWHERE=VALUE"]),
    ],
)
def test_a_bad_folder_or_variable_is_refused(folders: list[str], variables: list[str], words: list[str]) -> None:
    """Named with what would be valid, and without the value, which may be a secret."""
    with pytest.raises(BadUsage) as refused:
        own_servers.entries_of(given(["mine=./server"], folders, variables), say=print)
    for word in words:
        assert word in str(refused.value)
    assert "abc" not in str(refused.value)


def test_folders_and_variables_are_their_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name may have dots; what a shell runs is said in a line."""
    commands = ["v1.2=npm start", "v1.3=npm start | tee log"]
    options = given(commands, [f"v1.2={tmp_path}"], ["v1.2.A=b=c", "v1.3.A=d"])
    served = own_servers.entries_of(options, say=say_unless(quiet=False))
    assert [(entry.folder, entry.environment["A"]) for entry in served] == [(tmp_path, "b=c"), (Path.cwd(), "d")]
    assert capsys.readouterr().err == "dragstrip: v1.3: `sh -c` runs its command, because of |\n"


@pytest.mark.parametrize(
    ("script", "first"),
    [
        ("cd a && npm start", ("a", ("npm", "start"))),
        ("cd a; cd b; A=1 node s.js > log | tee log", ("a/b", ("node", "s.js"))),
        ("./server --x 2>&1 | tee log", ("", ("./server", "--x"))),
        ("echo 'open", ("", ())),
    ],
)
def test_the_program_of_a_shells_line_is_found(script: str, first: tuple[str, tuple[str, ...]], tmp_path: Path) -> None:
    """Its files are a part of what a resumed race compares; a log that it writes is not."""
    assert own_command.first_command(script, tmp_path) == (tmp_path / first[0], first[1])


def test_servers_of_ones_own_are_raced_at_the_root() -> None:
    """A definition, shipped or not, names workloads instead."""
    own = (serve_entry("a=./a"), *entrants(["http://127.0.0.1:3000"]))
    assert usual_workload(own) == "/"
    assert usual_workload((*own, *entrants(["nginx-return"]))) == "hello"
