"""Share and latency of each kind of request: in the record, in JSON, on the terminal and on the page."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import samples
from rich.console import Console

from dragstrip.record import Block, Ending, KindCount, Race
from dragstrip.report.race import export, page, terminal
from dragstrip.report.race.latency import kind_rows
from dragstrip.report.race.summary import JudgedRace
from dragstrip.store.database import Store


def counted(requests: int, p50_ns: int, failed: int = 0) -> KindCount:
    return KindCount(
        requests=requests, failed=failed, latency_sum_ns=requests * p50_ns, latency_hdr=samples.hdr(p50_ns, 2 * p50_ns)
    )


def of_two_kinds(block: Block) -> Block:
    few = block.requests // 4
    kinds = {"look": counted(block.requests - few, 500_000), "buy": counted(few, 2_000_000, failed=1)}
    return replace(block, kinds=kinds)


@pytest.fixture(scope="module")
def race() -> Race:
    """Two contenders; every block has two kinds of requests, one block is void."""
    found = samples.race()
    rounds = [replace(this, blocks=tuple(map(of_two_kinds, this.blocks))) for this in found.rounds]
    first = rounds[0]
    void = replace(first.blocks[0], void=samples.voided("errors"))
    return replace(found, rounds=(replace(first, blocks=(void, *first.blocks[1:])), *rounds[1:]))


def test_each_kinds_share_is_of_the_right_answers_in_blocks_that_count(race: Race) -> None:
    """Failures are reported for all blocks, latencies are merged from the valid ones."""
    rows = kind_rows(race)
    assert [(row.contender, row.kind) for row in rows] == [
        (name, kind) for name in dict.fromkeys(row.contender for row in rows) for kind in ("look", "buy")
    ]
    blocks = [block for this in race.rounds for block in this.blocks if block.contender == rows[0].contender]
    assert rows[0].share == pytest.approx(0.75, abs=0.001)
    assert rows[0].share + rows[1].share == pytest.approx(1)
    assert rows[1].failed == len(blocks)
    assert rows[1].requests == sum(block.requests // 4 for block in blocks if not block.void)
    assert rows[1].latency_us["p50"] == pytest.approx(2000, rel=0.01)
    assert kind_rows(samples.race()) == []


def test_json_has_each_kind_and_follows_its_schema(race: Race) -> None:
    """Of a race of one kind it says nothing of them, as before."""
    told = json.loads(json.dumps(export.race_json(JudgedRace.of(race))))
    jsonschema.validate(told, export.schema())
    look, buy = told["columns"][0]["contenders"][0]["requests_by_kind"]
    assert (look["name"], buy["name"]) == ("look", "buy")
    assert buy["latency_us"]["p99"] >= buy["latency_us"]["p50"] > look["latency_us"]["p50"]
    plain = samples.race()
    (column,) = export.race_json(JudgedRace.of(plain))["columns"]
    assert "requests_by_kind" not in column["contenders"][0]


def test_terminal_and_page_show_each_kind(race: Race, tmp_path: Path) -> None:
    """A table, where there are several."""
    out = io.StringIO()
    terminal.show_race(Console(file=out, width=160), JudgedRace.of(race))
    assert "look" in out.getvalue()
    assert "75 %" in out.getvalue()
    page.write(JudgedRace.of(race), tmp_path / "race.html")
    assert "Each kind of request" in (tmp_path / "race.html").read_text()
    plain = samples.race()
    page.write(JudgedRace.of(plain), tmp_path / "plain.html")
    assert "Each kind of request" not in (tmp_path / "plain.html").read_text()


def test_a_record_comes_back_with_its_kinds_and_its_pipelining(race: Race, tmp_path: Path) -> None:
    """To the byte of each histogram."""
    deep = samples.changed(race, load=replace(race.load, pipelining=16))
    with Store(tmp_path / "races.sqlite") as store:
        store.begin(replace(deep, rounds=(), finished=Ending.NONE))
        for this in deep.rounds:
            store.append_round(deep.id, this)
        found = store.load("last")
    assert found.load.pipelining == 16
    assert found.rounds[0].blocks[1].kinds == deep.rounds[0].blocks[1].kinds
