"""A lab whose races and clients are killed: each cell is stored once, and no two races meet on a strip."""

from __future__ import annotations

import json
import time
from pathlib import Path

import labs
import pytest
import samples
from commands import dragstrip

from dragstrip.lab.ledger import Ledger
from dragstrip.lab.task import Kind, Outcome, to_json
from dragstrip.store.database import Store


@pytest.mark.thorough
def test_killed_races_and_clients_lose_and_double_nothing(tmp_path: Path) -> None:
    """The same command continues; attempts that were lost are noted."""
    with labs.door(tmp_path) as door:
        file = labs.matrix(tmp_path, cells=16, strips=3, door=door)
        killed = labs.chaos(file, kills=6, seed=1, pause_s=0.5, stub_s=1.0)
        assert sum(killed.values()) == 6
        assert killed["clients"]
        labs.assert_each_once(file, 16)
        again = dragstrip("lab", "run", str(file), "--folder", str(tmp_path / "lab"))
        assert again.returncode == 0
        labs.assert_each_once(file, 16)


@pytest.mark.thorough
def test_an_orphan_is_waited_for_and_its_record_is_taken(tmp_path: Path) -> None:
    """The client dies while its race runs: the next client races nothing again."""
    file = labs.matrix(tmp_path, cells=1, strips=1)
    first = labs.client(file, STUB_S="8")
    while not (tmp_path / "logs" / "s0.log").exists():
        time.sleep(0.05)
    first.kill()
    first.communicate()
    with labs.client(file) as second:
        output, _ = second.communicate()
    assert second.returncode == 0, output.decode()
    labs.assert_each_once(file, 1)
    ledger = Ledger(tmp_path / "lab", write=False)
    assert [attempt.outcome for attempt in ledger.attempts()] == ["stored"]
    ledger.close()


@pytest.mark.thorough
def test_a_hostile_record_is_refused_and_named(tmp_path: Path) -> None:
    """A record of another cell, and one that is damaged, left in the outbox of an open attempt."""
    file, place = labs.matrix(tmp_path, cells=2, strips=1), tmp_path / "lab"
    place.mkdir()
    assert dragstrip("lab", "plan", str(file), "--folder", str(place)).returncode == 0
    with labs.client(file) as planned:  # so that the ledger has the cells
        planned.communicate()
    ledger = Ledger(place)
    names = [cell.name for cell in ledger.cells()]
    outbox = place / "strips" / "s0" / "outbox"
    with Store(tmp_path / "theirs.sqlite") as store:
        store.begin(samples.race())
        other = store.seal_into("last", tmp_path).read_bytes()
    for name, record in zip(names, (other, b"noise"), strict=True):
        attempt = ledger.begin(name, "s0", 20)
        (outbox / f"{name}.{attempt.n}.race").write_bytes(record)
        (outbox / f"{name}.{attempt.n}.json").write_text(to_json(Outcome(kind=Kind.STORED, race="x")))
    ledger.close()
    with labs.client(file) as again:
        output, _ = again.communicate()
    text = output.decode()
    assert "is of no cell, not of cell" in text
    assert "damaged" in text
    labs.assert_each_once(file, 2)
    shown = json.loads(dragstrip("lab", "status", str(file), "--folder", str(place), "--json").stdout)
    assert len(shown["refused_records"]) == 2
    assert shown["counts"] == {"stored": 2}
