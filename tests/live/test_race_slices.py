"""A race in slices: paused, resumed, sealed into an outbox and imported by another store as it grows."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import dragstrip

from dragstrip.store.database import Store


@pytest.mark.thorough
def test_a_paused_race_is_resumed_and_its_record_grows_elsewhere(tmp_path: Path) -> None:
    store, outbox = tmp_path / "here.sqlite", tmp_path / "outbox"
    (tmp_path / "file").touch()
    refused = dragstrip("race", "nginx-return", "nginx-static", "--into", str(tmp_path / "file"), "--store", str(store))
    assert refused.returncode == 2
    assert "--into" in refused.stderr
    common = ["--into", str(outbox), "--exclusive", "--store", str(store), "-q"]
    words = ["--last-round", "40", "--pause-after", "2", *common]
    begun = dragstrip("race", "nginx-return", "nginx-static", *words)
    assert begun.returncode in (0, 3), begun.stdout + begun.stderr
    (sealed,) = outbox.iterdir()
    assert dragstrip("import", str(sealed), "--store", str(tmp_path / "there.sqlite")).returncode == 0
    resumed = dragstrip("race", "--resume", "last", "--pause-after", "1", *common)
    assert resumed.returncode in (0, 3), resumed.stdout + resumed.stderr
    with Store(tmp_path / "there.sqlite") as there, Store(store) as here:
        assert len(there.load("last").rounds) == 2
        assert there.import_race(sealed) == sealed.stem
        race = there.load("last")
        assert race.rounds == here.load("last").rounds
        assert len(race.rounds) == 3
        assert (race.plan.planned_rounds, race.plan.rounds_fixed, race.finished) == (40, False, "interrupted")
