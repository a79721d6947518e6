"""What happens on a racing machine during blocks: packets of a link, and CPU time of processes beside the race.

Packets have the kernel's own time. CPU times are sampled.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

from dragstrip.record import Race

#: setns(2): a network namespace. Sockets: packets of all kinds; the kernel's time of each, ns.
CLONE_NEWNET, ETH_P_ALL, SO_TIMESTAMPNS = 0x40000000, 3, 35

#: Seconds between two samples of CPU times.
SAMPLE_S = 0.1

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet of a link: when, by this machine's monotonic clock, and of which protocol or port."""

    at_ns: int
    kind: str


def _kind(frame: bytes) -> str:
    """The protocol of a frame; TCP and UDP with the lower port, which is the listening side's."""
    ethertype = int.from_bytes(frame[12:14])
    if ethertype == 0x0806:
        return "ARP"
    if ethertype == 0x86DD:
        return "IPv6"
    if ethertype != 0x0800:
        return f"ethertype {ethertype:#x}"
    name = {1: "ICMP", 2: "IGMP", 6: "TCP", 17: "UDP"}.get(frame[23], f"IP {frame[23]}")
    if name not in ("TCP", "UDP"):
        return name
    at = 14 + (frame[14] & 15) * 4
    return f"{name} {min(struct.unpack('!HH', frame[at : at + 4]))}"


class Link:
    """Records every packet of a namespace's link, in both directions, until it is left."""

    def __init__(self, namespace: str, link: str) -> None:
        self.packets: list[Packet] = []
        self._where, self._link = namespace, link
        self._ready, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._record, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10), "the link's socket was not opened"
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _record(self) -> None:
        """In a thread of its own, because the namespace is the thread's."""
        ahead_ns = time.time_ns() - time.monotonic_ns()
        with (Path("/run/netns") / self._where).open() as place:
            if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as heard:
            heard.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            heard.bind((self._link, 0))
            heard.settimeout(0.5)
            self._ready.set()
            while True:
                try:
                    frame, more, _, _ = heard.recvmsg(128, 128)
                except TimeoutError:
                    if self._ended.is_set():
                        return
                    continue
                seconds, rest_ns = struct.unpack("qq", more[0][2][:16])
                self.packets.append(Packet(seconds * 1_000_000_000 + rest_ns - ahead_ns, _kind(frame)))


def cpu_ns(pid: int) -> int:
    """The CPU time of a process with all its threads."""
    total = 0
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
    return total


def command(pid: int) -> list[str]:
    """The words of a process; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]
    return []


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


class BesideTheRace:
    """Processes of a machine that are not of its lab's race: sshd and its sessions, and what else a carrier has.

    Args:
        cgroup: the machine's.
    """

    def __init__(self, cgroup: Path) -> None:
        self._cgroup = cgroup
        self._racing: set[int] = set()

    def __call__(self) -> list[int]:
        """Their process ids now."""
        found: list[int] = []
        for file in self._cgroup.rglob("cgroup.procs"):
            with suppress(OSError):
                found += map(int, file.read_text().split())
        return [pid for pid in found if not self._races(pid)]

    def _races(self, pid: int) -> bool:
        """Whether a process is the race's, or was started by one that is."""
        if pid in self._racing:
            return True
        if pid < 2 or not ({"lab", "race", "--work"} <= set(command(pid)) or self._races(_parent(pid))):
            return False
        self._racing.add(pid)
        return True


def tree(root: int) -> set[int]:
    """A process and all that it has started."""
    with suppress(psutil.Error):
        return {root, *(child.pid for child in psutil.Process(root).children(recursive=True))}
    return set()


@dataclass
class Watch:
    """Samples the CPU time of processes until it is left.

    Args:
        pids: the processes, asked again for each sample. every_s: between two samples.
    """

    pids: Callable[[], Iterable[int]]
    every_s: float = SAMPLE_S
    names: dict[int, str] = field(default_factory=dict)
    _samples: list[tuple[int, int, dict[int, int]]] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(self.every_s):
            begun_ns, used = time.monotonic_ns(), {}
            for pid in self.pids():
                used[pid] = cpu_ns(pid)
                if pid not in self.names:
                    self.names[pid] = " ".join(command(pid))
            self._samples.append((begun_ns, time.monotonic_ns(), used))

    def during(self, spans: Sequence[Span], *, inside: bool = False) -> Counter[int]:
        """CPU time of each process that lived then, ns: from a sample before each span to the sample after it.

        Args:
            inside: only between samples that lie within one span, so that nothing of before or after it counts.
        """
        meets = _holds if inside else _touches
        found: Counter[int] = Counter()
        for (begun_ns, _, before), (_, ended_ns, after) in zip(self._samples, self._samples[1:], strict=False):
            if meets(spans, begun_ns, ended_ns):
                for pid, used in after.items():
                    found[pid] += used - before.get(pid, 0)
        return found

    def covers(self, spans: Sequence[Span]) -> bool:
        """Whether it has samples before the first span and after the last."""
        return bool(self._samples) and self._samples[0][0] <= spans[0][0] and self._samples[-1][1] >= spans[-1][1]


def _touches(spans: Sequence[Span], begun_ns: int, ended_ns: int) -> bool:
    """Whether a time touches one of these spans, which are in order and apart."""
    at = bisect_right(spans, (ended_ns, ended_ns))
    return at > 0 and spans[at - 1][1] >= begun_ns


def _holds(spans: Sequence[Span], begun_ns: int, ended_ns: int) -> bool:
    """Whether a time lies within one of these spans."""
    return any(begun <= begun_ns and ended_ns <= ended for begun, ended in spans)


def blocks(races: Iterable[Race], ahead_ns: int) -> list[Span]:
    """The blocks of races, by this machine's clock; the racing machine's clock is ahead by this much."""
    found = [
        (block.started_ns - ahead_ns, block.started_ns + block.duration_ns - ahead_ns)
        for race in races
        for round_ in race.rounds
        for block in round_.blocks
    ]
    return sorted(found)


def stretches(races: Iterable[Race], ahead_ns: int) -> list[Span]:
    """From the first to the last block of each round, by this machine's clock."""
    return [
        (min(block.started_ns for block in round_.blocks) - ahead_ns,
         max(block.started_ns + block.duration_ns for block in round_.blocks) - ahead_ns)
        for race in races for round_ in race.rounds if round_.blocks
    ]  # fmt: skip


def within(packets: Iterable[Packet], spans: Sequence[Span]) -> Counter[str]:
    """How many packets of each kind were sent during these spans."""
    return Counter(packet.kind for packet in packets if _touches(spans, packet.at_ns, packet.at_ns))
