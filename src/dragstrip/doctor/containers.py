"""Whether containers can be started and built on this machine: namespaces, bubblewrap, Podman and Docker."""

from __future__ import annotations

import csv
import os
import pwd
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from dragstrip import image
from dragstrip.doctor.finding import DoctorFinding, Subject, judged
from dragstrip.errors import NotReady

#: User ids that an image may use, which Podman needs for a user without root.
IDS_WANTED = 65_536

#: The kernel's settings that forbid user namespaces: the forbidding value, and what lets an ordinary user make them.
_SETTINGS = (
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor forbids it (usual on Ubuntu): sysctl kernel.apparmor_restrict_unprivileged_userns=0, an AppArmor "
        "profile with `userns` for bwrap, or root",
    ),
    ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
    ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1, or root"),
)


def findings(settings: Path = Path("/proc/sys"), subordinate: Path = Path("/etc/subuid")) -> Iterator[DoctorFinding]:
    """What was seen, in the order of the report.

    Args:
        settings: the folder of the kernel's settings. subordinate: the file of users' further ids.
    """
    yield _user_namespaces(settings)
    yield _bubblewrap()
    engines = [image.examined(name) for name in image.ENGINES]
    yield engines_finding(engines)
    if os.geteuid() != 0 and any(engine.program and engine.name == "podman" for engine in engines):
        yield subordinate_ids(pwd.getpwuid(os.geteuid()).pw_name, os.geteuid(), subordinate)


def _user_namespaces(settings: Path) -> DoctorFinding:
    refused = image.why_no_user_namespace()
    text = "this user can make them, so containers can start"
    if refused:
        text = f"this user can't make them, so no container can start: {refused}"
    return judged(Subject.USER_NAMESPACES, not refused, text, namespace_remedy(settings) if refused else "")


def namespace_remedy(settings: Path) -> str:
    """What lets this user make user namespaces, by the kernel's setting that refuses them."""
    for name, forbidding, remedy in _SETTINGS:
        try:
            if (settings / name).read_text(encoding="ascii").strip() == forbidding:
                return remedy
        except OSError:
            continue
    return "root, or a container that allows user namespaces (its filter of system calls may forbid it)"


def engines_finding(engines: Sequence[image.Examined]) -> DoctorFinding:
    """The engines that can give and build images."""
    texts, works = [], {engine.name: engine.program is not None and not engine.refused for engine in engines}
    for engine in engines:
        state = f"does not work ({engine.refused})" if engine.refused else "works"
        texts.append(f"{engine.name} {state if engine.program else 'is not installed'}")
    if not any(works.values()):
        texts.append("images then come from files of `docker save`, and none can be built here")
    passed = any(works.values()) or not any(engine.program for engine in engines)
    remedy = "start its daemon (`systemctl start docker`), or install podman, which needs none"
    return judged(Subject.ENGINES, passed, "; ".join(texts), remedy, {**works})


def _bubblewrap() -> DoctorFinding:
    try:
        program = image.bubblewrap()
        refused = image.tried()
    except NotReady:
        text = "not installed; only containers need it, and `dragstrip install bubblewrap` installs it"
        return judged(Subject.BUBBLEWRAP, True, text)
    text = f"{program} can't start a container: {refused}" if refused else f"{program} can start containers"
    return judged(Subject.BUBBLEWRAP, not refused, text, "root, or a machine that allows user namespaces")


def subordinate_ids(name: str, number: int, file: Path) -> DoctorFinding:
    """The further ids of a user, by a file like /etc/subuid (subuid(5))."""
    try:
        rows = list(csv.reader(file.read_text(encoding="utf-8", errors="replace").splitlines(), delimiter=":"))
    except OSError:
        rows = []
    mine = [row[2] for row in rows if len(row) == 3 and row[0] in (name, str(number)) and row[2].isdecimal()]
    count, tool = sum(map(int, mine)), shutil.which("newuidmap") is not None
    lacks = "" if tool else ", and `newuidmap` is missing"
    text = f"{name} has {count:,} further ids in /etc/subuid for Podman's containers{lacks}"
    remedy = "the package uidmap, and `usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER`"
    return judged(Subject.SUBORDINATE_IDS, count >= IDS_WANTED and tool, text, remedy, {"ids": count})
