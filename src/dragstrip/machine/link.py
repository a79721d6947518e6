"""Counters of a machine's data link: bytes, TCP retransmissions, and its cores' time in interrupts."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from dragstrip.machine.activity import interrupt_ns

#: Bytes of each Ethernet frame that no interface counts: preamble 8, check sequence 4, gap 12 (IEEE 802.3).
FRAME_BYTES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkReading:
    """Counters since the boot, at one instant.

    Args:
        at_ns: CLOCK_MONOTONIC.
        received_bytes, sent_bytes: on the wire, with the frames' overhead.
        segments, retransmitted: TCP segments of the whole machine, without pure acknowledgements.
        interrupt_ns: of each given core, in 10 ms steps.
    """

    at_ns: int
    received_bytes: int
    sent_bytes: int
    segments: int
    retransmitted: int
    interrupt_ns: tuple[int, ...]


def device_towards(host: str) -> str:
    """The interface by which this machine reaches a host; "" if none is known. Sends nothing."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((host, 9))
        return device_of(sock.getsockname()[0])
    return ""


def device_of(address: str) -> str:
    """The interface that has an IPv4 address; "" if none has it."""
    interfaces = psutil.net_if_addrs().items()
    return next((name for name, known in interfaces if address in [entry.address for entry in known]), "")


def line_mbps(device: str) -> int:
    """An interface's line rate in Mbit/s, as its driver reports it; 0 if unknown, as for virtual ones."""
    with contextlib.suppress(OSError, ValueError):
        return max(int(Path(f"/sys/class/net/{device}/speed").read_text()), 0)
    return 0


def read_link(device: str, cores: Sequence[int]) -> LinkReading:
    """Reads all counters now, in this network namespace; a counter that can't be read is 0."""
    carried = psutil.net_io_counters(pernic=True, nowrap=False).get(device)
    tcp: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/self/net/snmp").read_text().splitlines()
        names, values = (line.split() for line in lines if line.startswith("Tcp:"))
        tcp = dict(zip(names, values, strict=True))
    return LinkReading(
        at_ns=time.monotonic_ns(),
        received_bytes=carried.bytes_recv + FRAME_BYTES * carried.packets_recv if carried else 0,
        sent_bytes=carried.bytes_sent + FRAME_BYTES * carried.packets_sent if carried else 0,
        segments=int(tcp.get("OutSegs", 0)),
        retransmitted=int(tcp.get("RetransSegs", 0)),
        interrupt_ns=interrupt_ns(cores),
    )
