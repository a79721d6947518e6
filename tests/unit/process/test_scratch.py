"""The folder for everything that is thrown away goes with its process, however that ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import sys
from dragstrip.process.scratch import scratch_root
with scratch_root() as root:
    (root / "part").mkdir()
    (root / "part" / "file").write_text("x")
    print(root, flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("how", ["in order", "kill -9"])
def test_no_folder_outlives_its_process_though_no_supervisor_is_up(how: str) -> None:
    """Between rounds, and while a report is written, nobody else would remove it."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        root = Path(process.stdout.readline().strip())
        assert (root / "part" / "file").exists()
        if how == "kill -9":
            process.kill()
        else:
            process.stdin.close()
        process.wait()
        until = time.monotonic() + 60
        while root.exists() and time.monotonic() < until:
            time.sleep(0.01)
        assert not root.exists()
