"""How a launch ended, as it is reported."""

from __future__ import annotations

import signal
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a launch ended.

    Args:
        exit_status: as ``subprocess`` gives it (negative: ended by that signal); None if unknown.
        died: it exited unexpectedly.
        cpu_ns: whole tree, whole life, what it takes to stop included; None if unreadable.
        peak_memory_bytes: sum of each living process's VmHWM just before the stop; None once it has died.
        how: what it took to end it, in words.
        left_over: processes that lived on after its main one, like "4711 (nginx)".
        log_tail: last lines of its output.
    """

    exit_status: int | None
    died: bool
    cpu_ns: int | None
    peak_memory_bytes: int | None
    how: str
    log_tail: str
    left_over: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.daemonized:
            return (
                f"its start command ended with exit status 0 while process {', '.join(self.left_over)}, which it "
                "started, lived on; start the server in the foreground"
            )
        if self.exit_status is None:
            return self.how
        if self.exit_status < 0:
            return f"killed by {_signal_name(-self.exit_status)}"
        return f"exit status {self.exit_status}"

    @property
    def daemonized(self) -> bool:
        """Whether what was started left a server in the background and ended well."""
        return self.died and self.exit_status == 0 and bool(self.left_over)


def _signal_name(number: int) -> str:
    """Like "SIGSEGV (Segmentation fault)"; real-time signals have a number only."""
    try:
        return f"{signal.Signals(number).name} ({signal.strsignal(number)})"
    except ValueError:
        return f"signal {number}"
