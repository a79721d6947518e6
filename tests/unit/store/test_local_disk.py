"""Which folders are network folders, by the kernel's list of mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragstrip.errors import StoreError
from dragstrip.extras.lab.ledger import Ledger
from dragstrip.store import local_disk
from dragstrip.store.database import Store

MOUNTS = """
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 22 0:40 / /net rw,relatime shared:9 master:2 - nfs4 server:/export rw,vers=4.2
32 31 0:41 / /net/local rw,relatime - xfs /dev/vdb rw
33 22 0:42 / /my\\040share rw,relatime - cifs //server/share rw
34 22 0:43 / /far rw,relatime - fuse.sshfs host:/ rw
35 22 0:44 / /safe rw,relatime - fuse.gocryptfs /crypt rw
36 22 0:45 / /vm rw,relatime - 9p share rw
37 36 0:46 / /vm rw,relatime - tmpfs tmpfs rw
broken
""".replace("\\\\", "\\")


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/home/a.sqlite", ""),
        ("/net/a.sqlite", "nfs4"),
        ("/net", "nfs4"),
        ("/network/a.sqlite", ""),
        ("/net/local/a.sqlite", ""),
        ("/my share/deep/a.sqlite", "cifs"),
        ("/far/a.sqlite", "fuse.sshfs"),
        ("/safe/a.sqlite", ""),
        ("/vm/a.sqlite", ""),
    ],
)
def test_the_longest_and_latest_mount_counts(place: str, kind: str) -> None:
    assert local_disk.network_type(Path(place), MOUNTS) == kind


def test_stores_and_ledgers_there_are_refused_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is created."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"1 1 0:1 / {tmp_path} rw - nfs4 server:/export rw\n")
    monkeypatch.setattr(local_disk, "MOUNTS", mounts)
    for write in (True, False):
        with pytest.raises(StoreError, match=r"a\.sqlite is in a network folder \(nfs4\).*name another with --store"):
            Store(tmp_path / "a.sqlite", write=write)
    with pytest.raises(StoreError, match=r"the ledger .* is in a network folder"):
        Ledger(tmp_path)
    assert list(tmp_path.iterdir()) == [mounts]
