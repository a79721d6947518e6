"""Installs contenders with the system's own package managers: shows every command first, then runs it.

As root on a Debian system it installs Debian's packages; otherwise PyPI or npm packages in a private environment below
the cache folder. Packages can't start their daemons during an installation.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from dragstrip.contender import Alternative, Entry, Install, environment
from dragstrip.errors import NotReady
from dragstrip.paths import NOWHERE

#: Debian's hook that decides whether a package may start its daemon (invoke-rc.d(8)).
POLICY = Path("/usr/sbin/policy-rc.d")

_OURS = "# Dragstrip put this here for the time of an installation."

#: Package lists that are older are fetched again before an installation.
FRESH_S = 24 * 3600

#: A Python that an unprivileged user may execute, for servers that run as ``nobody``.
SYSTEM_PYTHON = Path("/usr/bin/python3")


@dataclass(frozen=True, slots=True)
class Step:
    """One command and its purpose; ``env`` is added to this process's environment."""

    command: tuple[str, ...]
    purpose: str
    env: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return " ".join([*(f"{key}={value}" for key, value in self.env), shlex.join(self.command)])


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """All steps, and the contenders that can't be installed on this machine, with reason and remedy."""

    steps: tuple[Step, ...]
    impossible: tuple[str, ...] = ()

    def text(self) -> str:
        """The plan as text, with every command as it will run."""
        if not self.steps and not self.impossible:
            return "everything is installed already"
        lines = []
        for step in self.steps:
            lines += [f"# {step.purpose}", str(step)]
        if any(step.command[0] == "apt-get" for step in self.steps) and not _foreign_policy():
            lines.append(f"# {POLICY} keeps packages from starting their daemons; it is removed afterwards")
        return "\n".join([*lines, *(f"# can't be installed here: {line}" for line in dict.fromkeys(self.impossible))])


def plan(
    entries: Sequence[Entry],
    *,
    more: Mapping[str, str] = MappingProxyType({}),
    root: bool | None = None,
    apt: bool | None = None,
) -> InstallPlan:
    """The steps that make these contenders ready.

    Args:
        entries: contenders that are missing.
        more: further Debian packages; the keys are the names of what needs them.
        root, apt: whether this process is root, and on a Debian system; None: detect it.
    """
    root = os.geteuid() == 0 if root is None else root
    apt = shutil.which("apt-get") is not None if apt is None else apt
    debian: dict[str, list[str]] = {}
    private: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    impossible = []
    for name, package in more.items():
        if root and apt:
            debian.setdefault(package, []).append(name)
        else:
            impossible.append(f"{name}: {_why_not(Install(debian=(package,)), root)}")
    for entry in entries:
        if entry.contender is None:
            continue
        how = entry.contender.fields.install
        by_apt = bool(how.debian) and root and apt
        for package in how.debian if by_apt else ():
            debian.setdefault(package, []).append(entry.name)
        private_packages = Alternative(pip=how.pip, npm=how.npm)
        ways = [*(how.alternatives if how.debian and not by_apt else ()), private_packages]
        way = next((way for way in ways if way.pip or way.npm), None)
        if way:
            # PyPI and npm packages have separate folders, whose names `environment` derives from the packages.
            kinds = {(way.pip, ()): way.pip, ((), way.npm): way.npm, ((), how.npm): how.npm}
            for kind in (kind for kind, packages in kinds.items() if packages):
                private.setdefault(kind, []).append(entry.name)
        elif not by_apt:
            impossible.append(f"{entry.name}: {_why_not(how, root)}")
    steps = [*_apt_steps(debian)]
    for (pip, npm), names in private.items():
        steps += _private_steps(pip, npm, ", ".join(names), root)
    return InstallPlan(tuple(steps), tuple(impossible))


def _why_not(how: Install, root: bool) -> str:
    if how.debian and not root:
        command = "sudo apt-get install --no-install-recommends --no-remove"
        return f"its packages need root: {command} {' '.join(how.debian)}"
    return "no package manager of this machine provides it" + (f"; see {how.hint}" if how.hint else "")


def _apt_steps(packages: dict[str, list[str]]) -> Iterator[Step]:
    if not packages:
        return
    env = (("DEBIAN_FRONTEND", "noninteractive"),)
    lists = Path("/var/lib/apt/lists")
    files = [path for path in lists.glob("*_Packages*") if path.is_file()]
    if not files or time.time() - max(path.stat().st_mtime for path in (*files, lists)) >= FRESH_S:
        yield Step(("apt-get", "update"), "the package lists are absent or old", env)
    names = ", ".join(sorted({name for names in packages.values() for name in names}))
    # Some packages conflict with installed ones (LuaJIT's with OpenResty's, and so with nginx's Lua module): then the
    # installation fails and removes nothing.
    install = ("apt-get", "install", "-y", "--no-install-recommends", "--no-remove")
    yield Step((*install, *packages), f"for {names}", env)


def _private_steps(pip: Sequence[str], npm: Sequence[str], names: str, root: bool) -> Iterator[Step]:
    """Packages in a folder that only these contenders use."""
    folder = environment(pip or npm)
    purpose = f"a private environment for {names}"
    if not pip:
        yield Step(("npm", "install", "--no-fund", "--no-audit", "--prefix", str(folder), *npm), purpose)
        return
    base = str(SYSTEM_PYTHON) if root and SYSTEM_PYTHON.exists() else sys.executable
    yield Step((base, "-I", "-m", "venv", "--clear", "--without-pip", str(folder)), purpose)
    into = ("--python", str(folder / "bin" / "python3"))
    # pip would count the packages in PYTHONPATH as installed in the folder.
    yield Step((sys.executable, "-P", "-m", "pip", *into, "install", "--quiet", *pip), purpose, (("PYTHONPATH", ""),))


def carry_out(planned: InstallPlan, say: Callable[[str], object]) -> None:
    """Runs the steps in order.

    Raises:
        NotReady: a command failed; names the command and its exit status. The results of earlier steps stay.
    """
    for step in planned.steps:
        say(f"$ {step}")
        with _no_daemons() if step.command[0] == "apt-get" else nullcontext():
            try:
                # The umask lets an unprivileged user execute the programs of a private environment.
                done = subprocess.run(
                    step.command, env={**os.environ, **dict(step.env)}, stdout=subprocess.PIPE, text=True,
                    stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, errors="replace", umask=0o022, cwd=NOWHERE,
                )  # fmt: skip
            except OSError as error:
                raise NotReady(f"{step.command[0]} can't be run: {error.strerror} ({step.purpose})") from error
        if done.returncode:
            last = "\n".join(done.stdout.splitlines()[-15:])
            raise NotReady(f"{shlex.join(step.command)} failed with exit status {done.returncode}:\n{last}")


def _foreign_policy() -> bool:
    """Whether the system has a policy of its own, not one that a killed installation of Dragstrip left behind."""
    return POLICY.exists() and _OURS not in POLICY.read_text(errors="replace")


@contextmanager
def _no_daemons() -> Iterator[None]:
    """Installs a policy that forbids starting daemons, unless the system has one, and removes it at the end."""
    if os.geteuid() != 0 or _foreign_policy():
        yield
        return
    POLICY.write_text(f"#!/bin/sh\n{_OURS}\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)
