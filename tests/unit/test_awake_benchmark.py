"""What the page of benchmarks/awake.py shows for rounds with known numbers."""

from __future__ import annotations

import pytest

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
import awake


def sum_of(name: str, cell: tuple[str, bool], round_number: int) -> awake.Sum:
    """What a server did in one round; sleeping costs only the slowest one more."""
    own_ns = 11_000 + 1_000 * awake.BURNS[name]
    cpu_ns = own_ns * (1.01 if name == "most" and cell[0] == "sleep" else 1.0) * (1 + 0.001 * (round_number % 2))
    time_ns = 1_000_000_000
    answered = int(time_ns / own_ns) + round_number
    return awake.Sum(answered, time_ns, answered, int(cpu_ns * answered), answered, 0, time_ns, 10, 1)


def test_the_benchmarks_page_tells_a_tilt_that_is_there() -> None:
    """A sleeping engine costs only the slowest server 1.11 µs more per request, of 111."""
    rounds = [
        {(name, cell): sum_of(name, cell, number) for name in awake.BURNS for cell in awake.CELLS}
        for number in range(6)
    ]
    text = awake.tilt(rounds)
    assert "sleeps, as they are: +1.0 % (+1.0 to +1.0); sleeps, kept awake: +1.0 %" in text
    assert "polls, as they are: +0.0 % (+0.0 to +0.0)" in text
    lines = list(awake.rows(rounds))
    assert lines[2].startswith("| sleeps | as they are | 0.00 % |")
    assert lines[2].endswith("| 10% | 11.01, 41.02, 112.17 |")
