"""The folder for everything that is thrown away goes with its process, however that ends."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragstrip.process.scratch import scratch_root, sweep_stale

PROGRAM = """
import sys
from dragstrip.process.scratch import make_cgroup, remove_cgroup, scratch_root
with scratch_root() as root:
    (root / "part").mkdir()
    (root / "part" / "file").write_text("x")
    cgroup = make_cgroup(1)
    print(root, cgroup or root, flush=True)
    sys.stdin.readline()
    remove_cgroup(cgroup)
"""


KILLED = """
import os
from dragstrip.paths import temporary
with temporary() as folder:
    print(folder, flush=True)
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("how", ["in order", "kill -9"])
def test_neither_folder_nor_cgroup_outlives_its_process_though_no_supervisor_is_up(how: str) -> None:
    """Between rounds, while a report is written, or before a supervisor is up, nothing else would remove them."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        root, cgroup = map(Path, process.stdout.readline().split())
        assert (root / "part" / "file").exists()
        assert cgroup.exists()
        if how == "kill -9":
            process.kill()
        else:
            process.stdin.close()
        process.wait()
        until = time.monotonic() + 60
        while (root.exists() or cgroup.exists()) and time.monotonic() < until:
            time.sleep(0.01)
        assert not root.exists()
        assert not cgroup.exists()


def test_the_scratch_root_lets_others_pass_and_not_look() -> None:
    """0711, ours, named after us, and removed with what is in it."""
    with scratch_root() as root:
        about = root.stat()
        assert stat.S_IMODE(about.st_mode) == 0o711
        assert about.st_uid == os.geteuid()
        assert f"-{os.getpid()}-" in root.name
        (root / "a" / "b").mkdir(parents=True)
    assert not root.exists()


def test_sweeping_removes_only_what_a_dead_race_left() -> None:
    """A living race's root stays; so does a dead one's in which a process stands, until that one is gone."""
    dead = subprocess.Popen(["/bin/true"])
    dead.wait()
    stale, stood_in = (Path(f"/tmp/dragstrip-{dead.pid}-{word}") for word in ("stale", "stoodin"))
    for path in (stale, stood_in):
        path.mkdir()
    with subprocess.Popen(["/bin/sleep", "600"], cwd=stood_in) as standing, scratch_root() as ours:
        swept = sweep_stale()
        standing.kill()
        assert stale in swept
        assert stood_in not in swept
        assert ours.exists()
    assert not stale.exists()
    assert stood_in in sweep_stale()


@pytest.mark.parametrize("guarded", [False, True])
def test_a_killed_program_leaves_no_folder(*, guarded: bool) -> None:
    """A killed import's folder is swept by the next race; one for a contender's version is removed at once."""
    program = KILLED.replace("temporary()", "temporary(after_kill=':')") if guarded else KILLED
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    folder = Path(done.stdout.strip())
    assert folder.name.startswith("dragstrip-")
    if not guarded:
        assert folder.exists()
        sweep_stale()
    until = time.monotonic() + 60
    while folder.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not folder.exists()
