"""Histories of races as a simulation draws them, for tests and benchmarks of change points."""

from __future__ import annotations

import math

import numpy as np

from dragstrip.analysis.history import Environment, HistoryPoint

#: The share by which the code becomes slower where a shift is planted.
SHIFT = 0.03


def points(
    rng: np.random.Generator, races: int, *, at: int | None = None, moved: int | None = None
) -> list[HistoryPoint]:
    """Races with intervals of about half a percent, a twentieth of them disturbed.

    Args:
        at: the code becomes 3 % slower there. moved: everything becomes 3 % slower there, on another machine.
    """
    spread = 0.004 * np.exp(rng.normal(0, 0.3, races))
    logs = rng.normal(0, spread) + rng.normal(0, 0.003, races)
    disturbed = rng.random(races) < 0.05
    logs[disturbed] += rng.normal(0, 0.02, int(disturbed.sum()))
    for place in (at, moved):
        if place is not None:
            logs[place:] -= math.log1p(SHIFT)
    return [
        HistoryPoint(
            race=f"race {number}",
            started=f"2026-01-01T00:00:{number:02d}",
            ratio=math.exp(log),
            low=math.exp(log - 1.96 * half),
            high=math.exp(log + 1.96 * half),
            version="1",
            commit=f"{number:040x}",
            environment=_environment("b" if moved is not None and number >= moved else "a"),
        )
        for number, (log, half) in enumerate(zip(logs, spread, strict=True))
    ]


def _environment(machine: str) -> Environment:
    return Environment(
        machine=(machine,), kernel="6.1", method=6, connections=32, keepalive=True, http="1.1", server_cores=1
    )
