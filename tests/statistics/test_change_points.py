"""Changes in a history: planted shifts are found soon, noise is not, and no machine's change is the code's."""

from __future__ import annotations

import numpy as np
from histories import SHIFT, points

from dragstrip.analysis.change_points import changes


def test_a_shift_of_three_percent_is_found_within_five_races() -> None:
    """In at least 19 of 20 series; the interval holds the shift, and the range is that of the commits around it."""
    found, held = 0, 0
    for seed in range(40):
        series = points(np.random.default_rng(seed), 25, at=20)
        looks = (changes(series[:end]) for end in range(21, 26))
        close = [change for look in looks for change in look if abs(change.place - 20) <= 1]
        found += bool(close)
        held += any(change.low <= 1 / (1 + SHIFT) <= change.high for change in close)
    assert found >= 38, found
    assert held >= 36, held


def test_hardly_any_change_is_seen_in_a_hundred_races_without_one() -> None:
    """At most one false change in a hundred races, although the history is looked at after each."""
    false = 0
    for seed in range(10):
        series = points(np.random.default_rng(1000 + seed), 100)
        places = sorted({change.place for end in range(6, 101) for change in changes(series[:end])})
        false += sum(place - before > 3 for before, place in zip([-9, *places], places, strict=False))
    assert false <= 10, false


def test_another_machine_is_never_blamed_on_the_code() -> None:
    """The level is another on the new machine, and no change is reported at it."""
    for seed in range(20):
        series = points(np.random.default_rng(2000 + seed), 40, moved=20)
        assert not [change for change in changes(series) if abs(change.place - 20) <= 2]


def test_a_change_after_a_move_is_still_found() -> None:
    """Each machine's races are looked at by themselves."""
    series = points(np.random.default_rng(7), 60, at=45, moved=20)
    assert [round(change.place / 3) for change in changes(series)] == [15]
