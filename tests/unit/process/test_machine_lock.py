"""The locks of exclusive races: between processes, released by the kernel, and never a circle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dragstrip.errors import BadUsage
from dragstrip.process import machine_lock

HOLDER = """
import sys
from pathlib import Path
from dragstrip.process import machine_lock
with machine_lock.held(sys.argv[2:], print, [Path(sys.argv[1])]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_is_free_again_when_its_process_was_killed(tmp_path: Path) -> None:
    """Until then others wait and say so; other cores are free; the order of names does not matter."""
    said: list[str] = []
    command = [sys.executable, "-c", HOLDER, str(tmp_path), "core-0001", "core-0000"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with machine_lock.held(machine_lock.of_cores([2]), said.append, [tmp_path]):
            assert said == []

        def kill(line: str) -> None:
            said.append(line)
            holder.kill()

        with machine_lock.held(machine_lock.of_cores([1, 0]), kill, [tmp_path]):
            assert said == ["waits until another exclusive race has left core-0000"]


def test_a_folder_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    message = r"nowhere/dragstrip-x.lock: the machine's lock can't be created"
    with pytest.raises(BadUsage, match=message), machine_lock.held(["x"], print, [tmp_path / "nowhere"]):
        pass
