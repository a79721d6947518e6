"""What the engine's own sockets received: bytes and TCP segments, by the kernel's TCP_INFO; it needs no privilege.

The engine runs in this process, so its sockets are descriptors of this process. They are read between blocks only.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dragstrip.record import Counter
from dragstrip.why.process_counters import CountersReading

#: Places in the kernel's struct tcp_info (linux/tcp.h): bytes received, and segments received with data.
_BYTES, _SEGMENTS = 128, 152

#: The length of tcp_info that has both; it came with Linux 4.6.
_LENGTH = 160


@dataclass(frozen=True, slots=True)
class Received:
    """Bytes and segments that one socket has received so far."""

    bytes: int
    segments: int


def sockets_to(host: str, port: int) -> Mapping[tuple[object, ...], Received]:
    """What each TCP socket of this process that is connected to a server has received, by the socket's own address."""
    found: dict[tuple[object, ...], Received] = {}
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError, ValueError, struct.error):
            if not str(entry.readlink()).startswith("socket:"):
                continue
            # A copy of the descriptor, so that closing it leaves the engine's own open.
            with socket.socket(fileno=os.dup(int(entry.name))) as copy:
                if copy.family not in (socket.AF_INET, socket.AF_INET6) or copy.getpeername()[:2] != (host, port):
                    continue
                info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LENGTH)
                (received,) = struct.unpack_from("=Q", info, _BYTES)
                (segments,) = struct.unpack_from("=I", info, _SEGMENTS)
                found[copy.getsockname()] = Received(received, segments)
    return found


def received_between(
    before: Mapping[tuple[object, ...], Received], after: Mapping[tuple[object, ...], Received]
) -> CountersReading:
    """What the sockets received from one look to the next; missing unless the same sockets were open at both."""
    counters = (Counter.RECEIVED_BYTES, Counter.SEGMENTS)
    if not before:
        return CountersReading(totals={}, missing=dict.fromkeys(counters, "no connection of the engine was open"))
    if before.keys() != after.keys():
        return CountersReading(totals={}, missing=dict.fromkeys(counters, "connections were closed and opened again"))
    return CountersReading(
        totals={
            Counter.RECEIVED_BYTES: sum(after[name].bytes - before[name].bytes for name in before),
            # The kernel's count of segments has 32 bits.
            Counter.SEGMENTS: sum((after[name].segments - before[name].segments) % 2**32 for name in before),
        }
    )
