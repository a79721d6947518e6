"""All generators' engines as one: each loads with its share of the connections; counts and histograms add up."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from dragstrip.errors import BadUsage, DragstripError, MachineLost
from dragstrip.extras.fleet.duties import Duties
from dragstrip.extras.fleet.generator_duties import GeneratorDuties
from dragstrip.extras.fleet.machines import Connected, Machines, side_by_side
from dragstrip.extras.fleet.merging import merge
from dragstrip.extras.fleet.messages import Opened, SentAsking, SentBlock, Tally, Traffic
from dragstrip.extras.fleet.server_duties import ServerDuties
from dragstrip.record import Load

if TYPE_CHECKING:
    from dragstrip._engine import BlockPlan

_Reply = TypeVar("_Reply")

#: Seconds beyond a run's own longest time within which its tallies must arrive.
MORE_S = 20.0
#: Seconds within which the servers' machine must reply if a generator reports that its observer does not.
SERVER_S = 5.0


def shares(total: int, count: int) -> tuple[int, ...]:
    """A number of connections, split as evenly as possible; the shares add up to the total."""
    return tuple(total // count + (index < total % count) for index in range(count))


def turns(threads: Sequence[int], connections: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Each generator's turns in an open loop's common schedule: its first turn, and the number of turns of all.

    A worker without a connection takes no turn (``SessionPlan.turn_of`` of the engine).
    """
    taking = [min(pair) for pair in zip(threads, connections, strict=True)]
    firsts = itertools.accumulate(taking, initial=0)
    return tuple((first, sum(taking)) for first, _ in zip(firsts, taking, strict=False))


class RemoteEngine:
    """The part of an engine (``_engine.Engine``) that ``racing`` uses, over all generators.

    Args:
        opened: each generator's reply, in their order.

    Attributes:
        observed: called with each run's tallies by generator, and each machine's traffic, for the round's record.
    """

    observed: Callable[[Sequence[Sequence[Tally]], Mapping[str, Traffic]], None]

    def __init__(self, machines: Machines, load: Load, opened: Sequence[Opened]) -> None:
        first = opened[0]
        self._machines, self._load, self._threads = machines, load, tuple(generator.threads for generator in opened)
        self.io, self.backend, self.wait, self.latency_stamps = first.io, first.backend, first.wait, first.stamps
        self._sessions: dict[int, tuple[int, ...]] = {}
        self._numbers, self._runs = itertools.count(1), itertools.count(1)

    def open_at(self, host: str, port: int, server: int | None, asking: SentAsking) -> int:
        """Opens a session's connections; each generator opens its share.

        Args:
            server: its number on the servers' machine; None: its CPU time is not read.
            asking: the requests to it.

        Raises:
            EngineRefusal: a generator can't; the connections of the others are closed again.
        """
        count = len(self._machines.generators)
        split = shares(self._load.connections, count)
        sessions: list[int] = []
        within_s = self._load.timeout_ns / 1e9 + MORE_S
        try:
            shared = zip(self._machines.generators, split, turns(self._threads, split), strict=True)
            for generator, connections, generators_turns in shared:
                opening = generator.channel.begin(
                    GeneratorDuties.open_session, asking=asking, host=host, port=port,
                    connections=connections, turns=generators_turns,
                )  # fmt: skip
                sessions.append(opening(within_s))
                if server is not None:
                    generator.channel.ask(GeneratorDuties.observe, sessions[-1], server)
        except BaseException:
            self._close(sessions)
            raise
        number = next(self._numbers)
        self._sessions[number] = tuple(sessions)
        return number

    def run(self, blocks: Sequence[BlockPlan], *, steal_cores: Sequence[int] = ()) -> list[Tally]:
        """Runs blocks on all generators at once, in one call of each engine; no other message is sent until the end.

        Args:
            steal_cores: ignored: each machine reads its own cores.

        Raises:
            MachineLost: a generator is gone, or the observer no longer answers its marks.
            EngineRefusal: a plan is not valid.
        """
        number, longest_s = next(self._runs), sum(self._longest_s(block) for block in blocks)
        block_s = max(self._longest_s(block) for block in blocks)
        server = self._machines.server
        server.channel.ask(ServerDuties.begin_run, block_s)
        with self._machines.silence():
            begun = [
                generator.channel.begin(
                    GeneratorDuties.run, blocks=[self._sent(block, index) for block in blocks], run=number
                )
                for index, generator in enumerate(self._machines.generators)
            ]
            done = awaited(self._machines.generators, begun, longest_s + MORE_S)
        parts = [reply.tallies for reply in done]
        for generator, part in zip(self._machines.generators, parts, strict=True):
            if len(part) < len(blocks):
                self._lost(generator, len(part), len(blocks))
        replies = zip(self._machines.generators, done, strict=True)
        traffic = {generator.name: reply.traffic for generator, reply in replies}
        self.observed(parts, traffic | {server.name: server.channel.ask(ServerDuties.end_run)})
        merged = [merge(block) for block in zip(*parts, strict=True)]
        # Times are by this machine's clock, as in a round's record.
        ahead_ns = self._machines.generators[0].clock.offset_ns
        return [
            replace(
                tally,
                started_ns=tally.started_ns - ahead_ns,
                counted_start_ns=tally.counted_start_ns - ahead_ns,
            )
            for tally in merged
        ]

    def close(self, session: int) -> None:
        """Closes a session's connections; closing one twice does nothing."""
        self._close(self._sessions.pop(session, ()))

    def stop(self) -> None:
        stop(self._machines.generators)

    def shutdown(self) -> None:
        """Does nothing: each agent shuts its own engine down."""

    def _close(self, numbers: Sequence[int]) -> None:
        for generator, number in zip(self._machines.generators, numbers, strict=False):
            with contextlib.suppress(MachineLost):
                generator.channel.ask(GeneratorDuties.close_session, number)

    def _lost(self, generator: Connected, done: int, planned: int) -> None:
        """Reports a run that ended early because the observer no longer answered its marks.

        Raises:
            MachineLost: the servers' machine, or the generator if the servers' machine still replies.
        """
        self._machines.server.channel.begin(Duties.beat)(SERVER_S)  # raises if the servers' machine is lost
        raise MachineLost(
            generator.name,
            f"its marks were no longer answered: {done} of {planned} blocks are done; check the data link",
        )

    def _longest_s(self, block: BlockPlan) -> float:
        return (block.lead_ns + block.counted_ns + self._load.timeout_ns) / 1e9

    def _sent(self, block: BlockPlan, generator: int) -> SentBlock:
        """A block as it is sent to a generator: with the total rate, of which it takes its own turns."""
        session, open_loop = self._sessions[block.session][generator], block.open_loop
        sent = SentBlock(session=session, lead_ns=block.lead_ns, counted_ns=block.counted_ns)
        if open_loop is None:
            return sent
        rate_per_s = open_loop.steps[0].from_per_s
        return replace(sent, rate_per_s=rate_per_s, pace=open_loop.precision, seed=open_loop.seed)


def awaited(
    generators: Sequence[Connected], replies: Sequence[Callable[[float], _Reply]], within_s: float
) -> list[_Reply]:
    """Waits for every generator's reply. If one fails, or the user interrupts, the others stop.

    Raises:
        DragstripError: the first that was raised. KeyboardInterrupt: the caller can still wait for the replies.
    """
    failed = list[DragstripError]()

    def wait(index: int) -> _Reply:
        try:
            with named(generators[index]):
                return replies[index](within_s)
        except DragstripError as error:
            failed.append(error)
            stop(generators)
            raise

    try:
        return side_by_side(wait, range(len(replies)))
    except KeyboardInterrupt:
        stop(generators)
        raise
    except DragstripError:
        raise failed[0] from None


def stop(generators: Iterable[Connected]) -> None:
    """Ends each generator's run."""
    for generator in generators:
        with contextlib.suppress(MachineLost):
            generator.channel.begin(GeneratorDuties.stop_run)


@contextlib.contextmanager
def named(node: Connected) -> Iterator[None]:
    """Names the machine in a refusal: only one machine may lack a script's file, or a route to the server."""
    try:
        yield
    except (BadUsage, DragstripError) as error:
        if type(error) in (BadUsage, DragstripError):
            raise type(error)(f"{node.name}: {error}") from error
        raise  # its message already has the name
