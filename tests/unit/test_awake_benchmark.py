"""What the page of benchmarks/awake.py says of rounds whose numbers are known."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest


def test_the_benchmarks_page_tells_a_tilt_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sleeping engine costs only the slowest server 1.11 µs more per request, of 111."""
    folder = Path(__file__).parents[2] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    spec = importlib.util.spec_from_file_location("awake_benchmark", folder / "awake.py")
    assert spec is not None
    assert spec.loader is not None
    bench = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)

    def did(name: str, cell: tuple[str, bool], at: int) -> Any:
        own_ns = 11_000 + 1_000 * bench.BURNS[name]
        cpu_ns = own_ns * (1.01 if name == "most" and cell[0] == "sleep" else 1.0) * (1 + 0.001 * (at % 2))
        time_ns = 1_000_000_000
        answered = int(time_ns / own_ns) + at
        return bench.Sum(answered, time_ns, answered, int(cpu_ns * answered), answered, 0, time_ns, 10, 1)

    rounds = [{(name, cell): did(name, cell, at) for name in bench.BURNS for cell in bench.CELLS} for at in range(6)]
    text = bench.tilt(rounds)
    assert "sleeps, as they are: +1.0 % (+1.0 to +1.0); sleeps, kept awake: +1.0 %" in text
    assert "polls, as they are: +0.0 % (+0.0 to +0.0)" in text
    lines = list(bench.rows(rounds))
    assert lines[2].startswith("| sleeps | as they are | 0.00 % |")
    assert lines[2].endswith("| 10% | 11.01, 41.02, 112.17 |")
