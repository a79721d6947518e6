"""A lab's report: heat maps, what went wrong, JSON and rows, from a ledger and a store of samples."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import labs
import pyarrow.parquet
import pytest
from commands import dragstrip

from dragstrip.extras.lab.ledger import STORE_NAME
from dragstrip.extras.lab.report import heat, page, revisions, summary
from dragstrip.store.database import Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The sampled lab's folder; its matrix is next to it."""
    return labs.sampled(tmp_path)


def test_a_field_shows_the_ratio_to_its_columns_best_or_why_there_is_none(folder: Path) -> None:
    """Of races that are decided, open, void, impossible and not raced yet."""
    lab = summary.counted(folder)
    (made,) = heat.heat_maps(heat.judged(lab))
    best, *others = made.contenders
    hello, json_, multiply, post, db = made.columns
    assert made.shade(best, hello).ratio == 1.0
    assert all((made.shade(name, hello).ratio or 0) < 1 for name in others)
    assert not any(shade.open for shade in hello.shades.values())
    assert all(shade.open and shade.letters for shade in json_.shades.values())
    assert {made.shade(name, multiply).fill for name in made.contenders} == {heat.Fill.VOID}
    assert made.shade(best, db).fill is heat.Fill.CANT_RUN
    assert made.shade(best, post).fill is heat.Fill.WAITING
    assert [column.starved for column in made.columns] == [False, True, False, False, False]
    assert all(ratio.low <= ratio.estimate <= ratio.high for ratio in hello.ratios)


def test_a_digest_shows_what_the_record_shows(folder: Path) -> None:
    """And a digest of another version is made again."""
    lab = summary.counted(folder)
    with Store(folder / STORE_NAME, write=False) as store:
        digests = {name: heat.digest(store.load(kept.race)) for name, kept in lab.stored.items()}
    by_record = heat.judged(lab)
    assert heat.judged(replace(lab, digests=digests, folder=Path("nowhere"))) == by_record
    older = {name: text.replace(heat.MADE, "0") for name, text in digests.items()}
    assert heat.judged(replace(lab, digests=older | {"a": "noise"})) == by_record


def test_changes_over_revisions_are_marked(folder: Path) -> None:
    """The level of a pair changes at the sixth of ten revisions."""
    first = heat.judged(summary.counted(folder))[0]
    assert first.digest
    (known,) = first.ratios
    cells = []
    for at in range(10):
        factor = (0.95 if at >= 5 else 1.0) * (1 + at % 3 * 1e-3)
        moved = replace(known, estimate=factor, low=factor * 0.99, high=factor * 1.01)
        cells.append(
            replace(first, cell=replace(first.cell, revision=f"v{at}"), digest=replace(first.digest, ratios=(moved,)))
        )
    (made,) = revisions.series([first, *cells])
    assert [step.revision for step in made.steps if step.change] == ["v5"]
    assert not revisions.series(cells[:1])
    text = page.render(summary.counted(folder), cells)
    assert "× 0.95" in text


@pytest.mark.thorough
def test_a_served_lab_shows_its_races_and_changes_nothing(folder: Path, tmp_path: Path) -> None:
    """On loopback, for the host names that were given."""
    words = [sys.executable, "-m", "dragstrip", "lab", "serve", str(tmp_path / "matrix.toml")]
    options = ["--folder", str(folder), "--port", "0", "--host", "lab.example"]
    env = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([*words, *options], stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout
            address = process.stdout.readline().split()[0]
            where = address.removeprefix("http://").partition("/")[0]
            for method, path, host, status, part in (
                ("GET", "/lab", "lab.example", 200, f'href="/race/{"a" * 12}"'),
                ("GET", "/lab", where, 200, 'http-equiv="refresh"'),
                ("GET", f"/race/{'a' * 12}", where, 200, "steady"),
                ("POST", "/lab", where, 405, ""),
                ("GET", "/lab", "other.example", 400, ""),
            ):
                connection = http.client.HTTPConnection(where, timeout=120)
                connection.request(method, path, headers={"Host": host})
                response = connection.getresponse()
                assert response.status == status
                assert part in response.read().decode()
                connection.close()
        finally:
            process.terminate()
            process.wait(60)
    assert where.startswith("127.0.0.1:")


def test_the_page_says_how_much_may_be_incorrect_and_what_went_wrong(folder: Path) -> None:
    """Texts from outside are escaped."""
    lab = summary.counted(folder)
    text = page.render(lab, heat.judged(lab))
    for part in (
        "2 tables, at 5 % each",
        'class="void"',
        "&lt;no program&gt;",
        "it left no record",
        "12 rounds",
        "epyc",
    ):
        assert part in text, part
    assert "<no program>" not in text
    assert "http" not in text.partition("</style>")[2]


def test_the_command_writes_page_json_and_parquet(folder: Path, tmp_path: Path) -> None:
    """And shows the maps on the terminal."""
    files = {name: tmp_path / f"lab.{name}" for name in ("html", "json", "parquet")}
    outputs = [word for name, file in files.items() for word in (f"--{name}", str(file))]
    words = (str(tmp_path / "matrix.toml"), "--folder", str(folder))
    done = dragstrip("lab", "report", *words, *outputs, env={"COLUMNS": "160"})
    assert done.returncode == 0, done.stderr
    assert "two, 32 connections, epyc" in done.stdout
    whole = json.loads(files["json"].read_text())
    assert sum(whole["counts"].values()) == 5
    assert len(whole["cells"]) == 5
    rows = pyarrow.parquet.read_table(files["parquet"]).to_pylist()
    assert len(rows) == sum(len(one["pairs"]) for one in whole["cells"])
    assert {row["race"] for row in rows} >= {"a" * 12, "b" * 12}
    assert files["html"].read_text().startswith("<!doctype html>")
    status = dragstrip("lab", "status", *words)
    assert "1 lost" in status.stdout
    for verb, after in (("drop", "dropped"), ("retry", "waiting")):
        assert dragstrip("lab", verb, words[0], "e", *words[1:]).returncode == 0
        shown = json.loads(dragstrip("lab", "status", *words, "--json").stdout)
        assert {one["name"]: one["progress"] for one in shown["cells"]}["e"] == after
