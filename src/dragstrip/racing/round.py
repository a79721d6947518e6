"""One round on real processes: launch all afresh, warm each up, load in short blocks, stop, record.

Method: ``docs/METHOD.md``, "The round". Needs an engine handed in; knows nothing of verdicts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dragstrip import validity
from dragstrip.errors import StageError
from dragstrip.process.database import spent
from dragstrip.racing import database_proof, machine_events
from dragstrip.racing.blocks import PlannedBlock, run_blocks
from dragstrip.racing.launching import Servers
from dragstrip.racing.qualification import Qualified
from dragstrip.racing.setup import RaceSetup
from dragstrip.racing.warm_up import wait_until_idle, warm_up
from dragstrip.record import Block, Event, EventKind, Round, Void, VoidKind
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
    run = _Run(Servers(setup.engine))
    started_ns = time.monotonic_ns()
    try:
        with setup.database_up() as database, run.servers as servers:
            run.out = _launch_all(setup, plan, contenders, servers)
            run.out |= _warm_up_all(setup, contenders, servers)
            run.planned = tuple(block for block in plan.blocks if block.contender in servers.warm())
            run.blocks, run.events = _measure(setup, plan, run.planned, contenders, servers)
            run.out = _fallen_under_load(run.blocks, servers) | run.out
            run.out |= _not_of_the_database(setup, run.blocks, servers, run.out)
            run.lost = database is not None and not database.alive()
    except StageError:  # whatever a contender's own was has been taken in: this is the database's
        run.lost = True
    record = Round(
        index=plan.index,
        started_ns=started_ns,
        ended_ns=time.monotonic_ns(),
        launches=tuple(launched.record(plan.index, setup.lanes.server) for launched in run.servers),
        blocks=run.blocks,
    )
    # What fell with the database fell by no fault of its own.
    void = (Void(kind=VoidKind.DATABASE),) if run.lost else validity.round_reasons(record)
    out = {} if run.lost else run.out
    events = [*run.events, *_database_log(setup, plan.index)]
    return Outcome(round=replace(record, void=void), planned=run.planned, out=out, events=events)


@dataclass
class _Run:
    """What a round has come to so far.

    Args:
        lost: the database could not be started, or ended.
    """

    servers: Servers
    planned: tuple[PlannedBlock, ...] = ()
    blocks: tuple[Block, ...] = ()
    events: list[Event] = field(default_factory=list)
    out: dict[str, str] = field(default_factory=dict)
    lost: bool = False


def _database_log(setup: RaceSetup, index: int) -> list[Event]:
    """The end of what the round's database wrote, if it wrote anything."""
    text = setup.database.log_tail() if setup.database else ""
    return [machine_events.event(EventKind.DATABASE, text=text, round=index)] if text else []


def _not_of_the_database(
    setup: RaceSetup, blocks: Sequence[Block], servers: Servers, fallen: Mapping[str, str]
) -> dict[str, str]:
    """Those that answered without asking the database, with the reason; looked at once nobody is under load.

    Raises:
        DatabaseGoneError: it can't be asked any more.
    """
    if setup.instance is None:
        return {}
    left = [launched for launched in servers.warm().values() if launched.name not in fallen]
    out = database_proof.stale_answers(setup, left)
    for launched in left:
        if launched.spent is not None and launched.wanted:
            reason = database_proof.served_from_elsewhere(launched.spent.statements, launched.wanted)
            out |= {launched.name: reason} if reason else {}
    return out


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
            out[launched.name] = launched.death("under load") or str(error)
        launched.processes, launched.threads = launched.running.counts()
    for last in list(servers.warm().values())[-1:]:
        wait_until_idle(last.running)
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
    since = {name: setup.count_from_now(launched) for name, launched in warm.items()}
    used = database_proof.usage_of(setup.instance)
    before_bytes = {name: launched.running.resident_bytes() for name, launched in warm.items()}
    began_s = time.monotonic()
    with setup.awake.held():
        blocks = run_blocks(setup, planned, warm, plan.index, restless)
    lasted_s = time.monotonic() - began_s
    after = database_proof.usage_of(setup.instance)
    single_threaded = {name: launched.running.counts()[1] == 1 for name, launched in warm.items()}
    events = list[Event]()
    for name, launched in warm.items():
        after_bytes = launched.running.resident_bytes()
        events += machine_events.memory_growth_events(name, before_bytes[name], after_bytes, lasted_s)
        launched.served = since[name]()
        if name in used:
            launched.spent = spent(used[name], after[name])
            launched.wanted = database_proof.wanted_by(launched, blocks, launched.spent.statements)
    return plan.judge(blocks, single_threaded), events


def _fallen_under_load(blocks: Sequence[Block], servers: Servers) -> dict[str, str]:
    """Contenders that died or gave wrong answers under load, with the reason in words."""
    out: dict[str, str] = {}
    for launched in servers:
        own = [block for block in blocks if block.contender == launched.name]
        gave_up, fault = bool(own) and all(block.gave_up for block in own), validity.wrong_under_load(own)
        failed = gave_up or fault is not None or not launched.running.alive()
        if failed and (died := launched.death("under load")):
            out[launched.name] = died
        elif gave_up:
            out[launched.name] = f"refused every connection under load: {own[0].sample}"
        elif fault is not None:
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
