"""Sockets in another network namespace (network_namespaces(7)), for servers that have a network of their own."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: setns(2)'s flag for a network namespace.
_NEW_NET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def within(namespace: Path | None) -> Iterator[None]:
    """Makes sockets in another network namespace while the block lasts, in the calling thread alone.

    Args:
        namespace: a path like ``/proc/PID/ns/net``; None: this process's own, and nothing is done.

    Raises:
        OSError: it can't be entered.
    """
    if namespace is None:
        yield
        return
    there = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _enter(there)
            try:
                yield
            finally:
                _enter(here)
        finally:
            os.close(here)
    finally:
        os.close(there)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _NEW_NET) != 0:
        raise OSError(ctypes.get_errno(), f"a network namespace can't be entered: {os.strerror(ctypes.get_errno())}")
