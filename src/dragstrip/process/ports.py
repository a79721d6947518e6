"""Ports of this machine: one that nobody listens on, and whether one is held."""

from __future__ import annotations

import errno
import socket
import threading

#: Where servers are launched.
HOST = "127.0.0.1"

_given: set[int] = set()
_giving = threading.Lock()


def free_port() -> int:
    """A port of the kernel's choice that nobody listens on now, never the same twice in this process."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((HOST, 0))
            port = int(probe.getsockname()[1])
        with _giving:
            if port not in _given:
                _given.add(port)
                return port


def is_held(port: int) -> bool:
    """Whether some program holds this port; connections of before that wait for their end (TIME_WAIT) hold nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
