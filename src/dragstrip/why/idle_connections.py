"""Memory of a server for each idle connection: thousands of connections, a response on each, memory before and after.

One number is of the server's processes, the other of the kernel's buffers of its sockets.
"""

from __future__ import annotations

import resource
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from dragstrip.machine.network_namespace import within
from dragstrip.record import Counter
from dragstrip.why.process_counters import CountersReading
from dragstrip.why.socket_memory import buffer_bytes

#: How many connections are opened: with a few hundred, a collector's or an allocator's steps hide their memory.
CONNECTIONS = 5_000

#: Fewest connections whose memory shows.
FEWEST = 1_000

#: Descriptors that this process keeps for everything else.
SPARE_DESCRIPTORS = 512

#: Connections that are opened at once, so that the server's queue of new connections never overflows.
AT_ONCE = 64

#: Seconds for all connections, and for the server's memory to settle afterwards.
MOST_S, SETTLE_S = 4.0, 0.1

#: Closing with a reset leaves no connection behind in the kernel, which would hold its port for a minute.
_RESET = struct.pack("ii", 1, 0)


def memory_per_connection(
    host: str, port: int, request: bytes, memory_bytes: Callable[[], int], *, namespace: Path | None = None
) -> CountersReading:
    """Holds many connections that each had one response, and reads the server's memory before and after.

    Args:
        request: one plain HTTP/1 request whose connection is kept.
        memory_bytes: reads the server's memory; raises OSError or ValueError if it can't.
        namespace: of the network that has its address; None: this process's own.
    """
    counters = (Counter.CONNECTION_BYTES, Counter.HELD_CONNECTIONS, Counter.SOCKET_BYTES)
    try:
        before = memory_bytes()
        with within(namespace), _held(host, port, request) as held:
            time.sleep(SETTLE_S)
            after = memory_bytes()
            buffers = _buffers(port, held)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return CountersReading(totals={}, missing=dict.fromkeys(counters, f"memory can't be read ({why})"))
    if held < FEWEST:
        reason = f"the server held {held:,} connections, and at least {FEWEST:,} are needed"
        return CountersReading(totals={}, missing=dict.fromkeys(counters, reason))
    per_connection = round((after - before) / held)
    totals = {Counter.CONNECTION_BYTES: per_connection, Counter.HELD_CONNECTIONS: held, **buffers.totals}
    return CountersReading(totals=totals, missing=buffers.missing)


def _buffers(port: int, held: int) -> CountersReading:
    """The kernel's memory in the buffers of each connection to a port."""
    try:
        whole, listed = buffer_bytes(port)
    except OSError as error:
        return CountersReading(totals={}, missing={Counter.SOCKET_BYTES: f"the kernel does not list sockets ({error})"})
    if listed < held:
        reason = f"the kernel listed {listed:,} of {held:,} connections"
        return CountersReading(totals={}, missing={Counter.SOCKET_BYTES: reason})
    return CountersReading(totals={Counter.SOCKET_BYTES: round(whole / listed)})


@contextmanager
def _held(host: str, port: int, request: bytes) -> Iterator[int]:
    """Opens connections, in groups, until there are enough, the server refuses one, or time is up; yields how many."""
    count, until_s = 0, time.monotonic() + MOST_S
    with ExitStack() as resources, _descriptors() as most:
        while count < most and time.monotonic() < until_s:
            size = min(AT_ONCE, most - count)
            answered = _group(host, port, request, size, until_s, resources)
            count += answered
            if answered < size:
                break
        yield count


def _group(host: str, port: int, request: bytes, size: int, until_s: float, resources: ExitStack) -> int:
    """Opens some connections and waits for a response on each; returns how many had one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    answered = 0
    with selectors.DefaultSelector() as waiting:
        for _ in range(size):
            connection = resources.enter_context(socket.socket(family))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            connection.settimeout(1.0)
            with suppress(OSError):
                connection.connect((host, port))
                connection.sendall(request)
                waiting.register(connection, selectors.EVENT_READ)
        while waiting.get_map() and time.monotonic() < until_s:
            ready = waiting.select(0.5)
            if not ready:
                break
            for key, _ in ready:
                waiting.unregister(key.fileobj)
                with suppress(OSError):
                    answered += bool(key.fileobj.recv(1 << 16))  # type: ignore[union-attr]
    return answered


@contextmanager
def _descriptors() -> Iterator[int]:
    """Raises the soft limit of descriptors to the hard limit for a while; yields how many connections it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + SPARE_DESCRIPTORS
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield max(min(CONNECTIONS, max(soft, limit) - SPARE_DESCRIPTORS), 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
