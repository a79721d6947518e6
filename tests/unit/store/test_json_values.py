"""Dataclasses as JSON objects and back: what is read is checked, field by field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragstrip.machine_facts import CeilingPoint, DatabaseFacts, Facts, FleetMachine, GeneratorCeiling, Limits
from dragstrip.store.json_values import decode, encode

WHOLE = Facts(
    cpu="x",
    turbo=False,
    load_average=(0.5, 1.0, 2.0),
    limits=Limits(nofile_soft=1024, local_ports=(1, 2)),
    mitigations={"meltdown": "Not affected"},
    fleet={"one": "a b"},
    machines={"one": FleetMachine(kernel="6.1", role="server", address="10.0.0.1", control_round_trip_ns=9)},
    generator_ceiling=GeneratorCeiling(
        threads=1, points=(CeilingPoint(connections=32, keepalive=True, ceiling_per_s=1e5),), at="2026-01-02"
    ),
    kept_awake=True,
    database=DatabaseFacts(
        title="PostgreSQL", version="15", cores=(0,), shared=True, data="/x", connections=4, settings={"fsync": "off"}
    ),
)


def test_facts_come_back_from_json_as_they_were() -> None:
    """Tuples, maps and parts of their own kinds included; what is unknown is not written."""
    text = json.dumps(encode(WHOLE))
    assert decode(Facts, json.loads(text)) == WHOLE
    assert "governor" not in text
    assert decode(Facts, {"a fact of another version": 1}) == Facts()


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ([], "is not an object"),
        ({"cpu": 5}, "cpu is 5, expected text"),
        ({"turbo": 1}, "turbo is 1, expected true or false"),
        ({"memory_bytes": True}, "memory_bytes is True, expected a whole number"),
        ({"memory_bytes": 1.5}, "memory_bytes is 1.5, expected a whole number"),
        ({"load_average": "high"}, "load_average is 'high', expected a list"),
        ({"load_average": ["high"]}, "load_average is 'high', expected a number"),
        ({"mitigations": {"meltdown": None}}, "mitigations is None, expected text"),
        ({"limits": 7}, "is not an object"),
        ({"generator_ceiling": {"threads": 1}}, "points"),
    ],
)
def test_a_value_of_another_kind_is_refused_by_name(raw: Any, why: str) -> None:
    """A store of a stranger's may hold anything."""
    with pytest.raises(TypeError, match=why):
        decode(Facts, raw)
