"""Slurm as the way to a strip: one exclusive batch job for each slice, so that a race outlives its client.

The record is in the strip's outbox, as with every carrier. If a controller forgets a job, nothing is lost: the
outbox is looked into by a further job on the same machine, which waits until the machine is free.
"""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dragstrip.errors import MachineLost

#: Seconds between two looks at a job: the first, and the most; and for a reply of Slurm's commands.
LOOK_S, LONGEST_S, REPLY_S = 0.5, 5.0, 60.0

#: Seconds after which a controller that does not reply is given up.
CONTROLLER_S = 300.0


def words_now(options: Sequence[str], command: Sequence[str]) -> list[str]:
    """A command on the strip's machine, when it is free; its streams are here."""
    return ["srun", "--quiet", "--ntasks=1", "--exclusive", *options, *command]


def name_of(stem: str) -> str:
    """The name of an attempt's job."""
    return f"dragstrip-{stem}"


def run(
    strip: str,
    options: Sequence[str],
    command: Sequence[str],
    text: str,
    stem: str,
    folder: Path,
    limit_s: float,
    started: Callable[[Callable[[], None]], None],
) -> None:
    """Runs a command as a batch job, and waits for its end.

    Args:
        text: its input. stem: the attempt. folder: in which it starts.
        limit_s: seconds after its begin at which it is cancelled. started: receives what cancels it.

    Raises:
        MachineLost: Slurm refuses the job, or its controller is away.
    """
    name = name_of(stem)
    script = f"#!/bin/sh\nexec {shlex.join(command)} <<'DRAGSTRIP'\n{text}\nDRAGSTRIP\n"
    fixed = ["--parsable", "--exclusive", "--ntasks=1", "--no-requeue", "--output=/dev/null", f"--job-name={name}"]
    code, _, why = _asked(["sbatch", *fixed, f"--chdir={folder}", *options], script)
    if code != 0:
        cancel(name)  # it may have been accepted anyway
        raise MachineLost(strip, f"sbatch: {why}")
    started(lambda: cancel(name))
    wait(strip, name, limit_s)


def wait(strip: str, name: str, limit_s: float = float("inf")) -> None:
    """Waits until no job of that name is left.

    Raises:
        MachineLost: the controller is away.
    """
    pause_s, heard_s, ran_s = LOOK_S, time.monotonic(), 0.0
    while True:
        code, said, why = _asked(["squeue", "--noheader", f"--name={name}", "--format=%T"])
        now_s = time.monotonic()
        if code == 0:
            heard_s = now_s
            if not said:
                return
            ran_s += pause_s if "PENDING" not in said else 0.0
        elif now_s > heard_s + CONTROLLER_S:
            raise MachineLost(strip, f"squeue: {why}")
        if ran_s > limit_s:
            cancel(name)
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.3, LONGEST_S)


def cancel(name: str, *, waiting: bool = False) -> None:
    """Cancels jobs of that name; waiting: only those that have not begun."""
    _asked(["scancel", f"--name={name}", *(["--state=PENDING"] if waiting else [])])


def _asked(words: Sequence[str], text: str = "") -> tuple[int, str, str]:
    """A command of Slurm's: exit code, output, and the last line of its errors."""
    try:
        done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=REPLY_S, check=False)
    except subprocess.TimeoutExpired:
        return 1, "", f"no reply within {REPLY_S:g} s"
    except OSError as error:
        return 1, "", f"{words[0]} can't be run ({error.strerror})"
    return done.returncode, done.stdout.strip(), (done.stderr.strip().splitlines() or ["no reason given"])[-1][:300]
