"""Ports of this machine: finding a free one, and whether one is in use."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
import sys
import threading
from collections.abc import Collection, Iterable
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
    listeners = _all_listeners(tables)
    return tuple(sorted({listeners[name] for name in _sockets(pids) if name in listeners}))


def ways_to(addresses: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Hosts and ports by which a program on this machine reaches ``listening``'s addresses, IPv4 before IPv6.

    ``[::]`` is every IPv4 address, too, unless its socket is IPV6_V6ONLY (ipv6(7)), which the tables don't say.
    """
    places = [
        (host.strip("[]").removeprefix("::ffff:"), int(port))
        for host, _, port in (address.rpartition(":") for address in addresses)
    ]
    means = {"0.0.0.0": (HOST,), "::": (HOST, HOST_V6)}
    found = {(host, port): None for name, port in places for host in means.get(name, (name,))}
    return tuple(sorted(found, key=lambda way: (":" in way[0], way[1], way[0])))


def listens_alone(pids: Iterable[int], port: int, tables: Path = HOST_TABLES) -> bool:
    """Whether these processes listen at a port, and no other process does (SO_REUSEPORT, socket(7))."""
    own = _sockets(pids)
    there = [name for name, address in _all_listeners(tables).items() if address.endswith(f":{port}")]
    return bool(there) and own.issuperset(there)


def _all_listeners(tables: Path) -> dict[str, str]:
    return {name: place for name, (place, _) in _owned_listeners(tables).items()}


def _owned_listeners(tables: Path) -> dict[str, tuple[str, int]]:
    """As ``_listeners``, over IPv4 and IPv6."""
    return {**_listeners(tables / "tcp", socket.AF_INET), **_listeners(tables / "tcp6", socket.AF_INET6)}


def _sockets(pids: Iterable[int]) -> set[str]:
    """The descriptors of these processes, as what they are, like ``socket:[4711]``."""
    names = set[str]()
    for pid in pids:
        with contextlib.suppress(OSError):  # the process ended, or is another user's
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    names.add(str(descriptor.readlink()))
    return names


def sockets_at(host: str, port: int, tables: Path = HOST_TABLES) -> dict[str, int]:
    """The sockets of this machine that get connections to an IP address: their owners' uids, by ``socket:[inode]``.

    A socket at that very address gets them before sockets at every address, and a socket of IPv6 at every address also
    gets those to IPv4 (ipv6(7), IPV6_V6ONLY).
    """
    address = str(ipaddress.ip_address(host))
    candidates: list[tuple[str, ...]] = [(f"[{address}]",), ("[::]",)]
    if ":" not in address:
        candidates = [(address, f"[::ffff:{address}]"), ("0.0.0.0",), ("[::]",)]
    listeners = _owned_listeners(tables)
    for hosts in candidates:
        places = {f"{name}:{port}" for name in hosts}
        if found := {name: uid for name, (place, uid) in listeners.items() if place in places}:
            return found
    return {}


def holders(sockets: Collection[str]) -> tuple[int, ...]:
    """The processes that have one of these sockets open, as far as this user may read that (proc(5), ``fd``)."""
    found = []
    for folder in HOST_TABLES.parent.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # the process ended, or is another user's
                if any(str(descriptor.readlink()) in sockets for descriptor in (folder / "fd").iterdir()):
                    found.append(int(folder.name))
    return tuple(sorted(found))


def listens_elsewhere(pids: Iterable[int], host: str, port: int, tables: Path = HOST_TABLES) -> str:
    """Where processes listen, in words, if that is not at ``host`` and ``port``; otherwise ""."""
    addresses = listening(pids, tables)
    if {f"{name}:{port}" for name in (host, "0.0.0.0", "[::]")} & set(addresses):
        return ""
    where = f"listens on {', '.join(addresses)}" if addresses else "listens on no TCP port"
    return f": it {where}, and Dragstrip connects to {host}:{port}"


def _listeners(table: Path, family: socket.AddressFamily) -> dict[str, tuple[str, int]]:
    """Addresses of listening sockets and their owners' uids, by the sockets' names among descriptors.

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
            listeners[f"socket:[{fields[9]}]"] = f"{shown}:{int(port, 16)}", int(fields[7])
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
