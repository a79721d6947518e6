"""Settings that the program inherits from its parent process, and undoes if they would break it."""

from __future__ import annotations

import os
import signal
import sys


def undo_unwanted() -> None:
    """Undoes inherited settings that would break the program; what a background job asks for stays.

    - No signal is blocked, and SIGTERM and SIGCHLD do what they do by default: with SIGCHLD ignored the kernel reaps
      every child itself, and each failed command would read as a success.
    - SIGINT that is ignored stays so in a background job (a shell ignores it there, so that the terminal's Ctrl-C hits
      the foreground alone); in the foreground of a terminal it is Ctrl-C again.

    SIGHUP stays as ``nohup`` set it. What servers get is decided by the launcher (``process.launcher``).
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGTERM, signal.SIGCHLD):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and in_foreground():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def in_foreground() -> bool:
    """Whether the program is in the foreground of its terminal; False if standard input is not a terminal."""
    try:
        return os.tcgetpgrp(sys.__stdin__.fileno()) == os.getpgrp() if sys.__stdin__ else False
    except (OSError, ValueError):
        return False
