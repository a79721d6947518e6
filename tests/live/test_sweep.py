"""A sweep of a real server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest
from commands import dragstrip, process

from dragstrip.report.sweep import as_json, headline
from dragstrip.sweep import file as sweep_file
from dragstrip.sweep.capacity import capacity

SCHEMA = Path(sweep_file.__file__).parents[1] / "data" / "schema" / "sweep.schema.json"


HELLO = f"{sys.executable} {Path(__file__).parents[1]}/servers/misbehaving.py {{port}} none"


@pytest.mark.live
@pytest.mark.thorough
def test_a_sweep_of_a_real_server_keeps_every_block_and_says_only_what_they_say(tmp_path: Path) -> None:
    """Whatever the latencies: the file follows its schema, is read back the same, and its bracket is its points'."""
    store = tmp_path / "races.sqlite"
    words = ["--serve", f"one={HELLO}", "--slo", "p50=1s", "--rates", "400,800", "--launches", "3", "-c", "4"]
    words += ["--store", str(store), "--json", "-", "--seed", "3"]
    done = process("sweep", *words)
    assert done.returncode in (0, 3), done.stderr  # 3: the machine was disturbed all the time
    told = json.loads(done.stdout)
    jsonschema.validate(told, json.loads(SCHEMA.read_text(encoding="utf-8")))
    (path,) = (tmp_path / "sweeps").glob("*.json")
    assert json.loads(path.read_text()) == told
    swept = sweep_file.read(path)
    assert json.loads(json.dumps(as_json(swept))) == told
    for sample in swept.samples:
        assert sample.offered == pytest.approx(sample.rate_per_s * 0.2, abs=1)
        assert sample.requests + sample.failed + sample.unsent >= sample.offered
    (contender,) = told["contenders"]
    assert {400.0, 800.0} <= {point["rate_per_s"] for point in contender["points"]}
    assert all(len({s.launch for s in swept.samples if s.rate_per_s == rate}) >= 3 for rate in (400.0, 800.0))
    again = dragstrip("sweep", "--show", str(path))
    line = headline(capacity(swept.points("one")), swept.objective)
    for page in (again.stdout, done.stderr):
        assert " ".join(line.split()) in " ".join(page.split())
