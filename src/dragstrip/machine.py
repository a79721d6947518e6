"""The machine: facts that make numbers comparable (or not), lanes for server and generator, and how busy it is.

Linux only; what cannot be read is None, never a guess. CPU shares come from ``/proc/stat`` (proc(5)), whose
steps are one clock tick (10 ms): good for tenths of seconds, not for one block.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import resource
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragstrip.errors import BadUsage

#: Seconds over which the share of busy time is read: five ticks per core.
WINDOW_S = 0.05
#: Generator cores chosen by default at most; four outrun any server that a single machine holds beside them.
ENGINE_CORES_AT_MOST = 4

_CPU = Path("/sys/devices/system/cpu")
_PROC = Path("/proc")
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Lanes:
    """Which cores serve and which generate load.

    Args:
        server, engine: core numbers, rising.
        shared: a core is in both; a warning on the parity sheet.
        note: what is not ideal about them, in words, "" if nothing.
    """

    server: tuple[int, ...]
    engine: tuple[int, ...]
    shared: bool
    note: str

    @property
    def all(self) -> tuple[int, ...]:
        """The race's cores, each once, rising."""
        return tuple(sorted({*self.server, *self.engine}))


def parse_cores(text: str, *, option: str = "cores") -> tuple[int, ...]:
    """Reads a core list in the kernel's notation, for example ``0-1,3``; rising, each once.

    Raises:
        BadUsage: it isn't one; ``option`` says whose it is.
    """
    cores: set[int] = set()
    for part in text.split(","):
        first, dash, last = (word.strip() for word in part.partition("-"))
        numbers = (first, last) if dash else (first, first)
        if not all(word.isascii() and word.isdigit() and len(word) < 6 for word in numbers):
            raise BadUsage(f"{option}: {text!r} is not a core list ({part.strip()!r}); give one such as 0-1,3")
        low, high = map(int, numbers)
        if low > high:
            raise BadUsage(f"{option}: {text!r} has the range {part.strip()} backwards; give {high}-{low}")
        cores |= set(range(low, high + 1))
    return tuple(sorted(cores))


def show_cores(cores: Iterable[int]) -> str:
    """The inverse of ``parse_cores``: runs of cores as ranges."""
    runs: list[list[int]] = []
    for core in sorted(set(cores)):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def siblings(core: int) -> tuple[int, ...]:
    """The hardware threads of the core that this one is on, itself included; itself alone if unknown."""
    text = _read(_CPU / f"cpu{core}/topology/thread_siblings_list")
    try:
        return parse_cores(text) if text else (core,)
    except BadUsage:
        return (core,)


def lanes(
    server: str | None,
    engine: str | None,
    *,
    allowed: Iterable[int] | None = None,
    threads_of: Callable[[int], Sequence[int]] = siblings,
) -> Lanes:
    """Divides the cores this process may use between server and generator.

    The rule: one hardware thread of each physical core is used (its siblings stay idle: their work would come and
    go with everyone else's); the engine takes the first half of the physical cores, four at most, the server the
    rest. So with two cores one each (engine 0, server 1), with four two each, with sixteen four and twelve. One
    physical core with two threads gives one each, with a note; one core alone is shared, with a warning.
    What is given is taken as given, the other lane then gets what is left.

    Args:
        server, engine: core lists ("0-1,3") or None.
        allowed, threads_of: this process's affinity mask and the topology; other machines' in tests.

    Raises:
        BadUsage: a list that isn't one, or has a core that this process may not use.
    """
    usable = tuple(sorted(os.sched_getaffinity(0) if allowed is None else allowed))
    given_server = _given(server, "--server-cores", usable)
    given_engine = _given(engine, "--engine-cores", usable)
    physical = _physical(usable, threads_of)
    if given_server and given_engine:
        return _noted(given_server, given_engine, threads_of)
    if given_server:
        left = _left(physical, given_server) or [core for core in usable if core not in given_server]
        return _noted(given_server, tuple(left[:ENGINE_CORES_AT_MOST]) or given_server[:1], threads_of)
    if given_engine:
        left = _left(physical, given_engine) or [core for core in usable if core not in given_engine]
        return _noted(tuple(left) or given_engine, given_engine, threads_of)
    firsts = [threads[0] for threads in physical]
    if len(firsts) == 1:
        firsts = list(usable[:2])  # two threads of one core, or one alone
    half = min(len(firsts) // 2, ENGINE_CORES_AT_MOST)
    return _noted(tuple(firsts[half:]), tuple(firsts[:half] or firsts), threads_of)


def _given(text: str | None, option: str, usable: tuple[int, ...]) -> tuple[int, ...]:
    if text is None:
        return ()
    cores = parse_cores(text, option=option)
    if strange := [core for core in cores if core not in usable]:
        raise BadUsage(
            f"{option}: {text} has core {show_cores(strange)}, which this process may not use; "
            f"choose from {show_cores(usable)}"
        )
    return cores


def _physical(usable: tuple[int, ...], threads_of: Callable[[int], Sequence[int]]) -> list[tuple[int, ...]]:
    """Usable hardware threads by physical core, in the order of the first one's number."""
    found: list[tuple[int, ...]] = []
    seen: set[int] = set()
    for core in usable:
        if core not in seen:
            found.append(tuple(sorted({core, *threads_of(core)} & set(usable))))
            seen |= set(found[-1])
    return found


def _left(physical: list[tuple[int, ...]], taken: tuple[int, ...]) -> list[int]:
    """The first thread of each physical core of which nothing is taken."""
    return [threads[0] for threads in physical if not set(threads) & set(taken)]


def _noted(server: tuple[int, ...], engine: tuple[int, ...], threads_of: Callable[[int], Sequence[int]]) -> Lanes:
    both = set(server) & set(engine)
    if both:
        return Lanes(server, engine, True, f"server and load generator share core {show_cores(both)}: they slow each "
                                           "other down, and capacity figures are those of the pair")  # fmt: skip
    neighbours = {core for core in server if set(threads_of(core)) & set(engine)}
    note = ""
    if neighbours:
        note = (f"server core {show_cores(neighbours)} and a generator core are hardware threads of one physical core: "
                "the generator's work slows the server down")  # fmt: skip
    return Lanes(server, engine, False, note)


def _ticks(cores: Iterable[int]) -> list[list[int]]:
    """For each of these cores, /proc/stat's counters: user nice system idle iowait irq softirq steal …"""
    wanted = {f"cpu{core}" for core in cores}
    lines = (line.split() for line in (_PROC / "stat").read_text().splitlines() if line.startswith("cpu"))
    return [[int(word) for word in words[1:]] for words in lines if words[0] in wanted]


def steal_ns(cores: Iterable[int]) -> int:
    """Time that the hypervisor gave to others while these cores wanted to run, since boot, in 10 ms steps.

    Raises:
        OSError: /proc/stat cannot be read.
    """
    return sum(counters[7] for counters in _ticks(cores) if len(counters) > 7) * _TICK_NS


def busy_ns(cores: Iterable[int]) -> int:
    """Time that these cores were not idle (user, nice, system, interrupts, steal), since boot, in 10 ms steps.

    Raises:
        OSError: /proc/stat cannot be read.
    """
    # Fields 3 and 4 are idle and waiting for a disk; 8 and 9 are guests, counted in user already.
    return sum(sum(counters[:3]) + sum(counters[5:8]) for counters in _ticks(cores)) * _TICK_NS


def load_average() -> tuple[float, float, float] | None:
    """Over 1, 5 and 15 minutes, None where unknown."""
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
    """Waits until these cores have been idle enough over one window; says the last share of busy time seen.

    Args:
        busy_below: the share that counts as quiet, 0 to 1; one tick of a 2-core window is 0.1.
        at_most_s: then it returns all the same, and the share says that it was not quiet.
        busy, clock, sleep: the world's; a test's own.
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


def facts() -> dict[str, Any]:
    """What is known of this machine, JSON-able; a fact that cannot be read is None. Never raises."""
    readers: dict[str, Callable[[], Any]] = {
        "cpu": lambda: _field(_PROC / "cpuinfo", "model name") or platform.processor() or None,
        "architecture": platform.machine,
        "cores_online": lambda: _read(_CPU / "online"),
        "cores_usable": lambda: show_cores(os.sched_getaffinity(0)),
        "physical_cores": lambda: [show_cores(threads) for threads in _physical(_usable(), siblings)],
        "governor": lambda: _read(_CPU / "cpu0/cpufreq/scaling_governor"),
        "frequency_khz": lambda: _number(_CPU / "cpu0/cpufreq/scaling_cur_freq"),
        "frequency_max_khz": lambda: _number(_CPU / "cpu0/cpufreq/cpuinfo_max_freq"),
        "turbo": _turbo,
        "memory_bytes": lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "swap_bytes": lambda: int((_field(_PROC / "meminfo", "SwapTotal") or "").split()[0]) * 1024,
        "kernel": platform.release,
        "distribution": lambda: platform.freedesktop_os_release().get("PRETTY_NAME"),
        "virtual": _virtual,
        "container": lambda: _detect("--container"),
        "boot": lambda: _hash(_read(_PROC / "sys/kernel/random/boot_id")),
        "clock_source": lambda: _read(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        "mitigations": _mitigations,
        "load_average": load_average,
        "limits": _limits,
        "python": platform.python_version,
    }
    return {name: _or_none(reader) for name, reader in readers.items()}


def _limits() -> dict[str, Any]:
    soft, hard = (None if n == resource.RLIM_INFINITY else n for n in resource.getrlimit(resource.RLIMIT_NOFILE))
    net = _PROC / "sys/net"
    ports = _read(net / "ipv4/ip_local_port_range")
    return {
        "nofile_soft": soft,
        "nofile_hard": hard,
        "local_ports": [int(word) for word in ports.split()] if ports else None,
        "somaxconn": _number(net / "core/somaxconn"),
        "tcp_tw_reuse": _number(net / "ipv4/tcp_tw_reuse"),
        "tcp_max_syn_backlog": _number(net / "ipv4/tcp_max_syn_backlog"),
    }


def _virtual() -> str | None:
    """The hypervisor's name, "unknown hypervisor" where only the processor says that there is one, else "none"."""
    named = _detect("--vm")
    if named not in (None, "none"):
        return named
    flags = (_field(_PROC / "cpuinfo", "flags") or "").split()
    return "unknown hypervisor" if "hypervisor" in flags else named or ("none" if flags else None)


def _detect(kind: str) -> str | None:
    """systemd-detect-virt's word; its exit status is 1 for "none"."""
    done = subprocess.run(["systemd-detect-virt", kind], capture_output=True, text=True, timeout=2, check=False)
    return done.stdout.strip() or None


def _turbo() -> bool | None:
    """Whether the clock may rise above its base: then it depends on heat and on the neighbours' cores."""
    no_turbo = _number(_CPU / "intel_pstate/no_turbo")
    boost = _number(_CPU / "cpufreq/boost")
    if no_turbo is not None:
        return no_turbo == 0
    return None if boost is None else boost == 1


def _mitigations() -> dict[str, str]:
    """The kernel's word on each known hole of the processor: they cost differently per system call."""
    folder = _CPU / "vulnerabilities"
    return {path.name: _read(path) or "" for path in sorted(folder.iterdir())}


def _usable() -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(0)))


def _hash(text: str | None) -> str | None:
    """Tells two boots apart without giving the machine's own number away."""
    return hashlib.sha256(text.encode()).hexdigest()[:12] if text else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _number(path: Path) -> int | None:
    text = _read(path)
    return int(text) if text else None


def _field(path: Path, key: str) -> str | None:
    """The first ``key: value`` of a file such as /proc/cpuinfo."""
    for line in (_read(path) or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None


def _or_none(reader: Callable[[], Any]) -> Any:
    try:
        value = reader()
    except Exception:  # a fact is worth no race; whatever kernel or container this is, it then reads "unknown"
        return None
    return list(value) if isinstance(value, tuple) else value


def thread_cpu_ns(schedstats: Iterable[str]) -> dict[str, int]:
    """CPU time of threads so far, by their ``/proc/PID/task/TID/schedstat``; those that have ended are left out."""
    found = {}
    for path in schedstats:
        with contextlib.suppress(OSError, ValueError, IndexError):
            found[path] = int(Path(path).read_text().split()[0])
    return found


def who_worked(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """How many processes and threads did the work between two readings of ``thread_cpu_ns``; "" if nothing was done.

    A thread counts from half a hundredth of all work on: a pool of 32 shows, a timer's thread does not.
    """
    spent = {path: cpu_ns - before.get(path, 0) for path, cpu_ns in after.items()}
    busy = [path for path, cpu_ns in spent.items() if cpu_ns > 0.005 * sum(spent.values())]
    if not busy:
        return ""
    processes = [len({path.split("/")[2] for path in paths}) for paths in (busy, spent)]
    return f"{processes[0]} of {processes[1]} processes, {len(busy)} of {len(spent)} threads"


def cpu_by_process(cores: Iterable[int]) -> dict[int, tuple[str, int]]:
    """Name and CPU time (ns, in 10 ms steps) of every process that last ran on one of these cores; proc(5)'s stat."""
    wanted, found = set(cores), {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                before, _, after = (folder / "stat").read_text(errors="replace").rpartition(")")
                words = after.split()  # from the third field on
                if int(words[36]) in wanted:
                    found[int(folder.name)] = (before.partition("(")[2], (int(words[11]) + int(words[12])) * _TICK_NS)
    return found


def frequencies_khz(cores: Iterable[int]) -> dict[int, int]:
    """Each core's frequency now; those that say nothing are left out (virtual machines)."""
    read = ((core, _number(_CPU / f"cpu{core}/cpufreq/scaling_cur_freq")) for core in cores)
    return {core: khz for core, khz in read if khz}


def throttled(cores: Iterable[int]) -> int | None:
    """How often heat has slowed these cores since boot; None where nobody says."""
    counts = [_number(_CPU / f"cpu{core}/thermal_throttle/core_throttle_count") for core in cores]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
