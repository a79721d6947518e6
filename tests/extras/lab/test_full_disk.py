"""A lab whose disks are full: the strip's, then its own. The message names the folder, and no cell is lost."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import re
import signal
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import labs
import pytest
from races import until
from stub_strip import filled

from dragstrip.extras.lab.strip_side import LEAST_FREE


def mounted(*folders: Path) -> bool:
    """Mounts a disk at each folder, in a namespace of this process; False if this system allows no namespace."""
    libc = ctypes.CDLL(None)
    if libc.unshare(0x20000) or libc.mount(None, b"/", None, 0x44000, None):
        return False
    for folder in folders:
        folder.mkdir()
        assert libc.mount(b"dragstrip", os.fsencode(folder), b"tmpfs", 0, f"size={2 * LEAST_FREE}".encode()) == 0
    return True


def lab_on_full_disks(at: Path) -> str:
    """Runs it; returns why it can't be run here."""
    lab, cache = at / "lab", at / "cache"
    if not mounted(lab, cache):
        return "a full disk needs a mount namespace"
    with labs.door(at) as door:
        file, log = labs.matrix(at, cells=3, strips=1, how=labs.VIA, door=door), at / "client.log"
        (at / "logs" / "fill-s0").touch()
        with labs.client(file, log=log) as first:
            until(lambda: "strip s0 rests" in log.read_text(), 120, "it said nothing")
            first.send_signal(signal.SIGINT)
        assert first.returncode == 130, log.read_text()
        work = cache / "labs" / "lab" / "s0"
        said = rf"continues by itself: {work}: no disk space left \([0-9.]+ MiB free\); make 16 MiB free there"
        assert re.search(said, log.read_text()), log.read_text()

        (at / "logs" / "fill-s0").unlink()
        (work / "cells" / "filler").unlink()
        filled(lab / "filler")
        with labs.client(file) as second:
            output, _ = second.communicate()
        assert second.returncode == 3, output.decode()
        assert f"{lab}" in output.decode()
        assert "no disk space left" in output.decode()
        assert "Traceback" not in output.decode()

        (lab / "filler").unlink()
        with labs.client(file) as third:
            output, _ = third.communicate()
        assert third.returncode == 0, output.decode()
        labs.assert_each_once(file, 3)
    return ""


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="a full disk needs a mount")
def test_a_full_disk_loses_no_cell_and_names_its_folder(tmp_path: Path) -> None:
    """The same command goes on when there is room again."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        if why := pool.submit(lab_on_full_disks, tmp_path).result():
            pytest.skip(why)
