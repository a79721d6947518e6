"""Runs a program that may hang or print without end: its time is limited, and only the end of its output is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dragstrip.paths import guarded

#: The lines of an output that a message shows, and the bytes that they are taken from.
TAIL_LINES, TAIL_BYTES = 15, 65_536


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended.

    Args:
        status: its exit status; negative: the signal that ended it.
        output: the end of what it printed on stdout and stderr.
        late: it did not end in time, and was killed.
    """

    status: int
    output: str
    late: bool

    @property
    def tail(self) -> str:
        """The last lines of its output, for a message."""
        return tail_of(self.output)


def tail_of(output: str) -> str:
    """The last lines of an output, for a message."""
    return "\n".join(output.strip().splitlines()[-TAIL_LINES:])


def bounded(
    command: Sequence[str],
    at_most_s: float,
    *,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> Ended:
    """Runs a program, and kills all processes of its session when it has ended or after a time, in seconds.

    If this process is killed, a shell kills them: a build would go on for minutes. The output is written to a file,
    because its length has no limit.

    Args:
        log: a file to which the whole output is added; None: only the end is kept.

    Raises:
        OSError: it can't be started.
    """
    with log.open("ab+") if log else tempfile.TemporaryFile() as output:
        before = output.seek(0, os.SEEK_END)
        running = subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        late = False
        with guarded('[ $killed = 0 ] || kill -s KILL -- "-$1"', str(running.pid)):
            try:
                running.wait(timeout=at_most_s)
            except subprocess.TimeoutExpired:
                late = True
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)
                running.wait()
        size = output.seek(0, os.SEEK_END)
        output.seek(max(size - TAIL_BYTES, before))
        return Ended(running.returncode, output.read().decode(errors="replace"), late)
