"""The engine's part of a round: loads the servers in short blocks, one after another, in the order that was drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from dragstrip.process.running import awake, frozen
from dragstrip.racing.launching import LaunchedServer
from dragstrip.racing.setup import RaceSetup, block_plan
from dragstrip.record import Block, KindCount

if TYPE_CHECKING:
    from dragstrip._engine import Tally

#: What a block's record has from its place in the round, from its judgement, and under the workload's names; all else
#: the engine hands back under the same name.
_NOT_COUNTED = ("contender", "round", "pass_index", "position", "void", "kinds")
_COUNTED = tuple(field.name for field in fields(Block) if field.name not in _NOT_COUNTED)


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
        launched: the servers that they load, connected and warm.
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
