"""Scratch folders and cgroups of a race: makes them, and removes the leftovers of races that were cut off.

Their names have the main process's pid, which distinguishes a dead race's leftovers from folders in use.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from psutil import pid_exists

from dragstrip.paths import temporary
from dragstrip.process.supervisor import remove_tree

#: Where a tmpfs is mounted for every program (shm_overview(7)).
MEMORY = Path("/dev/shm")

#: Where scratch roots are made and swept, in addition to the user's own folder for temporary files.
BASES = (Path("/tmp"), MEMORY)

_CGROUP_MOUNTS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
_SCRATCH_NAME = re.compile(r"dragstrip-(\d+)-\w+")
_CGROUP_NAME = re.compile(r"dragstrip-(\d+)-\d+")


@contextlib.contextmanager
def scratch_root(base: Path | None = None) -> Iterator[Path]:
    """The race's directory for temporary files, removed at the end (or by the last supervisor).

    It is in /tmp, which every user may enter, and has mode 0711: a server that runs as ``nobody`` reaches its own
    folder and can't list the others. A shared lock on the directory shows that a process still uses it.

    Args:
        base: one of ``BASES`` instead of /tmp.
    """
    base = base or Path("/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else tempfile.gettempdir())
    names = f"dragstrip-{os.getpid()}-"
    # After a kill, also the cgroups that no server has joined yet.
    groups = " ".join(f"{shlex.quote(str(parent / names))}[0-9]*" for parent in _cgroup_parents())
    with temporary(base, after_kill=f"rmdir -- {groups}") as root:
        try:
            root.chmod(0o711)
            yield root
        finally:
            remove_tree(str(root))


def sweep_stale() -> list[Path]:
    """Removes scratch roots of races whose main process and supervisors are gone; returns the removed folders.

    It touches only folders with a scratch root's name, our owner and a dead process's pid, which no process locks or
    works in. It also removes empty cgroups of dead races.
    """
    swept: list[Path] = []
    for base in {*BASES, Path(tempfile.gettempdir())}:
        for root in base.glob("dragstrip-*"):
            with contextlib.suppress(OSError):
                if _is_stale(root):
                    remove_tree(str(root))
                    swept.append(root)
    for parent in _cgroup_parents():
        for cgroup in parent.glob("dragstrip-*"):
            match = _CGROUP_NAME.fullmatch(cgroup.name)
            if match and not pid_exists(int(match[1])):
                with contextlib.suppress(OSError):
                    cgroup.rmdir()  # the kernel refuses while a process is in it
    return swept


def _is_stale(root: Path) -> bool:
    match, about = _SCRATCH_NAME.fullmatch(root.name), root.lstat()
    if not match or root.is_symlink() or not root.is_dir() or about.st_uid != os.geteuid() or pid_exists(int(match[1])):
        return False
    lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if link.readlink().is_relative_to(root):
                return False
    return True


def _cgroup_parent(mount: Path) -> Path | None:
    """This process's cgroup below a cgroup v2 mount, for new cgroups; None if the mount isn't v2."""
    if not (mount / "cgroup.procs").exists():
        return None
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::") and (cgroup := mount / line[3:].lstrip("/")).is_dir():
                return cgroup
    return mount


def _cgroup_parents() -> list[Path]:
    return list(filter(None, map(_cgroup_parent, _CGROUP_MOUNTS)))


def make_cgroup(number: int) -> Path | None:
    """A new cgroup v2 that counts CPU time; None if none can be made. The supervisor removes it."""
    for parent in _cgroup_parents():
        cgroup = parent / f"dragstrip-{os.getpid()}-{number}"
        try:
            cgroup.mkdir()
        except OSError:
            continue
        with contextlib.suppress(OSError):
            if "usage_usec" in (cgroup / "cpu.stat").read_text() and os.access(cgroup / "cgroup.procs", os.W_OK):
                return cgroup
        remove_cgroup(cgroup)
    return None


def remove_cgroup(cgroup: Path | None) -> None:
    """Tries for at most a second: the kernel needs a moment after the last process has ended."""
    until = time.monotonic() + 1.0
    while cgroup is not None and cgroup.exists() and time.monotonic() < until:
        try:
            cgroup.rmdir()
        except OSError:
            time.sleep(0.005)


def strays(leader: int, scratch: Path) -> list[int]:
    """Processes of a launch whose supervisor is lost: in its session, or tied to its scratch folder (proc(5)'s stat).

    A process is tied if it works in that folder or has it in its environment (``TMPDIR``), like a daemon with its own
    session. A process with a terminal is not tied: a user may look around in the folder.
    """
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            session, terminal = map(int, (process / "stat").read_bytes().rpartition(b")")[2].split()[3:5])
            tied = terminal == 0 and (
                (process / "cwd").readlink().is_relative_to(scratch)
                or os.fsencode(scratch) in (process / "environ").read_bytes()
            )
            if tied or session == leader:
                pids.append(int(process.name))
    return [pid for pid in pids if pid != os.getpid()]
