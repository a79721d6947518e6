"""Facts of this machine: processor, kernel, limits. A fact that cannot be read is None."""

from __future__ import annotations

import hashlib
import os
import platform
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dragstrip.machine import kernel_files
from dragstrip.machine.activity import load_average
from dragstrip.machine.cores import physical_cores, show_cores, siblings
from dragstrip.machine_facts import Facts, Limits

_CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")

_Fact = TypeVar("_Fact")


def facts() -> Facts:
    """The facts of this machine; a fact that cannot be read is None. Never raises."""
    cpuinfo, meminfo = kernel_files.PROC / "cpuinfo", kernel_files.PROC / "meminfo"
    return Facts(
        cpu=_known(lambda: kernel_files.field(cpuinfo, "model name") or platform.processor() or None),
        architecture=_known(platform.machine),
        cores_online=_known(lambda: kernel_files.read(kernel_files.CPU / "online")),
        cores_usable=_known(lambda: show_cores(_usable())),
        physical_cores=_known(lambda: tuple(show_cores(threads) for threads in physical_cores(_usable(), siblings))),
        governor=_known(lambda: kernel_files.read(kernel_files.CPU / "cpu0/cpufreq/scaling_governor")),
        frequency_khz=_known(lambda: kernel_files.number(kernel_files.CPU / "cpu0/cpufreq/scaling_cur_freq")),
        frequency_max_khz=_known(lambda: kernel_files.number(kernel_files.CPU / "cpu0/cpufreq/cpuinfo_max_freq")),
        turbo=_known(_turbo),
        memory_bytes=_known(lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        swap_bytes=_known(lambda: 1024 * int((kernel_files.field(meminfo, "SwapTotal") or "").split()[0])),
        kernel=_known(platform.release),
        distribution=_known(lambda: platform.freedesktop_os_release().get("PRETTY_NAME")),
        virtual=_known(_virtual),
        container=_known(lambda: _detect("--container")),
        boot=_known(_boot),
        clock_source=_known(lambda: kernel_files.read(_CLOCK_SOURCE)),
        mitigations=_known(_mitigations),
        load_average=_known(load_average),
        limits=_known(_limits),
        python=_known(platform.python_version),
    )


def _limits() -> Limits:
    soft, hard = (None if n == resource.RLIM_INFINITY else n for n in resource.getrlimit(resource.RLIMIT_NOFILE))
    net = kernel_files.PROC / "sys/net"
    ports = kernel_files.read(net / "ipv4/ip_local_port_range")
    return Limits(
        nofile_soft=soft,
        nofile_hard=hard,
        local_ports=tuple(int(word) for word in ports.split()) if ports else None,
        somaxconn=kernel_files.number(net / "core/somaxconn"),
        tcp_tw_reuse=kernel_files.number(net / "ipv4/tcp_tw_reuse"),
        tcp_max_syn_backlog=kernel_files.number(net / "ipv4/tcp_max_syn_backlog"),
    )


def _virtual() -> str | None:
    """The hypervisor's name; "unknown hypervisor" if only the processor shows that there is one; otherwise "none"."""
    name = _detect("--vm")
    if name not in (None, "none"):
        return name
    flags = (kernel_files.field(kernel_files.PROC / "cpuinfo", "flags") or "").split()
    return "unknown hypervisor" if "hypervisor" in flags else name or ("none" if flags else None)


def _detect(kind: str) -> str | None:
    """The output of systemd-detect-virt, which has exit status 1 for "none"."""
    done = subprocess.run(["systemd-detect-virt", kind], capture_output=True, text=True, timeout=2, check=False)
    return done.stdout.strip() or None


def _turbo() -> bool | None:
    """Whether the clock may rise above its base; then it depends on heat and on other cores' work."""
    no_turbo = kernel_files.number(kernel_files.CPU / "intel_pstate/no_turbo")
    boost = kernel_files.number(kernel_files.CPU / "cpufreq/boost")
    if no_turbo is not None:
        return no_turbo == 0
    return None if boost is None else boost == 1


def _mitigations() -> dict[str, str]:
    """The kernel's text on each known vulnerability of the processor; mitigations differ in cost per system call."""
    folder = kernel_files.CPU / "vulnerabilities"
    return {path.name: kernel_files.read(path) or "" for path in sorted(folder.iterdir())}


def _usable() -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(0)))


def _boot() -> str | None:
    """Distinguishes two boots without revealing the machine's own number."""
    boot_id = kernel_files.read(kernel_files.PROC / "sys/kernel/random/boot_id")
    return hashlib.sha256(boot_id.encode()).hexdigest()[:12] if boot_id else None


def _known(reader: Callable[[], _Fact | None]) -> _Fact | None:
    try:
        return reader()
    except Exception:  # no fact is worth failing a race, whatever kernel or container this is
        return None
