"""A race of a newer method is refused by name, however it is asked for; the store's other races are read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import samples

from dragstrip.errors import StoreError, Unreadable
from dragstrip.record import METHOD_VERSION, Race
from dragstrip.store.database import Store

LATER = METHOD_VERSION + 1
WORDS = (
    f"raced by method {LATER} and this Dragstrip knows methods up to {METHOD_VERSION}; use the Dragstrip that raced it"
)


def later_race() -> Race:
    """A race as a later Dragstrip would keep it, started after the other one."""
    race = samples.race(rounds=1)
    return replace(race, id="f" * 12, method=LATER, software="9.8.7", started="2099-01-01T00:00:00Z")


def test_a_race_of_a_newer_method_is_refused_and_the_others_are_read(tmp_path: Path) -> None:
    """By its id; `last` is the newest that this method can judge, and says what it passed over."""
    own = samples.race(rounds=1)
    with Store(tmp_path / "races.sqlite") as store:
        for race in (own, later_race()):
            store.begin(race)
        with pytest.raises(Unreadable, match=WORDS) as refused:
            store.load("f" * 12)
        assert "version 9.8.7" in str(refused.value)
        assert store.load("last") == own
        assert [WORDS in told for told in store.passed_over] == [True]


def test_a_race_of_a_newer_method_is_not_taken_in(tmp_path: Path) -> None:
    """The file is refused whole: nothing of it is kept."""
    with Store(tmp_path / "theirs.sqlite") as theirs:
        theirs.begin(later_race())
        theirs.export_race("f" * 12, tmp_path / "theirs.race")
    with Store(tmp_path / "ours.sqlite") as ours:
        with pytest.raises(StoreError, match=WORDS):
            ours.import_race(tmp_path / "theirs.race")
        assert ours.runs() == []
