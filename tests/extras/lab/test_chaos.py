"""A lab whose races and clients are killed: each cell is stored once, and no two races meet on a strip."""

from __future__ import annotations

import json
import lzma
import os
import signal
from contextlib import closing
from pathlib import Path

import labs
import pytest
import samples
from commands import dragstrip

from dragstrip.extras.lab.ledger import Ledger
from dragstrip.extras.lab.task import TaskEnding, TaskOutcome, to_json
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
    with labs.held_race(file) as begun:
        first = labs.client(file)
        begun()
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
    """Left in the outbox of open attempts: the lab goes on, and keeps the records that it has."""
    place = tmp_path / "lab"
    place.mkdir()
    with Store(tmp_path / "theirs.sqlite") as store:
        store.begin(samples.race())
        other = store.seal_into("last", tmp_path).read_bytes()
    said = to_json(TaskOutcome(kind=TaskEnding.STORED, race="../../x")).encode()
    left = {
        "is of no cell, not of cell": (other, said),
        "it is damaged or no exported race": (b"noise", said),
        "it is damaged": (other[:-4000], said),
        "it is a damaged xz file": (lzma.compress(other)[:-100], said),
        "its outcome: not valid": (other, b"[" * 100_000),
        "expected text": (other, b'{"kind": "stored", "why": [1]}'),
        "bytes; a lab accepts up to 536,870,912": (b"", said),
    }
    with labs.door(tmp_path) as door:
        file = labs.matrix(tmp_path, cells=len(left), strips=1, door=door)
        with labs.client(file) as planned:  # so that the ledger has the cells
            planned.communicate()
        outbox = place / "strips" / "s0" / "outbox"
        with closing(Ledger(place)) as ledger:
            for cell, (record, outcome) in zip(ledger.cells(), left.values(), strict=True):
                attempt = ledger.begin(cell.name, "s0", 20)
                (outbox / f"{cell.name}.{attempt.n}.race").write_bytes(record)
                (outbox / f"{cell.name}.{attempt.n}.json").write_bytes(outcome)
        os.truncate(outbox / f"{cell.name}.{attempt.n}.race", 600_000_000)
        with labs.client(file) as again:
            output, _ = again.communicate()
        text = output.decode()
        assert again.returncode == 0, text
        for why in left:
            assert why in text
        labs.assert_each_once(file, len(left))
        shown = json.loads(dragstrip("lab", "status", str(file), "--folder", str(place), "--json").stdout)
        assert len(shown["refused_records"]) == len(left) - 1
        assert shown["counts"] == {"stored": len(left)}


@pytest.mark.thorough
def test_what_settled_attempts_leave_is_removed_at_the_end(tmp_path: Path) -> None:
    """Slurm's controller may run a job again that has ended, many attempts later."""
    with labs.door(tmp_path) as door:
        file = labs.matrix(tmp_path, cells=14, strips=1, door=door)
        with labs.client(file) as first:
            first.communicate()
        strip = tmp_path / "lab" / "strips" / "s0"
        with closing(Ledger(tmp_path / "lab", write=False)) as ledger:
            attempt = ledger.attempts()[0]
        left = [strip / "outbox" / f"{attempt.cell}.{attempt.n}.{kind}" for kind in ("json", "race")]
        left.append(strip / "cells" / f"{attempt.cell}.sqlite")
        for place in left:
            place.write_bytes(b"again")
        with labs.client(file) as second:
            output, _ = second.communicate()
        assert second.returncode == 0, output.decode()
        labs.assert_each_once(file, 14)
        assert not [place for place in left if place.exists()]


@pytest.mark.thorough
def test_a_machine_vanishes_and_another_joins(tmp_path: Path) -> None:
    """In the middle of a race; the changed matrix is read again, and the machine that joins has all cells."""
    with labs.door(tmp_path) as door:
        file = labs.matrix(tmp_path, cells=3, strips=1, door=door)
        logs, joins = tmp_path / "logs", labs.strip(tmp_path, "s1", door=door)
        with labs.client(file) as client:
            with labs.held_race(file) as begun:
                race = begun()
                (logs / "gone-s0").touch()
                os.kill(race, signal.SIGKILL)
            file.write_text(file.read_text() + joins)
            output, _ = client.communicate()
        assert client.returncode == 0, output.decode()
        labs.assert_each_once(file, 3)
        assert labs.used(file) == {"s1"}
