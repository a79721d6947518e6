"""The command line as a whole: what is loaded when, what a failure leaves behind, other tools' flags, completion."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import click
import numpy as np
import pytest
import samples
from click.testing import CliRunner

import dragstrip
from dragstrip import api
from dragstrip.commands import main as cli_main
from dragstrip.errors import BadUsage, StoreError, Unreadable
from dragstrip.racing import options
from dragstrip.racing.request import Request
from dragstrip.record import EventKind
from dragstrip.store.database import Store
from dragstrip.store.messages import constraint_in_words
from dragstrip.workload import load as load_workload

#: What takes long to load: statistics, charts, validation, pages, servers. None of it is needed to say what there is.
HEAVY = ("numpy", "scipy", "pydantic", "altair", "jinja2", "starlette", "uvicorn", "hdrh", "psutil", "pandas")
HEAVY += ("pyarrow", "h11", "dragstrip._engine", "dragstrip.analysis", "dragstrip.contender")
SLOWEST = ("scipy", "altair", "vl_convert", "pandas", "pyarrow", "starlette", "uvicorn")

#: Fields of a request that a call from Python has by another way, or not at all.
ELSEWHERE = ("entries", "workload", "also", "offered", "purpose", "site", "allowed", "gate")


def run(*words: str, **settings: object) -> subprocess.CompletedProcess[str]:
    merged = {"capture_output": True, "text": True} | settings
    return subprocess.run([sys.executable, "-m", "dragstrip", *words], **merged)  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A store of two good races and, newest of all, one whose planned rounds are a text, as damage leaves it."""
    path = tmp_path / "races.sqlite"
    with Store(path) as store:
        store.begin(samples.race(seed=1, rounds=11))
        store.begin(samples.race(seed=2, rounds=11))
    poison(path)
    return path


def poison(path: Path, **odd: str) -> None:
    """Adds race 00000000000f, a copy of the first with columns of another kind."""
    with samples.unguarded(path) as db:
        changed = {"id": "'00000000000f'", "started": "'2030-01-01T00:00:00+00:00'"} | (
            odd or {"planned_rounds": "'x'"}
        )
        columns = ", ".join(changed.get(row[1], row[1]) for row in db.execute("PRAGMA table_info(race)"))
        db.execute(f"INSERT INTO race SELECT {columns} FROM race WHERE id = '000000000001'")


def assert_loads_none(modules: Sequence[str], *commands: Sequence[str], store: Path | None = None) -> None:
    """Each command ends with 0 and imports none of these modules, one command after the other in one new process."""
    code = (
        "import json, sys; from dragstrip.commands import main as cli_main\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    code = cli_main.run(words)\n"
        f"    print('ended', *words, [name for name in {modules!r} if name in sys.modules], code)"
    )
    env = os.environ | ({"DRAGSTRIP_STORE": str(store)} if store else {})
    done = subprocess.run([sys.executable, "-c", code, json.dumps(commands)], env=env, capture_output=True, text=True)
    # What a command imports stays imported, so the first line that differs names the command.
    ends = [line for line in done.stdout.splitlines() if line.startswith("ended ")]
    assert ends == [" ".join(["ended", *words, "[] 0"]) for words in commands], done.stderr


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["runs"], ["runs", "--json"]], ids=" ".join)
def test_saying_what_there_is_loads_nothing_that_judges_or_draws(kept: Path, words: list[str]) -> None:
    """Help, version and the list of races respond before statistics and charts could load."""
    assert_loads_none(HEAVY, words, store=kept)


@pytest.mark.thorough
def test_the_help_of_every_command_loads_neither_scipy_nor_altair() -> None:
    """The two slowest libraries are for judging and drawing only."""
    assert_loads_none(SLOWEST, *([name, "--help"] for name in sorted(cli_main.COMMANDS)))


@pytest.mark.parametrize("name", sorted(cli_main.COMMANDS))
def test_each_command_of_the_list_is_there_under_its_name(name: str) -> None:
    """The table of names leads to commands."""
    command = cli_main.cli.get_command(click.Context(cli_main.cli), name)
    assert command is not None
    assert command.name == name


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rounds", "x"),
        ("rounds", 1),
        ("rounds", 2.5),
        ("rounds", True),
        ("connections", 0),
        ("connections", "many"),
        ("threads", -1),
        ("keepalive", 1),
        ("http", "2"),
        ("timeout_s", float("nan")),
        ("timeout_s", "2s"),
        ("budget_s", 0),
        ("budget_s", float("inf")),
        ("margin", 1.0),
        ("margin", "1%"),
        ("metric", "memory"),
        ("metric", ["cpu"]),
        ("seed", 2**63),
        ("seed", -1),
        ("rate_per_s", -5),
        ("rate_per_s", "20k"),
        ("pace", "slow"),
        ("server_cores", 1),
        ("io", "kqueue"),
    ],
)
def test_a_call_from_python_is_refused_before_anything_is_stored(tmp_path: Path, field: str, value: object) -> None:
    """By the field's name, what was given and what would do; the store isn't even made."""
    store = tmp_path / "races.sqlite"
    with pytest.raises(BadUsage, match=f"^{field}=.*; use |^{field}=.*: use "):
        dragstrip.race("node", "nginx-return", store=store, **{field: value})
    assert not store.exists()


def test_an_option_that_there_is_none_of_is_refused_with_those_that_there_are() -> None:
    """The nearest name, and all of them."""
    with pytest.raises(
        BadUsage, match=r"unknown option 'conections'; did you mean connections.*\(options are alpha, .*wait"
    ):
        dragstrip.race("nginx-return", "nginx-static", conections=5)


def test_calls_from_python_know_every_field_of_a_request_and_documents_name_them() -> None:
    """``Plan`` repeats the request's fields with their types; the table in docs/commands.md has a row for each."""
    fields = {name: kind for name, kind in get_type_hints(Request).items() if name not in ELSEWHERE}
    loose = {"http": str, "io": str, "awake": str, "wait": str}  # one of several texts
    assert {name: loose.get(name, kind) for name, kind in get_type_hints(api.PlanOptions).items()} == fields
    page = (Path(__file__).parents[3] / "docs" / "commands.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(\w+)` \|", page.partition("## From Python")[2], re.MULTILINE))
    assert rows == {*fields, "workload"}


def test_numbers_of_other_libraries_are_kept_as_pythons_own() -> None:
    """numpy's whole numbers and floats are taken; what is stored is what SQLite knows."""
    request = Request(
        entries=(), workload=load_workload("hello"), rounds=np.int64(12), margin=np.float32(0.5), budget_s=3
    )  # fmt: skip
    kinds = (type(request.rounds), type(request.margin), type(request.budget_s))
    assert kinds == (int, float, float)


@pytest.mark.parametrize(
    "odd",
    [
        {"planned_rounds": "'x'"},
        *(pytest.param(odd, marks=pytest.mark.thorough) for odd in ({"machine": "'{'"}, {"server_cores": "'{}'"})),
    ],
    ids=str,
)
def test_one_unreadable_race_is_one_line_and_takes_no_other_with_it(
    kept: Path, tmp_path: Path, odd: dict[str, str]
) -> None:
    """`last` is the newest that can be read, and the other is named; its own commands say which column."""
    with samples.unguarded(kept) as db:
        db.execute("DELETE FROM race WHERE id = '00000000000f'")
    poison(kept, **odd)
    runner = CliRunner()
    for words in (["runs"], ["show", "last"], ["report", "--json", str(tmp_path / "x.json")], ["claims"]):
        done = runner.invoke(cli_main.cli, [*words, "--store", str(kept)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        if words[0] in ("show", "report"):
            assert "passed over: race 00000000000f can't be read" in done.stderr
    for words in (
        ["show", "00000000000f"],
        ["export", "00000000000f", str(tmp_path / "x.csv")],
        ["rerun", "00000000000f"],
    ):
        with pytest.raises(Unreadable, match=f"race 00000000000f can't be read: .*{next(iter(odd))}"):
            runner.invoke(cli_main.cli, [*words, "--store", str(kept)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("table", "column", "value", "message"),
    [
        ("race", "planned_rounds", "'x'", "race.planned_rounds must be a whole number"),
        ("race", "margin", "7", "race.margin must be from 0 to below 1"),
        ("race", "machine", "'{'", "race.machine must be a JSON object"),
        ("block", "requests", "1.5", "block.requests must be a whole number"),
        ("block", "latency_hdr", "'text'", "block.latency_hdr must be bytes"),
        ("event", "at_ns", "'soon'", "event.at_ns must be a whole number"),
    ],
)
def test_the_file_itself_refuses_values_of_another_kind(
    tmp_path: Path, table: str, column: str, value: str, message: str
) -> None:
    """Whoever writes: the schema checks types, ranges and JSON of what is added."""
    race = samples.race(rounds=1, events=[samples.noted(EventKind.HEAT)])
    with Store(tmp_path / "races.sqlite") as store:
        store.begin(race)
    with closing(sqlite3.connect(tmp_path / "races.sqlite")) as db:
        names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        chosen = ", ".join(value if name == column else f'"{name}"' for name in names)
        with pytest.raises(sqlite3.IntegrityError) as refused:
            db.execute(f"INSERT INTO {table} SELECT {chosen} FROM {table} LIMIT 1")
    assert constraint_in_words(str(refused.value)) == message


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("planned_rounds", "x", "race.planned_rounds must be a whole number"),
        ("margin", 7.0, "race.margin must be from 0"),
    ],
)
def test_an_import_of_what_no_record_can_hold_is_refused_and_leaves_nothing(
    tmp_path: Path, column: str, value: object, message: str
) -> None:
    """A well sealed file, changed by a stranger past the schema's own checks."""
    from dragstrip.store import export_file

    with Store(tmp_path / "from.sqlite") as store:
        store.begin(samples.race(seed=1, rounds=1))
        store.export_race("last", tmp_path / "one.race")
    with samples.unguarded(tmp_path / "one.race") as db:
        db.execute(f"UPDATE race SET {column} = ?", (value,))
        db.execute("UPDATE seal SET sha256 = ?", (export_file._digest(db, "000000000001"),))
    with Store(tmp_path / "to.sqlite") as store:
        with pytest.raises(StoreError, match=message):
            store.import_race(tmp_path / "one.race")
        assert store.runs() == []


@pytest.mark.parametrize(
    "words", [["runs"], ["show"], ["report", "--json", "-"], ["contenders"], ["claims", "list"]], ids=" ".join
)
def test_commands_that_only_read_make_nothing(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No store, no folder, whether there is something to show or not."""
    monkeypatch.setenv("DRAGSTRIP_STORE", str(tmp_path / "new" / "races.sqlite"))
    CliRunner().invoke(cli_main.cli, words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["race", "a", "b", "--json", "none/x.json"], "folder none does not exist"),
        (["race", "a", "b", "--html", "."], "is a folder"),
        (["load", "http://127.0.0.1:1/", "--hgrm", "/proc/x"], "can't be written"),
        (["compare", "a", "b", "--junit", "none/x.xml"], "folder none does not exist"),
        (["export", "last", "x.foo"], "unknown suffix .foo"),
        (["export", "last", "none/x.csv"], "folder none does not exist"),
        (["claims", "add", "../x", "node", "lua", "--ratio", "2"], "would leave the claims' folder"),
        (["new", "mine", "--into", "/proc"], "can't be written"),
        (["contenders", "tfa:*"], "no contender matches tfa:*; `dragstrip contenders` lists all"),
        (["load", "http://127.0.0.1:1/", "-n", "9" * 20], "is not a valid number from 1 to"),
        (["race", "deep.toml", "node"], "nested more than 20 deep"),
        (["race", "long.toml", "node"], "too many dots"),
        (["load", "http://127.0.0.1:1/", "--pool", "long.toml"], "too many dots"),
        (["claims", "check", "long.toml"], "too many dots"),
        (["load", "http://127.0.0.1:1/", "--raw", "/dev/zero"], "is longer than"),
        (["race", "--budget", "+2m", "a", "b"], "extends an existing race: add --resume ID"),
        (["race", "--warmup", "3", "a"], "has no effect"),
        (["race", "--vus", "3", "a"], "-c N"),
        (["race", "--qps", "3", "a"], "-R RATE"),
        (["load", "-q", "100", "http://127.0.0.1:1/"], "-R RATE"),
        (["load", "-n1000", "-c10", "-m10", "http://127.0.0.1:1/"], "-m 10 is --streams 10"),
        (["load", "-m", "POST", "-d", "{}", "http://127.0.0.1:1/"], "body is -b TEXT"),
        (["load", "-t", "5s", "http://127.0.0.1:1/"], "--timeout TIME"),
        (["load", "-D", "1s", "http://127.0.0.1:1/"], "h2load's -D is -d TIME"),
        (["load", "-s", "5", "http://127.0.0.1:1/"], "ab's -s is --timeout TIME"),
        (["load", "-T", "5", "http://127.0.0.1:1/"], "--close-after N"),
        (["load", "-disable-keepalive", "http://127.0.0.1:1/"], "--no-keepalive"),
        (["load", "-cpus", "2", "http://127.0.0.1:1/"], "-t N"),
        (["load", "-h2", "http://127.0.0.1:1/"], "--http 2"),
        (["load", "-L", "http://127.0.0.1:1/"], "wrk2's percentiles"),
        (["load", "-r", "10", "http://127.0.0.1:1/"], "h2load's new connections per second: --no-keepalive -R RATE"),
        (["load", "--no-tui", "http://127.0.0.1:1/"], "-q (--quiet) also prints no report"),
        (["load", "-p", "10", "http://127.0.0.1:1/"], "oha's parallel requests on an HTTP/2 connection: --streams N"),
        (["load", "-n", "10", "127.0.0.1:1/"], "use http://127.0.0.1:1/"),
        (["load", "http://127.0.0.1:1/", "http://127.0.0.1:1/b"], "--pool FILE"),
        (["sweep", "--rps", "5", "a"], "--rates FROM:TO:N"),
        (["race", "node", "lua", "--name", "one"], "1 given for 2 contenders"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_what_can_not_be_done_is_said_before_anything_is_measured(
    tmp_path: Path, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One message with what would do, exit code 2, no file left behind."""
    (tmp_path / "deep.toml").write_text("title = " + "[" * 5000)
    (tmp_path / "long.toml").write_text("a." * 100_000 + "b = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGSTRIP_STORE", str(tmp_path / "races.sqlite"))
    assert cli_main.run(words) == 2
    assert message in capsys.readouterr().err
    assert {file.name for file in tmp_path.iterdir()} == {"deep.toml", "long.toml"}


@pytest.mark.thorough
def test_a_full_standard_output_is_told_and_what_was_to_be_shown_is_kept(kept: Path, tmp_path: Path) -> None:
    """/dev/full takes nothing: exit code 3 and one line, with the file that has the text."""
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    with Path("/dev/full").open("w") as full:
        done = run(
            "show",
            "000000000001",
            "--store",
            str(kept),
            env=env,
            capture_output=False,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 3
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    (file,) = (tmp_path / "state" / "dragstrip").iterdir()
    assert "quick" in file.read_text()
    assert str(file) in done.stderr


@pytest.mark.thorough
def test_a_reader_that_leaves_and_a_closed_output_are_no_failure(kept: Path) -> None:
    """`| head -1` gets its line; with the output closed the command ends as ever, and the store is whole."""
    command = f"{sys.executable} -m dragstrip contenders --json"
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1; echo ${{PIPESTATUS[0]}}"], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("[\n0\n", "")
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m dragstrip runs --store {kept} >&- <&-"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    with Store(kept) as store:
        assert len(store.runs()) == 3


def test_what_nobody_foresaw_ends_with_70_and_its_details_lie_in_a_file(tmp_path: Path) -> None:
    """A fault planted in a command: one line says where its details are, and the traceback is there."""
    code = (
        "import sys; from dragstrip.commands import main as cli_main; from dragstrip.commands import runs as cli_runs\n"
        "def fault(**words): raise RuntimeError('planted')\n"
        "cli_runs.runs.callback = fault\n"
        "sys.argv[1:] = ['runs']; cli_main.main()"
    )
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 70
    assert "Traceback" not in done.stderr
    (file,) = (tmp_path / "dragstrip").iterdir()
    assert str(file) in done.stderr
    assert "RuntimeError: planted" in file.read_text()


def test_other_tools_flags_mean_what_fingers_expect() -> None:
    """-d and --duration are the budget, --runs the rounds, --export-json the JSON; +2m is so much more."""
    from dragstrip.commands.quantities import BUDGET, ExtraSeconds
    from dragstrip.commands.race import race

    by_flag = {flag: option.name for option in race.params for flag in option.opts}
    names = [by_flag[flag] for flag in ("-d", "--duration", "--runs", "--export-json", "--export-markdown", "--name")]
    assert names == ["budget_s", "budget_s", "rounds", "json_path", "markdown_path", "called"]
    more, plain = BUDGET.convert("+2m", None, None), BUDGET.convert("90s", None, None)
    assert (more, isinstance(more, ExtraSeconds), plain, isinstance(plain, ExtraSeconds)) == (120.0, True, 90.0, False)


def test_names_of_ones_own_go_to_contenders_and_commands_in_order() -> None:
    """--name replaces what a contender, or a command of --serve, would be called."""
    from dragstrip.commands.race import _with_own_names

    names, serve = _with_own_names(["node", "lua:workers=1"], ["mine=./x --port {port}"], ["a", "b", "c"])
    assert (list(names), list(serve)) == (["a=node", "b=lua:workers=1"], ["c=./x --port {port}"])
    assert list(_with_own_names(["old=node"], [], ["new"])[0]) == ["new=node"]


@pytest.mark.parametrize("name", ["x=y", "a:b", "a/b"])
def test_a_name_that_would_read_as_a_definition_is_refused_as_a_name(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whose option, what is wrong with the name, and one that would do."""
    assert cli_main.run(["race", "nginx-return", "nginx-static", "--name", name, "--name", "other"]) == 2
    refused = capsys.readouterr().err
    assert f"--name {name!r}: a name can't contain" in refused
    assert "like '" in refused
    serve = "mine=./x --port {port}"
    assert cli_main.run(["race", "--serve", serve, "--serve", serve, "--name", "x=y", "--name", "z"]) == 2
    assert "--name 'x=y': a name can't contain '='" in capsys.readouterr().err


def test_the_command_line_has_the_bounds_of_calls_from_python() -> None:
    """One table for both."""
    from dragstrip.commands.race import race

    for name in ("connections", "threads", "rounds", "seed"):
        (option,) = (declared for declared in race.params if declared.name == name)
        assert isinstance(option.type, click.IntRange)
        (bound,) = (declared.metadata["bound"] for declared in fields(Request) if declared.name == name)
        assert isinstance(bound, options.IntRange)
        assert (option.type.min, option.type.max) == (bound.min, bound.max)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("dragstrip ru", {"runs"}),
        ("dragstrip race nginx-ret", {"nginx-return"}),
        ("dragstrip race nginx-return --workload m", {"multiply"}),
        ("dragstrip race nginx-return --workload multiply,h", {"multiply,hello", "multiply,handshakes"}),
        ("dragstrip show 00000000000", {"000000000001", "000000000002", "00000000000f"}),
        ("dragstrip show la", {"last"}),
        ("dragstrip claims check 2011-apache-t", {"2011-apache-tornado"}),
    ],
)
@pytest.mark.thorough
def test_the_shell_completes_names_and_races(kept: Path, line: str, expected: set[str]) -> None:
    """As bash asks it: commands, contenders, workloads, races of the store, claims."""
    env = {**os.environ, "DRAGSTRIP_STORE": str(kept), "_DRAGSTRIP_COMPLETE": "bash_complete"}
    env |= {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    done = run(env=env)
    assert {word.partition(",")[2] for word in done.stdout.split()} == expected, done.stderr


@pytest.mark.timeout(300)
@pytest.mark.thorough
def test_random_command_lines_and_files_end_in_no_traceback() -> None:
    """A short part of `tests/soak/fuzz_cli.py`, from a fixed seed."""
    from fuzz_cli import fuzz

    report = fuzz(lines=60, files=120, processes=0, seed=7)
    assert not report.faults
    assert len(report.codes) >= 2
