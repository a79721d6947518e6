"""The next slice of a strip: first rounds before further ones, near decisions first, other strips after a void."""

from __future__ import annotations

from dataclasses import replace

from dragstrip.extras.lab.choice import MOST_LOST, CellProgress, Spending, next_cell, progress_of
from dragstrip.extras.lab.ledger import Attempt, CellRow, Stored

SPENDING = Spending(10, 80, 5)


def cell(name: str, place: int, **more: object) -> CellRow:
    usual = {"line_up": "l", "workload": "w", "load": "", "revision": "", "machine": "m", "weight": 1.0}
    return CellRow(name=name, place=place, **(usual | more))  # type: ignore[arg-type]


def attempt(n: int, outcome: str, strip: str = "s1") -> Attempt:
    return Attempt(cell="a", n=n, strip=strip, rounds=10, begun=float(n), outcome=outcome)


def stored(name: str, *, rounds: int = 10, more: int | None = None, **changes: object) -> Stored:
    usual = {"race": name, "strip": "s1", "decided": False, "over": False, "void": False}
    return Stored(cell=name, rounds=rounds, more=more, **(usual | changes))  # type: ignore[arg-type]


def chosen(
    cells: list[CellRow],
    attempts: dict[str, list[Attempt]],
    kept: dict[str, Stored],
    strip: str = "s1",
    spending: Spending = SPENDING,
) -> tuple[str, int] | None:
    progress = {one.name: progress_of(one, attempts.get(one.name, ()), kept.get(one.name)) for one in cells}
    able = {one.name: {"s1", "s2"} for one in cells}
    return next_cell(strip, cells, able, progress, attempts, kept, spending)


def test_every_cell_has_its_first_rounds_before_any_has_more() -> None:
    """The heavier one first; while one still races, the others wait."""
    cells = [cell("a", 0), cell("b", 1, weight=2.0)]
    assert chosen(cells, {}, {}) == ("b", 10)
    assert chosen(cells, {"b": [attempt(1, "")]}, {}) == ("a", 10)
    assert chosen(cells, {"a": [attempt(1, "")]}, {"b": stored("b", more=3)}) is None


def test_further_rounds_are_for_the_cell_that_is_closest_to_a_decision() -> None:
    """By weight; on its own strip; never what is decided, over, void, or has its last round."""
    cells = [cell(name, place) for place, name in enumerate("abcd")]
    kept = {"a": stored("a", more=40), "b": stored("b", more=12), "c": stored("c"), "d": stored("d", decided=True)}
    assert chosen(cells, {}, kept) == ("b", 15)
    assert chosen([replace(cells[0], weight=9.0), *cells[1:]], {}, kept) == ("a", 15)
    assert chosen(cells, {}, kept, "s2") is None
    assert chosen(cells, {}, kept | {"b": stored("b", rounds=78, more=1)}) == ("b", 80)
    for change in ({"over": True}, {"decided": True}, {"rounds": 80}):
        assert chosen(cells, {}, kept | {"b": stored("b", more=12, **change)}) == ("a", 15)  # type: ignore[arg-type]
    assert chosen(cells, {}, {"c": kept["c"]} | {name: stored(name, over=True) for name in ("a", "b", "d")}) == (
        "c",
        15,
    )
    even = Spending(10, 80, 5, even=True)
    assert chosen(cells, {}, kept | {"b": stored("b", rounds=15, more=1)}, spending=even) == ("a", 15)
    assert chosen(cells, {}, kept, spending=Spending(10, 80, 5, left_s=0.0)) is None


def test_a_void_cell_has_one_more_try_on_another_strip() -> None:
    cells, void = [cell("a", 0)], {"a": stored("a", void=True)}
    once = {"a": [attempt(1, "void")]}
    assert chosen(cells, once, void) is None
    assert chosen(cells, once, void, "s2") == ("a", 10)
    twice = [attempt(1, "void"), attempt(2, "void", "s2")]
    assert progress_of(cells[0], twice, void["a"]) is CellProgress.STORED


def test_a_cell_fails_by_faults_or_by_losses_in_a_row_and_can_be_tried_again() -> None:
    """What can't run is not tried again."""
    one = cell("a", 0)
    faults = [attempt(n, "fault", f"s{n}") for n in (1, 2, 3)]
    assert progress_of(one, faults[:2], None) is CellProgress.WAITING
    assert progress_of(one, faults, None) is CellProgress.FAILED
    assert progress_of(replace(one, retried=3), faults, None) is CellProgress.WAITING
    lost = [attempt(n, "lost") for n in range(1, MOST_LOST + 1)]
    assert progress_of(one, lost[1:], None) is CellProgress.WAITING
    assert progress_of(one, lost, None) is CellProgress.FAILED
    assert progress_of(one, [attempt(1, "can't run")], None) is CellProgress.CANT_RUN
    assert progress_of(replace(one, dropped=True), [], None) is CellProgress.DROPPED
