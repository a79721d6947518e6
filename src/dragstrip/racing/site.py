"""Where a race runs: what a race asks of its machines before it has a setup. ``LOCAL`` is this machine."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from dragstrip import contender, machine
from dragstrip.contender import Entry, Missing, Ready
from dragstrip.machine import Lanes
from dragstrip.machine_facts import Facts
from dragstrip.racing.setup import RaceSetup, race_setup
from dragstrip.record import Load
from dragstrip.store import machine_profile
from dragstrip.workload import Workload


class Site(Protocol):
    """The machine, or the machines, of a race; the functions of ``contender`` and ``machine`` say what each raises.

    ``machines``: name and identity of each, by which a race's rounds are of the same ones; None for one machine.
    """

    def machines(self) -> dict[str, str] | None: ...
    def facts(self) -> Facts: ...
    def with_profile(self, facts: Facts, store_path: Path, lanes: Lanes) -> Facts: ...
    def lanes(self, server: str | None, engine: str | None) -> Lanes: ...
    def check(self, entry: Entry) -> Ready | Missing: ...
    def pending_build(self, entry: Entry) -> tuple[str, ...] | None: ...
    def build(self, entry: Entry) -> Path | None: ...
    def race_setup(
        self, workload: Workload, load: Load, lanes: Lanes, seed: int, io: str, keep: str, wait: str
    ) -> AbstractContextManager[RaceSetup]: ...


class _Local:
    """This machine."""

    facts = staticmethod(machine.facts)
    with_profile = staticmethod(machine_profile.with_profile)
    lanes = staticmethod(machine.lanes)
    check = staticmethod(contender.check)
    pending_build = staticmethod(contender.pending_build)
    build = staticmethod(contender.build)
    race_setup = staticmethod(race_setup)

    def machines(self) -> None:
        """None: it is one machine alone."""


LOCAL: Site = _Local()
