"""A race as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest
import samples
from reports import (
    SPEEDS,
    rendered,
    shown,
    told,
)

from dragstrip.record import Ending, Race
from dragstrip.report.race import export as race_export


@pytest.mark.parametrize("rounds", [0, 1, 3, 14])
def test_json_follows_its_schema_at_any_time_of_a_race(rounds: int) -> None:
    """Before any round, before there are intervals, and after; no NaN anywhere."""
    race = samples.race(
        SPEEDS, rounds=rounds, out={"dud": "died"}, finished=Ending.NONE if rounds < 14 else Ending.DECIDED
    )
    made = json.loads(json.dumps(told(race), allow_nan=False))
    jsonschema.Draft202012Validator.check_schema(race_export.schema())
    jsonschema.Draft202012Validator(race_export.schema()).validate(made)
    assert made["race"] == race.id
    beside = (["cpu"] * 6 + ["memory"] * 6) if rounds else []
    assert [pair["metric"] for pair in made["pairs"]] == ["throughput"] * 6 + beside
    assert all((pair["low"] is None) == (rounds < 10) for pair in made["pairs"])


def test_json_has_every_field_that_the_design_names(race: Race) -> None:
    """The contract's own example, key by key."""
    made = told(race)
    assert {"schema", "race", "seed", "workload", "load", "machine", "method"} <= made.keys()
    assert {"contenders", "columns", "pairs", "validity", "void"} <= made.keys()
    assert {"name", "version", "out"} <= made["contenders"][0].keys()
    (column,) = made["columns"]
    first = column["contenders"][0]
    assert {"name", "rounds", "blocks", "void_blocks", "requests", "errors"} <= first.keys()
    assert first["throughput_per_s"].keys() == {"estimate", "low", "high"}
    assert first["latency_us"].keys() == {"p50", "p90", "p99", "p99.9", "max"}
    assert made["pairs"][0].keys() >= {"a", "b", "metric", "ratio", "low", "high", "verdict"}
    assert column["groups"][0] == ["return"]
    assert made["void"] is False


def test_json_shows_the_order_of_blocks(race: Race) -> None:
    """Names per pass and round, as they were loaded."""
    order = told(race)["order"]
    assert len(order) == 14
    assert [name for names in order[3] for name in names] == [block.contender for block in race.rounds[3].blocks]


def test_one_that_fell_out_under_way_yields_no_number() -> None:
    """Its blocks are counted as such; requests, estimates and latency are not given, in the page neither."""
    whole = samples.race(SPEEDS)
    entrants = tuple(replace(e, out="died under load", out_round=3) if e.name == "slow" else e for e in whole.entrants)
    race = samples.changed(whole, entrants=entrants)
    made = told(race)
    jsonschema.validate(made, race_export.schema())
    (slow,) = [contender for contender in made["columns"][0]["contenders"] if contender["name"] == "slow"]
    assert (slow["out"], slow["out_round"], slow["requests"]) == ("died under load", 3, 0)
    assert slow["throughput_per_s"] == {"estimate": None, "low": None, "high": None}
    assert set(slow["latency_us"].values()) == {None}
    assert all("slow" not in (pair["a"], pair["b"]) for pair in made["pairs"])
    assert "in round 4" in rendered(race)
    assert "slow is out in round 4: died under load" in shown(race)


def test_json_has_the_causes_of_extra_launches_and_follows_its_schema() -> None:
    """A planted difference is there with its interval; a counter without a number says why."""
    profiles = samples.profiles({"quick": 6.0, "steady": 9.5})
    race = samples.race(rounds=2, profiles=profiles)
    made = json.loads(json.dumps(told(race), allow_nan=False))
    jsonschema.Draft202012Validator(race_export.schema()).validate(made)
    why = made["columns"][0]["why"]
    by_counter = {row["counter"]: row["contenders"] for row in why["counters"]}
    assert [entry["launches"] for entry in why["contenders"]] == [6, 6]
    difference = by_counter["cpu_ns"][1]["difference"]
    assert difference["estimate"] == pytest.approx(3.5, abs=0.05)
    assert difference["significant"]
    assert by_counter["segments"][0]["estimate"] is None
    assert by_counter["segments"][0]["missing"] == "each request has a connection of its own"
    plain = told(samples.race(rounds=2))
    del made["columns"][0]["why"]
    assert made == json.loads(json.dumps(plain, allow_nan=False))
