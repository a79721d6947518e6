"""A server that was already running: its processes on this machine, found by the socket at which it listens."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from dragstrip.contender import addresses_here, bracketed
from dragstrip.process.ports import holders, sockets_at
from dragstrip.process.processes_here import ProcessesHere, looked_at, user_name
from dragstrip.process.running import GRACE_S, AtAddress, ServerEnd
from dragstrip.process.supervisor import children, peak_memory_bytes

#: Programs that hold a socket for a server that runs elsewhere: their CPU time is not the server's.
FORWARDERS = frozenset({
    "docker-proxy", "kubectl", "pasta", "pasta.avx2", "rootlessport", "slirp4netns", "socat", "ssh", "sshd",
})  # fmt: skip

#: Programs that hold the socket of a service that they start; what else they start is not that service.
MANAGERS = frozenset({"systemd", "init"})

#: Words on the parity sheet.
PROCESS, CORES, CPU_TIME = "process", "cores", "CPU time"
NOT_PINNED = "not pinned: started by another user or program, before the race"


@dataclass
class FoundServer(ProcessesHere, AtAddress):
    """A server that was already running on this machine; it is read, and never pinned, frozen or stopped.

    Args:
        listening: its processes that have the socket open; () if they are not known.
        unknown: why they are not known; "" if they are.
    """

    listening: tuple[int, ...] = ()
    unknown: str = ""
    _ended: ServerEnd | None = field(default=None, repr=False)

    def pids(self) -> tuple[int, ...]:
        """Its processes now: those that listen, and their descendants without Dragstrip and its own."""
        below = looked_at() or children()
        living = {pid for family in below.values() for pid, _, state in family if state not in "ZX"}
        parents = {pid: parent for parent, family in below.items() for pid, _, _ in family}
        ours, pid = {os.getpid()}, os.getpid()
        while (pid := parents.get(pid, 0)) > 0:
            ours.add(pid)
        found, waiting = dict[int, None](), [pid for pid in reversed(self.listening) if pid in living]
        while waiting:
            found[waiting[-1]] = None
            families = below.get(waiting.pop(), ())
            waiting += [pid for pid, _, _ in families if pid in living and pid not in ours and pid not in found]
        return tuple(found)

    def alive(self) -> bool:
        return bool(self.unknown) or bool(self.pids())

    def usable_cores(self) -> int:
        cores = set[int]()
        for pid in self.pids():
            with contextlib.suppress(OSError):
                cores |= os.sched_getaffinity(pid)
        return len(cores)

    def facts(self) -> dict[str, str]:
        if self.unknown:
            return {CORES: NOT_PINNED, CPU_TIME: f"not known: {self.unknown}"}
        others = len(self.pids()) - 1
        more = f" and {others} more" if others > 0 else ""
        return {PROCESS: f"{_name_of(self.listening[0])}, pid {self.listening[0]}{more}", CORES: NOT_PINNED}

    def stop(self, *, grace_s: float = GRACE_S) -> ServerEnd:
        """Leaves it running."""
        if self._ended is None:
            died = not self.alive()
            peak = peak_memory_bytes(list(self.pids()))
            self._ended = ServerEnd(
                exit_status=None,
                died=died,
                how="its processes have ended" if died else "left running",
                log_tail="",
                counts={} if peak is None else {"peak_memory_bytes": peak},
            )
        return self._ended


def found_at(host: str, port: int) -> FoundServer:
    """The server that gets connections to this address, with its processes as far as this user may read them.

    Args:
        host: an IP address, or another machine's name.
    """
    if not addresses_here(host):
        return FoundServer(host, port, unknown="it runs on another machine")
    sockets = sockets_at(host, port)
    found = holders(sockets)
    managed = tuple(pid for pid in found if pid != os.getpid() and _name_of(pid) not in MANAGERS)
    if unknown := _why_unknown(f"{bracketed(host)}:{port}", sockets, found, managed):
        return FoundServer(host, port, unknown=unknown)
    return FoundServer(host, port, cpu_source="proc", listening=managed)


def _why_unknown(place: str, sockets: dict[str, int], found: Collection[int], servers: Collection[int]) -> str:
    """Why a server's processes are not known; "" if they are.

    Args:
        found: all processes that have its socket open. servers: without Dragstrip itself and service managers.
    """
    forwarder = next((pid for pid in servers if _name_of(pid) in FORWARDERS), None)
    if forwarder is not None:
        return f"{_name_of(forwarder)} (pid {forwarder}) listens at {place} for a server that runs elsewhere"
    if servers:
        return ""
    if found:
        pid = min(found)
        who = "Dragstrip's own process" if pid == os.getpid() else f"{_name_of(pid)} (pid {pid})"
        return f"{who} listens at {place}, which also does other work"
    if not sockets:
        return f"no process of this machine's own network listens at {place}; it may run in a container"
    owner, own = next(iter(sockets.values())), os.geteuid()
    if own == 0 or owner == own:
        return f"the process that listens at {place} can't be read, although it is {user_name(owner)}'s"
    return (
        f"the process that listens at {place} is {user_name(owner)}'s, which {user_name(own)} may not read; as that "
        "user or as root, Dragstrip may"
    )


def _name_of(pid: int) -> str:
    """A process's command name (proc(5), ``comm``); "?" if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "?"
