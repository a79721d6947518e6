"""What this machine is: processor, kernel, limits. A fact that cannot be read is None."""

from __future__ import annotations

import hashlib
import os
import platform
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dragstrip.machine import kernel_files
from dragstrip.machine.activity import load_average
from dragstrip.machine.cores import physical_cores, show_cores, siblings


def facts() -> dict[str, Any]:
    """What is known of this machine, JSON-able; a fact that cannot be read is None. Never raises."""
    readers: dict[str, Callable[[], Any]] = {
        "cpu": lambda: kernel_files.field(kernel_files.PROC / "cpuinfo", "model name") or platform.processor() or None,
        "architecture": platform.machine,
        "cores_online": lambda: kernel_files.read(kernel_files.CPU / "online"),
        "cores_usable": lambda: show_cores(os.sched_getaffinity(0)),
        "physical_cores": lambda: [show_cores(threads) for threads in physical_cores(_usable(), siblings)],
        "governor": lambda: kernel_files.read(kernel_files.CPU / "cpu0/cpufreq/scaling_governor"),
        "frequency_khz": lambda: kernel_files.number(kernel_files.CPU / "cpu0/cpufreq/scaling_cur_freq"),
        "frequency_max_khz": lambda: kernel_files.number(kernel_files.CPU / "cpu0/cpufreq/cpuinfo_max_freq"),
        "turbo": _turbo,
        "memory_bytes": lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "swap_bytes": lambda: (
            int((kernel_files.field(kernel_files.PROC / "meminfo", "SwapTotal") or "").split()[0]) * 1024
        ),
        "kernel": platform.release,
        "distribution": lambda: platform.freedesktop_os_release().get("PRETTY_NAME"),
        "virtual": _virtual,
        "container": lambda: _detect("--container"),
        "boot": lambda: _hash(kernel_files.read(kernel_files.PROC / "sys/kernel/random/boot_id")),
        "clock_source": lambda: kernel_files.read(
            Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        ),
        "mitigations": _mitigations,
        "load_average": load_average,
        "limits": _limits,
        "python": platform.python_version,
    }
    return {name: _or_none(reader) for name, reader in readers.items()}


def _limits() -> dict[str, Any]:
    soft, hard = (None if n == resource.RLIM_INFINITY else n for n in resource.getrlimit(resource.RLIMIT_NOFILE))
    net = kernel_files.PROC / "sys/net"
    ports = kernel_files.read(net / "ipv4/ip_local_port_range")
    return {
        "nofile_soft": soft,
        "nofile_hard": hard,
        "local_ports": [int(word) for word in ports.split()] if ports else None,
        "somaxconn": kernel_files.number(net / "core/somaxconn"),
        "tcp_tw_reuse": kernel_files.number(net / "ipv4/tcp_tw_reuse"),
        "tcp_max_syn_backlog": kernel_files.number(net / "ipv4/tcp_max_syn_backlog"),
    }


def _virtual() -> str | None:
    """The hypervisor's name, "unknown hypervisor" where only the processor says that there is one, else "none"."""
    named = _detect("--vm")
    if named not in (None, "none"):
        return named
    flags = (kernel_files.field(kernel_files.PROC / "cpuinfo", "flags") or "").split()
    return "unknown hypervisor" if "hypervisor" in flags else named or ("none" if flags else None)


def _detect(kind: str) -> str | None:
    """systemd-detect-virt's word; its exit status is 1 for "none"."""
    done = subprocess.run(["systemd-detect-virt", kind], capture_output=True, text=True, timeout=2, check=False)
    return done.stdout.strip() or None


def _turbo() -> bool | None:
    """Whether the clock may rise above its base: then it depends on heat and on the neighbours' cores."""
    no_turbo = kernel_files.number(kernel_files.CPU / "intel_pstate/no_turbo")
    boost = kernel_files.number(kernel_files.CPU / "cpufreq/boost")
    if no_turbo is not None:
        return no_turbo == 0
    return None if boost is None else boost == 1


def _mitigations() -> dict[str, str]:
    """The kernel's word on each known hole of the processor: they cost differently per system call."""
    folder = kernel_files.CPU / "vulnerabilities"
    return {path.name: kernel_files.read(path) or "" for path in sorted(folder.iterdir())}


def _usable() -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(0)))


def _hash(text: str | None) -> str | None:
    """Tells two boots apart without giving the machine's own number away."""
    return hashlib.sha256(text.encode()).hexdigest()[:12] if text else None


def _or_none(reader: Callable[[], Any]) -> Any:
    try:
        value = reader()
    except Exception:  # a fact is worth no race; whatever kernel or container this is, it then reads "unknown"
        return None
    return list(value) if isinstance(value, tuple) else value
