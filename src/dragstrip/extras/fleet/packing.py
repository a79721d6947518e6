"""Copies this machine's Dragstrip to another, with the packages that it needs, over the connection to its agent.

After copying, both machines run the same files, and the other machine needs no other network. It needs the same version
of Python, on the same kind of processor.
"""

from __future__ import annotations

import json
import platform
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import IO

from dragstrip.errors import EXTRAS, BadUsage, MachineLost
from dragstrip.extras.fleet.channel import words_for_shell
from dragstrip.extras.fleet.definition import Fleet, Machine
from dragstrip.extras.fleet.duties import PACKAGE, own_files

#: The Python that both machines run: compiled packages fit one minor version only.
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"

#: Seconds for a short command on a machine; for copying all files; for installing what contenders need.
ASK_S, COPY_S, INSTALL_S = 60.0, 900.0, 3600.0

#: Marks the line that a machine's Python prints about itself.
MARK = "dragstrip:"

#: The extras that go along as far as they are installed here: the servers' machine has the database and certificates.
_EXTRAS = frozenset(extra for extra, _ in EXTRAS.values())

_START = '#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/python" -P -m dragstrip "$@"\n'


@dataclass(frozen=True, slots=True)
class PackingStep:
    """One step on a machine.

    Args:
        script: for its ``sh``. sends: whether Dragstrip's files are sent to its stdin.
    """

    machine: Machine
    script: str
    within_s: float
    sends: bool = False


def files() -> Iterator[tuple[Path, str]]:
    """Every file to copy, and its place below ``site-packages``: Dragstrip's package and those that it needs."""
    for file in own_files():
        yield file, f"{PACKAGE.name}/{file.relative_to(PACKAGE)}"
    for package in _needed("dragstrip", {}).values():
        is_ours = package.metadata["Name"] == "dragstrip"
        for path in package.files or ():
            place = Path(str(package.locate_file(path)))
            wanted = path.parts[0] != ".." and "__pycache__" not in path.parts
            # Dragstrip's own files are above; only its name and version are taken from an editable install.
            if wanted and place.is_file() and (not is_ours or (".dist-info" in path.parts[0])):
                yield place, str(path)


def _needed(name: str, packages: dict[str, Distribution]) -> dict[str, Distribution]:
    """Adds a package and those that it needs, by name, without extras of others; skips those for other systems."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key not in packages:
        try:
            packages[key] = distribution(name)
        except PackageNotFoundError:
            return packages
        for line in packages[key].requires or ():
            needs = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", line)
            extra = re.search(r"""\bextra\s*==\s*["'](\w+)""", line)
            if needs and (extra is None or (key == "dragstrip" and extra[1] in _EXTRAS)):
                _needed(needs[0], packages)
    return packages


def plan(fleet: Fleet, contenders: tuple[str, ...]) -> list[PackingStep]:
    """The steps on all machines, in order.

    Args:
        contenders: their needs are installed on the servers' machine.

    Raises:
        BadUsage: a machine's command is not a path that a copy can be installed to.
    """
    steps = []
    for machine in fleet.machines:
        if not machine.ssh and not machine.via:
            continue  # it is this machine
        folder = _folder(machine)
        site = f"{folder}/lib/{PYTHON}/site-packages"
        start = f"cat > {folder}/bin/dragstrip && chmod +x {folder}/bin/dragstrip"
        steps += [
            PackingStep(machine, f"{PYTHON} -m venv --clear --without-pip {folder}", ASK_S),
            PackingStep(machine, f"tar -xzf - -C {site}", COPY_S, sends=True),
            PackingStep(machine, f"printf %s {shlex.quote(_START)} | ({start})", ASK_S),
        ]
    if contenders:
        command = " ".join(_home(word) for word in fleet.server.command)
        script = f"{command} install --yes {' '.join(map(shlex.quote, contenders))}"
        steps.append(PackingStep(fleet.server, script, INSTALL_S))
    return steps


def _folder(machine: Machine) -> str:
    """The folder of its copy, as its shell reads it: the folder above the command's own ``bin``."""
    command = machine.command
    place = Path(command[0])
    # The folder is emptied first: it must be Dragstrip's alone, never a home, /usr or /usr/local.
    if len(command) > 1 or place.parts[-3:] != ("dragstrip", "bin", "dragstrip"):
        raise BadUsage(
            f"{machine.name}: its copy goes to the folder of its command, and {' '.join(command)!r} has no folder of "
            'its own; set dragstrip = "~/dragstrip/bin/dragstrip" in the fleet\'s file'
        )
    return _home(str(place.parent.parent))


def _home(word: str) -> str:
    return f'"$HOME"/{shlex.quote(word[2:])}' if word.startswith("~/") else shlex.quote(word)


def refuse_others(fleet: Fleet) -> None:
    """Checks every machine's Python.

    Raises:
        BadUsage: a machine can't use this machine's packages. MachineLost: a machine can't be reached.
    """
    kind_here = _kind()
    for machine in {step.machine.name: step.machine for step in plan(fleet, ())}.values():
        ask = "import platform, sys; "
        ask += f"print({MARK!r}, platform.machine(), platform.libc_ver()[0], sys.implementation.name)"
        output = run(fleet, PackingStep(machine, f"{PYTHON} -I -c {shlex.quote(ask)}", ASK_S)).strip()
        mark, _, kind = output.partition(" ")
        if mark != MARK:
            raise BadUsage(
                f"{fleet.file}: {machine.name}: {reached(machine)} ran no {PYTHON} there, but printed "
                f"{output[:200]!r}; give the words that run the command that follows them, like "
                'via = ["kubectl", "exec", "-i", "POD", "--"]'
            )
        if kind != kind_here:
            raise BadUsage(
                f"{machine.name} has {PYTHON} on {kind}, and this machine on {kind_here}: compiled packages don't fit; "
                f"install Dragstrip there by hand, and name its command in {fleet.file}"
            )


def reached(machine: Machine) -> str:
    """How the fleet's file reaches a machine, for a message."""
    if machine.via:
        return f"via = {json.dumps(machine.via)}"
    return f"ssh = {json.dumps(machine.ssh)}" if machine.ssh else "this machine"


def _kind() -> str:
    return f"{platform.machine()} {platform.libc_ver()[0]} {sys.implementation.name}"


def run(fleet: Fleet, step: PackingStep, sent: IO[bytes] | None = None) -> str:
    """Does one step; returns its output.

    Args:
        sent: a file whose whole content is sent to its stdin.

    Raises:
        MachineLost: it failed, or took too long; the message has its last words.
    """
    words = words_for_shell(step.machine, fleet, step.script)
    if sent is not None:
        sent.seek(0)
    try:
        stdin = subprocess.DEVNULL if sent is None else sent
        done = subprocess.run(words, stdin=stdin, capture_output=True, text=True, timeout=step.within_s)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineLost(step.machine.name, f"{reached(step.machine)}: `{step.script}`: {error}") from error
    if done.returncode:
        words_at_end = "; ".join((done.stderr or done.stdout).strip().splitlines()[-4:])[:1000] or "(no output)"
        failed = f"{reached(step.machine)}: `{step.script}` ended with {done.returncode}: {words_at_end}"
        raise MachineLost(step.machine.name, failed)
    return done.stdout


@contextmanager
def packed() -> Iterator[IO[bytes]]:
    """All files as one archive, while the block lasts."""
    with tempfile.TemporaryFile() as place:
        with tarfile.open(fileobj=place, mode="w:gz", compresslevel=1) as archive:
            for file, name in files():
                archive.add(file, arcname=name, recursive=False)
        yield place


def carry_out(fleet: Fleet, steps: Sequence[PackingStep], say: Callable[[str], object]) -> None:
    """Does all steps, one after the other; ``say`` gets each before it begins.

    Raises:
        MachineLost: a step failed; the steps before it are done.
    """
    with packed() as archive:
        for step in steps:
            say(f"{step.machine.name}: {step.script}")
            run(fleet, step, archive if step.sends else None)
