"""Runs engines' commands outside of the user namespace that an ordinary user's race is in.

Rootless Podman makes user namespaces of its own, which fails within another, and a build downloads, which needs the
machine's network. So a small process stays outside. It runs a command at a time, and ends with this program.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from dragstrip.machine.bounded_command import Ended, bounded

#: Environment variable with the descriptor of the socket to the process outside.
VARIABLE = "DRAGSTRIP_OUTSIDE"

_PR_SET_PDEATHSIG = 1

_one_at_a_time = threading.Lock()


class _Outside:
    """The process outside, as this program sees it."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._file = socket.socket(fileno=descriptor).makefile("rw", encoding="utf-8")
        self._number = 0

    def run(self, command: Sequence[str], at_most_s: float, log: Path | None, more: Mapping[str, str]) -> Ended:
        with _one_at_a_time:
            self._number += 1
            order = {"number": self._number, "command": list(command), "at_most_s": at_most_s, "more": dict(more)}
            self._file.write(json.dumps(order | {"log": str(log) if log else None}) + "\n")
            self._file.flush()
            for line in self._file:
                report = json.loads(line)
                if report.pop("number") == self._number:  # otherwise Ctrl-C ended the wait for an earlier command
                    return Ended(**report)
        raise OSError("the process that runs container engines has ended")


_outside: _Outside | None = None


def begin() -> None:
    """Starts the process outside, and leaves its socket to the program that this process becomes."""
    ours, theirs = socket.socketpair()
    with ours:
        subprocess.Popen(
            [sys.executable, "-P", "-m", "dragstrip.image.outside", str(ours.fileno()), str(os.getpid())],
            pass_fds=[ours.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    theirs.set_inheritable(True)
    os.environ[VARIABLE] = str(theirs.detach())


def take() -> None:
    """Uses the process outside that the program before this one started, if there is one."""
    global _outside
    if descriptor := os.environ.pop(VARIABLE, None):
        _outside = _Outside(int(descriptor))


def run(
    command: Sequence[str], at_most_s: float, *, log: Path | None = None, more: Mapping[str, str] | None = None
) -> Ended:
    """Runs a command outside of the user namespace; here if this program is in none. The arguments are ``bounded``'s.

    Raises:
        OSError: it can't be started.
    """
    if _outside is not None:
        return _outside.run(command, at_most_s, log, more or {})
    return bounded(command, at_most_s, env={**os.environ, "LC_ALL": "C.UTF-8", **(more or {})}, log=log)


def main(descriptor: int, parent: int) -> None:
    """The process outside: runs the commands that come over the socket, until its other end is closed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    with socket.socket(fileno=descriptor).makefile("rw", encoding="utf-8") as orders:
        for line in orders:
            order = json.loads(line)
            log = Path(order["log"]) if order["log"] else None
            try:
                ended = run(order["command"], order["at_most_s"], log=log, more=order["more"])
            except OSError as error:
                ended = Ended(127, f"{order['command'][0]}: {error.strerror}", late=False)
            report = {"number": order["number"], "status": ended.status, "output": ended.output, "late": ended.late}
            with contextlib.suppress(BrokenPipeError):
                orders.write(json.dumps(report) + "\n")
                orders.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
