"""The ledger: attempts before they start, one race for each cell, one client."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragstrip.errors import BadUsage, StoreError
from dragstrip.lab.ledger import CellRow, Ledger, Stored, only_client
from dragstrip.lab.task import Kind


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
    ledger.end(first, Kind.VOID, "", stored("r0", void=True))
    ledger.end(second, Kind.STORED, "", stored("r1"))
    third = ledger.begin("a", "t", 15)
    with pytest.raises(StoreError, match="cell a already has race r1; race r2 is left aside"):
        ledger.end(third, Kind.STORED, "", stored("r2"))
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
    ledger.end(ledger.begin("b", "s", 10), Kind.FAULT, "broken")
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
