"""What every machine of an open race does around a round: generators and the servers' machine alike."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Generic, Protocol, TypeVar

from dragstrip import machine
from dragstrip.errors import StageError
from dragstrip.fleet.messages import AllSeen, Nothing, Seen
from dragstrip.process import keep_awake
from dragstrip.process.keep_awake import Awake
from dragstrip.racing.machine_events import MachineMonitor


class OpenRace(Protocol):
    """A race that is open on this machine: what keeps its cores awake, what watches it, and what is held meanwhile."""

    awake: Awake
    watch: MachineMonitor
    held: ExitStack


_Open = TypeVar("_Open", bound=OpenRace)


class RoundDuties(Generic[_Open]):
    """Duties that the open race alone decides; none is open at first."""

    _race: _Open | None = None

    def before(self) -> Nothing:
        """A round is about to begin."""
        self._open().watch.before()
        return Nothing()

    def after(self) -> AllSeen:
        """It is over: what the machine did meanwhile."""
        events = self._open().watch.after()
        return AllSeen(events=[Seen(kind=one.kind, subject=one.subject, numbers=dict(one.numbers)) for one in events])

    def awake(self, on: bool) -> Nothing:
        """Keeps the cores awake, or lets them be."""
        race = self._open()
        race.held.close()
        if on:
            race.held.enter_context(race.awake.held())
        return Nothing()

    def _open(self) -> _Open:
        if self._race is None:
            raise StageError("no race is open on this machine")
        return self._race


def keep(cores: tuple[int, ...], wait: str, on: bool, resources: ExitStack) -> tuple[str, Awake]:
    """How the engine waits, and what keeps these cores awake while blocks run; as ``racing.setup`` has it here."""
    against = keep_awake.against_spinning(cores, [machine.siblings(core) for core in cores])
    if wait == "auto":
        wait = keep_awake.usual_wait(against, shared=False)
    against = keep_awake.against_spinners(wait, against)
    return wait, resources.enter_context(keep_awake.hold(cores, on=on, against=against))
