"""One round on real processes: launch all afresh, warm each up, load in short blocks, stop, record.

Method: ``docs/METHOD.md``, "The round". Needs an engine handed in; knows nothing of verdicts.
"""

# House: an edge: the compiled engine's fields.
from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from dragstrip import validity
from dragstrip.errors import StageError
from dragstrip.process.processes_here import one_look
from dragstrip.process.running import awake, frozen
from dragstrip.racing import machine_events
from dragstrip.racing.launching import LaunchedServer, Servers, hidden_text, left_text
from dragstrip.racing.qualification import Qualified
from dragstrip.racing.setup import RaceSetup, block_plan
from dragstrip.racing.warm_up import wait_until_idle, warm_up
from dragstrip.record import Block, Counted, Event, EventKind, KindCount, LaunchCount, Round, Void, VoidKind
from dragstrip.validity.block import LoadFault, LoadFaultKind

if TYPE_CHECKING:
    from dragstrip._engine import Tally
    from dragstrip.process.database import DatabaseUsage

#: Servers whose own counts are read at once: a reading mostly waits.
COUNTED_AT_ONCE = 8


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
        restless: contenders that work while idle: they are frozen except in their own blocks.
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
        kind_names: of the workload's requests, if it has several.
    """
    kinds = dict(zip(kind_names, kind_counts(tally), strict=True))
    return Block(
        contender=contender, round=index, pass_index=pass_index, position=position, kinds=kinds, **counted(tally)
    )


def counted(tally: Tally) -> dict[str, Any]:
    """The fields of ``record.Counted``; the engine has each under the same name."""
    return {field.name: getattr(tally, field.name) for field in fields(Counted)}


def kind_counts(tally: Tally) -> list[KindCount]:
    """The counts of each of the workload's requests, in their order; empty if it has only one."""
    return [KindCount(**{field.name: getattr(kind, field.name) for field in fields(KindCount)}) for kind in tally.kinds]


#: Fills in why blocks are void; the mapping has, by contender, whether it has only one thread.
Judge = Callable[[Sequence[Block], Mapping[str, bool]], tuple[Block, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """The plan of one round.

    Args:
        index: 0-based.
        launches: contenders in the order of their launch.
        blocks: in their order.
        judge: decides which blocks are void.
    """

    index: int
    launches: tuple[str, ...]
    blocks: tuple[PlannedBlock, ...]
    judge: Judge


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOutcome:
    """A round's record, the contenders that it took out with the reasons, and other events.

    Args:
        planned: the plan of each block in the record: blocks of contenders that were not warm did not run.
    """

    round: Round
    planned: tuple[PlannedBlock, ...]
    out: Mapping[str, str]
    events: Sequence[Event] = ()


def run_round(setup: RaceSetup, plan: RoundPlan, contenders: Mapping[str, Qualified]) -> RoundOutcome:
    """Runs one whole round and stops every server of it, however it ends.

    Args:
        contenders: the contenders still in the race, by name.
    """
    return _RunningRound(setup, plan, contenders, Servers(setup.engine)).run()


@dataclass
class _RunningRound:
    """A round and its results so far.

    Args:
        out: contenders taken out, with the reasons.
    """

    setup: RaceSetup
    plan: RoundPlan
    contenders: Mapping[str, Qualified]
    servers: Servers
    planned: tuple[PlannedBlock, ...] = ()
    blocks: tuple[Block, ...] = ()
    events: list[Event] = field(default_factory=list)
    out: dict[str, str] = field(default_factory=dict)

    def run(self) -> RoundOutcome:
        started_ns, database_lost = time.monotonic_ns(), False
        try:
            with self.setup.database_up() as database, self.servers:
                self._launch_all()
                self._warm_up_all()
                self._measure()
                self.out = self._fallen_under_load() | self.out
                self._take_out_by_the_database()
                database_lost = database is not None and not database.alive()
        except StageError:  # a contender's error has been caught already: this is the database's
            database_lost = True
        self.out = self._hidden() | self.out
        record = Round(
            index=self.plan.index,
            started_ns=started_ns,
            ended_ns=time.monotonic_ns(),
            launches=tuple(launched.record(self.plan.index, self.setup.lanes.server) for launched in self.servers),
            blocks=self.blocks,
        )
        if text := self.setup.database.log_tail() if self.setup.database else "":
            self.events.append(machine_events.event(EventKind.DATABASE, text=text, round=self.plan.index))
        # A contender that failed together with the database did nothing wrong.
        void = (Void(kind=VoidKind.DATABASE),) if database_lost else validity.round_reasons(record)
        out = {} if database_lost else self.out
        return RoundOutcome(round=replace(record, void=void), planned=self.planned, out=out, events=self.events)

    def _launch_all(self) -> None:
        """Launches the round's contenders, one after another; takes out any that did not come up."""
        for name in self.plan.launches:
            try:
                self.servers.add(self.setup.launch(self.contenders[name].entry))
            except StageError as error:
                self.out[name] = str(error)

    def _warm_up_all(self) -> None:
        """Warms up running contenders, one after another; takes out any that sent no correct response."""
        for launched in self.servers:
            try:
                launched.warm_up = warm_up(self.setup, launched, self.contenders[launched.name].calibration.p50_ns)
            except StageError as error:
                self.out[launched.name] = launched.death("under load") or str(error)
        with one_look():
            for launched in self.servers:
                launched.count_threads()
        for last in list(self.servers.warm().values())[-1:]:
            wait_until_idle(last.running)

    def _measure(self) -> None:
        """Runs and judges the blocks; also reads the servers' own counts, and how their memory grows."""
        setup, warm = self.setup, self.servers.warm()
        self.planned = tuple(block for block in self.plan.blocks if block.contender in warm)
        restless = frozenset(name for name in warm if self.contenders[name].calibration.restless)
        with ThreadPoolExecutor(COUNTED_AT_ONCE) as pool:
            since = dict(zip(warm, pool.map(setup.count_from_now, warm.values()), strict=True))
        used = setup.database_use()
        with one_look():
            before_bytes = {name: launched.running.resident_bytes() for name, launched in warm.items()}
        began_s = time.monotonic()
        with setup.awake.held():
            blocks = run_blocks(setup, self.planned, warm, self.plan.index, restless)
        lasted_s = time.monotonic() - began_s
        after = setup.database_use()
        with one_look():
            single_threaded = {name: launched.running.counts()[1] == 1 for name, launched in warm.items()}
            after_bytes = {name: launched.running.resident_bytes() for name, launched in warm.items()}
        with ThreadPoolExecutor(COUNTED_AT_ONCE) as pool:
            served = dict(zip(warm, pool.map(lambda name: since[name](), warm), strict=True))
        for name, launched in warm.items():
            self.events += machine_events.memory_growth_events(name, before_bytes[name], after_bytes[name], lasted_s)
            if (count := served[name]) is not None:
                launched.counts[LaunchCount.SERVED] = count
        if used:
            _count_database_use(warm, used, after, blocks)
        self.blocks = self.plan.judge(blocks, single_threaded)

    def _fallen_under_load(self) -> dict[str, str]:
        """Contenders that died or gave incorrect responses under load, with the reason in words."""
        out: dict[str, str] = {}
        for launched in self.servers:
            blocks = [block for block in self.blocks if block.contender == launched.name]
            gave_up, fault = bool(blocks) and all(block.gave_up for block in blocks), validity.wrong_under_load(blocks)
            failed = gave_up or fault is not None or not launched.running.alive()
            if failed and (died := launched.death("under load")):
                out[launched.name] = died
            elif gave_up:
                out[launched.name] = f"refused every connection under load: {blocks[0].sample}"
            elif fault is not None:
                out[launched.name] = _load_fault_text(fault, self.setup.difference(launched, fault.sample))
            elif outside := launched.running.outside():
                out[launched.name] = left_text(outside)
        return out

    def _hidden(self) -> dict[str, str]:
        """Contenders whose processes used CPU time outside of their cgroup, and came back before anybody looked."""
        ends = {launched.name: launched.ended for launched in self.servers if launched.ended is not None}
        return {name: text for name, end in ends.items() if (text := hidden_text(end))}

    def _take_out_by_the_database(self) -> None:
        """Takes out contenders that responded without querying the database; none is under load any more.

        Raises:
            DatabaseGoneError: it can't be queried any more.
        """
        if self.setup.instance is None:
            return
        from dragstrip.racing import database_proof

        left = [launched for launched in self.servers.warm().values() if launched.name not in self.out]
        self.out |= database_proof.stale_answers(self.setup, left)
        for launched in left:
            if wanted := launched.counts.get(LaunchCount.DATABASE_WANTED):
                executed = launched.counts[LaunchCount.DATABASE_STATEMENTS]
                reason = database_proof.served_from_elsewhere(executed, wanted)
                self.out |= {launched.name: reason} if reason else {}


def _count_database_use(
    warm: Mapping[str, LaunchedServer],
    before: Mapping[str, DatabaseUsage],
    after: Mapping[str, DatabaseUsage],
    blocks: Sequence[Block],
) -> None:
    """What each contender used of the database over the blocks, and what its responses needed there."""
    from dragstrip.process.database import spent  # races without one don't need it
    from dragstrip.racing import database_proof

    for name, launched in warm.items():
        if name in before:
            launched.counts |= spent(before[name], after[name])
            executed = launched.counts[LaunchCount.DATABASE_STATEMENTS]
            launched.counts[LaunchCount.DATABASE_WANTED] = database_proof.wanted_by(launched, blocks, executed)


def _load_fault_text(fault: LoadFault, differs: str = "") -> str:
    """The reason as the record keeps it (``Entrant.out``); ``differs``: how a response does."""
    by_count = sorted(fault.errors.items(), key=lambda item: -item[1])
    kinds = ", ".join(f"{kind} {count}" for kind, count in by_count if count)
    text = {
        LoadFaultKind.WRONG_ANSWERS: f"sent incorrect responses under load ({kinds}, of {fault.sent} requests)",
        LoadFaultKind.FAILED: f"failed under load: {fault.failed} errors to {fault.sent} requests ({kinds})",
        LoadFaultKind.NO_ANSWER: "sent no correct response under load in any block",
    }[fault.kind]
    first = differs or (f"the first: {fault.sample}" if fault.sample else "")
    return f"{text}; {first}" if first else text
