"""Signals: settings that the program inherits, and signals that end a race.

What was measured until such a signal is kept, and a line says how to continue.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: Signals that end a race; SIGINT is the terminal's Ctrl-C.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class EndedBySignal(KeyboardInterrupt):
    """An interruption that knows its signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = signal.Signals(number)


def number_of(error: BaseException) -> signal.Signals:
    """The signal behind an interruption; SIGINT if none is known."""
    return error.number if isinstance(error, EndedBySignal) else signal.SIGINT


class Interruption:
    """The signal that came, if one did; a context manager's value (``as_interruptions``)."""

    def __init__(self) -> None:
        self._number = 0

    def take(self, number: int) -> None:
        """Notes the signal, and raises it.

        Raises:
            EndedBySignal: always.
        """
        self._number = number
        raise EndedBySignal(number)

    def check(self) -> None:
        """Raises again if a signal came and the program still runs.

        A handler's exception is lost if the interpreter was about to run a finalizer or a callback of the garbage
        collector (``sys.unraisablehook``). Without this, a race that lost it would run to its end.

        Raises:
            EndedBySignal: a signal came.
        """
        if self._number:
            raise EndedBySignal(self._number)


@contextmanager
def as_interruptions() -> Iterator[Interruption]:
    """Raises ``EndedBySignal`` for each of ``ENDING`` that is not ignored; later signals except SIGINT are ignored."""
    before = {number: signal.getsignal(number) for number in ENDING}
    caught = [number for number in ENDING if before[number] not in (signal.SIG_IGN, None)]
    interruption = Interruption()

    def end(number: int, _frame: FrameType | None) -> None:
        for other in set(caught) - {signal.SIGINT}:
            signal.signal(other, signal.SIG_IGN)
        interruption.take(number)

    for number in caught:
        signal.signal(number, end)
    try:
        yield interruption
    finally:
        for number in caught:
            signal.signal(number, before[number])


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
