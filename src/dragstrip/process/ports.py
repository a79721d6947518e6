"""Ports of this machine: one that nobody listens on, and whether one is held."""

from __future__ import annotations

import errno
import socket
import threading

from dragstrip.contender import LOOPBACK

#: Where servers listen, unless told otherwise.
HOST = LOOPBACK

_given: set[int] = set()
_giving = threading.Lock()


def free_port(host: str = HOST) -> int:
    """A port of this address that nobody listens on now, never the same twice in this process."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
            port = int(probe.getsockname()[1])
        with _giving:
            if port not in _given:
                _given.add(port)
                return port


def is_held(port: int, host: str = HOST) -> bool:
    """Whether some program holds this port; connections of before that wait for their end (TIME_WAIT) hold nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
