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
from dragstrip.sweep.capacity import capacity, ratio_of

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


@pytest.mark.soak
def test_a_threshold_is_judged_by_the_capacities_brackets(tmp_path: Path) -> None:
    """However fast this machine is: the outcome is what both brackets say, and so is the exit code."""
    slow = HELLO.replace(" none", " slow")
    words = ["--serve", f"one={HELLO}", "--serve", f"two={slow}", "--slo", "p50=20ms", "--rates", "500,4000"]
    words += ["--launches", "3", "-c", "4", "--store", str(tmp_path / "s.sqlite"), "--json", "-"]
    done = process("sweep", *words, "--fail-if", "slower:20%", "--fail-if", "faster:90%")
    told = json.loads(done.stdout)
    jsonschema.validate(told, json.loads(SCHEMA.read_text(encoding="utf-8")))
    (path,) = (tmp_path / "sweeps").glob("*.json")
    swept = sweep_file.read(path)
    low, high = ratio_of(capacity(swept.points("two")), capacity(swept.points("one")))
    slower = "fails" if high < 1 / 1.2 else "holds" if low >= 1 / 1.2 else "open"
    faster = "fails" if low > 1.9 else "holds" if high <= 1.9 else "open"
    assert [rule["outcome"] for rule in told["rules"]] == [slower, faster], done.stderr
    assert f"{slower} slower:20%: two" in " ".join(done.stderr.split())
    assert done.returncode == (1 if "fails" in (slower, faster) else done.returncode)
    strict = dragstrip("sweep", "--show", str(path), "--fail-if", "slower:20%", "--strict")
    assert strict.returncode in ({0, 3} if slower == "holds" else {1})
    assert "--strict needs --fail-if" in dragstrip("sweep", "--show", str(path), "--strict").stderr
