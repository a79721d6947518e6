"""Entries of TechEmpower and HttpArena as definitions: what is imported, and why others are left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import suite_samples
from commands import dragstrip

from dragstrip import contender, image
from dragstrip.contender import Entry, boxes
from dragstrip.contender import imported as imported_entries
from dragstrip.errors import BadUsage, NotReady
from dragstrip.extras.suites import suites
from dragstrip.extras.suites.suite_entries import Cause, LeftOut, definition, write

#: The workloads that these tests rely on, whatever else there is.
WORKLOADS = (
    "tfb-json", "tfb-plaintext", "tfb-db", "tfb-queries",
    "arena-baseline", "arena-limited-conn", "arena-pipelined", "arena-json", "arena-upload", "arena-static",
    "arena-json-tls", "arena-async-db",
)  # fmt: skip

TEST = {"json_url": "/json", "port": 8080, "language": "C", "database": "None"}


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("DRAGSTRIP_CACHE", str(tmp_path / "cache"))


def framework(place: Path, test: dict[str, object], dockerfile: str = "FROM scratch\n") -> suites.FoundEntries:
    """What is found in a framework with one test; its Dockerfile is the usual one."""
    (place / "mine").mkdir()
    (place / "mine" / "mine.dockerfile").write_text(dockerfile)
    content = {"framework": "mine", "tests": [{"default": TEST | test}]}
    (place / "mine" / "benchmark_config.json").write_text(json.dumps(content))
    return suites.read_all(place / "mine", WORKLOADS)


def arena(place: Path, content: object, *, script: str = "", dockerfile: str = "FROM scratch\n") -> suites.FoundEntries:
    """What is found in an entry of HttpArena."""
    folder = place / "checkout" / "frameworks" / "mine"
    folder.mkdir(parents=True)
    if dockerfile:
        (folder / "Dockerfile").write_text(dockerfile)
    (folder / "compose.gateway.yml").touch()
    (folder / "meta.json").write_text(content if isinstance(content, str) else json.dumps(content))
    if script:
        (folder / "build.sh").write_text(script)
    return suites.read_all(folder, WORKLOADS)


def imported(found: suites.FoundEntries) -> Entry:
    """The definition of the only entry, read back."""
    (one,) = found.entries
    write(one, "auto")
    return contender.entry(one.name)


def test_both_samples_are_imported_and_every_refusal_is_by_name(tmp_path: Path) -> None:
    """Variants have their own names; a broken test, another database and several containers are named."""
    before = sorted((file, file.read_bytes()) for file in suite_samples.SAMPLES.rglob("*") if file.is_file())
    tfb = dragstrip("import", str(suite_samples.SAMPLES / "tfb"))
    assert tfb.returncode == 0, tfb.stderr
    assert tfb.stdout.splitlines() == [
        "4 of 6 entries are imported:",
        "  tfb:tfb-go: tfb-json, tfb-plaintext",
        "  tfb:tfb-node: tfb-json, tfb-plaintext",
        "  tfb:tfb-node-spaced: tfb-json",
        "  tfb:tfb-python: tfb-json, tfb-plaintext",
        "tests left out of them:",
        "  it needs MongoDB; Dragstrip has PostgreSQL alone (1): tfb:tfb-python",
        "not imported:",
        "  it needs MySQL; Dragstrip has PostgreSQL alone (1): tfb:tfb-go-mysql",
        "  its suite marks it as broken (1): tfb:tfb-node-old",
    ]
    arena = dragstrip("import", str(suite_samples.SAMPLES / "arena"))
    assert arena.stdout.splitlines() == [
        "2 of 3 entries are imported:",
        "  arena:arena-c: arena-baseline, arena-limited-conn, arena-pipelined",
        "  arena:arena-go: arena-baseline, arena-limited-conn, arena-json, arena-json-tls, arena-upload, arena-static",
        "tests left out of them:",
        "  unknown tests: noisy (1): arena:arena-go",
        "not imported:",
        "  it needs several containers (gateway-64, production-stack); Dragstrip starts one (1): arena:arena-compose",
    ]
    assert imported_entries.names() == [
        "arena:arena-c", "arena:arena-go", "tfb:tfb-go", "tfb:tfb-node", "tfb:tfb-node-spaced", "tfb:tfb-python",
    ]  # fmt: skip
    listed = json.loads(dragstrip("contenders", "*:*", "--workload", "arena-upload", "--json").stdout)
    assert [(row["name"], row["status"]) for row in listed] == [("arena:arena-go", "missing")]
    assert sorted((f, f.read_bytes()) for f in suite_samples.SAMPLES.rglob("*") if f.is_file()) == before


def test_the_settings_of_a_test_are_in_its_definition() -> None:
    """Odd paths, a port as a text, an argument that the Dockerfile declares, a command with quotes."""
    suites.import_all(suite_samples.SAMPLES / "tfb", WORKLOADS, "docker")
    python, spaced, node, go = map(
        contender.entry, ("tfb:tfb-python", "tfb:tfb-node-spaced", "tfb:tfb-node", "tfb:tfb-go")
    )
    assert python.path("tfb-json") == "/api/v1/greet.json?as=object"
    assert python.path("tfb-plaintext") == "/text/hello"
    assert python.container is not None
    assert (python.container.port, python.container.engine) == (9000, "docker")
    assert python.container.args == {"TFB_TEST_NAME": "tfb-python"}
    assert spaced.container is not None
    assert node.container is not None
    assert spaced.container.cmd == ("/app.js", "--form", "spaced json")
    assert spaced.container.model_copy(update={"cmd": ()}) == node.container, "they share an image"
    assert "tfb-json" in go.own_forms
    assert go.wake_s == 60
    assert go.parity["suite"] == "TechEmpower FrameworkBenchmarks"


def test_a_checkout_a_language_and_a_framework_are_recognised(tmp_path: Path) -> None:
    checkout, _ = suite_samples.copied(tmp_path)
    (checkout / "toolset" / "scaffolding").mkdir(parents=True)
    (checkout / "toolset" / "scaffolding" / "benchmark_config.json").write_text("{}")
    names = {
        place: len(suites.read_all(checkout / place, WORKLOADS).entries)
        for place in (".", "frameworks", "frameworks/JavaScript", "frameworks/JavaScript/tfb-node")
    }
    assert list(names.values()) == [4, 4, 2, 2]
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "meta.json").write_text("{}")
    with pytest.raises(BadUsage, match=r"is not a folder of a suite: TechEmpower's have benchmark_config.json"):
        suites.read_all(tmp_path / "empty", WORKLOADS)
    assert dragstrip("import", str(tmp_path / "empty")).returncode == 2


@pytest.mark.parametrize(
    ("test", "cause", "detail"),
    [
        ({"port": "eighty"}, Cause.UNREADABLE, "benchmark_config.json: port: Input should be a valid integer"),
        ({"port": 0}, Cause.UNREADABLE, "benchmark_config.json: port: Input should be greater than"),
        ({"tags": ["broken"]}, Cause.BROKEN, ""),
        ({"dockerfile": "../mine.dockerfile"}, Cause.NO_DOCKERFILE, "../mine.dockerfile"),
        ({"dockerfile": "/etc/passwd"}, Cause.NO_DOCKERFILE, "/etc/passwd"),
        ({"dockerfile": "absent"}, Cause.NO_DOCKERFILE, "absent"),
        ({"json_url": ""}, Cause.NO_TESTS, ""),
        ({"json_url": "json"}, Cause.UNREADABLE, "json_url 'json'"),
        ({"json_url": "/{{ 9 }}"}, Cause.UNREADABLE, "json_url '/{{ 9 }}'"),
        ({"json_url": None, "db_url": "/db", "database": "MySQL"}, Cause.DATABASE, "MySQL"),
        ({"json_url": None, "db_url": "/db", "database": None}, Cause.DATABASE, "a database that it does not name"),
        ({"json_url": None, "fortune_url": "/f", "database": "postgres"}, Cause.NO_WORKLOAD, "tfb-fortunes"),
        ({"docker_cmd": "run 'it"}, Cause.UNREADABLE, "benchmark_config.json: No closing quotation"),
    ],
)
def test_a_test_that_can_not_be_raced_is_left_out_with_the_cause(
    tmp_path: Path, test: dict[str, object], cause: Cause, detail: str
) -> None:
    found = framework(tmp_path, test)
    assert found.entries == ()
    (refused,) = found.refused
    assert (refused.name, refused.cause) == ("tfb:mine", cause)
    assert refused.detail.startswith(detail)


@pytest.mark.parametrize("content", ["", "[]", '{"framework": ""}', '{"framework": "a", "tests": 1}', '{"tests": []}'])
def test_a_file_that_is_no_framework_is_one_refusal(tmp_path: Path, content: str) -> None:
    (tmp_path / "Odd").mkdir()
    (tmp_path / "Odd" / "benchmark_config.json").write_text(content)
    (refused,) = suites.read_all(tmp_path / "Odd", WORKLOADS).refused
    assert (refused.name, refused.cause) == ("tfb:odd", Cause.UNREADABLE)
    assert "benchmark_config.json: " in refused.detail


def test_texts_of_a_stranger_stay_texts(tmp_path: Path) -> None:
    """Quotes, line ends, braces and control characters end up in no other key."""
    odd = 'a"\n[start]\ncommand = ["sh"] {port} \x1b[31m é \\'
    found = framework(
        tmp_path, {"display_name": odd, "approach": odd, "webserver": odd, "docker_cmd": "'{port}' \"a'b\" {{x"}
    )
    made = imported(found)
    assert made.title == odd.replace("\n", "?").replace("\x1b", "?")
    assert made.contender is not None
    assert made.contender.fields.start.command == ()
    assert made.parity["approach"] == made.title
    assert made.container is not None
    assert [contender.definition.fill(word, {}) for word in made.container.cmd] == ["{port}", "a'b", "{{x"]
    assert "\x1b" not in definition(found.entries[0], "auto")


def test_a_name_that_is_not_valid_or_occurs_twice_is_refused(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "d").write_text("FROM scratch")
        content = {
            "framework": "same",
            "tests": [{"default": TEST | {"dockerfile": "d"}, "a b": TEST | {"dockerfile": "d"}}],
        }
        (tmp_path / folder / "benchmark_config.json").write_text(json.dumps(content))
    found = suites.read_all(tmp_path, WORKLOADS)
    assert [entry.name for entry in found.entries] == ["tfb:same"]
    assert [(one.name, one.cause) for one in found.refused] == [
        ("tfb:same", Cause.TWICE), ("tfb:same-a b", Cause.NAME), ("tfb:same-a b", Cause.NAME),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "cause", "detail"),
    [
        ({"tests": ["baseline"], "enabled": False}, Cause.DISABLED, ""),
        ({"tests": []}, Cause.NO_TESTS, ""),
        ({"tests": ["baseline-h3", "noisy"]}, Cause.PROTOCOL, "HTTP/3"),
        ({"tests": ["unary-grpc", "unary-grpc-tls"]}, Cause.PROTOCOL, "gRPC"),
        ({"tests": ["gateway-h3"]}, Cause.SEVERAL_CONTAINERS, "gateway-h3"),
        ({"tests": ["noisy", "mixed"]}, Cause.UNKNOWN_TESTS, "noisy, mixed"),
        ({"tests": ["crud", "baseline-h3"]}, Cause.NO_WORKLOAD, "arena-crud"),
        ("{", Cause.UNREADABLE, "meta.json: Invalid JSON"),
        ({}, Cause.UNREADABLE, "meta.json: tests: Field required"),
    ],
)
def test_an_entry_that_can_not_be_raced_is_left_out_with_the_cause(
    tmp_path: Path, content: object, cause: Cause, detail: str
) -> None:
    (refused,) = arena(tmp_path, content).refused
    assert (refused.name, refused.cause) == ("arena:mine", cause)
    assert refused.detail.startswith(detail)


def test_an_entry_without_a_dockerfile_is_left_out(tmp_path: Path) -> None:
    assert arena(tmp_path, {"tests": ["baseline"]}, dockerfile="").refused == (
        LeftOut("arena:mine", Cause.NO_DOCKERFILE, "Dockerfile"),
    )


def test_an_entry_has_the_ports_and_files_of_its_suite(tmp_path: Path) -> None:
    """TLS has its own port, and can be switched on; the certificate's files are always there."""
    made = imported(arena(tmp_path, {"tests": ["baseline", "json", "json-tls", "async-db", "noisy"], "type": "tuned"}))
    assert made.workloads == ("arena-baseline", "arena-json", "arena-json-tls", "arena-async-db")
    assert made.contender is not None
    assert made.contender.serving("arena-json-tls").port == 8081
    assert made.contender.serving("arena-json").port is None
    assert made.own_forms == {"arena-json", "arena-json-tls", "arena-async-db"}
    assert made.contender.serving("arena-async-db").env == {"DATABASE_MAX_CONN": "{database_connections}"}
    assert made.container is not None
    assert made.container.mounts["/data"] == "{data}"
    assert made.mounts_certificate
    assert not made.tls
    assert contender.entry("arena:mine:tls=on").tls
    assert made.parity == {"suite": "HttpArena", "type": "tuned"}


WHOLE = """#!/usr/bin/env bash
SCRIPT_DIR="$(cd "$(dirname "$0")" && pwd)"
ROOT_DIR="$(cd "$SCRIPT_DIR/../.." && pwd)"
docker build -t mine -f "$SCRIPT_DIR/Dockerfile" "$ROOT_DIR"
"""


def test_a_build_script_is_understood_or_refused(tmp_path: Path) -> None:
    """Its context may be the whole checkout; Dragstrip runs no script."""
    alone = arena(tmp_path, {"tests": ["baseline"]}, script=WHOLE)
    checkout = tmp_path / "checkout"
    assert alone.refused == (LeftOut("arena:mine", Cause.WHOLE_CHECKOUT, str(checkout)),), "nobody gave that folder"
    made = imported(suites.read_all(checkout, WORKLOADS))
    assert made.container is not None
    assert made.container.build == str(tmp_path / "checkout")
    assert made.container.dockerfile == "frameworks/mine/Dockerfile"
    (tmp_path / "other").mkdir()
    other = arena(tmp_path / "other", {"tests": ["baseline"]}, script=WHOLE + "docker tag mine other\n")
    assert other.refused == (LeftOut("arena:mine", Cause.BUILD_SCRIPT, "build.sh"),)


def test_an_import_again_replaces_what_changed_alone(tmp_path: Path) -> None:
    checkout, _ = suite_samples.copied(tmp_path)
    dragstrip("import", str(checkout))
    go, node = map(imported_entries.place_of, ("tfb:tfb-go", "tfb:tfb-node"))
    before, text = go.stat().st_mtime_ns, node.read_text()
    config = checkout / "frameworks/JavaScript/tfb-node/benchmark_config.json"
    config.write_text(config.read_text().replace("3000", "4000"))
    dragstrip("import", str(checkout))
    assert go.stat().st_mtime_ns == before
    assert node.read_text() == text.replace("port = 3000", "port = 4000")


def test_a_build_needs_agreement_until_it_is_built_and_again_after_a_change(tmp_path: Path) -> None:
    """Without it nothing is built, whoever asks; a race without a terminal shows what would run."""
    checkout, _ = suite_samples.copied(tmp_path)
    dragstrip("import", str(checkout))
    entry = contender.entry("tfb:tfb-go")
    assert boxes.asks_for_agreement(entry)
    if shutil.which(image.PROGRAM) and image.may_enter() and image.tried() == "":
        state = contender.check(entry)
        assert isinstance(state, contender.Missing)
        assert "`dragstrip install tfb:tfb-go` asks" in state.remedy
    with pytest.raises(NotReady, match="tfb:tfb-go comes from elsewhere"):
        contender.build(entry)
    done = dragstrip("race", "tfb:tfb-go", "again=tfb:tfb-go", "--workload", "tfb-json", "--store", str(tmp_path / "s"))
    assert done.returncode == 2
    assert "a build of " in done.stderr
    assert "then add --yes" in done.stderr
    assert boxes.asks_for_agreement(entry)
    boxes.agree(entry)
    assert not boxes.asks_for_agreement(entry)
    (checkout / "frameworks/Go/tfb-go/main.go").write_text("package main\n")
    assert boxes.asks_for_agreement(entry)


def test_options_of_another_use_of_the_command_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for words, expected in (
        ([str(tmp_path), "--name", "x"], "--beside and --name are for another tool's output"),
        ([str(tmp_path), "--beside", "last"], "--beside and --name are for another tool's output"),
        ([str(tmp_path / "file"), "--engine", "docker"], "--engine docker is for a suite's folder"),
    ):
        done = dragstrip("import", *words, "--store", str(tmp_path / "s"))
        assert (done.returncode, expected in done.stderr) == (2, True), done.stderr


def test_an_entry_that_is_not_imported_has_its_remedy() -> None:
    with pytest.raises(BadUsage, match=r"tfb:gin is not imported; `dragstrip import FOLDER` imports it"):
        contender.entry("tfb:gin")
    dragstrip("import", str(suite_samples.SAMPLES / "tfb"))
    with pytest.raises(BadUsage, match=r"tfb:tfb-gi is not imported; did you mean tfb:tfb-go"):
        contender.entry("tfb:tfb-gi")
    with pytest.raises(BadUsage, match=r"tfb:.* is not imported"):
        contender.entry("tfb:../../etc")
    with pytest.raises(BadUsage, match="tfb:tfb-go has no parameter 'workers'"):
        contender.entry("tfb:tfb-go:workers=2")
    made = contender.entry("mine=tfb:tfb-go")
    again = contender.entry_of(made.name, made.kind, made.parameters)
    assert (again.name, again.definition_hash) == ("mine", made.definition_hash)
