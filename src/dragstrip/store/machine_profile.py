"""What was kept of the last examination of this machine, for races here: ceiling of the generator, null race."""

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
    """The facts with the generator's ceiling and the null race, as far as a report speaks of this machine."""
    kept = stored_report(store_path, facts, lanes)
    numbers = {
        finding["name"]: {"at": kept["at"]} | finding["numbers"]
        for finding in kept.get("findings", ())
        if finding["numbers"]
    }
    return replace(
        facts,
        generator_ceiling=decode(GeneratorCeiling, numbers[CEILING]) if CEILING in numbers else None,
        null_race=decode(NullRace, numbers[NULL_RACE]) if NULL_RACE in numbers else None,
    )


def stored_report(store_path: Path, facts: Facts, lanes: Lanes) -> dict[str, Any]:
    """The kept report of this machine and these lanes; nothing where there is none."""
    kept: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        kept = json.loads(store_path.with_name("doctor.json").read_text())
    if not kept or kept["machine"].get("engine_cores") != list(lanes.engine):
        return {}
    then = decode(Facts, kept["machine"])
    same = (then.cpu, then.kernel, then.cores_usable) == (facts.cpu, facts.kernel, facts.cores_usable)
    return kept if same else {}
