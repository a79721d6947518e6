"""A sweep's record: one JSON file with raw samples, next to the store of races.

The store is for races, which compare contenders over rounds of equal blocks. A sweep's blocks differ in rate and
length, and each rate is judged by itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dragstrip import paths
from dragstrip.errors import BadUsage
from dragstrip.machine_facts import Facts
from dragstrip.record import Entrant, Event, Load
from dragstrip.store.json_values import JSON_SCHEMA, decode
from dragstrip.store.messages import ELSEWHERE
from dragstrip.sweep.capacity import Objective, Sample, SweepPoint, points

#: The largest file that is read; a sweep of 50 rates has some 10 MB.
MAX_BYTES = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A whole sweep.

    Args:
        started: wall clock, ISO 8601 UTC. seed: of the random order.
        auto: the first rates were shares of what each contender served in calibration.
        launches: requested number of fresh launches at each rate.
        closed_loop_per_s: each contender's rate in calibration, which only chose the first rates.
        events: what the machine did during the sweep. finished: "done" or "interrupted".
        definition: of the workload, as in ``record.Column``.
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
    definition: str = ""

    def points(self, name: str) -> tuple[SweepPoint, ...]:
        """One contender's points, by rate."""
        return points([sample for sample in self.samples if sample.contender == name], self.objective)


def refuse_place(store_path: Path) -> Path:
    """Creates the folder of sweeps, next to the store, and returns it.

    Raises:
        BadUsage: it can't be written.
    """
    return paths.own_folder(store_path.with_name("sweeps"), ELSEWHERE)


def read(path: Path) -> Sweep:
    """A sweep from its file: reads only what was measured, which is judged again.

    Raises:
        BadUsage: the file can't be read, or is not a sweep.
    """
    try:
        raw = json.loads(paths.read(path, MAX_BYTES))
        if raw["schema"] != JSON_SCHEMA:
            raise ValueError(f"schema {raw['schema']}")
        swept = decode(Sweep, raw)
        if not 0 < swept.objective.limit_us < math.inf:
            raise ValueError(f"objective.limit_us is {swept.objective.limit_us}, expected a time above 0")
        return swept
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadUsage(
            f"{path}: not a file written by `dragstrip sweep` ({error}); give one of its JSON files"
        ) from error
