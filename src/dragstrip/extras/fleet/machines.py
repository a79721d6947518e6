"""All machines of a fleet, connected: their channels, their identities, and the beats that keep agents running."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from typing import Self, TypeVar

from dragstrip.errors import BadUsage, MachineLost
from dragstrip.extras.fleet.agent import WORDS
from dragstrip.extras.fleet.channel import NO_COMMAND, Channel, ControlClock, words_to_reach
from dragstrip.extras.fleet.definition import Fleet, Machine
from dragstrip.extras.fleet.duties import Duties, hello
from dragstrip.extras.fleet.holder import SESSION, this_client
from dragstrip.extras.fleet.messages import Hello

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

#: Seconds between two beats, and seconds that a reply may take. An agent ends after ``agent.SILENCE_S``.
BEAT_S, BEAT_LOST_S = 2.0, 6.0
#: Seconds that a machine may take to connect: the connection, ssh's own handshake, and Python's start.
CONNECT_S = 30.0
#: Seconds between two tries to reach a machine that was lost.
AGAIN_S = 1.0
#: Seconds to wait for another client's agent: if its client is gone, it notices after ``agent.SILENCE_S``.
HELD_S = 14.0


class Connected:
    """One machine with a running agent.

    Args:
        greeting: its identity. clock: how far its clock is ahead of the client's.
    """

    def __init__(self, machine: Machine, channel: Channel, greeting: Hello, clock: ControlClock) -> None:
        self.machine, self.channel, self.greeting, self.clock = machine, channel, greeting, clock

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def identity(self) -> str:
        """A text that identifies the machine and its boot."""
        return f"{self.greeting.machine} {self.greeting.boot}"


def connect(fleet: Fleet, machine: Machine, within_s: float = CONNECT_S) -> Connected:
    """Starts an agent on a machine and checks its identity.

    Raises:
        MachineLost: it can't be reached, or what replies is not a Dragstrip agent.
        BadUsage: it has another Dragstrip than this machine, or another client uses it.
    """
    channel = Channel(machine.name, words_to_reach(machine, fleet, [*WORDS, machine.name, machine.role]))
    try:
        greeting = channel.begin(Duties.hello)(within_s)
        ours = hello()
        if (greeting.protocol, greeting.version, greeting.sources) != (ours.protocol, ours.version, ours.sources):
            raise BadUsage(
                f"{machine.name}: it has Dragstrip {greeting.version} ({greeting.sources}), this machine has "
                f"{ours.version} ({ours.sources}); `dragstrip fleet install {fleet.file}` puts the same one there"
            )
        _hold(machine, channel, within_s)
        return Connected(machine, channel, greeting, ControlClock(channel))
    except MachineLost as lost:
        channel.close()
        if channel.exit_status in NO_COMMAND:
            remedy = f"`dragstrip fleet install {fleet.file}` puts Dragstrip there"
            raise MachineLost(machine.name, f"{lost.why}; {remedy}") from lost
        raise
    except BaseException:
        channel.close()
        raise


def _hold(machine: Machine, channel: Channel, within_s: float) -> None:
    """Holds a machine for this client; waits for another client's agent, because that client may be gone.

    Raises:
        BadUsage: another client has it.
    """
    until = time.monotonic() + HELD_S
    while True:
        try:
            channel.begin(Duties.hold, SESSION, this_client())(within_s)
            return
        except BadUsage as held:
            if time.monotonic() >= until:
                raise BadUsage(f"{machine.name}: {held}") from held
        time.sleep(AGAIN_S)  # each try also shows the agent that its client is there


def side_by_side(work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """Does something with all items at once and waits for them, in daemon threads: a process that ends waits for none.

    Raises:
        Exception: if several were raised, the one of the first item.
    """
    futures = [Future[_Result]() for _ in items]

    def run(future: Future[_Result], item: _Item) -> None:
        try:
            future.set_result(work(item))
        except BaseException as error:
            future.set_exception(error)

    for pair in zip(futures, items, strict=True):
        threading.Thread(target=run, args=pair, daemon=True).start()
    wait(futures)
    return [future.result() for future in futures]


class Machines:
    """The machines of a fleet, the servers' machine and the generators; leaving the ``with`` ends every agent.

    Args:
        node_wait_s: how long to wait for a lost machine.
    """

    def __init__(self, fleet: Fleet, *, node_wait_s: float = 30.0) -> None:
        self.fleet, self.node_wait_s = fleet, node_wait_s
        self._connected: dict[str, Connected] = {}
        self._silent = threading.Lock()
        self._over = threading.Event()
        self._beats = threading.Thread(target=self._beat_all, name="beats", daemon=True)

    def __enter__(self) -> Self:
        try:
            for node in side_by_side(lambda machine: connect(self.fleet, machine), self.fleet.machines):
                self._connected[node.name] = node
        except BaseException:
            self.close()
            raise
        self._beats.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all agents at once; each stops everything that it has started."""
        self._over.set()
        side_by_side(lambda node: node.channel.close(), list(self._connected.values()))
        self._connected.clear()

    @property
    def server(self) -> Connected:
        return self._connected[self.fleet.server.name]

    @property
    def generators(self) -> tuple[Connected, ...]:
        """The generators, in the order of the file."""
        return tuple(self._connected[machine.name] for machine in self.fleet.generators)

    @property
    def all(self) -> tuple[Connected, ...]:
        """All machines, the servers' machine first."""
        return (self.server, *self.generators)

    @contextlib.contextmanager
    def silence(self) -> Iterator[None]:
        """Sends no beat while the block lasts, because a beat would disturb measurements."""
        with self._silent:
            yield

    def on_all(self, work: Callable[[Connected], _Result], some: Sequence[Connected] | None = None) -> list[_Result]:
        """Does something on all machines (or some) at once, and waits for all.

        Raises:
            Exception: as ``side_by_side``.
        """
        return side_by_side(work, self.all if some is None else some)

    def recover(self) -> bool:
        """Waits ``node_wait_s`` at most for lost machines; returns whether all are back since the same boot.

        Agents on all machines start afresh, because the interrupted round is not continued.
        """
        identities = {node.name: node.identity for node in self.all}
        until = time.monotonic() + self.node_wait_s
        with self.silence():
            for node in self.all:
                node.channel.lose("its race starts again")
                node.channel.close()
            missing = list(self.fleet.machines)
            while missing and time.monotonic() < until:
                for back in side_by_side(lambda machine: self._back(machine, until), missing):
                    if back is not None:
                        self._connected[back.name] = back
                        missing.remove(back.machine)
                        if back.identity != identities[back.name]:
                            return False
                if missing:
                    time.sleep(AGAIN_S)
        return not missing

    def _back(self, machine: Machine, until_s: float) -> Connected | None:
        """A machine that was lost, if it can be reached in time."""
        try:
            return connect(self.fleet, machine, max(until_s - time.monotonic(), 1.0))
        except MachineLost:
            return None

    def _beat_all(self) -> None:
        """Shows every agent that the client is there, and notices lost agents."""
        while not self._over.wait(BEAT_S):
            # All at once: a slow reply must not delay the other beats until those agents end themselves.
            with self._silent:
                side_by_side(self._beat, list(self._connected.values()))

    @staticmethod
    def _beat(node: Connected) -> None:
        with contextlib.suppress(MachineLost):
            node.channel.begin(Duties.beat)(BEAT_LOST_S)
