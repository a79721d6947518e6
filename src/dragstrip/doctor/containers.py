"""Whether containers can be started and built on this machine: namespaces, bubblewrap, Podman and Docker."""

from __future__ import annotations

import csv
import os
import pwd
import shutil
from collections.abc import Iterator
from pathlib import Path

from dragstrip import image
from dragstrip.doctor.finding import (
    Bubblewrap,
    Engines,
    EngineState,
    Finding,
    NamespaceCause,
    Status,
    Subject,
    SubordinateIds,
    UserNamespaces,
)
from dragstrip.errors import NotReady

#: User ids that an image may use, which Podman needs for a user without root.
IDS_WANTED = 65_536

#: The kernel's settings that forbid user namespaces, with the forbidding value.
_SETTINGS = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", NamespaceCause.APPARMOR),
    ("user/max_user_namespaces", "0", NamespaceCause.NUMBER),
    ("kernel/unprivileged_userns_clone", "0", NamespaceCause.SWITCH),
)


def findings(settings: Path = Path("/proc/sys"), subordinate: Path = Path("/etc/subuid")) -> Iterator[Finding]:
    """What was seen, in the order of the report.

    Args:
        settings: the folder of the kernel's settings. subordinate: the file of users' further ids.
    """
    yield _user_namespaces(settings)
    yield _bubblewrap()
    engines = [image.examined(name) for name in image.ENGINES]
    states = tuple(EngineState(engine.name, engine.program is not None, engine.refused) for engine in engines)
    fails = [state for state in states if state.installed and state.refused]
    works = [state for state in states if state.installed and not state.refused]
    yield Finding(Subject.ENGINES, Status.WARN if fails and not works else Status.PASS, Engines(states))
    if os.geteuid() != 0 and any(state.installed and state.name == "podman" for state in states):
        yield subordinate_ids(pwd.getpwuid(os.geteuid()).pw_name, os.geteuid(), subordinate)


def _user_namespaces(settings: Path) -> Finding:
    refused = image.why_no_user_namespace()
    seen = UserNamespaces(cause_of(settings) if refused else None, refused or "")
    return Finding(Subject.USER_NAMESPACES, Status.WARN if refused else Status.PASS, seen)


def cause_of(settings: Path) -> NamespaceCause:
    """Why user namespaces are refused, by the kernel's settings."""
    for name, forbidding, cause in _SETTINGS:
        try:
            if (settings / name).read_text(encoding="ascii").strip() == forbidding:
                return cause
        except OSError:
            continue
    return NamespaceCause.OTHER


def _bubblewrap() -> Finding:
    try:
        program = image.bubblewrap()
        refused = image.tried()
    except NotReady:
        return Finding(Subject.BUBBLEWRAP, Status.PASS, Bubblewrap(None, ""))
    return Finding(Subject.BUBBLEWRAP, Status.WARN if refused else Status.PASS, Bubblewrap(program, refused))


def subordinate_ids(name: str, number: int, file: Path) -> Finding:
    """The further ids of a user, by a file like /etc/subuid (subuid(5))."""
    try:
        rows = list(csv.reader(file.read_text(encoding="utf-8", errors="replace").splitlines(), delimiter=":"))
    except OSError:
        rows = []
    mine = [row[2] for row in rows if len(row) == 3 and row[0] in (name, str(number)) and row[2].isdecimal()]
    seen = SubordinateIds(name, sum(map(int, mine)), shutil.which("newuidmap") is not None)
    return Finding(
        Subject.SUBORDINATE_IDS, Status.PASS if seen.count >= IDS_WANTED and seen.tool else Status.WARN, seen
    )
