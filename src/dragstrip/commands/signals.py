"""Signals that end a race: what was measured is kept, and a line says how to continue."""

from __future__ import annotations

import signal
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
