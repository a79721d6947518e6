"""What `load` stores of a run against a real server, what the other commands make of it, and when it stores nothing."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path

import commands
import jsonschema
import pytest

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from loads import SCHEMA, Nginx, live, load, needs_nginx

from dragstrip.store.database import Store

SECRETS = ("hidden1", "hidden2", "hidden3", "aGlkZGVuOmhpZGRlbjQ=")


@live
@needs_nginx
def test_a_load_is_stored_listed_shown_and_exported_without_secrets(nginx: Nginx, tmp_path: Path) -> None:
    """`show` prints the report as it was; `export` writes the same JSON; no secret is in store, report or any file."""
    folder = tmp_path / "written"
    folder.mkdir()
    store, page = ["--store", str(folder / "races.sqlite")], folder / "load.html"
    words = ["-n", "502", "-c", "4", "-m", "POST", "-b", '{"password": "hidden1"}', "-H", "X-Api-Key: hidden2"]
    url = nginx.url("/?token=hidden3")
    done = load(url, *words, "-a", "hidden:hidden4", *store, "--html", str(page), "--json", str(folder / "a.json"))
    assert done.returncode == 0, done.stderr
    *report, record, paged = done.stdout.splitlines()
    found = re.fullmatch(r"record  load ([0-9a-f]{12}) in (.*) \(dragstrip show \1 --store (.*)\)", record)
    assert found, record
    assert (paged, found[2], found[3]) == (f"page    {page}", store[1], store[1])
    assert commands.dragstrip("show", *store).stdout.splitlines() == report
    exported = [folder / f"b.{suffix}" for suffix in ("json", "csv", "md", "html", "hgrm")]
    for file in exported:
        assert commands.dragstrip("export", found[1][:6], str(file), *store).returncode == 0
    content = json.loads(exported[0].read_text())
    jsonschema.validate(content, json.loads(SCHEMA.read_text()))
    assert content == json.loads((folder / "a.json").read_text())
    assert content == json.loads(commands.dragstrip("show", found[1], "--json", *store).stdout)
    rows = list(csv.DictReader(exported[1].read_text().splitlines()))
    assert sum(int(row["requests"]) for row in rows) == content["requests"] - content["plain_requests"]
    (listed,) = json.loads(commands.dragstrip("runs", "--json", *store).stdout)
    assert (listed["load"], listed["verdict"]) == (found[1], "ok")
    assert (listed["url"], listed["method"]) == (nginx.url("/?token=***"), "POST")
    written = [done.stdout + done.stderr, *(path.read_bytes().decode("latin-1") for path in folder.iterdir())]
    for secret in SECRETS:
        assert not any(secret in text for text in written), secret
    assert exported[3].read_text() == page.read_text()


@live
@needs_nginx
def test_no_store_styles_and_quiet_add_no_line_and_only_no_store_stores_nothing(nginx: Nginx, tmp_path: Path) -> None:
    """As a replacement of wrk it prints what wrk prints."""
    path = tmp_path / "races.sqlite"
    store, few = ["--store", str(path)], ["-n", "52", "-c", "2"]
    assert "record" not in load(nginx.url(), *few, "--no-store").stdout
    assert not path.exists()
    styled = load(nginx.url(), *few, *store, "--style", "wrk")
    assert styled.stdout.splitlines()[-1].startswith("Transfer/sec:")
    assert "record" not in styled.stderr
    assert load(nginx.url(), *few, *store, "-q").stdout == ""
    assert set(json.loads(load(nginx.url(), *few, *store, "--json", "-").stdout)) > {"url", "sentences"}
    missed = load(nginx.url(), *few, *store, "--max-p99", "1us")
    assert missed.returncode == 1
    with Store(path, write=False) as opened:
        assert [line.verdict for line in opened.load_lines()] == ["missed", "ok", "ok", "ok"]
    refused = load(nginx.url(), *few, *store, "--no-store")
    assert (refused.returncode, "give one" in refused.stderr) == (2, True)


@live
@needs_nginx
@pytest.mark.parametrize("kind", ["not a database", "folder", "no home"])
def test_a_store_that_can_not_be_written_costs_one_line(nginx: Nginx, tmp_path: Path, kind: str) -> None:
    """The report is printed, the files are written, and the exit code is the load's own."""
    path, env = tmp_path / "races.sqlite", {**os.environ}
    if kind == "not a database":
        path.write_bytes(b"mine" * 1000)
    elif kind == "folder":
        path = tmp_path / "file" / "races.sqlite"
        (tmp_path / "file").write_text("")
    else:
        path = Path("/proc/none/races.sqlite")
    out = tmp_path / "out.json"
    env["DRAGSTRIP_STORE"] = str(path)
    done = commands.dragstrip("load", nginx.url(), "-n", "52", "-c", "2", "--json", str(out), env=env)
    assert done.returncode == 0
    assert "52 correct responses" in done.stdout
    assert "record" not in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"dragstrip: the result is not stored: store {path}") or str(path) in line
    assert line.endswith("; --no-store leaves it out")
    assert json.loads(out.read_text())["requests"] == 52
