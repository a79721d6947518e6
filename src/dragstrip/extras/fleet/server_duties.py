"""The duties of an agent on the servers' machine: launches contenders under supervisors, watches them, stops them."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragstrip import contender
from dragstrip.contender import Missing, Ready
from dragstrip.errors import BadUsage, StageError
from dragstrip.extras.fleet.duties import Duties, OpenRace, stay_off
from dragstrip.extras.fleet.messages import Opened, SentEntry, SentWorkload, ServerStarted, ServerState, Traffic
from dragstrip.extras.fleet.meter import Meter
from dragstrip.machine.link import device_of
from dragstrip.process import launcher
from dragstrip.process.running import Running, ServerEnd
from dragstrip.racing.launching import LaunchedServer, Launching
from dragstrip.racing.machine_events import MachineMonitor
from dragstrip.racing.setup import waiting_engine
from dragstrip.scrutiny.server_count import count_from_now

if TYPE_CHECKING:
    from dragstrip._engine import Observer


@dataclass(kw_only=True)
class _ServersRace(OpenRace):
    """A race whose servers run on this machine."""

    launching: Launching
    observer: Observer


class ServerDuties(Duties[_ServersRace]):
    """Duties of the servers' machine."""

    def __init__(self) -> None:
        super().__init__()
        self._servers: dict[int, LaunchedServer] = {}
        self._counting: dict[int, Callable[[], int | None]] = {}
        self._numbers = itertools.count(1)
        #: Seconds of the longest block of the current run.
        self._block_s = 0.0

    def last_sign_s(self) -> float:
        """The time until which a generator's last mark shows that a race goes on."""
        return self._race.observer.heard_ns / 1e9 + self._block_s if self._race else 0.0

    def check(self, entry: SentEntry) -> Ready | Missing:
        """Whether a contender is installed here; the paths of its programs are not sent."""
        state = contender.check(entry.entry())
        return Ready(state.version, {}) if isinstance(state, Ready) else state

    def pending_build(self, entry: SentEntry) -> tuple[str, ...] | None:
        return contender.pending_build(entry.entry())

    def build(self, entry: SentEntry) -> None:
        contender.build(entry.entry())

    def open(self, *, seed: int, cores: tuple[int, ...], address: str, token: str, keep_cores_awake: bool) -> Opened:
        """Sets up scratch space, awake cores, and the observer, which listens at the data address from now on."""
        from dragstrip._engine import Observer

        _refuse_other_address(address)
        with self._opening() as resources:
            launcher.sweep_stale()
            stay_off(cores)
            scratch = resources.enter_context(launcher.scratch_root())
            waiting = waiting_engine(cores, cores, "sleep", shared=False, on=keep_cores_awake)
            _, awake = resources.enter_context(waiting)
            observer = Observer(address, 0, bytes.fromhex(token), steal_cores=list(cores))
            resources.callback(observer.stop)
            launching = Launching(cores, scratch, resources, seed, address)
            self._race = _ServersRace(
                resources=resources, awake=awake, monitor=MachineMonitor(cores),
                meter=Meter(device_of(address), cores), launching=launching, observer=observer,
            )  # fmt: skip
            return Opened(port=observer.port, awake=awake.text, way=awake.way)

    def stand_by(self, entries: Sequence[SentEntry]) -> None:
        self._open_race().launching.stand_by([sent.entry() for sent in entries])

    def launch(self, entry: SentEntry, workload: SentWorkload) -> ServerStarted:
        """Starts a contender and waits for its first correct response at the data address."""
        launching = self._open_race().launching
        launched = launching.launch(entry.entry(), workload.load(), "1.1")
        running, number = launched.running, next(self._numbers)
        if running.host.startswith("unix:"):
            running.stop(grace_s=launcher.INTERRUPTED_GRACE_S)
            raise StageError(
                f"{launched.name}: it listens at a socket file, which other machines can't reach; use {{port}} instead"
            )
        self._servers[number] = launched
        return ServerStarted(
            number=number, host=running.host, port=running.port, ready_ns=running.ready_ns,
            cpu_source=running.cpu_source, note=running.note, drawn_by=launched.drawn_by,
            cacert=launched.tls.cacert.read_text(encoding="ascii") if launched.tls and launched.tls.cacert else "",
        )  # fmt: skip

    def look(self, number: int) -> ServerState:
        running = self._running(number)
        processes, threads = running.counts()
        return ServerState(
            alive=running.alive(), processes=processes, threads=threads, resident_bytes=running.resident_bytes(),
            users=running.users(), outside=running.outside(), log_tail=running.log_tail(),
        )  # fmt: skip

    def thread_cpu_ns(self, number: int) -> dict[str, int]:
        return self._running(number).thread_cpu_ns()

    def watch(self, number: int) -> None:
        """Has the observer read a server's CPU time from now on: of its cgroup, and of its current threads."""
        running, observer = self._running(number), self._open_race().observer
        group, schedstats = running.cpu_stat(), list(running.schedstats())
        processes = [] if group else list(running.pids())
        observer.watch(number, cgroup_cpu_stat=group, schedstats=schedstats, processes=processes)

    def freeze(self, number: int) -> None:
        self._running(number).freeze()

    def thaw(self, number: int) -> None:
        self._running(number).thaw()

    def begin_stop(self, number: int, grace_s: float) -> None:
        self._running(number).begin_stop(grace_s=grace_s)

    def stop(self, number: int, grace_s: float) -> ServerEnd:
        ended = self._running(number).stop(grace_s=grace_s)
        self._open_race().observer.forget(number)
        self._servers.pop(number, None)
        self._counting.pop(number, None)
        return ended

    def begin_count(self, number: int) -> None:
        """Starts a server's own count of its requests."""
        launched = self._server(number)
        self._counting[number] = count_from_now(launched.own_count, launched.server)

    def end_count(self, number: int) -> int | None:
        """The server's own count since ``begin_count``; None if it can't count."""
        since = self._counting.pop(number, None)
        return since() if since else None

    def begin_run(self, block_s: float) -> None:
        """From now on marks arrive only every ``block_s`` seconds, once per block."""
        self._block_s = block_s
        self._open_race().meter.begin()

    def end_run(self) -> Traffic:
        return self._open_race().meter.end()

    def close(self) -> None:
        """Ends the race: stops its servers first."""
        for number in list(self._servers):
            running = self._servers.pop(number).running
            running.begin_stop(grace_s=launcher.INTERRUPTED_GRACE_S)
            running.stop(grace_s=launcher.INTERRUPTED_GRACE_S)
        super().close()

    def _running(self, number: int) -> Running:
        return self._server(number).running

    def _server(self, number: int) -> LaunchedServer:
        try:
            return self._servers[number]
        except KeyError:
            raise StageError(f"no server runs here under number {number}") from None


def _refuse_other_address(address: str) -> None:
    """Refuses an address at which this machine can't listen.

    Raises:
        BadUsage: it is not an address of this machine.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError as error:
            raise BadUsage(
                f"address = {address!r}: the servers' machine can't listen there ({error.strerror}); give one of that "
                "machine's addresses in the fleet's file"
            ) from error
