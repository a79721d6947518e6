"""Runs a sweep: fresh launches, each loaded at every rate in random order, then a bisection for the capacity."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import repeat
from math import ceil

from dragstrip import __version__, validity
from dragstrip.analysis.gates import Rule, settled
from dragstrip.errors import BadUsage
from dragstrip.machine_facts import Facts
from dragstrip.metrics import ANSWERS
from dragstrip.racing import schedule
from dragstrip.racing.loop import RoundLoop
from dragstrip.racing.progress import Progress
from dragstrip.racing.qualification import Qualification, qualify_all, set_up
from dragstrip.racing.request import Request as RaceRequest
from dragstrip.racing.request import lanes_of, load_of, refuse_doubles, refuse_unfit_load
from dragstrip.racing.round import PlannedBlock, RoundOutcome, RoundPlan
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import Block, Event, Round, Void, VoidKind
from dragstrip.sweep.capacity import NEAR, STEPS, Objective, Sample, SweepPoint, capacity, next_rates, points, ratio_of
from dragstrip.sweep.file import Sweep
from dragstrip.validity.block import WRONG_KINDS
from dragstrip.workload.recorded import recorded

#: Default rates to begin with: shares of what each contender served in calibration's closed loop.
SHARES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 1.0)

#: Blocks at each rate in one launch; lead-in, in which a lasting queue forms; minimum and maximum counted part of a
#: block, which depends on the number of responses that the quantile needs.
PASSES, LEAD_NS, MIN_COUNTED_NS, MAX_COUNTED_NS = 2, 50_000_000, 200_000_000, 5_000_000_000

#: Reasons of ``validity`` that are the machine's fault: such a block is never used. Any other block is a result.
MACHINES = frozenset(
    {VoidKind.ENGINE_WAITED, VoidKind.SERVER_WAITED, VoidKind.CLOCK, VoidKind.ACCOUNTING, VoidKind.MARK_LOST}
)

#: Maximum repeats of disturbed rounds in each stage; total seconds of waiting for a quiet machine.
AGAIN, PATIENCE_S = 3, 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """A requested sweep.

    Args:
        field: contenders, workload, load and cores; a race's other options have no effect.
        rates_per_s: first rates for all contenders; empty: shares of each contender's rate in calibration.
        launches: number of fresh launches at each rate, from 3.
        rules: thresholds of the capacity over the first contender's; while one is open, brackets are halved further.
    """

    field: RaceRequest
    objective: Objective
    rates_per_s: tuple[float, ...] = ()
    launches: int = 5
    rules: tuple[Rule, ...] = ()


def run(request: SweepRequest, *, progress: Progress) -> Sweep:
    """Sweeps every contender; an interruption ends it early and is in ``finished``.

    The steps are a race's (``racing.run``) with a loop of its own kind, and no store: raw samples go into one file.

    Raises:
        BadUsage: two contenders of one name, cores that don't exist, a rate too low for the objective's quantile.
        NotReady: a contender is missing something.
        KeyboardInterrupt: before anything was measured.
    """
    asked = request.field
    if asked.wait == "auto":
        asked = replace(asked, wait="sleep")  # latency as users meet it
    refuse_doubles(asked.entries)
    for entry in asked.entries:
        entry.refuse_unless_it_serves(asked.workload.served_as)
    refuse_unfit_load(asked, open_loop=True)
    _refuse_slow(request)
    lanes = lanes_of(asked)
    load = load_of(asked, lanes)
    seed = asked.seed if asked.seed is not None else secrets.randbits(32)
    started, facts = datetime.now(UTC).isoformat(timespec="seconds"), asked.site.facts()
    with set_up(asked, load, lanes, seed, progress) as (setup, states):
        qualification = qualify_all(setup, asked.entries, states, progress, site=asked.site)
        loop = SweepLoop(setup, progress, request, qualification)
        finished = loop.drive()
        return _record(request, setup, qualification, loop, started, setup.with_facts(facts), finished)


def _record(
    request: SweepRequest,
    setup: RaceSetup,
    qualification: Qualification,
    loop: SweepLoop,
    started: str,
    facts: Facts,
    finished: str,
) -> Sweep:
    """The sweep's record; ``facts``: the machine's."""
    return Sweep(
        id=secrets.token_hex(6),
        seed=setup.seed,
        started=started,
        software=__version__,
        workload=setup.workload.name,
        definition=recorded(setup.workload),
        load=setup.load,
        objective=request.objective,
        auto=not request.rates_per_s,
        launches=request.launches,
        machine=facts,
        server_cores=setup.lanes.server,
        engine_cores=setup.lanes.engine,
        entrants=tuple(
            replace(contender, out=loop.out.get(contender.name, contender.out))
            for contender in qualification.entrants()
        ),
        closed_loop_per_s={
            name: contender.calibration.capacity_per_s for name, contender in qualification.ready.items()
        },
        samples=tuple(loop.samples),
        events=tuple(loop.events),
        finished=finished,
    )


def least_rate(quantile: str) -> float:
    """The lowest rate at which a launch's blocks have the responses that a quantile needs."""
    return ANSWERS[quantile] / (PASSES * MAX_COUNTED_NS / 1e9)


def counted_ns(rate_per_s: float, quantile: str) -> int:
    """A block's counted part at this rate."""
    wanted_ns = ceil(ANSWERS[quantile] / PASSES / rate_per_s * 1e9)
    return min(max(MIN_COUNTED_NS, wanted_ns), MAX_COUNTED_NS)


def _refuse_slow(request: SweepRequest) -> None:
    quantile = request.objective.quantile
    slow = [rate for rate in request.rates_per_s if rate < least_rate(quantile)]
    if slow:
        raise BadUsage(
            f"--rates {slow[0]:g}: {quantile} needs {ANSWERS[quantile]:,} responses per launch, which takes over "
            f"{PASSES * MAX_COUNTED_NS / 1e9:g} s at this rate; use {least_rate(quantile):g} per second or more"
        )


@dataclass
class _Stage:
    """Rates of each contender that are measured together, in the same launches; ``description`` is in words."""

    rates: Mapping[str, Sequence[float]]
    description: str
    valid_rounds: int = 0
    rounds: int = 0


class SweepLoop(RoundLoop):
    """Runs a sweep's rounds, stage by stage, and keeps their samples.

    Attributes:
        out: contenders taken out, with the reason. events: what the machine did during the sweep.
    """

    def __init__(
        self, setup: RaceSetup, progress: Progress, request: SweepRequest, qualification: Qualification
    ) -> None:
        super().__init__(setup, progress, qualification.ready)
        self.request, self.patience_s = request, PATIENCE_S
        self.samples: list[Sample] = []
        self.out: dict[str, str] = {}
        self.events: list[Event] = []
        self._rounds = 0
        self._stage = _Stage({}, "")
        self._measured_again: dict[str, set[float]] = {}
        #: In the round that was judged last, why the generator was the limit, by the block's position.
        self._generator_limits: dict[int, Void] = {}

    def drive(self) -> str:
        """Sweeps until it is over; returns "done" or "interrupted".

        Raises:
            KeyboardInterrupt: before anything was measured.
        """
        try:
            self._sweep()
        except KeyboardInterrupt:
            if not self.samples:
                raise
            return "interrupted"
        return "done"

    def _sweep(self) -> None:
        """Measures the first rates, then in a few steps rates that noise left open, and rates of the bisection."""
        self._measure({name: self._first_rates(name) for name in self.contenders}, "first rates")
        for step in range(STEPS):
            measured = {
                name: points([sample for sample in self.samples if sample.contender == name], self.request.objective)
                for name in self.contenders
            }
            open_ = self._open_for(measured)
            wanted = {
                name: rates
                for name, known in measured.items()
                if (rates := self._next_rates(name, known, near=0.0 if name in open_ else NEAR))
            }
            if not wanted:
                return
            steps = ", ".join(
                f"{name} at {f'{rates[0]:,g}/s' if len(rates) == 1 else f'{len(rates)} rates again'}"
                for name, rates in wanted.items()
            )
            self._measure(wanted, f"step {step + 1} of at most {STEPS}, {steps}")

    def _first_rates(self, name: str) -> Sequence[float]:
        if self.request.rates_per_s:
            return self.request.rates_per_s
        least = least_rate(self.request.objective.quantile)
        capacity_per_s = self.contenders[name].calibration.capacity_per_s
        rates = {float(f"{share * capacity_per_s:.2g}") for share in SHARES}
        return sorted(rate for rate in rates if rate >= least) or (least,)

    def _next_rates(self, name: str, measured: Sequence[SweepPoint], *, near: float) -> Sequence[float]:
        again = self._measured_again.setdefault(name, set())
        rates = next_rates(measured, outwards=not self.request.rates_per_s, again=again, near=near)
        again |= {point.rate_per_s for point in measured} & set(rates)
        return [rate for rate in rates if rate >= least_rate(self.request.objective.quantile)]

    def _open_for(self, measured: Mapping[str, Sequence[SweepPoint]]) -> set[str]:
        """Contenders whose brackets leave a threshold open."""
        first = self.request.field.entries[0].name
        if not self.request.rules or first not in measured:
            return set()
        ends = {name: capacity(known) for name, known in measured.items()}
        open_ = {
            name
            for name in ends.keys() - {first}
            if not all(settled(rule, *ratio_of(ends[name], ends[first])) for rule in self.request.rules)
        }
        return open_ | {first} if open_ else set()

    def _measure(self, rates: Mapping[str, Sequence[float]], description: str) -> None:
        self._stage = _Stage(rates, description)
        while not self._stage_is_over():
            self.step()

    def _wanted(self) -> dict[str, Sequence[float]]:
        """The stage's rates of the contenders that are not out."""
        return {name: rates for name, rates in self._stage.rates.items() if name in self.contenders}

    def _stage_is_over(self) -> bool:
        """Whether the stage has all its launches, or can't get them; repeats up to ``AGAIN`` void rounds."""
        stage, launches = self._stage, self.request.launches
        measured = stage.valid_rounds >= launches or stage.rounds >= launches + AGAIN
        return measured or self.lost or not self._wanted()

    def next_round(self) -> RoundPlan:
        """Each contender launched once and loaded at each of its rates, all in random order."""
        stage, seed, index, rates = self._stage, self.setup.seed, self._rounds, self._wanted()
        void = f" ({stage.rounds - stage.valid_rounds} void)" if stage.rounds > stage.valid_rounds else ""
        self.progress.phase(f"{stage.description}: launch {stage.valid_rounds + 1} of {self.request.launches}{void}")
        loads = {f"{name} {rate!r}": (name, rate) for name, its_rates in rates.items() for rate in its_rates}
        drawn = [loads[key] for keys in schedule.round_order(seed, index, list(loads), PASSES).passes for key in keys]
        quantile = self.request.objective.quantile
        return RoundPlan(
            index=index,
            launches=schedule.round_order(seed, index, list(rates), 1).launches,
            # Each block has its own pass: rates do not depend on each other, so an invalid block invalidates no other.
            blocks=tuple(
                PlannedBlock(
                    contender=name,
                    pass_index=index_in_round,
                    lead_ns=LEAD_NS,
                    counted_ns=counted_ns(rate_per_s, quantile),
                    rate_per_s=rate_per_s,
                )
                for index_in_round, (name, rate_per_s) in enumerate(drawn)
            ),
            judge=self._judge,
        )

    def _judge(self, blocks: Sequence[Block], single_threaded: Mapping[str, bool]) -> tuple[Block, ...]:
        """Voids blocks only for the machine's faults; keeps the generator's limits separately."""
        judged = validity.with_reasons(
            blocks,
            validity.BlockRules(
                connections=self.setup.load.at_once,
                server_cores=len(self.setup.lanes.server),
                shared_lanes=self.setup.lanes.shared,
                waits=True,
                observed=self.setup.observed,
            ),
            single_threaded,
        )
        self._generator_limits = {b.position: why for b in judged for why in b.void if why.kind is VoidKind.GENERATOR}
        return tuple(replace(b, void=tuple(why for why in b.void if why.kind in MACHINES)) for b in judged)

    def commit_round(self, outcome: RoundOutcome, events: Sequence[Event]) -> None:
        """Keeps the round's samples, and takes out contenders that died or sent incorrect responses."""
        self._rounds += 1
        self._stage.rounds += 1
        self._stage.valid_rounds += not outcome.round.void
        self.events += events
        self.samples += map(self._sample, outcome.round.blocks, outcome.planned, repeat(outcome.round))
        for name, reason in outcome.out.items():
            if not _merely_failed(outcome.round, name):
                self.out[name] = reason
                self.contenders.pop(name)
                self.progress.out(name, reason)

    def _sample(self, block: Block, planned: PlannedBlock, of_round: Round) -> Sample:
        return Sample(
            contender=block.contender,
            rate_per_s=planned.rate_per_s,
            launch=of_round.index,
            counted_ns=block.counted_ns,
            offered=block.offered or 0,
            departed=block.departed or 0,
            unsent=block.unsent or 0,
            requests=block.requests,
            answered=block.answered,
            failed=block.failed,
            errors=dict(block.errors),
            latency_hdr=block.latency_hdr,
            lag_p99_ns=block.lag_p99_ns or 0,
            server_cpu_ns=block.server_cpu_ns,
            engine_cpu_ns=block.engine_cpu_ns,
            void=(*of_round.void, *block.void),
            generator=self._generator_limits.get(block.position),
        )


def _merely_failed(completed: Round, name: str) -> bool:
    """Whether a contender that a race would take out only failed requests, as an overloaded contender may."""
    blocks = [block for block in completed.blocks if block.contender == name]
    alive = any(launch.contender == name and not launch.died for launch in completed.launches)
    wrong = any(block.errors.get(kind) for block in blocks for kind in WRONG_KINDS)
    return alive and not wrong and any(block.requests for block in blocks)
