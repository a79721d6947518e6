"""Planted claims, and races of known speeds about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import samples
from commands import Done, dragstrip

from dragstrip.extras.claims import definition as definitions
from dragstrip.extras.claims.definition import Claim
from dragstrip.extras.claims.grouping import Group
from dragstrip.record import Event, Race

FAST, SLOW = {"quick": 40_000.0, "steady": 20_000.0}, {"quick": 20_000.0, "steady": 40_000.0}


EVEN = {"quick": 30_000.0, "steady": 30_000.0}


def planted(folder: Path, name: str = "mine", *, published: str = "ratio = 2.0", more: str = "") -> Claim:
    """A claim that quick serves more than steady; both are ad hoc servers, named in the file."""
    file = folder / f"{name}.toml"
    file.write_text(f"""\
statement = "quick serves more than steady"
source = "a test"
year = 2026
contenders = ["quick", "steady"]
{more}

[published]
{published}

[serve]
quick = "/bin/true {{port}}"
steady = "/bin/true {{port}}"
""")
    return definitions.load(file)


def changed(record: Any, **changes: Any) -> Any:
    return samples.changed(record, **changes) if isinstance(record, Race) else replace(record, **changes)


def all_blocks(race: Race, **changes: Any) -> Race:
    """Every block of a race changed alike."""
    rounds = (changed(one, blocks=tuple(changed(b, **changes) for b in one.blocks)) for one in race.rounds)
    return changed(race, rounds=tuple(rounds))


def purpose_event(group: Group) -> Event:
    """What a race run for the group's claims has in its record."""
    return samples.noted(group.purpose.kind, subject=group.purpose.subject, names=group.purpose.names)


def claims_command(
    tmp_path: Path, *words: str, env: Mapping[str, str] | None = None, run: Callable[..., Done] = dragstrip
) -> Done:
    kept = {"DRAGSTRIP_STORE": str(tmp_path / "races.sqlite"), "COLUMNS": "160", **(env or {})}
    return run("claims", *words, env=kept)
