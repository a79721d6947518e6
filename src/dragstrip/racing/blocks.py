"""The engine's part of a round: loads the servers in short blocks, one after another, in the order that was drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragstrip.process.running import awake, frozen
from dragstrip.racing.launching import LaunchedServer
from dragstrip.racing.records import block_record
from dragstrip.racing.setup import RaceSetup, block_plan
from dragstrip.record import Block

if TYPE_CHECKING:
    from dragstrip._engine import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBlock:
    """One block before it is run.

    Args:
        lead_ns: loaded and not counted; counted_ns: counted.
        rate_per_s: of an open loop; 0: a closed loop.
    """

    contender: str
    pass_index: int
    lead_ns: int
    counted_ns: int
    rate_per_s: float = 0.0


def run_blocks(
    setup: RaceSetup,
    planned: Sequence[PlannedBlock],
    launched: Mapping[str, LaunchedServer],
    index: int,
    restless: frozenset[str],
) -> list[Block]:
    """Runs blocks in this order and returns a record of each, not yet judged.

    Args:
        launched: whom they load, connected and warm.
        index: of the round; with an open loop's rate it fixes when requests leave.
        restless: contenders that work while idle: they stand still but for their own blocks.
    """
    idle_workers = {name: launched[name].running for name in sorted(restless & launched.keys())}
    plans = [
        block_plan(
            launched[block.contender].connected(),
            lead_ns=block.lead_ns,
            counted_ns=block.counted_ns,
            rate_per_s=block.rate_per_s,
            pace=setup.load.pace,
            seed=index,
        )
        for block in planned
    ]
    cores = list(setup.lanes.all)
    tallies: list[Tally] = []
    if not idle_workers:
        tallies = setup.engine.run(plans, steal_cores=cores)
    else:
        with frozen(idle_workers.values()):
            for block, plan in zip(planned, plans, strict=True):
                with awake(idle_workers.get(block.contender)):
                    tallies += setup.engine.run([plan], steal_cores=cores)
    return [
        block_record(tally, block.contender, index, block.pass_index, position, setup.workload.kind_names)
        for position, (block, tally) in enumerate(zip(planned, tallies, strict=True))
    ]
