"""A user's own servers, raced by one line: the correct response is learned, and dishonest twins are out or named."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from races import DRAGSTRIP, HERE, PYTHON, dragstrip_run, settings

pytestmark = pytest.mark.timeout(300)

#: Faults of a twin, and a part of what the race says about it.
OUT = {
    "error": "the field /id is missing",
    "missing": "the field /tags is missing",
    "type": "(string); expected",
    "value": 'the field /name is "Bob" (string); expected "Ada" (string)',
    "status": "sent status 200; expected 201",
    "gzip": "is sent as gzip, but only identity was accepted",
    "surplus": "bytes follow",
    "early": "before the end of the request's body was sent: 0 of its 8 bytes had left",
}
#: Faults that begin under load, and what of them the race names.
LATER = {
    "page": "is not JSON",
    "bytes": 'the field /name is "Bob" (string); expected "Ada" (string)',
    "later-type": "the field /trace is null (null); expected",
}


def twins(*faults: str) -> list[str]:
    words = []
    for fault in faults:
        words += ["--serve", f"{fault}={PYTHON} {HERE}/servers/api.py {{port}} {fault}"]
    return words


def raced(env: dict[str, str], *words: str) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    done = dragstrip_run(env, "race", *words)
    shown = dragstrip_run(env, "show", "last", "--json")
    assert shown.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(shown.stdout)
    return found, done


@pytest.mark.thorough
@pytest.mark.parametrize("more", [(), ("-H", "Accept-Encoding: gzip")])
def test_servers_that_always_compress_are_raced(tmp_path: Path, more: tuple[str, ...]) -> None:
    """Whether the request accepts that or not: it is what the first one sends, and the decoded bodies are compared."""
    told, done = raced(
        settings(tmp_path),
        *twins("gzip", "gzip-value", "honest"),
        "--path",
        "/users/1",
        "--rounds",
        "2",
        "-c",
        "2",
        *more,
    )
    assert "4 of 6 fields by value" in done.stderr
    out = {one["name"]: one["out"] for one in told["contenders"]}
    assert 'the field /name is "Bob" (string); expected "Ada" (string)' in out.pop("gzip-value")
    assert not any(out.values()), out


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("dies", "died while its response was learned (exit status 3); its last words: out of memory"),
        ("endless", "expected at most 67,108,864 bytes; request a path whose response ends sooner (--path)"),
        ("drips", "request a path whose response ends (--path)"),
    ],
)
def test_a_response_that_can_not_be_learned_is_told(tmp_path: Path, fault: str, says: str) -> None:
    """How the server died and its last words, or the limit and what would help."""
    done = dragstrip_run(settings(tmp_path), "verify", *twins(fault), "--path", "/users/42")
    assert done.returncode != 0
    assert says in " ".join(done.stderr.split()), done.stderr


@pytest.mark.thorough
def test_without_a_path_the_root_is_requested(tmp_path: Path) -> None:
    """The first line says so; a status that is not 2xx is refused with the option that requests another path."""
    own, env = ["--serve", f"a={PYTHON} {HERE}/servers/own.py PORT"], settings(tmp_path)
    done = dragstrip_run(env, "verify", *own)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GET / → 200, learned from a; compared: the status and every byte of the body" in done.stderr
    missing = dragstrip_run(env, "race", "--serve", f"b={PYTHON} {HERE}/servers/api.py {{port}} absent", *own)
    assert missing.returncode == 2
    assert "b: GET / got status 404, which is not 2xx" in missing.stderr
    assert "--path /users/42" in missing.stderr


@pytest.mark.thorough
def test_dishonest_twins_are_out_or_named(tmp_path: Path) -> None:
    """Two honest servers, one of them with JSON in another form, stay in; each twin is out, with what it sent."""
    env = settings(tmp_path)
    told, done = raced(
        env, *twins("honest", "order", "stale", *OUT, *LATER), "-b", '{"a": 1}', "-T", "application/json",
        "--path", "/users/42", "-c", "4", "--rounds", "2",
    )  # fmt: skip
    assert "POST /users/42 → 201, learned from honest" in done.stderr
    assert "3 of 5 fields" not in done.stderr  # tags are two fields
    assert "4 of 6 fields by value, 2 by type because they change (/at, /trace)" in done.stderr
    out = {one["name"]: one["out"] for one in told["contenders"]}
    assert not out["honest"], out["honest"]
    assert not out["order"], out["order"]
    for fault, reason in OUT.items():
        assert reason in out[fault], (fault, out[fault])
    assert "if that response is correct, compare less: --check status" in out["value"]
    for fault, differs in LATER.items():
        assert "wrong body" in out[fault] or "wrong length" in out[fault], (fault, out[fault])
        assert differs in out[fault], (fault, out[fault])
    parity = {one["name"]: one["parity"] for one in told["columns"][0]["contenders"]}
    assert parity["honest"]["fields that changed"] == "/at, /trace"
    assert parity["stale"]["fields that changed"] == "none"
    assert "one that stays may be stale" in " ".join(dragstrip_run(env, "show", "last", "-v").stdout.split())


@pytest.mark.thorough
def test_a_race_of_ones_own_needs_no_file_and_shows_no_secret(tmp_path: Path) -> None:
    """Raced, resumed, explained and raced again by its record; a secret is in nothing that is stored or written."""
    env = settings(tmp_path)
    secret = "Bearer sesame-7f3a"
    line = [*twins("honest", "cached"), "--path", "/users/1", "--path", "/users/2"]
    told, done = raced(env, *line, "-H", f"Authorization: {secret}", "-c", "2", "--rounds", "2")
    assert "GET /users/2 → 200, learned from honest" in done.stderr
    columns = {one["name"]: one for one in told["columns"]}
    assert "at GET /users/2: " in done.stdout + done.stderr
    assert not re.search(r"users-2-[0-9a-f]{6}", done.stdout + done.stderr)
    outs = [one for column in columns.values() for one in column["contenders"] if one["out"]]
    assert [one["name"] for one in outs] == ["cached"]
    refused = dragstrip_run(env, "rerun", "last")
    assert refused.returncode == 2
    assert "-H 'Authorization: …'" in refused.stderr
    again = dragstrip_run(env, "rerun", "last", "-H", f"Authorization: {secret}", "--quiet")
    assert "cached is out" in again.stdout, again.stdout + again.stderr
    page = tmp_path / "page.html"
    assert dragstrip_run(env, "report", "last", "--html", str(page)).returncode == 0
    assert dragstrip_run(env, "export", "last", str(tmp_path / "one.race")).returncode == 0
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert page in written
    for file in written:
        assert b"sesame-7f3a" not in file.read_bytes(), file
    assert "sesame-7f3a" not in done.stdout + done.stderr + again.stdout + again.stderr


@pytest.mark.thorough
def test_a_typed_request_goes_on_elsewhere_by_its_export_alone(tmp_path: Path) -> None:
    """Imported into another store, in another folder: shown, raced again and resumed, once its secret is given."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    secret, file = "Bearer sesame-7f3a", here / "x.race"
    given = ["-H", f"Authorization: {secret}"]
    request = ["--path", "/users/42", "-b", '{"item": "tea"}', "-T", "application/json"]
    paused = ["-c", "2", "--rounds", "3", "--pause-after", "1"]
    outputs = ["--html", str(here / "o.html"), "--json", str(here / "o.json"), "--export-markdown", str(here / "o.md")]
    env, printed = settings(here), []
    printed.append(dragstrip_run(env, "race", *twins("honest", "order"), *request, *given, *paused, *outputs))
    assert dragstrip_run(env, "export", "last", str(file)).returncode == 0, printed[0].stdout + printed[0].stderr
    race_id = json.loads((here / "o.json").read_text())["race"]

    def elsewhere(*words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*DRAGSTRIP, *words],
            env=settings(there),
            cwd=there,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        printed.append(done)
        return done

    assert elsewhere("import", str(file)).returncode == 0
    shown = elsewhere("show", race_id).stdout
    assert "POST /users/42 → 201; compared: the status and the JSON" in shown
    for words in (("rerun", race_id), ("race", "--resume", race_id)):
        refused = elsewhere(*words, "--yes")
        assert refused.returncode == 2
        assert "the record has no value of Authorization, because it is secret" in refused.stderr
        assert "-H 'Authorization: …'" in refused.stderr
    other = elsewhere("race", "--resume", race_id, "--yes", "-H", "Authorization: Bearer another")
    assert "has another value than the race had" in other.stderr
    resumed = elsewhere("race", "--resume", race_id, "--yes", *given, "--pause-after", "1")
    order = json.loads(elsewhere("show", race_id, "--json").stdout)["order"]
    assert len(order) == 2, resumed.stdout + resumed.stderr
    again = elsewhere("rerun", race_id, "--yes", *given, "-q")
    assert "POST /users/42 → 201" in again.stdout, again.stdout + again.stderr
    assert f"(dragstrip compare {race_id} " in again.stdout, again.stderr
    for written in tmp_path.rglob("*"):
        assert written.is_dir() or b"sesame-7f3a" not in written.read_bytes(), written
    assert "sesame-7f3a" not in "".join(done.stdout + done.stderr for done in printed)


@pytest.mark.thorough
def test_a_race_of_ones_own_is_resumed_without_a_file(tmp_path: Path) -> None:
    """With nothing but its id, from another folder; and `why` goes on with it."""
    env = settings(tmp_path)
    done = dragstrip_run(
        env, "race", *twins("one", "other"), "--path", "/users/1", "-c", "2", "--rounds", "3", "--pause-after", "1"
    )
    assert "ended: interrupted" in done.stdout, done.stdout + done.stderr
    there = tmp_path / "elsewhere"
    there.mkdir()
    resumed = subprocess.run(
        [*DRAGSTRIP, "race", "--resume", "last", "--pause-after", "1"],
        env=env, cwd=there, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "unknown workload" not in resumed.stderr
    assert len(json.loads(dragstrip_run(env, "show", "last", "--json").stdout)["order"]) == 2, resumed.stderr
    explained = dragstrip_run(env, "why", "last", "--launches", "1", "--quiet")
    assert "unknown workload" not in explained.stderr


def test_verify_learns_and_names_the_first_difference(tmp_path: Path) -> None:
    """The same request options, without a race."""
    done = dragstrip_run(settings(tmp_path), "verify", *twins("honest", "missing"), "--path", "/users/42")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the field /tags is missing" in done.stdout
    ignored = dragstrip_run(
        settings(tmp_path), "verify", *twins("honest"), "--path", "/users/42", "--ignore", "/nothing"
    )
    assert ignored.returncode == 2
    assert "it sends /at, /id" in ignored.stderr
