"""One server against itself over HTTP/1.1 and HTTP/2, in one race."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
import commands
from races import dragstrip_run, settings

from dragstrip import contender
from dragstrip.contender import Missing

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]


@pytest.mark.thorough
def test_one_server_races_itself_over_both_versions_and_the_sheet_names_them(tmp_path: Path) -> None:
    """Who is asked in frames must answer in frames; every answer under load is right, and the pair has a verdict."""
    out, env = tmp_path / "out.json", settings(tmp_path)
    words = ["--rounds", "2", "-c", "4", "--json", str(out)]
    done = dragstrip_run(env, "race", "nginx-return", "nginx-return:http=2", *words)
    assert out.exists(), done.stdout + done.stderr
    told = json.loads(out.read_text())
    assert [one["name"] for one in told["contenders"]] == ["nginx-return", "nginx-return:http=2"]
    assert all(not one["errors"] for one in told["columns"][0]["contenders"]), done.stdout
    assert {pair["metric"] for pair in told["pairs"]} >= {"throughput"}
    sheet = dragstrip_run(env, "show", "last", "--parity").stdout
    # A note below the sheet may begin with the same words.
    (row,) = [line for line in sheet.splitlines() if re.search(r"HTTP version {2,}", line)]
    assert re.findall(r"HTTP/\S+", row) == ["HTTP/1.1", "HTTP/2"]


def test_who_has_no_http_2_and_what_it_has_not_are_refused(tmp_path: Path) -> None:
    """With what would do, before anything is started."""
    env = settings(tmp_path)
    for given, told in (
        (["tornado", "nginx-return"], "tornado has no parameter 'http'"),
        (["http://127.0.0.1:1/", "nginx-return"], "is already running"),
        (["nginx-return", "--serve", "mine=server {port}"], "--serve"),
    ):
        refused = commands.dragstrip("race", *given, "--http", "2", env=env)
        assert refused.returncode == 2
        assert told in refused.stderr, refused.stderr
    mixed = commands.dragstrip("race", "node", "node:http=2", "--workload", "pipelined", env=env)
    assert mixed.returncode == 2
    assert "HTTP/2" in mixed.stderr


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("nginx-return", marks=pytest.mark.thorough),
        *(pytest.param(name, marks=pytest.mark.soak) for name in ("node", "go-native")),
    ],
)
def test_a_server_against_itself_over_the_other_version_ends_with_a_verdict(name: str, tmp_path: Path) -> None:
    """After ten rounds, the least that decide: faster, same, or too close; the sheet names both versions."""
    if isinstance(contender.check(contender.find(name)), Missing):
        pytest.skip(f"{name} is not installed")
    out, env = tmp_path / "out.json", settings(tmp_path)
    done = dragstrip_run(env, "race", name, f"{name}:http=2", "--rounds", "10", "--json", str(out))
    assert out.exists(), done.stdout + done.stderr
    told = json.loads(out.read_text())
    assert done.returncode == 0, done.stdout + done.stderr
    assert told["finished"] in ("rounds", "decided")
    (pair,) = (one for one in told["pairs"] if one["metric"] == told["columns"][0]["metric"])
    assert pair["verdict"] in ("faster", "slower", "same", "undecided")
    assert {one["name"]: one["parity"]["HTTP version"] for one in told["columns"][0]["contenders"]} == {
        name: "HTTP/1.1",
        f"{name}:http=2": "HTTP/2",
    }
    assert any(one["check"] == "parity, HTTP version" and "HTTP/2" in one["detail"] for one in told["validity"])
