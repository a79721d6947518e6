"""Runs a sweep: fresh launches, each loaded at every rate in random order, then a bisection for the capacity."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil

from dragstrip import machine, validity
from dragstrip.contender import Entry, serving
from dragstrip.errors import BadUsage
from dragstrip.metrics import ANSWERS
from dragstrip.process.running import awake, frozen
from dragstrip.racing import environment, schedule
from dragstrip.racing.progress import Progress
from dragstrip.racing.qualification import Qualified, qualified
from dragstrip.racing.records import block_record, io_facts
from dragstrip.racing.request import Request as RaceRequest
from dragstrip.racing.request import lanes_of, load_of, refuse_doubles
from dragstrip.racing.round import Outcome, Warm, run_round
from dragstrip.racing.schedule import RoundOrder
from dragstrip.racing.setup import RaceSetup, block_plan
from dragstrip.record import Block, Plan, Round
from dragstrip.sweep.capacity import STEPS, Objective, Sample, next_rates, points
from dragstrip.sweep.file import Sweep
from dragstrip.validity.block import WRONG_KINDS
from dragstrip.version import __version__

#: Rates to begin with where nobody named any: shares of what each contender served in calibration's closed loop.
SHARES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 1.0)

#: Each rate's blocks in one launch; the lead-in lets a queue form that is there to stay; a block's counted part is at
#: least so long, and longer where the quantile wants more answers.
PASSES, LEAD_NS, COUNTED_LEAST_NS, COUNTED_MOST_NS = 2, 50_000_000, 200_000_000, 5_000_000_000

#: What the machine, not the contender, did to a block (kinds of ``validity``'s reasons): never used. All else is
#: result.
MACHINES = ("engine waited", "server waited", "clock", "accounting")
GENERATOR = "generator the limit"

#: Rounds that the machine spoilt are run again, so many in each stage; seconds of waiting for a quiet machine, in all.
AGAIN, PATIENCE_S = 3, 20.0

#: Before a launch the rest of the machine should keep less than this share of the cores busy.
QUIET = 0.12

#: run_round's plan: a sweep's blocks have lengths of their own.
_PLAN = Plan(lead_ns=LEAD_NS, counted_ns=COUNTED_LEAST_NS, passes=PASSES, budget_s=0.0, planned_rounds=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be swept.

    Args:
        field: who, at which workload and load, on which cores; what else a race can be told is not looked at.
        rates_per_s: to begin with, for all; none: shares of what each served in calibration.
        launches: fresh ones at each rate, from 3.
    """

    field: RaceRequest
    objective: Objective
    rates_per_s: tuple[float, ...] = ()
    launches: int = 5


def run(request: Request, *, progress: Progress) -> Sweep:
    """Sweeps every contender; an interruption ends it early and is in ``finished``.

    Raises:
        BadUsage: two contenders of one name, cores that don't exist, a rate too low for the objective's quantile.
        NotReady: a contender is missing something.
        KeyboardInterrupt: before anything was measured.
    """
    field = request.field
    if field.wait == "auto":
        field = replace(field, wait="sleep")  # latency as users meet it
    refuse_doubles(field.entries)
    serving(field.workload.name, field.entries)
    _refuse_slow(request)
    lanes = lanes_of(field)
    load = load_of(field, lanes)
    seed = field.seed if field.seed is not None else secrets.randbits(32)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    facts = machine.facts()
    with qualified(field, load, lanes, seed, progress) as (track, stood):
        sweeper = _Sweeper(track, request, stood, progress)
        finished = "interrupted"
        try:
            sweeper.sweep()
            finished = "done"
        except KeyboardInterrupt:
            if not sweeper.samples:
                raise
        return Sweep(
            id=secrets.token_hex(6),
            seed=seed,
            started=started,
            software=__version__,
            workload=field.workload.name,
            load=load,
            objective=request.objective,
            auto=not request.rates_per_s,
            launches=request.launches,
            machine=facts | io_facts(track),
            server_cores=lanes.server,
            engine_cores=lanes.engine,
            entrants=tuple(replace(one, out=sweeper.out.get(one.name, one.out)) for one in stood.entrants),
            closed_loop_per_s=dict(stood.capacity_per_s),
            samples=tuple(sweeper.samples),
            notes=tuple(dict.fromkeys(sweeper.notes)),
            finished=finished,
        )


def least_rate(quantile: str) -> float:
    """The lowest rate at which a launch's blocks have the answers that a quantile wants."""
    return ANSWERS[quantile] / (PASSES * COUNTED_MOST_NS / 1e9)


def counted_ns(rate_per_s: float, quantile: str) -> int:
    """A block's counted part at this rate."""
    wanted_ns = ceil(ANSWERS[quantile] / PASSES / rate_per_s * 1e9)
    return min(max(COUNTED_LEAST_NS, wanted_ns), COUNTED_MOST_NS)


def _refuse_slow(request: Request) -> None:
    quantile = request.objective.quantile
    slow = [rate for rate in request.rates_per_s if rate < least_rate(quantile)]
    if slow:
        raise BadUsage(
            f"--rates {slow[0]:g}: {quantile} wants {ANSWERS[quantile]:,} answers of each launch, which at this rate "
            f"takes over {PASSES * COUNTED_MOST_NS / 1e9:g} s; use {least_rate(quantile):g} a second and more"
        )


class _Sweeper:
    """Drives one sweep's rounds and keeps its samples."""

    def __init__(self, track: RaceSetup, request: Request, stood: Qualified, progress: Progress) -> None:
        self.track, self.request, self.progress = track, request, progress
        self.entries: dict[str, Entry] = dict(stood.ready)
        self.p50_ns, self.capacity_per_s = stood.p50_ns, stood.capacity_per_s
        self.samples: list[Sample] = []
        self.out: dict[str, str] = {}
        self.notes: list[str] = []
        self.watch = environment.Watch(track.lanes.all)
        self.rounds, self.patience_s = 0, PATIENCE_S
        self._again: dict[str, set[float]] = {}
        self._cells: dict[str, tuple[str, float]] = {}
        self._ran: list[float] = []
        self._full: dict[int, str] = {}

    def sweep(self) -> None:
        """The first rates, then a few steps: again what noise left open, and the bisection."""
        self._measure({name: self._first(name) for name in self.entries}, "first rates")
        for step in range(STEPS):
            wanted = {name: rates for name in self.entries if (rates := self._next(name))}
            if not wanted:
                return
            told = ", ".join(
                f"{name} at {f'{rates[0]:,g}/s' if len(rates) == 1 else f'{len(rates)} rates again'}"
                for name, rates in wanted.items()
            )
            self._measure(wanted, f"step {step + 1} of at most {STEPS}, {told}")

    def _first(self, name: str) -> Sequence[float]:
        if self.request.rates_per_s:
            return self.request.rates_per_s
        least = least_rate(self.request.objective.quantile)
        rates = {float(f"{share * self.capacity_per_s[name]:.2g}") for share in SHARES}
        return sorted(rate for rate in rates if rate >= least) or (least,)

    def _next(self, name: str) -> Sequence[float]:
        mine = [sample for sample in self.samples if sample.contender == name]
        found, again = points(mine, self.request.objective), self._again.setdefault(name, set())
        rates = next_rates(found, outwards=not self.request.rates_per_s, again=again)
        again |= {point.rate_per_s for point in found} & set(rates)
        return [rate for rate in rates if rate >= least_rate(self.request.objective.quantile)]

    def _measure(self, rates: Mapping[str, Sequence[float]], what: str) -> None:
        done = tried = 0
        while done < self.request.launches and tried < self.request.launches + AGAIN:
            wanted = {name: mine for name, mine in rates.items() if name in self.entries}
            if not wanted:
                return
            void = f" ({tried - done} void)" if tried > done else ""
            self.progress.phase(f"{what}: launch {done + 1} of {self.request.launches}{void}")
            done += not self._round(wanted).round.void
            tried += 1

    def _round(self, rates: Mapping[str, Sequence[float]]) -> Outcome:
        index, seed = self.rounds, self.track.seed
        self.rounds += 1
        self._cells = {f"{name} {rate!r}": (name, rate) for name, mine in rates.items() for rate in mine}
        order = RoundOrder(
            launches=schedule.round_order(seed, index, list(rates), 1).launches,
            passes=schedule.round_order(seed, index, list(self._cells), PASSES).passes,
        )
        if self.patience_s > 0:
            began_s = time.monotonic()
            machine.wait_for_quiet(self.track.lanes.all, busy_below=QUIET, at_most_s=self.patience_s)
            self.patience_s -= time.monotonic() - began_s - machine.WINDOW_S
        self.watch.before()
        entries = {name: self.entries[name] for name in rates}
        outcome = run_round(self.track, _PLAN, order, index, entries, self.p50_ns, self._load)
        self.notes += [event.detail for event in (*outcome.events, *self.watch.after())]
        for block in outcome.round.blocks:
            self.samples.append(self._sample(block, outcome.round))
        for name, why in outcome.out.items():
            if not _merely_failed(outcome.round, name):
                self.out[name] = why
                self.entries.pop(name)
                self.progress.entrant(name, f"out: {why}")
        return outcome

    def _load(
        self, track: RaceSetup, plan: Plan, order: RoundOrder, index: int, warm: Mapping[str, Warm]
    ) -> tuple[Block, ...]:
        restless = {name: warm[name].running for name in track.restless & warm.keys()}
        cells = [self._cells[key] for keys in order.passes for key in keys]
        cells = [(name, rate) for name, rate in cells if name in warm]
        self._ran = [rate for _, rate in cells]
        blocks: list[Block] = []
        with frozen(restless.values()):
            for position, (name, rate) in enumerate(cells):
                length_ns = counted_ns(rate, self.request.objective.quantile)
                one = block_plan(
                    warm[name].session,
                    lead_ns=plan.lead_ns,
                    counted_ns=length_ns,
                    rate_per_s=rate,
                    pace=track.load.pace,
                    seed=index,
                )
                with awake(restless.get(name)):
                    (tally,) = track.engine.run([one], steal_cores=list(track.lanes.all))
                # A pass of its own: rates have nothing to do with each other, so a spoilt block spoils itself only.
                blocks.append(block_record(tally, name, index, position, position))
        judged = validity.with_reasons(
            blocks,
            connections=track.load.connections,
            server_cores=len(track.lanes.server),
            single_threaded={name: made.running.counts()[1] == 1 for name, made in warm.items()},
            shared_lanes=track.lanes.shared,
            waits=True,
        )
        self._full = {b.position: why for b in judged for why in b.void if _kind(why) == GENERATOR}
        return tuple(replace(b, void=tuple(why for why in b.void if _kind(why) in MACHINES)) for b in judged)

    def _sample(self, block: Block, this: Round) -> Sample:
        return Sample(
            contender=block.contender,
            rate_per_s=self._ran[block.position],
            launch=this.index,
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
            void=(*this.void, *block.void),
            generator=self._full.get(block.position, ""),
        )


def _kind(why: str) -> str:
    return why.split(":")[0]


def _merely_failed(this: Round, name: str) -> bool:
    """Whether a contender that a race would let out only failed requests here, as one that is offered too much may."""
    blocks = [block for block in this.blocks if block.contender == name]
    alive = any(launch.contender == name and not launch.died for launch in this.launches)
    wrong = any(block.errors.get(kind) for block in blocks for kind in WRONG_KINDS)
    return alive and not wrong and any(block.requests for block in blocks)
