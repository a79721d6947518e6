"""Refuses databases in network folders: SQLite's locks and its shared memory work on one machine only."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from dragstrip.errors import StoreError

#: Types of file systems that several machines share, as the kernel names them.
NETWORK = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
        "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "wekafs",
    }
)  # fmt: skip

#: Programs behind FUSE that do the same; other programs, like encryption, stay on this machine.
NETWORK_PROGRAMS = frozenset(
    {
        "ceph-fuse", "curlftpfs", "davfs", "gcsfuse", "glusterfs", "goofys", "httpfs", "juicefs", "mount-s3", "rclone",
        "s3fs", "seaweedfs", "sshfs", "vmhgfs-fuse",
    }
)  # fmt: skip

MOUNTS = Path("/proc/self/mountinfo")


def refuse_network(path: Path, what: str, remedy: str) -> None:
    """Refuses a database in a network folder.

    Args:
        what: the database, as the message names it. remedy: what would be valid.

    Raises:
        StoreError: the type of its file system, and why.
    """
    mounts = ""
    with suppress(OSError):
        mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    if kind := network_type(path, mounts):
        raise StoreError(
            f"{what} {path} is in a network folder ({kind}), where SQLite's locks hold on one machine only and races "
            f"could be lost; {remedy} that is on a local disk, and copy races by `dragstrip export` and `dragstrip "
            "import`"
        )


def network_type(path: Path, mounts: str) -> str:
    """The type of the network file system that a path is on; "" if it is on another.

    Args:
        mounts: text of ``/proc/self/mountinfo``.
    """
    place, found, longest = os.path.realpath(path), "", -1
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if len(fields) < 5:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:  # of two at one point, the later one covers the other
            found, longest = kinds[0], len(point)
    kind, _, program = found.partition(".")
    return found if kind in NETWORK or (kind == "fuse" and program in NETWORK_PROGRAMS) else ""
