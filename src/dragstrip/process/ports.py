"""Ports of this machine: finding a free one, and whether one is in use."""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from dragstrip.contender import LOOPBACK

#: Default address of servers.
HOST = LOOPBACK

#: The same in IPv6, for servers that listen there alone.
HOST_V6 = "::1"

#: proc(5)'s tables of sockets, and the state of one that listens there: TCP_LISTEN.
HOST_TABLES, _LISTENS = Path("/proc/net"), "0A"

_given: set[int] = set()
_giving = threading.Lock()


def free_port(host: str = HOST) -> int:
    """A port of this address that is free now, never the same twice in this process."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
            port = int(probe.getsockname()[1])
        with _giving:
            if port not in _given:
                _given.add(port)
                return port


def listening(pids: Iterable[int], tables: Path = HOST_TABLES) -> tuple[str, ...]:
    """Addresses where these processes listen over TCP, like ``[::1]:8080``, from proc(5)'s ``fd`` and ``net/tcp``.

    Args:
        tables: the folder of the tables of their network namespace.
    """
    listeners = {**_listeners(tables / "tcp", socket.AF_INET), **_listeners(tables / "tcp6", socket.AF_INET6)}
    addresses: set[str | None] = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # the process ended, or is another user's
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    addresses.add(listeners.get(str(descriptor.readlink())))
    return tuple(sorted(filter(None, addresses)))


def listens_at_ipv6(pids: Iterable[int], port: int) -> bool:
    """Whether these processes listen at ::1, where ``localhost`` leads first on many machines."""
    with contextlib.suppress(OSError), socket.create_connection((HOST_V6, port), timeout=0.1):
        return bool({f"[{host}]:{port}" for host in (HOST_V6, "::")} & set(listening(pids)))
    return False


def listens_elsewhere(pids: Iterable[int], host: str, port: int, tables: Path = HOST_TABLES) -> str:
    """Where processes listen, in words, if that is not at ``host`` and ``port``; otherwise ""."""
    addresses = listening(pids, tables)
    if {f"{name}:{port}" for name in (host, "0.0.0.0", "[::]")} & set(addresses):
        return ""
    where = f"listens on {', '.join(addresses)}" if addresses else "listens on no TCP port"
    return f": it {where}, and Dragstrip connects to {host}:{port}"


def _listeners(table: Path, family: socket.AddressFamily) -> dict[str, str]:
    """Addresses of listening sockets, by the sockets' names among descriptors.

    A table also has every closed connection of the last minute (TIME_WAIT): over 100,000 lines on a busy machine.
    Several launches may read it at the same time, so it is read line by line.
    """
    listeners = {}
    with contextlib.suppress(OSError), table.open() as lines:
        next(lines, None)  # the heading
        for line in lines:
            fields = line.split(maxsplit=10)
            if fields[3] != _LISTENS:
                continue
            number, _, port = fields[1].partition(":")
            words = [
                int(number[start : start + 8], 16).to_bytes(4, sys.byteorder) for start in range(0, len(number), 8)
            ]
            host = socket.inet_ntop(family, b"".join(words))
            shown = f"[{host}]" if family == socket.AF_INET6 else host
            listeners[f"socket:[{fields[9]}]"] = f"{shown}:{int(port, 16)}"
    return listeners


def is_held(port: int, host: str = HOST) -> bool:
    """Whether a program holds this port; closed connections in TIME_WAIT don't hold it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
