"""Races at one offered rate: what is offered, recorded, checked and judged."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import commands
import jsonschema
import pytest

import dragstrip
from dragstrip.store.database import Store

SCHEMA = json.loads((Path(dragstrip.__file__).parent / "data" / "schema" / "race.schema.json").read_text())
HELLO = f"{sys.executable} {Path(__file__).parents[1]}/servers/misbehaving.py {{port}} none"


@pytest.mark.live
@pytest.mark.thorough
def test_a_race_at_one_rate_offers_it_to_all_and_keeps_what_became_of_it(tmp_path: Path) -> None:
    """Two of the same server; whatever this machine makes of it, the records add up and the JSON follows its schema."""
    store = tmp_path / "races.sqlite"
    words = ["--serve", f"one={HELLO}", "--serve", f"two={HELLO}", "--rate", "500", "--metric", "latency-p50"]
    words += ["--rounds", "2", "-c", "4", "--store", str(store), "--json", str(tmp_path / "race.json"), "--quiet"]
    done = commands.process("race", *words)
    assert done.returncode in (0, 3), done.stderr  # 3: the machine was disturbed
    told = json.loads((tmp_path / "race.json").read_text())
    jsonschema.validate(told, SCHEMA)
    assert (told["columns"][0]["rate_per_s"], told["plan"]["metric"]) == (500.0, "latency-p50")
    with Store(store) as kept:
        race = kept.load("last")
    assert race.load.rate_per_s == 500.0
    blocks = [block for this in race.rounds for block in this.blocks]
    assert blocks
    for block in blocks:
        assert block.offered == pytest.approx(race.plan.counted_ns * 500 / 1e9, abs=1)
        assert block.requests + block.failed + (block.unsent or 0) >= (block.offered or 0)
        assert block.lag_hdr
        assert block.latency_sent_hdr
