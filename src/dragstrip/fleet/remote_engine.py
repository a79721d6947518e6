"""The engines of all generators as one: each loads with its share of the connections; counts and histograms add up."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dragstrip.errors import MachineLost
from dragstrip.fleet.channel import EngineRefusal
from dragstrip.fleet.machines import Connected, Machines
from dragstrip.fleet.messages import KindTally, Nothing, Session, Tallies, Tally, Traffic
from dragstrip.record import Load

if TYPE_CHECKING:
    from dragstrip._engine import BlockPlan

#: Seconds beyond a run's own longest time within which its tallies must be here.
MORE_S = 20.0
#: Seconds within which the servers' machine must answer, where a generator says that its observer does not.
SERVER_S = 5.0

#: How the parts of several generators become one: all else of a tally is a sum.
_MOST = ("counted_ns", "duration_ns", "clock_step_ns", "server_cpu_ns", "server_wait_ns", "server_runs", "lead_ns")
_FIRST = ("session", "sample")
_HISTOGRAMS = ("latency_hdr", "lag_hdr", "latency_sent_hdr")
_QUANTILES = ("p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")


def shares(total: int, count: int) -> tuple[int, ...]:
    """A number of connections, split as evenly as can be, the total exact."""
    return tuple(total // count + (at < total % count) for at in range(count))


def turns(threads: Sequence[int], connections: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Whose turn it is in an open loop's one schedule: each generator's first number, and how many there are.

    A worker without a connection takes none (``SessionPlan.turn_of`` of the engine).
    """
    taking = [min(own, held) for own, held in zip(threads, connections, strict=True)]
    firsts = itertools.accumulate(taking, initial=0)
    return tuple((first, sum(taking)) for first, _ in zip(firsts, taking, strict=False))


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a session leads to, and which of the servers it is.

    Args:
        server: its number on the servers' machine; None: nobody of ours watches it.
        asking: as ``sent.asking_values`` has it.
    """

    host: str
    port: int
    server: int | None
    asking: Mapping[str, Any]


class RemoteEngine:
    """What ``racing`` uses of an engine (``_engine.Engine``), over all generators.

    Args:
        threads: of each generator's engine.
        observed: called with each run's tallies by generator, and each machine's traffic, for the round's record.
    """

    def __init__(
        self,
        machines: Machines,
        load: Load,
        threads: Sequence[int],
        *,
        io: str,
        backend: str,
        wait: str,
        stamps: str,
        observed: Callable[[Sequence[Sequence[Tally]], Mapping[str, Traffic]], None],
    ) -> None:
        self._machines, self._load, self._threads = machines, load, tuple(threads)
        self.io, self.backend, self.wait, self.latency_stamps = io, backend, wait, stamps
        self._sessions: dict[int, tuple[int, ...]] = {}
        self._numbers, self._runs = itertools.count(1), itertools.count(1)
        self._observed = observed

    def open_place(self, place: Destination) -> int:
        """Opens a session's connections, each generator its share.

        Raises:
            EngineRefusal: one of them can't; what the others opened is closed again.
        """
        count = len(self._machines.generators)
        split = shares(self._load.connections, count)
        values = [
            {"connections": own, "turns": turn} for own, turn in zip(split, turns(self._threads, split), strict=True)
        ]
        numbers: list[int] = []
        try:
            for one, own in zip(self._machines.generators, values, strict=True):
                asked = {"host": place.host, "port": place.port, "asking": place.asking, **own}
                within_s = self._load.timeout_ns / 1e9 + MORE_S
                answer = one.channel.ask("open_session", Session, within_s, **asked)
                numbers.append(answer.session)
                if place.server is not None:
                    one.channel.ask("observe", Nothing, session=answer.session, server=place.server)
        except BaseException:
            self._close(numbers)
            raise
        own_number = next(self._numbers)
        self._sessions[own_number] = tuple(numbers)
        return own_number

    def run(self, blocks: Sequence[BlockPlan], *, steal_cores: Sequence[int] = ()) -> list[Tally]:
        """Runs blocks on all generators at once, in one call of each one's engine; nothing else is sent meanwhile.

        Args:
            steal_cores: taken for the machines' own: each reads its own cores.

        Raises:
            MachineLost: a generator is gone, or marks are no longer answered.
            EngineRefusal: a plan that makes no sense.
        """
        number, longest_s = next(self._runs), sum(self._longest_s(block) for block in blocks)
        block_s = max(self._longest_s(block) for block in blocks)
        server = self._machines.server
        server.channel.ask("run_begins", Nothing, block_s=block_s)
        with self._machines.silence():
            begun = [
                one.channel.begin("run", Tallies, blocks=[self._values(block, at) for block in blocks], run=number)
                for at, one in enumerate(self._machines.generators)
            ]
            done = _awaited(self._machines.generators, begun, longest_s + MORE_S)
        parts = [one.tallies for one in done]
        for one, part in zip(self._machines.generators, parts, strict=True):
            if len(part) < len(blocks):
                self._lost(one, len(part), len(blocks))
        traffic = {one.name: own.traffic for one, own in zip(self._machines.generators, done, strict=True)}
        self._observed(parts, traffic | {server.name: server.channel.ask("run_ends", Traffic)})
        merged = [merge(block) for block in zip(*parts, strict=True)]
        return [self._here(tally) for tally in merged]

    def close(self, session: int) -> None:
        """Closes a session's connections; closing one twice does nothing."""
        self._close(self._sessions.pop(session, ()))

    def stop(self) -> None:
        """Ends the current run."""
        for one in self._machines.generators:
            with contextlib.suppress(MachineLost):
                one.channel.begin("stop_run", Nothing)

    def shutdown(self) -> None:
        """Each agent does that."""

    def _close(self, numbers: Sequence[int]) -> None:
        for one, number in zip(self._machines.generators, numbers, strict=False):
            with contextlib.suppress(MachineLost):
                one.channel.ask("close_session", Nothing, session=number)

    def _lost(self, generator: Connected, done: int, planned: int) -> None:
        """A run that ended early: its marks were no longer answered.

        Raises:
            MachineLost: the servers' machine, or the generator where that one still answers.
        """
        self._machines.server.channel.ask("beat", Nothing, SERVER_S)  # raises if it is that one
        raise MachineLost(
            generator.name, f"its marks were no longer answered: {done} of {planned} blocks are done; see the data link"
        )

    def _longest_s(self, block: BlockPlan) -> float:
        return (block.lead_ns + block.counted_ns + self._load.timeout_ns) / 1e9

    def _values(self, block: BlockPlan, generator: int) -> dict[str, Any]:
        """A block as a generator is told it: the whole rate, of which it takes its turns."""
        open_loop: Mapping[str, Any] = {}
        if block.open_loop is not None:
            step = block.open_loop.steps[0]
            pace, seed = block.open_loop.precision, block.open_loop.seed
            open_loop = {"rate_per_s": step.from_per_s, "pace": pace, "seed": seed}
        session = self._sessions[block.session][generator]
        return {"session": session, "lead_ns": block.lead_ns, "counted_ns": block.counted_ns, **open_loop}

    def _here(self, tally: Tally) -> Tally:
        """The same with its times by this machine's clock, as a round's are."""
        ahead_ns = self._machines.generators[0].clock.offset_ns
        return tally.model_copy(
            update={name: getattr(tally, name) - ahead_ns for name in ("started_ns", "counted_start_ns")}
        )


def _awaited(
    machines: Sequence[Connected], begun: Sequence[Callable[[float], Tallies]], within_s: float
) -> list[Tallies]:
    """Every generator's. Where one is lost, the others' marks are no longer answered, and they end, too."""
    parts, failed = list[Tallies](), list[BaseException]()
    for _, answer in zip(machines, begun, strict=True):
        try:
            parts.append(answer(within_s if not failed else MORE_S))
        except (MachineLost, EngineRefusal) as error:
            failed.append(error)
        except KeyboardInterrupt:
            for one in machines:
                with contextlib.suppress(MachineLost):
                    one.channel.begin("stop_run", Nothing)
            raise
    if failed:
        raise failed[0]
    return parts


def _merged_kinds(parts: Sequence[KindTally], add: Callable[[Sequence[bytes]], bytes]) -> KindTally:
    """One of a mix's requests, as all generators saw it."""
    sums = {name: sum(getattr(part, name) for part in parts) for name in ("requests", "failed", "latency_sum_ns")}
    recorded = [part.latency_hdr for part in parts if part.latency_hdr]
    return KindTally.model_construct(**sums, latency_hdr=bytes(add(recorded)) if recorded else b"")


def merge(parts: Sequence[Tally]) -> Tally:
    """One block as all generators saw it. Counts add up, histograms are added; quantiles are read off the sum."""
    if len(parts) == 1:
        return parts[0]
    from dragstrip._engine import merge as add
    from dragstrip._engine import quantiles

    made: dict[str, Any] = {}
    for name in Tally.model_fields:
        values = [getattr(part, name) for part in parts]
        if name in _QUANTILES or name == "lag_p99_ns":
            continue
        if name in _FIRST:
            made[name] = next((value for value in values if value), values[0])
        elif name in _HISTOGRAMS:
            made[name] = None if values[0] is None else bytes(add(values))
        elif name == "kinds":
            made[name] = [_merged_kinds(kinds, add) for kinds in zip(*values, strict=True)]
        elif name == "errors":
            made[name] = {kind: sum(one.get(kind, 0) for one in values) for kind in sorted({*itertools.chain(*values)})}
        elif name == "gave_up":
            made[name] = all(values)
        elif name in ("started_ns", "counted_start_ns"):
            made[name] = values[0]
        elif any(value is None for value in values):
            made[name] = None
        else:
            made[name] = max(values) if name in _MOST else sum(values)
    made |= dict(zip(_QUANTILES, quantiles(made["latency_hdr"]), strict=True))
    made["lag_p99_ns"] = None if made["lag_hdr"] is None else quantiles(made["lag_hdr"])[2]
    return Tally.model_construct(**made)
