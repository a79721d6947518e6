"""Starts servers on the machine that this runs on: each by a supervisor of its own, until its first right answer."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from dragstrip.contender import LOOPBACK, Entry, prepare
from dragstrip.errors import PortTaken, StageError
from dragstrip.process.certificate import Certificates
from dragstrip.process.database import Instance
from dragstrip.process.launcher import Launcher
from dragstrip.process.ports import free_port
from dragstrip.process.running import AtAddress
from dragstrip.racing.launched import Launched
from dragstrip.racing.proving import Asking
from dragstrip.scrutiny import Encryption, is_right, plainest
from dragstrip.workload import Data, Exchange, Workload


@dataclass
class Launching:
    """What all launches of a race share, on the servers' machine.

    Args:
        cores: the servers' lane. scratch: the race's folder.
        supervisors: ends the supervisors with the race.
        address: where servers listen.
    """

    cores: tuple[int, ...]
    scratch: Path
    supervisors: ExitStack
    seed: int
    address: str = LOOPBACK

    def __post_init__(self) -> None:
        self._supervisors: dict[str, Launcher] = {}
        self._data: dict[tuple[str, str], Data] = {}
        self._certificates = Certificates(self.scratch)

    def stand_by(self, entries: Iterable[Entry]) -> None:
        """Starts the supervisors of contenders that will be launched, all at once: each takes a moment to be there."""
        for entry in entries:
            if entry.url is None and entry.name not in self._supervisors:
                supervisor = Launcher(name=entry.name, scratch_root=self.scratch)
                self._supervisors[entry.name] = self.supervisors.enter_context(supervisor)

    def launch(self, entry: Entry, workload: Workload, http: str, instance: Instance | None = None) -> Launched:
        """Starts a contender and waits for its first right answer.

        Args:
            http: the load's version, of those that leave it to the load.
            instance: of the database that the workload asks.

        Once more where somebody took the kernel's free port before the server could bind it.

        Raises:
            StageError: it didn't come to serve; names it, the reason and its last log lines.
        """
        if entry.url is not None:
            return self._already_running(entry, workload, entry.url.host, entry.url.port)
        try:
            return self._launch(entry, workload, http, instance)
        except PortTaken:
            return self._launch(entry, workload, http, instance)

    def _already_running(self, entry: Entry, workload: Workload, host: str, port: int) -> Launched:
        first = self._first_exchange(entry, workload, Data(), None)
        reason = is_right(first, remedy=_remedy(entry, workload))(host, port)
        if reason:
            raise StageError(f"{entry.name}: the server at {host}:{port} is not right: {reason}")
        return Launched(entry=entry, running=AtAddress(host, port), own_count=None)

    def _launch(self, entry: Entry, workload: Workload, http: str, instance: Instance | None) -> Launched:
        self.stand_by([entry])
        scratch = self.scratch / f"{len(list(self.scratch.iterdir())):03d}-{time.monotonic_ns():x}"
        scratch.mkdir()
        before = self._data.get((workload.name, entry.name))
        # By the moment, too: a race that goes on, or one more of the same seed, finds other files.
        drawn_by = f"{self.seed} {entry.name} {time.time_ns()}"
        data = workload.data(drawn_by)
        if instance is not None:
            data = replace(data, table=instance.rows)
        self._data[workload.name, entry.name] = data
        authority = self._certificates.authority() if entry.tls else None
        tls = Encryption(authority.file, entry.http(http)) if authority else None
        start = prepare(
            entry,
            scratch=scratch,
            port=free_port(self.address),
            cores=self.cores,
            workload=workload.served_as,
            data=data.files,
            database=instance.values(entry.name) if instance else {},
            address=self.address,
            identity=authority.identity if authority else None,
        )
        first = self._first_exchange(entry, workload, data, before)
        probe = is_right(first, within_s=start.wake_s, tls=tls, remedy=_remedy(entry, workload))
        running = self._supervisors[entry.name].launch(start, scratch=scratch, cores=self.cores, is_right=probe)
        return Launched(entry=entry, running=running, own_count=start.own_count, data=data, tls=tls, drawn_by=drawn_by)

    def _first_exchange(self, entry: Entry, workload: Workload, data: Data, before: Data | None) -> Exchange:
        return plainest(Asking.of(workload, self.seed, entry, data, before).exchanges(keepalive=False))


def _remedy(entry: Entry, workload: Workload) -> str:
    """What to do where a server of the user's own answers something else: most do, the first time."""
    if entry.contender is not None:
        return ""
    return (
        f"where that is the right answer, race by a workload that says so, in place of {workload.name}: --workload "
        "FILE.toml (docs/workloads.md)"
    )
