"""One round on real processes: launch all afresh, warm each up, load in short blocks, stop, record.

Method: ``docs/METHOD.md``, "The round". Needs an engine handed in; knows nothing of verdicts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dragstrip import validity
from dragstrip.errors import StageError
from dragstrip.racing import environment
from dragstrip.racing.blocks import PlannedBlock, run_blocks
from dragstrip.racing.launched import Servers
from dragstrip.racing.qualified import Qualified
from dragstrip.racing.setup import RaceSetup
from dragstrip.racing.warming import come_to_rest, warm_up
from dragstrip.record import Block, Event, Round
from dragstrip.scrutiny import count_from_now
from dragstrip.validity.block import LoadFault, LoadFaultKind

#: Fills in why blocks are void; ``single_threaded`` says of each contender whether it has one thread only.
Judge = Callable[[Sequence[Block], Mapping[str, bool]], tuple[Block, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """What one round is to do.

    Args:
        index: 0-based.
        launches: contenders in the order of their launch.
        blocks: in their order.
        judge: says which of them are void.
    """

    index: int
    launches: tuple[str, ...]
    blocks: tuple[PlannedBlock, ...]
    judge: Judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A round's record, the contenders that fell out in it with the reasons, and what else was seen.

    Args:
        planned: the blocks that were run, one for each of the record's: those of contenders that were warm.
    """

    round: Round
    planned: tuple[PlannedBlock, ...]
    out: Mapping[str, str]
    events: Sequence[Event] = ()


def run_round(setup: RaceSetup, plan: RoundPlan, contenders: Mapping[str, Qualified]) -> Outcome:
    """Runs one whole round and stops every server of it, however it ends.

    Args:
        contenders: those still in the race, by name.
    """
    started_ns = time.monotonic_ns()
    with Servers(setup.engine) as servers:
        not_launched = _launch_all(setup, plan, contenders, servers)
        not_warm = _warm_up_all(setup, contenders, servers)
        planned = tuple(block for block in plan.blocks if block.contender in servers.warm())
        blocks, events = _measure(setup, plan, planned, contenders, servers)
        out = _fallen_under_load(blocks, servers) | not_launched | not_warm
    record = Round(
        index=plan.index,
        started_ns=started_ns,
        ended_ns=time.monotonic_ns(),
        launches=tuple(launched.record(plan.index, setup.lanes.server) for launched in servers),
        blocks=blocks,
    )
    record = replace(record, void=validity.round_reasons(record))
    return Outcome(round=record, planned=planned, out=out, events=events)


def _launch_all(
    setup: RaceSetup, plan: RoundPlan, contenders: Mapping[str, Qualified], servers: Servers
) -> dict[str, str]:
    """Launches the round's contenders, one after another; returns those that did not come up, with the reasons."""
    out = {}
    for name in plan.launches:
        try:
            servers.add(setup.launch(contenders[name].entry))
        except StageError as error:
            out[name] = str(error)
    return out


def _warm_up_all(setup: RaceSetup, contenders: Mapping[str, Qualified], servers: Servers) -> dict[str, str]:
    """Warms up those that run, one after another; returns those that gave no right answer, with the reasons."""
    out = {}
    for launched in servers:
        try:
            launched.warm_up = warm_up(setup, launched, contenders[launched.name].calibration.p50_ns)
        except StageError as error:
            out[launched.name] = str(error)
        launched.processes, launched.threads = launched.running.counts()
    for last in list(servers.warm().values())[-1:]:
        come_to_rest(last.running)
    return out


def _measure(
    setup: RaceSetup,
    plan: RoundPlan,
    planned: Sequence[PlannedBlock],
    contenders: Mapping[str, Qualified],
    servers: Servers,
) -> tuple[tuple[Block, ...], list[Event]]:
    """Runs and judges the blocks; meanwhile counts what servers say they had, and looks how their memory grows."""
    warm = servers.warm()
    restless = frozenset(name for name in warm if contenders[name].calibration.restless)
    since = {
        name: count_from_now(launched.own_count, launched.running.host, launched.running.port)
        for name, launched in warm.items()
    }
    before_bytes = {name: launched.running.resident_bytes() for name, launched in warm.items()}
    began_s = time.monotonic()
    with setup.awake.held():
        blocks = run_blocks(setup, planned, warm, plan.index, restless)
    lasted_s = time.monotonic() - began_s
    single_threaded = {name: launched.running.counts()[1] == 1 for name, launched in warm.items()}
    events = list[Event]()
    for name, launched in warm.items():
        after_bytes = launched.running.resident_bytes()
        events += environment.memory_growth_events(name, before_bytes[name], after_bytes, lasted_s)
        launched.served = since[name]()
    return plan.judge(blocks, single_threaded), events


def _fallen_under_load(blocks: Sequence[Block], servers: Servers) -> dict[str, str]:
    """Contenders that died or gave wrong answers under load, with the reason in words."""
    out: dict[str, str] = {}
    for launched in servers:
        own = [block for block in blocks if block.contender == launched.name]
        if not launched.running.alive():
            out[launched.name] = f"died under load; its last words: {launched.last_words()}"
        elif own and all(block.gave_up for block in own):
            out[launched.name] = f"refused every connection under load: {own[0].sample}"
        elif fault := validity.wrong_under_load(own):
            out[launched.name] = _load_fault_text(fault)
    return out


def _load_fault_text(fault: LoadFault) -> str:
    """The reason as the record keeps it (``Entrant.out``)."""
    by_count = sorted(fault.errors.items(), key=lambda item: -item[1])
    kinds = ", ".join(f"{kind} {count}" for kind, count in by_count if count)
    told = {
        LoadFaultKind.WRONG_ANSWERS: f"gave wrong answers under load ({kinds}, of {fault.sent} requests)",
        LoadFaultKind.FAILED: f"failed under load: {fault.failed} errors to {fault.sent} requests ({kinds})",
        LoadFaultKind.NO_ANSWER: "gave no right answer under load in any block",
    }[fault.kind]
    return f"{told}; the first: {fault.sample}" if fault.sample else told
