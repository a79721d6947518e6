"""Dask as the carrier of a lab: workers for its strips, on controllers, and one task for each slice.

Dask holds nothing that a lab needs: if its scheduler or a worker is killed, the same attempt is carried again, and the
strip's outbox has its record. The client submits one slice for each free strip, never the whole matrix: a dead worker
would take all tasks that Dask has assigned to it.

A peer of Dask may run any code. So the address is on loopback, or both sides have certificates of one authority.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import psutil

from dragstrip import __version__
from dragstrip.errors import BadUsage, DragstripError, MachineLost
from dragstrip.extras.lab import dask_worker
from dragstrip.extras.lab.carrier import CarrierLost
from dragstrip.extras.lab.dask_worker import Refused
from dragstrip.extras.lab.strips import REPLY_S, StripLink
from dragstrip.extras.lab.task import Inquiry, Taken, Task, TaskReply

try:
    import distributed
except ImportError as error:
    raise BadUsage("--dask needs Dask: pip install 'dragstrip[lab]'; without --dask a lab needs nothing") from error

Result = TypeVar("Result")

#: Seconds between two looks at the workers, and at a task.
LOOK_S = 2.0
#: Seconds for a first worker to join, for one that was lost to come back, and for a scheduler that was lost.
JOIN_S, BACK_S, SCHEDULER_S = 60.0, 120.0, 300.0
#: Seconds for a connection to a port that must be closed.
CLOSED_S = 1.0

#: Times that one call is carried, if its workers are killed.
MOST_CARRIED = 20

#: The beginning of a resource's name; the strip's name follows.
PREFIX = "strip-"

#: The files of ``--tls``.
TLS_FILES = ("ca.pem", "cert.pem", "key.pem")


def resource_of(strip: str) -> str:
    """The resource that a strip's worker has."""
    return f"{PREFIX}{strip}"


@dataclass(frozen=True, slots=True)
class _Peer:
    """The scheduler or a worker: its address, the ports of its pages by their names, its resources."""

    address: str
    services: Mapping[str, object]
    resources: Mapping[str, object]

    @property
    def strips(self) -> list[str]:
        """The strips that a worker is for."""
        return [name.removeprefix(PREFIX) for name in self.resources if name.startswith(PREFIX)]


class DaskCarrier:
    """A scheduler and its workers; ``close`` ends those that were started here.

    Args:
        address: as ``--dask``: ``local``, or the scheduler's. tls: the folder of ``--tls``.
        folder: for the files of workers that are started here.

    Raises:
        BadUsage: the address may not be used, or Dask is not installed. CarrierLost: nothing replies there.
    """

    look_s: float | None = LOOK_S

    def __init__(self, address: str, tls: Path | None, folder: Path) -> None:
        self._security = _security(address, tls)
        self._lock = threading.RLock()
        self._workers: Mapping[str, tuple[str, ...]] = {}
        self._seen_s = 0.0
        self._client: Any = None
        self._gone = ""
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        self._local = None
        if address == "local":
            from dragstrip.extras.lab.dask_local import LocalStrips

            self._local = LocalStrips(self._security, folder)
        self._address = self._local.scheduler_address if self._local else address
        self._connected()

    def join(self, links: Sequence[StripLink]) -> None:
        """Starts the workers of strips, or waits until a worker has joined."""
        for link in links:
            if link.is_here and not link.fields.fleet:
                raise BadUsage(
                    f"strip {link.fields.name} is this machine, and Dask would use CPU during its races; run the lab "
                    "without --dask, or give the strip ssh, via, slurm or a fleet"
                )
        if self._local:
            self._local.add([link.fields.name for link in links])
        waited_s = time.monotonic() + JOIN_S
        wanted = {link.fields.name for link in links}
        while (missing := wanted - set(self._of_strips(fresh=True))) and (self._local or missing == wanted):
            if time.monotonic() > waited_s:
                raise BadUsage(
                    f"no worker at {self._address} is for one of the strips; start one for each, like: dask worker "
                    f"{self._address} --resources '{resource_of(min(wanted))}=1'"
                )
            time.sleep(0.2)
        self._refuse_open_ports()

    def missing(self, link: StripLink) -> str:
        """Why a strip has no worker."""
        if link.fields.name in self._of_strips():
            return ""
        return f"no Dask worker has the resource {resource_of(link.fields.name)}"

    def inquire(self, link: StripLink, inquiry: Inquiry) -> TaskReply:
        """By the strip's worker."""
        return self._value(link, self._submitted(link, dask_worker.inquired, inquiry))

    def race(self, link: StripLink, task: Task, limit_s: float) -> tuple[bytes, bytes]:
        """By the strip's worker; if that was killed, again by the next one, which finds what the race has left."""
        return self._value(link, self._submitted(link, dask_worker.raced, task, limit_s, exclusive=True))

    def collect(self, link: StripLink, cell: str, attempt: int) -> tuple[bytes, bytes]:
        """By the strip's worker."""
        return self._value(link, self._submitted(link, dask_worker.collected, cell, attempt))

    def clear(self, link: StripLink, taken: Sequence[Taken]) -> None:
        """By the strip's worker; not tried if it is away."""
        if not self.missing(link):
            with suppress(MachineLost):
                self._submitted(link, dask_worker.cleared, taken, limit_s=REPLY_S)

    def interrupt(self) -> None:
        """By every worker, for its own races."""
        with suppress(Exception):
            workers = list({worker for known in self._of_strips(fresh=True).values() for worker in known})
            self._client.run(dask_worker.interrupted, workers=workers)

    def close(self) -> None:
        """Leaves the scheduler; ends it and its workers if they were started here."""
        with suppress(Exception):
            self._client.close(timeout=5)
        if self._local:
            with suppress(Exception):
                self._local.close(timeout=20)

    def _value(self, link: StripLink, result: Result | Refused) -> Result:
        if isinstance(result, Refused):
            raise MachineLost(link.fields.name, result.why) if result.lost else BadUsage(result.why)
        return result

    def _submitted(
        self,
        link: StripLink,
        call: Callable[..., Result],
        *arguments: object,
        exclusive: bool = False,
        limit_s: float = float("inf"),
    ) -> Result:
        """Has the strip's worker do something and waits for it; again if worker or scheduler was lost.

        Raises:
            MachineLost: the strip has no worker any more, its workers are killed again and again, or the limit is over.
            CarrierLost: the scheduler is gone.
        """
        name, until_s = link.fields.name, time.monotonic() + limit_s
        for _ in range(MOST_CARRIED):
            client = self._connected()
            where: dict[str, object] = (
                {"resources": {resource_of(name): 1}}
                if exclusive
                else {"workers": list(self._back(name)), "allow_other_workers": False}
            )
            future = client.submit(call, __version__, link, *arguments, pure=False, retries=0, **where)
            gone_s = 0.0
            while gone_s < BACK_S:
                try:
                    result: Result = future.result(timeout=LOOK_S)
                    return result
                except TimeoutError:
                    gone_s = 0.0 if name in self._of_strips() else gone_s + LOOK_S
                    if time.monotonic() > until_s:
                        future.cancel()
                        raise MachineLost(name, f"no reply within {limit_s:g} s") from None
                except (CancelledError, distributed.KilledWorker, OSError):
                    self._back(name)
                    break
                except DragstripError:
                    raise
                except Exception as error:
                    raise MachineLost(
                        name, f"its Dask worker failed: {type(error).__name__}: {error!s:.300}"
                    ) from error
            else:
                future.cancel()
                raise MachineLost(name, f"its Dask worker has been away for {BACK_S:g} s")
        raise MachineLost(name, f"its Dask worker was lost {MOST_CARRIED} times")

    def _back(self, name: str) -> tuple[str, ...]:
        """The addresses of a strip's workers; waits for one.

        Raises:
            MachineLost: none joins in time.
        """
        until_s = time.monotonic() + BACK_S
        while not (known := self._of_strips(fresh=True).get(name, ())):
            if time.monotonic() > until_s:
                raise MachineLost(name, f"it has had no Dask worker for {BACK_S:g} s")
            time.sleep(0.5)
        return known

    def _of_strips(self, *, fresh: bool = False) -> Mapping[str, tuple[str, ...]]:
        """The addresses of the workers of each strip, at most some seconds old."""
        with self._lock:
            if fresh or time.monotonic() - self._seen_s > LOOK_S:
                found: dict[str, tuple[str, ...]] = {}
                for peer in self._peers()[1:]:
                    for strip in peer.strips:
                        found[strip] = (*found.get(strip, ()), peer.address)
                self._workers, self._seen_s = found, time.monotonic()
            return self._workers

    def _peers(self) -> list[_Peer]:
        """The scheduler, then its workers."""
        while True:
            with suppress(OSError):
                known = self._connected().scheduler_info(n_workers=-1)
                return [
                    _Peer(self._address, known["services"], {}),
                    *(_Peer(at, worker["services"], worker["resources"]) for at, worker in known["workers"].items()),
                ]

    def _connected(self) -> Any:
        """A client that is connected; waits for a scheduler that is being started again.

        Raises:
            CarrierLost: none replies at the address.
        """
        with self._lock:
            if self._gone:
                raise CarrierLost(self._gone)
            until_s = time.monotonic() + (SCHEDULER_S if self._client else JOIN_S)
            while self._client is None or self._client.status != "running":
                if self._client is not None and self._client.status == "connecting":
                    time.sleep(0.1)
                    continue
                try:
                    self._client = distributed.Client(
                        self._address, security=self._security, timeout=5, set_as_default=False
                    )
                except (OSError, TimeoutError, ValueError) as error:
                    if time.monotonic() > until_s:
                        self._gone = (
                            f"no Dask scheduler replies at {self._address} ({error}); start it, then repeat the command"
                        )
                        raise CarrierLost(self._gone) from error
                    time.sleep(0.5)
            return self._client

    def _refuse_open_ports(self) -> None:
        """Refuses a cluster that others could reach without a certificate.

        Raises:
            BadUsage: the port and how to close it.
        """
        for peer in self._peers():
            parts, ports = urlsplit(peer.address), {port for port in peer.services.values() if isinstance(port, int)}
            if parts.scheme != "tls" and parts.port:
                ports.add(parts.port)
            for host in _own_addresses() if _is_loopback(parts.hostname or "") else (parts.hostname or "",):
                for port in sorted(ports):
                    if _is_open(host, port):
                        raise BadUsage(
                            f"Dask at {peer.address} also listens at {host}:{port}, without a certificate; start "
                            "scheduler and workers with --host 127.0.0.1 or with TLS, and with "
                            "--dashboard-address 127.0.0.1:0"
                        )


def _security(address: str, tls: Path | None) -> Any:
    """Certificates for an address.

    Raises:
        BadUsage: the address is beyond this machine and there are none, or it is not valid.
    """
    if address == "local":
        if tls:
            raise BadUsage("--tls: --dask local makes its own certificates; give --tls with a scheduler's address")
        return distributed.Security.temporary()
    parts = urlsplit(address)
    try:
        valid = parts.scheme in ("tcp", "tls") and parts.hostname and parts.port
    except ValueError:
        valid = False
    if not valid:
        raise BadUsage(f"--dask {address!r}: use local, tls://HOST:PORT, or tcp://127.0.0.1:PORT")
    if parts.scheme == "tcp":
        if tls:
            raise BadUsage(f"--dask {address}: use tls:// with --tls")
        if not _is_loopback(parts.hostname or ""):
            raise BadUsage(
                f"--dask {address}: a program that reaches a port of Dask may run any code there; use tls:// "
                "with --tls, or an address on this machine"
            )
        return None
    if tls is None:
        raise BadUsage(f"--dask {address}: give --tls, a folder with {', '.join(TLS_FILES)}")
    if absent := [name for name in TLS_FILES if not (tls / name).is_file()]:
        raise BadUsage(f"--tls {tls}: {absent[0]} does not exist; it needs {', '.join(TLS_FILES)}")
    authority, certificate, key = (str(tls / name) for name in TLS_FILES)
    return distributed.Security(
        tls_ca_file=authority, tls_client_cert=certificate, tls_client_key=key, require_encryption=True
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _own_addresses() -> list[str]:
    """This machine's addresses beyond loopback."""
    return [
        entry.address
        for entries in psutil.net_if_addrs().values()
        for entry in entries
        if entry.family == socket.AF_INET and not _is_loopback(entry.address)
    ]


def _is_open(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), CLOSED_S):
            return True
    except OSError:
        return False
