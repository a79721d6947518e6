"""What was kept of the last examination of this machine, for races here: ceiling of the generator, null race."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dragstrip.machine import Lanes

#: The finding's name under which a race of a server against itself is kept and cited.
NULL_RACE = "null race"

#: What identifies the machine that a kept report speaks of.
SAME = ("cpu", "kernel", "cores_usable")


def known(store_path: Path, facts: Mapping[str, Any], lanes: Lanes) -> dict[str, Any]:
    """``generator_ceiling`` and ``null_race`` for a race's machine facts, as far as a report speaks of this machine."""
    kept = stored_report(store_path, facts, lanes)
    return {
        key: finding["numbers"] | {"at": finding["numbers"].get("at", kept["at"])}
        for name, key in (("ceiling", "generator_ceiling"), (NULL_RACE, "null_race"))
        for finding in kept.get("findings", ())
        if finding["name"] == name and finding["numbers"]
    }


def stored_report(store_path: Path, facts: Mapping[str, Any], lanes: Lanes) -> dict[str, Any]:
    """The kept report of this machine and these lanes; nothing where there is none."""
    kept: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        kept = json.loads(store_path.with_name("doctor.json").read_text())
    if not kept or any(kept["machine"].get(name) != facts.get(name) for name in SAME):
        return {}
    if kept["machine"].get("engine_cores") != list(lanes.engine):
        return {}
    return kept
