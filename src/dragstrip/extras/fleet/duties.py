"""The duties of an agent on any machine of a fleet, whatever its role.

A ``Duties`` object is the machine's end of a channel: the client names one of its methods (``Channel.ask``), and the
method's signature determines what is sent.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from dragstrip import __version__, machine
from dragstrip.errors import BadUsage, StageError
from dragstrip.extras.fleet import holder
from dragstrip.extras.fleet.messages import PROTOCOL, ClockReply, CoreSets, Hello, Usage
from dragstrip.extras.fleet.meter import Meter
from dragstrip.machine_facts import Facts
from dragstrip.process.keep_awake import Awake
from dragstrip.racing.machine_events import MachineMonitor
from dragstrip.record import Event

#: The package's folder.
PACKAGE = Path(__file__).parents[2]


@dataclass(kw_only=True)
class OpenRace:
    """A race that is open on this machine.

    Args:
        resources: released when it ends. awake: keeps its cores awake while ``held`` has entered it.
    """

    resources: ExitStack
    awake: Awake
    monitor: MachineMonitor
    meter: Meter
    held: ExitStack = field(default_factory=ExitStack)


_Race = TypeVar("_Race", bound=OpenRace)


class Duties(Generic[_Race]):
    """Duties of every machine; one race at a time."""

    def __init__(self) -> None:
        self._race: _Race | None = None
        self._lock = threading.Lock()

    def hello(self) -> Hello:
        return hello()

    def hold(self, session: str, client: str) -> None:
        holder.hold(session, client)

    def beat(self) -> None:
        """Shows that the client is still there."""

    def clock(self) -> ClockReply:
        """The machine's own clock."""
        return ClockReply(now_ns=time.monotonic_ns())

    def facts(self) -> Facts:
        return machine.facts()

    def usage(self) -> Usage:
        """CPU time that the agent itself has used so far."""
        return Usage(cpu_ns=time.process_time_ns(), now_ns=time.monotonic_ns())

    def core_sets(self, cores: str) -> CoreSets:
        """The machine's cores for a race; on a fleet's machine all physical cores have one purpose."""
        usable = tuple(sorted(os.sched_getaffinity(0)))
        if cores:
            named = machine.parse_cores(cores, option="cores")
            if not set(named) <= set(usable):
                raise BadUsage(
                    f"cores = {cores!r}: this user may use cores {machine.show_cores(usable)} there; choose from these"
                )
            return CoreSets(server=named, engine=named)
        alone = machine.lanes(None, None).all if len(usable) > 1 else usable
        return CoreSets(server=alone, engine=alone[: machine.MAX_ENGINE_CORES])

    def before_round(self) -> None:
        self._open_race().monitor.before()

    def after_round(self) -> list[Event]:
        """Returns what the machine did during the round."""
        return self._open_race().monitor.after()

    def keep_awake(self, on: bool) -> None:
        """Keeps the cores awake, or stops doing so."""
        race = self._open_race()
        race.held.close()
        if on:
            race.held.enter_context(race.awake.held())

    def close(self) -> None:
        """Ends the race: stops everything that runs and removes everything that was created."""
        race, self._race = self._race, None
        if race is not None:
            race.held.close()
            race.resources.close()

    def last_sign_s(self) -> float:
        """When an open race last showed that the client is there, by ``time.monotonic``; 0.0: it did not."""
        return 0.0

    @contextlib.contextmanager
    def _opening(self) -> Iterator[ExitStack]:
        """Opens a race in place of the open one; if that fails, its resources are released."""
        with self._lock:
            self.close()
            resources = ExitStack()
            try:
                yield resources
            except BaseException:
                resources.close()
                raise

    def _open_race(self) -> _Race:
        if self._race is None:
            raise StageError("no race is open on this machine")
        return self._race


def hello() -> Hello:
    """Identity of this machine; its serial numbers are sent as hashes."""
    return Hello(
        protocol=PROTOCOL,
        version=__version__,
        sources=_sources(),
        machine=_hash("/etc/machine-id") or _hash("/proc/sys/kernel/hostname"),
        boot=_hash("/proc/sys/kernel/random/boot_id"),
        user=_user(),
        cores=sorted(os.sched_getaffinity(0)),
    )


def _sources() -> str:
    """A hash of the package's own files: two machines with the same hash run the same code."""
    digest = hashlib.sha256()
    for file in own_files():
        digest.update(f"{file.relative_to(PACKAGE)}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def own_files() -> list[Path]:
    """The package's files, sorted."""
    files = (file for file in PACKAGE.rglob("*") if "__pycache__" not in file.parts and not file.name.startswith("."))
    return sorted(file for file in files if file.is_file())


def _hash(file: str) -> str:
    with contextlib.suppress(OSError):
        return hashlib.sha256(Path(file).read_bytes().strip()).hexdigest()[:12]
    return ""


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def stay_off(cores: tuple[int, ...]) -> None:
    """Keeps this process and its children off a race's cores, if it has other cores."""
    if others := os.sched_getaffinity(0) - set(cores):
        os.sched_setaffinity(0, others)
