"""Results of the last examination of this machine for races on it: the generator's ceiling, the null race."""

# House: an edge: JSON of the store.
from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragstrip.machine import Lanes
from dragstrip.machine_facts import Facts, GeneratorCeiling, NullRace
from dragstrip.store.json_values import decode

#: The finding's name under which a race of a server against itself is kept and cited.
NULL_RACE = "null race"

#: The finding's name under which the generator's ceiling is kept.
CEILING = "ceiling"


def with_profile(facts: Facts, store_path: Path, lanes: Lanes) -> Facts:
    """The facts with the generator's ceiling and the null race, if there is a report about this machine."""
    report = stored_report(store_path, facts, lanes)
    numbers = {
        finding["name"]: {"at": report["at"]} | finding["numbers"]
        for finding in report.get("findings", ())
        if finding["numbers"]
    }
    return replace(
        facts,
        generator_ceiling=decode(GeneratorCeiling, numbers[CEILING]) if CEILING in numbers else None,
        null_race=decode(NullRace, numbers[NULL_RACE]) if NULL_RACE in numbers else None,
    )


def stored_report(store_path: Path, facts: Facts, lanes: Lanes) -> dict[str, Any]:
    """The stored report about this machine and these lanes; empty if there is none."""
    report: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        report = json.loads(store_path.with_name("doctor.json").read_text())
    if not report or report["machine"].get("engine_cores") != list(lanes.engine):
        return {}
    examined = decode(Facts, report["machine"])
    same = (examined.cpu, examined.kernel, examined.cores_usable) == (facts.cpu, facts.kernel, facts.cores_usable)
    return report if same else {}
