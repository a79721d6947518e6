"""A second race reuses what the first one found in scrutineering."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import dragstrip


@pytest.mark.timeout(300)
@pytest.mark.thorough
def test_the_second_race_reuses_what_the_first_found_and_says_so(tmp_path: Path) -> None:
    """On the parity sheet and while it runs; --fresh-scrutiny checks again; an ad hoc server is checked every time.

    The same server under another name reuses it within a race.
    """
    store = tmp_path / "races.sqlite"
    server = f"mine=/usr/bin/python3 {Path(__file__).parents[1]}/servers/misbehaving.py {{port}} none"

    def raced(*more: str) -> tuple[str, dict[str, Any]]:
        out = tmp_path / "out.json"
        words = [
            "race",
            "nginx-return",
            "again=nginx-return",
            "--serve",
            server,
            "-c",
            "4",
            "--rounds",
            "2",
            "--json",
            str(out),
            *more,
        ]
        done = dragstrip(*words, "--store", str(store))
        assert out.exists(), done.stdout + done.stderr
        told = json.loads(out.read_text())
        assert [one["out"] for one in told["contenders"]] == ["", "", ""], done.stdout + done.stderr
        return done.stdout, {one["name"]: one["parity"] for one in told["columns"][0]["contenders"]}

    shown, first = raced()
    assert [name for name, sheet in first.items() if "scrutineering" in sheet] == ["again"]
    assert "nginx-return: ready\n" in shown
    assert "again: ready (passed scrutineering " in shown
    shown, second = raced()
    assert "reused" in second["nginx-return"].pop("scrutineering")
    assert second["nginx-return"] == first["nginx-return"]
    assert "scrutineering" not in second["mine"]
    assert "nginx-return: ready (passed scrutineering " in shown
    _, third = raced("--fresh-scrutiny")
    assert all("scrutineering" not in sheet for sheet in third.values())
