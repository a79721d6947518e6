"""A sweep as it is kept: one JSON file, raw samples within, beside the store of races.

Not in the store: its blocks have one rate in each race, and a judgement that compares contenders over rounds of equal
blocks. A sweep's blocks differ in rate and length, and are judged each rate by itself.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dragstrip.errors import BadUsage
from dragstrip.record import Entrant, Load
from dragstrip.store.facts import void_of_text
from dragstrip.sweep.capacity import ALPHA, STEPS, Capacity, Objective, Point, Sample, Span, capacity, points
from dragstrip.validity.wording import void_text

#: Of the JSON; ``schema/sweep.schema.json`` says what each field means.
SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A whole sweep.

    Args:
        started: wall clock, ISO 8601 UTC. seed: of the order of everything.
        auto: the first rates were shares of what each contender served in calibration.
        launches: fresh ones asked for at each rate.
        closed_loop_per_s: what each served in calibration, which only chose rates.
        notes: what the machine did meanwhile, in words. finished: "done" or "interrupted".
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
    machine: Mapping[str, Any]
    server_cores: tuple[int, ...]
    engine_cores: tuple[int, ...]
    entrants: tuple[Entrant, ...]
    closed_loop_per_s: Mapping[str, float]
    samples: tuple[Sample, ...]
    notes: tuple[str, ...]
    finished: str

    def points(self, name: str) -> tuple[Point, ...]:
        """One contender's points, by rate."""
        return points([sample for sample in self.samples if sample.contender == name], self.objective)


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of ``data``."""
    path = Path(__file__).parents[1] / "data" / "schema" / "sweep.schema.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def data(sweep: Sweep) -> dict[str, Any]:
    """JSON-able: what was found, and every sample; numbers that there are none of are null."""
    raw = asdict(sweep)
    raw["samples"] = [_sample(sample) for sample in sweep.samples]
    told = {
        "schema": SCHEMA,
        **raw,
        "interval": {"alpha": ALPHA, "share_of_a_look": 1 / (1 + STEPS), "over": "launches"},
    }
    return told | {"contenders": [_contender(sweep, entrant) for entrant in sweep.entrants]}


def _sample(sample: Sample) -> dict[str, Any]:
    """One block as the file has it: reasons as sentences, bytes as base64."""
    return asdict(sample) | {
        "latency_hdr": base64.b64encode(sample.latency_hdr).decode(),
        "void": list(map(void_text, sample.void)),
        "generator": void_text(sample.generator) if sample.generator else "",
    }


def _read_sample(one: Mapping[str, Any]) -> Sample:
    values = {
        "latency_hdr": base64.b64decode(one["latency_hdr"]),
        "void": tuple(map(void_of_text, one["void"])),
        "generator": void_of_text(one["generator"]) if one["generator"] else None,
    }
    return Sample(**{**one, **values})


def _contender(sweep: Sweep, entrant: Entrant) -> dict[str, Any]:
    found = sweep.points(entrant.name)
    return {
        "name": entrant.name,
        "version": entrant.version,
        "out": entrant.out,
        "capacity": _capacity(capacity(found)) if found else None,
        "points": [asdict(one) | {"latency_us": {q: _span(s) for q, s in one.latency_us.items()}} for one in found],
    }


def _capacity(found: Capacity) -> dict[str, Any]:
    return {"found": found.met_per_s is not None, **asdict(found)}


def _span(span: Span) -> dict[str, float | None]:
    return {key: value if math.isfinite(value) else None for key, value in asdict(span).items()}


def keep(sweep: Sweep, store_path: Path) -> Path:
    """Writes the sweep's file beside the store, under its id; where to.

    Raises:
        OSError: the folder can't be written.
    """
    path = store_path.with_name("sweeps") / f"{sweep.id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(data(sweep), indent=1) + "\n", encoding="utf-8")
    draft.replace(path)
    return path


def read(path: Path) -> Sweep:
    """A sweep from its file; only what was measured is read, what was found of it is found again.

    Raises:
        BadUsage: the file can't be read, or is no sweep of a version known here.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw["schema"] != SCHEMA:
            raise ValueError(f"schema {raw['schema']}")
        samples = tuple(map(_read_sample, raw["samples"]))
        own = {name: raw[name] for name in Sweep.__slots__}
        parts: dict[str, Any] = {
            "load": Load(**raw["load"]),
            "objective": Objective(**raw["objective"]),
            "server_cores": tuple(raw["server_cores"]),
            "engine_cores": tuple(raw["engine_cores"]),
            "entrants": tuple(Entrant(**one) for one in raw["entrants"]),
            "samples": samples,
            "notes": tuple(raw["notes"]),
        }
        return Sweep(**own | parts)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadUsage(
            f"{path}: is no sweep that `dragstrip sweep` wrote ({error}); give one of its JSON files"
        ) from error
