"""Who is meant on the command line: folders of one's own, settings, names of one's own, two versions of one program."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dragstrip import contender
from dragstrip.commands.main import cli
from dragstrip.contender import Missing, Ready, entrants, serve_entry
from dragstrip.errors import BadDefinition, BadUsage
from dragstrip.racing.request import Request, refuse_unfit_load
from dragstrip.workload import Asking, Data, several
from dragstrip.workload import load as load_workload

MINE = """\
name = "my-server"
title = "Mine"
host = "mine"
language = "Python"
workloads = ["hello"]

[needs]
commands = ["python3"]

[version]
command = ["python3", "--version"]
pattern = 'Python (\\S+)'

[parameters]
greeting = "hello world"

[start]
command = ["python3", "-I", "{scratch}/server.py", "{port}", "{greeting}"]
copy = ["server.py"]
wake_s = 2
"""

SERVER = """\
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = sys.argv[2].encode() + b"\\n"
        self.send_response(200 if self.path == "/" else 404)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        if self.headers["Connection"] == "close":
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that ``nobody`` may read (pytest's own is closed to other users)."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.fixture
def mine(folder: Path) -> Path:
    """A folder with one definition of a user's own, in a folder that is called otherwise than the contender."""
    definition = folder / "definitions" / "anything"
    definition.mkdir(parents=True)
    (definition / "contender.toml").write_text(MINE)
    (definition / "server.py").write_text(SERVER)
    return folder / "definitions"


def dragstrip(*words: str) -> Result:
    """The command line; refusals come out as exceptions."""
    return CliRunner().invoke(cli, words, catch_exceptions=False)


def test_a_folder_of_ones_own_is_found_by_option_and_by_variable(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name in the definition, not the folder's; listed with the shipped ones; its file is kept in the record."""
    with pytest.raises(BadUsage, match="unknown contender 'my-server'"):
        contender.entry("my-server")
    entry = contender.entry("my-server", [mine])
    assert entry.parameters["definition"] == str(mine / "anything" / "contender.toml")
    monkeypatch.setenv("DRAGSTRIP_CONTENDERS", f"{mine}{os.pathsep}{mine}")
    assert contender.entry("my-server") == entry
    rows = {row["name"]: row for row in json.loads(dragstrip("contenders", "--json").stdout)}
    assert rows["my-server"]["status"] == "ready"
    assert len(rows) == len(contender.shipped()) + 1
    monkeypatch.setenv("DRAGSTRIP_CONTENDERS", "/no/such/folder")
    with pytest.raises(BadUsage, match=r"DRAGSTRIP_CONTENDERS: /no/such/folder is not a folder"):
        contender.entry("node")


def test_a_name_that_a_shipped_contender_has_is_refused(mine: Path) -> None:
    """Nothing says which of the two is meant."""
    file = mine / "anything" / "contender.toml"
    file.write_text(MINE.replace("my-server", "node"))
    with pytest.raises(BadUsage, match="has the name of a shipped contender, 'node'"):
        contender.entry("node", [mine])


def test_two_definitions_of_one_name_are_refused(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing says which of the two is meant; one folder that is named twice, otherwise each time, is one."""
    monkeypatch.chdir(mine)
    monkeypatch.setenv("DRAGSTRIP_CONTENDERS", str(mine))
    assert contender.entry("my-server", [Path()]).name == "my-server"
    shutil.copytree(mine / "anything", mine / "copy")
    with pytest.raises(BadUsage, match=f"{mine}/anything and {mine}/copy both define 'my-server'; change the name"):
        contender.entry("my-server")


@pytest.mark.parametrize("text", ["title = ", MINE.replace("[start]", "[begin]"), 'name = "x"\n'])
def test_a_broken_definition_keeps_no_other_from_racing(mine: Path, text: str) -> None:
    """It is listed as broken with its error, fails `verify` of all, and is refused by its own error if it is named."""
    bad = mine / "bad"
    bad.mkdir()
    (bad / "contender.toml").write_text(text)
    given = ("--contenders", str(mine))
    assert contender.entry("my-server", [mine]).name == "my-server"
    assert [entry.name for entry in contender.entrants(["node", "my-server"], extra_dirs=[mine])] == [
        "node",
        "my-server",
    ]
    rows = {row["name"]: row for row in json.loads(dragstrip("contenders", "--json", *given).stdout)}
    assert (rows["my-server"]["status"], rows[str(bad)]["status"]) == ("ready", "broken")
    assert str(bad / "contender.toml") in rows[str(bad)]["reason"]
    assert "broken" in dragstrip("contenders", *given).stdout
    for word in ("bad", str(bad)):
        with pytest.raises(BadDefinition, match=str(bad)):
            contender.entry(word, [mine])
    with pytest.raises(BadUsage, match="unknown contender 'other'"):
        contender.entry("other", [mine])


def test_a_hash_tells_variants_apart_and_programs_of_one_command(tmp_path: Path) -> None:
    """Parameters other than the definition's own, the program's bytes, and the script that an interpreter runs."""
    plain, first, second = (contender.entry(f"nginx-return{text}") for text in ("", ":workers=1", ":workers=2"))
    assert len({plain.definition_hash, first.definition_hash, second.definition_hash}) == 3
    labelled = contender.entry("mine=nginx-return:workers=1")
    again = contender.entry_of(labelled.name, labelled.kind, labelled.parameters)
    assert first.definition_hash == labelled.definition_hash == again.definition_hash
    assert contender.entry("mine=nginx-return").definition_hash == plain.definition_hash
    (tmp_path / "server").write_text("one")
    for command in ("./server --port {port}", "sh server {port}", "sh -x server {port}"):
        (tmp_path / "server").write_text("one")
        before = contender.serve_entry(f"mine={command}", tmp_path)
        assert contender.serve_entry(f"mine={command}", tmp_path).definition_hash == before.definition_hash
        (tmp_path / "server").write_text("another build")
        assert contender.serve_entry(f"mine={command}", tmp_path).definition_hash != before.definition_hash, command
    assert contender.serve_entry("mine=/no/such {port}", tmp_path).definition_hash


@pytest.mark.live
@pytest.mark.thorough
def test_every_command_takes_folders_and_settings(mine: Path) -> None:
    """verify starts it with the parameter that was set, and refuses it then; install has nothing to do."""
    given = ("--contenders", str(mine))
    done = dragstrip("verify", "my-server", *given)
    assert (done.exit_code, done.stdout.split()[:2]) == (0, ["passed", "my-server"])
    done = dragstrip("verify", "my-server", *given, "--set", "my-server.greeting=good morning")
    assert done.exit_code == 1
    assert "FAILED   my-server:greeting=good morning" in done.stdout
    assert "everything is installed already" in dragstrip("install", "my-server", *given).stdout


def test_a_setting_counts_for_all_of_a_name_and_a_word_of_its_own_wins() -> None:
    """A parameter becomes part of the name, because it makes another contender."""
    entries = contender.entrants(
        ["nginx-lua", "nginx-lua:workers=3", "quick=nginx-lua", "node"],
        settings=["nginx-lua.workers=2", "quick.workers=4"],
    )
    assert [entry.name for entry in entries] == ["nginx-lua:workers=2", "nginx-lua:workers=3", "quick", "node"]
    assert [entry.parameters.get("workers") for entry in entries[:2]] == [2, 3]


@pytest.mark.parametrize(
    ("words", "setting", "refusal"),
    [
        (["node"], "nobody.workers=2", "no such contender in this command.*node"),
        (["node"], "node.workers", "a key and a value are needed"),
        (["node"], "node.wrokers=2", "no parameter 'wrokers'; did you mean workers"),
        (["http://127.0.0.1:1/"], "node.workers=2", "no such contender in this command"),
        (["go-luajit"], "go-luajit.mode=fil", "mode=fil: give one of cached, file, string"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(words: list[str], setting: str, refusal: str) -> None:
    """With what would do."""
    with pytest.raises(BadUsage, match=refusal):
        contender.entrants(words, settings=[setting])


def test_a_program_of_the_users_own_makes_a_missing_contender_ready(folder: Path) -> None:
    """Its name stays; the parity sheet has its path; a file that can't be executed is reported."""
    program = folder / "openresty"
    program.write_text("#!/bin/sh\necho nginx version: openresty/1.27.1.2\n")
    (entry,) = contender.entrants(["openresty"], settings=[f"openresty.program={program}"])
    state = contender.check(entry)
    assert isinstance(state, Missing)
    assert f"{program} is not an executable program" in state.reason
    assert state.remedy == "give the path of one"  # to install the contender would change nothing
    program.chmod(0o755)
    state = contender.check(entry)
    assert isinstance(state, Ready)
    assert state.version == "1.27.1.2"
    assert (entry.name, entry.parity["place of openresty"]) == ("openresty", str(program))


def test_an_entrant_with_a_name_or_a_program_of_its_own_comes_back_from_its_record(folder: Path) -> None:
    """A resumed race means the same ones."""
    program = shutil.copy(shutil.which("sh") or "/bin/sh", folder / "nginx")
    given = ["new=nginx-lua:workers=2", f"nginx-return:program={program}", f"x=nginx-lua:nginx={program}"]
    for entry in contender.entrants([*given, "nginx-static"], settings=[f"nginx-static.program={program}"]):
        assert contender.entry_of(entry.name, entry.kind, dict(entry.parameters)) == entry


@pytest.mark.contenders
def test_two_versions_of_one_program_race_under_names_of_their_own(folder: Path) -> None:
    """A copy of nginx beside nginx, alone and called by a launcher of several programs; each from its own place."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None or isinstance(contender.check(contender.entry("nginx-php-fpm")), Missing):
        pytest.skip("nginx or PHP-FPM is not installed")
    copy = shutil.copy(nginx, folder / "nginx")
    done = dragstrip(
        "race", f"old=nginx-return:program={copy}", "new=nginx-return", f"php=nginx-php-fpm:nginx={copy}",
        "--rounds", "2", "--json", str(folder / "out.json"), "--store", str(folder / "store.sqlite"),
    )  # fmt: skip
    assert "is out" not in done.stdout
    out = json.loads((folder / "out.json").read_text())
    # Loaded in every round; whether the machine lets a round count is not this test's business.
    loaded = [{name for one in passes for name in one} for passes in out["order"]]
    assert len(loaded) >= 2
    assert all(names == {"old", "new", "php"} for names in loaded)


def test_a_version_is_read_from_a_help_text_too_and_a_pattern_that_finds_none_is_told(mine: Path) -> None:
    """Many end with a failure when asked for help; a wrong pattern is the definition's fault, not the machine's."""
    file = mine / "anything" / "contender.toml"
    command = MINE.replace('["python3", "--version"]', '["python3", "-c", "raise SystemExit(\'Python 7.8\')"]')
    file.write_text(command)
    state = contender.check(contender.entry("my-server", [mine]))
    assert isinstance(state, Ready)
    assert state.version.startswith("7.8")
    file.write_text(command.replace("pattern = 'Python", "pattern = 'Cobra"))
    state = contender.check(contender.entry("my-server", [mine]))
    assert isinstance(state, Missing)
    assert state.remedy == f"correct [version] in {file}"


@pytest.mark.parametrize(("kind", "parameters"), [("serve", {}), ("serve", {"command": 1, "folder": "/"}), ("url", {})])
def test_a_record_without_its_server_is_refused_in_words(kind: str, parameters: dict[str, str | int]) -> None:
    """Its file may be anybody's."""
    with pytest.raises(BadUsage, match="its record lacks its"):
        contender.entry_of("mine", kind, parameters)


CONTAINER = """
name = "mine"
title = "Mine"
host = "mine"
language = "C"
workloads = ["hello"]

[container]
image = "mine.tar"
"""


def test_a_container_needs_no_start_command_and_its_file_is_beside_the_definition(tmp_path: Path) -> None:
    (tmp_path / "contender.toml").write_text(CONTAINER)
    assert contender.entry(str(tmp_path)).container.image == "mine.tar"  # type: ignore[union-attr]
    (tmp_path / "mine.tar").touch()
    made = contender.entry(str(tmp_path))
    assert made.container is not None
    assert made.container.image == str(tmp_path / "mine.tar")
    assert contender.commands(made)[0].startswith("mine: its image (definition ")


def test_a_wrong_key_of_a_container_is_named(tmp_path: Path) -> None:
    for text, why in (
        ("port = 0", "container.port: given 0"),
        ('engine = "lxc"', "container.engine: given 'lxc'"),
        ("prot = 1", "container.prot: unknown key"),
        ('mounts = { "/data" = "{date}" }', "container.mounts"),
    ):
        (tmp_path / "contender.toml").write_text(f"{CONTAINER}{text}\n")
        with pytest.raises(BadDefinition, match=why):
            contender.entry(str(tmp_path))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("port = 8080", "container: has neither image nor build; give `image = "),
        ('image = "a.tar"\nbuild = "src"', "container: has both image and build"),
        ('image = "a.tar"\ndockerfile = "b"', "container.dockerfile: is given without `build`"),
        ('image = "a.tar"\nargs = { A = "1" }', "container.args: is given without `build`"),
        ('build = "src"\nengine = "none"', "container.engine: given 'none' with `build`"),
        ('build = "src"\ndockerfile = "../b"', "container.dockerfile: given '../b'"),
        ('build = "src"\nargs = { A = 1 }', "container.args.A: given 1; give a text"),
    ],
)
def test_a_build_of_an_image_must_be_whole(tmp_path: Path, keys: str, expected: str) -> None:
    (tmp_path / "contender.toml").write_text(CONTAINER.replace('image = "mine.tar"', keys))
    with pytest.raises(BadDefinition) as refused:
        contender.entry(str(tmp_path))
    assert expected in str(refused.value)


def test_the_folder_of_a_build_is_beside_the_definition(tmp_path: Path) -> None:
    (tmp_path / "contender.toml").write_text(CONTAINER.replace('image = "mine.tar"', 'build = "../src"'))
    made = contender.entry(str(tmp_path))
    assert made.container is not None
    assert made.container.build == str(tmp_path.parent / "src")
    assert "by the commands in its Dockerfile" in contender.commands(made)[1]


def test_an_image_entry_is_made_again_from_its_record(tmp_path: Path) -> None:
    (tmp_path / "mine.tar").write_bytes(b"1")
    made = contender.image_entry("mine=mine.tar", tmp_path, wake_s=30.0)
    again = contender.entry_of(made.name, made.kind, made.parameters)
    assert (again, again.wake_s) == (made, 30.0)
    (tmp_path / "mine.tar").write_bytes(b"2")
    assert contender.entry_of(made.name, made.kind, made.parameters).definition_hash != made.definition_hash
    assert contender.image_entry("mine=registry.example/mine:1").container.image == "registry.example/mine:1"  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["mine", "=image", "mine=", "\n=image", "x" * 61 + "=image"])
def test_an_image_without_a_usable_name_is_refused(text: str) -> None:
    with pytest.raises(BadUsage, match="--image"):
        contender.image_entry(text)


@pytest.mark.parametrize(
    ("word", "name", "url"),
    [
        ("127.0.0.1:39011", "http://127.0.0.1:39011/", "http://127.0.0.1:39011/"),
        ("localhost:80", "http://127.0.0.1:80/", "http://127.0.0.1:80/"),
        ("[::1]:80/users?x=1", "http://[::1]:80/users?x=1", "http://[::1]:80/users?x=1"),
        ("[::1]:80?x=a=b", "http://[::1]:80/?x=a=b", "http://[::1]:80/?x=a=b"),
        ("chi=http://127.0.0.1/", "chi", "http://127.0.0.1:80/"),
        ("my chi=0.0.0.0:3000/users", "my chi", "http://127.0.0.1:3000/users"),
        ("https://127.0.0.1/a", "https://127.0.0.1:443/a", "https://127.0.0.1:443/a"),
        ("b=https://localhost:3443", "b", "https://localhost:3443/"),
        ("http://app.localhost:3000/", "http://app.localhost:3000/", "http://app.localhost:3000/"),
    ],
)
def test_a_running_server_is_named_as_people_type_it(word: str, name: str, url: str) -> None:
    """Without a scheme, with a path, with a name of its own; its record gives the same entrant again."""
    (made,) = entrants([word])
    assert (made.name, made.kind, made.parameters["url"]) == (name, "url", url)
    assert made.url is not None
    assert made.url.host in ("127.0.0.1", "::1")
    assert contender.entry_of(made.name, made.kind, dict(made.parameters)) == made


def test_a_name_in_a_url_is_what_is_sent_and_certified() -> None:
    """An IP address and localhost are neither: their requests have the same bytes as everybody's."""
    plain, named = entrants(["http://localhost:3000/users", "http://app.localhost/users?x=1"])
    assert plain.url is not None
    assert named.url is not None
    assert (plain.url.authority, plain.url.certified, plain.path("hello")) == ("", "", "/users")
    assert (named.url.authority, named.path("any")) == ("app.localhost", "/users?x=1")
    assert named.parameters["address"] == "127.0.0.1"
    assert named.parity == {"path": "/users?x=1", "Host": "app.localhost"}
    texts = [Asking.of(load_workload("hello"), 1, entry, Data()).exchanges()[0].request for entry in (plain, named)]
    assert texts[0].startswith(b"GET /users HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    assert texts[1].startswith(b"GET /users?x=1 HTTP/1.1\r\nHost: app.localhost\r\n")
    secure = entrants(["https://localhost:3443/", "https://[::1]:3443/", "https://app.localhost/"])
    certified = [(entry.url.certified, entry.url.authority, entry.tls) for entry in secure if entry.url is not None]
    expected = [("localhost", "", True), ("::1", "", True), ("app.localhost", "app.localhost", True)]
    assert certified == expected


def test_the_path_of_a_url_is_the_workload_unless_one_is_given() -> None:
    """The first one's names it if paths differ, since each server is asked at its own."""
    words = ["http://127.0.0.1:1/", "a=http://127.0.0.1:2/users?x=1", "b=http://127.0.0.1:3/v2/users"]
    made = entrants(words)
    assert contender.workload_word_of(made) == "/users?x=1"
    assert contender.workload_word_of(made[:1]) == ""
    assert [entry.path("hello") for entry in made] == ["", "/users?x=1", "/v2/users"]


def test_what_certificates_are_trusted_comes_back_from_the_record(tmp_path: Path) -> None:
    """And is refused where no certificate is asked for, or if its file has none."""
    words = ["https://localhost:3443/", "http://127.0.0.1:1/"]
    any_certificate = entrants(words, trust=contender.Trust.given(None, insecure=True))
    assert any_certificate[0].parameters["insecure"] is True
    assert "insecure" not in any_certificate[1].parameters
    (named, _) = entrants(words, trust=contender.Trust(str(tmp_path / "ca.pem")))
    for entry in (any_certificate[0], named):
        assert contender.entry_of(entry.name, entry.kind, dict(entry.parameters)) == entry
    with pytest.raises(BadUsage, match="--insecure is for servers at https://"):
        entrants(words[1:], trust=contender.Trust.given(None, insecure=True))
    (tmp_path / "not.pem").write_text("no certificate")
    for file in ("not.pem", "absent.pem"):
        with pytest.raises(BadUsage, match=f"--cacert .*{file}: can't be used"):
            contender.Trust.given(str(tmp_path / file), insecure=False)


@pytest.mark.parametrize(("workload", "word"), [("multiply", "127.0.0.1:1/mul"), ("hello,json", "127.0.0.1:1/users")])
def test_a_url_with_a_path_is_asked_for_one_request(workload: str, word: str) -> None:
    """Drawn paths, and several workloads, have paths of their own."""
    first, *also = several(workload)
    entries = entrants(["x=127.0.0.1:2", f"y={word}"])
    request = Request(entries=entries, workload=first, also=tuple(also))
    with pytest.raises(BadUsage, match=r"has paths of its own, and y is asked at"):
        refuse_unfit_load(request)


def test_a_command_without_a_name_is_not_named_by_its_variables() -> None:
    """Its hint has a name before the command."""
    with pytest.raises(BadUsage, match="a name is missing") as refused:
        serve_entry("env PORT={port} node s.js")
    hint = str(refused.value).partition('--serve "')[2].removesuffix('"')
    assert serve_entry(hint).name == "mine"
    assert serve_entry("PORT=./server --port {port}").name == "PORT"
