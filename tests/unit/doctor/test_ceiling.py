"""The generator's ceiling: points that a busy machine spoils, and what a race makes of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
import samples

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from dragstrip import validity
from dragstrip.doctor import examine
from dragstrip.machine import Lanes
from dragstrip.machine_facts import CeilingPoint, Facts, GeneratorCeiling


@pytest.mark.parametrize(("ceiling_per_s", "status"), [(1e9, "pass"), (1e-6, "warn")])
def test_a_contender_near_the_generators_ceiling_is_marked(ceiling_per_s: float, status: str) -> None:
    """It is measured against the generator: the check says so, and how near it is."""
    race = samples.race()
    point = CeilingPoint(connections=32, keepalive=True, ceiling_per_s=ceiling_per_s)
    known = replace(race.machine, generator_ceiling=GeneratorCeiling(threads=race.load.threads, points=(point,)))
    (check,) = (check for check in validity.inspect(replace(race, machine=known)) if check.name == "generator")
    assert check.status == status
    assert ("of the load generator's maximum rate" in check.detail) == (status == "warn")


def test_a_point_without_sound_responses_is_measured_again_longer_and_then_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A race held against it would be held against nothing: the report names it, and warns."""
    durations: dict[tuple[int, bool], list[float]] = {point: [] for point in examine.POINTS}

    def measured(_: examine.Situation, connections: int, keepalive: bool, seconds: float) -> CeilingPoint:
        durations[connections, keepalive].append(seconds)
        late = not keepalive and len(durations[connections, keepalive]) == 1
        reached_per_s = 0.0 if late else 1e5
        return CeilingPoint(
            connections=connections,
            keepalive=keepalive,
            ceiling_per_s=2 * reached_per_s,
            reached_per_s=reached_per_s,
            errors=3 if connections == 1000 else 0,
        )

    monkeypatch.setattr(examine, "_point", measured)
    lanes = Lanes(server=(1,), engine=(0,), shared=False, note="")
    situation = examine.Situation(lanes=lanes, facts=Facts(), io="auto", seconds=0.25, show=lambda _: None)
    (finding,) = examine._ceiling(situation)
    assert finding.status == "warn"
    points = cast("list[dict[str, float]]", finding.numbers["points"])
    kept = [(point["connections"], point["keepalive"]) for point in points]
    assert kept == [point for point in examine.POINTS if point != (1000, True)]
    assert all(point["ceiling_per_s"] > 0 and point["errors"] == 0 for point in points)
    assert finding.text.endswith("; at 1000 connections it had 100,000 responses per second and 3 errors")
    assert durations[1000, True] == [0.25, 0.5, 1.0]
    assert durations[32, False] == [0.25, 0.5]
    assert durations[32, True] == [0.25]
