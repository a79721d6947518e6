"""A sweep as it is kept: one JSON file, raw samples within, beside the store of races.

Not in the store: its blocks have one rate in each race, and a judgement that compares contenders over rounds of equal
blocks. A sweep's blocks differ in rate and length, and are judged each rate by itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dragstrip import paths
from dragstrip.errors import BadUsage
from dragstrip.machine_facts import Facts
from dragstrip.record import Entrant, Event, Load
from dragstrip.store.json_values import JSON_SCHEMA, decode
from dragstrip.store.messages import ELSEWHERE
from dragstrip.sweep.capacity import Objective, Point, Sample, points


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A whole sweep.

    Args:
        started: wall clock, ISO 8601 UTC. seed: of the order of everything.
        auto: the first rates were shares of what each contender served in calibration.
        launches: fresh ones asked for at each rate.
        closed_loop_per_s: what each served in calibration, which only chose rates.
        events: what the machine did during the sweep. finished: "done" or "interrupted".
    """

    id: str
    seed: int
    started: str
    software: str
    workload: str
    load: Load
    objective: Objective
    auto: bool
    launches: int
    machine: Facts
    server_cores: tuple[int, ...]
    engine_cores: tuple[int, ...]
    entrants: tuple[Entrant, ...]
    closed_loop_per_s: Mapping[str, float]
    samples: tuple[Sample, ...]
    events: tuple[Event, ...]
    finished: str

    def points(self, name: str) -> tuple[Point, ...]:
        """One contender's points, by rate."""
        return points([sample for sample in self.samples if sample.contender == name], self.objective)


def refuse_place(store_path: Path) -> Path:
    """The folder of sweeps, beside the store; it is created.

    Raises:
        BadUsage: it can't be written.
    """
    return paths.own_folder(store_path.with_name("sweeps"), ELSEWHERE)


def read(path: Path) -> Sweep:
    """A sweep from its file; only what was measured is read, what was found of it is found again.

    Raises:
        BadUsage: the file can't be read, or is not a sweep.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw["schema"] != JSON_SCHEMA:
            raise ValueError(f"schema {raw['schema']}")
        return decode(Sweep, raw)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadUsage(
            f"{path}: not a file written by `dragstrip sweep` ({error}); give one of its JSON files"
        ) from error
