"""What an agent does on the servers' machine: launches contenders under today's supervisors, watches, stops them."""

from __future__ import annotations

import dataclasses
import itertools
import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dragstrip import contender
from dragstrip.contender import Missing
from dragstrip.errors import BadUsage, StageError
from dragstrip.fleet.messages import (
    Command,
    Counted,
    Look,
    Nothing,
    Opened,
    Over,
    Reply,
    State,
    ThreadTimes,
    Traffic,
    Up,
)
from dragstrip.fleet.meter import Meter
from dragstrip.fleet.round_duties import RoundDuties, keep
from dragstrip.fleet.sent import entrant_of, workload_of
from dragstrip.machine.link import device_of
from dragstrip.process import launcher
from dragstrip.process.keep_awake import Awake
from dragstrip.racing.launching import LaunchedServer, Launching
from dragstrip.racing.machine_events import MachineMonitor
from dragstrip.scrutiny import count_from_now

if TYPE_CHECKING:
    from dragstrip._engine import Observer


@dataclass
class _Race:
    """What is open for one race."""

    resources: ExitStack
    launching: Launching
    awake: Awake
    observer: Observer
    watch: MachineMonitor
    meter: Meter
    held: ExitStack = field(default_factory=ExitStack)


class ServerDuties(RoundDuties[_Race]):
    """Those of the servers' machine; one race at a time."""

    def __init__(self) -> None:
        self._race: _Race | None = None
        self._servers: dict[int, LaunchedServer] = {}
        self._counting: dict[int, Callable[[], int | None]] = {}
        self._numbers = itertools.count(1)
        self._opening = threading.Lock()
        #: Of the blocks that come, the longest.
        self._block_s = 0.0

    def duties(self) -> dict[str, Callable[..., Reply]]:
        """By the word that asks for each."""
        return {
            "check": self.check,
            "pending_build": self.pending_build,
            "build": self.build,
            "open_server": self.open,
            "stand_by": self.stand_by,
            "launch": self.launch,
            "look": self.look,
            "thread_times": self.thread_times,
            "watch": self.watch,
            "freeze": lambda number: self._do(number, "freeze"),
            "thaw": lambda number: self._do(number, "thaw"),
            "begin_stop": self.begin_stop,
            "stop": self.stop,
            "count_begin": self.count_begin,
            "count_end": self.count_end,
            "run_begins": self.run_begins,
            "run_ends": self.run_ends,
            "server_before": self.before,
            "server_after": self.after,
            "server_awake": self.awake,
            "close_server": self.close,
        }

    @property
    def heard_s(self) -> float:
        """Until when a generator's last mark shows that a race goes on, ``time.monotonic``; 0.0: none was heard."""
        return self._race.observer.heard_ns / 1e9 + self._block_s if self._race else 0.0

    def check(self, entry: Mapping[str, Any]) -> State:
        """Whether a contender is installed here."""
        state = contender.check(entrant_of(entry))
        if isinstance(state, Missing):
            return State(ready=False, reason=state.reason, remedy=state.remedy)
        return State(ready=True, version=state.version)

    def pending_build(self, entry: Mapping[str, Any]) -> Command:
        """What is to be built of it."""
        return Command(words=list(contender.pending_build(entrant_of(entry)) or ()))

    def build(self, entry: Mapping[str, Any]) -> Nothing:
        """Builds it."""
        contender.build(entrant_of(entry))
        return Nothing()

    def open(
        self,
        *,
        seed: int,
        cores: list[int],
        address: str,
        token: str,
        keep_cores_awake: bool,
    ) -> Opened:
        """Scratch space, awake cores, and the observer, which listens at the data address from now on."""
        from dragstrip._engine import Observer

        _refuse_other_address(address)
        with self._opening:
            self.end()
            launcher.sweep_stale()
            resources, lane = ExitStack(), tuple(cores)
            try:
                others = os.sched_getaffinity(0) - set(cores)
                if others:
                    os.sched_setaffinity(0, others)  # we and the supervisors stay off the servers' lane
                scratch = resources.enter_context(launcher.scratch_root())
                _, kept = keep(lane, "sleep", keep_cores_awake, resources)
                observer = Observer(address, 0, bytes.fromhex(token), steal_cores=cores)
                resources.callback(observer.stop)
                launching = Launching(lane, scratch, resources, seed, address)
            except BaseException:
                resources.close()
                raise
            meter = Meter(device_of(address), lane)
            self._race = _Race(resources, launching, kept, observer, MachineMonitor(lane), meter)
            return Opened(port=observer.port, awake=kept.text, way=kept.way)

    def stand_by(self, entries: list[Mapping[str, Any]]) -> Nothing:
        """Starts the supervisors of contenders that will be launched."""
        self._open().launching.stand_by([entrant_of(one) for one in entries])
        return Nothing()

    def launch(self, entry: Mapping[str, Any], workload: Mapping[str, str]) -> Up:
        """Starts a contender and waits for its first right answer, asked at the data address."""
        launching = self._open().launching
        asked = workload_of(workload, launching.scratch)
        launched, number = launching.launch(entrant_of(entry), asked, "1.1"), next(self._numbers)
        running = launched.running
        if running.host.startswith("unix:"):
            running.stop(grace_s=launcher.INTERRUPTED_GRACE_S)
            raise StageError(
                f"{launched.name}: it listens at a socket file, which no other machine can reach; give {{port}}"
            )
        self._servers[number] = launched
        pids = running.pids() if isinstance(running, launcher.ServerProcess) else ()
        return Up(
            number=number, host=running.host, port=running.port, pid=pids[0] if pids else 0,
            ready_ns=running.ready_ns, cpu_source=running.cpu_source, note=running.note, drawn_by=launched.drawn_by,
            cacert=launched.tls.cacert.read_text(encoding="ascii") if launched.tls else "",
        )  # fmt: skip

    def look(self, number: int) -> Look:
        """How a server is now."""
        running = self._server(number).running
        processes, threads = running.counts()
        return Look(
            alive=running.alive(), processes=processes, threads=threads, resident_bytes=running.resident_bytes(),
            users=list(running.users()), log_tail=running.log_tail(),
        )  # fmt: skip

    def thread_times(self, number: int) -> ThreadTimes:
        """CPU time of its threads."""
        return ThreadTimes(cpu_ns=self._server(number).running.thread_cpu_ns())

    def watch(self, number: int) -> Nothing:
        """Has the observer read its CPU time from now on: its cgroup's, and that of the threads it has now."""
        running = self._server(number).running
        self._open().observer.watch(number, cgroup_cpu_stat=running.cpu_stat(), schedstats=list(running.schedstats()))
        return Nothing()

    def begin_stop(self, number: int, grace_s: float) -> Nothing:
        """Gives it its stop signal."""
        self._server(number).running.begin_stop(grace_s=grace_s)
        return Nothing()

    def stop(self, number: int, grace_s: float) -> Over:
        """Ends every process of it."""
        ended = self._server(number).running.stop(grace_s=grace_s)
        self._open().observer.forget(number)
        self._servers.pop(number, None)
        self._counting.pop(number, None)
        return Over(**dataclasses.asdict(ended))

    def count_begin(self, number: int) -> Nothing:
        """Begins to count what it says itself that it had."""
        launched = self._server(number)
        self._counting[number] = count_from_now(launched.own_count, launched.server)
        return Nothing()

    def count_end(self, number: int) -> Counted:
        """What it has counted since."""
        since = self._counting.pop(number, None)
        return Counted(requests=since() if since else None)

    def run_begins(self, block_s: float) -> Nothing:
        """From now on there is a mark only every so many seconds: blocks are as long."""
        self._block_s = block_s
        self._open().meter.begin()
        return Nothing()

    def run_ends(self) -> Traffic:
        """The generators are done."""
        return self._open().meter.end()

    def close(self) -> Nothing:
        """The race is over; nothing of it is left."""
        self.end()
        return Nothing()

    def end(self) -> None:
        """Stops whatever runs and removes whatever was made."""
        race, self._race = self._race, None
        for number in list(self._servers):
            launched = self._servers.pop(number)
            launched.running.begin_stop(grace_s=launcher.INTERRUPTED_GRACE_S)
            launched.running.stop(grace_s=launcher.INTERRUPTED_GRACE_S)
        if race is not None:
            race.held.close()
            race.resources.close()

    def _do(self, number: int, what: str) -> Nothing:
        getattr(self._server(number).running, what)()
        return Nothing()

    def _server(self, number: int) -> LaunchedServer:
        try:
            return self._servers[number]
        except KeyError:
            raise StageError(f"no server runs here under number {number}") from None


def _refuse_other_address(address: str) -> None:
    """Refuses an address at which nothing here can listen.

    Raises:
        BadUsage: it is no address of this machine.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
        try:
            tried.bind((address, 0))
        except OSError as error:
            raise BadUsage(
                f"address = {address!r}: the servers' machine can't listen there ({error.strerror}); give one of its "
                "own in the fleet's file"
            ) from error
