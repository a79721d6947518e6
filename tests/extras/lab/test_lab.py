"""A lab of real races: its client is killed in the middle, and the same command ends it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from commands import dragstrip
from races import begin, settings, until

from dragstrip.extras.lab.ledger import STORE_NAME
from dragstrip.store.database import Store

pytestmark = pytest.mark.live

MATRIX = """
[lab]
name = "short"
first_rounds = 10
most_rounds = 10
[[line_ups]]
name = "nginx"
contenders = ["nginx-return", "nginx-static"]
[axes]
workloads = ["hello", "json"]
"""


@pytest.mark.thorough
def test_a_killed_lab_continues_its_race(tmp_path: Path) -> None:
    """The race runs on without its client; its record is taken, and what can't run is listed with the reason."""
    (tmp_path / "matrix.toml").write_text(MATRIX)
    words, env = ("lab", "run", str(tmp_path / "matrix.toml"), "--folder", str(tmp_path / "lab")), settings(tmp_path)
    planned = dragstrip("lab", "plan", *words[2:])
    assert "nginx-return does not support workload json" in " ".join(planned.stdout.split())
    assert "1 of 2 cells can run" in planned.stdout
    client = begin(env, *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    cells = tmp_path / "lab" / "strips" / "here" / "cells"
    until(lambda: any(cells.glob("*.sqlite")), 120, "the race never began")
    client.kill()
    client.communicate()
    with begin(env, *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as again:
        output, _ = again.communicate()
    assert again.returncode == 0, output
    shown = json.loads(dragstrip("lab", "status", *words[2:], "--json").stdout)
    assert shown["counts"] == {"stored": 1, "can't run here": 1}
    (attempts,) = (shown["attempts"],)
    assert attempts == 1, output
    with Store(tmp_path / "lab" / STORE_NAME) as store:
        race = store.load("last")
        # It may be decided from the fifth round on.
        assert 5 <= sum(not round_.void for round_ in race.rounds) <= 10
        assert race.plan.planned_rounds == 10
    assert not list(cells.glob("*.sqlite"))
