"""What is written down of a race: what its engine does, each block and each launch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from dragstrip.machine_facts import DatabaseFacts, Facts
from dragstrip.process import database
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import Backend, Block, KindCount

if TYPE_CHECKING:
    from dragstrip._engine import Tally

#: What a block's record has from its place in the round, from its judgement, and under the workload's names; all else
#: the engine hands back under the same name.
_NOT_COUNTED = ("contender", "round", "pass_index", "position", "void", "kinds")
_COUNTED = tuple(field.name for field in fields(Block) if field.name not in _NOT_COUNTED)


@dataclass(frozen=True, slots=True)
class Began:
    """When a race began: by the wall clock (ISO 8601, UTC), and at the same moment by the monotonic one."""

    wall: str
    monotonic_ns: int

    @classmethod
    def now(cls) -> Self:
        """This moment."""
        return cls(datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic_ns())


def database_facts(setup: RaceSetup) -> DatabaseFacts | None:
    """Which database the contenders ask, how it is set and where it runs; None if they ask none."""
    if setup.database is None:
        return None
    return DatabaseFacts(
        title=database.TITLE,
        version=setup.database.programs.version,
        cores=setup.lanes.database,
        shared=bool(set(setup.lanes.database) & set(setup.lanes.server)),
        data=setup.database.place,
        connections=database.CONNECTIONS,
        settings=database.settings(),
    )


def with_setup(facts: Facts, setup: RaceSetup) -> Facts:
    """The machine's facts with how a race uses it: how bytes get in and out, how the engine waits, cores, database."""
    return replace(
        facts,
        engine_io=f"{setup.engine.backend}; latency by {setup.engine.latency_stamps} stamps",
        engine_wait=setup.engine.wait,
        awake=setup.awake.text,
        kept_awake=setup.awake.way is not None,
        database=database_facts(setup),
    )


def block_record(
    tally: Tally, contender: str, index: int, pass_index: int, position: int, kind_names: Sequence[str] = ()
) -> Block:
    """One block's record from what the engine handed back.

    Args:
        kind_names: of the workload's requests, where it has several.
    """
    counted: dict[str, Any] = {name: getattr(tally, name) for name in _COUNTED}
    counted["errors"] = dict(tally.errors)
    kinds = {
        name: KindCount(
            requests=kind.requests,
            failed=kind.failed,
            latency_sum_ns=kind.latency_sum_ns,
            latency_hdr=kind.latency_hdr,
        )
        for name, kind in zip(kind_names, tally.kinds, strict=True)
    }
    return Block(contender=contender, round=index, pass_index=pass_index, position=position, kinds=kinds, **counted)


def backend_of(setup: RaceSetup) -> Backend:
    """The back end that a race begins with: its rounds must not change theirs in the middle, nor when it is resumed."""
    return Backend(setup.engine.io)
