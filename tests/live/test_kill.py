"""After ``kill -9``: nothing is left and nothing is lost; a small sample of tests/soak/kill_check.py."""

from __future__ import annotations

from pathlib import Path

import kill_check
import pytest
import samples

from dragstrip.store.database import Store

#: Seconds of each phase on a quiet machine: where they are wrong, a kill hits a later or an earlier phase.
TIMES = {"start": 0.6, "scrutineering": 2.0, "rounds": 1.5, "report": 0.1}


@pytest.mark.live
@pytest.mark.thorough
def test_five_kills_leave_nothing_and_lose_nothing(tmp_path: Path) -> None:
    """Of the program at its start, in its rounds and while it writes a page; of a supervisor while its servers are
    looked at."""
    with Store(tmp_path / "races.sqlite") as store:
        store.begin(samples.race())
    said: list[str] = []
    results = kill_check.check(
        5, seed=1, resume_every=100, say=said.append, times=TIMES, recorded=tmp_path / "races.sqlite"
    )
    assert [line for one in results for line in one.wrong] == [], "\n".join(said)
    assert sum(one.phase != "ended" for one in results) == 5
