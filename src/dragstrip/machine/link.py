"""What a machine's data link has carried and TCP has sent again so far, and what interrupts have taken of its cores."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

#: Bytes of each Ethernet frame that no interface counts: preamble 8, check sequence 4, gap 12 (IEEE 802.3).
FRAME_BYTES = 24

#: Columns of a core's line in /proc/stat: hardware and soft interrupts, in ticks (proc(5)).
_IRQ, _SOFTIRQ = 6, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkReading:
    """Counters since the boot, at one instant.

    Args:
        at_ns: CLOCK_MONOTONIC.
        received_bytes, sent_bytes: on the wire, frames with all that surrounds them.
        segments, retransmitted: of TCP, of the whole machine; without an acknowledgement's.
        interrupt_ns: of each core that was asked for, in 10 ms steps.
    """

    at_ns: int
    received_bytes: int
    sent_bytes: int
    segments: int
    retransmitted: int
    interrupt_ns: tuple[int, ...]


def device_towards(host: str) -> str:
    """The interface by which this machine reaches a host; "" where none is known. Sends nothing."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((host, 9))
        return device_of(way.getsockname()[0])
    return ""


def device_of(address: str) -> str:
    """The interface that has an IPv4 address; "" where none has it."""
    for name, known in psutil.net_if_addrs().items():
        if any(one.address == address for one in known):
            return str(name)
    return ""


def line_mbps(device: str) -> int:
    """An interface's line rate in Mbit/s, as its driver says; 0 where it says none, as virtual ones do."""
    with contextlib.suppress(OSError, ValueError):
        return max(int(Path(f"/sys/class/net/{device}/speed").read_text()), 0)
    return 0


def read_link(device: str, cores: Sequence[int]) -> LinkReading:
    """Reads all of it now; what can't be read is 0."""
    received_bytes, sent_bytes = _carried(device)
    segments, retransmitted = _tcp()
    return LinkReading(
        at_ns=time.monotonic_ns(),
        received_bytes=received_bytes,
        sent_bytes=sent_bytes,
        segments=segments,
        retransmitted=retransmitted,
        interrupt_ns=_interrupts(cores),
    )


def _carried(device: str) -> tuple[int, int]:
    """Of this network namespace, whatever /sys shows: received and sent, in bytes on the wire."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/net/dev").read_text().splitlines():
            name, _, counters = line.partition(":")
            if name.strip() == device:
                words = [int(word) for word in counters.split()]
                return words[0] + FRAME_BYTES * words[1], words[8] + FRAME_BYTES * words[9]
    return 0, 0


def _tcp() -> tuple[int, int]:
    with contextlib.suppress(OSError, ValueError):
        names, values = (
            line.split() for line in Path("/proc/self/net/snmp").read_text().splitlines() if line.startswith("Tcp:")
        )
        found = dict(zip(names, values, strict=True))
        return int(found.get("OutSegs", 0)), int(found.get("RetransSegs", 0))
    return 0, 0


def _interrupts(cores: Sequence[int]) -> tuple[int, ...]:
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    taken = dict.fromkeys(cores, 0)
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/stat").read_text().splitlines():
            words = line.split()
            core = words[0].removeprefix("cpu")
            if core.isdigit() and int(core) in taken:
                taken[int(core)] = (int(words[_IRQ]) + int(words[_SOFTIRQ])) * tick_ns
    return tuple(taken.values())
