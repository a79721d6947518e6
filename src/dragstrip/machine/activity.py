"""How busy the machine is: its cores, threads and processes, its frequencies and its heat.

CPU shares come from ``/proc/stat`` (proc(5)) in steps of one clock tick (10 ms): accurate enough for tenths of seconds,
not for one block.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from dragstrip.machine import kernel_files

#: Seconds over which the share of busy time is read: five ticks per core.
WINDOW_S = 0.05

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def _ticks(cores: Iterable[int]) -> dict[int, list[int]]:
    """By core, if it is online, /proc/stat's counters: user nice system idle iowait irq softirq steal …"""
    names = {f"cpu{core}": core for core in cores}
    lines = (line.split() for line in (kernel_files.PROC / "stat").read_text().splitlines() if line.startswith("cpu"))
    return {names[name]: [int(word) for word in words] for name, *words in lines if name in names}


def steal_ns(cores: Iterable[int]) -> int:
    """Time that the hypervisor gave to other machines while these cores were ready to run, since boot, in 10 ms steps.

    Raises:
        OSError: /proc/stat cannot be read.
    """
    return sum(counters[7] for counters in _ticks(cores).values() if len(counters) > 7) * _TICK_NS


def busy_ns(cores: Iterable[int]) -> int:
    """Time that these cores were not idle (user, nice, system, interrupts, steal), since boot, in 10 ms steps.

    Raises:
        OSError: /proc/stat cannot be read.
    """
    # Fields 3 and 4 are idle and waiting for a disk; 8 and 9 are guests, counted in user already.
    return sum(sum(counters[:3]) + sum(counters[5:8]) for counters in _ticks(cores).values()) * _TICK_NS


def interrupt_ns(cores: Sequence[int]) -> tuple[int, ...]:
    """Time of each of these cores in hardware and soft interrupts, since boot, in 10 ms steps; 0 if unknown."""
    try:
        ticks = _ticks(cores)
    except OSError:
        ticks = {}
    return tuple(sum(ticks.get(core, ())[5:7]) * _TICK_NS for core in cores)


def load_average() -> tuple[float, float, float] | None:
    """Over 1, 5 and 15 minutes; None if unknown."""
    try:
        return os.getloadavg()
    except OSError:
        return None


def wait_for_quiet(
    cores: Sequence[int],
    *,
    busy_below: float = 0.12,
    at_most_s: float = 30.0,
    busy: Callable[[Iterable[int]], int] = busy_ns,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Waits until these cores have been idle enough over one window; returns the last share of busy time seen.

    Args:
        busy_below: the share that counts as quiet, 0 to 1; one tick of a 2-core window is 0.1.
        at_most_s: seconds after which it returns anyway; the share then shows that the cores were not quiet.
        busy, clock, sleep: replaced in tests.
    """
    until = clock() + at_most_s
    began, before = clock(), busy(cores)
    while True:
        sleep(WINDOW_S)
        now, after = clock(), busy(cores)
        share = (after - before) / max((now - began) * 1e9 * max(len(cores), 1), 1.0)
        if share < busy_below or now >= until:
            return min(share, 1.0)
        began, before = now, after


def thread_cpu_ns(schedstats: Iterable[str]) -> dict[str, int]:
    """CPU time of threads so far, by their ``/proc/PID/task/TID/schedstat``; ended threads are left out."""
    cpu_ns = {}
    for path in schedstats:
        with contextlib.suppress(OSError, ValueError, IndexError):
            cpu_ns[path] = int(Path(path).read_text().split()[0])
    return cpu_ns


def who_worked(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """How many processes and threads did the work between two readings of ``thread_cpu_ns``; "" if none did any.

    A thread counts if it did more than 0.5 % of the work: a pool of 32 is visible, a timer's thread is not.
    """
    spent = {path: cpu_ns - before.get(path, 0) for path, cpu_ns in after.items()}
    busy = [path for path, cpu_ns in spent.items() if cpu_ns > 0.005 * sum(spent.values())]
    if not busy:
        return ""
    processes = [len({path.split("/")[2] for path in paths}) for paths in (busy, spent)]
    return f"{processes[0]} of {processes[1]} processes, {len(busy)} of {len(spent)} threads"


def cpu_by_process(cores: Iterable[int]) -> dict[int, tuple[str, int]]:
    """Name and CPU time (ns, in 10 ms steps) of every process that last ran on one of these cores; proc(5)'s stat."""
    wanted, processes = set(cores), {}
    for folder in kernel_files.PROC.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                before, _, after = (folder / "stat").read_text(errors="replace").rpartition(")")
                words = after.split()  # from the third field on
                if int(words[36]) in wanted:
                    cpu_ns = (int(words[11]) + int(words[12])) * _TICK_NS
                    processes[int(folder.name)] = (before.partition("(")[2], cpu_ns)
    return processes


def frequencies_khz(cores: Iterable[int]) -> dict[int, int]:
    """Each core's frequency now; cores without a known frequency are left out (virtual machines)."""
    read = ((core, kernel_files.number(kernel_files.CPU / f"cpu{core}/cpufreq/scaling_cur_freq")) for core in cores)
    return {core: khz for core, khz in read if khz}


def throttled(cores: Iterable[int]) -> int | None:
    """How often heat has slowed these cores since boot; None if the kernel does not count it."""
    files = (kernel_files.CPU / f"cpu{core}/thermal_throttle/core_throttle_count" for core in cores)
    counts = [count for count in map(kernel_files.number, files) if count is not None]
    return sum(counts) if counts else None
