"""Definitions, entrants and what it takes to start them; the shipped contenders are started for real."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragstrip import contender
from dragstrip.contender import Missing, Ready, discovery
from dragstrip.contender.definition import Source
from dragstrip.contender.fields import alternatives
from dragstrip.errors import BadDefinition, BadUsage, NotReady, StageError
from dragstrip.workload import load as load_workload
from dragstrip.workload import names as workload_names

GOOD = """\
name = "mine"
title = "Mine"
host = "mine"
language = "C"
workloads = ["hello"]

[parameters]
workers = 2
ratio = 0.5
greeting = "hi"
quick = false

[parity]
workers = "{workers}"

[start]
command = ["sh", "{scratch}/run.sh", "{port}"]
render = ["run.sh"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run.sh").write_text("echo {{ workers }} on {{ port }}\n")
    return tmp_path


def define(folder: Path, text: str = GOOD) -> contender.Contender:
    (folder / "contender.toml").write_text(text)
    return contender.load(folder / "contender.toml")


# --- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "line", "field", "words"),
    [
        ('title = "Mine"', 'titel = "Mine"', 2, "titel", ["unknown key", "did you mean title?"]),
        ('title = "Mine"', "title = 3", 2, "title", ["given 3", "a text in quotes"]),
        ('title = "Mine"', "", None, "title", ["is missing", "add `title = …`"]),
        ('name = "mine"', 'name = "My Own"', 1, "name", ["given 'My Own'", "pattern"]),
        ('workloads = ["hello"]', 'workloads = "hello"', 5, "workloads", ["given 'hello'", "a list"]),
        ('workloads = ["hello"]', 'workloads = ["hello", 7]', 5, "workloads.1", ["given 7", "a text in quotes"]),
        ("workers = 2", "workers = [2]", 8, "parameters.workers", ["given [2]", "a number, a text"]),
        ("workers = 2", "workers = 2\nport = 1", 9, "parameters.port", ["taken"]),
        ("greeting = ", "greeting = 'a{b}'\nother = ", 10, "parameters.greeting", ["plain value"]),
        ('"{port}"]', '"{prot}"]', 17, "start.command", ["unknown placeholder {prot}", "did you mean port?"]),
        ('"{port}"]', '"{port"]', 17, "start.command", ["braces"]),
        ('"{workers}"', '"{wokers}"', 14, "parity.workers", ["unknown placeholder {wokers}", "did you mean workers"]),
        ('["run.sh"]', '["gone.sh"]', 18, "start.render", ["'gone.sh'", "not in"]),
        ('["run.sh"]', '["/etc/passwd"]', 18, "start.render", ["is in another folder"]),
        ('["run.sh"]', '["../../x/run.sh"]', 18, "start.render", ["is in another folder"]),
        ('["run.sh"]', '["run.sh"]\nwake_s = "soon"', 19, "start.wake_s", ["given 'soon'", "a number"]),
        ('["run.sh"]', '["run.sh"]\nwake_s = 0', 19, "start.wake_s", ["given 0", "greater than 0"]),
        ('["run.sh"]', '["run.sh"]\nstop_signal = "STOPP"', 19, "start.stop_signal", ["'STOPP'", "TERM"]),
        ('["run.sh"]', '["run.sh"]\nunprivileged = 1', 19, "start.unprivileged", ["given 1", "true or false"]),
        (
            "[start]",
            '[choices]\ngreeting = ["a", "b"]\n[start]',
            17,
            "choices.greeting",
            ["no default", 'greeting = "a"'],
        ),
        ("[start]", '[version]\npattern = "x"\n[start]', 16, "version", ["only one of"]),
        ("[start]", '[version]\ncommand = ["a"]\npattern = "("\n[start]', 18, "version.pattern", ["given '('"]),
        ("[start]", '[version]\ncommand = ["a"]\npattern = "x"\n[start]', 18, "version.pattern", ["one group"]),
        ("[start]", '[served]\npath = "/x"\n[start]', 16, "served.pattern", ["is missing"]),
        ("[start]", '[served]\npath = "x"\npattern = "(1)"\n[start]', 17, "served.path", ["given 'x'", "pattern"]),
        ("[start]", '[served]\npath = "/x"\npattern = "1"\n[start]', 18, "served.pattern", ["one group", "the number"]),
        (
            "[start]",
            '[served]\npath = "/x"\npattern = "(1)"\nsocket = "{x}"\n[start]',
            19,
            "served.socket",
            ["unknown placeholder {x}"],
        ),
        ("[start]", '[served]\npath = "/x"\npattern = "(1)"\nif_says = "a"\n[start]', 16, "served", ["only one of"]),
        ("[start]", "[warm_up]\nleast_s = 9.0\n[start]", 17, "warm_up.least_s", ["above most_s"]),
        ("[start]", "[profiled]\nperf_map = 1\n[start]", 17, "profiled.perf_map", ["given 1", "give true or false"]),
        ("[start]", '[profiled]\narguments = ["{x}"]\n[start]', 17, "profiled.arguments", ["unknown placeholder {x}"]),
        ("[start]", '[build]\ncommand = ["make"]\n[start]', 16, "build.files", ["is missing", "files ="]),
        ("[start]", '[[install.alternatives]]\npipp = ["x"]\n[start]', 17, "install.alternatives.0.pipp", ["pip?"]),
        ("[start]", "[start", 16, "the file", ["is not valid TOML"]),
        ('render = ["run.sh"]', 'copyy = ["run.sh"]', 18, "start.copyy", ["did you mean copy?"]),
    ],
)
def test_a_bad_definition_is_refused_with_file_line_field_and_remedy(
    folder: Path, before: str, after: str, line: int | None, field: str, words: list[str]
) -> None:
    """The message says where, what was given and what would do."""
    assert before in GOOD
    with pytest.raises(BadDefinition) as refusal:
        define(folder, GOOD.replace(before, after, 1))
    assert (refusal.value.line, refusal.value.field) == (line, field)
    place = f"{folder}/contender.toml" + (f":{line}: " if line else ": ")
    assert str(refusal.value).startswith(place)
    for word in words:
        assert word in str(refusal.value)


def test_of_several_faults_the_first_by_line_is_told(folder: Path) -> None:
    """So that a file is mended from top to bottom."""
    text = GOOD.replace('host = "mine"', "host = 1").replace("workers = 2", "workers = []")
    with pytest.raises(BadDefinition, match=r":3: host"):
        define(folder, text)


def test_a_text_without_quotes_is_told_what_it_lacks(folder: Path) -> None:
    """The parser calls it an invalid value, which says nothing to one who has never written TOML."""
    with pytest.raises(BadDefinition, match=r"contender\.toml:\d+: .*Invalid value.*strings must be quoted"):
        define(folder, GOOD + "homepage = example\n")


def test_a_file_that_is_no_text_is_refused(folder: Path) -> None:
    """Not with a traceback."""
    (folder / "contender.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadDefinition, match="can't be read"):
        contender.load(folder / "contender.toml")


def test_a_key_within_a_text_of_several_lines_is_not_taken_for_a_key() -> None:
    """The reported line is the key's own."""
    source = Source(Path("x"), 'a = """\nb = 1\n[t]\n"""\nb = 2\n[t]\n"c d".e = 1\n[[l]]\nx = 1\n[[l]]\nx = 2\n')
    assert [source.line(at) for at in (("a",), ("b",), ("t",), ("t", "c d", "e"))] == [1, 5, 6, 7]
    assert [source.line(("l", 0, "x")), source.line(("l", 1, "x")), source.line(("l", 1))] == [9, 11, 10]


@pytest.mark.thorough
@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Whatever stands in the file, the answer is a contender or a BadDefinition."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "contender.toml"
        file.write_text(text, encoding="utf-8", newline="")
        with pytest.raises(BadDefinition):
            contender.load(file)


# --- entrants --------------------------------------------------------------------------------------------------


def test_overrides_take_the_type_of_the_default(folder: Path) -> None:
    """int, float, text and bool; the variant's name carries them as typed."""
    define(folder)
    entry = contender.entry(f"{folder}:workers=4,ratio=1,greeting=ho,quick=yes")
    assert entry.name == "mine:workers=4,ratio=1,greeting=ho,quick=yes"
    values = [entry.parameters[key] for key in ("workers", "ratio", "greeting", "quick")]
    assert values == [4, 1.0, "ho", True]
    assert isinstance(values[1], float)
    assert entry.parity == {"workers": "4"}


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("workres=4", ["no parameter 'workres'", "did you mean workers"]),
        ("workers=many", ["workers=many", "a whole number"]),
        ("ratio=half", ["ratio=half", "a number"]),
        ("quick=perhaps", ["quick=perhaps", "true or false"]),
        ("workers", ["'workers' is not a valid override", "key=value"]),
        ("workers=", ["is not a valid override"]),
        ("workers=1,workers=2", ["given twice"]),
    ],
)
def test_a_bad_override_is_refused_with_what_there_is(folder: Path, typed: str, words: list[str]) -> None:
    """Exit code 2, the word, and what would do."""
    define(folder)
    with pytest.raises(BadUsage) as refusal:
        contender.entry(f"{folder}:{typed}")
    for word in words:
        assert word in str(refusal.value)


def test_a_count_per_core_takes_whole_numbers_from_1() -> None:
    """`workers = "{cores}"` is a number for whoever overrides it."""
    assert contender.entry("node:workers=3").parameters["workers"] == 3
    for typed in ("0", "-1", "two"):
        with pytest.raises(BadUsage, match="workers="):
            contender.entry(f"node:workers={typed}")


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    """Names, paths and line-ups alike."""
    with pytest.raises(BadUsage, match="did you mean nginx-return"):
        contender.find("nginx-retrun")
    with pytest.raises(BadUsage, match="\\./nowhere does not exist"):
        contender.find("./nowhere")
    with pytest.raises(BadUsage, match="did you mean default"):
        contender.line_up("defualt")
    with pytest.raises(BadUsage, match=r"a command is raced by --serve 'mine=\./server --port=3:4'"):
        contender.entrants(["mine=./server --port=3:4"])


def test_a_definition_is_found_by_file_by_folder_and_by_name_in_a_given_folder(folder: Path) -> None:
    """All three are the same contender."""
    mine = folder / "more" / "mine"
    mine.mkdir(parents=True)
    shutil.copy(folder / "run.sh", mine)
    define(mine)
    ways = [contender.find(str(mine)), contender.find(str(mine / "contender.toml"))]
    ways.append(contender.find("mine", [folder / "more"]))
    assert len({way.definition_hash for way in ways}) == 1
    assert str(mine) in contender.names([folder / "more"])


@pytest.mark.parametrize(("says", "can"), [("python", True), ("no such module", False)])
def test_a_server_is_asked_for_its_own_count_only_where_it_can_say(folder: Path, says: str, can: bool) -> None:
    """A module that may not be compiled in: templates and the launch know whether it is."""
    served = '[needs]\ncommands = ["python3"]\n[served]\npath = "/s"\npattern = "(1)"\nsocket = "{scratch}/s"\n'
    served += f'if_command = ["python3", "-V"]\nif_says = "(?i){says}"\n'
    (folder / "run.sh").write_text("{% if served %}it counts{% endif %}")
    define(folder, GOOD.replace("[start]", f"{served}[start]", 1))
    scratch = folder / "launch"
    scratch.mkdir()
    entry = contender.entry(str(folder))
    start = contender.prepare(entry, scratch=scratch, port=1, cores=(0,), workload="hello")
    assert start.own_count == (contender.OwnCount(f"unix:{scratch}/s", "/s", "(1)") if can else None)
    assert (scratch / "run.sh").read_text() == ("it counts" if can else "")


def test_an_ad_hoc_command_is_split_as_a_shell_would_and_started_in_its_folder(tmp_path: Path) -> None:
    """`{port}` is filled in; no shell sees it; it runs as the user."""
    entry = contender.serve_entry('mine=./server "a b" --port {port} --threads={cores}', tmp_path)
    start = contender.prepare(entry, scratch=tmp_path / "s", port=8080, cores=(0, 1), workload="multiply")
    assert start.command == ("./server", "a b", "--port", "8080", "--threads=2")
    assert (start.name, start.cwd, start.unprivileged, entry.mark) == ("mine", tmp_path, False, "USER")


def test_only_a_profiled_definition_has_the_arguments_that_name_compiled_code(folder: Path) -> None:
    """After the program's own name; and the environment."""
    table = '\n[profiled]\narguments = ["-u"]\nenv = { NAMES = "{port}" }\n'
    entry = contender.variant(define(folder, GOOD + table))
    usual, profiled = (
        contender.prepare(made, scratch=_made(folder / name), port=7, cores=(0,), workload="hello")
        for made, name in ((entry, "usual"), (replace(entry, profiled=True), "profiled"))
    )
    assert profiled.command == (usual.command[0], "-u", str(folder / "profiled" / "run.sh"), "7")
    assert (usual.command[1:], "NAMES" in usual.env) == ((str(folder / "usual" / "run.sh"), "7"), False)
    assert profiled.env["NAMES"] == "7"


def _made(scratch: Path) -> Path:
    scratch.mkdir()
    return scratch


def test_only_a_profiled_command_names_the_code_that_its_runtime_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the environment; options for Node that the user has set stay set."""
    monkeypatch.setenv("NODE_OPTIONS", "--enable-source-maps")
    entry = contender.serve_entry("mine=node server.js {port}", tmp_path)
    usual, profiled = (
        contender.prepare(made, scratch=tmp_path / "s", port=1, cores=(0,), workload="hello").env
        for made in (entry, replace(entry, profiled=True))
    )
    assert usual == {"PORT": "1", "HOST": "127.0.0.1"}
    assert profiled["NODE_OPTIONS"].startswith("--enable-source-maps --perf-basic-prof")
    assert profiled["PYTHONPERFSUPPORT"] == "1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mine=A=1", ["has no program", "write --serve"]),
        ("./server --port {port}", ["a name and a command"]),
        ("=./server {port}", ["can't be shown"]),
        ("a\x1bb=./server {port}", ["can't be shown"]),
        (f"{'x' * 61}=./server {{port}}", ["1 to 60"]),
        ("mine=./server '{port}", ["can't be read"]),
        ("mine=./server {port} {prot}", ["unknown placeholder {prot}", "did you mean port"]),
        ("mine=./server {prot}", ["unknown placeholder {prot}", "did you mean port"]),
        ("mine=", ["a name and a command"]),
    ],
)
def test_a_bad_ad_hoc_command_is_refused(text: str, words: list[str]) -> None:
    """The message shows one that would do."""
    with pytest.raises(BadUsage) as refusal:
        contender.serve_entry(text)
    for word in words:
        assert word in str(refusal.value)


def test_an_ad_hoc_program_that_is_not_there_is_missing(tmp_path: Path) -> None:
    """Told before anything is started."""
    state = contender.check(contender.serve_entry("mine=./server {port}", tmp_path))
    assert isinstance(state, Missing)
    assert "./server" in state.reason


def test_a_url_is_an_address_on_this_machine() -> None:
    """The same server under its two spellings is one entrant."""
    ways = [contender.entry(text) for text in ("http://127.0.0.1:8080", "http://localhost:8080/")]
    assert ways[0] == ways[1]
    assert ways[0].url == contender.Address("127.0.0.1", 8080)
    assert isinstance(contender.check(ways[0]), Ready)


@pytest.mark.parametrize(
    "text",
    [
        "http://192.0.2.1/", "http://example.invalid/", "https://192.0.2.1/users", "http://127.0.0.1/#a",
        "http://127.0.0.1:0/", "http://u:p@127.0.0.1/", "http://127.0.0.1:99999/", "http://[2001:db8::1]/",
        "ftp://127.0.0.1/", "a=192.0.2.1:80/x", "http://b\u00fccher.localhost/",
    ],
)  # fmt: skip
def test_a_url_elsewhere_or_of_another_kind_is_refused(text: str) -> None:
    """Dragstrip loads only this machine; the message shows a valid address."""
    with pytest.raises(BadUsage, match=r"127\.0\.0\.1"):
        contender.entry(text)


@pytest.mark.parametrize("text", ["node:workers=2", "http://127.0.0.1:8080/", "serve", "own"])
def test_an_entry_comes_back_from_what_a_record_keeps(folder: Path, text: str) -> None:
    """Name, kind and parameters are enough to go on with a race."""
    define(folder)
    if text == "serve":
        entry = contender.serve_entry("mine=./server {port} 'a b'", folder)
    else:
        entry = contender.entry(f"{folder}:workers=3" if text == "own" else text)
    again = contender.entry_of(entry.name, entry.kind, dict(entry.parameters))
    assert replace(again, contender=None) == replace(entry, contender=None)


def test_a_workload_that_a_contender_lacks_is_refused_with_those_that_have_it(tmp_path: Path) -> None:
    """Before anything is prepared."""
    entry = contender.entry("nginx-return")
    with pytest.raises(BadUsage, match=r"multiply.*only hello.*nginx-lua"):
        contender.prepare(entry, scratch=tmp_path, port=1, cores=(0,), workload="multiply")
    assert list(tmp_path.iterdir()) == []


# --- readiness, builds, preparation ----------------------------------------------------------------------------


def test_the_hash_covers_the_definition_and_every_file_it_uses(folder: Path) -> None:
    """A changed template is another contender; a file beside it that it doesn't list is not."""
    before = define(folder).definition_hash
    (folder / "notes.txt").write_text("unrelated")
    assert define(folder).definition_hash == before
    (folder / "run.sh").write_text("echo other {{ port }}\n")
    assert define(folder).definition_hash != before
    assert len(before) == 64


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        ('commands = ["no-such-program"]', ["`no-such-program`", "PATH"]),
        ('files = ["/no/such/{arch}"]', ["/no/such/"]),
        ('files = ["{modules}/x.so"]', ["{modules}"]),
        ('python = ["no_such"]', ["`no_such`", "private environment"]),
        ('commands = ["sh"]\nrun = [["sh", "-c", "echo too old; exit 3"]]', ["status 3", "too old"]),
    ],
)
def test_what_is_missing_is_said_with_a_remedy(folder: Path, needs: str, words: list[str]) -> None:
    """A reason in words, never an exception; preparing it anyway is refused with the same words."""
    text = GOOD.replace("[start]", f'[install]\nhint = "https://example.invalid/get"\n[needs]\n{needs}\n[start]')
    mine = define(folder, text)
    state = contender.check(mine)
    assert isinstance(state, Missing)
    assert "https://example.invalid/get" in state.remedy
    for word in words:
        assert word in state.reason
    with pytest.raises(NotReady, match="is not ready"):
        contender.prepare(contender.variant(mine), scratch=folder / "s", port=1, cores=(0,), workload="hello")


def test_one_of_the_users_own_is_installed_by_its_folder_or_file(folder: Path) -> None:
    """Its name alone finds nothing; a shipped one's does."""
    mine = define(folder, GOOD.replace("[start]", '[install]\npip = ["x"]\n[needs]\npython = ["no_such"]\n[start]'))
    state = contender.check(mine)
    assert isinstance(state, Missing)
    assert state.remedy == f"`dragstrip install {mine.folder}` installs it"
    other = mine.folder / "my own.toml"
    (mine.folder / "contender.toml").rename(other)
    state = contender.check(contender.find(str(other)))
    assert isinstance(state, Missing)
    assert state.remedy == f"`dragstrip install '{other}'` installs it"


def nginx_at(folder: Path, configured: str, *modules: str, version: str = "nginx/1.99.9", holds: str = "") -> Path:
    """A stand-in for an nginx that was built elsewhere, as far as it is asked; with modules beside it.

    Args:
        version: after "nginx version: ". holds: words that stand in its bytes, as names do in a real program's.
    """
    (folder / "sbin").mkdir(parents=True)
    (folder / "modules").mkdir()
    for name in modules:
        (folder / "modules" / name).touch()
    program = folder / "sbin" / "nginx"
    output = f"configure arguments: --prefix={folder} {configured}"
    held = "".join(f"\0{word}\0" for word in holds.split(","))
    program.write_text(
        f"#!/bin/sh\necho nginx version: {version} >&2\n[ $1 = -v ] || echo '{output}' >&2\nexit 0\n{held}"
    )
    program.chmod(0o755)
    return program


#: What OpenResty's `nginx -V` says after its prefix, shortened, and the names of modules in its bytes.
OPENRESTY = "--add-module=../ngx_devel_kit-0.3.4 --add-module=../ngx_lua-0.10.29 --add-module=../ngx_lua_upstream-0.07"
OPENRESTY_NAMES = "ndk_http_module,ngx_http_lua_module,ngx_http_lua_upstream_module,LuaJIT 2.1.1753364724"


@pytest.mark.parametrize(
    "name", ["nginx-static", "nginx-return", "nginx-open-file-cache", "nginx-php-fpm", "fastcgi-lua54", "uwsgi-lua54"]
)
def test_openrestys_own_nginx_first_on_path_is_taken_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It is an nginx whose version names its maker; the message does not say that nginx is missing."""
    before = contender.check(contender.entry(name))
    if isinstance(before, Missing):
        pytest.skip(f"{name}: {before.reason}")
    program = nginx_at(tmp_path / "own", OPENRESTY, version="openresty/1.29.2.1", holds=OPENRESTY_NAMES)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    state = contender.check(contender.entry(name))
    assert isinstance(state, Ready), state
    assert state.programs["nginx"] == program
    assert state.version.split()[0] == "openresty/1.29.2.1"
    assert dict(state.programs) == dict(before.programs) | {"nginx": program}


def test_a_program_that_says_no_version_is_passed_by_and_alone_is_never_a_reason_to_edit_the_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one on PATH serves; where the user insists, another place is asked for, not another definition."""
    program = nginx_at(tmp_path / "odd", "", version="of my own making")
    program.write_text(program.read_text().replace("nginx version:", "this is an nginx"))
    before = contender.check(contender.entry("nginx-return"))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert contender.check(contender.entry("nginx-return")) == before
    state = contender.check(contender.entry(f"nginx-return:program={program}"))
    assert isinstance(state, Missing)
    assert "doesn't print a version that matches" in state.reason
    assert "`--set nginx-return.program=/path/to/nginx` names another `nginx`" in state.remedy
    assert "contender.toml" not in state.remedy


def test_a_version_that_a_definition_of_ones_own_misreads_is_ones_own_to_correct(folder: Path) -> None:
    """There the file is named."""
    command = '[needs]\ncommands = ["sh"]\n[version]\ncommand = ["sh", "-c", "echo one"]\npattern = "two (.)"\n'
    text = GOOD.replace("[start]", f"{command}[start]")
    state = contender.check(define(folder, text))
    assert isinstance(state, Missing)
    assert state.remedy == f"correct [version] in {folder}/contender.toml"


#: What redbean is to the kernel: no format it can execute, a script to a shell, which unpacks a loader.
PORTABLE = """MZqFpD='
'
touch "${TMPDIR:-${HOME:-.}}/.ape"
echo "portable 7.$2"
"""


@pytest.mark.parametrize("placed", ["on PATH", "by the user"])
def test_a_version_may_be_asked_through_a_shell_and_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch, placed: str
) -> None:
    """A shell is found on PATH; the program after it stands for its place, under whatever name it has there."""
    program = folder / "bin" / ("portable" if placed == "on PATH" else "portable-2.com")
    program.parent.mkdir()
    program.write_text(PORTABLE)
    program.chmod(0o755)
    home, temporary = folder / "home", folder / "temporary"
    home.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("DRAGSTRIP_CACHE", str(folder / "cache"))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    command = '[needs]\ncommands = ["portable"]\n[version]\ncommand = ["sh", "portable", "-v", "3"]\n'
    define(folder, GOOD.replace("[start]", f"{command}pattern = 'portable (.+)'\n[start]"))
    given = "" if placed == "on PATH" else f":program={program}"
    state = contender.check(contender.entry(f"{folder}/contender.toml{given}"))
    assert isinstance(state, Ready), state
    assert (state.version, dict(state.programs)) == ("7.3", {"portable": program})
    assert list(home.iterdir()) == list(temporary.iterdir()) == []


def test_a_program_after_a_shell_is_asked_again_once_it_is_another(folder: Path) -> None:
    """What it said is kept for the state of each file that the command names."""
    program = folder / "portable"
    for version in ("1", "22"):
        program.write_text(f"echo portable {version}\n")
        program.chmod(0o755)
        assert discovery.output_of(("sh", str(program))) == f"portable {version}\n"
    assert discovery.output_of(("sh", "-c", f"echo {'long' * 100}")) == "long" * 100 + "\n", "longer than a path can be"


@pytest.mark.parametrize(
    ("name", "configured", "holds", "version"),
    [
        ("nginx-lua", OPENRESTY, OPENRESTY_NAMES, "1.99.9 (ngx_lua-0.10.29; LuaJIT 2.1.1753364724)"),
        ("nginx-lua", "--add-module=/a --add-module=/b", "ndk_http_module,ngx_http_lua_module", "1.99.9"),
        ("nginx-lws", "--add-module=/build/42", "lws_module,$LuaVersion: Lua 5.4.7 ", "1.99.9 (Lua 5.4.7)"),
        ("nginx-lws", "--add-module=../nginx-lws-1.2", "lws_module", "1.99.9 (nginx-lws-1.2)"),
        ("ngx-mruby", "--add-module=/build/42", "ngx_http_mruby_module,mruby 3.3.0 (2024)", "1.99.9 (mruby 3.3.0)"),
        ("ngx-mruby", "--add-module=/src/ngx_mruby", "", "1.99.9 (ngx_mruby)"),
        ("nginx-njs", "--add-module=/src/njs-0.8.10/nginx", "ngx_http_js_module", "1.99.9"),
    ],
)  # fmt: skip
def test_a_built_in_module_is_known_by_what_it_is_and_its_language_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, configured: str, holds: str, version: str
) -> None:
    """By the names in the program's bytes, whatever the folder was called; no module is loaded a second time."""
    program = nginx_at(tmp_path / "inside", configured, holds=holds)
    bare = nginx_at(tmp_path / "bare", "--add-module=/a/lua-upstream", holds="ngx_http_lua_upstream_module")
    monkeypatch.setenv("PATH", f"{bare.parent}:{program.parent}:{os.environ['PATH']}")
    state = contender.check(contender.entry(name))
    assert isinstance(state, Ready), state
    assert (state.programs["nginx"], state.version) == (program, version)
    (tmp_path / "scratch").mkdir()
    start = contender.prepare(contender.entry(name), scratch=tmp_path / "scratch", port=1, cores=(0,), workload="hello")
    assert start.command[0] == str(program)
    assert "load_module" not in (tmp_path / "scratch" / "nginx.conf").read_text()


def test_a_module_is_known_by_its_sources_where_the_program_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that stands for nginx has no names in it; the sources' own `config` has."""
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "config").write_text('ngx_feature="Lua"\nngx_addon_name=ngx_http_lua_module\n')
    program = nginx_at(tmp_path / "inside", f"--add-module={tmp_path}/sources")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    state = contender.check(contender.entry("nginx-lua"))
    assert isinstance(state, Ready), state
    assert state.programs["nginx"] == program


def test_openresty_is_warmed_up_as_nginx_lua_is() -> None:
    """It is the same module."""
    openresty, nginx_lua = (contender.find(name).fields.warm_up for name in ("openresty", "nginx-lua"))
    assert openresty == nginx_lua
    assert openresty.lead_ms < 10


def test_a_real_programs_modules_and_libraries_are_read(folder: Path) -> None:
    """Of the system's own nginx; a file that isn't there has none."""
    place = next((path for path in ("/usr/sbin/nginx", "/usr/local/sbin/nginx") if Path(path).exists()), None)
    if place is None:
        pytest.skip("nginx is not installed")
    names = discovery.module_names(Path(place))
    assert {"ngx_core_module", "ngx_http_core_module"} <= set(names)
    assert "ngx_http_mruby_module" not in names
    assert any(library.name.startswith("libc.so") for library in discovery.linked(Path(place)))
    assert discovery.first_match(r"(GNU C Library)", [folder / "nothing", Path(place)]) == "GNU C Library"
    assert discovery.first_match(r"(no such words, ever\?)", [Path(place)]) is None


@pytest.mark.parametrize("name", ["nginx-lws", "ngx-mruby"])
def test_a_module_that_no_registry_holds_is_found_beside_any_nginx_on_path_or_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Without --modules-path it lies under the prefix; built in it needs no file; an nginx without it is passed by."""
    file, part = {"nginx-lws": ("lws_module.so", "lws"), "ngx-mruby": ("ngx_http_mruby_module.so", "mruby")}[name]
    bare = nginx_at(tmp_path / "bare", "")
    beside = nginx_at(tmp_path / "beside", "", file)
    inside = nginx_at(tmp_path / "inside", f"--add-module=/src/{part}-2.0 --add-module=/src/ngx_devel_kit")
    entry = contender.entry(name)
    for program in (beside, inside):
        monkeypatch.setenv("PATH", f"{bare.parent}:{program.parent}:{os.environ['PATH']}")
        state = contender.check(entry)
        assert isinstance(state, Ready), state
        assert state.programs["nginx"] == program
        scratch = tmp_path / f"scratch of {program.parents[1].name}"
        scratch.mkdir()
        start = contender.prepare(entry, scratch=scratch, port=1, cores=(0,), workload="hello")
        assert start.command[0] == str(program)
        text = (scratch / "nginx.conf").read_text()
        assert (f"load_module {tmp_path}/beside/modules/{file};" in text) == (program == beside)
        assert ("load_module" in text) == (program == beside)


def test_an_nginx_without_what_is_needed_does_not_hide_the_one_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A private nginx that comes first on PATH takes the races that it can serve, and no others."""
    before = contender.check(contender.entry("nginx-lua"))
    if isinstance(before, Missing):
        pytest.skip(f"nginx-lua is not installed: {before.reason}")
    program = nginx_at(tmp_path / "mine", "", "lws_module.so")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert contender.check(contender.entry("nginx-lua")) == before
    state = contender.check(contender.entry("nginx-return"))
    assert isinstance(state, Ready)
    assert state.programs["nginx"] == program


def test_preparing_renders_and_copies_readable_files_and_settles_the_command(folder: Path, tmp_path: Path) -> None:
    """Templates know port, cores and parameters; {cores} is their number; an umask doesn't shut out ``nobody``."""
    (folder / "sub").mkdir()
    (folder / "sub" / "data").write_text("{{ left as it is }}")
    text = GOOD.replace("workers = 2", 'workers = "{cores}"').replace("render =", 'copy = ["sub/data"]\nrender =')
    scratch = tmp_path / "scratch"
    before = os.umask(0o077)
    try:
        scratch.mkdir()
        entry = contender.variant(define(folder, text))
        start = contender.prepare(entry, scratch=scratch, port=8080, cores=(2, 3, 5), workload="hello")
    finally:
        os.umask(before)
    assert (scratch / "run.sh").read_text() == "echo 3 on 8080\n"
    assert (scratch / "sub" / "data").read_text() == "{{ left as it is }}"
    assert start.command == ("sh", f"{scratch}/run.sh", "8080")
    assert entry.parity == {"workers": "one per core of the servers"}
    assert scratch.stat().st_mode & 0o055 == 0o055
    assert (scratch / "sub").stat().st_mode & 0o055 == 0o055
    assert (scratch / "sub" / "data").stat().st_mode & 0o044 == 0o044


def test_templates_know_the_workloads_files_whatever_it_is_called(folder: Path, tmp_path: Path) -> None:
    """njs preloads the items, and Granian mounts the folder, where there are such: of a mix of one's own, too."""
    mine = contender.variant(define(folder))
    items = '{% if "items.json" in data_files %}items {% endif %}'
    (folder / "run.sh").write_text(items + '{% if "static/" in data_files | join(" ") %}files{% endif %}')
    for data, rendered in (({}, ""), ({"items.json": b"[]", "static/1.bin": b"1"}, "items files")):
        scratch = tmp_path / f"scratch {rendered}"
        scratch.mkdir()
        contender.prepare(mine, scratch=scratch, port=1, cores=(0,), workload="hello", data=data)
        assert (scratch / "run.sh").read_text() == rendered


@pytest.mark.parametrize("template", ["fine\n{{ prot }}\n", "fine\n{% if %}\n"])
def test_a_template_that_cannot_be_filled_is_refused_by_file_and_line(folder: Path, template: str) -> None:
    """Unknown names are an error, never an empty text."""
    mine = define(folder)
    (folder / "run.sh").write_text(template)
    with pytest.raises(BadDefinition, match=r"run\.sh:2: template"):
        contender.prepare(contender.variant(mine), scratch=folder / "s", port=1, cores=(0,), workload="hello")


BUILT = GOOD.replace(
    "[start]",
    '[needs]\ncommands = ["sh"]\n[build]\ncommand = ["sh", "make.sh", "{build}"]\nfiles = ["make.sh"]\n[start]',
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAGSTRIP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_build_runs_once_and_again_when_a_file_of_it_changes(folder: Path, cache: Path) -> None:
    """It works on a copy of its files, leaves the definition's folder alone, and what it made is kept."""
    (folder / "make.sh").write_text(f"date >> {folder}/times; echo made > $1/server; chmod 700 $1/server; touch here")
    first = contender.build(contender.variant(define(folder, BUILT)))
    assert contender.build(contender.variant(define(folder, BUILT))) == first
    assert first is not None
    assert len((folder / "times").read_text().splitlines()) == 1
    assert first.is_relative_to(cache)
    assert not (folder / "here").exists()
    assert (first / "server").stat().st_mode & 0o755 == 0o755
    (folder / "make.sh").write_text(f"date >> {folder}/times; echo other > $1/server")
    assert contender.build(contender.variant(define(folder, BUILT))) != first
    assert len((folder / "times").read_text().splitlines()) == 2
    assert not list(cache.glob("builds/.*"))


def test_a_failing_build_shows_the_compilers_last_lines_and_leaves_nothing(folder: Path, cache: Path) -> None:
    """The next try builds again."""
    (folder / "make.sh").write_text("for i in $(seq 99); do echo line $i; done; echo undefined: Foo >&2; exit 7")
    with pytest.raises(
        StageError, match=r"mine: its build failed with status 7[^$]*line 99\nundefined: Foo"
    ) as refusal:
        contender.build(contender.variant(define(folder, BUILT)))
    assert "line 50\n" not in str(refusal.value)
    assert list(cache.glob("builds/*")) == []


def test_programs_come_from_path_first_and_then_from_a_private_environment(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alternative's own place for a program is a pattern within its environment."""
    way = '[needs]\ncommands = ["thing"]\n[[install.alternatives]]\npip = ["thing-wheel"]\n'
    way += 'programs.thing = "lib/*/thing"\n'
    mine = define(folder, GOOD.replace("[start]", f"{way}[start]"))
    assert isinstance(contender.check(mine), Missing)
    private = contender.environment(["thing-wheel>=2"]) / "lib" / "python3" / "thing"
    private.parent.mkdir(parents=True)
    private.write_text("#!/bin/sh\n")
    private.chmod(0o755)
    assert discovery.find_programs(mine) == {"thing": private}
    (folder / "bin").mkdir()
    shutil.copy(private, folder / "bin" / "thing")
    monkeypatch.setenv("PATH", f"{folder}/bin", prepend=os.pathsep)
    assert discovery.find_programs(mine) == {"thing": folder / "bin" / "thing"}


# --- the shipped ones ------------------------------------------------------------------------------------------


def test_shipped_definitions_are_named_like_their_folders_and_marked_apart() -> None:
    """Old results point at names; marks tell answers apart; the line-up names only what there is."""
    shipped = contender.shipped()
    assert len(shipped) >= 8
    assert all(definition.folder.name == name for name, definition in shipped.items())
    marks = [definition.fields.mark for definition in shipped.values() if "multiply" in definition.fields.workloads]
    assert all(len(mark) == 4 for mark in marks)
    assert len(set(marks)) == len(marks)
    line_up = contender.line_up("default")
    assert len(line_up.names) == 8
    assert all(load_workload(line_up.workload).name in shipped[name].fields.workloads for name in line_up.names)


def test_every_shipped_contender_serves_a_workload_or_says_why_not() -> None:
    """A reason that goes with what it serves, or with no workload at all, would be in the table for nothing."""
    workloads = {"hello", "multiply", "json", "post", "static", "delay", "pipelined", "db", "queries"}
    for name, definition in contender.shipped().items():
        assert {*definition.fields.workloads, *definition.fields.unable} >= workloads, name
        assert {*definition.fields.unable} <= {*workload_names()}, name
        assert all(definition.fields.unable.values()), name


def test_a_workload_that_is_served_and_not_served_is_refused(folder: Path) -> None:
    """Whose, which field, and what would do."""
    (folder / "contender.toml").write_text(GOOD.replace("[parameters]", '[unable]\nhello = "too much"\n\n[parameters]'))
    with pytest.raises(BadDefinition, match=r"toml:8: unable.hello: is also among its workloads; take"):
        contender.load(folder / "contender.toml")


def test_no_shipped_definition_installs_what_pushes_out_the_nginx_lua_module() -> None:
    """Debian 12's own LuaJIT conflicts with OpenResty's branch, luajit2; Debian 13's is that branch."""
    for definition in contender.shipped().values():
        for text in definition.fields.install.debian:
            first, *others = alternatives(text)
            assert not first.startswith(("luajit", "libluajit")) or (first.find("2") > 0 and others), definition.name


def test_what_a_version_lacks_is_said_by_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parameter's value that a later version has first; a value that is not a choice is refused."""
    text = GOOD.replace(
        "[parameters]",
        '[since]\n"http=2,tls=off" = "1.24"\n\n[choices]\nhttp = ["1.1", "2"]\ntls = ["off", "on"]\n\n'
        '[parameters]\nhttp = "1.1"\ntls = "off"',
    )
    file = folder / "contender.toml"
    file.write_text(text)
    for version, words, ready in (
        ("1.19.8 (2:1.19~1)", ":http=2", False), ("1.19.8", ":http=2,tls=on", True), ("1.19.8", "", True),
        ("1.24", ":http=2", True), ("1.100.1", ":http=2", True), ("unknown", ":http=2", True),
    ):  # fmt: skip
        monkeypatch.setattr(discovery, "look", lambda _, version=version: Ready(version, {"prog": Path("/x/prog")}))
        state = contender.check(contender.entry(f"{folder}{words}"))
        assert isinstance(state, Ready) == ready, (version, words)
        if not ready:
            assert state.reason == f"http=2,tls=off needs `prog` 1.24 or later; this is {version}"
    for before, after, told in (
        ('"http=2,tls=off"', '"http=3"', "http has no choice '3'; give values of"),
        ('"1.24"', '"new"', "given 'new'; give a version"),
    ):  # fmt: skip
        file.write_text(text.replace(before, after))
        with pytest.raises(BadDefinition, match=told):
            contender.load(file)
