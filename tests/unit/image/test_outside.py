"""Engines' commands run in a process that stays outside of the user namespace, and ends with the program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

#: Starts the process outside, becomes another program as the command line does, and uses it.
PROGRAM = """\
import os, sys
from pathlib import Path
from dragstrip.image import engines, outside
if outside.VARIABLE not in os.environ:
    outside.begin()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
outside.take()
log = Path(sys.argv[1])
ended = engines.asked(["sh", "-c", "echo $PPID $MORE; exit 3"], 60, more={"MORE": "é"}, log=log)
print(ended.status, *ended.output.split(), ended.late)
print(engines.asked([str(log / "absent")], 60).status, engines.asked(["sleep", "600"], 0.2).late)
print(outside.VARIABLE in os.environ, flush=True)
os.kill(os.getpid(), 9)
"""


def test_commands_run_outside_and_the_process_there_ends_with_the_program(tmp_path: Path) -> None:
    log = tmp_path / "log"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(log)], capture_output=True, text=True, env=env, timeout=120, check=False
    )
    assert done.returncode == -9, done.stderr
    (status, pid, more, late), (absent, stopped), (still,) = map(str.split, done.stdout.splitlines())
    assert (status, more, late, absent, stopped, still) == ("3", "é", "False", "127", "True", "False")
    assert log.read_text().split() == [pid, more]
    outside = [one for one in psutil.process_iter() if one.pid == int(pid)]
    psutil.wait_procs(outside, timeout=60)
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in outside)
