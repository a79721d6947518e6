"""A signal ends a race even if the exception that tells so is lost."""

from __future__ import annotations

import os
import signal
import sys

import pytest
import samples
from rich.console import Console

from dragstrip import analysis
from dragstrip.commands.signals import EndedBySignal, as_interruptions
from dragstrip.report.race.live import LiveProgress


class Ending:
    """An object during whose finalizer a signal comes."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):  # the handler runs between two instructions
            pass


def test_a_signal_whose_exception_a_finalizer_swallowed_ends_the_race_after_the_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The interpreter only reports what a finalizer raises; the next round's end raises it again."""
    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: lost.append(unraisable.exc_type))
    race = samples.race()
    with LiveProgress(Console(quiet=True), quiet=True) as progress, as_interruptions() as interruption:
        progress.after_round = interruption.check
        progress.round_done(race, analysis.judge(race))
        ending = Ending()
        del ending
        assert lost == [EndedBySignal]
        with pytest.raises(EndedBySignal) as raised:
            progress.round_done(race, analysis.judge(race))
    assert raised.value.number is signal.SIGTERM


def test_signals_are_as_before_afterwards() -> None:
    """An interrupted command's own clean-up can be interrupted like any other."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(EndedBySignal), as_interruptions():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before
