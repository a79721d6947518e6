"""The ledger: attempts before they start, one race for each cell, one client."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import samples

from dragstrip.errors import BadUsage, StoreError
from dragstrip.extras.lab.ledger import Attempt, CellRow, Ledger, Stored, only_client
from dragstrip.extras.lab.runner import stored_of
from dragstrip.extras.lab.task import TaskEnding


def row(name: str, **more: object) -> CellRow:
    usual = {"line_up": "l", "workload": "w", "load": "", "revision": "", "machine": "m", "weight": 1.0, "place": 0}
    return CellRow(name=name, **(usual | more))  # type: ignore[arg-type]


def stored(race: str, *, void: bool = False) -> Stored:
    return Stored(cell="a", race=race, strip="s", rounds=10, decided=False, over=False, void=void, more=None)


def test_a_cell_has_one_race_and_a_second_one_changes_nothing(tmp_path: Path) -> None:
    """But a void one gives way; the same race may grow."""
    ledger = Ledger(tmp_path)
    ledger.plan([row("a"), row("b")])
    first, second = ledger.begin("a", "s", 10), ledger.begin("a", "s", 10)
    assert (first.n, second.n) == (1, 2)
    ledger.end(first, TaskEnding.VOID, "", stored("r0", void=True))
    ledger.end(second, TaskEnding.STORED, "", stored("r1"))
    third = ledger.begin("a", "t", 15)
    with pytest.raises(StoreError, match="cell a already has race r1; race r2 is left aside"):
        ledger.end(third, TaskEnding.STORED, "", stored("r2"))
    assert ledger.stored() == {"a": stored("r1")}
    assert ledger.stored()["a"].over is False
    assert [attempt.outcome for attempt in ledger.attempts()] == ["void", "stored", ""]
    ledger.close()
    again = Ledger(tmp_path, write=False)
    assert [attempt.n for attempt in again.attempts() if not attempt.outcome] == [3]
    again.close()


def test_a_changed_matrix_keeps_what_was_done(tmp_path: Path) -> None:
    """A cell that is planned again has its attempts, and its dropping, as before."""
    ledger = Ledger(tmp_path)
    ledger.plan([row("a"), row("b", place=1)])
    ledger.end(ledger.begin("b", "s", 10), TaskEnding.FAULT, "broken")
    ledger.drop("a")
    ledger.plan([row("b")])
    assert [cell.name for cell in ledger.cells()] == ["b"]
    ledger.plan([row("b"), row("a", place=1, weight=2.0)])
    assert [(cell.name, cell.dropped, cell.weight) for cell in ledger.cells()] == [("b", False, 1.0), ("a", True, 2.0)]
    ledger.retry("b")
    ledger.retry("a")
    assert [(cell.retried, cell.dropped) for cell in ledger.cells()] == [(1, False), (0, False)]
    assert ledger.resolve("b") == "b"
    for prefix in ("c", ""):
        with pytest.raises(BadUsage, match="unknown"):
            ledger.resolve(prefix)
    ledger.close()


def test_only_one_client_writes(tmp_path: Path) -> None:
    with only_client(tmp_path), pytest.raises(BadUsage, match="another `dragstrip lab run`"), only_client(tmp_path):
        pass
    with only_client(tmp_path):
        pass


def test_another_file_is_not_taken_for_a_ledger(tmp_path: Path) -> None:
    (tmp_path / "lab.sqlite").write_text("hello")
    with pytest.raises(StoreError, match="can't be opened"):
        Ledger(tmp_path)
    with pytest.raises(StoreError, match="does not exist"):
        Ledger(tmp_path / "nowhere", write=False)


def test_a_clock_that_was_set_spends_no_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an attempt took is known without the wall clock; a clock that goes back makes no negative time."""
    ledger, clock = Ledger(tmp_path), [1e9]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    ledger.plan([row("a")])
    for jump in (7200.0, -7200.0):
        attempt = ledger.begin("a", "s", 10)
        clock[0] += jump
        ledger.end(attempt, TaskEnding.STORED, took_s=30.0)
        ledger.end(ledger.begin("a", "s", 10), TaskEnding.LOST, most_s=5.0)
    spent = [(attempt.ended or 0) - attempt.begun for attempt in ledger.attempts() if attempt.outcome == "stored"]
    assert spent == [30.0, 30.0]
    ledger.close()


def test_a_damaged_ledger_is_refused_with_its_path(tmp_path: Path) -> None:
    """Whichever page is damaged, and whatever reads it."""
    ledger = Ledger(tmp_path)
    ledger.plan([row(f"cell-{number}", place=number) for number in range(500)])
    ledger.end(ledger.begin("cell-1", "s", 10), TaskEnding.LOST, "x" * 2000)
    ledger.close()
    data = ledger.path.read_bytes()
    refused = []
    for page in range(1, len(data) // 4096):
        ledger.path.write_bytes(data[: page * 4096] + b"\xff" * 4096 + data[(page + 1) * 4096 :])
        for read in (Ledger.cells, Ledger.attempts, Ledger.stored, Ledger.refusals, Ledger.digests):
            try:
                damaged = Ledger(tmp_path, write=False)
                read(damaged)
            except StoreError as error:
                refused.append(str(error))
    assert len(refused) >= 5
    assert all(str(ledger.path) in text for text in refused)


def test_a_race_that_no_cell_has_is_refused(tmp_path: Path) -> None:
    """A sealed record may be valid and odd: two columns, or no round."""
    attempt = Attempt(cell="a", n=1, strip="s", rounds=10, begun=0.0)
    assert stored_of(samples.race(), attempt, void=False).cell == "a"
    for odd, why in [
        (samples.race_of_two(), "has 2 columns"),
        (replace(samples.race(), rounds=()), "no round"),
    ]:
        with pytest.raises(StoreError, match=why):
            stored_of(odd, attempt, void=False)
